"""Finished units and the progress of unfinished ones on disk, so that a killed run can continue."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import outrule
from outrule.errors import DataError
from outrule.evaluation.grid import Grid, Unit
from outrule.evaluation.results import FORMAT, read_json
from outrule.files import write_text

# Fields of the grid that only say which units there are: a folder may get more of them.
CHOICE = ("problems", "items", "regimes", "seeds", "matching_seeds")
KINDS = {"tables": ".json", "progress": ".progress.json"}  # of a finished unit, or of another


class Folder:
    """Where results go; raises if it is not writable, or holds parts of another evaluation."""

    def __init__(self, path: Path, grid: Grid):
        self.parts, self.grid = path / "parts", grid
        try:
            self.parts.mkdir(parents=True, exist_ok=True)
            for unit in grid.units():
                for kind in KINDS:
                    self._check(unit, kind)
        except OSError as error:
            raise DataError(
                f"results cannot be written to {path}: {error.strerror}. Choose another folder."
            ) from error

    def _check(self, unit: Unit, kind: str) -> None:
        file = self._file(unit, kind)
        content = read_json(file)
        if content and content.get("made") != self._made(unit):
            raise DataError(
                f"{file} was made with other settings, or by another version of outrule. "
                "Choose another folder, or delete it."
            )

    def _made(self, unit: Unit) -> dict[str, Any]:
        """All on which the results of a unit depend."""
        fields = {name: v for name, v in self.grid.as_json().items() if name not in CHOICE}
        first = self.grid.is_first(unit.seed)
        return {"format": FORMAT, "outrule": outrule.__version__, "first": first, "grid": fields}

    def _file(self, unit: Unit, kind: str) -> Path:
        return self.parts / f"{unit.name}{KINDS[kind]}"

    def read(self, unit: Unit, kind: str) -> dict[str, Any] | None:
        """The tables or the progress of a unit, if they are there."""
        return read_json(self._file(unit, kind)).get(kind)

    def write(self, unit: Unit, kind: str, content: Mapping[str, Any]) -> None:
        """Keep the tables or the progress of a unit; a finished one needs no progress."""
        whole = {"made": self._made(unit), kind: content}
        write_text(self._file(unit, kind), json.dumps(whole, allow_nan=False))
        if kind == "tables":
            self._file(unit, "progress").unlink(missing_ok=True)
