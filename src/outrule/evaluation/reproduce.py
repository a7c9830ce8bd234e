"""The whole evaluation: settings and a folder enter; tables, claims, figures and a page leave."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from outrule import threads
from outrule.evaluation import claims, figures, page
from outrule.evaluation.folder import Folder, write_results
from outrule.evaluation.settings import Settings, Unit
from outrule.evaluation.stream import Progress, rounds_per_chunk
from outrule.evaluation.tables import Results, gather
from outrule.evaluation.units import run_unit
from outrule.files import write_text

LIBRARIES = ("outrule", "numpy", "numba", "scipy", "polars")
Hear = Callable[[str, float], None]  # what is being done, and the share of all work that is done


def evaluate(
    settings: Settings, path: Path, *, n_jobs: int | None = None, hear: Hear | None = None
) -> Results:
    """Run what is not yet there, and write the tables.

    Killed in the middle, the same call goes on after the last finished chunk of rounds.
    """
    threads.check_jobs(n_jobs, "reproduce")
    with threads.using(n_jobs):
        for unit in settings.units():
            check_memory(unit, settings)
        folder = Folder(path, settings)
        finished = list(_run_units(settings, folder, hear or _deaf))
        results = gather(settings, _provenance(finished), finished)
    write_results(results, path)
    return results


def _run_units(settings: Settings, folder: Folder, hear: Hear) -> Iterator[dict[str, Any]]:
    units = settings.units()
    total, done = sum(_work(unit) for unit in units), 0.0
    for unit in units:
        hear(unit.name, done / total)

        def rest(progress: Progress, unit: Unit = unit, done: float = done) -> None:
            folder.write_progress(unit, progress)
            share = progress.round / settings.rounds
            hear(unit.name, (done + share * _work(unit)) / total)

        tables = folder.read_unit(unit)
        if tables is None:
            tables = run_unit(unit, settings, folder.read_progress(unit), rest)
            folder.write_unit(unit, tables)
        yield tables
        done += _work(unit)


def _deaf(words: str, share: float) -> None:
    pass


def draw(results: Results, path: Path) -> list[claims.Claim]:
    """Judge the claims; write them, the figures and the page that shows both."""
    judged = claims.judge(results)
    write_text(path / "claims.md", claims.table(judged))
    drawn = figures.draw(results, path)
    write_text(path / "index.html", page.render(results, judged, drawn))
    return judged


def check_memory(unit: Unit, settings: Settings) -> None:
    """Refuse batches that memory does not hold, before anything is run."""
    most = 1 if unit.problem in ("best-action", "rejection") else 5
    rounds_per_chunk(settings, unit.n_items, settings.n_rules, most)


def _work(unit: Unit) -> float:
    """About how long a unit takes, in units of a best action of a few items."""
    if unit.problem == "best-action":
        return 1 + unit.n_items / 45
    return 5.0 if unit.problem == "matching" else 4.0


def _provenance(finished: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "versions": {name: version(name) for name in LIBRARIES},
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "threads": threads.n_threads(),
        "seconds": sum(unit["units"]["seconds"][0] for unit in finished),
    }
