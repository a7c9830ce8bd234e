"""Patches, of which a fitted model consists, and how they are applied to predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outrule import kernels, threads
from outrule.calibration.audit import OPTIMISER, Part
from outrule.data.instances import Instances
from outrule.problems.contract import Layout, Problem
from outrule.problems.one_item import BestAction
from outrule.rules.decisions import INSTANCES_AT_A_TIME, compact, decide_all
from outrule.rules.rules import Rule
from outrule.types import Floats, Integers

THREAD_INSTANCES = 8192  # instances that a thread patches before it takes others

Span = tuple[int, int]


class Patch(NamedTuple):
    """Move the items a test marks by ``step``, then project.

    ``test`` is the number of a rule, or -1 for the optimiser's own test.
    """

    test: int
    step: float

    @property
    def segment(self) -> int:
        """It moves the instances of the whole, which has the number -1."""
        return -1


class SegmentPatch(NamedTuple):
    """A patch that moves only the instances of one segment of the model, given by its number."""

    test: int
    step: float
    segment: int


AnyPatch = Patch | SegmentPatch


def make_patch(test: int, step: float, segment: int) -> AnyPatch:
    return Patch(test, step) if segment < 0 else SegmentPatch(test, step, segment)


class Decided(NamedTuple):
    """Instances to patch: the decisions of the rules on them, and where predictions may move."""

    problem: Problem
    layout: Layout
    picks: NDArray[Any]  # (n_rules, k, n)
    value_range: tuple[float, float]


def patch_columns(
    patches: Sequence[AnyPatch], number: Integers | Mapping[int, int]
) -> tuple[Integers, Floats]:
    """The patches as two columns: rules numbered as decisions are (-1 the optimiser), and steps."""
    order = [p.test if p.test == OPTIMISER else number[p.test] for p in patches]
    steps = [patch.step for patch in patches]
    return np.asarray(order, dtype=np.int64), np.asarray(steps, dtype=np.float64)


def first_point(prediction: Floats, problem: Problem, layout: Layout) -> Floats:
    """A copy of the start, projected where the problem's predictions live on the simplex."""
    prediction = prediction.copy()
    if problem.simplex:
        frozen = layout.per_item["frozen"]
        kernels.tally.project_simplices(prediction, layout.offsets, frozen)
    return prediction


def apply_patches(prediction: Floats, order: Integers, steps: Floats, decided: Decided) -> None:
    """Apply patches, as ``patch_columns`` gives them, in order and in place, on threads."""
    pieces = threads.spans(THREAD_INSTANCES, len(decided.layout))
    # A function of the caller's is not called from other threads.
    with threads.using(threads.n_threads() if decided.problem.threaded else 1):
        threads.run(
            lambda piece: patch_span(prediction, order, steps, decided, pieces[piece]), len(pieces)
        )


def patch_part(
    part: Part, prediction: Floats, patches: Sequence[AnyPatch], problem: Problem
) -> None:
    """Apply patches to the predictions of a part, in place."""
    decided = Decided(problem, part.layout, part.picks, part.instances.value_range)
    apply_patches(prediction, *patch_columns(patches, part.of_rule), decided)


def patch_span(
    prediction: Floats, order: Integers, steps: Floats, decided: Decided, span: Span
) -> None:
    """The same as ``apply_patches``, for the instances of one span."""
    problem, layout, picks, value_range = decided
    own = order == OPTIMISER
    if type(problem) is BestAction and own.any():
        rules = (picks, order, steps, value_range)
        room = kernels.patching.room_of_groups(layout.offsets, span)
        kernels.patching.patch_best(prediction, layout.offsets, *rules, span, room)
        return
    part, first, last = layout.slice(*span), layout.offsets[span[0]], layout.offsets[span[1]]
    # Patches of rules are applied in one call, up to the next of the optimiser, whose decisions
    # depend on them.
    ends = np.flatnonzero(own[:-1] | own[1:]) + 1
    for begin, end in pairwise([0, *ends.tolist(), len(order)]):
        if begin == end:
            continue
        if not own[begin]:
            _move(prediction, order[begin:end], steps[begin:end], decided, span)
            continue
        some = prediction[first:last]
        chosen = compact(problem.pick(some, part), layout)[None]
        alone = Decided(problem, part, chosen, value_range)
        _move(some, np.zeros(1, np.int64), steps[begin:end], alone, (0, len(part)))


def _move(prediction: Floats, order: Integers, steps: Floats, decided: Decided, span: Span) -> None:
    """Move the items of ``picks[order[t]]`` by ``steps[t]`` for every t, projecting after each."""
    problem, layout, picks, value_range = decided
    patches, patching = (picks, order, steps), kernels.patching
    if problem.simplex:
        frozen = layout.per_item["frozen"]
        patching.patch_simplex(prediction, layout.offsets, *patches, frozen, span)
    else:
        patching.patch_box(prediction, layout.offsets, layout.width, *patches, value_range, span)


def replay(
    patches: Sequence[AnyPatch],
    rules: Sequence[Rule],
    problem: Problem,
    instances: Instances,
    start: Floats,
) -> Floats:
    """The calibrated predictions: all patches, from the start; the bits that ``fit`` had.

    Only rules that a patch names are decided. Cost: linear in instances times patches.
    """
    used = sorted({patch.test for patch in patches} - {OPTIMISER})
    order, steps = patch_columns(patches, {test: i for i, test in enumerate(used)})
    used_rules, layout = [rules[test] for test in used], problem.lay(instances)
    prediction = first_point(start, problem, layout)
    for first, last in threads.spans(INSTANCES_AT_A_TIME, len(layout)):
        block, part = instances.slice(first, last), layout.slice(first, last)
        picks = decide_all(used_rules, block, problem, part)
        flat = prediction[layout.offsets[first] : layout.offsets[last]]
        apply_patches(flat, order, steps, Decided(problem, part, picks, instances.value_range))
    return prediction
