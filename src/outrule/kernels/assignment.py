"""Maximum-weight bipartite matchings, dense or ragged, by shortest augmenting paths."""

from __future__ import annotations

from typing import Any

import numpy as np

from outrule.kernels.assignment_dp import (
    assign_dense_by_subsets,
    assign_ragged_by_subsets,
    subset_work,
)
from outrule.kernels.compiling import njit
from outrule.kernels.picking import capped
from outrule.kernels.row_scans import lower, negate, plain_negate, relax, two_least
from outrule.kernels.vectors import LANE_BLOCK, empty_rows
from outrule.types import Floats, Integers, Positions

# Products and sums of weights above this may overflow; they are divided by 2**64 first, which
# only denormals notice, and those weigh nothing beside such a weight.
HUGE = 2.0**960
SHRINK = 2.0**-64
# Rounds in which every row without a column bids for one, before paths are searched. The first two
# save most; the later ones have few rows. A bid takes half as long as a step of a search.
ROUNDS = 8

# Transitions of the subset programme (see subset_work) that take as long as assigning one row, of
# which there is one per vertex of the smaller side. The programme goes up to 10 x 10 and 8 x 13.
WORK_PER_ROW = 1000


def _takes_subsets(small: Any, large: Any) -> Any:
    """Which algorithm; by shape alone, so that ties are broken alike in every batch and form."""
    return subset_work(small, large) <= WORK_PER_ROW * small


def assign_dense(
    weights: Floats, scale: Floats, n_rows: int, n_columns: int, picks: Positions
) -> None:
    """Match rows to columns in every instance so that the sum of scale * weight is greatest.

    weights[i, r * n_columns + c] is the weight of the pair (r, c) in instance i; picks has
    min(n_rows, n_columns) columns. The choice of algorithm depends on the shape alone, so an
    instance is decided alike in every batch.
    """
    small, large = min(n_rows, n_columns), max(n_rows, n_columns)
    if small == 0:
        return
    if _takes_subsets(small, large):
        assign_dense_by_subsets(weights, scale, n_rows, n_columns, picks)
    else:
        assign_dense_by_paths(weights, scale, n_rows, n_columns, picks)


def assign_ragged(
    weights: Floats,
    offsets: Integers,
    row: Positions,
    column: Positions,
    n_rows: Integers,
    n_columns: Integers,
    picks: Positions,
) -> None:
    """Match rows to columns in every instance so that the sum of the weights is greatest.

    row and column count from 0 within the instance. Of equal pairs the heaviest item counts, the
    first on ties.
    """
    small, large = np.minimum(n_rows, n_columns), np.maximum(n_rows, n_columns)
    by_subsets = _takes_subsets(small, large)
    # Lanes are filled with instances of one shape; equal shapes are neighbours in this order.
    order = np.lexsort((small, large))
    subsets_order = order[by_subsets[order]]
    if subsets_order.size:
        assign_ragged_by_subsets(
            weights, offsets, row, column, n_rows, n_columns, subsets_order, picks
        )
    paths_order = np.flatnonzero(~by_subsets)
    if paths_order.size:
        assign_ragged_by_paths(weights, offsets, row, column, n_rows, n_columns, paths_order, picks)


@njit(nogil=True, cache=True)
def assign_dense_by_paths(
    weights: Floats, scale: Floats, n_rows: int, n_columns: int, picks: Positions
) -> None:
    """Solve dense instances one by one by shortest augmenting paths."""
    small, large = min(n_rows, n_columns), max(n_rows, n_columns)
    width = _padded(large)
    cost = empty_rows(small, width).reshape((small, width))
    scratch = _scratch(width)
    column_of, row_of = np.empty(small, np.int64), np.empty(width, np.int64)
    for i in range(weights.shape[0]):
        items = weights[i]
        _load_cost(items, scale, n_rows, n_columns, cost, scratch[0])
        _solve(cost, scratch, column_of, row_of)
        partner = column_of if n_rows <= n_columns else row_of
        written = 0
        picks[i, :] = -1
        for r in range(n_rows):
            position = r * n_columns + partner[r]
            if partner[r] >= 0 and items[position] * scale[position] > 0.0:
                picks[i, written] = position
                written += 1


@njit(nogil=True, cache=True)
def assign_ragged_by_paths(
    weights: Floats,
    offsets: Integers,
    row: Positions,
    column: Positions,
    n_rows: Integers,
    n_columns: Integers,
    order: Integers,
    picks: Positions,
) -> None:
    """Solve the instances listed in order one by one by shortest augmenting paths."""
    cells, padded_cells, longest = 0, 0, 0
    for i in order:
        small, large = min(n_rows[i], n_columns[i]), max(n_rows[i], n_columns[i])
        cells = max(cells, small * large)
        padded_cells = max(padded_cells, small * _padded(large))
        longest = max(longest, _padded(large))
    all_profit, all_cost, ones = np.empty(cells), empty_rows(1, padded_cells), np.ones(cells)
    all_item = np.empty(cells, np.int32)
    scratch = _scratch(longest)
    all_column_of, all_row_of = np.empty(longest, np.int64), np.empty(longest, np.int64)
    for i in order:
        picks[i, :] = -1
        rows, columns = n_rows[i], n_columns[i]
        small, large = min(rows, columns), max(rows, columns)
        if small == 0:
            continue
        profit, item = all_profit[: rows * columns], all_item[: rows * columns]
        profit[:] = 0.0
        item[:] = -1
        for k in range(offsets[i], offsets[i + 1]):
            cell = row[k] * columns + column[k]
            weight = capped(weights[k])
            if weight > profit[cell]:
                profit[cell] = weight
                item[cell] = k - offsets[i]
        width = _padded(large)
        cost = all_cost[: small * width].reshape((small, width))
        column_of, row_of = all_column_of[:small], all_row_of[:width]
        _load_cost(profit, ones, rows, columns, cost, scratch[0])
        _solve(cost, scratch, column_of, row_of)
        partner = column_of if rows <= columns else row_of
        written = 0
        for r in range(rows):
            if partner[r] >= 0 and item[r * columns + partner[r]] >= 0:
                picks[i, written] = item[r * columns + partner[r]]
                written += 1
        picks[i, :written].sort()


@njit(nogil=True, cache=True)
def _padded(large: int) -> int:
    """Round the number of columns up to whole vectors."""
    return (large + LANE_BLOCK - 1) // LANE_BLOCK * LANE_BLOCK


@njit(nogil=True, cache=True)
def _scratch(width: int) -> tuple[Floats, Integers, Positions]:
    """Allocate what _load_cost and _solve need for up to `width` columns."""
    return empty_rows(5, width), np.empty(3 * width, np.int64), np.empty(width, np.int32)


@njit(nogil=True, cache=True)
def _load_cost(
    weights: Floats, scale: Floats, n_rows: int, n_columns: int, cost: Floats, price: Floats
) -> None:
    """Write costs >= 0 whose cheapest full assignments are the most profitable ones, and prices.

    The smaller side becomes the rows. The best entry of every row gets cost 0: every row is
    assigned, so what is added to all of a row changes all assignments alike. If all columns are
    assigned as well, the cheapest entry of a column is its first price; else that is 0.
    """
    small, large = min(n_rows, n_columns), max(n_rows, n_columns)
    width = cost.shape[1]
    lowest = 0.0
    for c in range(width):
        price[c] = np.inf
    for r in range(small):
        line = cost[r]
        for c in range(large, width):
            line[c] = np.inf
        if n_rows > n_columns:
            column = slice(r, None, n_columns)
            least = plain_negate(weights[column], scale[column], 0, large, line)
        elif large < LANE_BLOCK:
            least = plain_negate(weights, scale, r * large, large, line)
        else:
            least = negate(weights, scale, r * large, large, line)
        lowest = min(lowest, least)
        lower(line, price, least)
    for c in range(large if n_rows == n_columns else 0, width):
        price[c] = 0.0
    if lowest < -HUGE:
        for r in range(small):
            for c in range(width):
                cost[r, c] *= SHRINK
        for c in range(width):
            price[c] *= SHRINK


@njit(nogil=True, cache=True)
def _solve(
    cost: Floats,
    scratch: tuple[Floats, Integers, Positions],
    column_of: Integers,
    row_of: Integers,
) -> None:
    """Assign all rows at least cost, given the first prices.

    Invariants: cost - price >= 0, as prices only fall; every assigned pair attains the least
    cost - price of its row (up to rounding); if some columns stay unassigned, their price is 0 and
    no price is above. Padding columns cost infinity.
    """
    width = cost.shape[1]
    floats, integers, previous = scratch
    price, distance = floats[:width], floats[width : 2 * width]
    zeros, final = floats[2 * width : 3 * width], floats[3 * width :]
    rank, free, closed = integers[:width], integers[width : 2 * width], integers[2 * width :]
    for c in range(width):
        zeros[c] = 0.0
        row_of[c] = -1
        rank[c] = c  # + width once it is assigned: on ties unassigned columns come first
    n_free = _bid(cost, price, rank, free, column_of, row_of)
    for k in range(n_free):
        search = distance, zeros, final, rank, closed, previous[:width]
        _augment(cost, free[k], price, search, column_of, row_of)


@njit(nogil=True, cache=True)
def _bid(
    cost: Floats,
    price: Floats,
    rank: Integers,
    free: Integers,
    column_of: Integers,
    row_of: Integers,
) -> int:
    """Let every free row take its cheapest column from whoever has it; return how many stay free.

    The price falls until the row's second best column is as good.
    """
    n_free = cost.shape[0]
    for r in range(n_free):
        free[r] = r
    for _ in range(ROUNDS):
        n_left = 0
        for k in range(n_free):
            r = free[k]
            least, second, c = two_least(cost[r], price)
            if c < 0:
                c = _first_with(least, cost[r], price, rank)
            elif second < np.inf:  # there is another column
                price[c] -= second - least
            free[n_left] = row_of[c]
            n_left += row_of[c] >= 0
            rank[c] = c + price.size
            row_of[c] = r
            column_of[r] = c
        n_free = n_left
    return int(n_free)


@njit(nogil=True, cache=True)
def _first_with(wanted: float, line: Floats, price: Floats, rank: Integers) -> int:
    """Return the column of least rank where line - price is as wanted, as a vectorised loop."""
    none = np.int64(2 * line.size)
    first = none
    for c in range(line.size):
        candidate = rank[c] if line[c] - price[c] == wanted else none
        first = candidate if candidate < first else first
    return int(first if first < line.size else first - line.size)


@njit(nogil=True, cache=True)
def _augment(
    cost: Floats,
    start: int,
    price: Floats,
    search: tuple[Floats, Floats, Floats, Integers, Integers, Positions],
    column_of: Integers,
    row_of: Integers,
) -> None:
    """Assign a row along the shortest path to an unassigned column.

    Every step closes a column, so the search ends whatever the rounding does. A closed column has
    the price -infinity for now: no path leads there.
    """
    width = price.size
    distance, zeros, final, rank, closed, previous = search
    for c in range(width):
        distance[c] = np.inf
    least, _, c = relax(cost[start], price, distance, previous, 0.0, 0.0, start)
    n_closed = 0
    while True:
        if c < 0:
            c = _first_with(least, distance, zeros, rank)
        r = row_of[c]
        if r < 0:
            break
        shift = least - (cost[r, c] - price[c])
        closed[n_closed] = c
        final[n_closed] = price[c]
        final[width + n_closed] = least
        n_closed += 1
        distance[c] = np.inf
        price[c] = -np.inf
        least, _, c = relax(cost[r], price, distance, previous, least, shift, r)
    for k in range(n_closed):
        price[closed[k]] = final[k] + (final[width + k] - least)
    rank[c] += width
    while True:
        r = previous[c]
        row_of[c] = r
        if r == start:
            column_of[r] = c
            break
        column_of[r], c = c, column_of[r]
