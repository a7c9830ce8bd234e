"""scikit-learn's own checks of estimators, every one of them, but for those listed with a reason.

The checks make features on the whole line and one label per row. A calibrator takes predictions in
[0, 1] and outcomes of the same shape, so that it runs them behind `OnAnyData`, which only squashes
the numbers; whatever is not a number reaches the calibrator as it came.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import issparse
from scipy.special import expit
from sklearn.linear_model import LinearRegression
from sklearn.naive_bayes import BernoulliNB
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    estimator_checks_generator,
)

import outrule
from outrule.estimators.frames import restore
from outrule.estimators.predictor import CalibratedPredictor

NOT_FOR_THE_CALIBRATOR = {
    "check_fit_score_takes_y": "the second argument is called outcomes",
    "check_dtype_object": "what is no number raises DataError, a ValueError, not TypeError",
    "check_sample_weight_equivalence_on_sparse_data": "1.6 runs it without the tag for sparse data",
}
# Folds are drawn over instances, so weight two is not the same as two instances.
FOLDS = dict.fromkeys(
    [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")],
    "not with a cross-fitted start",
)
NOT_FOR_LABELS = {
    "check_estimator_sparse_array": "it expects a vector: predict gives a column per item",
    "check_estimator_sparse_matrix": "the same",
}
NEEDS_NO_DATA = {
    "check_estimator_cloneable",
    "check_estimator_tags_renamed",
    "check_valid_tag_types",
    "check_estimator_repr",
    "check_no_attributes_set_in_init",
    "check_estimators_unfitted",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_mixin_order",
    "check_parameters_default_constructible",
    "check_get_params_invariance",
    "check_set_params",
    "check_fit1d",
    "check_complex_data",
    "check_requires_y_none",
    "check_estimators_empty_data_messages",
    "check_estimator_sparse_tag",
    "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
}


class OnAnyData(outrule.DecisionCalibrator):
    """A calibrator of the checks' features and labels."""

    def fit(self, X, y=None, sample_weight=None):
        return super().fit(squash(X), spread(y, X), sample_weight=sample_weight)

    def partial_fit(self, X, y=None, sample_weight=None):
        return super().partial_fit(squash(X), spread(y, X), sample_weight=sample_weight)

    def score(self, X, y=None, sample_weight=None):
        return super().score(squash(X), spread(y, X), sample_weight=sample_weight)

    def predict(self, X):
        return super().predict(squash(X))

    def decide(self, X):
        return super().decide(squash(X))


def squash(X):
    """Finite numbers into (0, 1), each on its own; everything else as it is."""
    if issparse(X) or np.asarray(X).dtype.kind not in "biufO":
        return X
    try:
        numbers = np.asarray(X).astype(np.float64)
    except TypeError:
        return X
    return restore(np.where(np.isfinite(numbers), expit(numbers), numbers), X)


def spread(y, X):
    """The label as the outcome of every item."""
    labels = np.asarray(y)
    shape = X.shape if issparse(X) else np.asarray(X).shape
    if y is None or len(shape) != 2 or labels.dtype.kind == "c":
        return y
    return np.repeat(expit(labels.astype(np.float64).reshape(-1, 1)), shape[1], axis=1)


def calibrator(kind=outrule.DecisionCalibrator, **settings):
    return kind(outrule.BestAction(), [outrule.Fixed(0)], **settings)


def name_of(check):
    return check.func.__name__


def checks(estimator, unless=(), only=None):
    return [
        pytest.param(one, check, id=name_of(check))
        for one, check in estimator_checks_generator(estimator)
        if name_of(check) not in unless and (only is None or name_of(check) in only)
    ]


ADAPTED = calibrator(OnAnyData)
OF_LABELS = CalibratedPredictor(BernoulliNB(), calibrator(), cv=3)
OF_NUMBERS = CalibratedPredictor(LinearRegression(), calibrator(), cv=3, value_range=(-100, 100))


@pytest.mark.parametrize(("estimator", "check"), checks(calibrator(), only=NEEDS_NO_DATA))
def test_the_calibrator_passes_the_checks_without_data(estimator, check):
    check(estimator)


@pytest.mark.parametrize(("estimator", "check"), checks(ADAPTED, NOT_FOR_THE_CALIBRATOR | FOLDS))
def test_the_calibrator_passes_the_checks_on_squashed_data(estimator, check):
    check(estimator)


@pytest.mark.parametrize(("estimator", "check"), checks(OF_LABELS, NOT_FOR_LABELS | FOLDS))
def test_the_predictor_of_labels_passes_the_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(("estimator", "check"), checks(OF_NUMBERS))
def test_the_predictor_of_numbers_passes_the_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", [ADAPTED, OF_LABELS, OF_NUMBERS], ids=repr)
def test_columns_must_be_those_of_fit(estimator):
    check_dataframe_column_names_consistency(type(estimator).__name__, estimator)


# Two instances tell more than one of weight two, so the tolerance may not depend on the noise.
NO_FOLDS = {"start": None, "rivals": (), "epsilon": 0.05}
WEIGHTED = [
    *checks(calibrator(OnAnyData, **NO_FOLDS), NOT_FOR_THE_CALIBRATOR, FOLDS),
    *checks(CalibratedPredictor(BernoulliNB(), calibrator(**NO_FOLDS), cv=3), only=FOLDS),
]


@pytest.mark.parametrize(("estimator", "check"), WEIGHTED)
def test_without_folds_a_weight_is_the_same_as_repetition(estimator, check):
    check(estimator)


NOT_APPLICABLE = [
    *checks(calibrator(), only={"check_fit_score_takes_y"}),
    *checks(ADAPTED, only=NOT_FOR_THE_CALIBRATOR.keys() - {"check_fit_score_takes_y"}),
    *checks(OF_LABELS, only=NOT_FOR_LABELS),
]


@pytest.mark.parametrize(("estimator", "check"), NOT_APPLICABLE)
def test_the_list_of_checks_that_do_not_apply_is_not_too_long(estimator, check):
    with pytest.raises((AssertionError, ValueError)):
        check(estimator)


def test_objects_are_read_as_numbers_where_they_are():
    predictions = np.random.default_rng(0).random((20, 3))
    objects = predictions.astype(object)
    one = calibrator().fit(objects, predictions)
    assert (one.predict(objects) == one.predict(predictions)).all()
    objects[0, 0] = {"foo": "bar"}
    with pytest.raises(outrule.DataError, match="predictions cannot be read as numbers"):
        one.predict(objects)
