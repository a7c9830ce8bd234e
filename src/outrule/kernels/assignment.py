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
from outrule.kernels.row_scans import least_rank, relax, two_least
from outrule.kernels.vectors import LANE_BLOCK, empty_rows

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Positions = NDArray[np.int32]

# Products and sums of weights above this may overflow; they are divided by 2**64 first, which
# only denormals notice, and those weigh nothing beside such a weight.
HUGE = 2.0**960
SHRINK = 2.0**-64
# Rounds in which every row without a column bids for one, before paths are searched. The first two
# save most; later ones have few rows, and cost about what they save.
ROUNDS = 4

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
    width = _padded(large)
    cost = empty_rows(small, width).reshape((small, width))
    floats, integers = _scratch(width)
    column_of, row_of = np.empty(small, np.int64), np.empty(width, np.int64)
    for i in range(weights.shape[0]):
        items = weights[i]
        _load_cost(items, scale, n_rows, n_columns, cost)
        _solve(cost, n_rows == n_columns, floats, integers, column_of, row_of)
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
        _load_cost(profit, ones, rows, columns, cost)
        _solve(cost, rows == columns, floats, integers, column_of, row_of)
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
def _scratch(width: int) -> tuple[Floats, Integers]:
    """Allocate what _solve needs for up to `width` columns."""
    return empty_rows(4, width), np.empty(4 * width, np.int64)


@njit(nogil=True, cache=True)
def _load_cost(weights: Floats, scale: Floats, n_rows: int, n_columns: int, cost: Floats) -> None:
    """Write costs >= 0 whose cheapest full assignments are the most profitable ones.

    The smaller side becomes the rows. The best entry of every row gets cost 0: every row is
    assigned, so what is added to all of a row changes all assignments alike.
    """
    small, large = min(n_rows, n_columns), max(n_rows, n_columns)
    greatest = 0.0
    for r in range(small):
        line = cost[r]
        if n_rows <= n_columns:
            some, factor = weights[r * large : (r + 1) * large], scale[r * large : (r + 1) * large]
            for c in range(large):
                line[c] = some[c] * factor[c]
        else:
            for c in range(large):
                line[c] = weights[c * small + r] * scale[c * small + r]
        line[large:] = 0.0
        for c in range(line.size):
            value = line[c] if line[c] > 0.0 else 0.0
            line[c] = value if value < LARGEST else LARGEST
        top = np.int64(_greatest(line.view(np.int64))).view(np.float64)
        greatest = max(greatest, top)
        for c in range(line.size):
            line[c] = top - line[c]
        line[large:] = np.inf
    if greatest > HUGE:
        for r in range(small):
            for c in range(cost.shape[1]):
                cost[r, c] *= SHRINK


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
def _solve(
    cost: Floats,
    square: bool,
    floats: Floats,
    integers: Integers,
    column_of: Integers,
    row_of: Integers,
) -> None:
    """Assign all rows at least cost.

    Invariants: cost - price >= 0, as prices start there and only fall; every assigned pair attains
    the least cost - price of its row (up to rounding); where a column stays unassigned, price <= 0,
    and 0 there. Padding columns cost infinity.
    """
    small, width = cost.shape
    price, distance = floats[:width], floats[width : 2 * width]
    rank, previous = integers[:width], integers[width : 2 * width]
    free, closed = integers[2 * width : 3 * width], integers[3 * width : 4 * width]
    price[:] = 0.0
    if square:  # no column stays unassigned, so the cheapest pair of each can cost nothing
        price[:small] = cost[0, :small]
        for r in range(1, small):
            line = cost[r]
            for c in range(small):
                price[c] = line[c] if line[c] < price[c] else price[c]
    for c in range(width):
        row_of[c] = -1
        rank[c] = c  # + width once it is assigned: on ties unassigned columns come first
    n_free = _bid(cost, price, distance, rank, free, column_of, row_of)
    final = floats[2 * width :]
    for k in range(n_free):
        _augment(cost, free[k], price, distance, rank, previous, closed, final, column_of, row_of)


@njit(nogil=True, cache=True)
def _bid(
    cost: Floats,
    price: Floats,
    values: Floats,
    rank: Integers,
    free: Integers,
    column_of: Integers,
    row_of: Integers,
) -> int:
    """Let every free row take its cheapest column from whoever has it; return how many stay free.

    The price falls until the row's second best column is as good.
    """
    width = price.size
    n_free = cost.shape[0]
    for r in range(n_free):
        free[r] = r
    for _ in range(ROUNDS):
        n_left = 0
        for k in range(n_free):
            r = free[k]
            least, second = two_least(cost[r], price, values)
            place = least_rank(values, least, rank)
            c = place if place < width else place - width
            if second < np.inf:  # there is another column
                price[c] -= second - least
            free[n_left] = row_of[c]
            n_left += row_of[c] >= 0
            rank[c] = c + width
            row_of[c] = r
            column_of[r] = c
        n_free = n_left
    return n_free


@njit(nogil=True, cache=True)
def _augment(
    cost: Floats,
    start: int,
    price: Floats,
    distance: Floats,
    rank: Integers,
    previous: Integers,
    closed: Integers,
    final: Floats,
    column_of: Integers,
    row_of: Integers,
) -> None:
    """Assign a row along the shortest path to an unassigned column.

    Every step closes a column, so the search ends whatever the rounding does. A closed column has
    the price -infinity for now: no path leads there.
    """
    width = price.size
    least, _ = two_least(cost[start], price, distance)
    for c in range(width):
        previous[c] = start
    n_closed = 0
    while True:
        place = least_rank(distance, least, rank)
        if place < width:
            break
        c = place - width
        r = row_of[c]
        shift = least - (cost[r, c] - price[c])
        closed[n_closed] = c
        final[n_closed] = price[c]
        final[width + n_closed] = least
        n_closed += 1
        distance[c] = np.inf
        price[c] = -np.inf
        least = relax(cost[r], price, distance, previous, least, shift, r)
    for k in range(n_closed):
        price[closed[k]] = final[k] + (final[width + k] - least)
    c = place
    rank[c] += width
    while True:
        r = previous[c]
        row_of[c] = r
        if r == start:
            column_of[r] = c
            break
        column_of[r], c = c, column_of[r]
