"""The whole evaluation: run what is missing, write the tables, judge the claims, draw the page."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from polars.exceptions import PolarsError

from outrule import threads
from outrule.errors import DataError
from outrule.evaluation import claims, page
from outrule.evaluation.grid import OWNER, Grid, Unit
from outrule.evaluation.results import Folder, Results, gather, write_results
from outrule.evaluation.stream import Progress, rounds_per_chunk
from outrule.evaluation.units import run_unit
from outrule.files import write_text

LIBRARIES = ("outrule", "numpy", "numba", "scipy", "polars")
Tell = Callable[[str, float], None]  # what is being done, and the share of all work that is done


def evaluate(
    grid: Grid, path: Path, *, n_jobs: int | None = None, tell: Tell = lambda *_: None
) -> Results:
    """Run what is not finished yet, and write the tables.

    After a kill, the same call continues after the last finished chunk of rounds.
    """
    threads.check_jobs(n_jobs, OWNER)
    with threads.using(n_jobs):
        for unit in grid.units():  # raises before anything is run
            k = 1 if unit.problem in ("best-action", "rejection") else 5
            rounds_per_chunk(grid, unit.n_items, grid.n_rules, k)
        finished = list(_run_units(grid, Folder(path, grid), tell))
        try:
            results = gather(grid, _provenance(finished), finished)
        except (LookupError, TypeError, ValueError, PolarsError):
            raise DataError(
                f"a file in {path / 'parts'} is damaged: delete the folder, and run this again."
            ) from None
    write_results(results, path)
    return results


def _run_units(grid: Grid, folder: Folder, tell: Tell) -> Iterator[dict[str, Any]]:
    units = grid.units()
    total, done = sum(map(_work, units)), 0.0
    for unit in units:
        tell(unit.name, done / total)

        def save(progress: Progress, unit: Unit = unit, done: float = done) -> None:
            folder.write(unit, "progress", progress.as_json())
            part = progress.round / grid.rounds
            # Later rounds take longer: they replay more patches.
            tell(unit.name, (done + part * (1 + part) / 2 * _work(unit)) / total)

        tables = folder.read(unit, "tables")
        if tables is None:
            tables = run_unit(unit, grid, folder.read(unit, "progress"), save)
            folder.write(unit, "tables", tables)
        yield tables
        done += _work(unit)


def _work(unit: Unit) -> float:
    """Roughly how long a unit takes, relative to best action with few items."""
    if unit.problem == "best-action":
        return 1 + unit.n_items / 25
    return 20.0 if unit.problem == "matching" else 12.0


def draw(results: Results, path: Path) -> list[claims.Claim]:
    """Judge the claims; write them, the figures and the page that shows both."""
    from outrule.evaluation import figures  # imports matplotlib, which is optional

    judged = claims.judge(results)
    write_text(path / "claims.md", claims.to_markdown(judged))
    drawn = figures.draw(results, path)
    write_text(path / "index.html", page.render(results, judged, drawn))
    return judged


def _provenance(finished: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "versions": {name: version(name) for name in LIBRARIES},
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "threads": threads.n_threads(),
        "seconds": sum(unit["units"]["seconds"][0] for unit in finished),
    }
