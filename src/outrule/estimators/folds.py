"""Cross-fitting: predictions of a model for instances that it did not see.

scikit-learn's ``cross_val_predict`` does not take splitters like ``TimeSeriesSplit``, whose first
part is never tested, and does not notice when a splitter trains on what it tests.
"""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, check_cv
from sklearn.utils import _safe_indexing

from outrule.errors import DataError, refuse_argument
from outrule.estimators.targets import OWNER, Target
from outrule.types import Floats, Integers


def check_splitter(cv: Any) -> None:
    """Refuse what cannot split."""
    is_count = isinstance(cv, Integral) and int(cv) > 1  # True is 1
    is_splitter = isinstance(cv, Iterable) or hasattr(cv, "split")
    if not is_count and (isinstance(cv, str) or not is_splitter):
        expected = "an int of at least 2, a splitter of scikit-learn, or 'prefit'"
        raise refuse_argument(cv, "cv", OWNER, expected)


def split(
    cv: Any, X: Any, y: Any, groups: ArrayLike | None, *, stratified: bool
) -> list[tuple[Integers, Integers]]:
    """The (train, test) parts; no instance is predicted twice, or by a model that has seen it."""
    if groups is not None and isinstance(cv, Integral):
        cv = StratifiedGroupKFold(int(cv)) if stratified else GroupKFold(int(cv))
    try:
        parts = list(check_cv(cv, y, classifier=stratified).split(X, y, groups))
    except ValueError as error:
        raise DataError(f"cv cannot split these instances: {error}") from error
    for train, test in parts:
        both = np.intersect1d(train, test)
        if len(both):
            raise DataError(
                f"cv has instance {both[0]} in the train and the test part of one split. "
                "A model must not have seen what it predicts."
            )
    tests, counts = np.unique([row for _, test in parts for row in test], return_counts=True)
    if not len(tests):
        raise DataError("cv has no instance in a test part: there is nothing to calibrate on.")
    if counts.max() > 1:
        raise DataError(
            f"cv has instance {tests[counts > 1][0]} in two test parts. Every instance may be "
            "predicted once: use a splitter such as KFold, GroupKFold or TimeSeriesSplit."
        )
    return parts


def cross_fit(
    estimator: Any,
    X: Any,
    y: Any,
    target: Target,
    parts: list[tuple[Integers, Integers]],
    weights: Floats | None,
) -> tuple[Integers, Floats]:
    """The instances that were predicted, in ascending order, and their predictions."""
    predictions = []
    for train, test in parts:
        some = None if weights is None else weights[train]
        fitted = fit_clone(estimator, _safe_indexing(X, train), _safe_indexing(y, train), some)
        predictions.append(target.predictions(fitted, _safe_indexing(X, test)))
    rows = np.concatenate([test for _, test in parts])
    order = np.argsort(rows)
    return rows[order], np.concatenate(predictions)[order]


def fit_clone(estimator: Any, X: Any, y: Any, weights: Floats | None) -> Any:
    """A new model, fitted."""
    return clone(estimator).fit(X, y, **({} if weights is None else {"sample_weight": weights}))
