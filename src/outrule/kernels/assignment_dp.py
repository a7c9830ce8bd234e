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

from typing import Any

import numpy as np

from outrule.kernels.compiling import njit
from outrule.kernels.picking import capped, insert_ascending
from outrule.kernels.vectors import (
    CUBE,
    LANE_BLOCK,
    LANES,
    empty_rows,
    load_lanes,
    shrink_overflows,
    store_best_cube,
    trace_choices,
)
from outrule.types import Floats, Integers, Positions

# Transitions that take as long as one sum while reading back, where lanes load from all over.
WORK_PER_TRACE = 12


def subset_work(small: Any, large: Any) -> Any:
    """Count the transitions of the subset programme, and what reading back costs in these.

    Of every shape, where these are arrays.
    """
    small, large = np.maximum(small, CUBE), np.maximum(large, CUBE)
    n_states = (large - small + 1) * 2.0 ** np.minimum(small, 64)
    return n_states * small / 2 + WORK_PER_TRACE * small * large


@njit(nogil=True, cache=True)
def assign_dense_by_subsets(
    weights: Floats, scale: Floats, n_rows: int, n_columns: int, picks: Positions
) -> None:
    """Solve dense instances, LANES at a time."""
    n, m = weights.shape
    tall = n_rows >= n_columns
    small, large = min(n_rows, n_columns), max(n_rows, n_columns)
    profit = empty_rows(m + 1, LANES)
    best, cells, choices = _room(small, large, m)
    lead = choices.shape[0] - large
    for k in range(m):
        r, c = k // n_columns, k % n_columns
        inner, outer = (c, r) if tall else (r, c)
        cells[inner, lead + outer] = k
    column_of = np.zeros(choices.shape[0] + 1, np.int64)
    chosen = np.empty(n_rows + 1, np.int32)
    for first in range(0, n, LANES):
        load_lanes(weights, scale, first, profit)
        _solve(best, profit, cells, choices, min(LANES, n - first))
        for i in range(first, min(first + LANES, n)):
            lane, n_chosen = i - first, 0
            for t in range(choices.shape[0]):
                if not tall:
                    column_of[choices[t, lane]] = t - lead
                elif t >= lead:
                    column_of[t - lead] = choices[t, lane]
            for r in range(n_rows):  # without a branch: what is not chosen is written over
                item = r * n_columns + column_of[r]
                inside = (column_of[r] >= 0) & (column_of[r] < n_columns)
                chosen[n_chosen] = item
                n_chosen += profit[(item if inside else m) * LANES + lane] > 0.0
            for k in range(picks.shape[1]):
                picks[i, k] = chosen[k] if k < n_chosen else -1


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
        n_cells = max(lower, CUBE) * max(upper, CUBE)
        profit = empty_rows(n_cells + 1, LANES)
        best, cells, choices = _room(lower, upper, n_cells)
        large = choices.shape[0]
        lead = large - upper
        cells[:] = np.arange(n_cells).reshape(cells.shape)
        item_of = np.empty(profit.size, np.int32)
        for first in range(done, stop, LANES):
            used = min(LANES, stop - first)
            profit[:] = 0.0
            for lane in range(used):
                i = order[first + lane]
                tall = n_rows[i] >= n_columns[i]
                for k in range(offsets[i], offsets[i + 1]):
                    inner, outer = (column[k], row[k]) if tall else (row[k], column[k])
                    place = (inner * large + lead + outer) * LANES + lane
                    weight = capped(weights[k])
                    if weight > profit[place]:
                        profit[place] = weight
                        item_of[place] = k - offsets[i]
            _solve(best, profit, cells, choices, used)
            for lane in range(used):
                out, n_chosen = picks[order[first + lane]], 0
                for t in range(large):
                    place = (choices[t, lane] * large + t) * LANES + lane
                    if choices[t, lane] < len(cells) and profit[place] > 0.0:
                        insert_ascending(out, n_chosen, item_of[place])
                        n_chosen += 1
                out[n_chosen:] = -1
        done = stop


@njit(nogil=True, cache=True)
def _room(small: int, large: int, zeros: int) -> tuple[Floats, Positions, Integers]:
    """Allocate best[state][lane], cells[inner, outer] and choices[outer, lane].

    cells says in which row the profit of a pair is; all are in the row `zeros` to begin with. Both
    sides get at least CUBE vertices; what pads them earns nothing. Outer vertices are padded in
    front: reading back ends there, so a pair whose profit is lost in rounding is still preferred to
    padding. The choice `small` stands for a skipped outer vertex.
    """
    small, large = max(small, CUBE), max(large, CUBE)
    # After the states, the zeros that every state without skipped vertices starts from.
    best = empty_rows(((large - small + 1) << small) + (1 << CUBE), LANE_BLOCK)
    cells = np.full((small, large), zeros, np.int32)
    return best, cells, np.empty((large, LANES), np.int64)


@njit(nogil=True, cache=True)
def _solve(best: Floats, profit: Floats, cells: Positions, choices: Integers, lanes: int) -> None:
    """Find the inner partner of every outer vertex, in the first lanes."""
    for lane in range(0, lanes, LANE_BLOCK):
        for _ in range(2):
            _fill(best, profit, cells, lane)
            # Every state leads to the last one, which is infinite if any is.
            last = best[best.size - ((1 << CUBE) + 1) * LANE_BLOCK :]
            if not shrink_overflows(last[:LANE_BLOCK], profit, lane):
                break
        trace_choices(best, profit, cells, choices, lane)


@njit(nogil=True, cache=True)
def _fill(best: Floats, profit: Floats, cells: Positions, lane: int) -> None:
    """Compute the greatest profit of every state."""
    small, large = cells.shape
    flat, zeros = cells.reshape(-1), (large - small + 1) << small
    for skipped in range(large - small + 1):
        for high in range(1 << (small - CUBE)):
            target = (skipped << small) + (high << CUBE)
            start = target - (1 << small) if skipped else zeros
            outer, rest = skipped, high
            while rest:
                rest &= rest - 1
                outer += 1
            store_best_cube(best, profit, flat, lane, start, target, high, outer, large)
