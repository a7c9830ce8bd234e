"""Slow twins of the matching kernels: brute force, and a check of optimality from the duals."""

import numpy as np

from outrule.kernels.blossom import Certificate


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


def blossoms_of(certificate: Certificate):
    """The vertices of every blossom, from the parents alone."""
    n = len(certificate.mate)
    members: dict[int, set[int]] = {}
    for vertex in range(n):
        node = int(certificate.parents[vertex])
        while node >= 0:
            members.setdefault(node, set()).add(vertex)
            node = int(certificate.parents[node])
    return members


def verify_duals(certificate: Certificate) -> bool:
    """Whether the duals prove the matching heaviest: feasibility and complementary slackness."""
    mate, doubled, y, z, _ = (np.asarray(part).astype(object) for part in certificate)
    n = len(mate)
    blossoms = blossoms_of(certificate)
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
