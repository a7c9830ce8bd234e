"""Maximum-weight bipartite matchings, dense or ragged, by shortest augmenting paths."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from outrule.kernels.assignment_dp import (
    assign_dense_by_subsets,
    assign_ragged_by_subsets,
    subset_work,
)
from outrule.kernels.compiling import njit
from outrule.kernels.picking import LARGEST, capped

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Positions = NDArray[np.int32]

# Products and sums of weights above this may overflow; they are divided by 2**64 first, which
# only denormals notice, and those weigh nothing beside such a weight.
HUGE = 2.0**960
HUGE_BITS = int(np.float64(HUGE).view(np.int64))
SHRINK = 2.0**-64
# Columns are padded to a multiple of this, LLVM's unrolled SIMD loop over 8-byte numbers.
WIDTH = 16

# Transitions of the subset programme (see subset_work) that take as long as one augmenting path;
# there is one path per vertex of the smaller side. The programme goes up to 12 x 12 and 8 x 22.
WORK_PER_PATH = 2200


def _takes_subsets(small: int, large: int) -> bool:
    """Which algorithm; by shape alone, so that ties are broken alike in every batch and form."""
    return subset_work(small, large) <= WORK_PER_PATH * small


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
    base = int(small.max(initial=0)) + 1
    shape = large * base + small
    shapes, shape_of = np.unique(shape, return_inverse=True)
    tiny = np.zeros(shapes.size, np.bool_)
    for k, code in enumerate(shapes):
        longer, shorter = divmod(int(code), base)
        tiny[k] = _takes_subsets(shorter, longer)
    by_subsets = tiny[shape_of]
    # Lanes are filled with instances of one shape; equal shapes are neighbours in this order.
    order = np.argsort(shape, kind="stable")
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
    profit = np.empty(n_rows * n_columns)
    width = _padded(large)
    cost = np.empty((small, width))
    floats, integers = _scratch(width)
    column_of, row_of = np.empty(small, np.int64), np.empty(width, np.int64)
    for i in range(weights.shape[0]):
        items = weights[i]
        for k in range(items.size):
            product = items[k] * scale[k]
            product = product if product > 0.0 else 0.0
            profit[k] = product if product < LARGEST else LARGEST
        _shrink(profit)
        _load_cost(profit, n_rows, n_columns, cost)
        _solve(cost, floats, integers, column_of, row_of)
        partner = column_of if n_rows <= n_columns else row_of
        written = 0
        picks[i, :] = -1
        for r in range(n_rows):
            position = r * n_columns + partner[r]
            if partner[r] >= 0 and profit[position] > 0.0:
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
    all_profit, all_cost = np.empty(cells), np.empty(padded_cells)
    all_item = np.empty(cells, np.int32)
    floats, integers = _scratch(longest)
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
        _shrink(profit)
        _load_cost(profit, rows, columns, cost)
        _solve(cost, floats, integers, column_of, row_of)
        partner = column_of if rows <= columns else row_of
        written = 0
        for r in range(rows):
            if partner[r] >= 0 and item[r * columns + partner[r]] >= 0:
                picks[i, written] = item[r * columns + partner[r]]
                written += 1
        picks[i, :written].sort()


@njit(nogil=True, cache=True)
def _shrink(profit: Floats) -> None:
    """Divide all profits by a power of two if their sums could overflow."""
    if _greatest(profit.view(np.int64)) > HUGE_BITS:
        for k in range(profit.size):
            profit[k] *= SHRINK


@njit(nogil=True, cache=True)
def _padded(large: int) -> int:
    """Round the number of columns up to whole SIMD loops; a remainder costs more than padding."""
    return (large + WIDTH - 1) // WIDTH * WIDTH


@njit(nogil=True, cache=True)
def _load_cost(profit: Floats, n_rows: int, n_columns: int, cost: Floats) -> None:
    """Write costs >= 0 whose cheapest full assignments are the most profitable ones.

    The smaller side becomes the rows. The best entry of every row gets cost 0: every row is
    assigned, so what is added to all of a row changes all assignments alike.
    """
    small, large = min(n_rows, n_columns), max(n_rows, n_columns)
    step_row, step_column = (n_columns, 1) if n_rows <= n_columns else (1, n_columns)
    for r in range(small):
        line = cost[r]
        if step_column == 1:
            line[:large] = profit[r * step_row : r * step_row + large]
        else:
            for c in range(large):
                line[c] = profit[r * step_row + c * step_column]
        line[large:] = 0.0
        top = np.int64(_greatest(line.view(np.int64))).view(np.float64)
        for c in range(line.size):
            line[c] = top - line[c]
        line[large:] = np.inf


@njit(nogil=True, cache=True)
def _greatest(bits: Integers) -> np.int64:
    """Return the bits of the greatest of some floats >= 0, which are ordered like the floats.

    LLVM vectorises this reduction over whole numbers, not the one over floats.
    """
    greatest = np.int64(0)
    for j in range(bits.size):
        greatest = bits[j] if bits[j] > greatest else greatest
    return greatest


@njit(nogil=True, cache=True)
def _least(bits: Integers) -> np.int64:
    """Return the bits of the least of some floats >= 0."""
    least = np.int64(0x7FFFFFFFFFFFFFFF)
    for j in range(bits.size):
        least = bits[j] if bits[j] < least else least
    return least


@njit(nogil=True, cache=True)
def _first_with(bits: Integers, wanted: np.int64, rank: Integers) -> int:
    """Return the position of least rank whose bits are the wanted ones, as a vectorised loop."""
    none = np.int64(2 * bits.size)
    first = none
    for j in range(bits.size):
        candidate = rank[j] if bits[j] == wanted else none
        first = candidate if candidate < first else first
    return int(first if first < bits.size else first - bits.size)


@njit(nogil=True, cache=True)
def _scratch(width: int) -> tuple[Floats, Integers]:
    """Allocate what _solve needs for up to `width` columns."""
    return np.empty(4 * width), np.empty(3 * width, np.int64)


@njit(nogil=True, cache=True)
def _solve(
    cost: Floats, floats: Floats, integers: Integers, column_of: Integers, row_of: Integers
) -> None:
    """Assign all rows at least cost, one shortest augmenting path per row.

    Invariants: price <= 0, and 0 at unassigned columns; so cost - price >= 0, and every assigned
    pair attains the least cost - price of its row (up to rounding). Every search closes a column
    per step, so it ends whatever the rounding does. Padding columns cost infinity.
    """
    width = cost.shape[1]
    price, distance = floats[:width], floats[width : 2 * width]
    opened, final = floats[2 * width : 3 * width], floats[3 * width : 4 * width]
    rank, previous = integers[:width], integers[width : 2 * width]
    closed = integers[2 * width : 3 * width]
    bits = distance.view(np.int64)
    for c in range(width):
        price[c] = 0.0
        row_of[c] = -1
        rank[c] = c  # On ties unassigned columns come first: they end the search.
    for start in range(cost.shape[0]):
        line = cost[start]
        for c in range(width):
            opened[c] = price[c]
            distance[c] = line[c] - price[c]
            previous[c] = start
        n_closed = 0
        while True:
            j = _first_with(bits, _least(bits), rank)
            lowest = distance[j]
            r = row_of[j]
            if r < 0:
                break
            closed[n_closed] = j
            n_closed += 1
            final[j] = lowest
            # Closed columns get infinite distances, now and in the update below.
            distance[j] = np.inf
            opened[j] = -np.inf
            line = cost[r]
            _relax(line, opened, lowest, lowest - (line[j] - price[j]), r, distance, previous)
        for k in range(n_closed):
            price[closed[k]] += final[closed[k]] - lowest
        rank[j] += width
        while True:
            r = previous[j]
            row_of[j] = r
            if r == start:
                column_of[r] = j
                break
            column_of[r], j = j, column_of[r]


@njit(nogil=True, cache=True)
def _relax(
    line: Floats,
    opened: Floats,
    lowest: float,
    shift: float,
    row: int,
    distance: Floats,
    previous: Integers,
) -> None:
    """Shorten the distances of the open columns by the paths through a row."""
    for c in range(line.size):
        through = line[c] - opened[c] + shift
        # Rounding must not bring a distance below one that is already final.
        through = through if through > lowest else lowest
        shorter = through < distance[c]
        distance[c] = through if shorter else distance[c]
        previous[c] = row if shorter else previous[c]
