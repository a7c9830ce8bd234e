"""The scikit-learn class: predictions and outcomes in ``fit``, calibrated ones from ``predict``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from outrule import threads
from outrule.calibration.check import Check, Step
from outrule.calibration.cross_fit import CrossFit
from outrule.calibration.isotonic import FittedIsotonic, Isotonic
from outrule.calibration.loop import Round, Status
from outrule.calibration.patches import AnyPatch
from outrule.calibration.rivals import RIVALS
from outrule.data.arrays import numeric
from outrule.data.instances import Instances, as_instances, is_partitioned
from outrule.data.segments import Segments
from outrule.errors import refuse_argument
from outrule.estimators.display import Shown
from outrule.estimators.frames import restore
from outrule.model import codec, exploring
from outrule.model.exploring import Exploration
from outrule.model.features import feature_names
from outrule.model.fitting import check_batchwise, first_batch, fit_model, next_batch
from outrule.model.model import Model
from outrule.model.settings import OWNER, Settings
from outrule.model.value import Value
from outrule.problems.contract import Problem
from outrule.problems.offers import few_choices
from outrule.rules.rules import Rule
from outrule.types import Floats

if TYPE_CHECKING:
    from outrule.data.partitions import Partitions  # loads Polars, which arrays do not need
    from outrule.model.spec import Spec


class DecisionCalibrator(Shown, BaseEstimator):  # type: ignore[misc] # it has no types
    """Calibrate predictions so that the plain optimiser is as good as the best of the rules.

    A scikit-learn estimator whose X are predictions and whose y are outcomes, both of shape (n, m):
    ``clone``, ``GridSearchCV``, ``cross_val_score`` and the last step of a ``Pipeline`` work as
    usual. Of scikit-learn's own checks of estimators two do not apply: the second argument is
    called ``outcomes``, not ``y``, and data that are not numbers raise DataError, a ValueError.

    Parameters
    ----------
    problem : Problem
        What can be decided: ``BestAction()``, ``Matching.complete(10)``, ...
    rules : sequence of Rule
        What to compete with. They always decide on the original predictions.
    epsilon : float, optional
        How far below the best rule is acceptable, per instance, in the units of the value. By
        default the loop goes on as long as violations are larger than their own noise, and
        ``model_.reached`` says how near that came.
    check : FreshBatches, PrivateReuse or Reuse
        How violations are found; default ``Reuse()``.
    step : LineSearch or FixedStep
        How far to move; default ``LineSearch()``.
    start : CrossFit, Isotonic or None; default ``CrossFit()``
        Start from predictors boosted by curves, or from isotonic regression. With None, from the
        predictions, or from the ``start`` column that the instances carry; ``CrossFit`` takes that
        column for the predictions it starts from.
    max_rounds : int, optional
        Default: the number of rounds after which, by the theory, the loop has stopped.
    random_state : int, optional
        Seeds the noise of ``PrivateReuse``, the validation part and the folds of the start. The
        default is 0, so that runs can be repeated; whoever knows the seed can subtract the noise.
    rivals : sequence of "plain" and "isotonic"; default both
        The optimiser on the predictions, and on their isotonic regression, are tests as the rules
        are: the result is at least as good as they are, too. On training data the regression is
        cross-fitted; on new data it is ``isotonic_``. ``()`` for Algorithm 1 to the letter;
        certificates compare with both anyway.
    value : Value, optional
        What certificates and reports call the value: ``Value("purchases", "euro")``.
    segments : sequence of columns and of tuples of columns, or Segments, optional
        Columns of the data that are constant within an instance; a tuple is the crossing of its
        columns. Every test is then also taken inside each of their values: the result is as good
        as the best rule of that segment, minus at most epsilon, and not only on the whole. The
        columns are needed to predict. See ``outrule.Segments``.
    n_jobs : int, optional
        Threads; default and -1: all cores. The result is the same for any number.

    Attributes
    ----------
    model_ : Model; everything below and the parameters of ``fit``, frozen
    patches_ : list of Patch(test, step); test is the number of a rule, -1 the optimiser's own
        Inside a segment SegmentPatch(test, step, segment), segment being the number of one of
        ``model_.segmentation.segments``.
    history_ : list of Round(round, test, violation, step, squared_error, n)
    status_ : Status; why the loop stopped
    tolerance_ : float; the largest violation that is tolerated, in the units of the value
    k_ : int; size of the largest decision in the training data
    rule_values_ : array of shape (n_rules,); the mean value of each rule on the data of the loop
    best_rule_ : int; the number of the best of them
    isotonic_ : FittedIsotonic; isotonic regression on the training data, to compare with
    n_features_in_ : int; the number of items m; not set after fitting on a table
    feature_names_in_ : array of shape (m,); the columns of a frame, where their names are text

    Examples
    --------
    >>> import numpy as np, outrule
    >>> predictions, outcomes = outrule.worlds.two_arms(5_000, seed=0, epsilon=0.3)
    >>> rules = [outrule.Fixed(1)]
    >>> calibrator = outrule.DecisionCalibrator(outrule.BestAction(), rules)
    >>> calibrator.fit(predictions, outcomes).status_
    <Status.CONVERGED: 'converged'>
    >>> before = outrule.BestAction().solve(predictions)
    >>> after = calibrator.decide(predictions)
    >>> bool((outcomes * after).sum() > (outcomes * before).sum())
    True
    """

    model_: Model

    # Neither is metadata that scikit-learn would pass on.
    __metadata_request__predict: ClassVar = {"predictions": UNUSED}
    __metadata_request__score: ClassVar = {"predictions": UNUSED, "outcomes": UNUSED}
    __metadata_request__partial_fit = __metadata_request__score
    __metadata_request__fit: ClassVar = {
        **__metadata_request__score,
        "client": UNUSED,
        "checkpoint": UNUSED,
    }

    def __init__(
        self,
        problem: Problem,
        rules: Sequence[Rule],
        epsilon: float | None = None,
        *,
        check: Check | None = None,
        step: Step | None = None,
        start: Isotonic | CrossFit | type[CrossFit] | None = CrossFit,
        max_rounds: int | None = None,
        random_state: int | None = None,
        rivals: Sequence[str] = RIVALS,
        value: Value | None = None,
        segments: Segments | Sequence[str | tuple[str, ...]] | None = None,
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
        self.rivals = rivals
        self.value = value
        self.segments = segments
        self.n_jobs = n_jobs

    @threads.as_asked
    def fit(
        self,
        predictions: ArrayLike | Instances | Partitions,
        outcomes: ArrayLike | None = None,
        *,
        available: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        client: Any = None,
        checkpoint: str | PathLike[str] | None = None,
    ) -> Self:
        """Calibrate on these instances.

        Parameters
        ----------
        predictions : array-like of shape (n, m), Instances, or Partitions
            A pandas or Polars frame has one column per item; rules speak of columns by number.
            ``outrule.Partitions`` is for tables that do not fit into memory.
        outcomes : array-like of shape (n, m); part of the Instances otherwise
        available : boolean array-like of shape (n, m), optional
        sample_weight : array-like of shape (n,), optional
        client : distributed.Client, optional
            Of a Dask cluster whose workers can read the files of Partitions; they fit the start and
            keep what the loop needs, and the model is the same, whatever happens to them.
        checkpoint : path, optional
            Of Partitions: a file by which a fit that was killed goes on where it was.

        Notes
        -----
        Cost: one optimiser call per rule and instance, then per round one optimiser call per
        instance and one addition per rule and chosen item.
        """
        settings = self.settings()
        given: Any = predictions
        if is_partitioned(given):
            from outrule.model.partitioned import fit_partitions  # loads Polars

            if any(value is not None for value in (outcomes, available, sample_weight)):
                expected = "left out for Partitions: outcomes, available and sample_weight must be "
                raise refuse_argument("given", "outcomes", OWNER, f"{expected}columns of the files")
            how: Any = {"client": client, "checkpoint": checkpoint}
            self.model_, found = fit_partitions(settings, given, **how)
            instances = found.sample
        else:
            for name, value in (("client", client), ("checkpoint", checkpoint)):
                if value is not None:
                    raise refuse_argument("given", name, "fit", "left out: it is for Partitions")
            instances = self._training_data(given, outcomes, available, sample_weight)
            self.model_ = fit_model(settings, instances, feature_names(given))
        if (words := few_choices(settings.problem, instances)) is not None:
            warnings.warn(words, stacklevel=3)
        if self.model_.unfinished is not None:
            warnings.warn(self.model_.unfinished, ConvergenceWarning, stacklevel=3)
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
        settings = self.settings()
        check_batchwise(settings)
        if hasattr(self, "model_"):
            instances = self.model_.instances(predictions, outcomes, available, sample_weight)
            self.model_ = next_batch(self.model_, settings, instances)
        else:
            instances = self._training_data(predictions, outcomes, available, sample_weight)
            self.model_ = first_batch(settings, instances, feature_names(predictions))
        return self

    @threads.as_asked
    def predict(
        self, predictions: ArrayLike | Instances, *, available: ArrayLike | None = None
    ) -> Any:
        """Calibrated predictions: an array for an array, a frame for a frame, a column for a table.

        Items that are not on offer come back as they came (NaN for Instances).
        """
        instances = self._fitted().instances(predictions, None, available)
        fill: Any = np.nan
        if available is not None and not isinstance(predictions, Instances):
            fill = numeric(predictions, "predictions")
        calibrated = instances.origin.restore(self.model_.predict(instances), fill)
        return restore(calibrated, predictions)

    @threads.as_asked
    def decide(
        self, predictions: ArrayLike | Instances, *, available: ArrayLike | None = None
    ) -> Any:
        """The optimiser's decisions on the calibrated predictions, as booleans."""
        instances = self._fitted().instances(predictions, None, available)
        marks = instances.mark(self.model_.pick(instances))
        return restore(instances.origin.restore(marks, False), predictions)

    @threads.as_asked
    def explore(
        self,
        predictions: ArrayLike | Instances,
        *,
        share: float = 0.05,
        random_state: int = 0,
        over: str = "uniform",
        available: ArrayLike | None = None,
    ) -> Exploration:
        """Decisions of which a share is random, with the probability of every item.

        Log ``propensity`` with the outcomes of what was chosen: then rules can be compared, and
        models fitted and certified, on that log. The draw depends on the seed and on the name of
        the instance in its table (for arrays, its number), not on what else is decided with it.

        Parameters
        ----------
        predictions, available : as for ``decide``
        share : float in (0, 1]
            Of the decisions that are drawn at random.
        random_state : int
        over : "uniform" or "rules"
            What is drawn: any of the largest decisions (best action, top k, complete assignments
            and matchings; for other problems one of the rivals' decisions or our own), or one of
            the decisions of the rules, plain and isotonic. The latter loses less, and explores
            just what a certificate needs.

        Returns
        -------
        Exploration(chosen, propensity, cost); the first two as ``decide`` returns decisions,
        ``cost`` is the value per instance that exploring is expected to lose

        Examples
        --------
        >>> import outrule
        >>> data = outrule.worlds.two_arms(1_000, seed=0, epsilon=0.3)
        >>> calibrator = outrule.DecisionCalibrator(outrule.BestAction(), [outrule.Fixed(1)])
        >>> explored = calibrator.fit(*data).explore(data[0], share=0.2)
        >>> explored.propensity[0], round(explored.cost, 3)
        (array([0.1, 0.9]), 0.021)
        """
        instances = self._fitted().instances(predictions, None, available)
        found = exploring.explore(self.model_, instances, share, random_state, over)
        chosen = instances.origin.restore(found.chosen, False)
        odds = instances.origin.restore(found.propensity, np.nan)
        return Exploration(restore(chosen, predictions), restore(odds, predictions), found.cost)

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
        instances = self._fitted().instances(predictions, outcomes, available, sample_weight)
        if instances.propensity is not None:
            instances = instances.filled(self.model_.predict(instances))
        outcome = instances.require_outcome(f"{OWNER}.score")
        marks = instances.mark(self.model_.pick(instances))
        values = np.add.reduceat(outcome * marks, instances.offsets[:-1])
        return float(np.average(values, weights=instances.weight))

    def save(self, path: str | PathLike[str], *, key: bytes | None = None) -> None:
        """Write the model to a file, as JSON; ``outrule.load`` reads it.

        With a key (bytes, at least 16), it is signed: HMAC-SHA256, a secret shared by writer and
        reader.
        """
        codec.save(self._fitted(), path, key)

    @classmethod
    def from_model(cls, model: Model) -> Self:
        """A fitted calibrator with this model and its parameters."""
        calibrator = cls(**vars(model.settings))
        calibrator.model_ = model
        return calibrator

    @classmethod
    def from_spec(cls, spec: Spec, instances: Instances, **changes: Any) -> Self:
        """A calibrator for these instances, not fitted yet; ``changes`` differ from the file."""
        n_jobs = changes.pop("n_jobs", None)
        return cls(**vars(spec.settings(instances, **changes)), n_jobs=n_jobs)

    def settings(self) -> Settings:
        """The parameters, checked and with defaults filled in."""
        optional = ("check", "step", "max_rounds", "random_state", "value")
        given = {name: value for name in optional if (value := getattr(self, name)) is not None}
        # scikit-learn's defaults are never instances, so the class stands for its defaults.
        given["start"] = CrossFit() if self.start is CrossFit else self.start
        given |= {"rules": self.rules, "rivals": self.rivals, "segments": self.segments}
        return Settings(self.problem, epsilon=self.epsilon, **given)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        return tags

    def _training_data(
        self,
        predictions: ArrayLike | Instances,
        outcomes: ArrayLike | None,
        available: ArrayLike | None,
        sample_weight: ArrayLike | None,
    ) -> Instances:
        if outcomes is None and not isinstance(predictions, Instances):
            expected = "given: it requires y to be passed, but the target y is None"
            raise refuse_argument(None, "outcomes", OWNER, expected)
        return as_instances(predictions, outcomes, available=available, sample_weight=sample_weight)

    def _fitted(self) -> Model:
        check_is_fitted(self, "model_")
        return self.model_

    @property
    def patches_(self) -> list[AnyPatch]:
        return list(self._fitted().patches)

    @property
    def history_(self) -> list[Round]:
        return list(self._fitted().history)

    @property
    def status_(self) -> Status:
        return self._fitted().status

    @property
    def tolerance_(self) -> float:
        return self._fitted().tolerance

    @property
    def k_(self) -> int:
        return self._fitted().k

    @property
    def rule_values_(self) -> Floats:
        return self._fitted().rule_values

    @property
    def best_rule_(self) -> int:
        return self._fitted().best_rule

    @property
    def isotonic_(self) -> FittedIsotonic:
        return self._fitted().isotonic

    @property
    def n_features_in_(self) -> int:
        number = self._fitted().n_items
        if number is None:
            raise AttributeError("a table's instances may offer any number of items")
        return number

    @property
    def feature_names_in_(self) -> Any:
        names = self._fitted().feature_names
        if names is None:
            raise AttributeError("fit has seen no column names")
        return np.array(names, dtype=object)


def load(
    path: str | PathLike[str],
    *,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    key: bytes | None = None,
) -> DecisionCalibrator:
    """Read a model file; its content must match its digest.

    Parameters
    ----------
    functions : mapping, needed where the model has functions of yours
        By the name of the rule, or of the problem's argument (``"function"``, ``"independent"``).
        They are never stored.
    key : bytes, optional
        The file must be signed with this key: see ``DecisionCalibrator.save``.
    """
    return DecisionCalibrator.from_model(codec.load_model(path, functions, key))
