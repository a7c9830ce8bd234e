"""Exact maximum-weight matching of many small graphs at once by a subset recursion."""

from functools import cache
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from outrule.kernels.lanes import LANES, empty_rows, load_lanes, prefetch, store_best_sum
from outrule.kernels.picking import insert_ascending, scaled

# Enough for the sum of the largest floats of any matching to stay finite.
SHRINK = 2.0**-8

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Small = NDArray[np.int32]
Choices = NDArray[np.int8]


class Plan(NamedTuple):
    """The recursion f(S) = max over j of w(i, j) + f(S - i - j), i the lowest vertex of S.

    Rows 0 .. n_pairs - 1 hold the weights of the pairs in lexicographic order. A set of two
    vertices is its pair; every larger reachable set has a row of its own, smaller sets first.
    Sets of 2 k vertices start at row first_row[k], and their steps, 2 k - 1 each, at first_step[k].
    """

    n_vertices: int
    n_rows: int
    pair_rows: NDArray[np.int32]
    rest_rows: NDArray[np.int32]
    first_row: NDArray[np.int64]
    first_step: NDArray[np.int64]


@cache
def subset_plan(n_nodes: int) -> Plan:
    """The plan for graphs on n_nodes vertices; an odd count gets a vertex without edges."""
    n = max(2, n_nodes + n_nodes % 2)
    half = n // 2
    pair_of = np.zeros((n, n), dtype=np.int64)
    pair_of[np.triu_indices(n, 1)] = np.arange(n * (n - 1) // 2)
    bits = np.int64(1) << np.arange(n)
    sets, pairs, rests = {half: np.array([bits.sum()])}, {}, {}
    for k in range(half, 1, -1):
        members = np.nonzero(sets[k][:, None] & bits)[1].reshape(-1, 2 * k)
        lowest, others = members[:, :1], members[:, 1:]
        pairs[k] = pair_of[lowest, others]
        smaller = sets[k][:, None] - bits[lowest] - bits[others]
        sets[k - 1], where = np.unique(smaller, return_inverse=True)
        rests[k] = where.reshape(smaller.shape)
        if k == 2:  # a set of two vertices is its pair
            ends = np.nonzero(sets[1][:, None] & bits)[1].reshape(-1, 2)
            rests[2] = pair_of[ends[:, 0], ends[:, 1]][rests[2]]
    first_row, first_step = np.zeros((2, half + 2), dtype=np.int64)
    first_row[2] = n * (n - 1) // 2
    for k in range(2, half + 1):
        first_row[k + 1] = first_row[k] + len(sets[k])
        first_step[k + 1] = first_step[k] + pairs[k].size
        rests[k] += first_row[k - 1] if k > 2 else 0
    order = range(2, half + 1)
    nothing = np.empty(0, dtype=np.int64)
    return Plan(
        n,
        int(first_row[half + 1]),
        np.concatenate([nothing, *(pairs[k].ravel() for k in order)]).astype(np.int32),
        np.concatenate([nothing, *(rests[k].ravel() for k in order)]).astype(np.int32),
        first_row,
        first_step,
    )


@njit(nogil=True, cache=True)
def _fill_rows(
    plan: Plan, rows: Floats, choices: Choices, upcoming: Floats, place: int, end: int
) -> None:
    """Run the recursion for LANES instances whose pair weights are in place.

    Meanwhile the weights of the next instances, upcoming.flat[place:end], travel to the cache.
    """
    left, right = plan.pair_rows, plan.rest_rows
    for k in range(2, plan.n_vertices // 2 + 1):
        n_steps = 2 * k - 1
        begin = plan.first_step[k]
        for row in range(plan.first_row[k], plan.first_row[k + 1]):
            store_best_sum(rows, choices, left, right, begin, begin + n_steps, row)
            begin += n_steps
            if place < end:
                prefetch(upcoming, place)
                place += 8


@njit(nogil=True, cache=True)
def _shrink_overflows(plan: Plan, rows: Floats) -> bool:
    """Divide the weights of every lane whose best sum is infinite; say whether there are any."""
    n_pairs = plan.n_vertices * (plan.n_vertices - 1) // 2
    any_overflow = False
    for lane in range(LANES):
        if rows[(plan.n_rows - 1) * LANES + lane] == np.inf:
            any_overflow = True
            for pair in range(n_pairs):
                rows[pair * LANES + lane] *= SHRINK
    return any_overflow


@njit(nogil=True, cache=True)
def _trace(plan: Plan, rows: Floats, choices: Choices, lane: int, chosen: Integers) -> int:
    """Write the pairs of one lane's best matching, by ascending lower vertex; return how many."""
    row = np.int64(plan.n_rows - 1)
    n_chosen = 0
    for k in range(plan.n_vertices // 2, 1, -1):
        step = plan.first_step[k] + (row - plan.first_row[k]) * (2 * k - 1)
        step += choices[row * LANES + lane]
        pair = np.int64(plan.pair_rows[step])
        chosen[n_chosen] = pair
        n_chosen += rows[pair * LANES + lane] > 0.0
        row = np.int64(plan.rest_rows[step])
    chosen[n_chosen] = row
    n_chosen += rows[row * LANES + lane] > 0.0
    return int(n_chosen)


@njit(nogil=True, cache=True)
def _heaviest(weights: Floats, scale: Floats, item: int, twins: Small) -> int:
    """The heaviest of the parallel items that start with `item`, the first on ties."""
    best = item
    while twins[item] >= 0:
        item = twins[item]
        if scaled(weights, scale, item) > scaled(weights, scale, best):
            best = item
    return best


@njit(nogil=True, cache=True)
def _pair_row(a: int, b: int, n_vertices: int) -> int:
    low, high = np.int64(min(a, b)), np.int64(max(a, b))
    return int(low * (2 * n_vertices - low - 1) // 2 + high - low - 1)


@njit(nogil=True, cache=True)
def _place_items(u: Small, v: Small, plan: Plan) -> tuple[Small, Small, Small, bool]:
    """Where the items of a shared graph go: places, items, twins and whether there are twins.

    Item e lands in row places[e]: the row of its pair if it is the first item of that pair, which
    makes items[pair] = e, else a spare row from plan.n_rows on. twins[e] is the next item parallel
    to e, or -1.
    """
    places = np.empty(len(u), dtype=np.int32)
    twins = np.full(len(u), -1, dtype=np.int32)
    items = np.full(plan.n_vertices * (plan.n_vertices - 1) // 2, -1, dtype=np.int32)
    latest = items.copy()
    any_twins = False
    for item in range(len(u)):
        places[item] = plan.n_rows + item
        if u[item] != v[item]:
            pair = _pair_row(u[item], v[item], plan.n_vertices)
            if items[pair] < 0:
                items[pair] = item
                places[item] = pair
            else:
                twins[latest[pair]] = item
                any_twins = True
            latest[pair] = item
    return places, items, twins, any_twins


@njit(nogil=True, cache=True)
def _merge_twins(places: Small, items: Small, twins: Small, rows: Floats) -> None:
    """Give every pair the weight of its heaviest item."""
    for pair in range(len(items)):
        item = items[pair]
        while item >= 0 and twins[item] >= 0:
            item = twins[item]
            for lane in range(LANES):
                value = rows[places[item] * LANES + lane]
                rows[pair * LANES + lane] = max(rows[pair * LANES + lane], value)


@njit(nogil=True, cache=True)
def subset_dense(
    weights: Floats, scale: Floats, u: Small, v: Small, plan: Plan, picks: Small
) -> None:
    """Match every row of weights * scale, whose item e is the edge (u[e], v[e])."""
    n, m = weights.shape
    places, items, twins, any_twins = _place_items(u, v, plan)
    rows = empty_rows(plan.n_rows + m, LANES)
    choices = np.zeros(plan.n_rows * LANES, dtype=np.int8)
    chosen = np.empty(plan.n_vertices // 2 + 1, dtype=np.int64)
    for first in range(0, n, LANES):
        load_lanes(weights, scale, places, first, rows)
        if any_twins:
            _merge_twins(places, items, twins, rows)
        upcoming = (first + LANES) * m
        _fill_rows(plan, rows, choices, weights, upcoming, upcoming + LANES * m)
        if _shrink_overflows(plan, rows):
            _fill_rows(plan, rows, choices, weights, 0, 0)
        for lane in range(min(LANES, n - first)):
            row = picks[first + lane]
            n_chosen = _trace(plan, rows, choices, lane, chosen)
            for k in range(n_chosen):
                item = _heaviest(weights[first + lane], scale, items[chosen[k]], twins)
                insert_ascending(row, k, item)
            row[n_chosen:] = -1


@njit(nogil=True, cache=True)
def _load_ragged(
    weights: Floats, u: Small, v: Small, n_vertices: int, lane: int, rows: Floats, items: Small
) -> None:
    """Load one instance into a lane of zeros.

    The heaviest of parallel items stands, the first on ties.
    """
    for item in range(len(weights)):
        if u[item] != v[item]:
            place = _pair_row(u[item], v[item], n_vertices) * LANES + lane
            if weights[item] > rows[place]:
                rows[place] = weights[item]
                items[place] = item


@njit(nogil=True, cache=True)
def subset_ragged(
    weights: Floats,
    offsets: Integers,
    u: Small,
    v: Small,
    which: Integers,
    plan: Plan,
    picks: Small,
) -> None:
    """Match the instances `which`, none of which has more vertices than the plan."""
    rows = empty_rows(plan.n_rows, LANES)
    choices = np.zeros(plan.n_rows * LANES, dtype=np.int8)
    n_pairs = plan.n_vertices * (plan.n_vertices - 1) // 2
    items = np.zeros(n_pairs * LANES, dtype=np.int32)
    chosen = np.empty(plan.n_vertices // 2 + 1, dtype=np.int64)
    for first in range(0, len(which), LANES):
        group = which[first : first + LANES]
        rows[: n_pairs * LANES] = 0.0
        for lane in range(len(group)):
            own = slice(offsets[group[lane]], offsets[group[lane] + 1])
            _load_ragged(weights[own], u[own], v[own], plan.n_vertices, lane, rows, items)
        _fill_rows(plan, rows, choices, weights, 0, 0)
        if _shrink_overflows(plan, rows):
            _fill_rows(plan, rows, choices, weights, 0, 0)
        for lane in range(len(group)):
            row = picks[group[lane]]
            n_chosen = _trace(plan, rows, choices, lane, chosen)
            for k in range(n_chosen):
                insert_ascending(row, k, items[chosen[k] * LANES + lane])
            row[n_chosen:] = -1
