"""Patches: a test and a signed step each; predictions enter, patched predictions leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outrule import threads
from outrule.calibration.audit import OPTIMISER
from outrule.data.instances import Instances
from outrule.problems.contract import Layout, Problem
from outrule.problems.one_item import BestAction
from outrule.rules.decisions import BLOCK, compact, decide_all
from outrule.rules.rules import Rule
from outrule.types import Floats, Integers

PIECE = 8192  # instances that one thread patches before it takes others

Range = tuple[float, float]
Span = tuple[int, int]


class Patch(NamedTuple):
    """Move the items a test marks by ``step``, then project.

    ``test`` is the number of a rule, or -1 for the optimiser's own test.
    """

    test: int
    step: float


def columns(
    patches: Sequence[Patch], number: Integers | Mapping[int, int]
) -> tuple[Integers, Floats]:
    """The patches as two columns: rules numbered as decisions are (-1 the optimiser), and steps."""
    order = [p.test if p.test == OPTIMISER else number[p.test] for p in patches]
    steps = [patch.step for patch in patches]
    return np.asarray(order, dtype=np.int64), np.asarray(steps, dtype=np.float64)


def first_point(prediction: Floats, problem: Problem, layout: Layout) -> Floats:
    """A copy of the start, projected where the problem's predictions live on the simplex."""
    from outrule.kernels import tally

    prediction = prediction.copy()
    if problem.simplex:
        tally.project_simplices(prediction, layout.offsets, layout.per_item["frozen"])
    return prediction


def apply_patches(
    prediction: Floats,
    order: Integers,
    steps: Floats,
    picks: NDArray[Any],
    problem: Problem,
    layout: Layout,
    value_range: Range,
) -> None:
    """Apply patches in order, in place, pieces of the instances on threads.

    ``picks`` holds the decisions of the rules, (n_rules, k, n); ``order`` and ``steps`` come from
    :func:`columns`.
    """
    pieces = threads.spans(PIECE, len(layout))

    def apply(piece: int) -> None:
        patch_span(prediction, order, steps, picks, problem, layout, value_range, pieces[piece])

    # A function of the caller's is not called from other threads.
    with threads.using(threads.n_threads() if problem.threaded else 1):
        threads.run(apply, len(pieces))


def patch_span(
    prediction: Floats,
    order: Integers,
    steps: Floats,
    picks: NDArray[Any],
    problem: Problem,
    layout: Layout,
    value_range: Range,
    span: Span,
) -> None:
    """As :func:`apply_patches`, for the instances of one span; runs of rules' in one call."""
    from outrule.kernels import tally

    own = order == OPTIMISER
    if type(problem) is BestAction and own.any():
        tally.patch_best(prediction, layout.offsets, picks, order, steps, value_range, span)
        return
    part, first, last = layout.slice(*span), layout.offsets[span[0]], layout.offsets[span[1]]
    # A run ends where the next patch is the optimiser's, whose decisions must be looked for.
    ends = np.flatnonzero(own[:-1] | own[1:]) + 1
    for begin, end in pairwise([0, *ends.tolist(), len(order)]):
        if begin == end:
            continue
        if not own[begin]:
            run = (order[begin:end], steps[begin:end])
            move(prediction, picks, *run, problem, layout, value_range, span)
            continue
        some = prediction[first:last]
        chosen = compact(problem.pick(some, part), layout)[None]
        run = (np.zeros(1, np.int64), steps[begin:end])
        move(some, chosen, *run, problem, part, value_range, (0, len(part)))


def move(
    prediction: Floats,
    picks: NDArray[Any],
    order: Integers,
    steps: Floats,
    problem: Problem,
    layout: Layout,
    value_range: Range,
    span: Span,
) -> None:
    """Move the items of ``picks[order[t]]`` by ``steps[t]`` for every t, projecting after each."""
    from outrule.kernels import tally

    if problem.simplex:
        frozen = layout.per_item["frozen"]
        tally.patch_simplex(prediction, layout.offsets, picks, order, steps, frozen, span)
    elif layout.width is None:
        tally.patch_box(prediction, layout.offsets, picks, order, steps, value_range, span)
    else:
        tally.patch_dense_box(prediction, layout.width, picks, order, steps, value_range, span)


def replay(
    patches: Sequence[Patch],
    rules: Sequence[Rule],
    problem: Problem,
    instances: Instances,
    start: Floats,
) -> Floats:
    """The calibrated predictions: all patches, from the start; the bits that ``fit`` had.

    Only rules that a patch names are decided. Cost: linear in instances times patches.
    """
    used = sorted({patch.test for patch in patches} - {OPTIMISER})
    order, steps = columns(patches, {test: i for i, test in enumerate(used)})
    chosen_rules = [rules[test] for test in used]
    layout = problem.lay(instances)
    prediction = first_point(start, problem, layout)
    for first, last in threads.spans(BLOCK, len(layout)):
        block, part = instances.slice(first, last), layout.slice(first, last)
        picks = decide_all(chosen_rules, block, problem, part)
        flat = prediction[layout.offsets[first] : layout.offsets[last]]
        apply_patches(flat, order, steps, picks, problem, part, instances.value_range)
    return prediction
