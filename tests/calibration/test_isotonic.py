"""Where the loop starts: isotonic regression, cross-fitted, or a column of another calibrator."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st
from sklearn.isotonic import IsotonicRegression

import outrule
from letter import algorithm_one
from outrule.calibration.isotonic import cut_bins


def draw(n=60, m=3, seed=0):
    """Item j's outcomes are a power of the predictions that only its own curve can undo."""
    generator = np.random.default_rng(seed)
    predictions = generator.random((n, m))
    outcomes = predictions ** np.arange(1, m + 1) + generator.normal(0, 0.05, (n, m))
    return predictions, np.clip(outcomes, 0, 1)


def data(predictions, outcomes, **kinds):
    return outrule.Instances.from_arrays(predictions, outcomes, **kinds)


def cross_fit(isotonic, instances, seed=0):
    return isotonic.cross_fit(instances, np.random.default_rng(seed))


def calibrator(start=None, epsilon=1.0, problem=None, **settings):
    """Epsilon 1 tolerates any violation: no patch is made, so predict shows the start."""
    rules = [outrule.Fixed(0)]
    problem = outrule.BestAction() if problem is None else problem
    return algorithm_one(problem, rules, epsilon, start=start, **settings)


@pytest.mark.parametrize(
    "isotonic", [outrule.Isotonic(), outrule.Isotonic(per_item=False)], ids=repr
)
def test_an_outcome_does_not_influence_the_start_of_its_own_instance(isotonic):
    predictions, outcomes = draw()
    start = cross_fit(isotonic, data(predictions, outcomes)).reshape(predictions.shape)
    for i in range(0, 60, 7):
        changed = outcomes.copy()
        changed[i] = 1 - changed[i]
        again = cross_fit(isotonic, data(predictions, changed)).reshape(predictions.shape)
        assert (again[i] == start[i]).all()
        assert (again != start).any()


def test_an_outcome_does_not_influence_the_start_of_its_own_cluster():
    predictions, outcomes = draw()
    clusters = np.arange(60) // 6
    start = cross_fit(outrule.Isotonic(), data(predictions, outcomes, cluster=clusters))
    changed = outcomes.copy()
    changed[12] = 1 - changed[12]  # instances 12 to 17 are one cluster
    again = cross_fit(outrule.Isotonic(), data(predictions, changed, cluster=clusters))
    same = (again == start).reshape(predictions.shape).all(axis=1)
    assert same[12:18].all()
    assert not same.all()


def test_folds_are_seeded():
    instances = data(*draw())
    one, same, other = (cross_fit(outrule.Isotonic(), instances, seed) for seed in (1, 1, 2))
    assert (one == same).all()
    assert (one != other).any()


def test_pooled_is_one_isotonic_regression_over_all_items():
    predictions, outcomes = draw()
    fitted = outrule.Isotonic(per_item=False).fit(data(predictions, outcomes))
    expected = IsotonicRegression(out_of_bounds="clip").fit(predictions.ravel(), outcomes.ravel())
    new = np.linspace(0, 1, 30).reshape(10, 3)
    calibrated = fitted.apply(outrule.Instances.from_arrays(new))
    np.testing.assert_allclose(calibrated, expected.predict(new.ravel()), atol=1e-12)


def test_per_item_is_one_isotonic_regression_for_every_item():
    predictions, outcomes = draw()
    fitted = outrule.Isotonic().fit(data(predictions, outcomes))
    new = np.linspace(0, 1, 30).reshape(10, 3)
    calibrated = fitted.apply(outrule.Instances.from_arrays(new)).reshape(10, 3)
    for j in range(3):
        expected = IsotonicRegression(out_of_bounds="clip").fit(predictions[:, j], outcomes[:, j])
        np.testing.assert_allclose(calibrated[:, j], expected.predict(new[:, j]), atol=1e-12)


def test_weights_count_as_repeated_instances():
    predictions, outcomes = draw(30)
    weights = np.arange(30) % 3
    rows = np.repeat(np.arange(30), weights)
    weighted = outrule.Isotonic().fit(data(predictions, outcomes, weight=weights))
    repeated = outrule.Isotonic().fit(data(predictions[rows], outcomes[rows]))
    new = outrule.Instances.from_arrays(draw(20, seed=5)[0])
    np.testing.assert_allclose(weighted.apply(new), repeated.apply(new), atol=1e-9)


def table(names, predictions, outcomes, weights=None):
    n, m = predictions.shape
    columns = {
        "trip": np.repeat(np.arange(n), m),
        "item": list(names) * n,
        "p": predictions.ravel(),
        "y": outcomes.ravel(),
        "w": np.ones(n * m) if weights is None else np.repeat(weights, m),
    }
    return pl.DataFrame(columns)


def from_table(frame):
    return outrule.Instances.from_table(
        frame, instance="trip", item="item", prediction="p", outcome="y", weight="w"
    )


def test_an_item_that_training_never_saw_uses_the_pooled_curve():
    predictions, outcomes = draw()
    frame = table("abc", predictions, outcomes)
    seen, pooled = from_table(frame), outrule.Isotonic(per_item=False)
    new = from_table(table("abx", *draw(10, seed=4)))
    mixed = outrule.Isotonic().fit(seen).apply(new).reshape(10, 3)
    expected = pooled.fit(seen).apply(new).reshape(10, 3)
    assert (mixed[:, 2] == expected[:, 2]).all()
    assert (mixed[:, 0] != expected[:, 0]).any()


@given(st.lists(st.integers(0, 30), min_size=1, max_size=200), st.integers(2, 20))
def test_bins_have_enough_and_cut_no_ties(numbers, least):
    x = np.sort(np.array(numbers, dtype=float))
    first = cut_bins(x, least)
    sizes = np.diff(np.append(first, len(x)))
    assert first[0] == 0
    assert len(first) == 1 or sizes.min() >= least
    assert (x[first[1:] - 1] < x[first[1:]]).all()
    assert len(cut_bins(np.arange(len(x)) / 7, least)) == max(len(x) // least, 1)


def test_curves_through_bins_are_isotonic_regressions_of_their_means():
    predictions, outcomes = draw()
    least, new = 7, np.linspace(0, 1, 30).reshape(10, 3)
    fitted = outrule.Isotonic().fit(data(predictions, outcomes), least=least)
    calibrated = fitted.apply(outrule.Instances.from_arrays(new)).reshape(10, 3)
    for j in range(3):
        order = np.argsort(predictions[:, j])
        bins = np.split(order, [i * 60 // 8 for i in range(1, 8)])  # 60 // 7 of them
        x, y = ([column[rows, j].mean() for rows in bins] for column in (predictions, outcomes))
        sizes = [len(rows) for rows in bins]
        expected = IsotonicRegression(out_of_bounds="clip").fit(x, y, sizes)
        np.testing.assert_allclose(calibrated[:, j], expected.predict(new[:, j]), atol=1e-12)


def test_items_with_few_outcomes_share_a_curve_through_bins():
    predictions, outcomes = draw()
    few = np.arange(60)[:, None] < np.array([60, 60, 49])  # of the third item
    seen = data(predictions, outcomes, available=few)
    curves = outrule.Isotonic().fit(seen, least=25).curves
    assert set(curves) == {0, 1, None}
    pooled = outrule.Isotonic(per_item=False).fit(seen, least=25)
    new = outrule.Instances.from_arrays(draw(10, seed=4)[0])
    mixed = outrule.Isotonic().fit(seen, least=25).apply(new).reshape(10, 3)
    assert (mixed[:, 2] == pooled.apply(new).reshape(10, 3)[:, 2]).all()


def test_an_item_may_be_called_pooled():
    predictions, outcomes = draw()
    new = draw(10, seed=4)

    def calibrate(names):
        fitted = outrule.Isotonic().fit(from_table(table(names, predictions, outcomes)))
        return fitted.apply(from_table(table([*names[:2], "unseen"], *new)))

    assert (calibrate(["a", "pooled", "z"]) == calibrate(["a", "b", "z"])).all()


def test_an_item_seen_only_with_weight_zero_uses_the_pooled_curve():
    predictions, outcomes = draw(40)
    available = np.ones((40, 3), dtype=bool)
    available[:20, 2] = False
    weights = np.r_[np.ones(20), np.zeros(20)]
    range_50 = {"value_range": (0, 50), "available": available, "weight": weights}
    fitted = outrule.Isotonic().fit(data(50 * predictions, 50 * outcomes, **range_50))
    pooled = outrule.Isotonic(per_item=False).fit(data(50 * predictions, 50 * outcomes, **range_50))
    new = data(50 * predictions, None, value_range=(0, 50))
    assert (fitted.apply(new).reshape(40, 3)[:, 2] == pooled.apply(new).reshape(40, 3)[:, 2]).all()


def test_the_start_is_scaled_with_the_value_range():
    predictions, outcomes = draw()
    one = cross_fit(outrule.Isotonic(), data(predictions, outcomes))
    scaled = data(50 * predictions - 5, 50 * outcomes - 5, value_range=(-5, 45))
    np.testing.assert_allclose(cross_fit(outrule.Isotonic(), scaled), 50 * one - 5, atol=1e-9)


def test_the_reject_item_is_neither_learned_from_nor_moved():
    problem = outrule.Rejection(cost=0.2)
    classes, labels = outrule.worlds.rejection(200, seed=0)
    predictions, outcomes = problem.with_reject(classes), problem.with_reject(labels)
    fitted = calibrator(outrule.Isotonic(per_item=False), problem=problem, random_state=0)
    fitted.fit(predictions, outcomes)
    assert fitted.patches_ == []
    calibrated = fitted.predict(predictions)
    assert (calibrated[:, 2] == predictions[:, 2]).all()
    expected = IsotonicRegression(out_of_bounds="clip").fit(classes.ravel(), labels.ravel())
    start = expected.predict(classes.ravel()).reshape(-1, 2)
    shift = (start.sum(axis=1, keepdims=True) - 1) / 2
    np.testing.assert_allclose(calibrated[:, :2], np.clip(start - shift, 0, 1), atol=1e-9)


def test_new_instances_get_the_regression_on_all_training_data():
    predictions, outcomes = draw()
    fitted = calibrator(outrule.Isotonic()).fit(predictions, outcomes)
    assert fitted.patches_ == []
    new, _ = draw(10, seed=9)
    expected = outrule.Isotonic().fit(data(predictions, outcomes))
    calibrated = expected.apply(outrule.Instances.from_arrays(new))
    assert fitted.predict(new).ravel().tolist() == calibrated.tolist()


def test_the_loop_starts_from_the_cross_fitted_predictions():
    predictions, outcomes = draw()
    fitted = calibrator(outrule.Isotonic(folds=3), random_state=4).fit(predictions, outcomes)
    instances = data(predictions, outcomes)
    start = outrule.Isotonic(folds=3).cross_fit(instances, np.random.default_rng(4))
    error = ((start - instances.outcome) ** 2).sum() / len(instances)
    assert fitted.history_[0].squared_error == pytest.approx(error, abs=1e-9)


def test_partial_fit_fits_the_curves_on_its_first_batch():
    predictions, outcomes = draw()
    fitted = calibrator(outrule.Isotonic()).partial_fit(predictions[:40], outcomes[:40])
    before = fitted.predict(predictions)
    fitted.partial_fit(predictions[40:], outcomes[40:])
    assert (fitted.predict(predictions) == before).all()
    expected = outrule.Isotonic().fit(data(predictions[:40], outcomes[:40]))
    assert before.ravel().tolist() == expected.apply(data(predictions, None)).tolist()


def test_isotonic_refuses_a_single_fold():
    with pytest.raises(outrule.ArgumentError, match="'folds' argument of Isotonic must be an int"):
        outrule.Isotonic(folds=1)


@pytest.mark.parametrize("per_item", ["x", 1, None])
def test_isotonic_is_per_item_or_not(per_item):
    message = f"The 'per_item' argument of Isotonic must be a bool. Got {per_item!r} instead."
    with pytest.raises(outrule.ArgumentError, match=re.escape(message)):
        outrule.Isotonic(per_item=per_item)


# --- a start column ------------------------------------------------------------------------------


def test_a_given_start_is_where_the_loop_starts_and_replays_from():
    predictions, outcomes = draw()
    start = np.clip(outcomes + 0.1, 0, 1)
    instances = data(predictions, outcomes, start=start)
    fitted = calibrator().fit(instances)
    assert fitted.patches_ == []
    assert (fitted.predict(instances) == start).all()
    fitted = calibrator(epsilon=0.05).fit(instances)
    assert fitted.patches_
    assert (fitted.predict(instances) != start).any()


def test_rules_decide_on_the_original_predictions_whatever_the_start():
    predictions, outcomes = draw()
    rules = outrule.multipliers(3, levels=(0, 1))
    fitted = algorithm_one(outrule.BestAction(), rules, 0.05)
    plain = fitted.fit(predictions, outcomes).rule_values_
    started = fitted.fit(data(predictions, outcomes, start=1 - predictions)).rule_values_
    assert (plain == started).all()


def test_a_start_that_is_missing_at_predict_is_refused():
    predictions, outcomes = draw()
    fitted = calibrator().fit(data(predictions, outcomes, start=predictions))
    with pytest.raises(outrule.DataError, match="these instances have no start predictions"):
        fitted.predict(predictions)
    with pytest.raises(outrule.DataError, match="these instances have no start predictions"):
        fitted.partial_fit(predictions, outcomes)


def test_a_start_that_fit_did_not_have_is_refused():
    predictions, outcomes = draw()
    fitted = calibrator().fit(predictions, outcomes)
    with pytest.raises(outrule.DataError, match="those of fit had none: give start= for both"):
        fitted.predict(data(predictions, None, start=predictions))


def test_two_starts_are_refused():
    predictions, outcomes = draw()
    with pytest.raises(outrule.DataError, match="choose one"):
        calibrator(outrule.Isotonic()).fit(data(predictions, outcomes, start=predictions))


def test_a_start_must_have_the_constant_of_the_reject_item():
    problem = outrule.Rejection(cost=0.2)
    predictions = problem.with_reject([[0.4, 0.6], [0.5, 0.5]])
    start = predictions.copy()
    start[1, 2] = 0.1
    instances = data(predictions, problem.with_reject([[1, 0], [0, 1]]), start=start)
    with pytest.raises(outrule.DataError, match=r"start of the reject item is 0.1 at instance 1"):
        calibrator(problem=problem).fit(instances)
