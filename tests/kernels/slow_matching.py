"""Slow twins of the matching kernels: brute force, and a check of optimality from the duals."""

from typing import NamedTuple

import numpy as np

from outrule.kernels.blossom import MATE, PARENT, REST, ROW, Z, blossom_chunk, new_scratch
from outrule.kernels.picking import frozen


class Duals(NamedTuple):
    """A matching with the duals that prove it heaviest, all in integers.

    y[a] + y[b] + (z of the blossoms that hold both a and b) >= doubled[a, b] for every pair, with
    equality for matched pairs; z >= 0; a blossom with z > 0 has all its vertices but one matched
    inside. parents[k] is the blossom right around node k, or -1; vertices come before blossoms.
    """

    mate: np.ndarray
    doubled: np.ndarray
    y: np.ndarray
    z: np.ndarray
    parents: np.ndarray


def blossom_with_duals(weights, u, v, n_nodes) -> Duals:
    """Match one graph that has an edge > 0, and prove it; an odd n_nodes gets a lone vertex more.

    A mate may be one by an edge of weight 0, which no matching of the library would choose.
    """
    m = len(weights)
    n = max(2, n_nodes + n_nodes % 2)
    scratch = new_scratch(n)
    start, count = frozen(np.zeros(1, dtype=np.int64)), frozen(np.array([m], dtype=np.int64))
    picks = np.empty((1, max(1, n_nodes // 2)), dtype=np.int32)
    inputs = frozen(weights), frozen(np.ones(m)), frozen(u), frozen(v)
    blossom_chunk(scratch, *inputs, start, start, count, start, picks)
    doubled = scratch[ROW : ROW + n, :n]
    return Duals(scratch[MATE, :n], doubled, scratch[REST, :n], scratch[Z], scratch[PARENT])


def best_value(weights, u, v, n_nodes):
    """The value of the heaviest matching, by trying all of them."""
    heaviest = {}
    for weight, a, b in zip(weights, u, v, strict=True):
        if a != b:
            pair = (min(a, b), max(a, b))
            heaviest[pair] = max(weight, heaviest.get(pair, 0.0))

    def best(left):
        if len(left) < 2:
            return 0.0
        first, *others = left
        value = best(others)
        for other in others:
            weight = heaviest.get((first, other), 0.0)
            if weight > 0.0:
                value = max(value, weight + best([k for k in others if k != other]))
        return value

    return best(list(range(n_nodes)))


def picks_value(picks, weights, u, v):
    """The value of one row of picks, after a check that it is a matching in the right format."""
    chosen = [k for k in picks.tolist() if k >= 0]
    assert picks.tolist() == chosen + [-1] * (len(picks) - len(chosen))
    assert chosen == sorted(set(chosen))
    ends = [int(x) for k in chosen for x in (u[k], v[k])]
    assert len(ends) == len(set(ends))
    for k in chosen:
        assert weights[k] > 0
        twins = [j for j in range(len(weights)) if {u[j], v[j]} == {u[k], v[k]}]
        assert k == max(twins, key=lambda j: weights[j])  # the first of the heaviest
    return sum(float(weights[k]) for k in chosen)


def blossoms_of(duals: Duals):
    """The vertices of every blossom, from the parents alone."""
    n = len(duals.mate)
    members: dict[int, set[int]] = {}
    for vertex in range(n):
        node = int(duals.parents[vertex])
        while node >= 0:
            members.setdefault(node, set()).add(vertex)
            node = int(duals.parents[node])
    return members


def verify_duals(duals: Duals) -> bool:
    """Whether the duals prove the matching heaviest: feasibility and complementary slackness."""
    mate, doubled, y, z, _ = (np.asarray(part).astype(object) for part in duals)
    n = len(mate)
    blossoms = blossoms_of(duals)
    partners = mate.tolist()
    if any(partners[partners[a]] != a or partners[a] == a for a in range(n)):
        return False
    if any(z[node] < 0 for node in range(n, len(z))):
        return False
    for node, vertices in blossoms.items():
        if len(vertices) % 2 == 0:
            return False
        inside = sum(partners[a] in vertices for a in vertices)
        if z[node] > 0 and inside != len(vertices) - 1:
            return False
    for a in range(n):
        for b in range(a):
            slack = y[a] + y[b] - doubled[a, b]
            slack += sum(z[node] for node, held in blossoms.items() if a in held and b in held)
            if slack < 0 or (slack > 0 and partners[a] == b):
                return False
    return True


def complete(n_nodes):
    """The ends of all edges on n_nodes vertices."""
    u, v = np.triu_indices(n_nodes, 1)
    return u.astype(np.int32), v.astype(np.int32)
