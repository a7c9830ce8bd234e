"""Best action, classification and rejection: what they ask of the data."""

import re

import brute_force
import numpy as np
import polars as pl
import pytest

import outrule
from outrule import ArgumentError, DataError, Instances

PROBABILITIES = np.array([[0.9, 0.1], [0.6, 0.4], [0.5, 0.5], [0.2, 0.8], [0.0, 1.0]])


def test_the_first_of_equal_actions_is_chosen_even_when_all_are_worth_nothing():
    weights = [[0.0, 0.0, 0.0], [-1.0, -0.5, -0.5], [0.2, 0.7, 0.7]]
    chosen = outrule.BestAction().solve(weights)
    np.testing.assert_array_equal(chosen.argmax(axis=1), [0, 1, 1])
    np.testing.assert_array_equal(chosen.sum(axis=1), 1)


def test_ties_go_to_the_first_item_in_long_rows_too():
    generator = np.random.default_rng(0)
    weights = generator.integers(0, 3, size=(200, 23)).astype(float)
    np.testing.assert_array_equal(
        outrule.BestAction().solve(weights).argmax(axis=1), weights.argmax(axis=1)
    )


def test_exactly_one_item_is_a_decision_and_nothing_else_is():
    problem = outrule.BestAction()
    layout = problem.lay(Instances.from_arrays(np.zeros((4, 2))))
    marks = np.array([[0, 0], [1, 0], [0, 1], [1, 1]], dtype=bool)
    np.testing.assert_array_equal(
        problem.feasible(marks.ravel(), layout), [False, True, True, False]
    )


@pytest.mark.parametrize("cost", [0.0, 0.2, 0.5, 1.0])
def test_rejection_finds_the_best_class_or_rejects(cost):
    problem = outrule.Rejection(cost)
    weights = problem.with_reject(PROBABILITIES)
    chosen = problem.solve(weights)
    sets = brute_force.feasible_sets(3, brute_force.exactly_one)
    np.testing.assert_array_equal(chosen.sum(axis=1), 1)
    np.testing.assert_array_equal(weights[chosen], brute_force.best_values(weights, sets))


def test_the_reject_item_may_be_any_column():
    problem = outrule.Rejection(0.2, reject=0)
    weights = np.column_stack((np.full(5, 0.8), PROBABILITIES))
    np.testing.assert_array_equal(problem.solve(weights)[:, 0], [False, True, True, True, False])


def test_the_reject_item_of_a_table_goes_by_its_name():
    frame = pl.DataFrame(
        {
            "case": ["x", "x", "x", "y", "y", "y"],
            "label": ["cat", "dog", "ask", "ask", "cat", "dog"],
            "p": [0.9, 0.1, 0.8, 0.8, 0.6, 0.4],
            "y": [1.0, 0.0, 0.8, 0.8, 0.0, 1.0],
        }
    )
    data = Instances.from_table(frame, instance="case", prediction="p", outcome="y", item="label")
    problem = outrule.Rejection(0.2, reject="ask")
    assert problem.solve(data).to_list() == [True, False, False, True, False, False]
    frozen = problem.lay(data).per_item["frozen"]
    assert data.origin.restore(frozen, False).to_list() == [False, False, True, True, False, False]
    with pytest.raises(DataError, match=re.escape("instance 'x' does not offer the reject item -")):
        outrule.Rejection(0.2).solve(data)


def test_rejection_without_item_names_is_refused():
    frame = pl.DataFrame({"case": ["x"], "p": [0.8]})
    data = Instances.from_table(frame, instance="case", prediction="p")
    message = "Rejection needs items: name the column of the 'item'."
    with pytest.raises(DataError, match=re.escape(message)):
        outrule.Rejection(0.2).lay(data)


def test_an_instance_without_the_reject_item_is_refused():
    mask = np.array([[True, True, True], [True, True, False]])
    weights = outrule.Rejection(0.2).with_reject(PROBABILITIES[:2])
    message = (
        "instance 1 does not offer the reject item -1. Every instance must: "
        "see Rejection.with_reject."
    )
    with pytest.raises(DataError, match=re.escape(message)):
        outrule.Rejection(0.2).solve(weights, mask)
    mask[1] = False
    with pytest.raises(DataError, match=re.escape(message)):
        outrule.Rejection(0.2).solve(weights, mask)


@pytest.mark.parametrize("reject", [3, -4, "ask"])
def test_a_reject_item_that_is_no_column_is_refused(reject):
    weights = outrule.Rejection(0.2).with_reject(PROBABILITIES)
    message = f"instance 0 does not offer the reject item {reject!r}."
    with pytest.raises(DataError, match=re.escape(message)):
        outrule.Rejection(0.2, reject).solve(weights)


@pytest.mark.parametrize("name", ["prediction", "outcome"])
def test_a_reject_item_of_another_value_is_refused(name):
    problem = outrule.Rejection(0.2)
    values = {"prediction": problem.with_reject(PROBABILITIES)}
    values["outcome"] = values["prediction"].copy()
    values[name][2, 2] = 0.7
    data = Instances.from_arrays(values["prediction"], values["outcome"])
    message = (
        f"{name} of the reject item is 0.7 at instance 2, item 2. It must be 1 - cost = 0.8: "
        "see Rejection.with_reject."
    )
    with pytest.raises(DataError, match=re.escape(message)):
        problem.check_data(data)


def test_outcomes_of_classes_must_sum_to_one():
    outcomes = np.array([[1.0, 0.0], [0.4, 0.4]])
    message = (
        "outcomes of the classes sum to 0.8 at instance 1. Classification needs probabilities "
        "that sum to one, as in a one-hot label."
    )
    with pytest.raises(DataError, match=re.escape(message)):
        outrule.Classification().check_data(Instances.from_arrays(PROBABILITIES[:2], outcomes))
    outrule.BestAction().check_data(Instances.from_arrays(PROBABILITIES[:2], outcomes))
    problem = outrule.Rejection(0.2)
    data = Instances.from_arrays(
        problem.with_reject(PROBABILITIES[:2]), problem.with_reject(outcomes)
    )
    with pytest.raises(DataError, match=re.escape("sum to 0.8 at instance 1. Rejection needs")):
        problem.check_data(data)


def test_soft_labels_that_sum_to_one_are_accepted():
    layout = outrule.Classification().lay(Instances.from_arrays(PROBABILITIES, PROBABILITIES))
    assert (layout.k, layout.width) == (1, 2)
    assert not layout.per_item["frozen"].any()


@pytest.mark.parametrize("problem", [outrule.Classification(), outrule.Rejection(0.5)])
def test_classes_have_no_other_range_than_zero_to_one(problem):
    data = Instances.from_arrays([[0.5, 0.5]], value_range=(0, 2))
    message = f"{type(problem).__name__} works on probabilities: its value_range must be (0, 1)."
    with pytest.raises(DataError, match=re.escape(message)):
        problem.check_data(data)


@pytest.mark.parametrize("cost", [-0.1, 1.1, np.nan, "free", None, True])
def test_a_cost_outside_zero_to_one_is_refused(cost):
    message = f"The 'cost' argument of Rejection must be a float in [0, 1]. Got {cost!r} instead."
    with pytest.raises(ArgumentError, match=re.escape(message)):
        outrule.Rejection(cost)


def test_problems_of_one_item_are_equal_when_their_parameters_are():
    assert outrule.BestAction() == outrule.BestAction() != outrule.Classification()
    assert outrule.Rejection(0.2) == outrule.Rejection(0.2) != outrule.Rejection(0.3)
