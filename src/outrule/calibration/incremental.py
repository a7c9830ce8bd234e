"""The audit of a run over the same instances, kept up to date patch by patch.

A patch moves the items of one decision per instance by one step. So a rule's violation changes by
the step times the number of items that its decisions share with those, which is counted once per
test and kept; only items whose prediction was clipped are corrected one by one. Everything is an
integer, so the result equals an audit of the kept residuals exactly; these drift from the true
ones by the rounding of the steps, so that the last word belongs to an audit of the predictions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outrule import kernels, threads
from outrule.calibration.audit import (
    OPTIMISER,
    Audit,
    Part,
    Tally,
    read_audit,
    residuals,
    run_on_rules,
    sum_over,
    tally_of,
)
from outrule.calibration.patches import THREAD_INSTANCES, AnyPatch
from outrule.problems.contract import Problem
from outrule.problems.one_item import BestAction
from outrule.types import Floats, Integers, Picks

RECOUNT_SHARE = 16  # if more than one in so many decisions differs, counting anew is cheaper
UNEVEN_SHARE = 64  # a step is tracked if it is off by less than one in so many of itself


def rounding(part: Part) -> float:
    """The distance of neighbouring numbers at the far end of the value range."""
    return float(np.spacing(max(map(abs, part.instances.value_range))))


class BestActions:
    """The best action of every instance, searched again only where it may have changed."""

    def __init__(self, part: Part, prediction: Floats, known: tuple[Picks, Floats] | None = None):
        n = len(part.layout)
        self.prediction, self.offsets = prediction, part.layout.offsets
        # More than rounding adds to a step and a difference, so that the margins kept are too
        # small rather than too large, for any number of steps.
        self.slack = 4 * rounding(part)
        self.picks, self.margin = known or (np.empty((n, 1), dtype=np.int32), np.empty(n))
        if known is None:
            self._search(np.arange(n))

    def update(self, chosen: NDArray[Any], step: float) -> None:
        """Follow a step that the predictions of these items have just made."""
        changed = np.empty(len(self.margin), dtype=np.int64)
        margins = (self.margin, self.picks, chosen, step, self.slack)
        self._search(changed[: kernels.tally.shrink_margins(*margins, changed)])

    def _search(self, which: Integers) -> None:
        pieces = threads.spans(THREAD_INSTANCES, len(which))

        def search(piece: int) -> None:
            some = which[slice(*pieces[piece])]
            kernels.tally.best_with_margin(
                self.prediction, self.offsets, some, self.picks, self.margin
            )

        threads.run(search, len(pieces))


@dataclass(frozen=True, eq=False)
class Ledger:
    """What is kept from round to round beside the predictions."""

    arrays: dict[str, NDArray[Any]]  # residual; best, margin: the best actions; own: as below
    squares: int
    sums: Integers  # of the residuals of every distinct decision
    exact: bool  # no patch since the residuals were computed
    shared: dict[int, Integers]


class IncrementalAudit:
    """The state of a run over the same data; for predictions in a box and equal weights."""

    def __init__(
        self, part: Part, prediction: Floats, problem: Problem, kept: Ledger | None = None
    ):
        self.part, self.prediction, self.problem = part, prediction, problem
        self.shared: dict[int, Integers] = {}  # by test, items shared with every rule
        self.own: NDArray[Any] | None = None  # the optimiser's decisions when it was last counted
        if kept is None:
            self.refresh()
            return
        arrays, self.best = kept.arrays, None
        if "best" in arrays:
            self.best = BestActions(part, prediction, (arrays["best"], arrays["margin"]))
        self.residual, self.squares, self.sums = arrays["residual"], kept.squares, kept.sums
        self.exact, self.shared, self.own = kept.exact, kept.shared, arrays.get("own")

    @property
    def ledger(self) -> Ledger:
        """What another audit of the same part can go on with."""
        arrays: dict[str, NDArray[Any]] = {"residual": self.residual}
        if self.best is not None:
            arrays |= {"best": self.best.picks, "margin": self.best.margin}
        if self.own is not None:
            arrays["own"] = self.own
        return Ledger(arrays, self.squares, self.sums, self.exact, self.shared)

    def refresh(self) -> None:
        """Compute anew what is kept from round to round, which steps move by rounded amounts."""
        part, prediction = self.part, self.prediction
        self.residual, self.squares = residuals(part, prediction)
        self.sums = sum_over(self.residual, part.layout, part.picks)
        self.best = BestActions(part, prediction) if type(self.problem) is BestAction else None
        self.exact = True

    def audit(self) -> Audit:
        """The audit of the current predictions."""
        return read_audit(self.part, *self.tally())

    def tally(self) -> tuple[Tally, NDArray[Any]]:
        """Its sums, and the optimiser's decisions."""
        if self.best is not None:
            picks = self.best.picks
        else:
            picks = self.problem.pick_on_threads(self.prediction, self.part.layout)
        return tally_of(self.part, self.residual, self.sums, self.squares, picks)

    def apply(self, patch: AnyPatch, optimiser: NDArray[Any]) -> None:
        """Patch the predictions and update the sums; ``optimiser`` decided on them as they are."""
        part = self.part
        row = OPTIMISER if patch.test == OPTIMISER else int(part.of_rule[patch.test])
        chosen = optimiser if row == OPTIMISER else part.picks[row]
        steps = patch.step / part.span * 2.0**part.bits
        integer_step = int(np.rint(steps))
        off = abs(steps - integer_step) + rounding(part) / part.span * 2.0**part.bits
        clipped = self._move(chosen, patch.step, integer_step)
        self.exact = False
        if off * UNEVEN_SHARE > abs(steps):
            self.refresh()
            return
        if self.best is not None:
            self.best.update(chosen, patch.step)
        if len(clipped) * RECOUNT_SHARE > chosen.size:
            self.sums = sum_over(self.residual, part.layout, part.picks)
            return
        self.sums -= integer_step * self._shared(row, chosen)
        if len(clipped):
            add = kernels.overlap.add_at_items
            run_on_rules(part.picks, lambda rows: add(part.picks[rows], clipped, self.sums[rows]))

    def _move(self, chosen: NDArray[Any], step: float, integer_step: int) -> Integers:
        """Move predictions and residuals; one row (instance, position, amount) per clipped item."""
        part, pieces = self.part, threads.spans(THREAD_INSTANCES, len(self.part.layout))
        arrays = (self.prediction, self.residual, part.outcome, part.layout.offsets, chosen)
        steps = (step, integer_step, part.instances.value_range, part.bits)

        def move(piece: int) -> tuple[Integers, np.int64]:
            first, last = pieces[piece]
            clipped = np.empty((len(chosen) * (last - first), 3), dtype=np.int64)
            kept, squares = kernels.patching.patch_ledger(*arrays, *steps, pieces[piece], clipped)
            return clipped[:kept].copy(), squares

        results = threads.run(move, len(pieces))
        self.squares += sum(int(squares) for _, squares in results)
        return np.concatenate([clipped for clipped, _ in results])

    def _shared(self, test: int, chosen: NDArray[Any]) -> Integers:
        """How many items the decisions of every rule share with those of a test."""
        if test not in self.shared:
            self.shared[test] = self._count(chosen)
        elif test == OPTIMISER:  # few of its decisions change from one of its patches to the next
            assert self.own is not None
            changed = np.flatnonzero((chosen != self.own).any(axis=0))
            if len(changed) * RECOUNT_SHARE > chosen.shape[1]:
                self.shared[test] = self._count(chosen)
            else:
                self._count_sets(self.shared[test], self.own, chosen, changed)
        if test == OPTIMISER:
            self.own = chosen
        return self.shared[test]

    def _count(self, chosen: NDArray[Any]) -> Integers:
        picks, sizes = self.part.picks, np.diff(self.part.layout.offsets)
        shared = np.zeros(len(picks), dtype=np.int64)
        if not self.problem.exactly_one and sizes.max() >= kernels.overlap.BITS:
            self._count_sets(shared, None, chosen, np.arange(len(sizes)))
            return shared
        single, masks = kernels.overlap.overlap_single, kernels.overlap.overlap_masks
        # Only where each decision has one item are no two without a pick, which would be equal.
        count = single if self.problem.exactly_one else masks
        run_on_rules(picks, lambda rows: count(picks[rows], chosen, shared[rows]))
        return shared

    def _count_sets(
        self, shared: Integers, before: NDArray[Any] | None, own: NDArray[Any], changed: Integers
    ) -> None:
        picks, rest = self.part.picks, (before, own, self.part.layout.offsets, changed)
        count = kernels.overlap.overlap_sets
        run_on_rules(picks, lambda rows: count(picks[rows], *rest, shared[rows]))
