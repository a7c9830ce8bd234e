"""Greedy choices against sorting in plain Python and against all feasible sets."""

from __future__ import annotations

import numpy as np
import pytest
import slow_greedy as slow
from hypothesis import given, settings, strategies as st

from outrule.kernels import best, greedy

weight = st.one_of(
    st.sampled_from([-1.0, 0.0, -0.0, 1.0, 1.0, 2.0, 3.0]),
    st.floats(-10, 10),
    st.sampled_from([5e-324, 1e-300, 1e300, 1.7e308, -1.7e308]),
)
index = st.integers(0, 3)
# One item of an instance: weight, two nodes, group; a node is also used as a set.
item = st.tuples(weight, index, index, index)
instances = st.lists(st.lists(item, max_size=7), max_size=5)
CAPACITY = [1, 2, 0, 5]
PARENT = [-1, 0, 1, 0]


def flatten(batch):
    offsets = np.concatenate([[0], np.cumsum([len(items) for items in batch])]).astype(np.int64)
    flat = [one for items in batch for one in items]
    columns = [np.array([one[k] for one in flat], np.int32) for k in (1, 2, 3)]
    return np.array([one[0] for one in flat], np.float64), offsets, *columns


def empty_picks(batch):
    return np.full((len(batch), max(map(len, batch), default=0)), 99, np.int32)


def decide(problem, batch):
    """Run a kernel on a batch; return picks and one feasibility test per instance."""
    weights, offsets, u, v, group = flatten(batch)
    n = len(batch)
    nodes = np.full(n, 4, np.int64)
    capacity = np.array(CAPACITY, np.int64)
    picks = empty_picks(batch)
    if problem == "top":
        greedy.top_ragged(weights, offsets, 2, picks)
        return picks, [slow.at_most(2)] * n
    if problem == "partition":
        greedy.partition_ragged(weights, offsets, group, capacity, picks)
        return picks, [slow.partition([x[3] for x in items], CAPACITY) for items in batch]
    if problem == "partition, one each":
        greedy.partition_ragged(weights, offsets, group, np.minimum(capacity, 1), picks)
        limits = [min(c, 1) for c in CAPACITY]
        return picks, [slow.partition([x[3] for x in items], limits) for items in batch]
    if problem == "laminar":
        innermost = group - 1
        parent = np.array(PARENT, np.int32)
        greedy.laminar_ragged(weights, offsets, innermost, parent, capacity + 1, picks)
        limits = [c + 1 for c in CAPACITY]
        return picks, [slow.laminar([x[3] - 1 for x in one], PARENT, limits) for one in batch]
    kernel = greedy.graphic_ragged if problem == "graphic" else greedy.greedy_matching_ragged
    kernel(weights, offsets, u, v, nodes, picks)
    twin = slow.forest if problem == "graphic" else slow.matching
    return picks, [twin([x[1] for x in items], [x[2] for x in items]) for items in batch]


PROBLEMS = ["top", "partition", "partition, one each", "laminar", "graphic", "matching"]


def padded(chosen, width):
    return chosen + [-1] * (width - len(chosen))


@pytest.mark.parametrize("problem", PROBLEMS)
@settings(max_examples=60, deadline=None)
@given(instances)
def test_against_the_slow_twin(problem, batch):
    picks, feasible = decide(problem, batch)
    for items, row, allowed in zip(batch, picks.tolist(), feasible, strict=True):
        weights = [one[0] for one in items]
        chosen = slow.greedy(weights, allowed)
        assert row == padded(chosen, len(row))
        # Sixteenths, as sums of the greatest floats overflow.
        smaller = [w / 16 for w in weights]
        best = slow.heaviest(smaller, allowed)
        value = sum(smaller[j] for j in chosen)
        assert value >= best / (2 if problem == "matching" else 1) * (1 - 1e-12)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_long_instances_and_independence_of_the_batch(problem):
    random = np.random.default_rng(5)
    batch = [
        [(float(w), int(a), int(b), int(c)) for w, (a, b, c) in zip(ws, ids, strict=True)]
        for size in (1, 16, 17, 33, 0, 64, 100)
        for ws, ids in [(random.integers(-2, 9, size), random.integers(0, 4, (size, 3)))]
    ]
    picks, feasible = decide(problem, batch)
    for items, row, allowed in zip(batch, picks.tolist(), feasible, strict=True):
        assert row == padded(slow.greedy([one[0] for one in items], allowed), len(row))
    again, _ = decide(problem, [batch[0], *batch])
    assert (again[1:] == picks).all()


@settings(max_examples=120, deadline=None)
@given(st.integers(2, 7), st.data())
def test_the_forest_of_a_graph_that_all_rows_share(n_nodes, data):
    pairs = [(a, b) for a in range(n_nodes) for b in range(a)]
    edges = data.draw(st.lists(st.sampled_from(pairs), min_size=1, unique=True))
    rows = data.draw(
        st.lists(st.lists(weight, min_size=len(edges), max_size=len(edges)), max_size=4)
    )
    edge_between = np.full((n_nodes, n_nodes), -1, np.int32)
    for number, (a, b) in enumerate(edges):
        edge_between[a, b] = edge_between[b, a] = number
    picks = np.full((len(rows), n_nodes - 1), 99, np.int32)
    greedy.forest_dense(np.array(rows).reshape(-1, len(edges)), edge_between, picks)
    forest = slow.forest(*zip(*edges, strict=True))
    for row, found in zip(rows, picks.tolist(), strict=True):
        assert found == padded(slow.greedy(row, forest), len(found))


@pytest.mark.parametrize("capacity", [0, 1, 3, 16, 17, 50, 200])
def test_top_dense(capacity):
    random = np.random.default_rng(6)
    for m in (1, 2, 15, 16, 17, 100):
        weights = random.integers(-3, 9, (6, m)).astype(float)
        scale = random.integers(-1, 4, m).astype(float)
        picks = np.full((6, min(m, capacity)), 99, np.int32)
        greedy.top_dense(weights, scale, capacity, picks)
        for row, chosen in zip(weights * scale, picks.tolist(), strict=True):
            expected = slow.greedy(row.tolist(), slow.at_most(capacity))
            assert chosen == padded(expected, len(chosen))
        flat = np.ascontiguousarray((weights * scale).ravel())
        ragged = np.full_like(picks, 99)
        offsets = np.arange(7, dtype=np.int64) * m
        greedy.top_ragged(flat, offsets, capacity, ragged)
        assert (ragged == picks).all()


@settings(max_examples=120, deadline=None)
@given(st.lists(st.lists(weight, min_size=1, max_size=9), min_size=1, max_size=5))
def test_best_ragged(batch):
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in batch])]).astype(np.int64)
    picks = np.full((len(batch), 1), 99, np.int32)
    best.best_ragged(np.array([w for one in batch for w in one]), offsets, picks)
    assert picks[:, 0].tolist() == [slow.best(one) for one in batch]


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32])
@pytest.mark.parametrize("m", [1, 3, 4, 9, 130])
def test_best_dense_and_its_rules(m, dtype):
    random = np.random.default_rng(m)
    weights = random.integers(-3, 4, (300, m)).astype(float)
    for n_rules in (0, 1, 63, 64, 70):
        scales = random.integers(-1, 3, (n_rules, m)).astype(float)
        many = np.full((n_rules, len(weights)), 99, dtype)
        best.best_dense_rules(weights, scales, many)
        for scale, decisions in zip(scales, many, strict=True):
            one = np.full((len(weights), 1), 99, np.int32)
            best.best_dense(weights, scale, one)
            assert (one[:, 0] == (weights * scale).argmax(axis=1)).all()
            assert (decisions == one[:, 0]).all()
    part = np.zeros((70, 5), dtype)
    best.best_dense_rules(weights[130:135], scales, part)
    assert (part == many[:, 130:135]).all()


def test_a_large_matching_is_maximal():
    random = np.random.default_rng(8)
    m, nodes = 30_000, 10_000
    weights = random.normal(size=m)
    u, v = random.integers(0, nodes, (2, m)).astype(np.int32)
    picks = np.full((1, nodes // 2), 99, np.int32)
    offsets = np.array([0, m], np.int64)
    greedy.greedy_matching_ragged(weights, offsets, u, v, np.array([nodes], np.int64), picks)
    used: set[int] = set()
    expected = []
    for j in np.argsort(-weights, kind="stable"):
        ends = {int(u[j]), int(v[j])}
        if weights[j] > 0 and len(ends) == 2 and not ends & used:
            used |= ends
            expected.append(int(j))
    assert picks[0].tolist() == padded(sorted(expected), picks.shape[1])
