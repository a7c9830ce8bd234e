"""One unit, from drawing its data to its rows of the three tables."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from outrule.calibration.audit import OPTIMISER, Part, prepare
from outrule.calibration.check import Check, FixedStep, LineSearch, PrivateReuse, Reuse, Step
from outrule.calibration.loop import LoopSettings, Status, boost
from outrule.calibration.sources import SameData
from outrule.data.instances import Instances
from outrule.errors import DataError
from outrule.estimators.calibrator import DecisionCalibrator
from outrule.evaluation import stream
from outrule.evaluation.cases import EQUAL, MEASURES, Case, HeldOut, make_case
from outrule.evaluation.grid import Grid, Unit
from outrule.evaluation.stream import Progress, Track

REUSE: dict[tuple[str, str], tuple[Check, Step]] = {  # by the names in the table of runs
    ("reuse", "fixed"): (Reuse(), FixedStep()),
    ("reuse", "line search"): (Reuse(), LineSearch()),
    ("private reuse", "fixed"): (PrivateReuse(privacy=1.0, alert=1.0), FixedStep()),
}
Row = dict[str, Any]


def run_unit(
    unit: Unit, grid: Grid, saved: Mapping[str, Any] | None, save: Callable[[Progress], None]
) -> dict[str, dict[str, list[Any]]]:
    """Run a unit from where it was saved; ``save`` is called after every chunk.

    Returns the columns of its tables.
    """
    start = time.perf_counter()
    case = make_case(unit, grid.n_rules)
    held_out = HeldOut(case, grid.n_test)
    try:
        progress = stream.begin(grid, case, held_out, saved)
    except (LookupError, TypeError, ValueError, AttributeError):
        raise DataError(
            f"the saved progress of {unit.name} is damaged: delete its file in the folder 'parts'."
        ) from None
    start -= progress.seconds
    for _ in stream.advance(progress, grid, case, held_out):
        progress.seconds = time.perf_counter() - start
        save(progress)
    runs = [*_fresh_rows(progress, grid, held_out), *_commit_rows(progress, grid, held_out)]
    runs += reuse_rows(grid, case, held_out)
    world = {
        "n_rules": len(case.rules),
        "k": held_out.part.layout.k,
        "plain": held_out.plain,
        "half_plain": held_out.values(held_out.start())[1],
        "best_rule": float(held_out.rule_values.max()),
        "oracle": held_out.oracle,
        "squared_error": held_out.squared_error(held_out.start()),
        "n_solved": progress.n_solved,
        "seconds": time.perf_counter() - start,
    }
    trace = [
        _settings(track) | dict(zip(stream.TRACED, row, strict=True))
        for track in progress.tracks
        for row in track.trace
    ]
    tables = {"units": [world], "runs": runs, "trace": trace}
    return {name: _columns(rows, unit) for name, rows in tables.items()}


def _columns(rows: list[Row], unit: Unit) -> dict[str, list[Any]]:
    rows = [asdict(unit) | row for row in rows]
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _fresh_rows(progress: Progress, grid: Grid, held_out: HeldOut) -> Iterator[Row]:
    for track in progress.tracks:
        size = track.point.batch_size
        last = track.rounds[-1] + 1 if track.rounds else 0
        counts = _counts(size * grid.rounds, track.tests, last, "all rounds")
        row = {"check": "fresh batches", **_settings(track), **counts}
        row |= held_out.measure(track.held)
        yield row | (_take_apart(track, held_out) if size == max(grid.batch_sizes) else {})


def _take_apart(track: Track, held_out: HeldOut) -> Row:
    """What patches of rules and of the optimiser's own test do alone, and how level they leave it.

    ``n_level`` is the mean number of items within the last step of the highest prediction.
    """
    tests, steps = np.asarray(track.tests, np.int64), np.asarray(track.steps)
    own = tests == OPTIMISER
    rows = track.held.reshape(-1, held_out.n_items)
    near = abs(track.steps[-1]) if track.steps else 0.0
    level = (rows >= rows.max(axis=1, keepdims=True) - near).sum(axis=1).mean()
    return {
        "value_rules": held_out.value(held_out.patched(tests[~own], steps[~own])),
        "value_own": held_out.value(held_out.patched(tests[own], steps[own])),
        "n_own_down": int((steps[own] < 0).sum()),
        "n_level": float(level),
    }


def _commit_rows(progress: Progress, grid: Grid, held_out: HeldOut) -> Iterator[Row]:
    """The rule that is best on all batches together, and its value."""
    for size, sums in progress.rule_sums.items():
        counts = _counts(size * grid.rounds, [], 0, "all rounds")
        measured = held_out.measure_rule(int(np.argmax(sums)))
        yield {"check": "commit to the best rule", **counts, **measured}


def reuse_rows(grid: Grid, case: Case, held_out: HeldOut) -> Iterator[Row]:
    """Runs that see all their samples in every round; the rules decide once for all of them."""
    for size in grid.equal_batches:
        instances = case.instances(size * grid.rounds, EQUAL, size)
        part = prepare(instances, case.problem, case.rules)
        for (check, step), method in REUSE.items():
            for epsilon in grid.equal_epsilons:
                settings = {"check": check, "step": step, "epsilon": epsilon}
                yield settings | _reuse(part, *method, epsilon, grid.rounds, case, held_out)
        if size == min(grid.equal_batches):
            yield default_row(instances, case, held_out)


def default_row(instances: Instances, case: Case, held_out: HeldOut) -> Row:
    """The calibrator as users have it: cross-fitted start, rivals, and its own tolerance."""
    calibrator = DecisionCalibrator(case.problem, case.rules, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the status is in the table
        calibrator.fit(instances)
    patched = np.ravel(calibrator.predict(held_out.part.instances))
    tests = [patch.test for patch in calibrator.patches_]
    counts = _counts(len(instances), tests, len(tests), Status(calibrator.status_).value)
    return {"check": "default method", **counts, **held_out.measure(patched)}


def _reuse(
    part: Part, check: Check, step: Step, epsilon: float, rounds: int, case: Case, held_out: HeldOut
) -> Row:
    source = SameData(part, part.instances.prediction, case.problem)
    plan = LoopSettings(check, step, epsilon / 2, part.layout.k, rounds)
    n = len(part.layout)
    try:
        boosted = boost(source, case.rules, plan, np.random.default_rng(case.seed))
    except DataError:  # the noise of PrivateReuse would be larger than the tolerance
        return _counts(n, [], 0, "refused") | dict.fromkeys(MEASURES)
    tests = [patch.test for patch in boosted.patches]
    last = max((row.round + 1 for row in boosted.history if row.test is not None), default=0)
    patched = held_out.patched(tests, [patch.step for patch in boosted.patches])
    counts = _counts(n, tests, last, Status(boosted.status).value)
    return counts | held_out.measure(patched)


def _settings(track: Track) -> Row:
    point = track.point
    return {"step": point.name, "epsilon": point.epsilon, "batch_size": point.batch_size}


def _counts(n_samples: int, tests: Sequence[int], last: int, status: str) -> Row:
    return {
        "n_samples": n_samples,
        "n_patches": len(tests),
        "n_own": sum(test == OPTIMISER for test in tests),
        "last_patch": last,
        "status": status,
    }
