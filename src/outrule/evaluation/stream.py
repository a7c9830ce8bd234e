"""All runs of a unit on fresh batches, with the patches that each run finds.

All runs see the same stream of instances: a round with batch size b sees the first b instances of
the round's block. So the decisions of the rules, which depend on neither epsilon nor batch size,
are made once. The stream is cut into chunks of rounds, and runs of one batch size go through a
chunk together, on one thread. The length of a chunk and the number of threads change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from outrule import threads
from outrule.calibration.audit import OPTIMISER, Audit, Part, prepare
from outrule.calibration.check import flag_largest
from outrule.errors import refuse_argument
from outrule.evaluation.batches import Batches
from outrule.evaluation.cases import Case, HeldOut
from outrule.evaluation.grid import OWNER, Grid, Point
from outrule.types import Floats

# Rounds between two measurements on the held-out instances: in the first so many, and later.
FIRST_ROUNDS, TRACE_FIRST, TRACE_EVERY = 64, 4, 16
CHUNK = 32  # rounds at most whose instances are in memory
CHUNK_BYTES = 2**30  # for the instances of a chunk
ROUND_BYTES = 4 * 2**30  # at most, for those of a single round
GROUP = 7  # runs on a thread: they, and a prediction of zero, are summed side by side
TRACED = ("round", "n_patches", "n_own", "squared_error", "value", "half_value")
SAVED = ("rounds", "tests", "steps", "trace")  # fields of a track


@dataclass
class Track:
    """What one run has found so far; ``rounds[i]`` is the round that found patch i."""

    point: Point
    rounds: list[int] = field(default_factory=list)
    tests: list[int] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)
    trace: list[list[float]] = field(default_factory=list)  # rows of TRACED
    # Predictions of the held-out instances, with the first so many patches.
    held: Floats = field(default_factory=lambda: np.empty(0), compare=False)
    n_held: int = field(default=0, compare=False)
    # Predictions of the instances of a chunk. The memory is reused from chunk to chunk, because
    # fresh memory costs more than a copy.
    seen: Floats = field(default_factory=lambda: np.empty(0), compare=False)


@dataclass
class Progress:
    """How far a unit has come: enough to continue it."""

    round: int
    tracks: list[Track]
    rule_sums: dict[int, Floats]  # by batch size: of the rules' values over all batches so far
    n_solved: int = 0  # instances that the optimiser has decided
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """What ``begin`` continues from."""
        return {
            "round": self.round,
            "tracks": [{name: getattr(track, name) for name in SAVED} for track in self.tracks],
            "rule_sums": [sums.tolist() for sums in self.rule_sums.values()],
            "n_solved": self.n_solved,
            "seconds": self.seconds,
        }


def begin(
    grid: Grid, case: Case, held_out: HeldOut, saved: Mapping[str, Any] | None = None
) -> Progress:
    """The progress that was saved, or none yet."""
    m, k = held_out.n_items, held_out.part.layout.k
    points = [point for size in grid.batch_sizes for point in grid.points(size, m, k)]
    if saved is None:
        sums = {size: np.zeros(len(case.rules)) for size in grid.batch_sizes}
        return Progress(0, [Track(point) for point in points], sums)
    tracks = [Track(point, **one) for point, one in zip(points, saved["tracks"], strict=True)]
    sums = dict(zip(grid.batch_sizes, map(np.asarray, saved["rule_sums"]), strict=True))
    return Progress(saved["round"], tracks, sums, saved["n_solved"], saved["seconds"])


def rounds_per_chunk(grid: Grid, n_items: int, n_rules: int, k: int) -> int:
    """How many rounds fit into memory at once; raises where not even one does."""
    size = max(grid.batch_sizes)
    # Predictions, outcomes and residuals, a copy of the predictions for each thread and batch
    # size, and the decisions of all rules, twice.
    per_round = size * (8 * n_items * (6 + threads.n_threads()) + 2 * n_rules * k)
    if per_round > ROUND_BYTES:
        limit = f"{ROUND_BYTES / 2**30:.0f} GiB per round ({n_items} items, {n_rules} rules)"
        raise refuse_argument(size, "--batch-size", OWNER, f"small enough for {limit}")
    return max(1, min(CHUNK, CHUNK_BYTES // per_round))


def advance(progress: Progress, grid: Grid, case: Case, held_out: HeldOut) -> Iterator[None]:
    """Run a unit to its end, with a stop after every chunk from which it can be continued."""
    size, n_rules = max(grid.batch_sizes), len(case.rules)
    length = rounds_per_chunk(grid, held_out.n_items, n_rules, held_out.part.layout.k)
    groups = list(_groups(progress))
    for track in progress.tracks:
        track.held = held_out.patched(track.tests, track.steps)
        track.n_held = len(track.tests)
    while progress.round < grid.rounds:
        first, last = progress.round, min(progress.round + length, grid.rounds)
        part = prepare(case.rounds(first, last, size), case.problem, case.rules)
        progress.n_solved += n_rules * (last - first) * size

        def go(i: int, part: Part = part, first: int = first, n: int = last - first) -> int:
            tracks, sums = groups[i]
            batches = Batches(part, case.problem, n, tracks[0].point.batch_size)
            return _run_chunk(tracks, batches, first, held_out, sums)

        progress.n_solved += sum(threads.run(go, len(groups)))
        progress.round = last
        yield


def _groups(progress: Progress) -> Iterator[tuple[list[Track], Floats]]:
    """Runs of one batch size that share a thread, the longest first, and their sums of rules."""
    for size in sorted(progress.rule_sums, reverse=True):
        tracks = [track for track in progress.tracks if track.point.batch_size == size]
        for first, last in threads.spans(GROUP, len(tracks)):
            sums = progress.rule_sums[size]
            yield tracks[first:last], sums if first == 0 else np.zeros_like(sums)


def _run_chunk(
    tracks: list[Track], batches: Batches, first: int, held_out: HeldOut, sums: Floats
) -> int:
    """Run all rounds of a chunk, and add the values of the rules to ``sums``.

    Returns how many instances the optimiser decided.
    """
    batches.start(tracks)
    size, total = batches.size, 0
    for number in range(batches.n_rounds):
        found, rule_values = batches.audits(number, tracks)
        sums += size * rule_values
        for track, audit in zip(tracks, found, strict=True):
            total += size * (1 + track.tests.count(OPTIMISER))  # its test, and its patches
            if _flag(track, audit, first + number, held_out.part.layout.k):
                batches.patch(track, number)
            done = first + number + 1
            if done % (TRACE_FIRST if done <= FIRST_ROUNDS else TRACE_EVERY) == 0:
                total += _measure(track, done, held_out)
    return total + sum(_catch_up(track, held_out) for track in tracks)


def _flag(track: Track, found: Audit, number: int, k: int) -> bool:
    """Add the patch of what CHECK flags, as in the paper's experiments: alert = 1."""
    point = track.point
    flagged = flag_largest(found, point.tolerance)
    if flagged is None:
        return False
    length = point.step.size(flagged, point.tolerance, k)
    track.rounds.append(number)
    track.tests.append(flagged.test)
    track.steps.append(float(np.copysign(length, flagged.violation)))
    return True


def _measure(track: Track, done: int, held_out: HeldOut) -> int:
    """Add a row to the trace; returns how many instances the optimiser decided."""
    solved = _catch_up(track, held_out)
    value, half_value = held_out.values(track.held)
    error = held_out.squared_error(track.held)
    counts = (len(track.tests), track.tests.count(OPTIMISER))
    track.trace.append([done, *counts, error, value, half_value])
    return solved + len(held_out.part.layout)


def _catch_up(track: Track, held_out: HeldOut) -> int:
    """Patch the held-out instances; several patches at a time take less time than one by one."""
    tests, steps = track.tests[track.n_held :], track.steps[track.n_held :]
    track.n_held = len(track.tests)
    return held_out.patch(track.held, tests, steps) if tests else 0
