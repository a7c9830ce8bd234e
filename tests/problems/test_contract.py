"""What every problem promises, tried on every small case against all subsets."""

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import brute_force
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

import outrule
import outrule.kernels
from outrule import DataError, Instances

FIVE_CYCLE = [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)]
DOUBLED = [(0, 1), (0, 1), (1, 2), (0, 2), (3, 2)]
GAPS = [(0, 2), (2, 5), (5, 3)]  # nodes 1 and 4 have no edge
GROUPS = [0, 0, 1, 1, 2]
NESTED = [[0, 1], [0, 1, 2], [3, 4], [0, 1, 2, 3, 4]]
SETS = [[0, 1], [1, 2, 3], [1]]
VECTORS = [[1, 0], [2, 0], [0, 1], [1, 1], [0, 0]]
A, B = [[2, 1, 1, 0], [0, 1, 0, 3]], [2, 3]


def complete(n_nodes):
    return [(i, j) for i in range(n_nodes) for j in range(i + 1, n_nodes)]


def top_two(weights):
    order = np.argsort(-weights, kind="stable")[:2]
    return np.isin(np.arange(len(weights)), order) & (weights > 0)


def one_of_each_half(positions, item):
    chosen = item[positions]
    return (chosen < 2).sum() <= 1 and (chosen >= 2).sum() <= 1


@dataclass(frozen=True)
class Case:
    problem: Any
    n_items: int
    test: Callable
    k: int
    most: int = 4096  # rows it is tried on

    @cached_property
    def sets(self):
        return brute_force.feasible_sets(self.n_items, self.test)

    @cached_property
    def rows(self):
        """Every row of four levels, or a sample."""
        if 4**self.n_items <= self.most:
            return brute_force.all_rows((-1, 0, 1, 2), self.n_items)
        generator = np.random.default_rng(self.n_items)
        return generator.integers(-1, 3, size=(min(self.most, 1500), self.n_items)).astype(float)

    def masks(self, seed=0):
        mask = np.random.default_rng(seed).random(self.rows.shape) < 0.6
        mask[0] = False
        if self.problem.exactly_one:
            mask[~mask.any(axis=1), -1] = True
        return mask


CASES = {
    "best action": Case(outrule.BestAction(), 5, brute_force.exactly_one, 1),
    "one action": Case(outrule.BestAction(), 1, brute_force.exactly_one, 1),
    "classification": Case(outrule.Classification(), 3, brute_force.exactly_one, 1),
    "top 1": Case(outrule.TopK(1), 4, brute_force.at_most(1), 1),
    "top 2": Case(outrule.TopK(2), 5, brute_force.at_most(2), 2),
    "top 7 of 3": Case(outrule.TopK(7), 3, brute_force.at_most(7), 3),
    "partition": Case(
        outrule.PartitionMatroid(GROUPS, 1),
        5,
        brute_force.within_groups(GROUPS, {0: 1, 1: 1, 2: 1}),
        3,
    ),
    "partition, capacities": Case(
        outrule.PartitionMatroid(GROUPS, {0: 2, 1: 0, 2: 1}),
        5,
        brute_force.within_groups(GROUPS, {0: 2, 1: 0, 2: 1}),
        3,
    ),
    "graphic": Case(outrule.GraphicMatroid.complete(4), 6, brute_force.forest(complete(4)), 3),
    "graphic, doubled edge": Case(
        outrule.GraphicMatroid(DOUBLED), 5, brute_force.forest(DOUBLED), 3
    ),
    "laminar": Case(
        outrule.LaminarMatroid(6, NESTED, [1, 2, 1, 2]),
        6,
        brute_force.within_sets(NESTED, [1, 2, 1, 2]),
        3,
    ),
    "transversal": Case(outrule.TransversalMatroid(5, SETS), 5, brute_force.transversal(SETS), 3),
    "linear matroid": Case(
        outrule.LinearMatroid(VECTORS), 5, brute_force.independent_vectors(VECTORS), 2
    ),
    "matroid": Case(
        outrule.Matroid(one_of_each_half, columns=["item"]),
        4,
        brute_force.within_groups([0, 0, 1, 1], [1, 1]),
        2,
    ),
    "one edge": Case(outrule.Matching.complete(2), 1, brute_force.matching([(0, 1)]), 1),
    "triangle": Case(outrule.Matching.complete(3), 3, brute_force.matching(complete(3)), 1),
    "matching": Case(outrule.Matching.complete(4), 6, brute_force.matching(complete(4)), 2),
    "matching, 5 nodes": Case(
        outrule.Matching.complete(5), 10, brute_force.matching(complete(5)), 2
    ),
    "matching, 6 nodes": Case(
        outrule.Matching.complete(6), 15, brute_force.matching(complete(6)), 3, 300
    ),
    "matching, cycle": Case(outrule.Matching(FIVE_CYCLE), 5, brute_force.matching(FIVE_CYCLE), 2),
    "matching, doubled edge": Case(outrule.Matching(DOUBLED), 5, brute_force.matching(DOUBLED), 2),
    "matching, gaps": Case(outrule.Matching(GAPS), 3, brute_force.matching(GAPS), 2),
    "assignment 2 x 3": Case(outrule.Assignment(2, 3), 6, brute_force.assignment(3), 2),
    "assignment 3 x 2": Case(outrule.Assignment(3, 2), 6, brute_force.assignment(2), 2),
    "assignment 1 x 4": Case(outrule.Assignment(1, 4), 4, brute_force.assignment(4), 1),
    "assignment 3 x 3": Case(outrule.Assignment(3, 3), 9, brute_force.assignment(3), 3),
    "linear problem": Case(outrule.LinearProblem(A, B), 4, brute_force.constraints(A, B), 2, 60),
    "oracle": Case(outrule.Oracle(top_two, k=2), 4, brute_force.at_most(2), 2),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def check_decisions(case, weights, decisions, available=None):
    """Feasible, of the best value, and without an item that is worth nothing."""
    weights = np.asarray(weights, dtype=float)
    assert decisions.dtype == bool
    assert decisions.shape == weights.shape
    possible = {tuple(row) for row in case.sets.tolist()}
    empty = np.zeros(len(weights), dtype=bool) if available is None else ~available.any(axis=1)
    assert all(tuple(row) in possible for row in decisions[~empty].tolist())
    assert not decisions[empty].any()
    if available is not None:
        assert not (decisions & ~available).any()
    values = np.where(decisions, weights, 0.0).sum(axis=1)
    best = brute_force.best_values(
        weights[~empty], case.sets, None if available is None else available[~empty]
    )
    np.testing.assert_allclose(values[~empty], best, rtol=1e-12, atol=1e-12)
    if not case.problem.exactly_one:
        assert not (decisions & (weights <= 0)).any()


@every_case
def test_the_optimiser_finds_a_feasible_set_of_the_best_value(case):
    check_decisions(case, case.rows, case.problem.solve(case.rows))


@every_case
def test_the_optimiser_leaves_unavailable_items_alone(case):
    mask = case.masks()
    weights = np.where(mask, case.rows, np.nan)  # what stands there is nobody's business
    check_decisions(case, case.rows, case.problem.solve(weights, mask), mask)


@every_case
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1), exponent=st.integers(-12, 12))
def test_the_optimiser_is_right_on_weights_of_any_size(case, seed, exponent):
    weights = np.random.default_rng(seed).normal(0.3, 1.0, size=(4, case.n_items))
    weights *= 10.0**exponent
    decisions = case.problem.solve(weights)
    check_decisions(case, weights * 10.0**-exponent, decisions)


@every_case
def test_a_decision_depends_on_nothing_but_its_own_instance(case):
    weights = case.rows[:200]
    whole = case.problem.solve(weights)
    order = np.random.default_rng(1).permutation(len(weights))
    np.testing.assert_array_equal(case.problem.solve(weights[order]), whole[order])
    np.testing.assert_array_equal(case.problem.solve(weights[3:50]), whole[3:50])
    for i in range(0, len(weights), 9):
        np.testing.assert_array_equal(case.problem.solve(weights[i : i + 1]), whole[i : i + 1])


@every_case
def test_an_unavailable_item_elsewhere_changes_no_decision(case):
    weights = case.rows[:300]
    mask = np.ones(weights.shape, dtype=bool)
    if case.n_items > 1:
        mask[-1, 0] = False
    together = case.problem.solve(weights, mask)
    np.testing.assert_array_equal(together[:-1], case.problem.solve(weights)[:-1])


@every_case
def test_an_item_on_offer_that_is_worth_nothing_decides_as_one_that_is_not_on_offer(case):
    if case.problem.exactly_one:
        pytest.skip("one must be chosen, worth nothing or not")
    mask = case.masks(seed=3)[:300]
    weights = case.rows[:300]
    one, other = case.problem.solve(weights, mask), case.problem.solve(np.where(mask, weights, 0))
    values = [np.where(marks, weights, 0).sum(axis=1) for marks in (one, other)]
    np.testing.assert_array_equal(*values)


@every_case
def test_k_is_the_size_of_the_largest_decision(case):
    layout = case.problem.lay(Instances.from_weights(np.ones((3, case.n_items)), None))
    assert layout.k == case.k
    assert case.sets.sum(axis=1).max() == case.k
    assert case.problem.pick(np.ones(3 * case.n_items), layout).shape == (3, case.k)


@every_case
def test_feasible_agrees_with_brute_force_on_all_subsets(case):
    if case.n_items > 10:
        pytest.skip("too many subsets")
    marks = brute_force.all_rows((0, 1), case.n_items).astype(bool)
    expected = [case.test(tuple(np.flatnonzero(row))) for row in marks]
    layout = case.problem.lay(Instances.from_weights(np.ones(marks.shape), None))
    np.testing.assert_array_equal(case.problem.feasible(marks.ravel(), layout), expected)
    mask = marks | (np.random.default_rng(2).random(marks.shape) < 0.5)
    ragged = case.problem.lay(Instances.from_weights(np.ones(marks.shape), mask))
    np.testing.assert_array_equal(case.problem.feasible(marks[mask], ragged), expected)


@every_case
def test_scaled_weights_decide_as_weights_multiplied_beforehand(case):
    weights = case.rows[:300]
    scale = np.linspace(0, 1, case.n_items) if case.n_items > 1 else np.array([0.5])
    layout = case.problem.lay(Instances.from_weights(weights, None))
    np.testing.assert_array_equal(
        case.problem.pick(weights.ravel(), layout, scale),
        case.problem.pick((weights * scale).ravel(), layout),
    )


@every_case
def test_a_slice_of_a_layout_decides_as_the_whole(case):
    mask = case.masks(seed=4)
    mask[~mask.any(axis=1), 0] = True
    data = Instances.from_weights(case.rows, mask)
    layout = case.problem.lay(data)
    whole = case.problem.pick(data.prediction, layout)
    first, last = 1, 1 + len(layout) // 2
    start, stop = layout.offsets[first], layout.offsets[last]
    part = case.problem.pick(data.prediction[start:stop], layout.slice(first, last))
    np.testing.assert_array_equal(part, whole[first:last])
    assert layout.slice(0, len(layout)) is layout


@every_case
def test_the_same_items_in_a_table_are_decided_alike(case):
    mask = case.masks(seed=5)[-200:]
    mask[~mask.any(axis=1), 0] = True
    weights = (case.rows[-200:] + 1) / 3 if case.problem.simplex else case.rows[-200:]
    instance, item = np.nonzero(mask)
    frame = pl.DataFrame({"i": instance, "item": item, "w": weights[mask]})
    shuffled = frame.sample(fraction=1.0, shuffle=True, seed=0)
    value_range = (0, 1) if case.problem.simplex else (-1, 2)
    data = Instances.from_table(
        shuffled, instance="i", item="item", prediction="w", value_range=value_range
    )
    decisions = case.problem.solve(data)
    expected = case.problem.solve(weights, mask)
    assert isinstance(decisions, pl.Series)
    rows = shuffled["i"].to_numpy(), shuffled["item"].to_numpy()
    np.testing.assert_array_equal(decisions.to_numpy(), expected[rows])


@every_case
@pytest.mark.parametrize(
    "change",
    [
        lambda weights: weights.astype(np.float32),
        lambda weights: weights.astype(np.int64),
        lambda weights: weights.astype(np.int8),
        np.asfortranarray,
        lambda weights: np.repeat(weights, 2, axis=0)[::2],
        lambda weights: np.repeat(weights, 2, axis=1)[:, ::2],
        lambda weights: np.flip(np.flip(weights).copy()),
        lambda weights: weights.tolist(),
        lambda weights: weights.astype(object),
        pl.DataFrame,
    ],
)
def test_any_kind_of_numbers_is_accepted(case, change):
    weights = case.rows[:40]
    given, expected = change(weights), case.problem.solve(weights)
    np.testing.assert_array_equal(case.problem.solve(given), expected)


@every_case
def test_read_only_weights_are_accepted_and_no_weights_are_changed(case):
    weights = case.rows[:40]
    before = weights.copy()
    expected = case.problem.solve(weights)
    np.testing.assert_array_equal(weights, before)
    weights.flags.writeable = False
    np.testing.assert_array_equal(case.problem.solve(weights), expected)


@every_case
@pytest.mark.parametrize(("bad", "word"), [(np.nan, "NaN"), (np.inf, "infinite")])
def test_weights_that_are_not_finite_are_refused(case, bad, word):
    weights = np.ones((3, case.n_items))
    weights[1, -1] = bad
    message = (
        f"weight is {word} at instance 1, item {case.n_items - 1}. Weights must be finite: "
        "drop the instance, or mark the item as unavailable."
    )
    with pytest.raises(DataError, match=re.escape(message)):
        case.problem.solve(weights)


@every_case
def test_instances_without_items_get_an_empty_decision_or_a_clear_error(case):
    mask = np.ones((3, case.n_items), dtype=bool)
    mask[1:] = False
    weights = np.ones(mask.shape)
    if case.problem.exactly_one:
        name = type(case.problem).__name__
        message = f"instance 1 has no items on offer, but {name} must choose one: drop the instance"
        with pytest.raises(DataError, match=re.escape(message)):
            case.problem.solve(weights, mask)
        return
    decisions = case.problem.solve(weights, mask)
    assert not decisions[1:].any()
    np.testing.assert_array_equal(decisions[0], case.problem.solve(weights[:1])[0])
    assert not case.problem.solve(weights, np.zeros_like(mask)).any()
    layout = case.problem.lay(Instances.from_weights(weights, mask))
    marks = np.zeros(case.n_items, dtype=bool)
    assert case.problem.feasible(marks, layout).all()


@every_case
def test_weights_of_no_instances_or_no_items_are_refused(case):
    for shape in ((0, case.n_items), (3, 0)):
        message = f"weights have shape {shape}: there must be instances and items."
        with pytest.raises(DataError, match=re.escape(message)):
            case.problem.solve(np.zeros(shape))


@every_case
def test_weights_that_are_no_table_of_numbers_are_refused(case):
    with pytest.raises(DataError, match=re.escape("weights have shape (3,). They must have shape")):
        case.problem.solve([0.1, 0.2, 0.3])
    with pytest.raises(DataError, match=re.escape("weights cannot be read as numbers.")):
        case.problem.solve([["a"] * case.n_items])
    message = (
        f"available has shape (1, {case.n_items + 1}) and type bool. "
        f"It must be boolean of shape (1, {case.n_items}), like the weights."
    )
    with pytest.raises(DataError, match=re.escape(message)):
        case.problem.solve(np.ones((1, case.n_items)), np.ones((1, case.n_items + 1), dtype=bool))


FIXED_ITEMS = {
    name: case
    for name, case in CASES.items()
    if not isinstance(case.problem, outrule.BestAction | outrule.TopK | outrule.Oracle)
    and not isinstance(case.problem, outrule.Matroid)
}


@pytest.mark.parametrize("case", FIXED_ITEMS.values(), ids=FIXED_ITEMS.keys())
def test_a_problem_with_fixed_items_says_how_many_it_has(case):
    m = case.n_items
    has = f"{type(case.problem).__name__} has {m} {'item' if m == 1 else 'items'}"
    with pytest.raises(DataError, match=f"{has}, but the predictions have {m + 1}"):
        case.problem.solve(np.ones((1, m + 1)))
    frame = pl.DataFrame({"i": [0], "item": [m], "w": [0.5]})
    whole = Instances.from_table(frame, instance="i", item="item", prediction="w")
    message = f"{has}, so the item column must hold whole numbers from 0 to {m - 1}."
    with pytest.raises(DataError, match=re.escape(message)):
        case.problem.solve(whole)
    nameless = Instances.from_table(frame, instance="i", prediction="w")
    message = f"{has}: name the column of the 'item'."
    with pytest.raises(DataError, match=re.escape(message)):
        case.problem.solve(nameless)


def test_instances_know_what_is_on_offer_so_a_mask_beside_them_is_refused():
    data = Instances.from_arrays([[0.1, 0.2]])
    message = "The 'available' argument of solve must be left out: Instances know what is on offer."
    with pytest.raises(outrule.ArgumentError, match=re.escape(message)):
        outrule.TopK(1).solve(data, [[True, False]])


@every_case
def test_a_problem_says_whether_its_optimiser_is_exact(case):
    assert case.problem.ratio == 1.0


def test_only_problems_of_one_item_choose_exactly_one():
    exact = {name for name, case in CASES.items() if case.problem.exactly_one}
    assert exact == {"best action", "one action", "classification"}
    assert outrule.Rejection(0.1).exactly_one
    simplex = {name for name, case in CASES.items() if case.problem.simplex}
    assert simplex == {"classification"}
    assert outrule.Rejection(0.1).simplex


def test_describing_a_problem_and_a_fit_does_not_load_the_kernels():
    code = (
        "import sys, outrule; outrule.Matching.complete(3), outrule.TopK(1), outrule.BestAction(), "
        "outrule.Oracle(lambda w: w > 0, k=1), outrule.Reuse(), outrule.Isotonic(); "
        "print([name for name in ('numba', 'sklearn', 'polars') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert run.stdout.strip() == "[]"


def test_a_kernel_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'magic'"):
        outrule.kernels.magic  # noqa: B018 - looking it up is the test


def test_weights_whose_sum_overflows_are_finite_all_the_same():
    marks = outrule.TopK(1).solve([[1e308, -1e308, 1.5e308], [1e308, 1e308, 0.0]])
    assert marks.tolist() == [[False, False, True], [True, False, False]]
