"""All runs of a unit on fresh batches, with the patches that each run finds.

All runs see the same stream of instances: a round with batch size b sees the first b instances of
the round's block. So the decisions of the rules, which depend on neither epsilon nor batch size,
are made once. The stream is cut into chunks of rounds: in a chunk, a run's earlier patches are
replayed once on all instances that its rounds will see, and every new patch is applied to the rest.
The length of a chunk and the number of threads do not change the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from outrule import threads
from outrule.calibration.audit import OPTIMISER, Audit, Part, audits, part_of, prepare
from outrule.calibration.check import flag_largest
from outrule.calibration.patches import THREAD_INSTANCES, Decided, Span, first_point, patch_span
from outrule.errors import refuse_argument
from outrule.evaluation.cases import Case, HeldOut
from outrule.evaluation.grid import OWNER, Grid, Point
from outrule.problems.contract import Problem
from outrule.types import Floats, Integers

TRACE_EVERY = 8  # rounds between two measurements on the held-out instances
CHUNK = 32  # rounds at most whose instances are in memory
CHUNK_BYTES = 2**30  # for the instances of a chunk
ROUND_BYTES = 4 * 2**30  # at most, for those of a single round
SAVED = ("rounds", "tests", "steps", "trace")  # fields of a track


@dataclass
class Track:
    """What one run has found so far; ``rounds[i]`` is the round that found patch i."""

    point: Point
    rounds: list[int] = field(default_factory=list)
    tests: list[int] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)
    trace: list[list[float]] = field(default_factory=list)  # rounds done, squared error, value
    # Predictions with the patches so far: of the held-out instances, and of those of a chunk. The
    # latter is reused from chunk to chunk, because fresh memory costs more than a copy.
    held: Floats = field(default_factory=lambda: np.empty(0), compare=False)
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
        """What :func:`begin` continues from."""
        return {
            "round": self.round,
            "tracks": [{name: getattr(track, name) for name in SAVED} for track in self.tracks],
            "rule_sums": [sums.tolist() for sums in self.rule_sums.values()],
            "n_solved": self.n_solved,
            "seconds": self.seconds,
        }


def begin(grid: Grid, case: Case, saved: Mapping[str, Any] | None = None) -> Progress:
    """The progress that was saved, or none yet."""
    points = [point for size in grid.batch_sizes for point in grid.points(size, case.seed)]
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
    for track in progress.tracks:
        track.held = held_out.patched(track.tests, track.steps)
    while progress.round < grid.rounds:
        first, last = progress.round, min(progress.round + length, grid.rounds)
        part = prepare(case.rounds(first, last, size), case.problem, case.rules)
        progress.n_solved += n_rules * len(part.layout)
        for batch_size, sums in progress.rule_sums.items():
            chunk = _Chunk(part, case.problem, first, last, batch_size)
            tracks = [track for track in progress.tracks if track.point.batch_size == batch_size]
            progress.n_solved += _run_chunk(tracks, chunk, held_out, sums)
        progress.round = last
        yield


class _Chunk:
    """The instances of some rounds at one batch size, with the decisions of the rules."""

    def __init__(self, part: Part, problem: Problem, first: int, last: int, size: int):
        self.problem, self.first_round, self.size, self.of_rule = problem, first, size, part.of_rule
        n_rounds = last - first
        block = len(part.layout) // n_rounds
        if size == block:
            self.instances, self.layout, self.picks = part.instances, part.layout, part.picks
        else:
            rows = (np.arange(n_rounds)[:, None] * block + np.arange(size)).ravel()
            self.instances = part.instances.take(rows)
            self.layout = problem.lay(self.instances)
            n_decisions, k, _ = part.picks.shape
            cut = part.picks.reshape(n_decisions, k, n_rounds, block)[..., :size]
            self.picks = np.empty((n_decisions, k, n_rounds * size), dtype=cut.dtype)
            rows_of = self.picks.reshape(cut.shape)
            threads.run(lambda r: np.copyto(rows_of[r], cut[r]), n_decisions)
        self.first = first_point(self.instances.prediction, problem, self.layout)
        self.parts = threads.run(self._part, n_rounds)

    def _part(self, number: int) -> Part:
        first, last = number * self.size, (number + 1) * self.size
        picks = np.ascontiguousarray(self.picks[:, :, first:last])
        instances, layout = self.instances.slice(first, last), self.layout.slice(first, last)
        return part_of(instances, layout, picks, self.of_rule)

    def start(self, track: Track) -> None:
        """Give a run the predictions that no patch has changed yet."""
        if track.seen.shape != self.first.shape:
            track.seen = np.empty_like(self.first)
        np.copyto(track.seen, self.first)

    def patch(self, prediction: Floats, tests: Integers, steps: Floats, span: Span) -> int:
        """Patch a span of the instances; returns how many of them the optimiser decided."""
        if span[0] == span[1]:
            return 0
        order = np.where(tests == OPTIMISER, OPTIMISER, self.of_rule[tests])
        decided = Decided(self.problem, self.layout, self.picks, self.instances.value_range)
        patch_span(prediction, order, steps, decided, span)
        return int((tests == OPTIMISER).sum()) * (span[1] - span[0])


def _run_chunk(tracks: list[Track], chunk: _Chunk, held_out: HeldOut, rule_sums: Floats) -> int:
    """Run all rounds of a chunk, and add the values of the rules to ``rule_sums``.

    Returns how many instances the optimiser decided.
    """
    earlier = [(np.asarray(track.tests, np.int64), np.asarray(track.steps)) for track in tracks]
    threads.run(lambda i: chunk.start(tracks[i]), len(tracks))
    pieces = threads.spans(THREAD_INSTANCES, len(chunk.layout))

    def replay(task: int) -> int:
        i, piece = divmod(task, len(pieces))
        return chunk.patch(tracks[i].seen, *earlier[i], pieces[piece])

    total = sum(threads.run(replay, len(tracks) * len(pieces)))
    width = len(chunk.first) // len(chunk.parts)
    nothing = np.zeros(width)  # the violations of this prediction are the values of the rules
    for number, part in enumerate(chunk.parts):
        seen = [track.seen[number * width : (number + 1) * width] for track in tracks]
        *found, of_nothing = audits(part, [*seen, nothing], chunk.problem)
        rule_sums += chunk.size * of_nothing.violations[:OPTIMISER]
        total += len(tracks) * chunk.size

        def act(i: int, number: int = number, found: list[Audit] = found) -> int:
            return _act(tracks[i], found[i], number, chunk, held_out)

        total += sum(threads.run(act, len(tracks)))
    return total


def _act(track: Track, found: Audit, number: int, chunk: _Chunk, held_out: HeldOut) -> int:
    """Patch what CHECK flags, as the paper's experiments do: alert = 1, and no early exit."""
    point, done, solved = track.point, chunk.first_round + number + 1, 0
    flagged = flag_largest(found, point.tolerance)
    if flagged is not None:
        length = point.step.size(flagged, point.tolerance, chunk.layout.k)
        step = float(np.copysign(length, flagged.violation))
        track.rounds.append(done - 1)
        track.tests.append(flagged.test)
        track.steps.append(step)
        patch = (np.asarray([flagged.test]), np.asarray([step]))
        solved += chunk.patch(track.seen, *patch, ((number + 1) * chunk.size, len(chunk.layout)))
        solved += held_out.patch(track.held, *patch)
    if done % TRACE_EVERY == 0:
        error, value = held_out.squared_error(track.held), held_out.value(track.held)
        track.trace.append([done, error, value])
        solved += len(held_out.part.layout)
    return solved
