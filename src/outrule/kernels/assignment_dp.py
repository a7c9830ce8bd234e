"""Small maximum-weight bipartite matchings, one instance per SIMD lane, by subsets of one side."""

from __future__ import annotations

from math import comb

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Positions = NDArray[np.int32]

# Instances solved together. LLVM unrolls loops over 16 lanes into scalars instead of SIMD, and
# the states of 64 lanes leave the second-level cache.
LANES = 32
# As in assignment.py: weights above this are divided by 2**64 lest their sums overflow.
HUGE = 2.0**960
SHRINK = 2.0**-64
LARGEST = float(np.finfo(np.float64).max)
# All layers are kept for reading back the choices; this bounds the memory they take.
MOST_STATES = 1 << 14


def subset_work(small: int, large: int) -> float:
    """Count the transitions of the subset programme; infinite if its states are too many."""
    if small == 0 or (large + 1) << small > MOST_STATES:
        return np.inf
    work = 0
    for layer in range(1, large + 1):
        lowest = max(0, small - large + layer)
        for size in range(lowest, min(layer, small) + 1):
            work += (size + 1) * comb(small, size)
    return float(work)


@njit(nogil=True, cache=True)
def assign_dense_by_subsets(
    weights: Floats, scale: Floats, n_rows: int, n_columns: int, picks: Positions
) -> None:
    """Solve dense instances, LANES at a time."""
    n, m = weights.shape
    small, large = min(n_rows, n_columns), max(n_rows, n_columns)
    # Lane layout [vertex of the larger side][vertex of the smaller side][lane], then a zero.
    step_row, step_column = (1, small) if n_rows <= n_columns else (small, 1)
    cell_of = np.empty(m, np.int64)
    for k in range(m):
        cell_of[k] = ((k // n_columns) * step_row + (k % n_columns) * step_column) * LANES
    products = np.empty(m)
    profit = np.zeros((m + 1) * LANES)
    state_of, plan = _plan(small, large)
    best = np.zeros(state_of[-1] + LANES)
    partner = np.empty(large, np.int64)
    column_of = np.empty(n_rows, np.int64)
    for first in range(0, n, LANES):
        used = min(LANES, n - first)
        for lane in range(used):
            items = weights[first + lane]
            huge = False
            # Two loops: the products vectorise, the scattering into the lanes does not.
            for k in range(m):
                product = items[k] * scale[k]
                product = product if product > 0.0 else 0.0
                product = product if product < LARGEST else LARGEST
                huge |= product > HUGE
                products[k] = product
            for k in range(m):
                profit[cell_of[k] + lane] = products[k]
            if huge:
                _shrink(profit, lane)
        _fill(plan, profit, best)
        for lane in range(used):
            _read_back(state_of, profit, best, small, lane, partner)
            _columns_of_rows(partner, n_rows <= n_columns, column_of)
            out = picks[first + lane]
            out[:] = -1
            written = 0
            for r in range(n_rows):
                position = r * n_columns + column_of[r]
                if column_of[r] >= 0 and profit[cell_of[position] + lane] > 0.0:
                    out[written] = position
                    written += 1


@njit(nogil=True, cache=True)
def assign_ragged_by_subsets(
    weights: Floats,
    offsets: Integers,
    row: Positions,
    column: Positions,
    n_rows: Integers,
    n_columns: Integers,
    order: Integers,
    picks: Positions,
) -> None:
    """Solve the instances listed in order, in which equal shapes must be neighbours.

    Shapes are equal if they are so after swapping sides.
    """
    done = 0
    while done < order.size:
        small = min(n_rows[order[done]], n_columns[order[done]])
        large = max(n_rows[order[done]], n_columns[order[done]])
        stop = done
        while (
            stop < order.size
            and min(n_rows[order[stop]], n_columns[order[stop]]) == small
            and max(n_rows[order[stop]], n_columns[order[stop]]) == large
        ):
            stop += 1
        state_of, plan = _plan(small, large)
        best = np.zeros(state_of[-1] + LANES)
        profit = np.empty((small * large + 1) * LANES)
        item = np.empty(small * large * LANES, np.int32)
        partner = np.empty(large, np.int64)
        for first in range(done, stop, LANES):
            used = min(LANES, stop - first)
            profit[:] = 0.0
            item[:] = -1
            for lane in range(used):
                i = order[first + lane]
                rows_small = n_rows[i] <= n_columns[i]
                huge = False
                for k in range(offsets[i], offsets[i + 1]):
                    inner, outer = (row[k], column[k]) if rows_small else (column[k], row[k])
                    cell = (outer * small + inner) * LANES + lane
                    if weights[k] > profit[cell]:
                        profit[cell] = weights[k]
                        item[cell] = k - offsets[i]
                        huge |= weights[k] > HUGE
                if huge:
                    _shrink(profit, lane)
            _fill(plan, profit, best)
            for lane in range(used):
                _read_back(state_of, profit, best, small, lane, partner)
                out = picks[order[first + lane]]
                out[:] = -1
                written = 0
                for t in range(large):
                    cell = (t * small + partner[t]) * LANES + lane
                    if partner[t] >= 0 and item[cell] >= 0:
                        out[written] = item[cell]
                        written += 1
                out[:written].sort()
        done = stop


@njit(nogil=True, cache=True)
def _shrink(profit: Floats, lane: int) -> None:
    """Divide the profits of a lane by a power of two."""
    for cell in range(lane, profit.size, LANES):
        profit[cell] *= SHRINK


@njit(nogil=True, cache=True)
def _columns_of_rows(partner: Integers, rows_small: bool, column_of: Integers) -> None:
    """Turn partners of the larger side's vertices into columns of rows, -1 for none."""
    column_of[:] = -1
    for t in range(partner.size):
        if not rows_small:
            column_of[t] = partner[t]
        elif partner[t] >= 0:
            column_of[partner[t]] = t


@njit(nogil=True, cache=True)
def _plan(small: int, large: int) -> tuple[Positions, Integers]:
    """Place the states and list the transitions, two to a row, as offsets into best and profit.

    State (layer, subset): the first `layer` vertices of the larger side use exactly the subset of
    the smaller side. Profits are >= 0, so some heaviest matching uses the whole smaller side; that
    leaves subset sizes between small - large + layer and layer. Skipping a vertex is a transition
    with profit zero. A row holds the state, 2 x (predecessor, profit) and whether it is the first
    of its state; a state with an odd number of predecessors names its last one twice.
    """
    subsets = 1 << small
    size_of = np.zeros(subsets, np.int64)
    for subset in range(1, subsets):
        size_of[subset] = size_of[subset >> 1] + (subset & 1)
    state_of = np.zeros((large + 1) * subsets, np.int32)
    plan = np.empty((subsets * (small // 2 + 1) * large, 6), np.int64)
    before = np.empty((small + 1, 2), np.int64)
    state, count = LANES, 0
    for layer in range(1, large + 1):
        old = state_of[(layer - 1) * subsets : layer * subsets]
        for subset in range(subsets):
            if size_of[subset] < small - large + layer or size_of[subset] > layer:
                continue
            found = 0
            for j in range(small):
                if subset >> j & 1:
                    before[found, 0] = old[subset ^ (1 << j)]
                    before[found, 1] = ((layer - 1) * small + j) * LANES
                    found += 1
            if size_of[subset] < layer:
                before[found, 0] = old[subset]
                before[found, 1] = small * large * LANES
                found += 1
            for k in range(0, found, 2):
                other = min(k + 1, found - 1)
                plan[count, 0] = state
                plan[count, 1], plan[count, 2] = before[k, 0], before[k, 1]
                plan[count, 3], plan[count, 4] = before[other, 0], before[other, 1]
                plan[count, 5] = k == 0
                count += 1
            state_of[layer * subsets + subset] = state
            state += LANES
    return state_of, plan[:count].copy()


@njit(nogil=True, cache=True)
def _fill(plan: Integers, profit: Floats, best: Floats) -> None:
    """Compute the greatest profit of every state and lane; state 0, where nothing is used, is 0."""
    for k in range(plan.shape[0]):
        out = best[plan[k, 0] : plan[k, 0] + LANES]
        best_0 = best[plan[k, 1] : plan[k, 1] + LANES]
        profit_0 = profit[plan[k, 2] : plan[k, 2] + LANES]
        best_1 = best[plan[k, 3] : plan[k, 3] + LANES]
        profit_1 = profit[plan[k, 4] : plan[k, 4] + LANES]
        if plan[k, 5]:
            for lane in range(LANES):
                value_0 = best_0[lane] + profit_0[lane]
                value_1 = best_1[lane] + profit_1[lane]
                out[lane] = value_0 if value_0 > value_1 else value_1
        else:
            for lane in range(LANES):
                value_0 = best_0[lane] + profit_0[lane]
                value_1 = best_1[lane] + profit_1[lane]
                value = value_0 if value_0 > value_1 else value_1
                out[lane] = value if value > out[lane] else out[lane]


@njit(nogil=True, cache=True)
def _read_back(
    state_of: Positions, profit: Floats, best: Floats, small: int, lane: int, partner: Integers
) -> None:
    """Follow one lane's choices backwards: partner of each vertex of the larger side, or -1.

    The sums are those of _fill, so one of them is exactly equal to the state's value.
    """
    subset = (1 << small) - 1
    value = best[best.size - LANES + lane]
    for t in range(partner.size - 1, -1, -1):
        partner[t] = -1
        j = 0
        while subset >> j:
            if subset >> j & 1:
                before = best[state_of[(t << small) + (subset ^ (1 << j))] + lane]
                if before + profit[(t * small + j) * LANES + lane] == value:
                    partner[t] = j
                    subset ^= 1 << j
                    value = before
                    break
            j += 1
