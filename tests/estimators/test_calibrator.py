"""The estimator: its parameters, its inputs of every kind, and what it refuses."""

from __future__ import annotations

import copy
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from scipy.special import expit
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import outrule
import reference
import strategies
from letter import algorithm_one

CHECKS = [
    outrule.Reuse(),
    outrule.Reuse(validation=0.25),
    outrule.FreshBatches(40),
    outrule.PrivateReuse(privacy=1e5),
]
quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def draw(n=200, seed=0, m=4):
    generator = np.random.default_rng(seed)
    predictions = generator.random((n, m))
    outcomes = np.clip(
        predictions * np.linspace(0.3, 1, m) + generator.normal(0, 0.1, (n, m)), 0, 1
    )
    return predictions, outcomes


def calibrator(problem=None, epsilon=0.05, rules=None, **settings):
    problem = outrule.BestAction() if problem is None else problem
    rules = outrule.multipliers(4, limit=20) if rules is None else rules
    return algorithm_one(problem, rules, epsilon, **settings)


def assert_same_patches(one, other, scale=1.0):
    assert [patch.test for patch in one] == [patch.test for patch in other]
    steps = [patch.step * scale for patch in one], [patch.step for patch in other]
    np.testing.assert_allclose(*steps, rtol=1e-9, atol=1e-9)


# --- as scikit-learn has it ----------------------------------------------------------------------


def test_parameters_can_be_read_set_and_cloned():
    check, step, start = outrule.FreshBatches(8), outrule.FixedStep(), outrule.Isotonic()
    settings = {"check": check, "step": step, "start": start, "max_rounds": 7, "random_state": 3}
    one = calibrator(**settings)
    assert one.get_params(deep=False).items() >= settings.items()
    assert one.set_params(epsilon=0.5, step=None).epsilon == 0.5
    other = clone(one)
    assert other is not one
    assert other.get_params(deep=False).keys() == one.get_params(deep=False).keys()
    assert (other.check, other.start, other.epsilon) == (check, start, 0.5)
    assert not hasattr(clone(calibrator().fit(*draw())), "patches_")


def test_a_clone_fits_the_same():
    one = calibrator().fit(*draw())
    assert clone(one).fit(*draw()).patches_ == one.patches_


def test_settings_are_single_values_for_scikit_learn():
    one = calibrator(check=outrule.Reuse(validation=0.25), random_state=0)
    one.set_params(check=outrule.Reuse(alert=0.5), step=outrule.FixedStep())
    assert not [name for name in one.get_params(deep=True) if "__" in name]
    assert clone(one).check == outrule.Reuse(alert=0.5)
    assert copy.deepcopy(one.fit(*draw())).patches_ == one.patches_


def by_loop(epsilons, predictions, outcomes, folds, **settings):
    """The mean score of every epsilon, as one would write it by hand."""
    return [
        np.mean(
            [
                calibrator(epsilon=epsilon, **settings)
                .fit(predictions[train], outcomes[train])
                .score(predictions[test], outcomes[test])
                for train, test in folds.split(predictions)
            ]
        )
        for epsilon in epsilons
    ]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_search_over_epsilon_finds_what_a_loop_finds(n_jobs):
    predictions, outcomes = draw()
    epsilons, folds = [0.5, 0.1, 0.02, 0.005], KFold(4, shuffle=True, random_state=0)
    scores = by_loop(epsilons, predictions, outcomes, folds)
    search = GridSearchCV(calibrator(), {"epsilon": epsilons}, cv=folds, n_jobs=n_jobs)
    search.fit(predictions, outcomes)
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], scores)
    assert search.best_params_ == {"epsilon": epsilons[int(np.argmax(scores))]}
    assert search.best_estimator_.patches_ == (
        calibrator(epsilon=search.best_params_["epsilon"]).fit(predictions, outcomes).patches_
    )


def test_whole_settings_can_be_searched_over():
    grid = {
        "check": [outrule.Reuse(), outrule.Reuse(alert=0.5)],
        "start": [None, outrule.Isotonic()],
    }
    search = GridSearchCV(calibrator(random_state=0), grid, cv=3).fit(*draw())
    assert len(search.cv_results_["params"]) == 4
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize("make", [np.asarray, pd.DataFrame, lambda array: pl.DataFrame(array)])
def test_cross_validation_scores_decisions(make):
    predictions, outcomes = draw()
    scores = cross_val_score(calibrator(), make(predictions), make(outcomes), cv=KFold(4))
    expected = by_loop([0.05], predictions, outcomes, KFold(4))
    assert scores.mean() == pytest.approx(expected[0])


def test_it_can_be_the_last_step_of_a_pipeline():
    predictions, outcomes = draw()
    scores = np.log(predictions / (1 - predictions))
    steps = make_pipeline(FunctionTransformer(expit), calibrator()).fit(scores, outcomes)
    one = calibrator().fit(expit(scores), outcomes)
    assert steps[-1].patches_ == one.patches_
    assert (steps.predict(scores) == one.predict(expit(scores))).all()
    assert steps.score(scores, outcomes) == one.score(expit(scores), outcomes)


def test_a_search_passes_weights_on_where_they_are_asked_for():
    predictions, outcomes = draw()
    weights = np.linspace(0, 1, 200) ** 3
    folds = list(KFold(2).split(predictions))
    with config_context(enable_metadata_routing=True):
        one = calibrator().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        search = GridSearchCV(one, {"epsilon": [0.005]}, cv=folds)
        search.fit(predictions, outcomes, sample_weight=weights)
    expected = [
        calibrator(epsilon=0.005)
        .fit(predictions[train], outcomes[train], sample_weight=weights[train])
        .score(predictions[test], outcomes[test], sample_weight=weights[test])
        for train, test in folds
    ]
    assert search.best_score_ == pytest.approx(np.mean(expected))
    unweighted = by_loop([0.005], predictions, outcomes, KFold(2))
    assert search.best_score_ != pytest.approx(unweighted[0])


def test_outcomes_are_no_metadata():
    with config_context(enable_metadata_routing=True):
        requests = calibrator().get_metadata_routing()
    for method in ("fit", "partial_fit", "score"):
        assert set(getattr(requests, method).requests) == {"available", "sample_weight"}
    assert set(requests.predict.requests) == {"available"}


@pytest.mark.parametrize("method", ["predict", "decide"])
def test_nothing_is_predicted_before_fit(method):
    predictions, _ = draw()
    with pytest.raises(NotFittedError):
        getattr(calibrator(), method)(predictions)
    with pytest.raises(NotFittedError):
        getattr(calibrator(), method)(outrule.Instances.from_arrays(predictions))


def test_nothing_is_scored_or_saved_before_fit(tmp_path):
    with pytest.raises(NotFittedError):
        calibrator().score(*draw())
    with pytest.raises(NotFittedError):
        calibrator().save(tmp_path / "model.json")


def test_fit_returns_the_calibrator():
    one = calibrator()
    assert one.fit(*draw()) is one
    assert one.partial_fit(*draw()) is one


@quiet
@pytest.mark.parametrize("check", CHECKS, ids=repr)
def test_fit_edits_neither_parameters_nor_inputs(check):
    predictions, outcomes = draw()
    weights, available = np.linspace(0.5, 1, 200), np.random.default_rng(0).random((200, 4)) < 0.9
    available[:, 0] = True
    private = isinstance(check, outrule.PrivateReuse)
    start, most = (None, 50) if private else (outrule.Isotonic(), None)
    one = calibrator(check=check, start=start, max_rounds=most, random_state=1)
    before = one.get_params(deep=False)
    inputs = (predictions, outcomes, available, weights)
    copies = copy.deepcopy(inputs)
    one.fit(predictions, outcomes, available=available, sample_weight=weights)
    one.predict(predictions, available=available)
    one.decide(predictions, available=available)
    after = one.get_params(deep=False)
    assert all(after[name] is value for name, value in before.items())
    for array, same in zip(inputs, copies, strict=True):
        np.testing.assert_array_equal(array, same)


@pytest.mark.parametrize("start", [None, outrule.Isotonic()])
def test_read_only_inputs_are_enough(start):
    predictions, outcomes = draw()
    predictions.flags.writeable = outcomes.flags.writeable = False
    one = calibrator(start=start).fit(predictions, outcomes)
    assert one.predict(predictions).flags.writeable


@quiet
@pytest.mark.parametrize("check", CHECKS, ids=repr)
@pytest.mark.parametrize("start", [None, outrule.Isotonic()])
def test_the_same_input_and_seed_give_the_same_bits(check, start):
    private = isinstance(check, outrule.PrivateReuse)
    settings = {"start": None, "max_rounds": 50} if private else {"start": start}
    one, other = (
        calibrator(check=check, random_state=5, **settings).fit(*draw()) for _ in range(2)
    )
    assert one.patches_ == other.patches_
    assert one.history_ == other.history_
    predictions, _ = draw(seed=1)
    assert (one.predict(predictions) == other.predict(predictions)).all()


def test_lists_and_other_types_are_read_as_numbers():
    predictions, outcomes = draw(20)
    outcomes = np.rint(outcomes)
    one = calibrator().fit(predictions, outcomes)
    other = calibrator().fit(predictions.tolist(), outcomes.astype(bool))
    assert one.patches_ == other.patches_
    assert (other.predict(predictions.tolist()) == one.predict(predictions)).all()


# --- what leaves ---------------------------------------------------------------------------------


@given(st.one_of(strategies.cases(), strategies.simplex_cases()), st.booleans())
@settings(max_examples=60)
def test_predict_on_the_training_data_has_the_error_the_loop_ended_with(case, with_start):
    kinds = {"start": case.predictions} if with_start else {}
    instances = outrule.Instances.from_arrays(case.predictions, case.outcomes, **kinds)
    one = algorithm_one(case.problem, case.rules, 0.1).fit(instances)
    calibrated = one.predict(instances)
    error = reference.squared_error(calibrated.tolist(), case.outcomes.tolist())
    assert one.history_[-1].squared_error == pytest.approx(error, abs=1e-10)
    assert (one.decide(instances) == case.problem.solve(calibrated)).all()


def test_predict_does_not_depend_on_the_other_instances():
    one = calibrator(outrule.TopK(2)).fit(*draw())
    new, _ = draw(seed=3)
    together = one.predict(new)
    assert all((one.predict(new[i : i + 1]) == together[i]).all() for i in range(9))


def test_score_is_the_mean_value_of_the_decisions():
    predictions, outcomes = draw()
    one = calibrator(outrule.TopK(2)).fit(predictions, outcomes)
    expected = reference.value(outcomes, one.decide(predictions))
    assert one.score(predictions, outcomes) == pytest.approx(expected)
    values = np.where(one.decide(predictions), outcomes, 0).sum(axis=1)
    weights = np.linspace(0, 1, 200)
    weighted = one.score(predictions, outcomes, sample_weight=weights)
    assert weighted == pytest.approx(np.average(values, weights=weights))


def test_rule_values_are_the_means_of_the_rules_on_the_training_data():
    predictions, outcomes = draw()
    one = calibrator(rules=[outrule.Fixed(j) for j in range(4)]).fit(predictions, outcomes)
    np.testing.assert_allclose(one.rule_values_, outcomes.mean(axis=0), atol=1e-11)
    assert one.best_rule_ == np.argmax(outcomes.mean(axis=0))


def test_the_fitted_attributes_say_what_was_seen():
    one = calibrator(outrule.GreedyMatching([(0, 1), (2, 3), (0, 2), (1, 3)]), epsilon=0.3)
    one.fit(*draw())
    assert (one.k_, one.model_.n_items, one.model_.value_range) == (2, 4, (0.0, 1.0))
    assert one.tolerance_ == pytest.approx(0.3 / 1.5)
    assert one.model_.weight_seen == 200


# --- units, weights, availability ----------------------------------------------------------------


@pytest.mark.parametrize("step", [outrule.FixedStep(), outrule.LineSearch()])
@pytest.mark.parametrize("problem", [outrule.BestAction(), outrule.TopK(2)])
@pytest.mark.parametrize("epsilon", [0.05, None])
def test_values_and_epsilon_times_2020_give_the_same_patches_times_2020(problem, step, epsilon):
    def euros(predictions, outcomes):
        return outrule.Instances.from_arrays(
            2_020 * predictions, 2_020 * outcomes, value_range=(0, 2_020)
        )

    data, new = draw(), draw(seed=1)
    one = calibrator(problem, epsilon, step=step).fit(*data)
    epsilon = None if epsilon is None else 2_020 * epsilon
    other = calibrator(problem, epsilon, step=step).fit(euros(*data))
    assert len(one.patches_) > 3
    assert other.status_ == "converged"
    assert other.tolerance_ == pytest.approx(2_020 * one.tolerance_)
    assert_same_patches(one.patches_, other.patches_, 2_020.0)
    assert (other.decide(euros(*new)) == one.decide(new[0])).all()
    found, expected = outrule.certify(other, euros(*new)), outrule.certify(one, *new)
    assert (found.verdict, found.verdicts) == (expected.verdict, expected.verdicts)
    assert found.margin == other.model_.epsilon == pytest.approx(2_020 * expected.margin)
    assert found.gap_lower == pytest.approx(2_020 * expected.gap_lower)
    assert outrule.verify(found, other, euros(*new)) is None


def test_best_action_may_have_negative_values():
    predictions, outcomes = draw()
    columns = {"x": np.arange(200) % 4}
    rules = [
        *(outrule.Fixed(j) for j in range(4)),
        outrule.Choose("by x", lambda view: view["x"] == view["item"]),
    ]

    def fit(scale, shift, ends):
        instances = outrule.Instances.from_arrays(
            scale * predictions + shift, scale * outcomes + shift, columns=columns, value_range=ends
        )
        return calibrator(rules=rules, epsilon=0.02 * scale).fit(instances), instances

    (one, _), (other, instances) = fit(1, 0, (0, 1)), fit(2, -1, (-1, 1))
    assert len(one.patches_) > 3
    assert_same_patches(one.patches_, other.patches_, 2.0)
    np.testing.assert_allclose(other.rule_values_, 2 * one.rule_values_ - 1, atol=1e-9)
    assert other.predict(instances).min() >= -1


@pytest.mark.parametrize("start", [None, outrule.Isotonic()])
def test_integer_weights_are_repeated_instances(start):
    predictions, outcomes = draw()
    weights = np.arange(200) % 3 + 1
    rows = np.repeat(np.arange(200), weights)
    clusters = {"cluster": np.arange(200)}  # so that the folds of both are the same
    weighted = outrule.Instances.from_arrays(predictions, outcomes, weight=weights, **clusters)
    repeated = outrule.Instances.from_arrays(predictions[rows], outcomes[rows], cluster=rows)
    one, other = (
        calibrator(epsilon=0.005, start=start, random_state=0).fit(instances)
        for instances in (weighted, repeated)
    )
    assert one.patches_
    assert_same_patches(one.patches_, other.patches_)
    np.testing.assert_allclose(one.rule_values_, other.rule_values_, atol=1e-9)


def test_instances_of_weight_zero_change_nothing():
    predictions, outcomes = draw()
    weights = np.random.default_rng(0).random(200) + 0.1
    one = calibrator().fit(predictions, outcomes, sample_weight=weights)
    other = calibrator().fit(
        np.vstack([predictions, 1 - predictions]),
        np.vstack([outcomes, np.ones_like(outcomes)]),
        sample_weight=np.r_[weights, np.zeros(200)],
    )
    assert_same_patches(one.patches_, other.patches_)
    np.testing.assert_allclose(one.rule_values_, other.rule_values_, atol=1e-9)


def test_weights_of_another_scale_change_nothing():
    weights = np.random.default_rng(0).random(200) + 0.1
    one = calibrator().fit(*draw(), sample_weight=weights)
    other = calibrator().fit(*draw(), sample_weight=1e6 * weights)
    assert_same_patches(one.patches_, other.patches_)


def mask(n=200, m=4):
    available = np.random.default_rng(1).random((n, m)) < 0.7
    available[:, 1] = True
    return available


def long_table(predictions, outcomes, available, seed=0):
    """One row per item on offer, in random order; item names sort as the columns stand."""
    trip, item = np.nonzero(available)
    order = np.random.default_rng(seed).permutation(len(trip))
    trip, item = trip[order], item[order]
    columns = {
        "trip": [f"t{number:04d}" for number in trip],
        "item": item,
        "p": predictions[trip, item],
        "y": outcomes[trip, item],
    }
    return columns, trip, item


def from_table(frame, outcome="y"):
    return outrule.Instances.from_table(
        frame, instance="trip", item="item", prediction="p", outcome=outcome
    )


@pytest.mark.parametrize(
    "problem",
    [
        outrule.BestAction(),
        outrule.TopK(2),
        outrule.Matching([(0, 1), (1, 2), (2, 3), (0, 3)]),
        outrule.Assignment(2, 2),
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_unavailable_items_are_as_if_a_table_did_not_have_them(problem):
    predictions, outcomes = draw()
    available = mask()
    hidden = np.where(available, predictions, np.nan)
    one = calibrator(problem).fit(hidden, np.where(available, outcomes, -7), available=available)
    columns, trip, item = long_table(predictions, outcomes, available)
    other = calibrator(problem).fit(from_table(pl.DataFrame(columns)))
    assert one.patches_ == other.patches_
    assert one.history_ == other.history_
    calibrated = one.predict(hidden, available=available)
    assert np.isnan(calibrated[~available]).all()
    column = other.predict(from_table(pl.DataFrame(columns), None))
    assert (column.to_numpy() == calibrated[trip, item]).all()
    decided = one.decide(hidden, available=available)
    assert not decided[~available].any()
    chosen = other.decide(from_table(pl.DataFrame(columns), None))
    assert (chosen.to_numpy() == decided[trip, item]).all()


@pytest.mark.parametrize(
    ("make", "kind"),
    [(pd.DataFrame, pd.Series), (pl.DataFrame, pl.Series), (pa.table, pa.Array)],
    ids=["pandas", "polars", "arrow"],
)
def test_a_table_gets_a_column_back_in_its_own_row_order(make, kind):
    predictions, outcomes = draw()
    everything = np.ones((200, 4), dtype=bool)
    columns, trip, item = long_table(predictions, outcomes, everything)
    frame = make(columns)
    if kind is pd.Series:
        frame.index = [f"row {i}" for i in range(len(frame))]
    one = calibrator().fit(predictions, outcomes)
    other = calibrator().fit(from_table(frame))
    assert one.patches_ == other.patches_
    column = other.predict(from_table(frame, None))
    chosen = other.decide(from_table(frame, None))
    assert isinstance(column, kind)
    assert isinstance(chosen, kind)
    assert (np.asarray(column) == one.predict(predictions)[trip, item]).all()
    assert (np.asarray(chosen) == one.decide(predictions)[trip, item]).all()
    if kind is pd.Series:
        assert column.index.tolist() == frame.index.tolist()


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0, -0.1, np.inf, np.nan, "0.1", True])
def test_epsilon_must_be_a_positive_number(epsilon):
    message = "The 'epsilon' argument of DecisionCalibrator must be a float greater than 0. Got "
    with pytest.raises(outrule.ArgumentError, match=message):
        calibrator(epsilon=epsilon).settings()


@pytest.mark.parametrize(
    ("problem", "high", "good", "bad"),
    [
        (outrule.BestAction(), 1.0, (1e-9, 1.0), (9e-10, 1.0001)),
        (outrule.BestAction(), 2_020.0, (1.5, 2_020.0), (2e-6, 2_021.0)),
        (outrule.TopK(2), 10.0, (20.0,), (20.1,)),
    ],
)
def test_epsilon_lies_within_what_values_can_differ_by(problem, high, good, bad):
    predictions, outcomes = draw(n=20)
    scaled = outrule.Instances.from_arrays(
        high * predictions, high * outcomes, value_range=(0, high)
    )
    for epsilon in good:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            one = calibrator(problem, epsilon, max_rounds=1).fit(scaled)
        assert (one.model_.epsilon, one.tolerance_) == (epsilon, epsilon / 2)
    k = problem.lay(scaled).k
    for epsilon in bad:
        words = (
            f"must be a float in [{1e-9 * high:g}, {k * high:g}], in the units of the value: "
            f"decisions of up to {k} {'item' if k == 1 else 'items'} with values from 0 to "
            f"{high:g} differ by at most {k * high:g}. Got {epsilon} instead."
        )
        for method in ("fit", "partial_fit"):
            with pytest.raises(outrule.ArgumentError, match=re.escape(words)):
                getattr(calibrator(problem, epsilon), method)(scaled)


def test_private_reuse_needs_an_epsilon():
    words = "must be given with PrivateReuse: a tolerance read from the data is not private"
    with pytest.raises(outrule.ArgumentError, match=words):
        calibrator(epsilon=None, check=outrule.PrivateReuse()).fit(*draw())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"check": "reuse"},
            r"'check' .* must be FreshBatches\(...\), PrivateReuse\(...\) or Reuse",
        ),
        ({"check": outrule.Reuse}, "'check' argument of DecisionCalibrator"),
        ({"step": 0.1}, r"'step' .* must be FixedStep\(\) or LineSearch\(\). Got 0.1 instead"),
        (
            {"start": "isotonic"},
            r"'start' .* must be CrossFit\(\), Isotonic\(\) or None. Got 'isotonic' instead",
        ),
        ({"problem": "matching"}, r"'problem' .* must be a problem, such as BestAction\(\)"),
        ({"problem": outrule.BestAction}, "'problem' argument of DecisionCalibrator"),
        ({"rules": ()}, "'rules' .* must be a non-empty sequence of rules"),
        ({"rules": outrule.Fixed(0)}, "'rules' .* must be a non-empty sequence of rules"),
        ({"rules": ["always 1"]}, "'rules' .* must be a sequence of rules. Got 'always 1' instead"),
        ({"rules": [outrule.Fixed(0), outrule.Fixed(0)]}, "Two rules .* have the name 'always 0'"),
        ({"max_rounds": 0}, "'max_rounds' .* must be an int of at least 1. Got 0 instead"),
        ({"max_rounds": 2.5}, "'max_rounds' .* must be an int of at least 1"),
        ({"random_state": -1}, "'random_state' .* must be an int of at least 0. Got -1 instead"),
        ({"random_state": "x"}, "'random_state' .* must be an int of at least 0"),
    ],
)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_wrong_parameters_are_refused_by_name(settings, message, method):
    with pytest.raises(outrule.ArgumentError, match=message):
        getattr(calibrator(**settings), method)(*draw())


def test_fit_needs_outcomes():
    predictions, _ = draw()
    with pytest.raises(outrule.ArgumentError, match="requires y to be passed, but the target y is"):
        calibrator().fit(predictions)
    with pytest.raises(outrule.ArgumentError, match=r"'outcomes' .* must be given"):
        calibrator().fit(predictions)
    with pytest.raises(outrule.ArgumentError, match=r"'outcomes' .* must be given"):
        calibrator().fit(outrule.Instances.from_arrays(predictions))


@pytest.mark.parametrize("name", ["outcomes", "available", "sample_weight"])
def test_nothing_may_stand_beside_instances(name):
    predictions, outcomes = draw()
    extra = {"outcomes": outcomes, "available": outcomes > 0, "sample_weight": np.ones(200)}
    instances = outrule.Instances.from_arrays(predictions, outcomes)
    with pytest.raises(outrule.DataError, match=f"{name} was given next to Instances"):
        calibrator().fit(instances, **{name: extra[name]})


def test_another_number_of_items_is_refused():
    one = calibrator(rules=[outrule.Fixed(0)]).fit(*draw())
    for call in (one.predict, one.decide):
        with pytest.raises(outrule.DataError, match="predictions have 3 items, those of fit had 4"):
            call(np.full((2, 3), 0.5))
    with pytest.raises(outrule.DataError, match="predictions have 5 items, those of fit had 4"):
        one.partial_fit(*draw(m=5))


def test_another_value_range_is_refused():
    one = calibrator().fit(*draw())
    instances = outrule.Instances.from_arrays(draw()[0], value_range=(0, 2))
    with pytest.raises(outrule.DataError, match=r"the value range \(0.0, 2.0\), those of fit"):
        one.predict(instances)


def test_predictions_outside_the_fitted_range_are_refused():
    one = calibrator().fit(*draw())
    with pytest.raises(
        outrule.DataError, match=r"prediction is 1.5 at instance 0, item 2, outside"
    ):
        one.predict([[0.1, 0.2, 1.5, 0.3]])


def test_parameters_changed_after_fit_do_not_reach_the_model():
    predictions, outcomes = outrule.worlds.two_arms(2_000, seed=0, epsilon=0.3)
    held_out = outrule.Instances.from_arrays(*outrule.worlds.two_arms(2_000, seed=1, epsilon=0.3))
    calibrator = algorithm_one(outrule.BestAction(), [outrule.Fixed(1)], 0.05)
    certificate = outrule.certify(calibrator.fit(predictions, outcomes), held_out)
    threshold = outrule.summarise(calibrator, held_out)["model"]["threshold"]
    calibrator.set_params(check=outrule.Reuse(alert=0.25), step=outrule.FixedStep(), epsilon=0.5)
    outrule.verify(certificate, calibrator, held_out)
    outrule.verify(certificate, calibrator.model_, held_out)
    assert outrule.summarise(calibrator, held_out)["model"]["threshold"] == threshold
    assert outrule.certify(calibrator, held_out) == certificate
