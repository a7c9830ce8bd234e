"""The ledger: violations of all tests on the same instances, kept up to date patch by patch.

A patch moves the items of one decision per instance by one step. So a rule's violation changes by
the step times the number of items that its decisions share with those, which is counted once per
test and kept; only where a prediction was clipped is the change another one, and only there are the
rules looked at. Everything is an integer, so the ledger equals an audit of its residuals exactly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from outrule import threads
from outrule.calibration.audit import (
    OPTIMISER,
    Audit,
    Part,
    audit_of,
    residuals,
    rule_blocks,
    sums_over,
)
from outrule.calibration.patches import PIECE, Patch
from outrule.problems.contract import Problem
from outrule.problems.one_item import BestAction
from outrule.types import Floats, Integers

FEW = 16  # one in so many decisions may differ before it is cheaper to count anew
LEAST_MARGIN = 1e-9


class Best:
    """The best action of every instance, looked for again where its margin proves it no longer."""

    def __init__(self, part: Part, prediction: Floats):
        n = len(part.layout)
        self.prediction, self.offsets = prediction, part.layout.offsets
        self.picks, self.margin = np.empty((n, 1), dtype=np.int32), np.empty(n)
        # Far above what rounding adds to a margin, so that a larger one proves that no tie is near.
        self.least = LEAST_MARGIN * part.span
        self._look(np.arange(n))

    def moved(self, chosen: NDArray[Any], step: float) -> None:
        """Hear of a step that the predictions of these items have just made."""
        from outrule.kernels import tally

        self._look(tally.shrink_margins(self.margin, self.picks, chosen, step, self.least))

    def _look(self, which: Integers) -> None:
        from outrule.kernels import tally

        pieces = threads.spans(PIECE, len(which))

        def look(piece: int) -> None:
            some = which[slice(*pieces[piece])]
            tally.best_with_margin(self.prediction, self.offsets, some, self.picks, self.margin)

        threads.run(look, len(pieces))


class Ledger:
    """The state of a run over the same data; for predictions in a box and equal weights."""

    def __init__(self, part: Part, prediction: Floats, problem: Problem):
        self.part, self.prediction, self.problem = part, prediction, problem
        self.residual, self.squares = residuals(part, prediction)
        self.sums = sums_over(self.residual, part.layout, part.picks)
        self.shared: dict[int, Integers] = {}  # by test, items shared with every rule
        self.own: NDArray[Any] | None = None  # the optimiser's decisions when it was last counted
        self.best = Best(part, prediction) if type(problem) is BestAction else None

    def audit(self) -> Audit:
        """What CHECK looks at."""
        if self.best is not None:
            optimiser = self.best.picks
        else:
            optimiser = self.problem.pick_on_threads(self.prediction, self.part.layout)
        return audit_of(self.part, self.residual, self.sums, self.squares, optimiser)

    def patch(self, patch: Patch, found: Audit) -> None:
        """Patch the predictions and bring the ledger up to date."""
        part = self.part
        row = OPTIMISER if patch.test == OPTIMISER else int(part.of_rule[patch.test])
        chosen = found.optimiser if row == OPTIMISER else part.picks[row]
        integer_step = int(np.rint(patch.step / part.span * 2.0**part.bits))
        clipped = self._move(chosen, patch.step, integer_step)
        if self.best is not None:
            self.best.moved(chosen, patch.step)
        if len(clipped) * FEW > chosen.size:
            self.sums = sums_over(self.residual, part.layout, part.picks)
        else:
            self.sums -= integer_step * self._shared(row, chosen)
            self._correct(clipped)

    def _move(self, chosen: NDArray[Any], step: float, integer_step: int) -> Integers:
        """Move predictions and residuals; one row (instance, position, amount) per clipped item."""
        from outrule.kernels import tally

        part, pieces = self.part, threads.spans(PIECE, len(self.part.layout))

        def move(piece: int) -> tuple[Integers, Integers]:
            return tally.patch_ledger(
                self.prediction,
                self.residual,
                part.outcome,
                part.layout.offsets,
                chosen,
                step,
                integer_step,
                part.instances.value_range,
                part.bits,
                pieces[piece],
            )

        results = threads.run(move, len(pieces))
        self.squares += sum(int(squares[0]) for _, squares in results)
        return np.concatenate([clipped for clipped, _ in results])

    def _shared(self, test: int, chosen: NDArray[Any]) -> Integers:
        """How many items the decisions of every rule share with those of a test."""
        if test not in self.shared:
            self.shared[test] = self._count(chosen)
        elif test == OPTIMISER:  # from one of its patches to the next few of its decisions move
            assert self.own is not None
            changed = np.flatnonzero((chosen != self.own).any(axis=0))
            if len(changed) * FEW > chosen.shape[1]:
                self.shared[test] = self._count(chosen)
            else:
                self._recount(changed, self.own, chosen)
        if test == OPTIMISER:
            self.own = chosen
        return self.shared[test]

    def _count(self, chosen: NDArray[Any]) -> Integers:
        from outrule.kernels import overlap

        picks, sizes = self.part.picks, np.diff(self.part.layout.offsets)
        shared, blocks = np.zeros(len(picks), dtype=np.int64), rule_blocks(picks)

        def count(block: int) -> None:
            rows = slice(*blocks[block])
            if self.problem.exactly_one:  # else two without a pick would be equal
                overlap.overlap_single(picks[rows], chosen, shared[rows])
            elif sizes.max() < overlap.BITS:
                overlap.overlap_masks(picks[rows], chosen, shared[rows])
            else:
                overlap.overlap_sets(picks[rows], chosen, sizes, shared[rows])

        threads.run(count, len(blocks))
        return shared

    def _recount(self, changed: Integers, before: NDArray[Any], after: NDArray[Any]) -> None:
        from outrule.kernels import overlap

        picks, sizes = self.part.picks, np.diff(self.part.layout.offsets)
        shared, blocks = self.shared[OPTIMISER], rule_blocks(picks)

        def recount(block: int) -> None:
            rows = slice(*blocks[block])
            overlap.overlap_changes(picks[rows], before, after, sizes, changed, shared[rows])

        threads.run(recount, len(blocks))

    def _correct(self, clipped: Integers) -> None:
        from outrule.kernels import overlap

        picks, blocks = self.part.picks, rule_blocks(self.part.picks)

        def correct(block: int) -> None:
            rows = slice(*blocks[block])
            overlap.add_at_items(picks[rows], clipped, self.sums[rows])

        if len(clipped):
            threads.run(correct, len(blocks))
