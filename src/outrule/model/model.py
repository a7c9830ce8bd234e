"""The model: what `fit` leaves behind, whole and frozen; instances enter, predictions leave."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from outrule.calibration.isotonic import FittedIsotonic, Isotonic
from outrule.calibration.loop import Round, Status
from outrule.calibration.patches import Patch, replay
from outrule.data.instances import Instances
from outrule.data.origin import Schema, TableOrigin
from outrule.errors import DataError
from outrule.problems.contract import Problem
from outrule.rules.rules import Rule
from outrule.types import Floats, Picks


@dataclass(frozen=True, eq=False)
class Model:
    """A fitted calibrator; later changes of the calibrator's parameters do not reach it."""

    problem: Problem
    rules: tuple[Rule, ...]
    epsilon: float
    start: Isotonic | None
    tolerance: float
    k: int
    value_range: tuple[float, float]
    n_items: int | None  # None for a table, whose instances may offer any number
    columns: Schema | None  # of a table
    has_start: bool  # the instances carried start predictions
    isotonic: FittedIsotonic
    patches: tuple[Patch, ...]
    history: tuple[Round, ...]
    status: Status
    rule_values: Floats
    weight_seen: float
    fingerprints: tuple[str, ...]  # of the training data

    @property
    def best_rule(self) -> int:
        """The number of the rule that was worth most in training."""
        return int(np.argmax(self.rule_values))

    @property
    def margin(self) -> float:
        """Epsilon in the caller's units."""
        low, high = self.value_range
        return self.epsilon * (high - low)

    def enter(
        self,
        predictions: ArrayLike | Instances,
        outcomes: ArrayLike | None = None,
        available: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> Instances:
        """Instances for this model: they must be like those it has seen."""
        instances = enter(predictions, outcomes, available, weights, self.value_range)
        if instances.value_range != self.value_range:
            raise DataError(
                f"these instances have the value range {instances.value_range}, "
                f"those of fit {self.value_range}. They must be the same."
            )
        m = n_items(instances)
        if m != self.n_items:
            words = [
                "a table" if count is None else f"{count} items" for count in (m, self.n_items)
            ]
            raise DataError(f"predictions have {words[0]}, those of fit had {words[1]}.")
        if self.has_start != (instances.start is not None):
            words = ["carry no", "carry"] if self.has_start else ["carry", "carry no"]
            raise DataError(
                f"these instances {words[0]} start predictions, those of fit {words[1]}: "
                "give start= for both or for neither."
            )
        self.problem.check_data(instances)
        return instances

    def start_of(self, instances: Instances) -> Floats:
        """Where the patches start from."""
        return start_of(instances, self.start, self.isotonic, self.problem)

    def predict(self, instances: Instances) -> Floats:
        """Calibrated predictions in the order of ``instances.prediction``."""
        start = self.start_of(instances)
        return replay(self.patches, self.rules, self.problem, instances, start)

    def pick(self, instances: Instances) -> Picks:
        """The optimiser's decisions on the calibrated predictions."""
        layout = self.problem.lay(instances)
        return self.problem.pick_on_threads(self.predict(instances), layout)


def start_of(
    instances: Instances, start: Isotonic | None, isotonic: FittedIsotonic, problem: Problem
) -> Floats:
    """The start that the instances carry, their isotonic regression, or their predictions."""
    if instances.start is not None:
        return instances.start
    if start is None:
        return instances.prediction
    return isotonic.apply(instances, problem.lay(instances).per_item.get("frozen"))


def enter(
    predictions: ArrayLike | Instances,
    outcomes: ArrayLike | None = None,
    available: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    value_range: tuple[float, float] = (0.0, 1.0),
) -> Instances:
    """Arrays become Instances; Instances come with all they have."""
    if not isinstance(predictions, Instances):
        return Instances.from_arrays(
            predictions, outcomes, available=available, weight=weights, value_range=value_range
        )
    extra = {"outcomes": outcomes, "available": available, "sample_weight": weights}
    for name, value in extra.items():
        if value is not None:
            raise DataError(f"{name} was given beside Instances: it must be a part of them.")
    return predictions


def columns(instances: Instances) -> Schema | None:
    """The names of a table's columns; arrays have none."""
    origin = instances.origin
    return origin.names if isinstance(origin, TableOrigin) else None


def n_items(instances: Instances) -> int | None:
    """m for arrays; a table's instances may offer any number."""
    shape: tuple[int, int] | None = getattr(instances.origin, "shape", None)
    return None if shape is None else shape[1]
