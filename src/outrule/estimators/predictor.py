"""A scikit-learn model and a calibrator in one: from features to decisions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags, indexable
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from outrule.data.checks import check_range
from outrule.data.instances import Instances
from outrule.errors import ArgumentError, DataError, refuse_argument
from outrule.estimators import frames
from outrule.estimators.calibrator import DecisionCalibrator
from outrule.estimators.display import Shown
from outrule.estimators.folds import check_splitter, cross_fit, fit_clone, split
from outrule.estimators.targets import OWNER, Labels, Target, classifies, read_target
from outrule.model.fitting import check_training
from outrule.problems.contract import Problem
from outrule.problems.one_item import Rejection
from outrule.proof.certificate import Certificate, certify
from outrule.types import Booleans, Floats

PREFIT = "prefit"


class CalibratedPredictor(Shown, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A model that predicts the weights of all items, and the calibrator of its predictions.

    The calibrator is fitted on predictions for instances that the model did not see: those of
    ``cv`` folds. Then the model is fitted again, on everything.

    Parameters
    ----------
    estimator : regressor or classifier of scikit-learn's kind
        A regressor predicts a number per item; predictions outside ``value_range`` are clipped to
        it. A classifier needs ``predict_proba``: its classes are the items, or, fitted on a 0/1
        matrix, its outputs are, and their prediction is the probability of 1.
    calibrator : DecisionCalibrator
        Where its problem is ``Rejection``, the reject item is appended to the model's classes.
    cv : int, splitter of scikit-learn, iterable of (train, test), or "prefit"
        An int is the number of folds: consecutive, stratified by class where y are labels.
        Instances in no test part, as the first of ``TimeSeriesSplit``, do not reach the calibrator.
        ``"prefit"``, or a ``FrozenEstimator``: the model is already fitted, on other data, and all
        the data go to the calibrator.
    value_range : (low, high)
        What outcomes can be.

    Attributes
    ----------
    estimator_ : the fitted model
    calibrator_ : the fitted calibrator
    classes_ : the items, where y are labels
    n_features_in_, feature_names_in_ : of the fitted model, where it has them

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> import outrule
    >>> X, y = load_iris(return_X_y=True)
    >>> problem, rules = outrule.Rejection(cost=0.2), [outrule.Fixed(3, "always reject")]
    >>> calibrator = outrule.DecisionCalibrator(problem, rules)
    >>> predictor = CalibratedPredictor(LogisticRegression(max_iter=1_000), calibrator).fit(X, y)
    >>> predictor.decide(X[[0, 70]]).astype(int)  # three classes, and reject
    array([[1, 0, 0, 0],
           [0, 0, 0, 1]])
    """

    estimator_: Any
    calibrator_: DecisionCalibrator
    target_: Target

    def __init__(
        self,
        estimator: Any,
        calibrator: DecisionCalibrator,
        *,
        cv: Any = 5,
        value_range: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        self.estimator = estimator
        self.calibrator = calibrator
        self.cv = cv
        self.value_range = value_range

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit the model and the calibrator.

        Parameters
        ----------
        X : features, one row per instance, as the model takes them
            The columns of a frame are columns of the instances: rules see ``view["name"]``.
        y : outcomes of shape (n, m); for a classifier also labels of shape (n,)
        sample_weight : array-like of shape (n,), optional
            For the model, which must take them, and for the calibrator.
        groups : array-like of shape (n,), optional
            Folds keep a group together (a splitter must be one that does, as ``GroupKFold``). They
            are the clusters of the calibrator too.

        Notes
        -----
        Cost: one fit of the model per fold, one more on everything, and one of the calibrator.
        """
        self._check_parameters(weighted=sample_weight is not None)
        target = read_target(self.estimator, y, check_range(self.value_range), self._is_fitted())
        X, y = _indexable(X, y)
        data = self._check_data(target.outcomes(y), X, sample_weight, groups)
        if self._is_fitted():
            estimator, seen = self.estimator, data
            predictions = target.predictions(estimator, X)
        else:
            parts = split(self.cv, X, y, groups, stratified=isinstance(target, Labels))
            rows, predictions = cross_fit(self.estimator, X, y, target, parts, data.weight)
            estimator, seen = fit_clone(self.estimator, X, y, data.weight), data.take(rows)
        calibrator = clone(self.calibrator).fit(self._predicted(seen, predictions))
        # A certificate on these instances, as the last model predicts them, would be void too.
        now = self._predicted(data, target.predictions(estimator, X))
        calibrator.model_ = calibrator.model_.remember(now)
        self.estimator_, self.calibrator_, self.target_ = estimator, calibrator, target
        self._copy_features()
        return self

    def predict(self, X: Any) -> Floats:
        """Calibrated predictions, shape (n, m)."""
        instances = self.instances(X)
        return np.asarray(self.calibrator_.predict(instances))

    def predict_original(self, X: Any) -> Floats:
        """The model's own predictions, inside the range and with the reject item, shape (n, m)."""
        instances = self.instances(X)
        return np.asarray(instances.origin.restore(instances.prediction, np.nan))

    def decide(self, X: Any) -> Booleans:
        """The optimiser's decisions on the calibrated predictions, shape (n, m)."""
        instances = self.instances(X)
        return np.asarray(self.calibrator_.decide(instances))

    def score(self, X: Any, y: Any, *, sample_weight: ArrayLike | None = None) -> float:
        """The mean value of the decisions: larger is better."""
        instances = self.instances(X, y, sample_weight=sample_weight)
        return self.calibrator_.score(instances)

    def certify(
        self,
        X: Any,
        y: Any,
        *,
        confidence: float = 0.95,
        max_weight: float | None = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Certificate:
        """Judge the decisions on instances that ``fit`` never saw: see ``outrule.certify``."""
        instances = self.instances(X, y, sample_weight=sample_weight, groups=groups)
        return certify(self.calibrator_, instances, confidence=confidence, max_weight=max_weight)

    def instances(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Instances:
        """What ``calibrator_`` sees of these data, for everything else that takes Instances."""
        check_is_fitted(self, "calibrator_")
        predictions = self.target_.predictions(self.estimator_, X)
        problem, value_range = self.calibrator_.model_.problem, self.calibrator_.model_.value_range
        return Instances.from_arrays(
            _with_reject(problem, predictions),
            None if y is None else _with_reject(problem, self.target_.outcomes(y)),
            weight=sample_weight,
            cluster=groups,
            columns=frames.columns(X),
            value_range=value_range,
        )

    @property
    def classes_(self) -> Any:
        check_is_fitted(self, "calibrator_")
        return (
            self.target_.classes if isinstance(self.target_, Labels) else self.estimator_.classes_
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = hasattr(self.estimator, "predict_proba")  # then labels
        if hasattr(self.estimator, "__sklearn_tags__"):
            tags.input_tags = get_tags(self.estimator).input_tags
        return tags

    def _is_fitted(self) -> bool:
        is_prefit = isinstance(self.cv, str) and self.cv == PREFIT
        return is_prefit or isinstance(self.estimator, FrozenEstimator)

    def _check_parameters(self, *, weighted: bool) -> None:
        classifies(self.estimator)
        if not isinstance(self.calibrator, DecisionCalibrator):
            raise refuse_argument(self.calibrator, "calibrator", OWNER, "a DecisionCalibrator")
        self.calibrator.settings()
        if self._is_fitted():
            check_is_fitted(self.estimator)
            return
        check_splitter(self.cv)
        if weighted and not has_fit_parameter(self.estimator, "sample_weight"):
            name = type(self.estimator).__name__
            raise ArgumentError(
                f"The 'sample_weight' argument of {OWNER}.fit must be None, because {name}.fit "
                "takes none. Choose another model, or fit it first and give cv='prefit'."
            )

    def _check_data(
        self, outcomes: Floats, X: Any, weights: ArrayLike | None, groups: ArrayLike | None
    ) -> Instances:
        """The instances, as yet without predictions; bad data are refused before any work."""
        problem, value_range = self.calibrator.problem, check_range(self.value_range)
        try:
            data = Instances.from_arrays(
                _with_reject(problem, np.full_like(outcomes, value_range[0])),
                _with_reject(problem, outcomes),
                weight=weights,
                cluster=groups,
                columns=frames.columns(X),
                value_range=value_range,
            )
        except DataError as error:
            raise DataError(str(error).replace("Give Instances", f"Give {OWNER}")) from None
        check_training(self.calibrator.settings(), data)
        return data

    def _predicted(self, data: Instances, predictions: Floats) -> Instances:
        full = _with_reject(self.calibrator.problem, predictions)
        instances = replace(data, prediction=full.ravel())
        instances.check_values()
        return instances

    def _copy_features(self) -> None:
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))


def _indexable(X: Any, y: Any) -> list[Any]:
    try:
        return list(indexable(X, y))
    except ValueError as error:
        raise DataError(f"X and y must have one row per instance each: {error}") from None


def _with_reject(problem: Problem, values: Floats) -> Floats:
    return problem.with_reject(values) if isinstance(problem, Rejection) else values
