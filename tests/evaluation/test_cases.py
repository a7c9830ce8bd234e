"""Measures on held-out instances against the metrics that users call."""

import numpy as np
import pytest

import outrule
from outrule.evaluation.cases import EQUAL, STREAM, TEST, HeldOut, make_case
from outrule.evaluation.grid import Unit


@pytest.fixture(scope="module", params=["best-action", "matching", "rejection"])
def pair(request):
    n_items = {"best-action": 4, "matching": 45, "rejection": 3}[request.param]
    case = make_case(Unit(request.param, n_items, "converged", 1), 20)
    return case, HeldOut(case, 300)


def arrays(held_out):
    instances, m = held_out.part.instances, held_out.n_items
    return instances.prediction.reshape(-1, m), instances.outcome.reshape(-1, m)


def test_the_measures_are_those_of_metrics(pair):
    case, held_out = pair
    predictions, outcomes = arrays(held_out)
    tests, steps = np.array([0, -1, 3]), np.array([0.1, -0.05, 0.2])
    patched = held_out.start()
    held_out.patch(patched, tests, steps)
    calibrated = patched.reshape(predictions.shape)
    data = (case.problem, case.rules, predictions, outcomes)
    measured = held_out.measure(patched)
    gap = outrule.metrics.utility_gap(*data, calibrated=calibrated)
    assert measured["gap"] == pytest.approx(gap, abs=1e-9)
    gain = outrule.metrics.improvement(case.problem, predictions, outcomes, calibrated=calibrated)
    assert measured["improvement"] == pytest.approx(gain, abs=1e-9)
    error = ((calibrated - outcomes) ** 2).mean()
    assert measured["squared_error"] == pytest.approx(error, abs=1e-9)
    assert measured["value"] == pytest.approx(held_out.value(patched), abs=1e-12)
    violations = outrule.metrics.violations(*data, calibrated=calibrated)
    assert measured["largest_violation"] == pytest.approx(max(map(abs, violations.values())))
    assert 0 <= measured["gap_error"] < 0.1


def test_the_best_rule_has_no_gap_and_no_other_rule_is_above_it(pair):
    case, held_out = pair
    gaps = [held_out.measure_rule(rule)["gap"] for rule in range(len(case.rules))]
    assert max(gaps) == 0.0
    best = held_out.rule_values.max()
    np.testing.assert_allclose(gaps, held_out.rule_values - best, atol=1e-9)


def test_the_oracle_is_at_least_as_good_as_anything(pair):
    _, held_out = pair
    assert held_out.oracle >= max(held_out.plain, held_out.rule_values.max())


def test_every_purpose_has_separate_instances(pair):
    case, _ = pair
    first = [case.instances(5, purpose).prediction for purpose in (TEST, EQUAL)]
    first += [case.instances(5, STREAM, number).prediction for number in (0, 1)]
    assert len({array.tobytes() for array in first}) == 4
    assert (case.rounds(0, 2, 5).prediction == np.concatenate(first[2:])).all()


def test_worlds_are_drawn_anew_for_every_m():
    few, many = (make_case(Unit("best-action", m, "converged", 0), 20) for m in (4, 8))
    vectors = [case.rules[1].vector[:4].tolist() for case in (few, many)]
    assert vectors[0] != vectors[1]
    outcomes = [case.instances(3, TEST).outcome.reshape(3, -1)[:, :4] for case in (few, many)]
    assert not np.isclose(*outcomes).any()
    assert few.seed != make_case(Unit("best-action", 4, "converged", 1), 20).seed


def test_the_value_of_the_first_half_is_that_of_its_instances(pair):
    case, held_out = pair
    predictions, outcomes = arrays(held_out)
    value, half = held_out.values(held_out.start())
    chosen = (case.problem.solve(predictions) * outcomes).sum(axis=1)
    assert value == pytest.approx(chosen.mean())
    assert half == pytest.approx(chosen[:150].mean())
