"""Compiled loops over flat arrays; they use nothing above them in the package.

Loading them loads Numba, which takes a second, so each is loaded when it is first used: write
``from outrule import kernels`` and ``kernels.tally.residuals(...)``.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any as _Any

if TYPE_CHECKING:
    from outrule.kernels import (
        assignment as assignment,
        best as best,
        curves as curves,
        greedy as greedy,
        matching as matching,
        overlap as overlap,
        patching as patching,
        picking as picking,
        tally as tally,
        trees as trees,
    )


def __getattr__(name: str) -> _Any:
    try:
        return _import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
