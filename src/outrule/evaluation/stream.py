"""The grid on fresh batches: a case enters; the patches and the trace of every line leave.

All lines see the same stream of instances: a round of batch size b sees the first b instances of
the round's block. So the decisions of the rules, which depend on neither epsilon nor batch size,
are made once. The stream is cut into chunks of rounds; in a chunk a line's patches so far are
replayed once on all instances that its rounds will see, and every new patch at once on the rest.
The chunking, like the number of threads, changes no bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from outrule import threads
from outrule.calibration.audit import OPTIMISER, Audit, Part, audits, part_of, prepare
from outrule.calibration.check import flag_largest
from outrule.calibration.patches import THREAD_INSTANCES, Decided, Span, first_point, patch_span
from outrule.errors import refuse_argument
from outrule.evaluation.cases import Case
from outrule.evaluation.held_out import HeldOut
from outrule.evaluation.settings import OWNER, Line, Settings
from outrule.problems.contract import Problem
from outrule.types import Floats, Integers

TRACE = 8  # rounds between two looks at the held-out instances
CHUNK = 32  # rounds at most whose instances are in memory
ROOM = 2**30  # bytes that the instances of a chunk may take
MOST = 4 * 2**30  # bytes that those of a single round may take


class TracePoint(NamedTuple):
    """The state of a line on the held-out instances after a number of rounds."""

    round: int
    squared_error: float
    value: float


@dataclass
class Track:
    """A line on its way; ``rounds[i]`` is when patch i was found."""

    rounds: list[int] = field(default_factory=list)
    tests: list[int] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)
    trace: list[TracePoint] = field(default_factory=list)


@dataclass
class Progress:
    """How far a unit has come: enough to go on from, as plain values."""

    round: int
    tracks: dict[Line, Track]
    rule_sums: dict[int, Floats]  # by batch size, of the rules' values over all batches so far
    n_solved: int = 0  # instances that the optimiser has decided
    seconds: float = 0.0


def begin(settings: Settings, case: Case) -> Progress:
    """Nothing done yet."""
    lines = [line for size in settings.batch_sizes for line in settings.lines(size, case.seed)]
    sums = {size: np.zeros(len(case.rules)) for size in settings.batch_sizes}
    return Progress(0, {line: Track() for line in lines}, sums)


def rounds_per_chunk(settings: Settings, n_items: int, n_rules: int, k: int) -> int:
    """How many rounds fit into memory at once; refuses batches of which not even one does."""
    size = max(settings.batch_sizes)
    # Predictions, outcomes and residuals, a copy of the predictions for each thread and batch
    # size, and the decisions of all rules, twice.
    per_round = size * (8 * n_items * (6 + threads.n_threads()) + 2 * n_rules * k)
    if per_round > MOST:
        expected = (
            f"small enough for {MOST / 2**30:.0f} GiB per round ({n_items} items, {n_rules} rules)"
        )
        raise refuse_argument(size, "batch-size", OWNER, expected)
    return max(1, min(CHUNK, ROOM // per_round))


def advance(
    progress: Progress, settings: Settings, case: Case, held_out: HeldOut
) -> Iterator[Progress]:
    """Run the unit to its end; it can be left after every chunk and taken up again."""
    size, problem = max(settings.batch_sizes), case.problem
    k, m = held_out.part.layout.k, held_out.n_items
    length = rounds_per_chunk(settings, m, len(case.rules), k)
    room: dict[Line, Floats] = {}  # kept from chunk to chunk: fresh memory costs more than a copy
    held = {line: _replayed(track, held_out) for line, track in progress.tracks.items()}
    while progress.round < settings.rounds:
        first, last = progress.round, min(progress.round + length, settings.rounds)
        part = prepare(case.rounds(first, last, size), problem, case.rules)
        progress.n_solved += len(case.rules) * len(part.layout)
        for batch_size in settings.batch_sizes:
            chunk = _Chunk(part, problem, first, last, batch_size)
            lines = settings.lines(batch_size, case.seed)
            runs = [_Run(line, progress.tracks[line], held[line]) for line in lines]
            sums = progress.rule_sums[batch_size]
            progress.n_solved += _run_chunk(runs, chunk, held_out, room, sums)
        progress.round = last
        yield progress


def _replayed(track: Track, held_out: HeldOut) -> Floats:
    """The held-out predictions of a line."""
    prediction = held_out.start()
    held_out.patch(prediction, np.asarray(track.tests, dtype=np.int64), np.asarray(track.steps))
    return prediction


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

    def start(self, room: Floats | None) -> Floats:
        """The predictions that no patch has moved yet, written where there is room."""
        if room is None or room.shape != self.first.shape:
            return self.first.copy()
        np.copyto(room, self.first)
        return room

    def patch(self, prediction: Floats, tests: Integers, steps: Floats, span: Span) -> int:
        """Patch a span of the instances; says how many of them the optimiser decided."""
        order = np.where(tests == OPTIMISER, OPTIMISER, self.of_rule[tests])
        if span[0] == span[1]:
            return 0
        decided = Decided(self.problem, self.layout, self.picks, self.instances.value_range)
        patch_span(prediction, order, steps, decided, span)
        return int((tests == OPTIMISER).sum()) * (span[1] - span[0])


class _Run(NamedTuple):
    """A line in a chunk: what it found, and its predictions of the held-out instances."""

    line: Line
    track: Track
    held: Floats


def _run_chunk(
    runs: list[_Run],
    chunk: _Chunk,
    held_out: HeldOut,
    room: dict[Line, Floats],
    rule_sums: Floats,
) -> int:
    """All rounds of a chunk for all lines of a batch size; how many instances were decided.

    To ``rule_sums`` the values of the rules are added.
    """
    tracks = [(np.asarray(run.track.tests, np.int64), np.asarray(run.track.steps)) for run in runs]

    predictions = threads.run(lambda i: chunk.start(room.get(runs[i].line)), len(runs))
    room.update((run.line, one) for run, one in zip(runs, predictions, strict=True))
    pieces = threads.spans(THREAD_INSTANCES, len(chunk.layout))

    def replay(task: int) -> int:
        i, piece = divmod(task, len(pieces))
        return chunk.patch(predictions[i], *tracks[i], pieces[piece])

    total = sum(threads.run(replay, len(runs) * len(pieces)))
    width = len(predictions[0]) // len(chunk.parts)
    nothing = np.zeros(width)  # its violations are the values of the rules
    for number, part in enumerate(chunk.parts):
        seen = [prediction[number * width : (number + 1) * width] for prediction in predictions]
        *found, of_nothing = audits(part, [*seen, nothing], chunk.problem)
        rule_sums += chunk.size * of_nothing.violations[:OPTIMISER]
        total += len(runs) * chunk.size

        def act(i: int, number: int = number, found: list[Audit] = found) -> int:
            return _act(runs[i], found[i], predictions[i], number, chunk, held_out)

        total += sum(threads.run(act, len(runs)))
    return total


def _act(
    run: _Run, found: Audit, prediction: Floats, number: int, chunk: _Chunk, held_out: HeldOut
) -> int:
    """Patch what CHECK flags, as the paper's experiments do: alert = 1, and no early exit."""
    line, track, solved = run.line, run.track, 0
    finding = flag_largest(found, line.tolerance)
    if finding is not None:
        length = line.step.size(finding, line.tolerance, chunk.layout.k)
        step = float(np.copysign(length, finding.violation))
        track.rounds.append(chunk.first_round + number)
        track.tests.append(finding.test)
        track.steps.append(step)
        one = (np.asarray([finding.test]), np.asarray([step]))
        rest = ((number + 1) * chunk.size, len(chunk.layout))
        solved += chunk.patch(prediction, *one, rest)
        solved += held_out.patch(run.held, *one)
    done = chunk.first_round + number + 1
    if done % TRACE == 0:
        point = TracePoint(done, held_out.squared_error(run.held), held_out.value(run.held))
        track.trace.append(point)
        solved += len(held_out.part.layout)
    return solved
