"""Matroids: the greedy algorithm against all subsets, and what they refuse."""

import re
from datetime import date
from itertools import permutations

import brute_force
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

import outrule
from outrule import ArgumentError, DataError, Instances

LEVELS = st.integers(-2, 6)


def check(problem, weights, test):
    """The decision for one row of weights is feasible and of the best value."""
    m = len(weights)
    chosen = problem.solve([weights])[0]
    assert test(tuple(np.flatnonzero(chosen)))
    sets = brute_force.feasible_sets(m, test)
    assert float(np.dot(weights, chosen)) == brute_force.best_values([weights], sets)[0]
    assert not (chosen & (np.array(weights) <= 0)).any()
    k = problem.lay(Instances.from_weights([weights], None)).k
    assert k == max(1, sets.sum(axis=1).max())


@settings(max_examples=60)
@given(st.data())
def test_partition_matroids_are_solved_exactly(data):
    m = data.draw(st.integers(1, 6))
    groups = data.draw(st.lists(st.integers(0, 3), min_size=m, max_size=m))
    capacity = {group: data.draw(st.integers(0, 3)) for group in range(4)}
    weights = data.draw(st.lists(LEVELS, min_size=m, max_size=m))
    problem = outrule.PartitionMatroid(groups, capacity)
    check(problem, weights, brute_force.within_groups(groups, capacity))


@settings(max_examples=60)
@given(st.data())
def test_graphic_matroids_are_solved_exactly(data):
    pairs = st.tuples(st.integers(0, 4), st.integers(0, 4)).filter(lambda pair: pair[0] != pair[1])
    edges = data.draw(st.lists(pairs, min_size=1, max_size=7))
    weights = data.draw(st.lists(LEVELS, min_size=len(edges), max_size=len(edges)))
    check(outrule.GraphicMatroid(edges), weights, brute_force.forest(edges))


@st.composite
def laminar_family(draw):
    """A random tree over the items: split a set, keep some of the parts."""
    m = draw(st.integers(1, 6))
    sets, open_sets = [], [list(range(m))]
    while open_sets:
        members = open_sets.pop()
        if draw(st.booleans()):
            sets.append(members)
        if len(members) > 1:
            cut = draw(st.integers(1, len(members) - 1))
            open_sets += [members[:cut], members[cut:]]
    sets = sets or [list(range(m))]
    if draw(st.booleans()):
        sets.append(sets[0])  # the same set twice is nested too
    order = draw(st.permutations(range(m)))
    return m, draw(st.permutations([[order[item] for item in members] for members in sets]))


@settings(max_examples=60)
@given(laminar_family(), st.data())
def test_laminar_matroids_are_solved_exactly(family, data):
    m, sets = family
    capacity = data.draw(st.lists(st.integers(0, 3), min_size=len(sets), max_size=len(sets)))
    weights = data.draw(st.lists(LEVELS, min_size=m, max_size=m))
    problem = outrule.LaminarMatroid(m, sets, capacity)
    check(problem, weights, brute_force.within_sets(sets, capacity))


@settings(max_examples=60)
@given(st.data())
def test_transversal_matroids_are_solved_exactly(data):
    m = data.draw(st.integers(1, 6))
    members = st.lists(st.integers(0, m - 1), min_size=1, max_size=4)
    sets = data.draw(st.lists(members, min_size=1, max_size=4))
    weights = data.draw(st.lists(LEVELS, min_size=m, max_size=m))
    check(outrule.TransversalMatroid(m, sets), weights, brute_force.transversal(sets))


@settings(max_examples=60)
@given(st.data())
def test_linear_matroids_are_solved_exactly(data):
    m, d = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
    row = st.lists(st.integers(-2, 2), min_size=d, max_size=d)
    vectors = data.draw(st.lists(row, min_size=m, max_size=m))
    weights = data.draw(st.lists(LEVELS, min_size=m, max_size=m))
    check(outrule.LinearMatroid(vectors), weights, brute_force.independent_vectors(vectors))


def test_a_linear_matroid_does_not_mind_the_length_of_its_vectors():
    vectors = np.array([[1e-20, 0.0], [1e20, 1e20], [3e-20, 3e-20]])
    chosen = outrule.LinearMatroid(vectors).solve([[0.3, 0.2, 0.1]])
    np.testing.assert_array_equal(chosen, [[True, True, False]])


GROUPED = {
    "day": ["a", "a", "a", "b", "b", "c", "a"],
    "ad": [0, 1, 2, 0, 1, 5, 3],
    "shop": ["x", "x", "y", "y", "y", "z", "y"],
    "p": [0.2, 0.5, 0.4, 0.3, 0.3, 0.0, 0.9],
}
BY_SHOP = [False, True, False, True, False, False, True]


@pytest.mark.parametrize("frame", [pl.DataFrame(GROUPED), pd.DataFrame(GROUPED)])
def test_a_column_of_a_table_may_name_the_groups(frame):
    data = Instances.from_table(frame, instance="day", prediction="p", item="ad")
    problem = outrule.PartitionMatroid("shop")
    assert list(problem.solve(data)) == BY_SHOP
    assert problem.lay(data).k == 2


def test_every_group_of_a_table_may_have_its_own_capacity():
    data = Instances.from_table(pl.DataFrame(GROUPED), instance="day", prediction="p", item="ad")
    problem = outrule.PartitionMatroid("shop", {"x": 2, "y": 2, "z": 0})
    assert problem.solve(data).to_list() == [True, True, True, True, True, False, True]
    assert problem.lay(data).k == 4
    message = (
        "PartitionMatroid has no capacity for group 'z'. "
        "Give every group a capacity, or one capacity for all."
    )
    with pytest.raises(DataError, match=re.escape(message)):
        outrule.PartitionMatroid("shop", {"x": 2, "y": 2}).lay(data)


def test_a_column_of_an_array_may_name_the_groups_of_each_instance():
    groups = np.array([[0, 0, 0], [0, 1, 2], [1, 1, 0]])
    weights = np.array([[0.1, 0.2, 0.3], [0.1, 0.2, 0.3], [0.1, 0.2, 0.3]])
    data = Instances.from_arrays(weights, columns={"group": groups})
    problem = outrule.PartitionMatroid("group")
    expected = [[False, False, True], [True, True, True], [False, True, True]]
    np.testing.assert_array_equal(problem.solve(data), expected)
    assert problem.lay(data).k == 3


def test_a_group_that_is_null_is_refused():
    frame = pl.DataFrame(GROUPED).with_columns(shop=pl.Series(["x", "x", None, *"yyzy"]))
    data = Instances.from_table(frame, instance="day", prediction="p")
    message = (
        "column 'shop' is null at instance 'a', row 2 of the table. "
        "Every item must have a value: fill it, or drop the row."
    )
    with pytest.raises(DataError, match=re.escape(message)):
        outrule.PartitionMatroid("shop").lay(data)


@pytest.mark.parametrize(
    "values",
    [
        [1.0, None, 2.0],
        [True, None, False],
        [date(2020, 1, 1), None, date(2020, 1, 2)],
    ],
)
def test_a_null_of_any_type_is_refused_as_a_group(values):
    frame = pl.DataFrame({"i": [0, 0, 0], "p": [0.1, 0.2, 0.3], "g": values})
    data = Instances.from_table(frame, instance="i", prediction="p")
    with pytest.raises(DataError, match="column 'g' is null at instance 0, row 1 of the table"):
        outrule.PartitionMatroid("g").lay(data)


def test_a_group_column_that_is_not_there_is_named():
    data = Instances.from_table(pl.DataFrame(GROUPED), instance="day", prediction="p")
    message = "column 'brand' is missing. The columns are: 'day', 'ad', 'shop', 'p'."
    with pytest.raises(DataError, match=re.escape(message)):
        outrule.PartitionMatroid("brand").lay(data)
    arrays = Instances.from_arrays([[0.5]], columns={"shop": [1]})
    message = "column 'brand' is missing. The columns are: 'shop', 'item'."
    with pytest.raises(DataError, match=re.escape(message)):
        outrule.PartitionMatroid("brand").lay(arrays)


def test_edges_of_a_forest_may_come_from_two_columns():
    frame = pl.DataFrame(
        {
            "net": [1, 1, 1, 2, 2],
            "one": ["a", "b", "c", "a", "b"],
            "two": ["b", "c", "a", "b", "a"],
            "p": [0.5, 0.7, 0.6, 0.1, 0.3],
        }
    )
    data = Instances.from_table(frame, instance="net", prediction="p")
    problem = outrule.GraphicMatroid.between("one", "two")
    assert problem.solve(data).to_list() == [False, True, True, False, True]
    assert problem.lay(data).k == 2


@pytest.mark.parametrize("k", [0, -1, 1.5, True, None, np.nan, "2"])
def test_top_k_of_less_than_one_item_is_refused(k):
    message = f"The 'k' argument of TopK must be an int of at least 1. Got {k!r} instead."
    with pytest.raises(ArgumentError, match=re.escape(message)):
        outrule.TopK(k)


@pytest.mark.parametrize("groups", [[], [-1, 0], [0.5, 1], [[0], [1]], 3, [0, None]])
def test_wrong_groups_are_refused(groups):
    message = (
        "The 'groups' argument of PartitionMatroid must be a non-empty sequence of non-negative "
        f"ints. Got {groups!r} instead."
    )
    with pytest.raises(ArgumentError, match=re.escape(message)):
        outrule.PartitionMatroid(groups)


@pytest.mark.parametrize("capacity", [-1, 0.5, {0: -1}, {0: "one"}])
def test_wrong_capacities_of_groups_are_refused(capacity):
    message = "The 'capacity' argument of PartitionMatroid must be an int of at least 0."
    with pytest.raises(ArgumentError, match=re.escape(message)):
        outrule.PartitionMatroid([0, 0], capacity)


WRONG_SETS = [[], [[]], [[0], []], [[0, 3]], [[-1]], [["a"]], [[0.5]], 3, [0, 1]]


@pytest.mark.parametrize("sets", WRONG_SETS)
def test_wrong_sets_are_refused(sets):
    for problem in (
        lambda: outrule.TransversalMatroid(3, sets),
        lambda: outrule.LaminarMatroid(3, sets, [1]),
    ):
        message = "must be a non-empty sequence of non-empty sets of items 0 to 2."
        with pytest.raises(ArgumentError, match=re.escape(message)):
            problem()


def test_sets_that_cross_are_refused():
    message = (
        "The 'sets' argument of LaminarMatroid must be sets that are pairwise nested or disjoint."
    )
    with pytest.raises(ArgumentError, match=re.escape(message)):
        outrule.LaminarMatroid(3, [[0, 1], [1, 2]], [1, 1])


@pytest.mark.parametrize("capacity", [[1], [1, 1, 1]])
def test_capacities_of_another_number_than_the_sets_are_refused(capacity):
    message = "The 'capacity' argument of LaminarMatroid must be 2 ints, one per set."
    with pytest.raises(ArgumentError, match=re.escape(message)):
        outrule.LaminarMatroid(3, [[0, 1], [2]], capacity)


def test_capacities_below_zero_are_refused():
    with pytest.raises(ArgumentError, match="'capacity' argument of LaminarMatroid must be a non-"):
        outrule.LaminarMatroid(3, [[0, 1], [2]], [1, -1])


@pytest.mark.parametrize("n_items", [0, -1, 1.5])
def test_matroids_without_items_are_refused(n_items):
    for owner, make in (
        ("TransversalMatroid", lambda: outrule.TransversalMatroid(n_items, [[0]])),
        ("LaminarMatroid", lambda: outrule.LaminarMatroid(n_items, [[0]], [1])),
    ):
        message = f"The 'n_items' argument of {owner} must be an int of at least 1."
        with pytest.raises(ArgumentError, match=re.escape(message)):
            make()


@pytest.mark.parametrize("vectors", [[], [1.0, 2.0], [[np.nan]], [["a"]], [[1.0], [1.0, 2.0]]])
def test_wrong_vectors_are_refused(vectors):
    message = "The 'vectors' argument of LinearMatroid must be a finite array of shape (m, d)."
    with pytest.raises(ArgumentError, match=re.escape(message)):
        outrule.LinearMatroid(vectors)


@pytest.mark.parametrize("tolerance", [0.0, 1.0, -1.0, np.nan])
def test_a_wrong_tolerance_is_refused(tolerance):
    message = "The 'tolerance' argument of LinearMatroid must be a float in (0, 1)."
    with pytest.raises(ArgumentError, match=re.escape(message)):
        outrule.LinearMatroid([[1.0]], tolerance)


def test_the_vectors_of_a_matroid_are_its_own():
    vectors = np.eye(2)
    problem = outrule.LinearMatroid(vectors)
    vectors[1] = vectors[0]
    np.testing.assert_array_equal(problem.solve([[0.1, 0.2]]), [[True, True]])


@settings(max_examples=60)
@given(st.lists(st.sets(st.integers(0, 5), min_size=1), min_size=1, max_size=6))
def test_laminar_sets_are_those_of_which_any_two_are_nested_or_disjoint(sets):
    pairs = [(one, other) for one in sets for other in sets]
    laminar = all(one & other in (set(), one, other) for one, other in pairs)
    try:
        outrule.LaminarMatroid(6, [sorted(s) for s in sets], [1] * len(sets))
    except ArgumentError:
        assert not laminar
    else:
        assert laminar


@pytest.mark.parametrize("k", [5, 2**31, 2**63 - 1])
def test_a_capacity_beyond_all_items_takes_them_all(k):
    weights = [[0.5, 0.25, 0.75]]
    for problem in (
        outrule.TopK(k),
        outrule.PartitionMatroid([0, 0, 1], k),
        outrule.LaminarMatroid(3, [[0, 1]], [k]),
        outrule.Oracle(lambda weights: weights > 0, k),
        outrule.LinearProblem([[1, 1, 1]], [3], k),
    ):
        assert problem.solve(weights).all(), problem


@pytest.mark.parametrize(
    "huge", [2**63, 10**30, 10**400, 10**5000], ids=["64", "e30", "e400", "e5000"]
)
def test_a_number_that_no_integer_of_the_machine_holds_is_refused(huge):
    for make in (
        lambda: outrule.TopK(huge),
        lambda: outrule.PartitionMatroid([0, 0, 1], huge),
        lambda: outrule.PartitionMatroid([0, 0, huge]),
        lambda: outrule.LaminarMatroid(3, [[0, 1]], [huge]),
        lambda: outrule.LaminarMatroid(huge, [[0, 1]], [1]),
        lambda: outrule.TransversalMatroid(huge, [[0, 1]]),
        lambda: outrule.Matching.complete(huge),
        lambda: outrule.Assignment(huge, 2),
        lambda: outrule.Assignment(2**20, 2**20),
        lambda: outrule.Oracle(len, huge),
        lambda: outrule.LinearProblem([[1]], [1], huge),
        lambda: outrule.Rejection(huge),
        lambda: outrule.DecisionCalibrator(
            outrule.BestAction(), [outrule.Fixed(0)], random_state=huge
        ).settings(),
    ):
        with pytest.raises(ArgumentError) as caught:
            make()
        assert len(str(caught.value)) < 1200
    with pytest.raises(ArgumentError, match="'k' argument of TopK must be an int below 2"):
        outrule.TopK(huge)


def test_more_vectors_may_look_independent_than_those_of_equal_weights():
    close = [[1, 0, 0], [1, 0.4, 0], [1, 0.4, 0.4], [0, 0, 1]]
    problem = outrule.LinearMatroid(close, tolerance=0.5)
    for order in permutations([1.0, 2.0, 3.0, 4.0]):
        assert 1 <= problem.solve([order]).sum() <= 3
