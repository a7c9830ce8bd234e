"""Members of a cross-fitted start: lists of curve patches, and how they are applied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outrule import kernels, threads
from outrule.calibration.audit import OPTIMISER
from outrule.calibration.isotonic import FittedIsotonic
from outrule.calibration.patches import first_point
from outrule.calibration.piecewise import NOTHING, pack
from outrule.calibration.trees import Forest, Trees
from outrule.data.instances import Instances
from outrule.problems.contract import Layout, Problem
from outrule.problems.one_item import BestAction, Classification, Rejection
from outrule.rules.decisions import INSTANCES_AT_A_TIME, compact, decide_all
from outrule.rules.rules import Rule
from outrule.types import Booleans, Floats, Integers, computed_once

PIECE = 2048  # instances that a thread takes through all members at a time
ARGMAX = (BestAction, Classification, Rejection)  # the kernel knows their optimiser


class CurvePatch(NamedTuple):
    """Move the items a test marks along a curve, then project.

    The curve goes through the points (x, y), both ascending, and is constant beyond them. ``test``
    is the number of a rule, of a rival behind the rules, or -1 for the optimiser's own test.
    """

    test: int
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Member:
    """One predictor of a cross-fitted start: where it starts, and its patches.

    ``start`` is None for the predictions themselves (or the start column of the data). ``trees``
    are added to it, if there are any, and then come the patches.
    """

    start: FittedIsotonic | None = None
    patches: tuple[CurvePatch, ...] = field(default=())
    trees: Trees | None = None


def given_start(instances: Instances) -> Floats:
    """The start column of the data, or else the predictions."""
    return instances.prediction if instances.start is None else instances.start


@dataclass(frozen=True, eq=False)
class Members:
    """Members that are applied together, packed as the kernels read them."""

    members: tuple[Member, ...]

    @computed_once
    def used(self) -> list[int]:
        """The tests that a patch or a tree names, but for the optimiser's own."""
        asked = {test for member in self.members if member.trees for test in member.trees.tests}
        asked |= {patch.test for member in self.members for patch in member.patches}
        return sorted(asked - {OPTIMISER})

    @computed_once
    def _packed(self) -> tuple[Integers, Integers, Integers, Floats, Integers, Floats]:
        """Where each member's patches end, the row in ``used`` of each (or -1), and its curve.

        The last two are the rising pieces of the curves.
        """
        patches = [patch for member in self.members for patch in member.patches]
        lengths = np.cumsum([0, *(len(member.patches) for member in self.members)], dtype=np.int64)
        number = {OPTIMISER: OPTIMISER} | {test: row for row, test in enumerate(self.used)}
        order = np.array([number[patch.test] for patch in patches], dtype=np.int64)
        curves = pack((patch.x, patch.y) for patch in patches)
        return lengths, order, *curves, *kernels.curves.rising_pieces(*curves)

    @computed_once
    def _forests(self) -> list[tuple[Forest, list[int]]]:
        """The trees of the members, and where in the decisions of the used tests theirs are."""
        found = Forest.of([member.trees for member in self.members])
        return [(one, [self.used.index(test) for test in one.tests]) for one in found]

    def _starts(self, some: Instances, part: Layout, picks: NDArray[Any]) -> Floats:
        """Where the patches of every member start, a row each."""
        given, frozen = given_start(some), part.per_item.get("frozen")
        starts = np.empty((len(self.members), len(given)))
        for row, member in zip(starts, self.members, strict=True):
            one = member.start
            row[:] = given if one is None else one.apply(replace(some, prediction=given), frozen)
        for forest, rows in self._forests:
            forest.add_to(starts, some, part.offsets, picks[rows], frozen)
        return starts

    def mean(self, tests: Sequence[Rule], problem: Problem, instances: Instances) -> Floats:
        """The start of new instances: the mean of what all members predict.

        Only tests that a patch or a tree names are decided, once for all members. Cost: linear in
        instances times patches and trees.
        """
        layout, result = problem.lay(instances), np.empty_like(instances.prediction)
        used = [tests[test] for test in self.used]
        for first, last in threads.spans(INSTANCES_AT_A_TIME, len(layout)):
            block, part = instances.slice(first, last), layout.slice(first, last)
            flat = result[layout.offsets[first] : layout.offsets[last]]
            self._fill(flat, problem, block, part, decide_all(used, block, problem, part))
        return result

    def _fill(
        self,
        result: Floats,
        problem: Problem,
        instances: Instances,
        layout: Layout,
        picks: NDArray[Any],
    ) -> None:
        pieces = threads.spans(PIECE, len(layout))
        together = type(problem) in ARGMAX or OPTIMISER not in self._packed[1]
        add = self._sum if together else self._sum_one_by_one

        def fill(piece: int) -> None:
            begin, end = pieces[piece]
            some, part = instances.slice(begin, end), layout.slice(begin, end)
            total = result[layout.offsets[begin] : layout.offsets[end]]
            add(total, problem, some, part, np.ascontiguousarray(picks[:, :, begin:end]))
            total[:] = mean(total, len(self.members), some, part.per_item.get("frozen"))

        # A function of the caller's is not called from other threads.
        with threads.using(threads.n_threads() if problem.threaded else 1):
            threads.run(fill, len(pieces))

    def _sum(
        self, total: Floats, problem: Problem, some: Instances, part: Layout, picks: NDArray[Any]
    ) -> None:
        starts = self._starts(some, part, picks)
        rest = (part.per_item.get("frozen", NOTHING), problem.simplex)
        kernels.curves.sum_members(starts, part.offsets, picks, self._packed, *rest, total)

    def _sum_one_by_one(
        self, total: Floats, problem: Problem, some: Instances, part: Layout, picks: NDArray[Any]
    ) -> None:
        total[:] = 0.0
        lengths, order, ends, points, *_ = self._packed
        rest, own = (part.per_item.get("frozen", NOTHING), problem.simplex), order == OPTIMISER
        starts = self._starts(some, part, picks)
        for start, (first, last) in zip(starts, pairwise(lengths.tolist()), strict=True):
            prediction = first_point(start, problem, part)
            # Patches of rules go in one call, up to the next of the optimiser, which needs them.
            cuts = [t for t in range(first + 1, last) if own[t - 1] or own[t]]
            for begin, end in pairwise([first, *cuts, last]):
                rows, numbers = picks, order[begin:end]
                if own[begin:end].any():
                    rows = compact(problem.pick(prediction, part), part)[None]
                    numbers = np.zeros(1, dtype=np.int64)
                curves = (ends[begin : end + 1], points)
                kernels.curves.patch_curves(prediction, part.offsets, rows, numbers, *curves, *rest)
            total += prediction


def mean(total: Floats, count: Any, instances: Instances, frozen: Booleans | None) -> Floats:
    """The mean of predictions from their sum; frozen items keep their bits."""
    result = np.clip(total / count, *instances.value_range)
    return result if frozen is None else np.where(frozen, instances.prediction, result)
