"""Several runs of best action over the same instances: their patches and sums in one pass.

Predictions and outcomes are between 0 and 1. Sums are the integers of tally.py: the same bits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from outrule.kernels.compiling import njit

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Small = NDArray[np.integer]

LANES = 8  # columns of sums: a row of them is one vector
RUNS = LANES - 1  # at most; the last column is of the outcomes themselves
NEAR = 32  # instances whose residuals stay in cache while all rules are summed
TREE_BLOCK = 4096  # entries of trees that stay in the nearest cache
LONG = 12  # so many patches of rules in a row are cheaper with a new tree than with an upkept one
TILE = 32  # rules that decide together
TRIED = 32  # items of large weight that are tried first, about
BUCKETS = 512  # by which items of large weight are found
ROWS = 64  # instances that stay in cache while all rules decide


@njit(nogil=True, cache=True)
def decide(weights: Floats, scales: Floats, picks: Small) -> None:
    """Write the item of largest weights[i] * scales[r] to picks[r, i], the first of equals.

    Weights are between 0 and 1, and scales at least 0. The items of large weight are tried first;
    as a rule no other can then be better.
    """
    n, m = weights.shape
    tile = np.empty(m * TILE)
    large, sizes, bounds = np.empty((ROWS, m), np.int64), np.empty(ROWS, np.int64), np.empty(ROWS)
    best, position, everything = np.empty(TILE), np.empty(TILE, np.int64), np.arange(m)
    for first in range(0, n, ROWS):
        near = min(ROWS, n - first)
        for i in range(near):
            sizes[i], bounds[i] = _find_large(weights[first + i], large[i])
        for rule in range(0, len(scales), TILE):
            used = min(TILE, len(scales) - rule)
            for j in range(m):
                for lane in range(TILE):
                    tile[j * TILE + lane] = scales[rule + min(lane, used - 1), j]
            most = tile.max()
            for i in range(near):
                row = weights[first + i]
                _try(row, large[i, : sizes[i]], tile, best, position)
                if best.min() < bounds[i] * most:
                    _try(row, everything, tile, best, position)
                for lane in range(used):
                    picks[rule + lane, first + i] = position[lane]


@njit(nogil=True, cache=True)
def _find_large(weights: Floats, large: Integers) -> tuple[int, float]:
    """Write items of largest weight, in order; return how many, and what all others are below."""
    counts = np.zeros(BUCKETS, np.int64)
    for item in range(len(weights)):
        counts[_bucket(weights[item])] += 1
    bucket, total = BUCKETS - 1, counts[BUCKETS - 1]
    while bucket > 0 and total < TRIED:
        bucket -= 1
        total += counts[bucket]
    size = 0
    for item in range(len(weights)):
        if _bucket(weights[item]) >= bucket:
            large[size] = item
            size += 1
    return size, bucket / BUCKETS


@njit(nogil=True, cache=True)
def _bucket(weight: float) -> int:
    return min(int(weight * BUCKETS), BUCKETS - 1)


@njit(nogil=True, cache=True)
def _try(weights: Floats, items: Integers, tile: Floats, best: Floats, position: Integers) -> None:
    """The best of these items for every rule of a tile."""
    best[:] = -1.0
    position[:] = 0
    # Four items per pass over the lanes, as every pass loads and stores best and position. The
    # last ones may come twice: they are not larger than themselves.
    last = len(items) - 1
    for j in range(0, len(items), 4):
        a, b, c, d = (
            items[j],
            items[min(j + 1, last)],
            items[min(j + 2, last)],
            items[min(j + 3, last)],
        )
        weight_a, weight_b, weight_c, weight_d = weights[a], weights[b], weights[c], weights[d]
        scale_a, scale_b = tile[a * TILE : (a + 1) * TILE], tile[b * TILE : (b + 1) * TILE]
        scale_c, scale_d = tile[c * TILE : (c + 1) * TILE], tile[d * TILE : (d + 1) * TILE]
        for lane in range(TILE):
            top, where = best[lane], position[lane]
            value = weight_a * scale_a[lane]
            where = a if value > top else where
            top = value if value > top else top
            value = weight_b * scale_b[lane]
            where = b if value > top else where
            top = value if value > top else top
            value = weight_c * scale_c[lane]
            where = c if value > top else where
            top = value if value > top else top
            value = weight_d * scale_d[lane]
            where = d if value > top else where
            top = value if value > top else top
            best[lane], position[lane] = top, where


@njit(nogil=True, cache=True)
def audit(
    prediction: Floats,
    outcome: Floats,
    picks: Small,
    order: Integers,
    steps: Floats,
    counts: Integers,
    unit: float,
    sums: Integers,
    own: Integers,
) -> None:
    """Add the residuals, times ``unit``, that the decisions of rules choose in every run.

    ``picks[r, i]`` is the item of rule r. Run c has patches order[c, t], steps[c, t] for t below
    counts[c]; -1 is the item of largest prediction. ``sums`` has shape (n_rules, LANES); its last
    column is for a prediction of zero. ``own[c]`` is for the item that is largest in the end.
    """
    n, m = prediction.shape
    width = 1
    while width < m:
        width *= 2
    few = max(1, min(NEAR, TREE_BLOCK // (2 * width)))
    trees = np.full((few, 2 * width), -1.0)
    values = np.zeros(NEAR * m * LANES, np.int64)
    for first in range(0, n, NEAR):
        last = min(first + NEAR, n)
        for run in range(len(counts)):
            for start in range(first, last, few):
                stop = min(start + few, last)
                for i in range(start, stop):
                    trees[i - start, width : width + m] = prediction[i]
                _patch(trees, width, picks, order[run, : counts[run]], steps[run], start, stop)
                for i in range(start, stop):
                    tree, place = trees[i - start], (i - first) * m
                    for j in range(m):
                        residual = np.rint(unit * (outcome[i, j] - tree[width + j]))
                        values[(place + j) * LANES + run] = np.int64(residual)
                    largest = _find_largest(tree, width) - width
                    own[run] += values[(place + largest) * LANES + run]
        for i in range(first, last):
            for j in range(m):
                value = np.int64(np.rint(unit * outcome[i, j]))
                values[((i - first) * m + j) * LANES + LANES - 1] = value
        _add(values, m, picks, first, last, sums)


@njit(nogil=True, cache=True)
def _patch(
    trees: Floats, width: int, picks: Small, order: Integers, steps: Floats, start: int, stop: int
) -> None:
    """Apply patches in order to leaves ``width`` and on; in the end all trees are right.

    A node of a tree is the larger of nodes 2 i and 2 i + 1, so node 1 is the largest leaf.
    """
    t, right = 0, False
    while t < len(order):
        if order[t] < 0:
            for i in range(stop - start):
                if not right:
                    _build(trees[i], width)
                _move(trees[i], _find_largest(trees[i], width), steps[t], True)
            right = True
            t += 1
            continue
        end = t
        while end < len(order) and order[end] >= 0:
            end += 1
        right = right and end - t < LONG
        for s in range(t, end):
            theirs = picks[order[s]]
            for i in range(stop - start):
                _move(trees[i], width + int(theirs[start + i]), steps[s], right)
        t = end
    if not right:
        for i in range(stop - start):
            _build(trees[i], width)


@njit(nogil=True, cache=True)
def _build(tree: Floats, width: int) -> None:
    for node in range(width - 1, 0, -1):
        first, second = tree[2 * node], tree[2 * node + 1]
        tree[node] = first if first > second else second


@njit(nogil=True, cache=True)
def _find_largest(tree: Floats, width: int) -> int:
    """The leaf of largest value, the first of equals."""
    node = 1
    while node < width:
        node = 2 * node + (1 if tree[2 * node] != tree[1] else 0)
    return node


@njit(nogil=True, cache=True)
def _move(tree: Floats, node: int, step: float, upkeep: bool) -> None:
    tree[node] = min(max(tree[node] + step, 0.0), 1.0)
    if upkeep:
        while node > 1:
            first, second = tree[node], tree[node ^ 1]
            node >>= 1
            tree[node] = first if first > second else second


@njit(nogil=True, cache=True)
def _add(values: Integers, m: int, picks: Small, first: int, last: int, sums: Integers) -> None:
    """Add to sums[r] the rows of values that picks[r] chooses."""
    for r in range(len(sums)):
        theirs = picks[r, first:last]
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = np.int64(0)
        for i in range(theirs.size):
            start = (i * m + np.int64(theirs[i])) * LANES
            row = values[start : start + LANES]
            s0, s1, s2, s3 = s0 + row[0], s1 + row[1], s2 + row[2], s3 + row[3]
            s4, s5, s6, s7 = s4 + row[4], s5 + row[5], s6 + row[6], s7 + row[7]
        for c, total in enumerate((s0, s1, s2, s3, s4, s5, s6, s7)):
            sums[r, c] += total
