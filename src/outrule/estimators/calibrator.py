"""The calibrator: predictions and outcomes enter `fit`, calibrated predictions leave `predict`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metadata_routing import UNUSED

from outrule import theory, threads
from outrule.calibration.check import (
    Check,
    LineSearch,
    PrivateReuse,
    Reuse,
    Step,
    require_check,
    require_step,
)
from outrule.calibration.isotonic import FittedIsotonic, Isotonic
from outrule.calibration.loop import Boosted, LoopSettings, Status, boost
from outrule.calibration.sources import FreshData, Source, open_source
from outrule.data import frames
from outrule.data.instances import Instances
from outrule.errors import DataError, check_number, refuse_argument
from outrule.estimators.display import Shown
from outrule.estimators.fitted import Fitted
from outrule.model.model import Model, columns, enter, n_items, start_of
from outrule.problems.contract import Problem
from outrule.rules.rules import Rule, check_rules
from outrule.types import Floats

OWNER = "DecisionCalibrator"
LEAST_EPSILON = 1e-9  # below it the rounding of sums decides


class Settings(NamedTuple):
    """The parameters that were left to us, filled in."""

    check: Check
    step: Step
    rules: tuple[Rule, ...]


class DecisionCalibrator(Shown, Fitted, BaseEstimator):  # type: ignore[misc] # it has no types
    """Make predictions on which the plain optimiser is worth as much as the best of the rules.

    A scikit-learn estimator whose X are predictions and whose y are outcomes, both of shape (n, m):
    ``clone``, ``GridSearchCV``, ``cross_val_score`` and the last step of a ``Pipeline`` work as
    usual. Of scikit-learn's own checks of estimators two do not apply: the second argument is
    called ``outcomes``, not ``y``, and data that are no numbers raise DataError, a ValueError.

    Parameters
    ----------
    problem : Problem
        What can be decided: ``BestAction()``, ``Matching.complete(10)``, ...
    rules : sequence of Rule
        What to compete with. They always decide on the original predictions.
    epsilon : float in (0, 1]
        How much less than the best rule is tolerated per instance, as a fraction of the range.
    check : FreshBatches, PrivateReuse or Reuse
        How violations are looked for; ``Reuse()`` where not given.
    step : LineSearch or FixedStep
        How far to move; ``LineSearch()`` where not given.
    start : Isotonic, optional
        Start from isotonic regression. Without it, from the predictions, or from the ``start``
        column that the instances carry.
    max_rounds : int, optional
        Where not given, the number of rounds after which the theory says that the loop has stopped.
    random_state : int, optional
        Seeds the noise of ``PrivateReuse``, the validation part and the folds of ``Isotonic``.
    n_jobs : int, optional
        Threads: all cores where not given or -1. The result is the same for any number.

    Attributes
    ----------
    model_ : Model; everything below, frozen, with the problem, the rules and epsilon of ``fit``
    patches_ : list of Patch(test, step); test is the number of a rule, -1 the optimiser's own
    history_ : list of Round(round, test, violation, step, squared_error, n)
    status_ : Status; why the loop stopped
    tolerance_ : float; the largest violation that is tolerated
    k_ : int; size of the largest decision in the training data
    rule_values_ : array of shape (n_rules,); the mean value of each rule on the data of the loop
    best_rule_ : int; the number of the best of them
    isotonic_ : FittedIsotonic; isotonic regression on the training data, to compare with
    n_features_in_ : int; the number of items m; there is none after a table
    feature_names_in_ : array of shape (m,); the columns of a frame, where their names are text

    Examples
    --------
    >>> import numpy as np, outrule
    >>> predictions, outcomes = outrule.worlds.two_arms(5_000, seed=0, epsilon=0.3)
    >>> rules = [outrule.Fixed(1)]
    >>> calibrator = outrule.DecisionCalibrator(outrule.BestAction(), rules, epsilon=0.02)
    >>> calibrator.fit(predictions, outcomes).status_
    <Status.CONVERGED: 'converged'>
    >>> before = outrule.BestAction().solve(predictions)
    >>> after = calibrator.decide(predictions)
    >>> bool((outcomes * after).sum() > (outcomes * before).sum())
    True
    """

    # Neither is metadata that scikit-learn would pass on.
    __metadata_request__predict: ClassVar = {"predictions": UNUSED}
    __metadata_request__fit: ClassVar = {"predictions": UNUSED, "outcomes": UNUSED}
    __metadata_request__partial_fit = __metadata_request__fit
    __metadata_request__score = __metadata_request__fit

    def __init__(
        self,
        problem: Problem,
        rules: Sequence[Rule],
        epsilon: float = 0.05,
        *,
        check: Check | None = None,
        step: Step | None = None,
        start: Isotonic | None = None,
        max_rounds: int | None = None,
        random_state: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.problem = problem
        self.rules = rules
        self.epsilon = epsilon
        self.check = check
        self.step = step
        self.start = start
        self.max_rounds = max_rounds
        self.random_state = random_state
        self.n_jobs = n_jobs

    @threads.as_asked
    def fit(
        self,
        predictions: ArrayLike | Instances,
        outcomes: ArrayLike | None = None,
        *,
        available: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Calibrate on these instances.

        Parameters
        ----------
        predictions : array-like of shape (n, m), or Instances
            A pandas or Polars frame has one column per item; rules speak of columns by number.
        outcomes : array-like of shape (n, m); part of the Instances otherwise
        available : boolean array-like of shape (n, m), optional
        sample_weight : array-like of shape (n,), optional

        Cost: one optimiser call per rule and instance, then per round one optimiser call per
        instance and one addition per rule and chosen item.
        """
        settings = self.check_parameters()
        instances = self._enter_training(predictions, outcomes, available, sample_weight, settings)
        names = frames.names_in(predictions)
        generator = np.random.default_rng(self.random_state)
        isotonic, start = self._start(instances, generator)
        source, validation = open_source(
            instances, start, self.problem, settings.rules, settings.check, generator
        )
        plan = self._plan(settings, instances)
        boosted = boost(source, settings.rules, plan, generator, validation)
        # The last thing, after all that can fail: a calibrator is never half changed.
        self._keep(self._model(settings, instances, plan, isotonic, boosted, source), names)
        self._warn_unless_settled(boosted, plan)
        return self

    @threads.as_asked
    def partial_fit(
        self,
        predictions: ArrayLike | Instances,
        outcomes: ArrayLike | None = None,
        *,
        available: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """One CHECK on one fresh batch, and the patch it asks for, if any.

        The first batch sets ``k_`` and the tolerance, and fits the isotonic curves (from which it
        starts itself with ``start=Isotonic()``). Later calls keep problem, rules and epsilon.
        """
        settings = self.check_parameters()
        check = settings.check
        if isinstance(check, PrivateReuse) or (isinstance(check, Reuse) and check.validation):
            expected = "FreshBatches(...), or Reuse() without validation, for partial_fit"
            raise refuse_argument(check, "check", OWNER, expected)
        data = (predictions, outcomes, available, sample_weight)
        if hasattr(self, "model_"):
            instances = self.enter(*data)
            instances.require_outcome(OWNER)
            self.model_ = self._one_more(self.model_, instances, settings)
        else:
            instances = self._enter_training(*data, settings)
            names = frames.names_in(predictions)
            frozen = self.problem.lay(instances).per_item.get("frozen")
            isotonic = (self.start or Isotonic()).fit(instances, frozen)
            plan, empty = self._plan(settings, instances), Boosted([], [], Status.MAX_ROUNDS)
            blank = self._model(settings, instances, plan, isotonic, empty, None)
            self._keep(self._one_more(blank, instances, settings), names)
        return self

    def _one_more(self, model: Model, instances: Instances, settings: Settings) -> Model:
        """The model after one round on one fresh batch."""
        source = FreshData(
            instances, model.start_of(instances), model.problem, model.rules, len(instances)
        )
        plan = LoopSettings(settings.check, settings.step, model.tolerance, model.k, 1)
        generator = np.random.default_rng(self.random_state)
        boosted = boost(source, model.rules, plan, generator, None, model.patches)
        number = len(model.history)
        rows = tuple(row._replace(round=number + row.round) for row in boosted.history)
        total = model.weight_seen + source.weight
        return replace(
            model,
            patches=tuple(boosted.patches),
            history=model.history + rows,
            status=Status.CONVERGED if rows[-1].test is None else Status.MAX_ROUNDS,
            rule_values=(model.weight_seen * model.rule_values + source.sums) / total,
            weight_seen=total,
            fingerprints=(*model.fingerprints, instances.fingerprint),
        )

    @threads.as_asked
    def predict(
        self, predictions: ArrayLike | Instances, *, available: ArrayLike | None = None
    ) -> Any:
        """Calibrated predictions: an array for an array, a frame for a frame, a column for a table.

        Items that are not on offer come back as they came (NaN for Instances).
        """
        instances = self.enter(predictions, None, available)
        fill: Any = np.nan
        if available is not None and not isinstance(predictions, Instances):
            fill = np.asarray(frames.to_array(predictions, "predictions"), dtype=np.float64)
        calibrated = instances.origin.restore(self.model_.predict(instances), fill)
        return frames.restore(calibrated, predictions)

    @threads.as_asked
    def decide(
        self, predictions: ArrayLike | Instances, *, available: ArrayLike | None = None
    ) -> Any:
        """The optimiser's decisions on the calibrated predictions, as booleans."""
        instances = self.enter(predictions, None, available)
        marks = instances.mark(self.model_.pick(instances))
        return frames.restore(instances.origin.restore(marks, False), predictions)

    @threads.as_asked
    def score(
        self,
        predictions: ArrayLike | Instances,
        outcomes: ArrayLike | None = None,
        *,
        available: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """The mean value of the decisions: larger is better."""
        instances = self.enter(predictions, outcomes, available, sample_weight)
        outcome = instances.require_outcome(f"{OWNER}.score")
        marks = instances.mark(self.model_.pick(instances))
        values = np.add.reduceat(outcome * marks, instances.offsets[:-1])
        return float(np.average(values, weights=instances.weight))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a file, as text; :func:`outrule.load` reads it."""
        from outrule.model.codec import save

        self._fitted()
        save(self, path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        return tags

    def check_parameters(self) -> Settings:
        """Refuse parameters that cannot be used."""
        if not isinstance(self.problem, Problem):
            raise refuse_argument(self.problem, "problem", OWNER, "a problem, as BestAction()")
        rules = check_rules(self.rules, OWNER)
        check_number(self.epsilon, "epsilon", OWNER, 0, 1)
        if self.epsilon < LEAST_EPSILON:
            raise refuse_argument(self.epsilon, "epsilon", OWNER, f"at least {LEAST_EPSILON:g}")
        if self.start is not None and not isinstance(self.start, Isotonic):
            raise refuse_argument(self.start, "start", OWNER, "Isotonic() or None")
        if self.max_rounds is not None:
            check_number(self.max_rounds, "max_rounds", OWNER, 1, low_open=False, integer=True)
        if self.random_state is not None:
            check_number(self.random_state, "random_state", OWNER, 0, low_open=False, integer=True)
        check = require_check(Reuse() if self.check is None else self.check, OWNER)
        step = require_step(LineSearch() if self.step is None else self.step, OWNER)
        return Settings(check, step, rules)

    def enter(
        self,
        predictions: ArrayLike | Instances,
        outcomes: ArrayLike | None = None,
        available: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> Instances:
        """Instances like those of ``fit``, from anything that ``predict`` and ``score`` take."""
        model, wide = self._fitted(), read(predictions, outcomes, available)
        if not isinstance(wide, Instances):
            frames.check_like_fit(self, predictions, wide)
        return model.enter(wide, frames.to_array(outcomes, "outcomes"), available, weights)

    def _enter_training(
        self,
        predictions: ArrayLike | Instances,
        outcomes: ArrayLike | None,
        available: ArrayLike | None,
        weights: ArrayLike | None,
        settings: Settings,
    ) -> Instances:
        wide = read(predictions, outcomes, available)
        if outcomes is None and not isinstance(wide, Instances):
            expected = "given: it requires y to be passed, but the target y is None"
            raise refuse_argument(None, "outcomes", OWNER, expected)
        instances = enter(wide, frames.to_array(outcomes, "outcomes"), available, weights)
        instances.require_outcome(OWNER)
        if self.start is not None and instances.start is not None:
            raise DataError(
                "the instances carry start predictions, and start= is given: choose one."
            )
        self.problem.check_data(instances)
        for rule in settings.rules:
            rule.check_training(instances)
        return instances

    def _start(
        self, instances: Instances, generator: np.random.Generator
    ) -> tuple[FittedIsotonic, Floats]:
        """Isotonic curves on all the data, and where the loop starts."""
        frozen = self.problem.lay(instances).per_item.get("frozen")
        # The rival that users will name is kept, so that the certificate can print it beside us.
        isotonic = (self.start or Isotonic()).fit(instances, frozen)
        if self.start is not None:
            return isotonic, self.start.cross_fit(instances, generator, frozen)
        return isotonic, start_of(instances, None, isotonic, self.problem)

    def _plan(self, settings: Settings, instances: Instances) -> LoopSettings:
        low, high = instances.value_range
        tolerance = theory.tolerance(self.epsilon, self.problem.ratio) * (high - low)
        k = self.problem.lay(instances).k
        return LoopSettings(settings.check, settings.step, tolerance, k, self.max_rounds)

    def _model(
        self,
        settings: Settings,
        instances: Instances,
        plan: LoopSettings,
        isotonic: FittedIsotonic,
        boosted: Boosted,
        source: Source | None,
    ) -> Model:
        """What is kept; without a source nothing has been seen yet."""
        return Model(
            problem=self.problem,
            rules=settings.rules,
            epsilon=float(self.epsilon),
            start=self.start,
            tolerance=plan.tolerance,
            k=plan.k,
            value_range=instances.value_range,
            n_items=n_items(instances),
            columns=columns(instances),
            has_start=instances.start is not None,
            isotonic=isotonic,
            patches=tuple(boosted.patches),
            history=tuple(boosted.history),
            status=boosted.status,
            rule_values=np.zeros(len(settings.rules)) if source is None else source.values(),
            weight_seen=0.0 if source is None else source.weight,
            fingerprints=() if source is None else (instances.fingerprint,),
        )

    def _warn_unless_settled(self, boosted: Boosted, plan: LoopSettings) -> None:
        if boosted.status in (Status.MAX_ROUNDS, Status.OUT_OF_DATA) and plan.check.early_exit:
            warnings.warn(
                f"the loop stopped with status {boosted.status.value!r} after "
                f"{len(boosted.history)} rounds, when the largest violation was "
                f"{abs(boosted.history[-1].violation):.3g} and the tolerance {plan.tolerance:.3g}. "
                "Try a larger epsilon, more data or a larger max_rounds.",
                ConvergenceWarning,
                stacklevel=4,
            )


def read(predictions: Any, outcomes: Any, available: Any) -> Any:
    """Predictions for the door, as an array; Instances come as they are."""
    if isinstance(predictions, Instances):
        return predictions
    frames.check_same_columns(predictions, outcomes, "outcomes")
    frames.check_same_columns(predictions, available, "available")
    return frames.read(predictions)
