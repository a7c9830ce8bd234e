"""What models learn: numbers, labels or marks, there and back."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from sklearn.base import BaseEstimator
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

import outrule
from outrule.estimators.targets import Labels, Marks, Values, classifies, read_target

UNIT = (0.0, 1.0)


class Says(BaseEstimator):
    """A model that gives one answer."""

    def __init__(self, answer, classes=None):
        self.answer = answer
        if classes is not None:
            self.classes_ = classes

    def fit(self, X, y):
        return self

    def predict(self, X):
        return self.answer

    predict_proba = predict


def draw(n=40):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(n, 3))
    return X, (X + generator.normal(0, 0.5, X.shape) > 0).astype(int)


# --- numbers -------------------------------------------------------------------------------------


def test_predictions_of_a_regressor_are_clipped_to_the_range():
    target = Values(2, (-1.0, 2.0))
    assert target.predictions(Says([[3.0, 0.5], [-7.0, 2.0]]), None).tolist() == [[2, 0.5], [-1, 2]]


def test_nan_is_not_clipped_away():
    assert np.isnan(Values(1, UNIT).predictions(Says([[np.nan]]), None)).all()


def test_one_item_may_come_as_a_vector():
    X, Y = draw()
    for model in (RandomForestRegressor(3, random_state=0), LinearRegression()):
        answer = Values(1, UNIT).predictions(model.fit(X, Y[:, 0]), X)
        assert answer.shape == (40, 1)


@pytest.mark.parametrize("answer", [np.zeros(4), np.zeros((4, 3)), np.zeros((4, 2, 1))])
def test_answers_of_another_shape_are_refused(answer):
    message = rf"Says.predict gave an array of shape \({answer.shape[0]}.* must have shape \(n, 2\)"
    with pytest.raises(outrule.DataError, match=message):
        Values(2, UNIT).predictions(Says(answer), None)


def test_numbers_may_come_as_a_frame():
    frame = pd.DataFrame({"a": [0.1, 0.2], "b": [True, False]})
    assert Values(2, UNIT).outcomes(frame).tolist() == [[0.1, 1], [0.2, 0]]


def test_a_regressor_needs_a_matrix():
    with pytest.raises(outrule.DataError, match=r"shape \(3,\). They must have shape \(n, m\)"):
        read_target(LinearRegression(), [0.1, 0.2, 0.3], UNIT, False)
    with pytest.raises(outrule.DataError, match=r"shape \(1, 3\). They must have shape \(n, 2\)"):
        Values(2, UNIT).outcomes([[1, 2, 3]])


# --- labels --------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from(["b", "a", "d"]), min_size=1))
def test_labels_are_one_hot_in_the_order_of_the_classes(labels):
    target = read_target(GaussianNB(), labels, UNIT, False)
    hot = target.outcomes(labels)
    assert (hot.sum(axis=1) == 1).all()
    assert target.classes[hot.argmax(axis=1)].tolist() == labels
    assert target.classes.tolist() == sorted(set(labels))


@pytest.mark.parametrize("labels", [[3, 1, 3], [True, False, True], ["x", "y", "x"]])
def test_labels_may_be_of_any_type_and_kind_of_sequence(labels):
    for kind in (list, np.array, pd.Series):
        hot = read_target(GaussianNB(), kind(labels), UNIT, False).outcomes(kind(labels))
        assert (hot[0] == hot[2]).all()
        assert (hot[0] != hot[1]).all()


def test_a_class_that_a_fold_has_not_seen_has_no_chance():
    target = Labels(np.array(["a", "b", "c"]))
    model = Says([[0.7, 0.3]], np.array(["c", "a"]))
    assert target.predictions(model, None).tolist() == [[0.3, 0, 0.7]]


def test_a_fitted_classifier_knows_classes_that_the_data_lack():
    X, _ = draw()
    model = GaussianNB().fit(X, np.arange(40) % 3)
    target = read_target(model, [0, 2, 0], UNIT, True)
    assert target.outcomes([2]).tolist() == [[0, 0, 1]]


def test_another_label_is_refused_where_it_stands():
    target = Labels(np.array(["a", "b"]))
    message = "label 'c' at instance 1 is not one of the classes of fit: 'a', 'b'"
    with pytest.raises(outrule.DataError, match=message):
        target.outcomes(["a", "c"])


def test_labels_in_a_matrix_are_refused_after_a_vector():
    with pytest.raises(outrule.DataError, match=r"y has shape \(1, 2\). It must have shape \(n,\)"):
        Labels(np.array(["a", "b"])).outcomes([["a", "b"]])


def test_numbers_that_are_no_labels_are_refused():
    with pytest.raises(outrule.DataError, match="y cannot be classified: Unknown label type"):
        read_target(GaussianNB(), [0.1, 0.7, 0.3], UNIT, False)


def test_probabilities_of_another_shape_are_refused():
    message = r"Says.predict_proba gave an array of shape \(1, 3\). It must have shape \(n, 2\)"
    with pytest.raises(outrule.DataError, match=message):
        Labels(np.array([0, 1])).predictions(Says([[0.1, 0.2, 0.7]]), None)


# --- marks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [MultiOutputClassifier(GaussianNB()), OneVsRestClassifier(GaussianNB())],
    ids=["a list", "an array"],
)
def test_the_prediction_of_a_mark_is_the_chance_of_one(model):
    X, Y = draw()
    target = read_target(model, Y, UNIT, False)
    assert target == Marks(3)
    expected = np.column_stack([GaussianNB().fit(X, y).predict_proba(X)[:, 1] for y in Y.T])
    np.testing.assert_allclose(target.predictions(model.fit(X, Y), X), expected)


def test_a_forest_predicts_all_marks_at_once():
    X, Y = draw()
    model = RandomForestClassifier(20, random_state=0).fit(X, Y)
    predictions = Marks(3).predictions(model, X)
    assert predictions.shape == (40, 3)
    assert ((predictions > 0.5) == Y).mean() > 0.95


def test_an_item_that_was_never_marked_has_no_chance_and_one_that_always_was_a_sure_one():
    X, Y = draw()
    Y[:, 0], Y[:, 2] = 0, 1
    predictions = Marks(3).predictions(MultiOutputClassifier(DummyClassifier()).fit(X, Y), X)
    assert (predictions[:, 0] == 0).all()
    assert (predictions[:, 2] == 1).all()


def test_marks_must_be_zero_or_one():
    with pytest.raises(
        outrule.DataError, match=r"outcome is 2 at instance 1, item 0. .* must be 0 or 1: give"
    ):
        Marks(2).outcomes([[0, 1], [2, 1]])


# --- which kind it is ----------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [3, "forest", None, LinearRegression, object()])
def test_only_models_are_accepted(bad):
    message = "'estimator' argument of CalibratedPredictor must be a regressor, or a classifier"
    with pytest.raises(outrule.ArgumentError, match=message):
        classifies(bad)


def test_a_classifier_without_probabilities_is_refused():
    with pytest.raises(outrule.ArgumentError, match="with predict_proba: wrap it in Calibrated"):
        classifies(LinearSVC())


def test_a_classifier_has_no_other_range():
    with pytest.raises(outrule.ArgumentError, match=r"'value_range' .* \(0, 1\) for a classifier"):
        read_target(GaussianNB(), [0, 1], (0.0, 2.0), False)


def test_there_must_be_a_target():
    with pytest.raises(outrule.ArgumentError, match="'y' argument of CalibratedPredictor must be"):
        read_target(GaussianNB(), None, UNIT, False)
