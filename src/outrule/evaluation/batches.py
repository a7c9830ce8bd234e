"""The batches of a chunk of rounds, and what runs see in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from outrule import threads
from outrule.calibration.audit import OPTIMISER, Audit, Part, audit, part_of, rule_values
from outrule.calibration.patches import THREAD_INSTANCES, Decided, Span, first_point, patch_span
from outrule.problems.contract import Problem
from outrule.types import Floats

if TYPE_CHECKING:  # it imports this module
    from outrule.evaluation.stream import Track

Found = tuple[list[Audit], Floats]  # what every run sees in a batch, and the values of the rules


class Batches:
    """A batch of ``size`` instances for each of some rounds.

    The earlier patches of every run are replayed once, new ones are applied to the rest.
    """

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
        """Prepare the batches for runs that have found some patches."""
        for track in tracks:
            if track.seen.shape != self.first.shape:
                track.seen = np.empty_like(self.first)
            np.copyto(track.seen, self.first)
            for span in threads.spans(THREAD_INSTANCES, len(self.layout)):
                self._apply(track, 0, span)

    def audits(self, number: int, tracks: Sequence[Track]) -> Found:
        """What every run sees in a batch."""
        first, last = number * self.size, (number + 1) * self.size
        picks = np.ascontiguousarray(self.picks[:, :, first:last])
        instances, layout = self.instances.slice(first, last), self.layout.slice(first, last)
        part = part_of(instances, layout, picks, self.of_rule)
        width = len(self.first) // self.n_rounds
        seen = [track.seen[number * width : (number + 1) * width] for track in tracks]
        return [audit(part, one, self.problem) for one in seen], rule_values(part)

    def patch(self, track: Track, number: int) -> None:
        """Take notice of the last patch of a run, which it found in a batch."""
        span = ((number + 1) * self.size, len(self.layout))
        if span[0] < span[1]:
            self._apply(track, len(track.tests) - 1, span)

    def _apply(self, track: Track, first: int, span: Span) -> None:
        """Patch a span of the instances, from this patch on."""
        tests, steps = np.asarray(track.tests[first:], np.int64), np.asarray(track.steps[first:])
        order = np.where(tests == OPTIMISER, OPTIMISER, self.of_rule[tests])
        decided = Decided(self.problem, self.layout, self.picks, self.instances.value_range)
        patch_span(track.seen, order, steps, decided, span)
