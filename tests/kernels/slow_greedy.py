"""Slow, obvious greedy choices: sort by (-weight, position), take what stays feasible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

Feasible = Callable[[Sequence[int]], bool]


def best(weights: Sequence[float]) -> int:
    """Return the first position of the greatest weight."""
    return max(range(len(weights)), key=lambda j: (weights[j], -j))


def greedy(weights: Sequence[float], feasible: Feasible) -> list[int]:
    """Return the greedy choice of positive items, ascending."""
    chosen: list[int] = []
    for j in sorted(range(len(weights)), key=lambda j: (-weights[j], j)):
        if weights[j] > 0 and feasible([*chosen, j]):
            chosen.append(j)
    return sorted(chosen)


def heaviest(weights: Sequence[float], feasible: Feasible) -> float:
    """Return the greatest weight of any feasible set."""
    return max(
        sum(weights[j] for j in chosen)
        for size in range(len(weights) + 1)
        for chosen in combinations(range(len(weights)), size)
        if feasible(chosen)
    )


def at_most(capacity: int) -> Feasible:
    """Allow sets of limited size."""
    return lambda chosen: len(chosen) <= capacity


def partition(group: Sequence[int], capacity: Sequence[int]) -> Feasible:
    """Allow sets with at most capacity[g] items of group g."""
    return lambda chosen: all(
        sum(group[j] == g for j in chosen) <= limit for g, limit in enumerate(capacity)
    )


def laminar(innermost: Sequence[int], parent: Sequence[int], capacity: Sequence[int]) -> Feasible:
    """Allow sets with at most capacity[s] items in set s or in a set within s."""

    def inside(member: int, wanted: int) -> bool:
        while member >= 0:
            if member == wanted:
                return True
            member = parent[member]
        return False

    return lambda chosen: all(
        sum(inside(innermost[j], s) for j in chosen) <= limit for s, limit in enumerate(capacity)
    )


def forest(u: Sequence[int], v: Sequence[int]) -> Feasible:
    """Allow sets of edges without a cycle: repeatedly remove an edge that ends in a leaf."""

    def acyclic(chosen: Sequence[int]) -> bool:
        edges = [(u[j], v[j]) for j in chosen]
        while edges:
            ends = [node for edge in edges for node in edge]
            rest = [edge for edge in edges if ends.count(edge[0]) > 1 and ends.count(edge[1]) > 1]
            if len(rest) == len(edges):
                return False
            edges = rest
        return True

    return acyclic


def matching(u: Sequence[int], v: Sequence[int]) -> Feasible:
    """Allow sets of edges that share no node; a loop meets itself."""

    def disjoint(chosen: Sequence[int]) -> bool:
        ends = [node for j in chosen for node in (u[j], v[j])]
        return len(set(ends)) == len(ends)

    return disjoint
