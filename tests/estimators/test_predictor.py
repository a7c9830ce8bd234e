"""A model and its calibrator: what each of them sees, and what leaves."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    StratifiedKFold,
    TimeSeriesSplit,
    cross_val_predict,
)
from sklearn.multioutput import MultiOutputClassifier
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import outrule
from outrule.estimators.predictor import CalibratedPredictor


def draw(n=300, seed=0):
    """Features (n, 5) and outcomes (n, 4)."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, 5))
    raw = X[:, :4] + 0.8 * X[:, [1, 2, 3, 0]] ** 2 - 0.8
    return X, 1 / (1 + np.exp(-raw - generator.normal(0, 0.3, raw.shape)))


def calibrator(problem=None, rules=None, epsilon=0.005, **settings):
    problem = outrule.BestAction() if problem is None else problem
    rules = outrule.multipliers(4, limit=20) if rules is None else rules
    return outrule.DecisionCalibrator(problem, rules, epsilon, **{"start": None} | settings)


def logistic(**settings):
    return LogisticRegression(solver="newton-cholesky", **settings)


class Spy:
    """A rule that remembers what it was shown, and decides as the plain optimiser."""

    def __init__(self):
        self.seen = []

    def __deepcopy__(self, memo):  # a clone of the calibrator keeps it
        return self

    def __call__(self, view):
        self.seen.append(view.predictions.copy())
        return view.predictions

    def first(self):
        return self.seen[0]


class Memory(RegressorMixin, BaseEstimator):
    """Knows the outcomes of every row it was fitted on, and nothing else."""

    def fit(self, X, y, sample_weight=None):
        self.known_ = {tuple(row): outcome for row, outcome in zip(X, np.asarray(y), strict=True)}
        self.n_items_ = np.shape(y)[1]
        return self

    def predict(self, X):
        nothing = np.full(self.n_items_, 0.5)
        return np.array([self.known_.get(tuple(row), nothing) for row in X])


# --- what the calibrator sees --------------------------------------------------------------------


def test_a_model_that_memorises_fools_nobody():
    X, Y = draw(50)
    spy = Spy()
    one = CalibratedPredictor(Memory(), calibrator(rules=[outrule.Reweight("spy", spy)]))
    one.fit(X, Y)
    assert spy.first().shape == Y.shape
    assert (spy.first() == 0.5).all()
    assert (one.predict_original(X) == Y).all()


def test_a_fitted_model_is_taken_at_its_word():
    X, Y = draw(50)
    for model, settings in (
        (Memory().fit(X, Y), {"cv": "prefit"}),
        (FrozenEstimator(Memory().fit(X, Y)), {}),
    ):
        spy = Spy()
        rules = [outrule.Reweight("spy", spy)]
        one = CalibratedPredictor(model, calibrator(rules=rules), **settings).fit(X, Y)
        assert one.estimator_ is model
        assert (spy.first() == Y).all()


def test_later_instances_are_predicted_from_earlier_ones():
    X, Y = draw(60)
    spy, weights = Spy(), np.ones(60)
    rules = [outrule.Reweight("spy", spy)]
    one = CalibratedPredictor(LinearRegression(), calibrator(rules=rules), cv=TimeSeriesSplit(5))
    one.fit(X, Y, sample_weight=weights)
    assert len(spy.first()) == 50
    first = LinearRegression().fit(X[:10], Y[:10]).predict(X[10:20])
    np.testing.assert_allclose(spy.first()[:10], np.clip(first, 0, 1))
    assert one.calibrator_.model_.weight_seen == 50


def test_groups_stay_together():
    groups = np.arange(60) % 7
    X, Y = draw(60)
    X[:, 0] = groups

    class Apart(LinearRegression):
        def fit(self, X, y, sample_weight=None):
            self.groups_ = set(X[:, 0])
            return super().fit(X, y)

        def predict(self, X):
            assert len(self.groups_) == 7 or not self.groups_ & set(X[:, 0])
            return super().predict(X)

    for cv in (3, GroupKFold(3)):
        one = CalibratedPredictor(Apart(), calibrator(), cv=cv).fit(X, Y, groups=groups)
        assert one.certify(*draw(40, seed=1), groups=np.arange(40) // 4).n_observations == 10
    y = np.arange(60) // 7 % 3
    model = CalibratedPredictor(logistic(), calibrator(rules=[outrule.Fixed(0)]), cv=3)
    assert model.fit(X, y, groups=groups).classes_.tolist() == [0, 1, 2]


# --- regressors ----------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [LinearRegression(), RandomForestRegressor(10, random_state=0)])
def test_it_is_what_one_would_write_by_hand(model):
    X, Y = draw()
    new, _ = draw(seed=1)
    default, folds = {"start": outrule.CrossFit()}, KFold(4, shuffle=True, random_state=1)
    one = CalibratedPredictor(model, calibrator(**default), cv=folds)
    one.fit(X, Y)
    out_of_fold = cross_val_predict(model, X, Y, cv=folds)
    by_hand = calibrator(**default).fit(np.clip(out_of_fold, 0, 1), Y)
    assert by_hand.patches_
    assert one.calibrator_.patches_ == by_hand.patches_
    original = np.clip(clone(model).fit(X, Y).predict(new), 0, 1)
    assert (one.predict_original(new) == original).all()
    assert (one.predict(new) == by_hand.predict(original)).all()
    assert (one.decide(new) == by_hand.decide(original)).all()
    assert one.score(new, Y) == by_hand.score(original, Y)


def test_five_consecutive_folds_are_the_default():
    X, Y = draw()
    one, other = (
        CalibratedPredictor(LinearRegression(), calibrator(), **settings).fit(X, Y)
        for settings in ({}, {"cv": KFold(5)})
    )
    assert one.calibrator_.patches_ == other.calibrator_.patches_


def test_the_same_seed_gives_the_same_bits():
    X, Y = draw()
    model = CalibratedPredictor(
        RandomForestRegressor(5, random_state=3),
        calibrator(start=outrule.Isotonic(), random_state=1),
    )
    one, other = (clone(model).fit(X, Y) for _ in range(2))
    assert one.calibrator_.patches_ == other.calibrator_.patches_
    assert (one.predict(X) == other.predict(X)).all()


def test_another_range_is_only_another_unit():
    X, Y = draw()
    one = CalibratedPredictor(LinearRegression(), calibrator(epsilon=0.005)).fit(X, Y)
    euros = calibrator(epsilon=0.005 * 50)
    other = CalibratedPredictor(LinearRegression(), euros, value_range=(0, 50))
    other.fit(X, 50 * Y)
    np.testing.assert_allclose(other.predict(X), 50 * one.predict(X), atol=1e-9)
    assert other.predict_original(X).max() == 50


def test_matchings_are_decided_from_features():
    generator = np.random.default_rng(0)
    X, Y = generator.normal(size=(100, 3)), generator.random((100, 6))
    problem = outrule.Matching.complete(4)
    rules = outrule.multipliers(6, limit=10)
    one = CalibratedPredictor(LinearRegression(), calibrator(problem, rules, 0.3)).fit(X, Y)
    assert (one.decide(X).sum(axis=1) == 2).all()


def test_a_predictor_is_certified_on_new_data():
    X, Y = draw(4_000)
    one = CalibratedPredictor(LinearRegression(), calibrator(epsilon=0.1)).fit(X, Y)
    new = draw(4_000, seed=1)
    certificate = one.certify(*new, confidence=0.9)
    assert (certificate.verdict, certificate.confidence) == ("pass", 0.9)
    outrule.verify(certificate.to_json(), one.calibrator_, one.instances(*new))


@pytest.mark.parametrize("cv", [5, "prefit"])
def test_the_data_of_fit_are_not_certified(cv):
    X, Y = draw()
    one = CalibratedPredictor(LinearRegression().fit(X, Y), calibrator(), cv=cv).fit(X, Y)
    with pytest.raises(outrule.DataError, match="instances that fit has seen"):
        one.certify(X, Y)


# --- classifiers ---------------------------------------------------------------------------------


def iris():
    X, y = load_iris(return_X_y=True)
    return X, np.array(["setosa", "versicolor", "virginica"])[y]


@pytest.mark.parametrize("problem", [outrule.BestAction(), outrule.Classification()])
def test_classes_are_the_items(problem):
    X, y = iris()
    rules = [outrule.Fixed(j) for j in range(3)]
    model = logistic(class_weight={"setosa": 1, "versicolor": 2, "virginica": 1})
    one = CalibratedPredictor(model, calibrator(problem, rules)).fit(X, y)
    out_of_fold = np.empty((150, 3))
    for train, test in StratifiedKFold(5).split(X, y):
        out_of_fold[test] = clone(model).fit(X[train], y[train]).predict_proba(X[test])
    by_hand = calibrator(problem, rules).fit(out_of_fold, y[:, None] == one.classes_)
    assert one.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    assert one.calibrator_.patches_ == by_hand.patches_
    assert one.score(X, y) == (one.classes_[one.decide(X).argmax(axis=1)] == y).mean()
    np.testing.assert_allclose(one.predict_original(X), one.estimator_.predict_proba(X))


def test_rejection_appends_its_item():
    X, y = iris()
    rules = [outrule.Fixed(3, "always reject")]
    one = CalibratedPredictor(logistic(C=0.1), calibrator(outrule.Rejection(0.2), rules)).fit(X, y)
    for answer in (one.predict(X), one.predict_original(X)):
        np.testing.assert_allclose(answer[:, 3], 0.8)
        np.testing.assert_allclose(answer[:, :3].sum(axis=1), 1)
    rejected = one.decide(X)[:, 3]
    assert 0 < rejected.sum() < 150
    right = one.decide(X)[:, :3][np.arange(150), np.searchsorted(one.classes_, y)]
    assert one.score(X, y) == pytest.approx(np.where(rejected, 0.8, right).mean())


def test_several_outputs_are_the_items():
    X, Y = draw()
    Y = (Y > 0.5).astype(int)
    model = MultiOutputClassifier(logistic())
    one = CalibratedPredictor(model, calibrator(outrule.TopK(2))).fit(X, Y)
    expected = np.column_stack([logistic().fit(X, y).predict_proba(X)[:, 1] for y in Y.T])
    np.testing.assert_allclose(one.predict_original(X), expected)
    assert len(one.classes_) == 4
    assert (one.decide(X).sum(axis=1) == 2).all()


def test_a_fitted_classifier_may_know_more_classes_than_the_data():
    X, y = iris()
    model = logistic().fit(X, y)
    one = CalibratedPredictor(model, calibrator(rules=[outrule.Fixed(0)]), cv="prefit")
    assert one.fit(X[:100], y[:100]).predict(X).shape == (150, 3)


def test_an_unknown_label_is_refused_on_new_data():
    X, y = iris()
    one = CalibratedPredictor(logistic(), calibrator(rules=[outrule.Fixed(0)])).fit(X, y)
    with pytest.raises(outrule.DataError, match="label 'rose' at instance 1 is not one of"):
        one.score(X[:2], ["setosa", "rose"])


# --- weights -------------------------------------------------------------------------------------


def test_weights_reach_both_the_model_and_the_calibrator():
    X, Y = draw(100)
    weights = np.random.default_rng(0).integers(1, 4, 100)
    one = CalibratedPredictor(LinearRegression(), calibrator(), cv=KFold(2))
    one.fit(X, Y, sample_weight=weights)
    halves = np.arange(50), np.arange(50, 100)
    out_of_fold = np.vstack(
        [
            LinearRegression().fit(X[train], Y[train], weights[train]).predict(X[test])
            for train, test in (halves[::-1], halves)
        ]
    )
    by_hand = calibrator().fit(np.clip(out_of_fold, 0, 1), Y, sample_weight=weights)
    assert by_hand.patches_ != calibrator().fit(np.clip(out_of_fold, 0, 1), Y).patches_
    assert one.calibrator_.patches_ == by_hand.patches_
    np.testing.assert_allclose(one.estimator_.coef_, LinearRegression().fit(X, Y, weights).coef_)
    values = np.where(one.decide(X), Y, 0).sum(axis=1)
    expected = np.average(values, weights=weights)
    assert one.score(X, Y, sample_weight=weights) == pytest.approx(expected)


@pytest.mark.parametrize(
    "model", [KNeighborsRegressor(), make_pipeline(StandardScaler(), LinearRegression())]
)
def test_weights_are_refused_where_the_model_takes_none(model):
    X, Y = draw(50)
    name = type(model).__name__
    message = rf"'sample_weight' argument of CalibratedPredictor.fit must be None, because {name}"
    with pytest.raises(outrule.ArgumentError, match=message):
        CalibratedPredictor(model, calibrator()).fit(X, Y, sample_weight=np.ones(50))
    CalibratedPredictor(model, calibrator()).fit(X, Y)
    prefit = CalibratedPredictor(model.fit(X, Y), calibrator(), cv="prefit")
    prefit.fit(X, Y, sample_weight=np.linspace(1, 2, 50))
    assert prefit.calibrator_.model_.weight_seen == pytest.approx(75)


# --- frames, sparse matrices ---------------------------------------------------------------------


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_frames_of_features_give_the_same_numbers(make):
    X, Y = draw()
    features = make({f"x{i}": X[:, i] for i in range(5)})
    outcomes = make({f"item {j}": Y[:, j] for j in range(4)})
    one = CalibratedPredictor(LinearRegression(), calibrator()).fit(X, Y)
    other = CalibratedPredictor(LinearRegression(), calibrator()).fit(features, outcomes)
    np.testing.assert_allclose(other.predict(features), one.predict(X), atol=1e-12)
    assert one.n_features_in_ == other.n_features_in_ == 5
    assert not hasattr(one, "feature_names_in_")
    if hasattr(other.estimator_, "feature_names_in_"):  # old ones do not know new Polars
        assert other.feature_names_in_.tolist() == ["x0", "x1", "x2", "x3", "x4"]
        with pytest.raises(ValueError, match="feature names should match"):
            other.predict(features[[f"x{i}" for i in (1, 0, 2, 3, 4)]])


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_rules_see_the_columns_of_the_features(make):
    X, Y = draw()
    features = make({"day": X[:, 0], **{f"x{i}": X[:, i] for i in range(1, 5)}})
    rule = outrule.Choose("by day", lambda view: view["item"] == np.where(view["day"] > 0, 2, 1))
    one = CalibratedPredictor(LinearRegression(), calibrator(rules=[rule])).fit(features, Y)
    expected = np.where(X[:, 0] > 0, Y[:, 2], Y[:, 1]).mean()
    assert one.calibrator_.rule_values_[0] == pytest.approx(expected)
    assert one.decide(features).shape == Y.shape


def test_sparse_features_work_where_the_model_takes_them():
    X, Y = draw()
    one = CalibratedPredictor(Ridge(solver="sparse_cg", tol=1e-10), calibrator()).fit(X, Y)
    for kind in (sparse.csr_array, sparse.coo_matrix):
        other = clone(one).fit(kind(X), Y)
        np.testing.assert_allclose(other.predict(kind(X)), one.predict(X), atol=1e-6)


# --- as scikit-learn has it ----------------------------------------------------------------------


def test_parameters_are_nested():
    one = CalibratedPredictor(Ridge(), calibrator())
    one.set_params(estimator__alpha=3.0, calibrator__epsilon=0.5, cv=3)
    other = clone(one)
    assert (other.estimator.alpha, other.calibrator.epsilon, other.cv) == (3.0, 0.5, 3)
    assert other.calibrator is not one.calibrator


def test_fit_changes_no_parameter():
    X, Y = draw(50)
    one = CalibratedPredictor(Ridge(), calibrator())
    before = one.get_params(deep=False)
    assert one.fit(X, Y) is one
    assert all(one.get_params(deep=False)[name] is value for name, value in before.items())
    assert not hasattr(one.estimator, "coef_")
    assert not hasattr(one.calibrator, "model_")


def test_nothing_is_predicted_before_fit():
    X, Y = draw(5)
    one = CalibratedPredictor(LinearRegression(), calibrator())
    for call in (one.predict, one.predict_original, one.decide, one.instances):
        with pytest.raises(NotFittedError):
            call(X)
    with pytest.raises(NotFittedError):
        one.score(X, Y)
    with pytest.raises(NotFittedError):
        one.certify(X, Y)
    assert not hasattr(one, "classes_")


def test_a_search_in_two_processes_finds_what_a_loop_finds():
    X, Y = draw()
    grid = {"estimator__alpha": [0.1, 100.0], "calibrator__epsilon": [0.02, 0.3]}
    one = CalibratedPredictor(Ridge(), calibrator(), cv=3)
    search = GridSearchCV(one, grid, cv=KFold(3), n_jobs=2).fit(X, Y)
    scores = {}
    for alpha in grid["estimator__alpha"]:
        for epsilon in grid["calibrator__epsilon"]:
            scores[alpha, epsilon] = np.mean(
                [
                    CalibratedPredictor(Ridge(alpha=alpha), calibrator(epsilon=epsilon), cv=3)
                    .fit(X[train], Y[train])
                    .score(X[test], Y[test])
                    for train, test in KFold(3).split(X)
                ]
            )
    best = search.best_params_["estimator__alpha"], search.best_params_["calibrator__epsilon"]
    assert best == max(scores, key=scores.get)
    assert search.best_score_ == pytest.approx(max(scores.values()))
    assert (search.predict(X) == search.best_estimator_.predict(X)).all()


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("cv", [1, 0, -3, True, None, 2.5, "fold", "5"])
def test_cv_must_split(cv):
    X, Y = draw(20)
    message = r"'cv' argument of CalibratedPredictor must be an int of at least 2, a splitter"
    with pytest.raises(outrule.ArgumentError, match=message):
        CalibratedPredictor(LinearRegression(), calibrator(), cv=cv).fit(X, Y)


def test_parameters_are_refused_before_any_work():
    X, Y = draw(20)
    faults = {
        "'estimator' argument of CalibratedPredictor must be a regressor": {"estimator": 3},
        "'calibrator' argument of CalibratedPredictor must be a Dec": {"calibrator": Ridge()},
        "'epsilon' argument of DecisionCalibrator": {"calibrator": calibrator(epsilon=7)},
        "'value_range' argument of Instances must be": {"value_range": (1, 0)},
        "rule 'always 9' names item 9, but the items are numbered from 0 to 3": {
            "calibrator": calibrator(rules=[outrule.Fixed(9)])
        },
        "outcomes of the classes sum to": {"calibrator": calibrator(outrule.Classification())},
    }

    class Working(LinearRegression):
        def fit(self, X, y):
            raise AssertionError("work")

    for message, fault in faults.items():
        settings = {"estimator": Working(), "calibrator": calibrator(), **fault}
        with pytest.raises(ValueError, match=message):
            CalibratedPredictor(**settings).fit(X, Y)


def test_data_are_refused_where_they_are_wrong():
    X, Y = draw(20)
    far, missing = Y.copy(), Y.copy()
    far[3, 1], missing[4, 2] = 1.5, np.nan
    one = CalibratedPredictor(LinearRegression(), calibrator())
    faults = {
        r"outcome is 1.5 at instance 3, item 1, outside \[0, 1\]. Give CalibratedPredictor": far,
        "outcome is NaN at instance 4, item 2": missing,
        r"outcomes have shape \(20,\). They must have shape \(n, m\)": Y[:, 0],
        "X and y must have one row per instance each: .*inconsistent": Y[:10],
    }
    for message, outcomes in faults.items():
        with pytest.raises(outrule.DataError, match=message):
            one.fit(X, outcomes)
    with pytest.raises(outrule.DataError, match=r"cv cannot split these instances: .*n_splits=5"):
        one.fit(X[:3], Y[:3])
    with pytest.raises(outrule.DataError, match=r"weights have shape \(3,\)"):
        one.fit(X, Y, sample_weight=np.ones(3))
    with pytest.raises(outrule.DataError, match="column 'item' is reserved"):
        one.fit(pd.DataFrame(X, columns=["item", "b", "c", "d", "e"]), Y)


def test_a_model_that_predicts_nan_is_refused_where_it_did():
    class Broken(LinearRegression):
        def predict(self, X):
            answer = super().predict(X)
            answer[X[:, 0] == X[:, 0].max(), 1] = np.nan
            return answer

    X, Y = draw(20)
    X[13, 0] = 100
    with pytest.raises(outrule.DataError, match="prediction is NaN at instance"):
        CalibratedPredictor(Broken(), calibrator(), cv=2).fit(X, Y)


def test_a_model_that_is_not_fitted_is_not_prefit():
    X, Y = draw(20)
    with pytest.raises(NotFittedError):
        CalibratedPredictor(LinearRegression(), calibrator(), cv="prefit").fit(X, Y)


def test_a_failed_fit_changes_nothing():
    X, Y = draw(30)
    one = CalibratedPredictor(LinearRegression(), calibrator()).fit(X, Y)
    before = dict(vars(one))
    with pytest.raises(outrule.DataError):
        one.fit(X, 2 + Y)
    assert vars(one) == before
