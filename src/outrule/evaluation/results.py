"""The three tables of results, and the files of a run, which can continue after a kill."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl

import outrule
from outrule.data.table_files import read_table
from outrule.errors import DataError
from outrule.evaluation.grid import PAPER_PROBLEMS, Grid, Unit
from outrule.files import whole_file, write_text

FORMAT = 2
# Fields of the grid that only say which units there are: a folder may get more of them.
CHOICE = ("problems", "items", "regimes", "seeds", "other_seeds")
KINDS = {"tables": ".json", "progress": ".progress.json"}  # of a finished unit, or of another
TEXT, COUNT, REAL = pl.String, pl.Int64, pl.Float64
UNIT = {"problem": TEXT, "n_items": COUNT, "regime": TEXT, "seed": COUNT}
TABLES: dict[str, dict[str, type[pl.DataType]]] = {  # docs/evaluation.md describes the columns
    "units": UNIT
    | dict.fromkeys(("n_rules", "k"), COUNT)
    | dict.fromkeys(("plain", "half_plain", "best_rule", "oracle", "squared_error"), REAL)
    | {"n_solved": COUNT, "seconds": REAL},
    "runs": UNIT
    | {"check": TEXT, "step": TEXT, "epsilon": REAL, "batch_size": COUNT, "n_samples": COUNT}
    | {"n_patches": COUNT, "n_own": COUNT, "last_patch": COUNT, "status": TEXT}
    | dict.fromkeys(("value", "gap", "gap_error", "improvement"), REAL)
    | {"squared_error": REAL, "largest_violation": REAL}
    | {"value_rules": REAL, "value_own": REAL, "n_own_down": COUNT, "n_level": REAL},
    "trace": UNIT
    | {"step": TEXT, "epsilon": REAL, "batch_size": COUNT}
    | dict.fromkeys(("round", "n_patches", "n_own"), COUNT)
    | dict.fromkeys(("squared_error", "value", "half_value"), REAL),
}


@dataclass(frozen=True, eq=False)
class Results:
    """What a run of the evaluation found."""

    grid: Grid
    provenance: Mapping[str, Any]  # versions, machine and wall time
    units: pl.DataFrame
    runs: pl.DataFrame
    trace: pl.DataFrame

    @property
    def fixed(self) -> pl.DataFrame:
        """The runs on fresh batches with the fixed step, as in the paper."""
        return self.runs.filter(check="fresh batches", step="fixed")

    @property
    def paper(self) -> pl.DataFrame:
        """Those of the paper's problems."""
        return self.fixed.filter(pl.col("problem").is_in(PAPER_PROBLEMS))

    def by_regime(self) -> dict[str, Results]:
        """The results of each regime that has any."""
        return {
            regime: replace(
                self, **{name: getattr(self, name).filter(regime=regime) for name in TABLES}
            )
            for regime in self.units["regime"].unique(maintain_order=True)
        }


def gather(
    grid: Grid, provenance: Mapping[str, Any], finished: Sequence[Mapping[str, Any]]
) -> Results:
    """Stack the tables of all units; each unit holds columns by name."""
    tables = [
        pl.concat([pl.DataFrame(unit[name], schema=schema) for unit in finished])
        for name, schema in TABLES.items()
    ]
    return Results(grid, provenance, *tables)


def write_results(results: Results, path: Path) -> None:
    """The three tables as Parquet, and all but the trace as JSON."""
    for name in TABLES:
        with whole_file(path / f"{name}.parquet") as draft:
            getattr(results, name).write_parquet(draft, compression="zstd")
    content = {
        "format": FORMAT,
        "settings": results.grid.as_json(),
        "provenance": results.provenance,
        "units": results.units.to_dicts(),
        "runs": results.runs.to_dicts(),
    }
    write_text(path / "results.json", json.dumps(content, indent=1, allow_nan=False))


def read_results(path: Path) -> Results:
    """Results as they were written, to draw them again."""
    content = read_json(path / "results.json")
    if content.get("format") != FORMAT:
        raise DataError(f"{path} holds no results that this version of outrule can read.")
    try:
        settings: dict[str, Any] = content["settings"]
        for name, value in settings.items():
            settings[name] = tuple(value) if isinstance(value, list) else value
        tables = [
            read_table(path / f"{name}.parquet").select(*columns)
            for name, columns in TABLES.items()
        ]
        return Results(Grid(**settings), content["provenance"], *tables)
    except (OSError, ValueError, TypeError, LookupError, pl.exceptions.PolarsError) as error:
        raise DataError(f"the results in {path} are damaged: {error}") from error


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file; empty if there is no complete one."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


class Folder:
    """Where results go; raises if it is not writable, or holds parts of another evaluation."""

    def __init__(self, path: Path, grid: Grid):
        self.parts, self.grid = path / "parts", grid
        try:
            self.parts.mkdir(parents=True, exist_ok=True)
            for unit, kind in product(grid.units(), KINDS):
                file = self._file(unit, kind)
                content = read_json(file)
                if content and content.get("made") != self._made:
                    raise DataError(
                        f"{file} was made with other settings, or by another version of outrule. "
                        "Choose another folder, or delete it."
                    )
        except OSError as error:
            raise DataError(
                f"results cannot be written to {path}: {error.strerror}. Choose another folder."
            ) from error

    @property
    def _made(self) -> dict[str, Any]:
        """All on which the results of a unit depend."""
        fields = {name: v for name, v in self.grid.as_json().items() if name not in CHOICE}
        return {"format": FORMAT, "outrule": outrule.__version__, "grid": fields}

    def _file(self, unit: Unit, kind: str) -> Path:
        return self.parts / f"{unit.name}{KINDS[kind]}"

    def read(self, unit: Unit, kind: str) -> dict[str, Any] | None:
        """The tables or the progress of a unit, if they are there."""
        return read_json(self._file(unit, kind)).get(kind)

    def write(self, unit: Unit, kind: str, content: Mapping[str, Any]) -> None:
        """Keep the tables or the progress of a unit; a finished one needs no progress."""
        whole = {"made": self._made, kind: content}
        write_text(self._file(unit, kind), json.dumps(whole, allow_nan=False))
        if kind == "tables":
            self._file(unit, "progress").unlink(missing_ok=True)
