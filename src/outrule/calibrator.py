"""The calibrator: predictions and outcomes enter `fit`, calibrated predictions leave `predict`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from outrule import theory
from outrule.arguments import DataError, check_number, refuse_argument
from outrule.arrays import Booleans, Floats
from outrule.boosting import Boosted, Plan, Round, Status, boost
from outrule.check import Check, LineSearch, PrivateReuse, Reuse, Step, check_check, check_step
from outrule.instances import Instances
from outrule.patches import Patch, replay
from outrule.problems import Problem
from outrule.rules import Rule, check_rules
from outrule.sources import FreshData, Source, open_source
from outrule.start import FittedIsotonic, Isotonic

OWNER = "DecisionCalibrator"


class DecisionCalibrator(BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """Make predictions on which the plain optimiser is worth as much as the best of the rules.

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

    Attributes
    ----------
    patches_ : list of Patch(test, step); test is the number of a rule, -1 the optimiser's own
    history_ : list of Round(round, test, violation, step, squared_error, n)
    status_ : Status; why the loop stopped
    tolerance_ : float; the largest violation that is tolerated
    k_ : int; size of the largest decision in the training data
    rule_values_ : array of shape (n_rules,); the mean value of each rule on the training data
    weight_seen_ : float; the weight of the instances these values are means over
    best_rule_ : int; the number of the best of them
    isotonic_ : FittedIsotonic or None; isotonic regression on the training data, to compare with

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

    patches_: list[Patch]
    history_: list[Round]
    status_: Status
    rule_values_: Floats

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
    ) -> None:
        self.problem = problem
        self.rules = rules
        self.epsilon = epsilon
        self.check = check
        self.step = step
        self.start = start
        self.max_rounds = max_rounds
        self.random_state = random_state

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
        outcomes : array-like of shape (n, m); part of the Instances otherwise
        available : boolean array-like of shape (n, m), optional
        sample_weight : array-like of shape (n,), optional

        Cost: one optimiser call per rule and instance, then per round one optimiser call per
        instance and one addition per rule and chosen item.
        """
        check, step, rules = self.check_parameters()
        instances = _enter(predictions, outcomes, available, sample_weight)
        instances.require_outcome(f"{OWNER}.fit")
        for rule in rules:
            rule.check_training(instances)
        layout = self.problem.lay(instances)
        generator = np.random.default_rng(self.random_state)
        frozen = layout.per_item.get("frozen")
        # The rival that users will name is kept, so that the certificate can print it beside us.
        isotonic = (self.start or Isotonic()).fit(instances, frozen)
        if self.start is None:
            start = instances.prediction if instances.start is None else instances.start
        elif instances.start is None:
            start = self.start.cross_fit(instances, generator, frozen)
        else:
            raise DataError(
                "the instances carry start predictions, and start= is given: choose one."
            )
        source, watch = open_source(instances, start, self.problem, rules, check, generator)
        plan = Plan(check, step, self._tolerance(instances), layout.k, self.max_rounds)
        self._keep(instances, plan, isotonic)
        self.fingerprints_ = [instances.fingerprint]
        self._finish(boost(source, self.problem, rules, plan, generator, watch), source, check)
        return self

    def partial_fit(
        self,
        predictions: ArrayLike | Instances,
        outcomes: ArrayLike | None = None,
        *,
        available: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """One CHECK on one fresh batch, and the patch it asks for, if any.

        The first batch sets ``k_`` and the tolerance, and fits the isotonic curves.
        """
        check, step, rules = self.check_parameters()
        if isinstance(check, PrivateReuse) or (isinstance(check, Reuse) and check.validation):
            expected = "FreshBatches(...), or Reuse() without validation, for partial_fit"
            raise refuse_argument(check, "check", OWNER, expected)
        first = not hasattr(self, "patches_")
        enter = _enter if first else self.enter
        instances = enter(predictions, outcomes, available, sample_weight)
        instances.require_outcome(f"{OWNER}.partial_fit")
        layout = self.problem.lay(instances)
        if first:
            isotonic = (self.start or Isotonic()).fit(instances, layout.per_item.get("frozen"))
            start = self._start_values(instances, isotonic)
            patches, history = list[Patch](), list[Round]()
            plan = Plan(check, step, self._tolerance(instances), layout.k, 1)
        else:
            start = self.start_of(instances)
            patches, history = self.patches_, self.history_
            plan = Plan(check, step, self.tolerance_, self.k_, 1)
        source = FreshData(instances, start, self.problem, rules, len(instances))
        generator = np.random.default_rng(self.random_state)
        boosted = boost(source, self.problem, rules, plan, generator, None, patches)
        # From here on nothing can fail, so a calibrator is never half changed.
        if first:
            self._keep(instances, plan, isotonic)
            self.rule_values_, self.weight_seen_ = np.zeros(len(rules)), 0.0
            self.fingerprints_ = list[str]()
        rows = [row._replace(round=len(history) + row.round) for row in boosted.history]
        self.patches_, self.history_ = boosted.patches, history + rows
        self.status_ = Status.CONVERGED if rows[-1].test is None else Status.MAX_ROUNDS
        total = self.weight_seen_ + source.weight
        self.rule_values_ = (self.weight_seen_ * self.rule_values_ + source.sums) / total
        self.weight_seen_ = total
        self.best_rule_ = int(np.argmax(self.rule_values_))
        self.fingerprints_ = [*self.fingerprints_, instances.fingerprint]
        return self

    def predict(
        self, predictions: ArrayLike | Instances, *, available: ArrayLike | None = None
    ) -> Any:
        """Calibrated predictions: an array for an array, a column for a table."""
        instances = self.enter(predictions, None, available, None)
        flat = self.predict_flat(instances)
        fill = np.nan
        if available is not None and not isinstance(predictions, Instances):
            fill = np.asarray(predictions, dtype=np.float64)  # type: ignore[assignment] # as it came
        return instances.origin.restore(flat, fill)

    def decide(
        self, predictions: ArrayLike | Instances, *, available: ArrayLike | None = None
    ) -> Any:
        """The optimiser's decisions on the calibrated predictions, as booleans."""
        instances = self.enter(predictions, None, available, None)
        return instances.origin.restore(self._marks(instances), False)

    def score(
        self,
        predictions: ArrayLike | Instances,
        outcomes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """The mean value of the decisions: larger is better."""
        instances = self.enter(predictions, outcomes, None, sample_weight)
        outcome = instances.require_outcome(f"{OWNER}.score")
        values = np.add.reduceat(outcome * self._marks(instances), instances.offsets[:-1])
        return float(np.average(values, weights=instances.weight))

    def predict_flat(self, instances: Instances) -> Floats:
        """Calibrated predictions in the order of ``instances.prediction``."""
        check_is_fitted(self, "patches_")
        start = self.start_of(instances)
        return replay(self.patches_, self.rules, self.problem, instances, start)

    def _marks(self, instances: Instances) -> Booleans:
        layout = self.problem.lay(instances)
        return instances.mark(self.problem.pick(self.predict_flat(instances), layout))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a file, as text; :func:`outrule.load` reads it."""
        from outrule.model_file import save

        check_is_fitted(self, "patches_")
        save(self, path)

    def check_parameters(self) -> tuple[Check, Step, tuple[Rule, ...]]:
        if not isinstance(self.problem, Problem):
            raise refuse_argument(self.problem, "problem", OWNER, "a problem, as BestAction()")
        rules = check_rules(self.rules, OWNER)
        check_number(self.epsilon, "epsilon", OWNER, 0, 1)
        if self.start is not None and not isinstance(self.start, Isotonic):
            raise refuse_argument(self.start, "start", OWNER, "Isotonic() or None")
        if self.max_rounds is not None:
            check_number(self.max_rounds, "max_rounds", OWNER, 1, low_open=False, integer=True)
        if self.random_state is not None:
            check_number(self.random_state, "random_state", OWNER, 0, low_open=False, integer=True)
        check = check_check(Reuse() if self.check is None else self.check, OWNER)
        step = check_step(LineSearch() if self.step is None else self.step, OWNER)
        return check, step, rules

    def _tolerance(self, instances: Instances) -> float:
        low, high = instances.value_range
        return theory.tolerance(self.epsilon, self.problem.ratio) * (high - low)

    def _keep(self, instances: Instances, plan: Plan, isotonic: FittedIsotonic) -> None:
        self.tolerance_, self.k_ = plan.tolerance, plan.k
        self.value_range_ = instances.value_range
        self.n_items_ = _n_items(instances)
        self.has_start_ = instances.start is not None
        self.isotonic_ = isotonic

    def _finish(self, boosted: Boosted, source: Source, check: Check) -> None:
        self.patches_, self.history_ = boosted.patches, boosted.history
        self.status_ = boosted.status
        self.rule_values_, self.weight_seen_ = source.values(), source.weight
        self.best_rule_ = int(np.argmax(self.rule_values_))
        if boosted.status in (Status.MAX_ROUNDS, Status.OUT_OF_DATA) and check.early_exit:
            last = boosted.history[-1]
            warnings.warn(
                f"the loop stopped with status {boosted.status.value!r} after "
                f"{len(boosted.history)} rounds, when the largest violation was "
                f"{abs(last.violation):.3g} and the tolerance {self.tolerance_:.3g}. "
                "Try a larger epsilon, more data or a larger max_rounds.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def start_of(self, instances: Instances) -> Floats:
        if self.has_start_ != (instances.start is not None):
            words = ("carry", "carry no") if instances.start is not None else ("carry no", "carry")
            raise DataError(
                f"these instances {words[0]} start predictions, those of fit {words[1]}: "
                "give start= for both or for neither."
            )
        return self._start_values(instances, self.isotonic_)

    def _start_values(self, instances: Instances, isotonic: FittedIsotonic) -> Floats:
        if instances.start is not None:
            return instances.start
        if self.start is None:
            return instances.prediction
        return isotonic.apply(instances, self.problem.lay(instances).per_item.get("frozen"))

    def enter(
        self,
        predictions: ArrayLike | Instances,
        outcomes: ArrayLike | None,
        available: ArrayLike | None,
        sample_weight: ArrayLike | None,
    ) -> Instances:
        """Instances for a fitted calibrator: they must be like those it has seen."""
        check_is_fitted(self, "patches_")
        instances = _enter(predictions, outcomes, available, sample_weight, self.value_range_)
        if instances.value_range != self.value_range_:
            raise DataError(
                f"these instances have the value range {instances.value_range}, "
                f"those of fit {self.value_range_}. They must be the same."
            )
        if _n_items(instances) != self.n_items_:
            raise DataError(
                f"predictions have {_n_items(instances)} items, those of fit had {self.n_items_}."
            )
        return instances


def _enter(
    predictions: ArrayLike | Instances,
    outcomes: ArrayLike | None,
    available: ArrayLike | None,
    weights: ArrayLike | None,
    value_range: tuple[float, float] = (0.0, 1.0),
) -> Instances:
    if not isinstance(predictions, Instances):
        return Instances.from_arrays(
            predictions, outcomes, available=available, weights=weights, value_range=value_range
        )
    extra = {"outcomes": outcomes, "available": available, "sample_weight": weights}
    for name, value in extra.items():
        if value is not None:
            raise DataError(f"{name} was given beside Instances: it must be a part of them.")
    return predictions


def _n_items(instances: Instances) -> int | None:
    """m for arrays; a table's instances may offer any number."""
    shape: tuple[int, int] | None = getattr(instances.origin, "shape", None)
    return None if shape is None else shape[1]
