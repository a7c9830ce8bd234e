"""Sums over decisions, in integers where a sum must be exact.

Residuals are rounded once to integer multiples of a power of two. Integer sums do not depend on
their order, so a violation has the same bits for any chunking, thread count or order of instances.
"""

from __future__ import annotations

import numpy as np

from outrule.kernels.compiling import njit
from outrule.kernels.picking import longest
from outrule.types import Booleans, Floats, Integers, Positions, Small

INSTANCE_BLOCK = 2048  # instances whose residuals stay in cache while all rules are summed
ITEM_GROUP = 16  # items of which the largest is kept


@njit(nogil=True, cache=True)
def residuals(
    prediction: Floats,
    outcome: Floats,
    offsets: Integers,
    weight: Floats,
    span: float,
    bits: int,
    residual: Integers,
) -> np.int64:
    """Write weight * (outcome - prediction) in units of span / 2**bits; return the sum of squares.

    The squares are in units of span**2 / 2**bits.
    """
    total = np.int64(0)
    for i in range(len(offsets) - 1):
        factor = weight[i] * 2.0**bits
        for j in range(offsets[i], offsets[i + 1]):
            difference = (outcome[j] - prediction[j]) / span
            residual[j] = np.int64(np.rint(factor * difference))
            total += np.int64(np.rint(factor * difference * difference))
    return total


@njit(nogil=True, cache=True)
def sum_over_picks(
    values: Integers, offsets: Integers, width: int | None, picks: Small, sums: Integers
) -> None:
    """Add to ``sums[r]`` the values of the items that ``picks[r]`` of shape (k, n) chooses.

    Where an instance has no j-th pick stands a number that is no position of it. Where all have
    ``width`` items, no offsets are read.
    """
    n_rules, k, n = picks.shape
    for first in range(0, n, INSTANCE_BLOCK):
        last = min(first + INSTANCE_BLOCK, n)
        for r in range(n_rules):
            total = np.int64(0)
            for j in range(k):
                for i in range(first, last):
                    position = np.int64(picks[r, j, i])
                    if width is None:  # only one of the two is compiled
                        start, size = offsets[i], offsets[i + 1] - offsets[i]
                    else:
                        start, size = i * width, width
                    if position < size:
                        total += values[start + position]
            sums[r] += total


@njit(nogil=True, cache=True)
def squares_over_picks(
    values: Integers,
    offsets: Integers,
    picks: Small,
    group: Integers,
    weight: Floats,
    means: Floats,
    squares: Floats,
) -> None:
    """Write to ``squares[r]`` how the sums of ``picks[r]`` over groups of instances vary.

    It is the sum over groups of (their sum of values minus their weight times ``means[r]``)**2.
    """
    n_rules, k, n = picks.shape
    sums = np.empty(len(weight), dtype=np.int64)
    for r in range(n_rules):
        for g in range(len(sums)):  # to assign a slice takes longer to compile
            sums[g] = 0
        for j in range(k):
            for i in range(n):
                position = np.int64(picks[r, j, i])
                if position < offsets[i + 1] - offsets[i]:
                    sums[group[i]] += values[offsets[i] + position]
        squares[r] = 0.0
        for g in range(len(weight)):
            difference = sums[g] - weight[g] * means[r]
            squares[r] += difference * difference


@njit(nogil=True, cache=True)
def project_simplex(values: Floats, frozen: Booleans, start: int, stop: int, room: Floats) -> None:
    """The nearest point of the simplex, in place; frozen entries stay (Held et al. 1974).

    ``room`` holds the free entries in descending order.
    """
    n = 0
    for j in range(start, stop):
        if not frozen[j]:
            at = n
            while n < ITEM_GROUP and at > 0 and room[at - 1] < values[j]:
                room[at] = room[at - 1]
                at -= 1
            room[at] = values[j]
            n += 1
    if n > ITEM_GROUP:
        sort_descending(room[:n])
    total, shift = 0.0, 0.0
    for rank in range(1, n + 1):
        total += room[rank - 1]
        candidate = (total - 1.0) / rank
        if rank == n or room[rank] <= candidate:
            shift = candidate
            break
    for j in range(start, stop):
        if not frozen[j]:
            values[j] = min(max(values[j] - shift, 0.0), 1.0)


@njit(nogil=True, cache=True)
def sort_descending(values: Floats) -> None:
    """Sort in place, by a heap: ``np.sort`` takes a second to compile."""
    n = len(values)
    for end in range(n + n // 2 - 1, 0, -1):  # build the heap, then take the least off it
        at, size = max(end - n, 0), min(end, n)
        if end < n:
            values[0], values[end] = values[end], values[0]
        value = values[at]
        while 2 * at + 1 < size:
            child = 2 * at + 1
            if child + 1 < size and values[child + 1] < values[child]:
                child += 1
            if values[child] >= value:
                break
            values[at] = values[child]
            at = child
        values[at] = value


@njit(nogil=True, cache=True)
def project_simplices(prediction: Floats, offsets: Integers, frozen: Booleans) -> None:
    """Project every instance that is off the simplex by more than rounding."""
    room = np.empty(longest(offsets))
    for i in range(len(offsets) - 1):
        start, stop = offsets[i], offsets[i + 1]
        total = 0.0
        for j in range(start, stop):
            if not frozen[j]:
                total += prediction[j]
        if np.abs(total - 1.0) > 1e-9:
            project_simplex(prediction, frozen, start, stop, room)


@njit(nogil=True, cache=True)
def mark_picks(picks: Positions, offsets: Integers, marks: Booleans) -> None:
    """Mark the items that ``picks`` (n, k) chooses; -1 is no pick."""
    for i in range(picks.shape[0]):
        for j in range(picks.shape[1]):
            if picks[i, j] >= 0:
                marks[offsets[i] + picks[i, j]] = True


@njit(nogil=True, cache=True)
def compact_and_sum(
    picks: Positions,
    offsets: Integers,
    residual: Integers,
    movable: Integers,
    unit: int,
    own: Small,
    span: tuple[int, int],
) -> tuple[np.int64, np.int64]:
    """Write decisions (n, k) as small numbers (k, n); return their residual and movable weight.

    Without ``movable`` weights (an empty array) every item has weight ``unit``.
    """
    total, moved = np.int64(0), np.int64(0)
    for i in range(span[0], span[1]):
        for j in range(picks.shape[1]):
            position = picks[i, j]
            own[j, i] = position
            if position >= 0:
                total += residual[offsets[i] + position]
                moved += movable[offsets[i] + position] if len(movable) else unit
    return total, moved


@njit(nogil=True, cache=True)
def best_with_margin(
    prediction: Floats, offsets: Integers, which: Integers, best: Positions, margin: Floats
) -> None:
    """The item of largest prediction in these instances, and how far ahead of the next it is."""
    for i in which:
        place, ahead = offsets[i], np.inf
        for j in range(offsets[i] + 1, offsets[i + 1]):
            if prediction[j] > prediction[place]:
                place, ahead = j, prediction[j] - prediction[place]
            else:
                ahead = min(ahead, prediction[place] - prediction[j])
        best[i, 0], margin[i] = place - offsets[i], ahead


@njit(nogil=True, cache=True)
def shrink_margins(
    margin: Floats, best: Positions, picks: Small, step: float, slack: float, changed: Integers
) -> int:
    """Let every margin know of a step; write the instances whose best item may have changed.

    Raising the best item, or lowering another, keeps it the best: the margin only shrinks where
    the step lowers the best or raises another, and by no more than the step and its rounding.
    Returns how many were written.
    """
    n_changed, size = 0, abs(step) + slack
    for i in range(len(margin)):
        if (picks[0, i] == best[i, 0]) == (step < 0):
            margin[i] -= size
            if margin[i] <= 0:
                changed[n_changed] = i
                n_changed += 1
    return n_changed
