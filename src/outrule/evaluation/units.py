"""A unit from its world to its rows of the tables, with a place to rest after every chunk."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from outrule.calibration.audit import OPTIMISER
from outrule.calibration.check import FixedStep, PrivateReuse, Step
from outrule.evaluation import stream
from outrule.evaluation.cases import make_case
from outrule.evaluation.equal_samples import Reused, compare
from outrule.evaluation.held_out import HeldOut, Measured
from outrule.evaluation.settings import Settings, Unit
from outrule.evaluation.stream import Progress

Row = dict[str, Any]
Rest = Callable[[Progress], None]


def run_unit(unit: Unit, settings: Settings, progress: Progress | None, rest: Rest) -> Row:
    """Run a unit, from where it was left; ``rest`` hears of its progress after every chunk."""
    before, start = (progress.seconds if progress else 0.0), time.perf_counter()
    case = make_case(unit, settings.n_rules)
    held_out = HeldOut(case, settings.n_test)
    progress = progress or stream.begin(settings, case)
    for _ in stream.advance(progress, settings, case, held_out):
        progress.seconds = before + time.perf_counter() - start
        rest(progress)
    runs = [*_fresh_rows(progress, settings, held_out), *_commit_rows(progress, settings, held_out)]
    if settings.is_first(unit.seed):
        runs += [_reused_row(run) for run in compare(settings, case, held_out)]
    seconds = before + time.perf_counter() - start
    world = {
        "n_rules": len(case.rules),
        "k": held_out.part.layout.k,
        "plain": held_out.plain,
        "best_rule": float(held_out.rule_values.max()),
        "oracle": held_out.oracle,
        "squared_error": held_out.squared_error(held_out.start()),
        "n_solved": progress.n_solved,
        "seconds": seconds,
    }
    return {
        "units": _columns([world], unit),
        "runs": _columns(runs, unit),
        "trace": _columns(_trace_rows(progress), unit),
    }


def _fresh_rows(progress: Progress, settings: Settings, held_out: HeldOut) -> Iterator[Row]:
    for line, track in progress.tracks.items():
        tests = np.asarray(track.tests, dtype=np.int64)
        prediction = held_out.start()
        held_out.patch(prediction, tests, np.asarray(track.steps))
        yield {
            "check": "fresh batches",
            "step": _name(line.step),
            "epsilon": 2 * line.tolerance,
            "batch_size": line.batch_size,
            "n_samples": line.batch_size * settings.rounds,
            "n_patches": len(tests),
            "n_own": int((tests == OPTIMISER).sum()),
            "last_patch": track.rounds[-1] + 1 if track.rounds else 0,
            "status": "all rounds",
            **held_out.measure(prediction)._asdict(),
        }


def _commit_rows(progress: Progress, settings: Settings, held_out: HeldOut) -> Iterator[Row]:
    """The rule that is best on all batches together, and what it is worth."""
    for size, sums in progress.rule_sums.items():
        yield {
            "check": "commit to the best rule",
            "step": None,
            "epsilon": None,
            "batch_size": None,
            "n_samples": size * settings.rounds,
            "n_patches": 0,
            "n_own": 0,
            "last_patch": 0,
            "status": "all rounds",
            **held_out.measure_rule(int(np.argmax(sums)))._asdict(),
        }


def _reused_row(run: Reused) -> Row:
    row = asdict(run) | {
        "check": "private reuse" if isinstance(run.check, PrivateReuse) else "reuse",
        "step": _name(run.step),
        "batch_size": None,
    }
    del row["measured"]
    measured = run.measured
    return row | (measured._asdict() if measured else dict.fromkeys(Measured._fields))


def _trace_rows(progress: Progress) -> list[Row]:
    return [
        {
            "step": _name(line.step),
            "epsilon": 2 * line.tolerance,
            "batch_size": line.batch_size,
            **point._asdict(),
        }
        for line, track in progress.tracks.items()
        for point in track.trace
    ]


def _name(step: Step) -> str:
    return "fixed" if isinstance(step, FixedStep) else "line search"


def _columns(rows: list[Row], unit: Unit) -> dict[str, list[Any]]:
    rows = [asdict(unit) | row for row in rows]
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}
