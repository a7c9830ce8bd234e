"""Patches: a test and a signed step each; predictions enter, patched predictions leave."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outrule.arrays import Floats
from outrule.audit import BLOCK, OPTIMISER, decide_all
from outrule.instances import Instances
from outrule.problems import Layout, Problem
from outrule.rules import Rule


class Patch(NamedTuple):
    """Move the items a test marks by ``step``, then project.

    ``test`` is the number of a rule, or -1 for the optimiser's own test.
    """

    test: int
    step: float


def first_point(prediction: Floats, problem: Problem, layout: Layout) -> Floats:
    """A copy of the start, projected where the problem's predictions live on the simplex."""
    from outrule.kernels import tally

    prediction = prediction.copy()
    if problem.simplex:
        tally.project_simplices(prediction, layout.offsets, layout.per_item["frozen"])
    return prediction


def apply_patches(
    prediction: Floats,
    patches: Sequence[Patch],
    picks: NDArray[Any],
    problem: Problem,
    layout: Layout,
    value_range: tuple[float, float],
) -> None:
    """Apply patches in order, in place; ``picks`` holds the rules' decisions, (n_rules, n, k)."""
    for own, run in groupby(patches, key=lambda patch: patch.test == OPTIMISER):
        if not own:
            batch = list(run)
            order = np.asarray([patch.test for patch in batch], dtype=np.int64)
            steps = np.asarray([patch.step for patch in batch])
            move(prediction, picks, order, steps, problem, layout, value_range)
            continue
        for patch in run:
            chosen = problem.pick(prediction, layout)[None]
            step = np.asarray([patch.step])
            move(prediction, chosen, np.zeros(1, np.int64), step, problem, layout, value_range)


def move(
    prediction: Floats,
    picks: NDArray[Any],
    order: NDArray[np.int64],
    steps: Floats,
    problem: Problem,
    layout: Layout,
    value_range: tuple[float, float],
) -> None:
    """Move the items of ``picks[order[t]]`` by ``steps[t]`` for every t, projecting after each."""
    from outrule.kernels import tally

    if problem.simplex:
        frozen = layout.per_item["frozen"]
        tally.patch_simplex(prediction, layout.offsets, picks, order, steps, frozen)
    else:
        tally.patch_box(prediction, layout.offsets, picks, order, steps, *value_range)


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
    number = {test: i for i, test in enumerate(used)} | {OPTIMISER: OPTIMISER}
    local = [Patch(number[patch.test], patch.step) for patch in patches]
    chosen_rules = [rules[test] for test in used]
    layout = problem.lay(instances)
    prediction = first_point(start, problem, layout)
    for first in range(0, len(layout), BLOCK):
        last = min(first + BLOCK, len(layout))
        block, part = instances.slice(first, last), layout.slice(first, last)
        picks = decide_all(chosen_rules, block, problem, part)
        flat = prediction[layout.offsets[first] : layout.offsets[last]]
        apply_patches(flat, local, picks, problem, part, instances.value_range)
    return prediction
