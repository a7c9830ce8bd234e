"""Members of a cross-fitted start: lists of curve patches, and how they are applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outrule import kernels, threads
from outrule.calibration.audit import OPTIMISER
from outrule.calibration.isotonic import POOLED, FittedIsotonic
from outrule.calibration.patches import first_point
from outrule.data.instances import Instances
from outrule.problems.contract import Layout, Problem
from outrule.problems.one_item import BestAction, Classification, Rejection
from outrule.rules.decisions import BLOCK, compact, decide_all
from outrule.rules.rules import Rule
from outrule.types import Booleans, Floats, Integers, computed_once

PIECE = 2048  # instances that a thread takes through all members at a time
ARGMAX = (BestAction, Classification, Rejection)  # the kernel knows their optimiser
NOTHING = np.zeros(0, dtype=np.bool_)


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

    ``start`` is None for the predictions themselves (or the start column of the data).
    """

    start: FittedIsotonic | None = None
    patches: tuple[CurvePatch, ...] = field(default=())

    @computed_once
    def tests(self) -> Integers:
        return np.array([patch.test for patch in self.patches], dtype=np.int64)

    @computed_once
    def curves(self) -> Curves:
        return pack([(patch.x, patch.y) for patch in self.patches])

    @computed_once
    def item_curves(self) -> tuple[Mapping[Any, int], Curves]:
        """The number of every item's isotonic curve, and the curves."""
        assert self.start is not None
        curves = self.start.curves
        return {name: number for number, name in enumerate(curves)}, pack(curves.values())

    def start_of(self, instances: Instances, given: Floats, frozen: Booleans) -> Floats:
        """Where the patches of this member start, if the instances have a ``given`` start."""
        if self.start is None:
            return given
        numbers, curves = self.item_curves
        item, of_item = np.empty(0, dtype=np.int32), np.zeros(1, dtype=np.int64)
        if instances.item is not None and set(numbers) != {POOLED}:
            names = instances.names_of_items or ()
            pooled = numbers.get(POOLED, -1)
            item = instances.item
            of_item = np.array([numbers.get(name, pooled) for name in names], dtype=np.int64)
        result = np.empty_like(instances.prediction)
        follow = kernels.curves.follow_item_curves
        follow(instances.prediction, item, of_item, *curves, result)
        if len(frozen):
            result[frozen] = instances.prediction[frozen]
        return result


def given_start(instances: Instances) -> Floats:
    """The start column of the data, or else the predictions."""
    return instances.prediction if instances.start is None else instances.start


class Curves(NamedTuple):
    """Curves behind each other: the knots of the t-th are from ``knots[t]`` to ``knots[t + 1]``."""

    knots: Integers
    x: Floats
    y: Floats


def pack(curves: Any) -> Curves:
    """Curves (x, y) as flat arrays."""
    curves = list(curves)
    knots = np.concatenate(([0], np.cumsum([len(x) for x, _ in curves], dtype=np.int64)))
    flat = [np.concatenate([np.empty(0), *(curve[k] for curve in curves)]) for k in (0, 1)]
    return Curves(knots.astype(np.int64), *flat)


def apply_curves(
    prediction: Floats,
    order: Integers,
    curves: Curves,
    problem: Problem,
    layout: Layout,
    picks: NDArray[Any],
) -> None:
    """Apply curve patches in order and in place; ``order`` numbers the rows of picks (r, k, n)."""
    frozen = layout.per_item.get("frozen", NOTHING)
    rest = (frozen, problem.simplex)
    own = order == OPTIMISER
    if type(problem) in ARGMAX or not own.any():
        kernels.curves.patch_curves(prediction, layout.offsets, picks, order, *curves, *rest)
        return
    # Patches of rules go in one call, up to the next of the optimiser, which depends on them.
    ends = np.flatnonzero(own[:-1] | own[1:]) + 1
    for begin, end in pairwise([0, *ends.tolist(), len(order)]):
        rows, numbers = picks, order[begin:end]
        if own[begin]:
            rows = compact(problem.pick(prediction, layout), layout)[None]
            numbers = np.zeros(1, dtype=np.int64)
        some = (curves.knots[begin : end + 1], curves.x, curves.y)
        kernels.curves.patch_curves(prediction, layout.offsets, rows, numbers, *some, *rest)


def mean_of_members(
    members: Sequence[Member], tests: Sequence[Rule], problem: Problem, instances: Instances
) -> Floats:
    """The start of new instances: the mean of what all members predict.

    Only tests that a patch names are decided, once for all members. Cost: linear in instances
    times patches.
    """
    used = sorted({int(test) for member in members for test in member.tests} - {OPTIMISER})
    number = np.full(len(tests) + 1, OPTIMISER)
    number[used] = np.arange(len(used))
    orders = [number[member.tests] for member in members]
    layout, result = problem.lay(instances), np.empty_like(instances.prediction)
    for first, last in threads.spans(BLOCK, len(layout)):
        block, part = instances.slice(first, last), layout.slice(first, last)
        picks = decide_all([tests[test] for test in used], block, problem, part)
        flat = result[layout.offsets[first] : layout.offsets[last]]
        _fill_means(flat, members, orders, problem, block, part, picks)
    return result


def _fill_means(
    result: Floats,
    members: Sequence[Member],
    orders: Sequence[Integers],
    problem: Problem,
    instances: Instances,
    layout: Layout,
    picks: NDArray[Any],
) -> None:
    pieces = threads.spans(PIECE, len(layout))

    def fill(piece: int) -> None:
        begin, end = pieces[piece]
        some, part = instances.slice(begin, end), layout.slice(begin, end)
        rows = np.ascontiguousarray(picks[:, :, begin:end])
        frozen, total = part.per_item.get("frozen", NOTHING), np.zeros(len(some.prediction))
        for member, order in zip(members, orders, strict=True):
            start = member.start_of(some, given_start(some), frozen)
            prediction = first_point(start, problem, part)
            apply_curves(prediction, order, member.curves, problem, part, rows)
            total += prediction
        where = slice(layout.offsets[begin], layout.offsets[end])
        result[where] = mean(total, len(members), some, frozen)

    # A function of the caller's is not called from other threads.
    with threads.using(threads.n_threads() if problem.threaded else 1):
        threads.run(fill, len(pieces))


def mean(total: Floats, count: int, instances: Instances, frozen: Booleans) -> Floats:
    """The mean of predictions from their sum; frozen items keep their bits."""
    result = np.clip(total / count, *instances.value_range)
    if len(frozen):
        result[frozen] = instances.prediction[frozen]
    return result
