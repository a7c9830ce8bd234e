"""Patches of predictions: the items that a rule chooses move by a step, and stay in range."""

from __future__ import annotations

import numpy as np

from outrule.kernels.compiling import njit
from outrule.kernels.picking import longest
from outrule.kernels.tally import INSTANCE_BLOCK, ITEM_GROUP, project_simplex
from outrule.types import Booleans, Floats, Integers, Small

NEAR_BLOCK = 64  # instances that stay in the nearest cache with all their items


@njit(nogil=True, cache=True)
def patch_box(
    prediction: Floats,
    offsets: Integers,
    width: int | None,
    picks: Small,
    order: Integers,
    steps: Floats,
    box: tuple[float, float],
    span: tuple[int, int],
) -> None:
    """Apply patches in order: ``picks[order[t]]`` moves by ``steps[t]``, then is clipped.

    Instances span[0] to span[1] are patched, a block at a time, while it is in cache. Where all
    have ``width`` items, no offsets are read.
    """
    low, high = box
    for first in range(span[0], span[1], INSTANCE_BLOCK):
        last = min(first + INSTANCE_BLOCK, span[1])
        for t in range(len(order)):
            step = steps[t]
            for j in range(picks.shape[1]):
                row = picks[order[t], j]
                for i in range(first, last):
                    position = np.int64(row[i])
                    if width is None:  # only one of the two is compiled
                        start, size = offsets[i], offsets[i + 1] - offsets[i]
                    else:
                        start, size = i * width, width
                    if position < size:
                        place = start + position
                        prediction[place] = min(max(prediction[place] + step, low), high)


@njit(nogil=True, cache=True)
def patch_ledger(
    prediction: Floats,
    residual: Integers,
    outcome: Floats,
    offsets: Integers,
    picks: Small,
    step: float,
    integer_step: int,
    box: tuple[float, float],
    bits: int,
    span: tuple[int, int],
    clipped: Integers,
) -> tuple[int, np.int64]:
    """Move the items of ``picks`` (k, n) by one step, and their integer residuals with them.

    Writes one row (instance, position, amount) to ``clipped`` for every item whose residual changed
    by another amount than -integer_step, by how much more, because it was clipped. Returns the
    number of these rows, and the change of the sum of squares.
    """
    k, unit = picks.shape[0], 2.0**bits
    low, high = box
    width = high - low
    n_clipped, squares = 0, np.int64(0)
    for j in range(k):
        for i in range(span[0], span[1]):
            position = np.int64(picks[j, i])
            if position >= offsets[i + 1] - offsets[i]:
                continue
            place = offsets[i] + position
            before, moved = prediction[place], prediction[place] + step
            after = min(max(moved, low), high)
            prediction[place] = after
            expected = residual[place] - integer_step
            residual[place] = expected
            if after != moved:
                residual[place] = np.int64(np.rint(unit * ((outcome[place] - after) / width)))
                row = clipped[n_clipped]
                row[0], row[1], row[2] = i, position, residual[place] - expected
                n_clipped += 1
            old, new = (outcome[place] - before) / width, (outcome[place] - after) / width
            squares += np.int64(np.rint(unit * new * new)) - np.int64(np.rint(unit * old * old))
    return n_clipped, squares


@njit(nogil=True, cache=True)
def patch_simplex(
    prediction: Floats,
    offsets: Integers,
    picks: Small,
    order: Integers,
    steps: Floats,
    frozen: Booleans,
    span: tuple[int, int],
) -> None:
    """As patch_box for decisions of one item; touched instances are projected on the simplex."""
    room = np.empty(longest(offsets[span[0] : span[1] + 1]))
    for first in range(span[0], span[1], INSTANCE_BLOCK):
        last = min(first + INSTANCE_BLOCK, span[1])
        for t in range(len(order)):
            for i in range(first, last):
                position = np.int64(picks[order[t], 0, i])
                start, stop = offsets[i], offsets[i + 1]
                if position < stop - start and not frozen[start + position]:
                    prediction[start + position] += steps[t]
                    project_simplex(prediction, frozen, start, stop, room)


@njit(nogil=True, cache=True)
def patch_best(
    prediction: Floats,
    offsets: Integers,
    picks: Small,
    order: Integers,
    steps: Floats,
    box: tuple[float, float],
    span: tuple[int, int],
    most: Floats,
) -> None:
    """As patch_box for decisions of one item; order[t] = -1 is the item of largest prediction.

    A patch is applied to some instances before the next: their decisions by one rule lie together.
    The largest of every group of items is kept (``most``), so that of all is found among few.
    """
    low, high = box
    for first in range(span[0], span[1], NEAR_BLOCK):
        last = min(first + NEAR_BLOCK, span[1])
        for i in range(first, last):
            start, stop = offsets[i], offsets[i + 1]
            for begin in range(start, stop, ITEM_GROUP):
                most[i - first, (begin - start) // ITEM_GROUP] = largest_of(prediction, begin, stop)
        for t in range(len(order)):
            rule, step = order[t], steps[t]
            for i in range(first, last):
                start, stop = offsets[i], offsets[i + 1]
                if rule >= 0:
                    position = np.int64(picks[rule, 0, i])
                    if position >= stop - start:
                        continue
                    place, group = start + position, int(position // ITEM_GROUP)
                elif start == stop:
                    continue
                else:
                    tops, group = most[i - first], 0
                    largest = tops[0]
                    for other in range(1, (stop - start - 1) // ITEM_GROUP + 1):
                        group = other if tops[other] > largest else group
                        largest = tops[other] if tops[other] > largest else largest
                    place = start + group * ITEM_GROUP
                    while place < stop - 1 and prediction[place] != largest:  # NaN equals nothing
                        place += 1
                before = prediction[place]
                after = min(max(before + step, low), high)
                prediction[place] = after
                if step > 0:
                    if after > most[i - first, group]:
                        most[i - first, group] = after
                elif before == most[i - first, group]:
                    most[i - first, group] = largest_of(
                        prediction, start + group * ITEM_GROUP, stop
                    )


def room_of_groups(offsets: Integers, span: tuple[int, int]) -> Floats:
    """Room for what patch_best keeps of the instances of a span."""
    most = np.diff(offsets[span[0] : span[1] + 1]).max(initial=1)
    return np.empty((NEAR_BLOCK, -(-int(most) // ITEM_GROUP)))


@njit(nogil=True, cache=True)
def largest_of(prediction: Floats, first: int, stop: int) -> float:
    """The largest prediction of the group of items that begins here, found without a branch."""
    most = prediction[first]
    for j in range(first + 1, min(first + ITEM_GROUP, stop)):
        most = prediction[j] if prediction[j] > most else most
    return float(most)
