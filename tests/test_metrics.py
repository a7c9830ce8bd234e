"""The measures against numbers worked out manually, in arrays and in tables of any row order."""

import numpy as np
import polars as pl
import pytest

import outrule
from outrule import metrics
from outrule.errors import ArgumentError, DataError

PREDICTIONS = np.array([[0.5, 0.25, 1.0], [0.75, 0.5, 0.0]])
OUTCOMES = np.array([[1.0, 0.0, 0.5], [0.25, 1.0, 0.5]])
DECISIONS = np.array([[True, False, True], [False, True, False]])
BEST = outrule.BestAction()


def table(order=(0, 1, 2, 3, 4, 5)):
    """The same numbers as rows, in any order."""
    frame = pl.DataFrame(
        {
            "trip": ["a"] * 3 + ["b"] * 3,
            "action": [0, 1, 2] * 2,
            "score": PREDICTIONS.ravel(),
            "worth": OUTCOMES.ravel(),
            "chosen": DECISIONS.ravel(),
            "after": (PREDICTIONS[:, ::-1]).ravel(),
        }
    )[list(order)]
    instances = outrule.Instances.from_table(
        frame, instance="trip", item="action", prediction="score", outcome="worth"
    )
    return instances, frame


def test_value_is_the_mean_over_instances_of_the_outcomes_chosen():
    assert metrics.value(PREDICTIONS, OUTCOMES, decisions=DECISIONS) == (1.5 + 1.0) / 2


def test_predicted_value_is_the_same_of_the_predictions():
    assert metrics.predicted_value(PREDICTIONS, decisions=DECISIONS) == (1.5 + 0.5) / 2


def test_violation_is_value_minus_predicted_value():
    assert metrics.violation(PREDICTIONS, OUTCOMES, decisions=DECISIONS) == 1.25 - 1.0


def test_squared_error_is_a_sum_over_items_and_a_mean_over_instances():
    squares = [0.25 + 0.0625 + 0.25, 0.25 + 0.25 + 0.25]
    assert metrics.squared_error(PREDICTIONS, OUTCOMES) == sum(squares) / 2
    assert metrics.squared_error(PREDICTIONS, OUTCOMES, per_entry=True) == sum(squares) / 6


def test_nothing_chosen_is_worth_nothing():
    assert metrics.value(PREDICTIONS, OUTCOMES, decisions=np.zeros((2, 3), bool)) == 0.0


def test_instances_give_what_arrays_give():
    instances = outrule.Instances.from_arrays(PREDICTIONS, OUTCOMES)
    for measure in (metrics.value, metrics.violation):
        assert measure(instances, decisions=DECISIONS) == measure(
            PREDICTIONS, OUTCOMES, decisions=DECISIONS
        )
    assert metrics.squared_error(instances) == metrics.squared_error(PREDICTIONS, OUTCOMES)


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4, 5), (5, 0, 3, 2, 4, 1), (3, 1, 4, 0, 5, 2)])
def test_the_order_of_a_tables_rows_does_not_matter(order):
    instances, frame = table(order)
    assert metrics.value(instances, decisions=frame["chosen"]) == 1.25
    assert metrics.predicted_value(instances, decisions=frame["chosen"]) == 1.0
    assert metrics.violation(instances, decisions=frame["chosen"]) == 0.25
    assert metrics.squared_error(instances) == 0.65625
    gap = metrics.utility_gap(BEST, [outrule.Fixed(0)], instances, calibrated=frame["after"])
    # Calibrated predictions are those of the arrays, from right to left.
    assert gap == (1.0 + 0.5) / 2 - (1.0 + 0.25) / 2
    improvement = metrics.improvement(BEST, instances, calibrated=frame["after"])
    assert improvement == (1.0 + 0.5) / 2 - (0.5 + 0.25) / 2


def test_weights_weigh_instances():
    instances = outrule.Instances.from_arrays(PREDICTIONS, OUTCOMES, weight=[3.0, 1.0])
    assert metrics.value(instances, decisions=DECISIONS) == (3 * 1.5 + 1.0) / 4
    assert metrics.squared_error(instances) == (3 * 0.5625 + 0.75) / 4
    assert metrics.squared_error(instances, per_entry=True) == (3 * 0.5625 + 0.75) / 12
    values = metrics.values_of_rules(BEST, [outrule.Fixed(2)], instances)
    assert values == {"always 2": pytest.approx(0.5)}
    gap = metrics.utility_gap(BEST, [outrule.Fixed(2)], instances, calibrated=PREDICTIONS)
    assert gap == pytest.approx((3 * 0.5 + 0.25) / 4 - 0.5)


def test_per_entry_counts_only_items_on_offer():
    available = np.array([[True, True, False], [True, False, False]])
    instances = outrule.Instances.from_arrays(PREDICTIONS, OUTCOMES, available=available)
    assert metrics.squared_error(instances, per_entry=True) == (0.25 + 0.0625 + 0.25) / 3
    assert metrics.value(instances, decisions=DECISIONS & available) == (1.0 + 0.0) / 2


def test_values_of_rules_are_means_of_their_outcomes():
    rules = [outrule.Fixed(0), outrule.Fixed(1), outrule.Multiplier([1, 1, 0], name="never 2")]
    values = metrics.values_of_rules(BEST, rules, PREDICTIONS, OUTCOMES)
    assert list(values) == ["always 0", "always 1", "never 2"]
    assert list(values.values()) == pytest.approx([0.625, 0.5, 0.625])


def test_violations_before_and_after():
    rules = [outrule.Fixed(1)]
    before = metrics.violations(BEST, rules, PREDICTIONS, OUTCOMES)
    assert before == pytest.approx({"always 1": (-0.25 + 0.5) / 2, "optimiser": (-0.5 - 0.5) / 2})
    after = metrics.violations(BEST, rules, PREDICTIONS, OUTCOMES, calibrated=OUTCOMES)
    assert after == {"always 1": 0.0, "optimiser": 0.0}


def test_utility_gap_is_against_the_best_rule_and_improvement_against_the_plain_optimiser():
    rules = [outrule.Fixed(0), outrule.Fixed(1)]
    perfect = metrics.utility_gap(BEST, rules, PREDICTIONS, OUTCOMES, calibrated=OUTCOMES)
    assert perfect == pytest.approx(1.0 - 0.625)
    assert metrics.improvement(BEST, PREDICTIONS, OUTCOMES, calibrated=OUTCOMES) == 1.0 - 0.375
    assert metrics.improvement(BEST, PREDICTIONS, OUTCOMES, calibrated=PREDICTIONS) == 0.0


@pytest.mark.parametrize("value_range", [(0.0, 1.0), (-2.0, 3.0)])
def test_gap_and_improvement_are_those_of_the_certificate(value_range):
    low, high = value_range
    generator = np.random.default_rng(0)

    def draw(n):
        chance = generator.random((n, 3))
        outcomes = np.where(generator.random((n, 3)) < chance, high, low)
        shifted = np.clip(chance + np.array([0.3, 0.0, -0.2]), 0, 1)
        return outrule.Instances.from_arrays(
            low + (high - low) * shifted,
            outcomes,
            weight=generator.choice([0.0, 1.0, 2.0], n),
            value_range=value_range,
        )

    rules = [outrule.Fixed(2), outrule.Multiplier([0.5, 1, 1], name="less of the first")]
    calibrator = outrule.DecisionCalibrator(outrule.TopK(2), rules, epsilon=0.05).fit(draw(400))
    instances = draw(300)
    certificate = outrule.certify(calibrator, instances)
    calibrated = calibrator.predict(instances)
    gap = metrics.utility_gap(calibrator.problem, rules, instances, calibrated=calibrated)
    improvement = metrics.improvement(calibrator.problem, instances, calibrated=calibrated)
    error = metrics.squared_error(instances)
    assert min(rule.difference.mean for rule in certificate.rules) == pytest.approx(gap)
    assert certificate.improvement.mean == pytest.approx(improvement)
    assert certificate.squared_error_before == pytest.approx(error)
    values = metrics.values_of_rules(calibrator.problem, rules, instances)
    assert {rule.name: rule.value for rule in certificate.rules} == pytest.approx(values)
    after = metrics.violations(calibrator.problem, rules, instances, calibrated=calibrated)
    assert {v.test: v.after.mean for v in certificate.violations} == pytest.approx(after)


def test_what_is_wrong_with_the_input_is_said():
    instances = outrule.Instances.from_arrays(PREDICTIONS, OUTCOMES)
    with pytest.raises(DataError, match="which must already contain it"):
        metrics.value(instances, OUTCOMES, decisions=DECISIONS)
    with pytest.raises(DataError, match=r"decisions must be booleans. Got float64 instead"):
        metrics.value(instances, decisions=DECISIONS.astype(float))
    with pytest.raises(DataError, match=r"must have shape \(2, 3\)"):
        metrics.value(instances, decisions=DECISIONS[:1])
    with pytest.raises(DataError, match="calibrated predictions must be finite"):
        metrics.improvement(BEST, instances, calibrated=np.full((2, 3), np.nan))
    with pytest.raises(ArgumentError, match="'outcomes' argument of value must be given"):
        metrics.value(PREDICTIONS, decisions=DECISIONS)
    for name, extra in (
        ("values_of_rules", {}),
        ("violations", {}),
        ("utility_gap", {"calibrated": PREDICTIONS}),
    ):
        with pytest.raises(ArgumentError, match=f"'outcomes' argument of {name} must be given"):
            getattr(metrics, name)(BEST, [outrule.Fixed(0)], PREDICTIONS, **extra)
