"""Constraints and functions that a caller gives: what they decide and what they refuse."""

import re

import brute_force
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

import outrule
from outrule import ArgumentError, DataError, Instances


@settings(max_examples=40)
@given(st.data())
def test_linear_problems_are_solved_exactly(data):
    m, c = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 3))
    row = st.lists(st.integers(-2, 3), min_size=m, max_size=m)
    A = data.draw(st.lists(row, min_size=c, max_size=c))
    b = data.draw(st.lists(st.integers(0, 4), min_size=c, max_size=c))
    weights = data.draw(st.lists(st.integers(-2, 6), min_size=m, max_size=m))
    problem = outrule.LinearProblem(A, b)
    test = brute_force.constraints(A, b)
    sets = brute_force.feasible_sets(m, test)
    chosen = problem.solve([weights])[0]
    assert test(tuple(np.flatnonzero(chosen)))
    assert np.dot(weights, chosen) == brute_force.best_values([weights], sets)[0]
    assert problem.k == max(1, sets.sum(axis=1).max())


def test_constraints_may_ask_for_an_item():
    problem = outrule.LinearProblem([[-1, -1, 0], [1, 1, 1]], [-1, 2])  # one of the first two
    chosen = problem.solve([[-0.2, -0.1, 0.5], [0.1, 0.2, 0.3], [0.0, 0.0, 0.0]])
    assert chosen[:, :2].any(axis=1).all()
    np.testing.assert_array_equal(chosen[:2], [[False, True, True], [False, True, True]])
    layout = problem.lay(Instances.from_weights(np.zeros((8, 3)), None))
    marks = brute_force.all_rows((0, 1), 3).astype(bool)
    test = brute_force.constraints([[-1, -1, 0], [1, 1, 1]], [-1, 2])
    expected = [test(tuple(np.flatnonzero(row))) for row in marks]
    np.testing.assert_array_equal(problem.feasible(marks.ravel(), layout), expected)


def test_constraints_that_nothing_satisfies_are_refused():
    message = "no 0/1 vector satisfies A z <= b of LinearProblem for any instance."
    with pytest.raises(DataError, match=re.escape(message)):
        outrule.LinearProblem([[1, 1]], [-1])
    problem = outrule.LinearProblem([[-1, -1]], [-1])
    for mask in ([[True, True], [False, False]], [[True, False], [False, False]]):
        message = "no 0/1 vector satisfies A z <= b of LinearProblem for instance 1."
        with pytest.raises(DataError, match=re.escape(message)):
            problem.solve([[0.1, 0.2], [0.1, 0.2]], mask)


def test_weights_as_small_as_they_come_are_weighed():
    problem = outrule.LinearProblem([[1, 1]], [1])
    for size in (1e-300, 1e-9, 1e9, 1e300):
        np.testing.assert_array_equal(problem.solve([[size, 2 * size]]), [[False, True]])


def test_a_k_that_is_too_small_for_the_constraints_is_refused():
    problem = outrule.LinearProblem([[1, 1, 1]], [2], k=1)
    message = "LinearProblem chose 2 items for instance 0, more than k = 1: give a larger k."
    with pytest.raises(DataError, match=re.escape(message)):
        problem.solve([[0.1, 0.2, 0.3]])
    layout = problem.lay(Instances.from_weights(np.zeros((1, 3)), None))
    assert not problem.feasible(np.array([True, True, False]), layout).any()


def test_a_k_that_is_given_is_kept():
    assert outrule.LinearProblem([[1, 1, 1]], [2], k=3).k == 3


@pytest.mark.parametrize("A", [[], [1, 2], [[np.nan, 1]], [["a"]], [[1], [1, 2]], 3])
def test_a_wrong_matrix_is_refused(A):
    message = "The 'A' argument of LinearProblem must be a finite array of shape (c, m)."
    with pytest.raises(ArgumentError, match=re.escape(message)):
        outrule.LinearProblem(A, [1])


@pytest.mark.parametrize("b", [[], [1, 2], 1, [np.inf], ["a"], [[1]]])
def test_a_wrong_right_hand_side_is_refused(b):
    message = "The 'b' argument of LinearProblem must be a finite array of shape (1,)."
    with pytest.raises(ArgumentError, match=re.escape(message)):
        outrule.LinearProblem([[1, 1]], b)


@pytest.mark.parametrize("k", [0, -1, 0.5])
def test_a_k_below_one_is_refused(k):
    for make in (
        lambda: outrule.LinearProblem([[1, 1]], [1], k=k),
        lambda: outrule.Oracle(lambda weights: weights > 0, k=k),
    ):
        with pytest.raises(
            ArgumentError, match=r"'k' argument of \w+ must be an int of at least 1"
        ):
            make()


def test_a_matroid_function_sees_the_items_on_offer_and_its_columns():
    seen = []

    def independent(positions, shop, item):
        seen.append((positions.tolist(), shop.tolist(), item.tolist()))
        return len({shop[p] for p in positions}) == len(positions)

    frame = pl.DataFrame(
        {"i": [0, 0, 0], "item": [7, 8, 9], "shop": ["x", "x", "y"], "p": [0.2, 0.3, 0.1]}
    )
    data = Instances.from_table(frame, instance="i", item="item", prediction="p")
    problem = outrule.Matroid(independent, columns=["shop", "item"])
    assert problem.solve(data).to_list() == [False, True, True]
    assert problem.lay(data).k == 2
    assert ([0, 1], ["x", "x", "y"], [7, 8, 9]) in seen


def test_a_matroid_on_columns_that_differ_between_instances_has_the_largest_rank():
    data = Instances.from_arrays(
        [[0.1, 0.2], [0.1, 0.2]], columns={"shop": np.array([[0, 0], [0, 1]])}
    )
    problem = outrule.Matroid(
        lambda positions, shop: len(set(shop[positions])) == len(positions), columns=["shop"]
    )
    assert problem.lay(data).k == 2
    np.testing.assert_array_equal(problem.solve(data), [[False, True], [True, True]])


@pytest.mark.parametrize("columns", ["shop", 3, [3]])
def test_columns_of_functions_are_names(columns):
    with pytest.raises(ArgumentError, match="'columns' argument of Matroid must be a sequence"):
        outrule.Matroid(len, columns=columns)


def test_columns_of_functions_that_are_not_there_are_named():
    data = Instances.from_arrays([[0.1]])
    message = "column 'shop' is missing. The columns are: 'item'."
    for problem in (
        outrule.Matroid(lambda positions, shop: shop[positions].all(), columns=["shop"]),
        outrule.Oracle(lambda weights, shop: weights > shop, k=1, columns=["shop"]),
    ):
        with pytest.raises(DataError, match=re.escape(message)):
            problem.solve(data)


def test_an_oracle_decides_with_its_columns():
    data = Instances.from_arrays([[0.5, 0.6], [0.5, 0.6]], columns={"works": [False, True]})
    problem = outrule.Oracle(
        lambda weights, works: (weights > 0.55) & works, k=1, columns=["works"]
    )
    np.testing.assert_array_equal(problem.solve(data), [[False, False], [False, True]])


def test_an_oracle_cannot_spoil_the_weights():
    def greedy_hands(weights):
        weights[:] = 0
        return np.ones(2, dtype=bool)

    weights = np.array([[0.5, 0.6]])
    outrule.Oracle(greedy_hands, k=2).solve(weights)
    np.testing.assert_array_equal(weights, [[0.5, 0.6]])


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([1.0, 0.0], "float64 of shape (2,)"),
        ([True], "bool of shape (1,)"),
        ([1, 0], "int64 of shape (2,)"),
        ([[True, False]], "bool of shape (1, 2)"),
    ],
)
def test_an_oracle_that_returns_no_decision_is_refused(answer, words):
    problem = outrule.Oracle(lambda _: np.array(answer), k=2)
    message = (
        f"the function of Oracle returned {words} for instance 0. "
        "It must return booleans of shape (2,)."
    )
    with pytest.raises(DataError, match=re.escape(message)):
        problem.solve([[0.1, 0.2]])


def test_an_oracle_that_chooses_more_than_k_is_refused():
    problem = outrule.Oracle(lambda weights: weights > 0, k=1)
    message = "Oracle chose 2 items for instance 1, more than k = 1: give a larger k."
    with pytest.raises(DataError, match=re.escape(message)):
        problem.solve([[0.0, 0.2], [0.1, 0.2]])


def test_an_error_names_an_instance_by_its_number_among_all():
    data = Instances.from_arrays([[0.1, 0.0], [0.2, 0.0], [0.3, 0.0], [0.4, 0.5]])
    message = "for instance 3, more than k = 1: give a larger k."
    for problem in (
        outrule.Oracle(lambda weights: weights > 0, k=1),
        outrule.LinearProblem(A=[[1, 1]], b=[2], k=1),
    ):
        for chosen in ([0, 3, 1], [3], [2, 0, 3]):
            part, layout = data.take(np.array(chosen)), problem.lay(data)
            with pytest.raises(DataError, match=re.escape(message)):
                problem.solve(part)
            with pytest.raises(DataError, match=re.escape(message)):
                problem.pick(part.prediction, layout.take(np.array(chosen)))
        with pytest.raises(DataError, match=re.escape(message)):
            problem.solve(data.slice(2, 4))
        assert len(problem.lay(data.take(np.array([], dtype=int)))) == 0


def test_an_error_about_a_table_names_the_first_row_of_the_instance():
    frame = pl.DataFrame({"trip": ["a", "a", "b", "c", "b"], "score": [0.1, 0.0, 0.4, 0.0, 0.5]})
    data = Instances.from_table(frame, instance="trip", prediction="score")
    problem = outrule.Oracle(lambda weights: weights > 0, k=1)
    for part in (data, data.slice(1, 3), data.take(np.array([2, 1]))):
        with pytest.raises(DataError, match="chose 2 items for the instance in row 2 of the table"):
            problem.solve(part)


def test_an_oracle_may_say_what_is_feasible():
    first_only = outrule.Oracle(
        lambda weights: np.arange(len(weights)) == 0, k=1, feasible_set=lambda marks: marks[0]
    )
    layout = first_only.lay(Instances.from_weights(np.ones((3, 2)), None))
    marks = np.array([[1, 0], [0, 1], [1, 1]], dtype=bool)
    np.testing.assert_array_equal(first_only.feasible(marks.ravel(), layout), [True, False, False])


@pytest.mark.parametrize("ratio", [0.0, 1.5, -0.5, np.nan])
def test_a_ratio_outside_zero_to_one_is_refused(ratio):
    message = "The 'ratio' argument of Oracle must be a float in (0, 1]."
    with pytest.raises(ArgumentError, match=re.escape(message)):
        outrule.Oracle(lambda weights: weights > 0, k=1, ratio=ratio)


def test_what_is_no_function_is_refused():
    with pytest.raises(ArgumentError, match="'function' argument of Oracle must be a function"):
        outrule.Oracle("best", k=1)
    with pytest.raises(ArgumentError, match="'independent' argument of Matroid must be a function"):
        outrule.Matroid([[0, 1]])
