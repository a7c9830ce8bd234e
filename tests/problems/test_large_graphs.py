"""Matchings of large sparse graphs, through a library."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest

import outrule
from outrule import DataError
from outrule.problems import large_graphs


def random_graphs(seed, n_edges=30, n_nodes=12, n=8):
    generator = np.random.default_rng(seed)
    edges = generator.integers(0, n_nodes, (3 * n_edges, 2))
    edges = edges[edges[:, 0] != edges[:, 1]][:n_edges]  # with parallel edges
    return edges.tolist(), generator.integers(-2, 6, (n, n_edges)) / 4


@pytest.mark.parametrize("seed", range(4))
def test_the_library_is_worth_as_much_as_our_own_solvers(seed, monkeypatch):
    edges, weights = random_graphs(seed)
    ours = outrule.Matching(edges).solve(weights)
    monkeypatch.setattr(large_graphs, "LARGEST_DENSE", 1)
    theirs = outrule.Matching(edges).solve(weights)
    np.testing.assert_allclose((theirs * weights).sum(axis=1), (ours * weights).sum(axis=1))
    assert not (theirs & (weights <= 0)).any()
    for marks in theirs:
        ends = np.asarray(edges)[marks].ravel().tolist()
        assert len(ends) == len(set(ends))


def test_small_graphs_beside_large_ones_are_matched_as_ever(monkeypatch):
    import polars as pl

    generator = np.random.default_rng(0)
    rows = [(i, a, b, w) for i, m in enumerate((3, 9, 4)) for a, b, w in _complete(m, generator)]
    frame = pl.DataFrame(rows, schema=["graph", "a", "b", "score"], orient="row")
    data = outrule.Instances.from_table(frame, instance="graph", prediction="score")
    problem = outrule.Matching.between("a", "b")
    ours = problem.solve(data)
    monkeypatch.setattr(large_graphs, "LARGEST_DENSE", 5)
    assert problem.solve(data).to_list() == ours.to_list()


def _complete(m, generator):
    return [(a, b, float(generator.random())) for a in range(m) for b in range(a + 1, m)]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("bipartite", [False, True])
def test_k_of_a_large_graph_is_a_bound_that_is_exact_for_bipartite_ones(
    seed, bipartite, monkeypatch
):
    edges, _ = random_graphs(seed, n_edges=14, n_nodes=14)
    if bipartite:
        edges = [(2 * (u // 2), 2 * (v // 2) + 1) for u, v in edges]
    data = outrule.Instances.from_arrays(np.ones((1, 14)))
    exact = outrule.Matching(edges).lay(data).k
    monkeypatch.setattr(large_graphs, "LARGEST_DENSE", 1)
    for problem in (outrule.Matching(edges), outrule.GreedyMatching(edges)):
        bound, half = problem.lay(data).k, problem.n_nodes // 2
        assert bound == exact if bipartite else exact <= bound <= half
    star = [(0, leaf) for leaf in range(1, 15)]
    assert outrule.Matching(star).lay(data).k == 1


def test_a_large_sparse_graph_is_matched_better_than_greedily():
    generator = np.random.default_rng(1)
    edges = generator.integers(0, 1500, (4000, 2))
    edges = edges[edges[:, 0] != edges[:, 1]]
    weights = generator.random((1, len(edges)))
    exact = (outrule.Matching(edges).solve(weights) * weights).sum()
    greedy = (outrule.GreedyMatching(edges).solve(weights) * weights).sum()
    assert exact / 2 <= greedy < exact


def test_without_the_library_the_way_to_it_is_told(monkeypatch):
    edges, weights = random_graphs(0)
    monkeypatch.setattr(large_graphs, "LARGEST_DENSE", 1)
    monkeypatch.setitem(sys.modules, "rustworkx", None)
    with pytest.raises(DataError, match=re.escape("pip install 'outrule[sparse]', or use")):
        outrule.Matching(edges).solve(weights)
