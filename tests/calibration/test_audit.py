"""The audit against plain sums, and what must not change its bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import outrule
import reference
import strategies
from outrule.calibration.audit import audit, prepare, rule_values, squared_error
from outrule.rules import decisions
from outrule.rules.decisions import decide_all


def look(case, **kinds):
    """Audit the original predictions of a case."""
    instances = outrule.Instances.from_arrays(case.predictions, case.outcomes, **kinds)
    part = prepare(instances, case.problem, case.rules)
    return part, audit(part, instances.prediction, case.problem)


def as_items(decisions):
    return [np.flatnonzero(row).tolist() for row in decisions]


@given(strategies.cases())
def test_violations_are_the_means_that_plain_sums_give(case):
    part, found = look(case)
    tests = [
        case.problem.solve(np.where(rule.vector > 0, case.predictions * rule.vector, 0.0))
        for rule in case.rules
    ]
    tests.append(case.problem.solve(case.predictions))
    expected = [
        reference.violation(case.predictions, case.outcomes, as_items(test)) for test in tests
    ]
    np.testing.assert_allclose(found.violations, expected, rtol=0, atol=1e-11)
    np.testing.assert_allclose(found.sizes, [test.sum() / len(test) for test in tests], atol=1e-11)
    error = reference.squared_error(case.predictions, case.outcomes)
    assert found.squared_error == pytest.approx(error, abs=1e-11)
    assert found.squared_error == squared_error(part, part.instances.prediction)
    np.testing.assert_allclose(
        rule_values(part), [reference.value(case.outcomes, test) for test in tests[:-1]], atol=1e-11
    )


@given(strategies.cases(), st.data())
def test_the_order_of_instances_changes_no_bit_even_with_weights(case, data):
    n = len(case.predictions)
    weights = np.array(data.draw(st.lists(strategies.weight, min_size=n, max_size=n)))
    order = np.array(data.draw(st.permutations(range(n))))
    shuffled = case._replace(predictions=case.predictions[order], outcomes=case.outcomes[order])
    _, found = look(case, weight=weights)
    _, again = look(shuffled, weight=weights[order])
    assert found.violations.tolist() == again.violations.tolist()
    assert found.sizes.tolist() == again.sizes.tolist()
    assert found.squared_error == again.squared_error


def test_the_order_of_many_instances_changes_no_bit_though_float_sums_would_differ():
    generator = np.random.default_rng(0)
    predictions, outcomes = generator.random((2, 3000, 4))
    weights = generator.exponential(size=3000)
    rules = outrule.multipliers(4, limit=50)
    case = strategies.Case(outrule.TopK(2), rules, predictions, outcomes)
    found = look(case, weight=weights)[1].violations.tolist()
    sums = set()
    for _ in range(5):
        order = generator.permutation(3000)
        shuffled = case._replace(predictions=predictions[order], outcomes=outcomes[order])
        assert look(shuffled, weight=weights[order])[1].violations.tolist() == found
        sums.add(weights[order].sum())
    assert len(sums) > 1


@pytest.mark.parametrize("block", [1, 3, 7])
@pytest.mark.parametrize(
    "problem", [outrule.TopK(2), outrule.Matching.complete(4), outrule.Assignment(2, 3)]
)
def test_blocks_change_no_bit(monkeypatch, block, problem):
    generator = np.random.default_rng(block)
    case = strategies.Case(
        problem,
        (
            *outrule.multipliers(6, limit=5),
            outrule.Reweight("odd", lambda v: v.predictions * v["x"]),
        ),
        np.rint(generator.random((20, 6)) * 8) / 8,
        generator.random((20, 6)),
    )
    columns = {"x": generator.random(20)}
    available = generator.random((20, 6)) < 0.8
    available[:, 0] = True
    _, whole = look(case, columns=columns, available=available)
    monkeypatch.setattr(decisions, "INSTANCES_AT_A_TIME", block)
    _, blocks = look(case, columns=columns, available=available)
    assert whole.violations.tolist() == blocks.violations.tolist()


@given(strategies.cases(), st.data())
@settings(max_examples=50)
def test_integer_weights_count_as_repeated_instances(case, data):
    n = len(case.predictions)
    weights = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    weights[0] += 1
    rows = np.repeat(np.arange(n), weights)
    repeated = case._replace(predictions=case.predictions[rows], outcomes=case.outcomes[rows])
    part, found = look(case, weight=weights)
    other, again = look(repeated)
    np.testing.assert_allclose(found.violations, again.violations, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.sizes, again.sizes, rtol=0, atol=1e-9)
    np.testing.assert_allclose(rule_values(part), rule_values(other), rtol=0, atol=1e-9)
    assert found.squared_error == pytest.approx(again.squared_error, abs=1e-9)


def test_violations_are_in_the_units_of_the_caller():
    generator = np.random.default_rng(0)
    case = strategies.Case(
        outrule.BestAction(),
        (outrule.Fixed(1),),
        generator.random((9, 3)),
        generator.random((9, 3)),
    )
    _, found = look(case)
    scaled = case._replace(predictions=50 * case.predictions - 10, outcomes=50 * case.outcomes - 10)
    part, again = look(scaled, value_range=(-10, 40))
    np.testing.assert_allclose(again.violations, 50 * found.violations, atol=1e-9)
    assert again.squared_error == pytest.approx(2500 * found.squared_error)
    assert again.sensitivity == pytest.approx(50 * found.sensitivity)
    assert rule_values(part)[0] == pytest.approx(scaled.outcomes[:, 1].mean())


def test_sensitivity_is_what_the_heaviest_observation_can_change():
    predictions = np.full((4, 6), 0.5)
    case = strategies.Case(outrule.TopK(2), (outrule.Fixed(0),), predictions, predictions)
    assert look(case)[1].sensitivity == pytest.approx(2 * 2 / 4)
    assert look(case, weight=[1, 1, 1, 5])[1].sensitivity == pytest.approx(2 * 2 * 5 / 8)
    assert look(case, cluster=["a", "b", "b", "b"])[1].sensitivity == pytest.approx(4 * 3 / 4)
    both = look(case, weight=[1, 1, 1, 5], cluster=["a", "a", "a", "b"])[1]
    assert both.sensitivity == pytest.approx(4 * 5 / 8)


def test_one_observation_changes_a_violation_by_no_more_than_the_sensitivity():
    generator = np.random.default_rng(3)
    predictions, outcomes = generator.random((8, 6)), generator.random((8, 6))
    weights = generator.random(8) + 0.1
    case = strategies.Case(outrule.TopK(2), outrule.multipliers(6, limit=9), predictions, outcomes)
    _, before = look(case, weight=weights)
    for i in range(8):
        extreme = outcomes.copy()
        extreme[i] = generator.integers(0, 2, size=6)
        _, after = look(case._replace(outcomes=extreme), weight=weights)
        change = np.abs(after.violations - before.violations).max()
        assert change <= before.sensitivity + 1e-12


@pytest.mark.parametrize(
    ("m", "kind"),
    [(3, np.uint8), (255, np.uint8), (256, np.uint16), (65_535, np.uint16), (65_536, np.uint32)],
)
def test_decisions_take_the_smallest_type_that_holds_a_position(m, kind):
    predictions = np.linspace(0, 1, m)[None]
    instances = outrule.Instances.from_arrays(predictions, predictions)
    problem = outrule.TopK(2)
    picks = decide_all([outrule.Fixed(m - 1)], instances, problem, problem.lay(instances))
    assert picks.dtype == kind
    assert picks.shape == (1, 2, 1)
    assert picks[0, :, 0].tolist() == [m - 1, np.iinfo(kind).max]
    part = prepare(instances, problem, [outrule.Fixed(m - 1)])
    assert rule_values(part)[0] == pytest.approx(1.0)


def test_frozen_items_do_not_count_in_the_size_of_a_test():
    problem = outrule.Rejection(cost=0.2)
    predictions = problem.with_reject([[0.9, 0.1], [0.5, 0.5]])
    outcomes = problem.with_reject([[1.0, 0.0], [0.0, 1.0]])
    case = strategies.Case(problem, (outrule.Fixed(2), outrule.Fixed(0)), predictions, outcomes)
    _, found = look(case)
    # One of two classes counts for 1 - 1/2: the projection takes half of a step back.
    np.testing.assert_allclose(found.sizes, [0.0, 0.5, 0.25])
    np.testing.assert_allclose(found.violations, [0.0, (0.1 - 0.5) / 2, 0.05], atol=1e-12)


def test_a_marked_class_counts_by_how_many_classes_its_instance_offers():
    problem, available = outrule.Classification(), np.tri(4, dtype=bool)
    predictions = available / available.sum(axis=1, keepdims=True)
    data = outrule.Instances.from_arrays(
        predictions, predictions, available=available, weight=[1.0, 2.0, 3.0, 2.0]
    )
    found = audit(prepare(data, problem, [outrule.Fixed(0)]), data.prediction, problem)
    # An instance with one class cannot move.
    expected = (1 * 0 + 2 * 1 / 2 + 3 * 2 / 3 + 2 * 3 / 4) / 8
    np.testing.assert_allclose(found.sizes, [expected, expected])
