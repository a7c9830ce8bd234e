"""The batches of a chunk of rounds, and what runs see in them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from outrule import kernels, threads
from outrule.calibration.audit import OPTIMISER, Audit, Part, audits, part_of, prepare
from outrule.calibration.patches import THREAD_INSTANCES, Decided, Span, first_point, patch_span
from outrule.data.instances import Instances
from outrule.evaluation.cases import Case
from outrule.problems.contract import Problem
from outrule.problems.one_item import BestAction
from outrule.rules.decisions import decide_all
from outrule.types import Floats

if TYPE_CHECKING:  # it imports this module
    from outrule.evaluation.stream import Track

MANY_ITEMS = 128  # from so many on, most need not be tried to find the best

Found = tuple[list[Audit], Floats]  # what every run sees in a batch, and the values of the rules


class Batches(ABC):
    """A batch of ``size`` instances for each of ``n_rounds`` rounds."""

    size: int
    n_rounds: int

    @abstractmethod
    def start(self, tracks: Sequence[Track]) -> None:
        """Prepare the batches for runs that have found some patches."""

    @abstractmethod
    def audits(self, number: int, tracks: Sequence[Track]) -> Found:
        """What every run sees in a batch."""

    @abstractmethod
    def patch(self, track: Track, number: int) -> None:
        """Take notice of the last patch of a run, which it found in a batch."""


def open_batches(case: Case, first: int, last: int, size: int) -> Callable[[int], Batches]:
    """The batches of these rounds, to be cut at any smaller size; all rules decide on them."""
    instances, n_rounds = case.rounds(first, last, size), last - first
    if type(case.problem) is not BestAction:
        part = prepare(instances, case.problem, case.rules)
        return lambda smaller: PatchedBatches(part, case.problem, n_rounds, smaller)
    shape = (n_rounds, size, -1)
    assert instances.outcome is not None
    data = (instances.prediction.reshape(shape), instances.outcome.reshape(shape))
    picks = _decide(case, instances, n_rounds)
    return lambda smaller: BestActionBatches(*data, picks, smaller)


def _decide(case: Case, instances: Instances, n_rounds: int) -> list[NDArray[Any]]:
    """The decisions of all rules, by round."""
    layout = case.problem.lay(instances)
    size, m = len(layout) // n_rounds, len(instances.prediction) // len(layout)
    if m < MANY_ITEMS:
        picks = decide_all(case.rules, instances, case.problem, layout)[:, 0]
        rows = [slice(*span) for span in threads.spans(size, len(layout))]
        return threads.run(lambda i: np.ascontiguousarray(picks[:, rows[i]]), n_rounds)
    scales = np.array([rule.per_item(instances) for rule in case.rules])
    weights = instances.prediction.reshape(n_rounds, size, m)

    def decide(i: int) -> NDArray[Any]:
        picks = np.empty((len(scales), size), dtype=layout.small_type)
        kernels.side_by_side.decide(weights[i], scales, picks)
        return picks

    return threads.run(decide, n_rounds)


class BestActionBatches(Batches):
    """Batches of best action: all patches are applied when a batch is looked at, in one pass."""

    def __init__(
        self, prediction: Floats, outcome: Floats, picks: list[NDArray[Any]], size: int
    ) -> None:
        self.prediction, self.outcome, self.picks, self.size = prediction, outcome, picks, size
        self.n_rounds = len(prediction)
        # As many as in `part_of`: no sum of residuals overflows.
        self.bits = min(44, 62 - int(np.ceil(np.log2(size * prediction.shape[2] + 1))))

    def start(self, tracks: Sequence[Track]) -> None:
        pass

    def audits(self, number: int, tracks: Sequence[Track]) -> Found:
        found: list[Audit] = []
        values = np.empty(0)
        for first, last in threads.spans(kernels.side_by_side.RUNS, len(tracks)):
            violations, values = self._look(number, tracks[first:last])
            found += map(self._audit, np.ascontiguousarray(violations.T))
        return found, values

    def _look(self, number: int, tracks: Sequence[Track]) -> tuple[Floats, Floats]:
        """Violations (n_rules + 1, n_runs), that of the optimiser last, and values of rules."""
        counts = np.asarray([len(track.tests) for track in tracks])
        order = np.zeros((len(tracks), counts.max()), dtype=np.int64)
        steps = np.zeros(order.shape)
        for run, track in enumerate(tracks):
            order[run, : counts[run]], steps[run, : counts[run]] = track.tests, track.steps
        sums = np.zeros((len(self.picks[number]), kernels.side_by_side.LANES), dtype=np.int64)
        own, unit = np.zeros(len(tracks), dtype=np.int64), 2.0**self.bits
        data = (self.prediction[number, : self.size], self.outcome[number, : self.size])
        given = (*data, self.picks[number], order, steps, counts)
        kernels.side_by_side.audit(*given, unit, sums, own)
        means = np.vstack((sums, [*own, *[0] * (sums.shape[1] - len(own))])) / (unit * self.size)
        return means[:, : len(own)], means[:-1, -1]

    def _audit(self, violations: Floats) -> Audit:
        ones, nothing = np.ones(len(violations)), np.empty((1, 0), dtype=np.int64)
        return Audit(violations, ones, np.nan, nothing, self.size, 2 / self.size)

    def patch(self, track: Track, number: int) -> None:
        pass


class PatchedBatches(Batches):
    """Batches of any problem: earlier patches are replayed once, new ones applied to the rest."""

    def __init__(self, part: Part, problem: Problem, n_rounds: int, size: int) -> None:
        self.problem, self.n_rounds, self.size, self.of_rule = problem, n_rounds, size, part.of_rule
        block = len(part.layout) // n_rounds
        if size == block:
            self.instances, self.layout, self.picks = part.instances, part.layout, part.picks
        else:
            rows = (np.arange(n_rounds)[:, None] * block + np.arange(size)).ravel()
            self.instances = part.instances.take(rows)
            self.layout = problem.lay(self.instances)
            n_decisions, k, _ = part.picks.shape
            cut = part.picks.reshape(n_decisions, k, n_rounds, block)[..., :size]
            self.picks = np.ascontiguousarray(cut).reshape(n_decisions, k, n_rounds * size)
        self.first = first_point(self.instances.prediction, problem, self.layout)

    def start(self, tracks: Sequence[Track]) -> None:
        for track in tracks:
            if track.seen.shape != self.first.shape:
                track.seen = np.empty_like(self.first)
            np.copyto(track.seen, self.first)
            for span in threads.spans(THREAD_INSTANCES, len(self.layout)):
                self._apply(track, 0, span)

    def audits(self, number: int, tracks: Sequence[Track]) -> Found:
        first, last = number * self.size, (number + 1) * self.size
        picks = np.ascontiguousarray(self.picks[:, :, first:last])
        instances, layout = self.instances.slice(first, last), self.layout.slice(first, last)
        part = part_of(instances, layout, picks, self.of_rule)
        width = len(self.first) // self.n_rounds
        seen = [track.seen[number * width : (number + 1) * width] for track in tracks]
        # The violations of a prediction of zero are the values of the rules.
        *found, of_nothing = audits(part, [*seen, np.zeros(width)], self.problem)
        return found, of_nothing.violations[:OPTIMISER]

    def patch(self, track: Track, number: int) -> None:
        span = ((number + 1) * self.size, len(self.layout))
        if span[0] < span[1]:
            self._apply(track, len(track.tests) - 1, span)

    def _apply(self, track: Track, first: int, span: Span) -> None:
        """Patch a span of the instances, from this patch on."""
        tests, steps = np.asarray(track.tests[first:], np.int64), np.asarray(track.steps[first:])
        order = np.where(tests == OPTIMISER, OPTIMISER, self.of_rule[tests])
        decided = Decided(self.problem, self.layout, self.picks, self.instances.value_range)
        patch_span(track.seen, order, steps, decided, span)
