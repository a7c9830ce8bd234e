"""Curve patches: predictions moved along monotone curves, and the sums by which they are fitted."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from outrule.kernels.compiling import njit
from outrule.kernels.picking import longest
from outrule.kernels.tally import project_simplex

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

FEW = 64  # instances that stay in the nearest cache while all patches are applied
BLOCK = 512  # instances whose values stay in cache while all tests are summed


@njit(nogil=True, cache=True)
def value_at(x: Floats, y: Floats, first: int, last: int, p: float) -> float:
    """The curve through the knots first to last - 1 at p; constant beyond its ends."""
    if p < x[first]:
        return float(y[first])
    at, length = first, last - first
    while length > 1:  # the last knot that is not above p, found without a branch
        half = length // 2
        at = at + half if x[at + half] <= p else at
        length -= half
    if at == last - 1:
        return float(y[at])
    share = (p - x[at]) / (x[at + 1] - x[at])
    return min(float(y[at] + share * (y[at + 1] - y[at])), float(y[at + 1]))


@njit(nogil=True, cache=True)
def follow_item_curves(
    prediction: Floats,
    item: NDArray[np.int32],
    curve_of_item: Integers,
    knots: Integers,
    x: Floats,
    y: Floats,
    result: Floats,
) -> None:
    """Every prediction on the curve of its item; an item whose curve is -1 stays as it is.

    Without items (an empty array) all are on the first curve.
    """
    for j in range(len(prediction)):
        curve = curve_of_item[item[j]] if len(item) else 0
        result[j] = prediction[j]
        if curve >= 0:
            result[j] = value_at(x, y, knots[curve], knots[curve + 1], prediction[j])


@njit(nogil=True, cache=True)
def patch_curves(
    prediction: Floats,
    offsets: Integers,
    picks: NDArray[np.integer],
    order: Integers,
    knots: Integers,
    x: Floats,
    y: Floats,
    frozen: Flags,
    simplex: bool,
) -> None:
    """Apply patches in order: the items of ``picks[order[t]]`` go along the t-th curve.

    order[t] = -1 is the item of largest prediction, the first of equals. Frozen items stay;
    without any (an empty array) all may move. On the simplex, touched instances are projected.
    """
    room = np.empty(longest(offsets) if simplex else 1)
    n = len(offsets) - 1
    places, owners = np.empty(FEW, dtype=np.int64), np.empty(FEW, dtype=np.int64)
    values, knot = np.empty(FEW), np.empty(FEW, dtype=np.int64)
    for first in range(0, n, FEW):
        for t in range(len(order)):
            rule, begin, end = order[t], knots[t], knots[t + 1]
            for j in range(picks.shape[1] if rule >= 0 else 1):
                n_places = 0
                for i in range(first, min(first + FEW, n)):
                    start, stop = offsets[i], offsets[i + 1]
                    if rule >= 0:
                        position = np.int64(picks[rule, j, i])
                    else:
                        position = np.int64(0)
                        for other in range(1, stop - start):
                            larger = prediction[start + other] > prediction[start + position]
                            position = np.int64(other) if larger else position
                    place = start + position
                    if position < stop - start and not (len(frozen) and frozen[place]):
                        places[n_places], owners[n_places] = place, i
                        n_places += 1
                follow(prediction, places, n_places, x, y, begin, end, values, knot)
                if simplex:
                    for i in owners[:n_places]:
                        project_simplex(prediction, frozen, offsets[i], offsets[i + 1], room)


@njit(nogil=True, cache=True)
def follow(
    prediction: Floats,
    places: Integers,
    n_places: int,
    x: Floats,
    y: Floats,
    first: int,
    last: int,
    values: Floats,
    knot: Integers,
) -> None:
    """:func:`value_at` for some items, at most FEW: knot by knot for all of them, as vectors."""
    for i in range(n_places):
        values[i] = prediction[places[i]]
        knot[i] = first - 1
    for j in range(first, last):
        level = x[j]
        for i in range(n_places):
            knot[i] += level <= values[i]
    for i in range(n_places):
        at = min(max(knot[i], first), max(last - 2, first))
        then = min(at + 1, last - 1)
        width = x[then] - x[at]
        share = (values[i] - x[at]) / (width if width > 0 else 1.0)
        value = min(y[at] + share * (y[then] - y[at]), y[then])
        value = y[first] if knot[i] < first else value
        prediction[places[i]] = y[last - 1] if knot[i] == last - 1 else value


@njit(nogil=True, cache=True)
def level_of(edges: Floats, p: float) -> np.uint8:
    """How many edges are not above p."""
    level = 0
    for edge in edges:
        level += edge <= p
    return np.uint8(level)


@njit(nogil=True, cache=True)
def weigh(
    prediction: Floats,
    outcome: Floats,
    offsets: Integers,
    weight: Floats,
    frozen: Flags,
    edges: Floats,
    values: Floats,
    levels: NDArray[np.uint8],
) -> None:
    """Write every item's weighted residual and weight into ``values`` (n_items, 2), and its level.

    Frozen items have weight zero.
    """
    for i in range(len(offsets) - 1):
        for j in range(offsets[i], offsets[i + 1]):
            own = 0.0 if len(frozen) and frozen[j] else weight[i]
            values[j, 0], values[j, 1] = own * (outcome[j] - prediction[j]), own
            levels[j] = level_of(edges, prediction[j])


@njit(nogil=True, cache=True)
def sum_by_level(
    values: Floats,
    levels: NDArray[np.uint8],
    offsets: Integers,
    picks: NDArray[np.integer],
    phase: int,
    stride: int,
    sums: Floats,
) -> None:
    """Add to ``sums[r, level]`` the values of the items that ``picks[r]`` chooses, by their level.

    Of the blocks of instances every ``stride``-th is read, from ``phase`` on.
    """
    n_tests, k, n = picks.shape
    for first in range(phase * BLOCK, n, stride * BLOCK):
        last = min(first + BLOCK, n)
        for r in range(n_tests):
            for j in range(k):
                for i in range(first, last):
                    position = np.int64(picks[r, j, i])
                    if position < offsets[i + 1] - offsets[i]:
                        place = offsets[i] + position
                        sums[r, levels[place], 0] += values[place, 0]
                        sums[r, levels[place], 1] += values[place, 1]


@njit(nogil=True, cache=True)
def marked_places(
    picks: NDArray[np.integer], offsets: Integers, values: Floats
) -> NDArray[np.int64]:
    """Where the items of ``picks`` (k, n) are that have a weight, in the order of instances."""
    k, n = picks.shape
    places = np.empty(k * n, dtype=np.int64)
    n_places = 0
    for i in range(n):
        for j in range(k):
            position = np.int64(picks[j, i])
            if position < offsets[i + 1] - offsets[i] and values[offsets[i] + position, 1] > 0:
                places[n_places] = offsets[i] + position
                n_places += 1
    return places[:n_places].copy()


@njit(nogil=True, cache=True)
def sum_by_bin(
    places: Integers,
    prediction: Floats,
    outcome: Floats,
    values: Floats,
    cuts: Floats,
    sums: Floats,
) -> None:
    """Add to ``sums[b]`` the count, weight, weighted prediction and outcome of the b-th bin."""
    for place in places:
        b, weight = level_of(cuts, prediction[place]), values[place, 1]
        sums[b, 0] += 1.0
        sums[b, 1] += weight
        sums[b, 2] += weight * prediction[place]
        sums[b, 3] += weight * outcome[place]


@njit(nogil=True, cache=True)
def move_along(
    prediction: Floats,
    outcome: Floats,
    offsets: Integers,
    picks: NDArray[np.integer],
    x: Floats,
    y: Floats,
    weight: Floats,
    left_out: Floats,
    frozen: Flags,
    simplex: bool,
    edges: Floats,
    values: Floats,
    levels: NDArray[np.uint8],
) -> tuple[float, float]:
    """One patch as :func:`patch_curves` applies it, to the items of ``picks`` (k, n).

    Values and levels follow. Returns by how much the squared error fell, once with each of the
    two weights of the instances.
    """
    room, old = np.empty(longest(offsets)), np.empty(longest(offsets))
    fall, fall_left_out = 0.0, 0.0
    for i in range(len(offsets) - 1):
        start, stop = offsets[i], offsets[i + 1]
        total, touched = 0.0, False
        if simplex:
            for j in range(start, stop):
                old[j - start] = prediction[j]
        for j in range(picks.shape[0]):
            position = np.int64(picks[j, i])
            place = start + position
            if position < stop - start and not (len(frozen) and frozen[place]):
                before = prediction[place]
                prediction[place] = value_at(x, y, 0, len(x), before)
                touched = True
                if not simplex:
                    after = prediction[place]
                    total += (after - before) * (2.0 * outcome[place] - before - after)
                    values[place, 0] = weight[i] * (outcome[place] - after)
                    levels[place] = level_of(edges, after)
        if simplex and touched:
            project_simplex(prediction, frozen, start, stop, room)
            for j in range(start, stop):
                before, after = old[j - start], prediction[j]
                if after != before:
                    total += (after - before) * (2.0 * outcome[j] - before - after)
                    values[j, 0] = weight[i] * (outcome[j] - after)
                    levels[j] = level_of(edges, after)
        fall += weight[i] * total
        fall_left_out += left_out[i] * total
    return fall, fall_left_out
