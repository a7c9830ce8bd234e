"""Slow twins of the problems: every subset is tried, with a feasibility test of its own.

A feasibility test takes the chosen items and says yes or no. Nothing here is from outrule.
"""

from fractions import Fraction
from itertools import chain, combinations, product

import numpy as np


def subsets(items):
    """Every subset, the smallest first."""
    items = list(items)
    return chain.from_iterable(combinations(items, size) for size in range(len(items) + 1))


def exactly_one(chosen):
    return len(chosen) == 1


def at_most(k):
    return lambda chosen: len(chosen) <= k


def within_groups(groups, capacity):
    """At most capacity[g] items of every group g."""
    return lambda chosen: all(
        sum(groups[e] == g for e in chosen) <= capacity[g] for g in set(groups)
    )


def forest(edges):
    """No cycle: a node of degree one at most can always be cut off, until nothing is left."""

    def test(chosen):
        left = [edges[e] for e in chosen]
        while left:
            ends = [node for edge in left for node in edge]
            leaves = [edge for edge in left if min(ends.count(edge[0]), ends.count(edge[1])) == 1]
            if not leaves:
                return False
            left.remove(leaves[0])
        return True

    return test


def within_sets(sets, capacity):
    return lambda chosen: all(
        len(set(s) & set(chosen)) <= c for s, c in zip(sets, capacity, strict=True)
    )


def transversal(sets):
    """Hall's condition: any of the items are together in at least as many sets."""

    def test(chosen):
        return all(
            sum(bool(set(s) & set(some)) for s in sets) >= len(some) for some in subsets(chosen)
        )

    return test


def independent_vectors(vectors):
    """Gaussian elimination with fractions."""

    def test(chosen):
        rows = [[Fraction(float(x)) for x in vectors[e]] for e in chosen]
        for column in range(len(vectors[0])):
            pivot = next((row for row in rows if row[column] != 0), None)
            if pivot is not None:
                rows.remove(pivot)
                rows = [
                    [x - row[column] / pivot[column] * y for x, y in zip(row, pivot, strict=True)]
                    for row in rows
                ]
        return not rows

    return test


def matching(edges):
    def test(chosen):
        ends = [node for e in chosen for node in edges[e]]
        return len(ends) == len(set(ends))

    return test


def assignment(n_columns):
    """Item r * n_columns + c pairs row r with column c."""

    def test(chosen):
        rows, columns = {e // n_columns for e in chosen}, {e % n_columns for e in chosen}
        return len(rows) == len(columns) == len(chosen)

    return test


def constraints(A, b):
    return lambda chosen: all(
        sum(row[e] for e in chosen) <= limit for row, limit in zip(A, b, strict=True)
    )


def feasible_sets(n_items, test):
    """All feasible sets, one row of marks each."""
    rows = [[e in chosen for e in range(n_items)] for chosen in subsets(range(n_items))]
    return np.array([row for row in rows if test(tuple(np.flatnonzero(row)))], dtype=bool)


def best_values(weights, sets, available=None):
    """The value of the best feasible set of what is on offer, for every row of weights."""
    weights = np.asarray(weights, dtype=float)
    available = np.ones(weights.shape, dtype=bool) if available is None else available
    answer = []
    for row, offered in zip(weights, available, strict=True):
        possible = sets[~(sets & ~offered).any(axis=1)]
        answer.append(float((possible @ np.where(offered, row, 0.0)).max()))
    return np.array(answer)


def all_rows(levels, n_items):
    """Every row of weights with these levels."""
    return np.array(list(product(levels, repeat=n_items)), dtype=float)
