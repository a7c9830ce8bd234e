import itertools
from concurrent.futures import ThreadPoolExecutor

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from slow_matching import best_value, complete, picks_value

from outrule.kernels import matching
from outrule.kernels.matching import match_dense, match_ragged
from outrule.kernels.matching_dp import subset_plan


@pytest.fixture(params=["subset", "blossom"])
def method(request, monkeypatch):
    """Force one method whatever the size of the graph."""
    monkeypatch.setattr(
        matching, "LARGEST_SUBSET_PLAN", {"subset": 20, "blossom": 0}[request.param]
    )
    return request.param


def dense(weights, u, v, n_nodes, scale=None):
    weights = np.ascontiguousarray(weights, dtype=np.float64)
    picks = np.full((len(weights), n_nodes // 2), 99, dtype=np.int32)
    scale = np.ones(weights.shape[1]) if scale is None else scale
    match_dense(weights, scale, np.asarray(u, np.int32), np.asarray(v, np.int32), n_nodes, picks)
    return picks


def ragged(graphs, width=None):
    """graphs: a list of (weights, u, v, n_nodes)."""
    offsets = np.cumsum([0, *(len(g[0]) for g in graphs)])
    n_nodes = np.array([g[3] for g in graphs], dtype=np.int64)
    weights = np.concatenate([np.empty(0), *(g[0] for g in graphs)])
    u, v = (np.concatenate([[], *(g[k] for g in graphs)]).astype(np.int32) for k in (1, 2))
    picks = np.full((len(graphs), width or max(n_nodes) // 2), 99, dtype=np.int32)
    match_ragged(weights, offsets.astype(np.int64), u, v, n_nodes, picks)
    return picks


@pytest.mark.usefixtures("method")
@pytest.mark.parametrize("n_nodes", [2, 3, 4])
def test_every_small_graph(n_nodes):
    u, v = complete(n_nodes)
    weights = np.array(list(itertools.product([-1, 0, 1, 2, 3], repeat=len(u))), dtype=float)
    weights = weights[:: 1 + len(weights) // 4000]
    picks = dense(weights, u, v, n_nodes)
    for row, chosen in zip(weights, picks, strict=True):
        assert picks_value(chosen, row, u, v) == best_value(row, u.tolist(), v.tolist(), n_nodes)


@pytest.mark.usefixtures("method")
def test_sampled_graphs_of_five_and_six():
    rng = np.random.default_rng(5)
    for n_nodes in (5, 6):
        u, v = complete(n_nodes)
        weights = rng.integers(-1, 4, (1500, len(u))).astype(float)
        picks = dense(weights, u, v, n_nodes)
        for row, chosen in zip(weights, picks, strict=True):
            assert picks_value(chosen, row, u, v) == best_value(
                row.tolist(), u.tolist(), v.tolist(), n_nodes
            )


@st.composite
def graphs(draw):
    n_nodes = draw(st.integers(0, 8))
    node = st.integers(0, max(0, n_nodes - 1))
    size = st.integers(0, 20) if n_nodes else st.just(0)
    m = draw(size)
    kind = draw(st.sampled_from(["integers", "floats", "huge", "tiny"]))
    weight = {
        "integers": st.integers(-2, 4).map(float),
        "floats": st.floats(-10, 10),
        "huge": st.floats(-1.7e308, 1.7e308),
        "tiny": st.floats(-1e-300, 1e-300),
    }[kind]
    weights = draw(st.lists(weight, min_size=m, max_size=m))
    ends = draw(st.lists(st.tuples(node, node), min_size=m, max_size=m))
    u, v = ([e[k] for e in ends] for k in (0, 1))
    return np.array(weights, dtype=float), u, v, n_nodes


@pytest.mark.parametrize("largest_subset", [18, 0])
@settings(deadline=None, max_examples=60)
@given(batch=st.lists(graphs(), min_size=1, max_size=20))
def test_brute_force(largest_subset, batch):
    """Loops, parallel edges, missing edges, odd and tiny graphs, extreme weights."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "LARGEST_SUBSET_PLAN", largest_subset)
        for graph, picks in zip(batch, ragged(batch, width=4), strict=True):
            weights, u, v, n_nodes = graph
            picks_value(picks, weights, u, v)  # may overflow, but checks the format
            unit = 2.0**-8 if np.abs(weights).max(initial=0) > 1e300 else 1.0
            value = sum(weights[k] * unit for k in picks if k >= 0)
            best = best_value(weights * unit, u, v, n_nodes)
            assert value == pytest.approx(best, rel=1e-12, abs=0)
            # An instance alone, and with its graph shared, is decided alike.
            alone = ragged([graph], width=4)[0]
            assert alone.tolist() == picks.tolist()
            shared = dense(np.stack([weights[::-1], weights]), u, v, n_nodes)[1]
            assert shared.tolist() == picks[: n_nodes // 2].tolist()


@pytest.mark.parametrize("n_nodes", [9, 14, 20, 29, 40])
def test_against_networkx(n_nodes):
    rng = np.random.default_rng(n_nodes)
    for density, top in ((1.0, 1000), (0.5, 8), (0.2, 3)):
        u, v = complete(n_nodes)
        keep = rng.random(len(u)) < density
        u, v = u[keep], v[keep]
        weights = rng.integers(-1, top, (4, len(u))).astype(float)
        for row, chosen in zip(weights, dense(weights, u, v, n_nodes), strict=True):
            graph = nx.Graph()
            graph.add_nodes_from(range(n_nodes))
            edges = zip(u.tolist(), v.tolist(), row.astype(int).tolist(), strict=True)
            graph.add_weighted_edges_from(edges)
            judge = nx.max_weight_matching(graph)
            expected = sum(graph.edges[pair]["weight"] for pair in judge)
            assert picks_value(chosen, row, u, v) == expected


@pytest.mark.parametrize("n_nodes", [10, 13, 16, 20])
def test_both_methods_agree(n_nodes, monkeypatch):
    rng = np.random.default_rng(n_nodes)
    u, v = complete(n_nodes)
    for draw in (rng.random, lambda shape: rng.integers(0, 4, shape).astype(float)):
        weights = draw((200, len(u)))
        values = []
        for limit in (20, 0):
            monkeypatch.setattr(matching, "LARGEST_SUBSET_PLAN", limit)
            picks = dense(weights, u, v, n_nodes)
            pairs = zip(picks, weights, strict=True)
            values.append([row[chosen[chosen >= 0]].sum() for chosen, row in pairs])
        np.testing.assert_allclose(*values, rtol=1e-13)


@pytest.mark.usefixtures("method")
def test_batch_independence():
    """Alone, in any lane, in any chunk and in any company an instance gets the same picks."""
    rng = np.random.default_rng(3)
    n_nodes = 10
    u, v = complete(n_nodes)
    weights = rng.integers(0, 3, (75, len(u))).astype(float)
    picks = dense(weights, u, v, n_nodes)
    for begin, end in ((0, 1), (1, 18), (16, 49), (74, 75), (3, 70)):
        np.testing.assert_array_equal(dense(weights[begin:end], u, v, n_nodes), picks[begin:end])
    graphs = [(row, u, v, n_nodes) for row in weights]
    np.testing.assert_array_equal(ragged(graphs), picks)
    strangers = [(rng.random(3), [0, 1, 2], [1, 2, 0], 3) for _ in weights]
    mixed = [g for pair in zip(strangers, graphs, strict=True) for g in pair]
    np.testing.assert_array_equal(ragged(mixed)[1::2], picks)


def test_ragged_across_the_threshold():
    rng = np.random.default_rng(4)
    graphs = []
    for n_nodes in (30, 2, 17, 18, 19, 20, 1, 0, 7, 33, 19):
        u, v = complete(n_nodes)
        order = rng.permutation(len(u))
        graphs.append((rng.random(len(u)), v[order], u[order], n_nodes))
    for (weights, u, v, n_nodes), picks in zip(graphs, ragged(graphs), strict=True):
        np.testing.assert_array_equal(picks[: n_nodes // 2], dense(weights[None], u, v, n_nodes)[0])
        assert (picks[n_nodes // 2 :] == -1).all()


@pytest.mark.usefixtures("method")
def test_scale_is_fused():
    rng = np.random.default_rng(6)
    n_nodes = 9
    u, v = complete(n_nodes)
    weights, scale = rng.normal(size=(40, len(u))), rng.uniform(-1, 2, len(u))
    np.testing.assert_array_equal(
        dense(weights, u, v, n_nodes, scale), dense(weights * scale, u, v, n_nodes)
    )


@pytest.mark.usefixtures("method")
def test_nothing_to_choose():
    u, v = complete(6)
    assert (dense(np.zeros((3, len(u))), u, v, 6) == -1).all()
    assert (dense(-np.ones((3, len(u))), u, v, 6) == -1).all()
    assert (dense(np.empty((3, 0)), [], [], 6) == -1).all()
    assert dense(np.empty((0, len(u))), u, v, 6).shape == (0, 3)
    assert dense(np.ones((2, 1)), [0], [0], 1).shape == (2, 0)
    assert (dense(np.ones((2, 1)), [3], [3], 6) == -1).all()


@pytest.mark.usefixtures("method")
def test_parallel_edges_in_a_shared_graph():
    u, v = [0, 1, 2, 0, 1, 3], [1, 0, 3, 1, 1, 2]
    weights = [[1, 2, 5, 2, 9, 5], [3, 3, 0, 3, 9, 1], [-1, -2, 1, 0, 9, 2]]
    assert dense(weights, u, v, 4).tolist() == [[1, 2], [0, 5], [5, -1]]


@pytest.mark.parametrize("n_nodes", [10, 22])
def test_threads_do_not_disturb_each_other(n_nodes):
    rng = np.random.default_rng(8)
    u, v = complete(n_nodes)
    weights = rng.random((400, len(u)))
    expected = dense(weights, u, v, n_nodes)
    with ThreadPoolExecutor(4) as pool:
        parts = pool.map(lambda part: dense(part, u, v, n_nodes), np.array_split(weights, 16))
        np.testing.assert_array_equal(np.concatenate(list(parts)), expected)


def test_read_only_inputs_do_not_compile_again():
    u, v = complete(4)
    weights = np.ones((2, len(u)))
    dense(weights, u, v, 4)
    compiled = len(matching.subset_dense.signatures)
    for array in (weights, u, v):
        array.flags.writeable = False
    dense(weights, u, v, 4)
    assert len(matching.subset_dense.signatures) == compiled


def test_plan_sizes_are_fibonacci():
    for n_nodes, n_sets in ((2, 0), (4, 1), (6, 6), (10, 73), (20, 10890)):
        plan = subset_plan(n_nodes)
        assert plan.n_rows - n_nodes * (n_nodes - 1) // 2 == n_sets
        assert plan.pair_rows.size == plan.rest_rows.size
