"""Small maximum-weight bipartite matchings, one instance per SIMD lane, by subsets of one side.

State (skipped, subset): the first skipped + |subset| vertices of the larger side use exactly the
subset of the smaller side. Profits are >= 0, so some heaviest matching uses the whole smaller side,
and no state with more than large - small skipped vertices is needed. The last vertex is either
skipped or takes an element of the subset:

    best(s, S) = max of best(s - 1, S) and best(s, S - j) + profit(j, s + |S| - 1) over j in S.

The states are numbered s * 2**small + S. Both kinds of predecessors then are a power of two before
the state, 2**j or 2**small, and all numbers are met in ascending order. The choices are not stored:
reading back, the sums are computed once more, and one of them equals the state's value exactly.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from outrule.kernels.lanes import (
    BLOCK,
    CUBE,
    LANES,
    empty_rows,
    load_lanes,
    prefetch,
    store_best_cube,
    trace_choices,
)
from outrule.kernels.picking import insert_ascending

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Positions = NDArray[np.int32]

# Enough for the sum of the largest floats of any matching to stay finite.
SHRINK = 2.0**-8
# Transitions that take as long as one sum while reading back, where lanes load from all over.
WORK_PER_TRACE = 12


def subset_work(small: int, large: int) -> int:
    """Count the transitions of the subset programme, and what reading back costs in these."""
    small, large = max(small, CUBE), max(large, CUBE)
    n_states = (large - small + 1) << small
    return n_states * small // 2 + WORK_PER_TRACE * small * large


@njit(nogil=True, cache=True)
def assign_dense_by_subsets(
    weights: Floats, scale: Floats, n_rows: int, n_columns: int, picks: Positions
) -> None:
    """Solve dense instances, LANES at a time."""
    n, m = weights.shape
    tall = n_rows >= n_columns
    best, profit, choices = _room(min(n_rows, n_columns), max(n_rows, n_columns))
    large = choices.shape[0]
    lead = large - max(n_rows, n_columns)
    step_row, step_column = (1, large) if tall else (large, 1)
    places = np.empty(m, np.int32)
    for k in range(m):
        places[k] = lead + k // n_columns * step_row + k % n_columns * step_column
    column_of = np.empty(large + 1, np.int64)
    chosen = np.empty(n_rows + 1, np.int32)
    for first in range(0, n, LANES):
        load_lanes(weights, scale, places, first, profit)
        used = min(LANES, n - first)
        for begin in range(0, used, BLOCK):
            # The weights of the next instances travel to the cache meanwhile.
            for place in range(0, BLOCK * m, 8):
                prefetch(weights, (first + LANES + begin) * m + place)
            _solve(best, profit, begin, choices)
            for lane in range(begin, min(begin + BLOCK, used)):
                for t in range(large):
                    if not tall:
                        column_of[choices[t, lane - begin]] = t - lead
                    elif t >= lead:
                        column_of[t - lead] = choices[t, lane - begin]
                n_chosen = 0
                for r in range(n_rows):
                    chosen[n_chosen] = r * n_columns + column_of[r]
                    cell = lead + r * step_row + column_of[r] * step_column
                    n_chosen += profit[cell * LANES + lane] > 0.0
                for k in range(picks.shape[1]):
                    picks[first + lane, k] = chosen[k] if k < n_chosen else -1


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
        lower = min(n_rows[order[done]], n_columns[order[done]])
        upper = max(n_rows[order[done]], n_columns[order[done]])
        stop = done
        while (
            stop < order.size
            and min(n_rows[order[stop]], n_columns[order[stop]]) == lower
            and max(n_rows[order[stop]], n_columns[order[stop]]) == upper
        ):
            stop += 1
        best, profit, choices = _room(lower, upper)
        large = choices.shape[0]
        lead = large - upper
        item_of = np.empty(profit.size, np.int32)
        for first in range(done, stop, LANES):
            used = min(LANES, stop - first)
            profit[:] = 0.0
            for lane in range(used):
                i = order[first + lane]
                tall = n_rows[i] >= n_columns[i]
                step_row, step_column = (1, large) if tall else (large, 1)
                for k in range(offsets[i], offsets[i + 1]):
                    cell = lead + row[k] * step_row + column[k] * step_column
                    cell = cell * LANES + lane
                    if weights[k] > profit[cell]:
                        profit[cell] = weights[k]
                        item_of[cell] = k - offsets[i]
            for begin in range(0, used, BLOCK):
                _solve(best, profit, begin, choices)
                for lane in range(begin, min(begin + BLOCK, used)):
                    out = picks[order[first + lane]]
                    n_chosen = 0
                    for t in range(large):
                        cell = (choices[t, lane - begin] * large + t) * LANES + lane
                        if profit[cell] > 0.0:
                            insert_ascending(out, n_chosen, item_of[cell])
                            n_chosen += 1
                    out[n_chosen:] = -1
        done = stop


@njit(nogil=True, cache=True)
def _room(small: int, large: int) -> tuple[Floats, Floats, Integers]:
    """Allocate best[state][lane], profit[inner][outer][lane] and choices[outer][lane].

    Both sides get at least CUBE vertices; what pads them earns nothing. Outer vertices are padded
    in front: reading back ends there, so a pair whose profit is lost in rounding is still
    preferred to padding. The additional inner vertex `small`, which earns nothing either, stands
    for a skipped outer vertex.
    """
    small, large = max(small, CUBE), max(large, CUBE)
    # After the states, the zeros that every state without skipped vertices starts from.
    best = empty_rows(((large - small + 1) << small) + (1 << CUBE), BLOCK)
    return best, empty_rows((small + 1) * large, LANES), np.empty((large, BLOCK), np.int64)


@njit(nogil=True, cache=True)
def _solve(best: Floats, profit: Floats, begin: int, choices: Integers) -> None:
    """Find the inner partner of every outer vertex, in BLOCK lanes from `begin` on."""
    large = choices.shape[0]
    small = profit.size // (large * LANES) - 1
    n_states = (large - small + 1) << small
    last = (n_states - 1) * BLOCK
    _fill(best, profit, begin, small, large)
    any_overflow = False
    for lane in range(BLOCK):
        # Every state leads to the last one, which is infinite if any is.
        if best[last + lane] == np.inf:
            any_overflow = True
            for cell in range(begin + lane, profit.size, LANES):
                profit[cell] *= SHRINK
    if any_overflow:
        _fill(best, profit, begin, small, large)
    trace_choices(best, profit, n_states - 1, begin, large * LANES, small, choices)


@njit(nogil=True, cache=True)
def _fill(best: Floats, profit: Floats, begin: int, small: int, large: int) -> None:
    """Compute the greatest profit of every state."""
    zeros = (large - small + 1) << small
    for skipped in range(large - small + 1):
        for high in range(1 << (small - CUBE)):
            target = (skipped << small) + (high << CUBE)
            start = target - (1 << small) if skipped else zeros
            outer = skipped + _size(high)
            row = begin + outer * LANES
            store_best_cube(best, profit, start, target, high, row, large * LANES)


@njit(nogil=True, cache=True)
def _size(subset: int) -> int:
    """Count the elements of a subset."""
    size = 0
    while subset:
        subset &= subset - 1
        size += 1
    return size
