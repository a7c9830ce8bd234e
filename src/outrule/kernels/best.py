"""Decisions of one item: the best, for one rule or for many at once."""

from __future__ import annotations

import numpy as np

from outrule.kernels.compiling import njit
from outrule.types import Floats, Integers, Positions, Small

# Rows that best_dense_rules decides together; 16 AVX2 registers' worth hides the loop overhead.
ROW_LANES = 64
FEW_ITEMS = 64  # up to so many, the lanes stay in cache, and best_dense_rules is the faster for one


@njit(nogil=True, cache=True)
def best_dense(weights: Floats, scale: Floats, picks: Positions) -> None:
    """Pick the item of largest scale * weight in every row, the first on ties."""
    n, m = weights.shape
    whole = m - m % 4
    for i in range(n):
        row = weights[i]
        # Four independent searches, as each waits for its own last comparison.
        best_0 = best_1 = best_2 = best_3 = -np.inf
        where_0, where_1, where_2, where_3 = 0, 1, 2, 3
        for j in range(0, whole, 4):
            value_0, value_1 = row[j] * scale[j], row[j + 1] * scale[j + 1]
            value_2, value_3 = row[j + 2] * scale[j + 2], row[j + 3] * scale[j + 3]
            if value_0 > best_0:
                best_0, where_0 = value_0, j
            if value_1 > best_1:
                best_1, where_1 = value_1, j + 1
            if value_2 > best_2:
                best_2, where_2 = value_2, j + 2
            if value_3 > best_3:
                best_3, where_3 = value_3, j + 3
        if best_1 > best_0 or (best_1 == best_0 and where_1 < where_0):
            best_0, where_0 = best_1, where_1
        if best_3 > best_2 or (best_3 == best_2 and where_3 < where_2):
            best_2, where_2 = best_3, where_3
        if best_2 > best_0 or (best_2 == best_0 and where_2 < where_0):
            best_0, where_0 = best_2, where_2
        for j in range(whole, m):
            if row[j] * scale[j] > best_0:
                best_0, where_0 = row[j] * scale[j], j
        picks[i, 0] = where_0


@njit(nogil=True, cache=True)
def best_ragged(weights: Floats, offsets: Integers, picks: Positions) -> None:
    """Pick the heaviest item of every instance, the first on ties; -1 only if there is none."""
    for i in range(offsets.size - 1):
        items = weights[offsets[i] : offsets[i + 1]]
        best, position = -np.inf, -1
        for j in range(items.size):
            if items[j] > best or position < 0:
                best, position = items[j], j
        picks[i, 0] = position


def best_dense_rules(weights: Floats, scales: Floats, picks: Small) -> None:
    """Pick as best_dense for every row of scales: picks[r, i] is rule r's position in row i."""
    # Compiled code that allocates nothing is compiled sooner.
    lanes, position = np.empty((weights.shape[1] + 1, ROW_LANES)), np.empty(ROW_LANES, np.int64)
    best_of_rules(weights, scales, picks, lanes, position)


@njit(nogil=True, cache=True)
def best_of_rules(
    weights: Floats,
    scales: Floats,
    picks: Small,
    lanes: Floats,
    position: Integers,
) -> None:
    n, m = weights.shape
    best = lanes[m]  # lanes past the last row are decided for nothing
    for first in range(0, n, ROW_LANES):
        n_rows = min(ROW_LANES, n - first)
        for i in range(n_rows):
            for j in range(m):
                lanes[j, i] = weights[first + i, j]
        for r in range(len(scales)):
            if n_rows < ROW_LANES // 8:
                _best_of_few(lanes, scales[r], n_rows, position)
            else:
                _best_of_lanes(lanes, scales[r], best, position)
            for i in range(n_rows):
                picks[r, first + i] = position[i]


@njit(nogil=True, cache=True)
def _best_of_few(lanes: Floats, scale: Floats, n_rows: int, position: Integers) -> None:
    for i in range(n_rows):
        best, position[i] = -np.inf, 0
        for j in range(len(scale)):
            value = lanes[j, i] * scale[j]
            if value > best:
                best, position[i] = value, j


@njit(nogil=True, cache=True)
def _best_of_lanes(lanes: Floats, scale: Floats, best: Floats, position: Integers) -> None:
    """Find the best item of ROW_LANES rows at once; ``lanes[j]`` are their weights of item j."""
    m = len(scale)
    for i in range(ROW_LANES):
        best[i], position[i] = -np.inf, 0
    whole = m - m % 4
    # Four items per pass over the lanes, as every pass loads and stores best and position.
    for j in range(0, whole, 4):
        weight_0, weight_1, weight_2, weight_3 = lanes[j], lanes[j + 1], lanes[j + 2], lanes[j + 3]
        scale_0, scale_1, scale_2, scale_3 = scale[j], scale[j + 1], scale[j + 2], scale[j + 3]
        for i in range(ROW_LANES):
            top, where = best[i], position[i]
            value = weight_0[i] * scale_0
            where = j if value > top else where
            top = value if value > top else top
            value = weight_1[i] * scale_1
            where = j + 1 if value > top else where
            top = value if value > top else top
            value = weight_2[i] * scale_2
            where = j + 2 if value > top else where
            top = value if value > top else top
            value = weight_3[i] * scale_3
            where = j + 3 if value > top else where
            top = value if value > top else top
            best[i], position[i] = top, where
    for j in range(whole, m):
        weight, factor = lanes[j], scale[j]
        for i in range(ROW_LANES):
            value = weight[i] * factor
            position[i] = j if value > best[i] else position[i]
            best[i] = value if value > best[i] else best[i]
