"""Spec files: a TOML file with problem, columns and rules enters, a frozen Spec leaves."""

from outrule.model.spec.reading import read_spec
from outrule.model.spec.settings import Multipliers, Spec

__all__ = ["Multipliers", "Spec", "read_spec"]
