"""Folds: every instance at most once, and never by a model that has seen it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GroupKFold, KFold, RepeatedKFold, ShuffleSplit, TimeSeriesSplit

import outrule
from outrule.estimators.folds import check_splitter, cross_fit, split
from outrule.estimators.targets import Values


def draw(n=24):
    generator = np.random.default_rng(0)
    return generator.normal(size=(n, 2)), generator.random((n, 3))


@given(st.integers(2, 6), st.integers(0, 9), st.booleans())
def test_predictions_are_those_of_models_that_did_not_see_the_instance(n_folds, seed, weighted):
    X, Y = draw()
    weights = np.linspace(1, 2, 24) if weighted else None
    parts = split(KFold(n_folds, shuffle=True, random_state=seed), X, Y, None, stratified=False)
    target = Values(3, (0.0, 1.0))
    rows, predictions = cross_fit(LinearRegression(), X, Y, target, parts, weights)
    assert rows.tolist() == list(range(24))
    for train, test in parts:
        some = None if weights is None else weights[train]
        expected = LinearRegression().fit(X[train], Y[train], some).predict(X[test])
        np.testing.assert_allclose(predictions[test], np.clip(expected, 0, 1))


@pytest.mark.parametrize("cv", [TimeSeriesSplit(3), ShuffleSplit(1, random_state=0)])
def test_instances_may_be_left_out(cv):
    X, Y = draw()
    parts = split(cv, X, Y, None, stratified=False)
    rows, predictions = cross_fit(LinearRegression(), X, Y, Values(3, (0.0, 1.0)), parts, None)
    assert 0 < len(rows) < 24
    assert (np.diff(rows) > 0).all()
    assert predictions.shape == (len(rows), 3)


@given(st.lists(st.integers(0, 5), min_size=24, max_size=24).filter(lambda g: len(set(g)) > 2))
def test_groups_are_never_cut(groups):
    X, Y = draw()
    groups = np.array(groups)
    for cv, stratified in ((3, False), (GroupKFold(3), False)):
        for train, test in split(cv, X, Y, groups, stratified=stratified):
            assert not set(groups[train]) & set(groups[test])


def test_labels_are_stratified():
    y = np.repeat([0, 1, 2], 8)
    for groups in (None, np.arange(24)):
        for _, test in split(4, np.zeros((24, 1)), y, groups, stratified=True):
            assert np.bincount(y[test]).tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("cv", "message"),
    [
        (RepeatedKFold(n_splits=2, n_repeats=2), "cv has instance 0 in two test parts. Every ins"),
        ([([0, 1, 2], [2, 3])], "cv has instance 2 in the train and the test part of one split"),
        ([], "cv has no instance in a test part: there is nothing to calibrate on"),
        (30, "cv cannot split these instances: .*n_splits=30"),
        (GroupKFold(2), "cv cannot split these instances: .*groups"),
    ],
)
def test_splits_that_cannot_be_used_are_refused(cv, message):
    with pytest.raises(outrule.DataError, match=message):
        split(cv, *draw(), None, stratified=False)


@pytest.mark.parametrize("cv", [1, 0, -3, True, None, 2.5, "fold", "5"])
def test_what_cannot_split_is_refused(cv):
    message = r"'cv' argument of CalibratedPredictor must be an int of at least 2, a splitter"
    with pytest.raises(outrule.ArgumentError, match=message):
        check_splitter(cv)


@pytest.mark.parametrize("cv", [2, np.int64(3), KFold(3), [([0], [1])]])
def test_what_can_split_is_accepted(cv):
    check_splitter(cv)
