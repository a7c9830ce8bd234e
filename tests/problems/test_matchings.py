"""Matchings and assignments from edges, columns and sizes, against all subsets."""

import re

import brute_force
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

import outrule
from outrule import ArgumentError, DataError, Instances

LEVELS = st.integers(-2, 6)
PAIRS = st.tuples(st.integers(0, 5), st.integers(0, 5)).filter(lambda pair: pair[0] != pair[1])


def graph(draw, min_edges=1):
    edges = draw(st.lists(PAIRS, min_size=min_edges, max_size=8))
    weights = draw(st.lists(LEVELS, min_size=len(edges), max_size=len(edges)))
    return edges, np.array(weights, dtype=float)


@settings(max_examples=80)
@given(st.data())
def test_matchings_of_any_small_graph_are_exact(data):
    edges, weights = graph(data.draw)
    problem = outrule.Matching(edges)
    chosen = problem.solve([weights])[0]
    test = brute_force.matching(edges)
    assert test(tuple(np.flatnonzero(chosen)))
    sets = brute_force.feasible_sets(len(edges), test)
    assert weights @ chosen == brute_force.best_values([weights], sets)[0]
    assert not (chosen & (weights <= 0)).any()
    assert problem.lay(Instances.from_weights([weights], None)).k == sets.sum(axis=1).max()


@settings(max_examples=80)
@given(st.data())
def test_greedy_matchings_are_feasible_and_worth_half_of_the_best(data):
    edges, weights = graph(data.draw)
    problem = outrule.GreedyMatching(edges)
    chosen = problem.solve([weights])[0]
    test = brute_force.matching(edges)
    assert test(tuple(np.flatnonzero(chosen)))
    sets = brute_force.feasible_sets(len(edges), test)
    assert 2 * (weights @ chosen) >= brute_force.best_values([weights], sets)[0]
    assert problem.lay(Instances.from_weights([weights], None)).k == sets.sum(axis=1).max()
    assert not (chosen & (weights <= 0)).any()
    np.testing.assert_array_equal(problem.solve([weights, weights])[1], chosen)


def test_greedy_matching_takes_the_heaviest_edge_first():
    path = [(0, 1), (1, 2), (2, 3)]
    chosen = outrule.GreedyMatching(path).solve([[0.5, 0.6, 0.5], [0.5, 0.5, 0.5]])
    np.testing.assert_array_equal(chosen, [[False, True, False], [True, False, True]])
    assert outrule.GreedyMatching(path).ratio == 0.5


def test_greedy_matching_agrees_with_brute_force_on_what_is_feasible():
    problem = outrule.GreedyMatching.complete(4)
    marks = brute_force.all_rows((0, 1), 6).astype(bool)
    layout = problem.lay(Instances.from_weights(np.ones(marks.shape), None))
    edges = [(i, j) for i in range(4) for j in range(i + 1, 4)]
    expected = [brute_force.matching(edges)(tuple(np.flatnonzero(row))) for row in marks]
    np.testing.assert_array_equal(problem.feasible(marks.ravel(), layout), expected)
    assert layout.k == 2


STAR = [(0, leaf) if leaf % 2 else (leaf, 0) for leaf in range(1, 17)]


@pytest.mark.parametrize("problem", [outrule.Matching, outrule.GreedyMatching])
def test_k_of_a_star_is_one(problem):
    weights = np.random.default_rng(0).random((5, 16))
    star = problem(STAR)
    assert star.lay(Instances.from_weights(weights, None)).k == 1
    np.testing.assert_array_equal(star.solve(weights).argmax(axis=1), weights.argmax(axis=1))
    mask = weights > 0.3
    assert star.lay(Instances.from_weights(weights, mask)).k == 1
    np.testing.assert_array_equal(star.solve(weights, mask).sum(axis=1), mask.any(axis=1))


@pytest.mark.parametrize("problem", [outrule.Matching, outrule.GreedyMatching])
def test_k_of_two_triangles_is_two_though_they_have_six_nodes(problem):
    triangles = [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)]
    assert problem(triangles).lay(Instances.from_weights(np.ones((1, 6)), None)).k == 2


@pytest.mark.parametrize("problem", [outrule.Matching, outrule.GreedyMatching])
def test_k_of_a_table_is_bounded_by_its_nodes_and_by_the_values_of_each_column(problem):
    rows = [(0, "x", f"n{i}") for i in range(6)]  # a star
    rows += [(1, f"r{i}", f"d{j}") for i in range(2) for j in range(5)]  # two riders, five drivers
    rows += [(2, f"n{i}", f"n{j}") for i in range(4) for j in range(i)]  # four nodes, two pairs
    frame = pl.DataFrame(rows, schema=["trip", "one", "two"], orient="row")
    for trips, k in (([0], 1), ([1], 2), ([2], 2), ([0, 1, 2], 2)):
        part = frame.filter(pl.col("trip").is_in(trips)).with_columns(p=0.5)
        data = Instances.from_table(part, instance="trip", prediction="p")
        for columns in (("one", "two"), ("two", "one")):
            layout = problem.between(*columns).lay(data)
            assert layout.k == k
            assert problem.between(*columns).pick(data.prediction, layout).shape == (len(trips), k)


@pytest.mark.parametrize("problem", [outrule.Matching, outrule.GreedyMatching])
def test_k_of_a_table_is_its_largest_matching_where_nodes_and_values_say_too_little(problem):
    star = [(0, *pair) for pair in STAR]  # its centre is in both columns
    triangles = [(1, a, b) for a, b in [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)]]
    for rows, k in ((star, 1), (triangles, 2), (star + triangles, 2)):
        frame = pl.DataFrame(rows, schema=["trip", "one", "two"], orient="row")
        data = Instances.from_table(frame.with_columns(p=0.5), instance="trip", prediction="p")
        assert problem.between("one", "two").lay(data).k == k


@pytest.mark.parametrize("problem", [outrule.Matching, outrule.GreedyMatching])
def test_k_counts_only_the_edges_on_offer(problem):
    offers = np.zeros((40, 6), dtype=bool)
    offers[:, [0, 1]] = True  # the edges (0, 1) and (0, 2) of four nodes
    data = Instances.from_weights(np.ones((40, 6)), offers)
    assert problem.complete(4).lay(data).k == 1
    offers[39, 5] = True  # and (2, 3)
    assert problem.complete(4).lay(Instances.from_weights(np.ones((40, 6)), offers)).k == 2


def test_k_of_an_assignment_with_missing_pairs_is_its_largest_matching():
    offers = np.zeros((100, 9), dtype=bool)
    offers[:, [0, 1, 2, 3, 6]] = True  # the first row and the first column
    data = Instances.from_weights(np.ones((100, 9)), offers)
    assert outrule.Assignment(3, 3).lay(data).k == 2
    assert outrule.Assignment(3, 3).lay(Instances.from_weights(np.ones((100, 9)))).k == 3
    rows = [(trip, r, c) for trip in range(5) for r in range(3) for c in range(4) if not r * c]
    frame = pl.DataFrame(rows, schema=["trip", "r", "c"], orient="row").with_columns(p=0.5)
    table = Instances.from_table(frame, instance="trip", prediction="p")
    assert outrule.Assignment("r", "c").lay(table).k == 2


def test_the_step_of_a_star_is_that_of_one_item():
    predictions = np.random.default_rng(0).random((50, 16))
    settings = {"step": outrule.FixedStep(), "start": None, "rivals": ()}
    for problem in (outrule.Matching(STAR), outrule.BestAction()):
        calibrator = outrule.DecisionCalibrator(
            problem, [outrule.Multiplier(np.ones(16), name="same")], 0.4, **settings
        ).fit(predictions, predictions / 2)
        assert calibrator.k_ == 1
        assert {abs(patch.step) for patch in calibrator.patches_} == {0.1}


@st.composite
def edge_table(draw):
    """Instances with edges of their own between nodes with names, parallel ones too."""
    rows = []
    for name in draw(st.lists(st.sampled_from("pqrs"), min_size=1, max_size=3, unique=True)):
        edges, weights = graph(draw)
        rows += [
            (name, f"n{u}", f"n{v}", w / 8 + 0.25) for (u, v), w in zip(edges, weights, strict=True)
        ]
    order = draw(st.permutations(range(len(rows))))
    frame = pl.DataFrame(
        [rows[i] for i in order], schema=["trip", "one", "two", "score"], orient="row"
    )
    return frame.with_columns(pl.col("score") * draw(st.sampled_from([0.0, 0.5, 1.0])))


@settings(max_examples=60)
@given(edge_table())
def test_matchings_of_a_table_are_exact_in_every_instance(frame):
    data = Instances.from_table(frame, instance="trip", prediction="score")
    problem = outrule.Matching.between("one", "two")
    answer = frame.with_columns(chosen=problem.solve(data))
    for part in answer.partition_by("trip"):
        edges = list(part.select("one", "two").iter_rows())
        test = brute_force.matching(edges)
        chosen, weights = part["chosen"].to_numpy(), part["score"].to_numpy()
        assert test(tuple(np.flatnonzero(chosen)))
        best = brute_force.best_values([weights], brute_force.feasible_sets(len(edges), test))[0]
        assert weights @ chosen == best
        alone = Instances.from_table(part, instance="trip", prediction="score")
        assert problem.solve(alone).to_list() == part["chosen"].to_list()
        assert problem.lay(alone).k >= brute_force.feasible_sets(len(edges), test).sum(axis=1).max()


@settings(max_examples=60)
@given(edge_table())
def test_assignments_of_a_table_are_exact_in_every_instance(frame):
    data = Instances.from_table(frame, instance="trip", prediction="score")
    problem = outrule.Assignment("one", "two")
    answer = frame.with_columns(chosen=problem.solve(data))
    for part in answer.partition_by("trip"):
        edges = [("r" + u, "c" + v) for u, v in part.select("one", "two").iter_rows()]
        test = brute_force.matching(edges)
        chosen, weights = part["chosen"].to_numpy(), part["score"].to_numpy()
        assert test(tuple(np.flatnonzero(chosen)))
        best = brute_force.best_values([weights], brute_force.feasible_sets(len(edges), test))[0]
        assert weights @ chosen == best
        alone = Instances.from_table(part, instance="trip", prediction="score")
        assert problem.solve(alone).to_list() == part["chosen"].to_list()


RIDES = {
    "trip": ["a", "a", "a", "a", "b", "b"],
    "rider": [1, 1, 2, 2, 9, 9],
    "driver": ["x", "y", "x", "y", "x", "x"],
    "p": [0.9, 0.8, 0.7, 0.1, 0.2, 0.4],
}


@pytest.mark.parametrize("make", [pl.DataFrame, pd.DataFrame])
def test_riders_and_drivers_of_two_types_are_paired(make):
    data = Instances.from_table(make(RIDES), instance="trip", prediction="p")
    problem = outrule.Assignment("rider", "driver")
    assert list(problem.solve(data)) == [False, True, True, False, False, True]
    layout = problem.lay(data)
    assert layout.k == 2
    assert layout.width is None


def test_of_two_equal_pairs_the_heavier_counts_and_the_first_of_equals():
    frame = pl.DataFrame(
        {"i": [0] * 4, "u": [0, 1, 0, 1], "v": [1, 0, 1, 0], "p": [0.2, 0.5, 0.5, 0.1]}
    )
    data = Instances.from_table(frame, instance="i", prediction="p")
    chosen = outrule.Matching.between("u", "v").solve(data)
    assert chosen.to_list() == [False, True, False, False]


def test_two_columns_of_an_array_may_name_the_nodes():
    one = np.array([["a", "b", "c"], ["a", "a", "a"]])
    two = np.array([["b", "c", "d"], ["b", "c", "d"]])
    weights = np.array([[0.5, 0.6, 0.5], [0.5, 0.6, 0.5]])
    data = Instances.from_arrays(weights, columns={"one": one, "two": two})
    expected = [[True, False, True], [False, True, False]]
    for problem in (outrule.Matching, outrule.GreedyMatching):
        layout = problem.between("one", "two").lay(data)
        assert (layout.k, layout.width) == (2, None)
    np.testing.assert_array_equal(outrule.Matching.between("one", "two").solve(data), expected)
    np.testing.assert_array_equal(
        outrule.Assignment("one", "two").solve(data), [[True, True, True], [False, True, False]]
    )
    forest = outrule.GraphicMatroid.between("one", "two")
    assert forest.solve(data).all()
    assert forest.lay(data).k == 3


@pytest.mark.parametrize("problem", [outrule.Matching, outrule.GraphicMatroid])
def test_an_edge_from_a_node_to_itself_is_refused(problem):
    frame = pl.DataFrame({"i": ["s", "s"], "u": ["a", "b"], "v": ["b", "b"], "p": [0.1, 0.2]})
    data = Instances.from_table(frame, instance="i", prediction="p")
    message = (
        "columns 'u' and 'v' name the same node at instance 's', row 1 of the table. "
        "An edge joins two different nodes."
    )
    with pytest.raises(DataError, match=re.escape(message)):
        problem.between("u", "v").lay(data)


def test_a_node_that_is_null_is_refused():
    frame = pl.DataFrame({"i": [0, 0], "u": ["a", None], "v": ["b", "c"], "p": [0.1, 0.2]})
    data = Instances.from_table(frame, instance="i", prediction="p")
    message = "column 'u' is null at instance 0, row 1 of the table. Every item must have a value"
    for problem in (outrule.Matching.between("u", "v"), outrule.Assignment("u", "v")):
        with pytest.raises(DataError, match=re.escape(message)):
            problem.lay(data)


def test_a_column_of_nodes_that_is_not_there_is_named():
    data = Instances.from_table(pl.DataFrame(RIDES), instance="trip", prediction="p")
    message = "column 'taxi' is missing. The columns are: 'trip', 'rider', 'driver', 'p'."
    for problem in (
        outrule.Matching.between("rider", "taxi"),
        outrule.Assignment("rider", "taxi"),
    ):
        with pytest.raises(DataError, match=re.escape(message)):
            problem.lay(data)


WRONG_EDGES = [[], [(0, 0)], [(0, -1)], [(0, 1, 2)], [0, 1], [(0, 1.5)], [("a", "b")], 3]


@pytest.mark.parametrize("problem", [outrule.Matching, outrule.GreedyMatching])
@pytest.mark.parametrize("edges", [*WRONG_EDGES, [(0, 1), (0,)]])
def test_wrong_edges_are_refused(problem, edges):
    message = (
        f"The 'edges' argument of {problem.__name__} must be a non-empty sequence of pairs of two "
        f"different nodes 0, 1, .... Got {edges!r} instead."
    )
    with pytest.raises(ArgumentError, match=re.escape(message)):
        problem(edges)


def test_a_graph_needs_edges_or_columns():
    with pytest.raises(ArgumentError, match="'edges' argument of Matching must be pairs of nodes"):
        outrule.Matching(None)


@pytest.mark.parametrize("n_nodes", [1, 0, -3, 2.5, "4"])
def test_a_complete_graph_has_two_nodes_or_more(n_nodes):
    message = (
        f"The 'n_nodes' argument of Matching must be an int of at least 2. Got {n_nodes!r} instead."
    )
    with pytest.raises(ArgumentError, match=re.escape(message)):
        outrule.Matching.complete(n_nodes)


@pytest.mark.parametrize(
    ("rows", "columns", "name"),
    [
        (0, 2, "rows"),
        (2, 0, "columns"),
        (1.5, 2, "rows"),
        ("rider", 2, "rows"),
        (2, "x", "columns"),
    ],
)
def test_wrong_sides_of_an_assignment_are_refused(rows, columns, name):
    message = f"The {name!r} argument of Assignment must be an int of at least 1."
    with pytest.raises(ArgumentError, match=re.escape(message)):
        outrule.Assignment(rows, columns)


def test_graphs_say_briefly_what_they_are():
    assert repr(outrule.Matching.complete(10)) == "Matching(<45 edges on 10 nodes>)"
    assert repr(outrule.Matching.between("u", "v")) == "Matching.between('u', 'v')"
    assert outrule.Matching.complete(3) == outrule.Matching([(0, 1), (0, 2), (1, 2)])
    assert outrule.Matching.complete(3) != outrule.GreedyMatching.complete(3)


@pytest.mark.parametrize("n_nodes", [7, 20])
def test_large_and_odd_graphs_are_decided_alike_dense_and_ragged(n_nodes):
    problem = outrule.Matching.complete(n_nodes)
    m = n_nodes * (n_nodes - 1) // 2
    weights = np.random.default_rng(n_nodes).integers(0, 4, size=(6, m)).astype(float)
    mask = np.ones(weights.shape, dtype=bool)
    mask[-1, ::2] = False
    np.testing.assert_array_equal(problem.solve(weights, mask)[:-1], problem.solve(weights)[:-1])
    np.testing.assert_array_equal(problem.solve(weights[2:3]), problem.solve(weights)[2:3])


@pytest.mark.parametrize(
    "shape",
    [
        (5, 5),
        (7, 5),
        (12, 14),
    ],
)
def test_large_assignments_are_decided_alike_dense_and_ragged(shape):
    problem = outrule.Assignment(*shape)
    weights = np.random.default_rng(0).integers(0, 4, size=(6, shape[0] * shape[1])).astype(float)
    mask = np.ones(weights.shape, dtype=bool)
    mask[-1, ::2] = False
    np.testing.assert_array_equal(problem.solve(weights, mask)[:-1], problem.solve(weights)[:-1])
    np.testing.assert_array_equal(problem.solve(weights[2:3]), problem.solve(weights)[2:3])


def test_a_product_of_weights_that_overflows_is_the_largest_float():
    """A rule can multiply predictions of 1e100 by 1e300, and what it decides must be feasible."""
    n = 14
    frame = pl.DataFrame(
        {
            "batch": [0] * n * n,
            "row": np.repeat(np.arange(n), n),
            "column": np.tile(np.arange(n), n),
            "pair": np.arange(n * n),
            "score": np.full(n * n, 1e100),
        }
    )
    data = outrule.Instances.from_table(
        frame, instance="batch", item="pair", prediction="score", value_range=(0, 1e100)
    )
    rule = outrule.Multiplier(dict.fromkeys(range(n * n), 1e300), name="huge")
    for problem in (
        outrule.Assignment("row", "column"),
        outrule.Matching.between("row", "column"),
    ):
        some = data
        if isinstance(problem, outrule.Matching):
            ends = frame.filter(pl.col("row") < pl.col("column"))
            some = outrule.Instances.from_table(
                ends, instance="batch", item="pair", prediction="score", value_range=(0, 1e100)
            )
        layout = problem.lay(some)
        picks = rule.decide(some, problem, layout)
        assert (picks >= 0).sum() == (n if isinstance(problem, outrule.Assignment) else n // 2)
        assert problem.feasible(some.mark(picks), layout).all()
