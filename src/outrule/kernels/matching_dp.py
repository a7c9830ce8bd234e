"""Exact maximum-weight matching of many small graphs at once by a subset recursion."""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from outrule.kernels.compiling import njit
from outrule.kernels.picking import ZERO, capped, insert_ascending
from outrule.kernels.vectors import (
    LANES,
    empty_rows,
    load_lanes,
    shrink_overflows,
    store_best_sum,
)
from outrule.types import Floats, Integers, Positions

Choices = NDArray[np.int8]


class SubsetPlan(NamedTuple):
    """The recursion f(S) = max over j of w(i, j) + f(S - i - j), i the lowest vertex of S.

    Rows 0 .. n_pairs - 1 hold the weights of the pairs in lexicographic order. A set of two
    vertices is its pair; every larger reachable set has a row of its own, smaller sets first.
    Sets of 2 k vertices start at row first_row[k], and their steps, 2 k - 1 each, at first_step[k].
    """

    n_vertices: int
    n_rows: int
    pair_rows: Positions
    rest_rows: Positions
    first_row: Integers
    first_step: Integers


@cache
def subset_plan(n_nodes: int) -> SubsetPlan:
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
    return SubsetPlan(
        n,
        int(first_row[half + 1]),
        np.concatenate([nothing, *(pairs[k].ravel() for k in order)]).astype(np.int32),
        np.concatenate([nothing, *(rests[k].ravel() for k in order)]).astype(np.int32),
        first_row,
        first_step,
    )


@njit(nogil=True, cache=True)
def _row_numbers(plan: SubsetPlan, items: Positions, n_items: int) -> tuple[Positions, Positions]:
    """The two rows of every step: item e has row e, then come the sets, then a row of zeros."""
    n_rows = plan.n_rows - items.size + n_items
    rows = np.arange(n_rows - plan.n_rows, n_rows).astype(np.int32)
    for pair in range(items.size):
        rows[pair] = items[pair] if items[pair] >= 0 else n_rows
    if (rows == np.arange(plan.n_rows)).all():  # every pair is its own item
        return plan.pair_rows, plan.rest_rows
    return rows[plan.pair_rows], rows[plan.rest_rows]


@njit(nogil=True, cache=True)
def _solve(
    plan: SubsetPlan,
    left: Positions,
    right: Positions,
    rows: Floats,
    choices: Choices,
    chosen: Integers,
) -> None:
    """Write the pairs of every lane's best matching, by ascending lower vertex, (lanes, n / 2)."""
    half, first = plan.n_vertices // 2, rows.size // LANES - 1 - plan.n_rows
    for _ in range(2):
        begin, target = 0, first + plan.first_row[2]
        for k in range(2, half + 1):
            for _ in range(plan.first_row[k], plan.first_row[k + 1]):
                end = begin + 2 * k - 1
                store_best_sum(rows, choices, left, right, begin, end, target)
                begin, target = end, target + 1
        last = rows[rows.size - 2 * LANES : rows.size - LANES]
        if not shrink_overflows(last, rows, ZERO):
            break
    at = np.full(LANES, plan.n_rows - 1)
    for k in range(half, 1, -1):
        for lane in range(LANES):  # lanes do not wait for each other
            step = plan.first_step[k] + (at[lane] - plan.first_row[k]) * (2 * k - 1)
            step += choices[(first + at[lane]) * LANES + lane]
            chosen[lane, half - k] = plan.pair_rows[step]
            at[lane] = plan.rest_rows[step]
    chosen[:, half - 1] = at


@njit(nogil=True, cache=True)
def _pair_row(a: int, b: int, n_vertices: int) -> int:
    low, high = np.int64(min(a, b)), np.int64(max(a, b))
    return int(low * (2 * n_vertices - low - 1) // 2 + high - low - 1)


@njit(nogil=True, cache=True)
def subset_dense(
    weights: Floats, scale: Floats, u: Positions, v: Positions, plan: SubsetPlan, picks: Positions
) -> None:
    """Match every row of weights * scale; item e is the edge (u[e], v[e]), and no other is."""
    n, m = weights.shape
    items = np.full(plan.n_vertices * (plan.n_vertices - 1) // 2, -1, dtype=np.int32)
    for item in range(m):
        if u[item] != v[item]:
            items[_pair_row(u[item], v[item], plan.n_vertices)] = item
    left, right = _row_numbers(plan, items, m)
    rows = empty_rows(plan.n_rows - items.size + m + 1, LANES)
    choices = np.zeros(rows.size, dtype=np.int8)
    chosen = np.empty((LANES, plan.n_vertices // 2), dtype=np.int64)
    for first in range(0, n, LANES):
        load_lanes(weights, scale, first, rows)
        _solve(plan, left, right, rows, choices, chosen)
        for i in range(first, min(first + LANES, n)):
            row, lane, n_picks = picks[i], i - first, 0
            for pair in chosen[lane]:
                item = items[pair]
                if item >= 0 and rows[item * LANES + lane] > 0.0:
                    insert_ascending(row, n_picks, item)
                    n_picks += 1
            row[n_picks:] = -1


@njit(nogil=True, cache=True)
def subset_ragged(
    weights: Floats,
    offsets: Integers,
    u: Positions,
    v: Positions,
    which: Integers,
    plan: SubsetPlan,
    picks: Positions,
) -> None:
    """Match the instances `which`, none of which has more vertices than the plan.

    Of parallel items the heaviest counts, the first on ties.
    """
    rows = empty_rows(plan.n_rows + 1, LANES)
    choices = np.zeros(rows.size, dtype=np.int8)
    n_pairs = plan.n_vertices * (plan.n_vertices - 1) // 2
    items = np.zeros(n_pairs * LANES, dtype=np.int32)
    chosen = np.empty((LANES, plan.n_vertices // 2), dtype=np.int64)
    for first in range(0, len(which), LANES):
        group = which[first : first + LANES]
        rows[: n_pairs * LANES] = 0.0
        for lane in range(len(group)):
            start, stop = offsets[group[lane]], offsets[group[lane] + 1]
            for k in range(start, stop):
                if u[k] != v[k]:
                    place = _pair_row(u[k], v[k], plan.n_vertices) * LANES + lane
                    weight = capped(weights[k])
                    if weight > rows[place]:
                        rows[place] = weight
                        items[place] = k - start
        _solve(plan, plan.pair_rows, plan.rest_rows, rows, choices, chosen)
        for lane in range(len(group)):
            row, n_picks = picks[group[lane]], 0
            for pair in chosen[lane]:
                place = pair * LANES + lane
                if rows[place] > 0.0:
                    insert_ascending(row, n_picks, items[place])
                    n_picks += 1
            row[n_picks:] = -1
