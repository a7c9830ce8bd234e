"""The three kinds of target that a model may learn, as outcomes and predictions of items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.multiclass import check_classification_targets

from outrule.data.arrays import numeric
from outrule.errors import DataError, refuse_argument
from outrule.types import Floats

OWNER = "CalibratedPredictor"


@dataclass(frozen=True)
class Values:
    """A number per item, for regressors."""

    n_items: int
    value_range: tuple[float, float]

    def outcomes(self, y: Any) -> Floats:
        return _matrix(y, self.n_items)

    def predictions(self, estimator: Any, X: Any) -> Floats:
        values = np.asarray(estimator.predict(X), dtype=np.float64)
        if values.ndim == 1 and self.n_items == 1:
            values = values[:, None]
        _check_shape(values, self.n_items, estimator, "predict")
        return np.clip(values, *self.value_range)


@dataclass(frozen=True, eq=False)
class Labels:
    """One class per instance: the classes are the items."""

    classes: NDArray[Any]

    def outcomes(self, y: Any) -> Floats:
        numbers = {label: number for number, label in enumerate(self.classes.tolist())}
        labels = np.asarray(y)
        if labels.ndim != 1:
            raise DataError(
                f"y has shape {labels.shape}. It must have shape (n,): a label per instance."
            )
        hot = np.zeros((len(labels), len(numbers)))
        for instance, label in enumerate(labels.tolist()):
            if label not in numbers:
                raise DataError(
                    f"label {label!r} at instance {instance} is not one of the classes of fit: "
                    f"{', '.join(map(repr, numbers))}."
                )
            hot[instance, numbers[label]] = 1.0
        return hot

    def predictions(self, estimator: Any, X: Any) -> Floats:
        # A fold that misses a class says nothing of it: the probability is zero.
        known = np.asarray(getattr(estimator, "classes_", self.classes)).tolist()
        values = np.asarray(estimator.predict_proba(X), dtype=np.float64)
        _check_shape(values, len(known), estimator, "predict_proba")
        full = np.zeros((len(values), len(self.classes)))
        places = {label: place for place, label in enumerate(self.classes.tolist())}
        full[:, [places[label] for label in known]] = values
        return np.clip(full, 0.0, 1.0)


@dataclass(frozen=True)
class Marks:
    """0 or 1 per item, for classifiers of several outputs."""

    n_items: int

    def outcomes(self, y: Any) -> Floats:
        marks = _matrix(y, self.n_items)
        wrong = (marks != 0) & (marks != 1)
        if wrong.any():
            instance, item = np.argwhere(wrong)[0].tolist()
            raise DataError(
                f"outcome is {marks[instance, item]:g} at instance {instance}, item {item}. "
                "Outcomes of a classifier must be 0 or 1: give other numbers to a regressor."
            )
        return marks

    def predictions(self, estimator: Any, X: Any) -> Floats:
        answer = estimator.predict_proba(X)
        if isinstance(answer, list):  # one array (n, classes) per output
            classes = estimator.classes_
            answer = np.column_stack(
                [_chance_of_one(*pair) for pair in zip(answer, classes, strict=True)]
            )
        values = np.asarray(answer, dtype=np.float64)
        _check_shape(values, self.n_items, estimator, "predict_proba")
        return np.clip(values, 0.0, 1.0)


Target = Values | Labels | Marks  # outcomes are (n, m), and predictions too, inside the range


def read_target(estimator: Any, y: Any, value_range: tuple[float, float], fitted: bool) -> Target:
    """Which of the kinds it is; a fitted classifier knows its classes."""
    if y is None:
        expected = "given: it requires y to be passed, but the target y is None"
        raise refuse_argument(None, "y", OWNER, expected)
    if not classifies(estimator):
        return Values(_matrix(y).shape[1], value_range)
    if value_range != (0.0, 1.0):
        raise refuse_argument(value_range, "value_range", OWNER, "(0, 1) for a classifier")
    try:
        check_classification_targets(y)
    except (TypeError, ValueError) as error:
        raise DataError(f"y cannot be classified: {error}") from None
    if np.asarray(y).ndim != 1:
        return Marks(_matrix(y).shape[1])
    return Labels(np.asarray(estimator.classes_) if fitted else np.unique(np.asarray(y)))


def classifies(estimator: Any) -> bool:
    """Whether it predicts probabilities; refused where it is no model, or one without them."""
    if isinstance(estimator, type) or not all(
        hasattr(estimator, name) for name in ("fit", "get_params")
    ):
        expected = "a regressor, or a classifier with predict_proba, of scikit-learn's kind"
        raise refuse_argument(estimator, "estimator", OWNER, expected)
    if hasattr(estimator, "predict_proba"):
        return True
    if hasattr(estimator, "__sklearn_tags__") and is_classifier(estimator):
        expected = "a classifier with predict_proba: wrap it in CalibratedClassifierCV"
        raise refuse_argument(estimator, "estimator", OWNER, expected)
    return False


def _chance_of_one(values: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
    """The column of class 1; zero where the model has never seen it."""
    place = np.flatnonzero(np.asarray(classes) == 1)
    return values[:, place[0]] if len(place) else np.zeros(len(values))


def _matrix(y: Any, n_items: int | None = None) -> Floats:
    matrix = numeric(y, "outcomes")
    if matrix.ndim != 2 or (n_items is not None and matrix.shape[1] != n_items):
        columns = "m" if n_items is None else n_items
        raise DataError(
            f"outcomes have shape {matrix.shape}. They must have shape (n, {columns}): "
            "one column per item."
        )
    return matrix


def _check_shape(values: Floats, n_items: int, estimator: Any, method: str) -> None:
    if values.ndim != 2 or values.shape[1] != n_items:
        raise DataError(
            f"{type(estimator).__name__}.{method} gave an array of shape {values.shape}. It must "
            f"have shape (n, {n_items}), like the outcomes: one column per item."
        )
