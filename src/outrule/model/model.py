"""The model: everything that a fit leaves behind, frozen."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from outrule import theory
from outrule.calibration.curves import Member, Members
from outrule.calibration.isotonic import FittedIsotonic, Isotonic
from outrule.calibration.log_bases import Coefficients
from outrule.calibration.loop import Round, Status
from outrule.calibration.noise import NOISE
from outrule.calibration.patches import AnyPatch, replay
from outrule.calibration.piecewise import POOLED
from outrule.calibration.rivals import rivals_of
from outrule.calibration.segmented import replay_in_segments
from outrule.data.arrays import numeric
from outrule.data.instances import Instances, as_instances
from outrule.data.origin import ArrayOrigin, ColumnNames
from outrule.data.segments import Segmentation
from outrule.data.sketch import Seen
from outrule.errors import DataError, refuse_argument
from outrule.model.features import check_features
from outrule.model.settings import OWNER, Settings
from outrule.problems.contract import Problem
from outrule.rules.rules import Rule
from outrule.types import Floats, Picks, computed_once
from outrule.words import count


@dataclass(frozen=True, eq=False)
class Model:
    """What ``fit`` learnt, and all that describes it; nothing outside can change it."""

    settings: Settings
    tolerance: float
    k: int
    value_range: tuple[float, float]
    n_items: int | None  # None for a table, whose instances may offer any number
    feature_names: tuple[str, ...] | None  # of a wide frame
    columns: ColumnNames | None  # of a table
    has_start: bool  # the instances came with start predictions
    isotonic: FittedIsotonic
    rule_values: Floats
    members: tuple[Member, ...] = ()  # of a cross-fitted start
    patches: tuple[AnyPatch, ...] = ()
    history: tuple[Round, ...] = ()
    status: Status = Status.MAX_ROUNDS
    weight_seen: float = 0.0
    fingerprints: tuple[str, ...] = ()  # of the training data
    seen: Seen | None = None  # by which these are recognised; None in files of older versions
    kappa: float | None = None  # of logged feedback: see watching/claims.py
    log_base: Coefficients | None = None  # of logged feedback: see calibration/log_bases.py
    segmentation: Segmentation | None = None

    @property
    def problem(self) -> Problem:
        return self.settings.problem

    @property
    def rules(self) -> tuple[Rule, ...]:
        return self.settings.rules

    @computed_once
    def tests(self) -> tuple[Rule, ...]:
        """The rules, and behind them the rivals: what the number of a patch's test counts."""
        return self.rules + rivals_of(self.settings.rivals, self.isotonic)

    @computed_once
    def _packed(self) -> Members:
        return Members(self.members)

    @property
    def epsilon(self) -> float:
        """How far below the best rule is accepted, as given, or as the data support."""
        given = self.settings.epsilon
        return theory.guarantee(self.tolerance, self.problem.ratio) if given is None else given

    @property
    def best_rule(self) -> int:
        """The number of the rule with the largest value in training."""
        return int(np.argmax(self.rule_values))

    @property
    def margin(self) -> float:
        """How far below the best rule a certificate accepts."""
        return self.epsilon

    @property
    def reached(self) -> str:
        """What the loop has achieved on its data, in a sentence."""
        ratio = self.problem.ratio
        best = "the best rule" if ratio == 1 else f"{ratio:g} times the best rule"
        near = f"within {self.epsilon:.4g} of {best} on the training data"
        how = f"tolerance {self.tolerance:.4g}"
        if self.settings.epsilon is None:
            errors = "standard error" if NOISE == 1 else "standard errors"
            how += f": at least {NOISE:g} {errors} of the noisiest test"
        if self.status is Status.CONVERGED:
            return f"reached: {near} ({how})"
        return f"not reached: {near} ({how}), stopped with status {self.status.value!r}"

    @property
    def inside(self) -> str | None:
        """What the loop aims at inside the segments, in a sentence; None without segments."""
        found = self.segmentation
        if found is None:
            return None
        near = {theory.guarantee(s.tolerance or 0.0, self.problem.ratio) for s in found.segments}
        size = " to ".join(f"{number:.4g}" for number in sorted({min(near), max(near)}))
        best = f"in each of {count(len(found), 'segment')}, within {size} of its own best rule"
        return f"{best}. {found.note or ''}".rstrip()

    @property
    def caution(self) -> str | None:
        """What to mind about the fit, if anything."""
        return " ".join(filter(None, (self.unfinished, self.heuristic, self.vacuous))) or None

    @property
    def vacuous(self) -> str | None:
        """A sentence, where the best rule may be better by more than it is worth."""
        worth = float(np.abs(self.rule_values).max(initial=0.0))
        if self.epsilon <= worth or self.settings.epsilon is not None:
            return None
        return (
            f"these data support no better than within {self.epsilon:.3g} of the best rule, which "
            f"is worth {worth:.3g} itself. With such a margin a pass proves nothing: fit on more "
            "data, or narrow the value range if it is wider than the values."
        )

    @property
    def heuristic(self) -> str | None:
        """A sentence, where the noise of its CHECK is of the user's choice."""
        return self.settings.check.heuristic

    @property
    def unfinished(self) -> str | None:
        """A sentence, where the loop stopped before it converged."""
        stopped = self.status in (Status.MAX_ROUNDS, Status.OUT_OF_DATA)
        if not stopped or not self.settings.check.early_exit:
            return None
        return (
            f"the loop stopped with status {self.status.value!r} after "
            f"{count(len(self.history), 'round')}, when the largest violation was "
            f"{abs(self.history[-1].violation):.3g} and the tolerance {self.tolerance:.3g}. "
            "Try a larger epsilon, more data or a larger max_rounds."
        )

    def instances(
        self,
        predictions: ArrayLike | Instances,
        outcomes: ArrayLike | None = None,
        available: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Instances:
        """The data as Instances; they must be like those of training."""
        self._check_features(predictions)
        instances = as_instances(
            predictions,
            outcomes,
            available=available,
            sample_weight=sample_weight,
            value_range=self.value_range,
        )
        self.check_alike(instances)
        if unseen := self.unseen_items(instances):
            warnings.warn(unseen_words(unseen), stacklevel=4)
        return instances

    def check_alike(self, instances: Instances) -> None:
        """Raise DataError for instances that are not like those of training."""
        if instances.value_range != self.value_range:
            raise DataError(
                f"these instances have the value range {instances.value_range}, "
                f"those of fit {self.value_range}. They must be the same."
            )
        m = n_items(instances)
        if m != self.n_items:
            words = ["a table" if n is None else f"{n} items" for n in (m, self.n_items)]
            raise DataError(f"predictions have {words[0]}, those of fit had {words[1]}.")
        if self.has_start != (instances.start is not None):
            ours, theirs = ("have no", "had them") if self.has_start else ("have", "had none")
            raise DataError(
                f"these instances {ours} start predictions, those of fit {theirs}: "
                "give start= for both or for neither."
            )
        self.problem.check_data(instances)

    def unseen_items(self, instances: Instances) -> list[Any]:
        """The items of a table that training did not have, or only with weight zero."""
        curves, names = self.isotonic.curves, instances.item_names or ()
        if set(curves) == {POOLED}:
            return []
        reject = getattr(self.problem, "reject", POOLED)  # it has no curve: its value is known
        return [name for name in names if name not in curves and name != reject]

    def _check_features(self, predictions: Any) -> None:
        """Report columns that are not those of fit before anything about their values."""
        if self.n_items is None or isinstance(predictions, Instances):
            return
        shape = numeric(predictions, "predictions").shape
        if len(shape) == 2 and all(shape):
            check_features(predictions, shape[1], self.n_items, self.feature_names, OWNER)

    def start_of(self, instances: Instances) -> Floats:
        """The predictions that the patches start from, for new instances.

        The start that the instances have, or their predictions; or what was fitted on these.
        """
        if self.members:
            return self._packed.mean(self.tests, self.problem, instances)
        if instances.start is not None:
            return instances.start
        if not isinstance(self.settings.start, Isotonic):
            return instances.prediction
        frozen = self.problem.lay(instances).per_item.get("frozen")
        return self.isotonic.apply(instances, frozen)

    def predict(self, instances: Instances) -> Floats:
        """Calibrated predictions in the order of ``instances.prediction``."""
        start = self.start_of(instances)
        if self.segmentation is not None:
            given = (self.tests, self.problem, instances, start)
            return replay_in_segments(self.patches, self.segmentation, *given)
        return replay(self.patches, self.tests, self.problem, instances, start)

    def remember(self, instances: Instances) -> Model:
        """The same model, which will recognise these instances as seen."""
        seen: Seen | None = Seen.of(instances)
        if seen is not None and self.fingerprints:
            seen = None if self.seen is None else self.seen.merged(seen)
        fingerprints = (*self.fingerprints, instances.fingerprint)
        return replace(self, fingerprints=fingerprints, seen=seen)

    def pick(self, instances: Instances) -> Picks:
        """The optimiser's decisions on the calibrated predictions."""
        layout = self.problem.lay(instances)
        return self.problem.pick_on_threads(self.predict(instances), layout)


def unseen_words(items: list[Any], most: int = 5) -> str:
    """The warning about items that training did not have."""
    some = ", ".join(map(repr, items[:most])) + (", ..." if len(items) > most else "")
    return (
        f"{count(len(items), 'item')} not seen in training ({some}): multiplied by 1 in rules, "
        "and calibrated by the curves of all items together."
    )


def model_of(fitted: Any, owner: str) -> Model:
    """The model of a fitted calibrator, or the model itself."""
    if isinstance(fitted, Model):
        return fitted
    model = getattr(fitted, "model_", None)
    if isinstance(model, Model):
        return model
    if hasattr(fitted, "fit"):
        from sklearn.exceptions import NotFittedError  # loads scikit-learn, only for this error

        raise NotFittedError(
            f"This {type(fitted).__name__} instance is not fitted yet. Call 'fit' with "
            "appropriate arguments before using this estimator."
        )
    raise refuse_argument(fitted, "calibrator", owner, "a fitted DecisionCalibrator, or its Model")


def n_items(instances: Instances) -> int | None:
    """m for arrays; a table's instances may offer any number."""
    return instances.origin.shape[1] if isinstance(instances.origin, ArrayOrigin) else None
