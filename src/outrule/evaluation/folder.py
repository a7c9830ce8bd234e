"""The folder of a run: units and their progress, in files that are whole or do not count."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import outrule
from outrule.errors import DataError
from outrule.evaluation.settings import Settings, Unit
from outrule.evaluation.stream import Progress, TracePoint, Track
from outrule.evaluation.tables import RUNS, TRACE, UNITS, Results, as_plain
from outrule.files import whole_file, write_text

FORMAT = 1
# settings that only say which units there are
CHOICE = ("problems", "items", "regimes", "seeds", "matching_seeds")


class Folder:
    """Where results go; opening it refuses what cannot be written, or holds something else."""

    def __init__(self, path: Path, settings: Settings):
        self.path, self.parts, self.settings = path, path / "parts", settings
        try:
            self.parts.mkdir(parents=True, exist_ok=True)
            self._check_mark()
            for unit in settings.units():
                self._check_part(unit)
            write_text(self.path / "settings.json", json.dumps(self._mark(), indent=1))
        except OSError as error:
            raise DataError(
                f"results cannot be written to {path}: {error.strerror}. Choose another folder."
            ) from error

    def _mark(self) -> dict[str, Any]:
        plain = as_plain(self.settings)
        return {"format": FORMAT, "outrule": outrule.__version__, "settings": plain}

    def _check_mark(self) -> None:
        if not (self.path / "settings.json").exists():
            return
        mark = read_json(self.path / "settings.json")
        if mark.get("format") != FORMAT or mark.get("outrule") != outrule.__version__:
            raise DataError(
                f"{self.path} holds results of outrule {mark.get('outrule', 'of unknown version')}"
                f", and this is {outrule.__version__}. Choose another folder, or delete that one."
            )

    def _check_part(self, unit: Unit) -> None:
        for path in (self._finished(unit), self._progress(unit)):
            content = read_json(path)
            if content and content.get("grid") != self._grid(unit):
                raise DataError(
                    f"{path} was made with other settings. Choose another folder, or delete it."
                )

    def _grid(self, unit: Unit) -> dict[str, Any]:
        plain = as_plain(self.settings)
        plain["first"] = self.settings.is_first(unit.seed)
        return {name: value for name, value in plain.items() if name not in CHOICE}

    def _finished(self, unit: Unit) -> Path:
        return self.parts / f"{unit.name}.json"

    def _progress(self, unit: Unit) -> Path:
        return self.parts / f"{unit.name}.progress.json"

    def read_unit(self, unit: Unit) -> dict[str, Any] | None:
        """The tables of a finished unit."""
        return read_json(self._finished(unit)).get("tables")

    def write_unit(self, unit: Unit, tables: Mapping[str, Any]) -> None:
        """Keep a finished unit; its progress is no longer needed."""
        content = {"grid": self._grid(unit), "tables": tables}
        write_text(self._finished(unit), json.dumps(content, allow_nan=False))
        self._progress(unit).unlink(missing_ok=True)

    def read_progress(self, unit: Unit) -> Progress | None:
        """Where a unit was left."""
        content = read_json(self._progress(unit))
        if not content:
            return None
        lines = [
            line
            for size in self.settings.batch_sizes
            for line in self.settings.lines(size, unit.seed)
        ]
        tracks = [
            Track(track["rounds"], track["tests"], track["steps"], [TracePoint(*p) for p in points])
            for track in content["tracks"]
            for points in [track["trace"]]
        ]
        sums = [np.asarray(values) for values in content["rule_sums"]]
        return Progress(
            content["round"],
            dict(zip(lines, tracks, strict=True)),
            dict(zip(self.settings.batch_sizes, sums, strict=True)),
            content["n_solved"],
            content["seconds"],
        )

    def write_progress(self, unit: Unit, progress: Progress) -> None:
        """Keep where a unit is."""
        content = {
            "grid": self._grid(unit),
            "round": progress.round,
            "tracks": [vars(track) for track in progress.tracks.values()],
            "rule_sums": [sums.tolist() for sums in progress.rule_sums.values()],
            "n_solved": progress.n_solved,
            "seconds": progress.seconds,
        }
        write_text(self._progress(unit), json.dumps(content, allow_nan=False))


def write_results(results: Results, path: Path) -> None:
    """The three tables as Parquet, and all but the trace as JSON."""
    for name, frame in (("units", results.units), ("runs", results.runs), ("trace", results.trace)):
        with whole_file(path / f"{name}.parquet") as draft:
            frame.write_parquet(draft, compression="zstd")
    content = {
        "format": FORMAT,
        "settings": as_plain(results.settings),
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
        plain: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in content["settings"].items()
        }
        settings = Settings(**plain)
        tables = [
            pl.read_parquet(path / f"{name}.parquet").select(*schema)
            for name, schema in (("units", UNITS), ("runs", RUNS), ("trace", TRACE))
        ]
        return Results(settings, content["provenance"], *tables)
    except (OSError, ValueError, TypeError, LookupError, pl.exceptions.PolarsError) as error:
        raise DataError(f"the results in {path} are damaged: {error}") from error


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file; empty where there is none that is whole."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
