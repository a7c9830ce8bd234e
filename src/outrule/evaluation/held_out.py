"""The held-out instances of a unit: predictions enter, their value and squared error leave."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from outrule.calibration.audit import OPTIMISER, audit, prepare, rule_values, squared_error
from outrule.calibration.patches import Decided, apply_patches, first_point
from outrule.evaluation.cases import TEST, Case
from outrule.types import Floats, Integers


class Measured(NamedTuple):
    """The paper's metrics of a run, and what else one would like to know."""

    value: float
    gap: float
    gap_error: float  # standard error of the gap, paired with the best rule
    improvement: float
    squared_error: float  # per entry
    largest_violation: float


class HeldOut:
    """Instances that no run learns from; the best rule is the best on them, as in the paper."""

    def __init__(self, case: Case, n: int):
        self.problem = case.problem
        self.part = prepare(case.instances(n, TEST), case.problem, case.rules)
        self.n_items = len(self.part.outcome) // n
        self.rule_values = rule_values(self.part)
        self._best = self._values_of_rule(int(np.argmax(self.rule_values)))
        self.plain = self.value(self.start())
        self.oracle = float(self._values(self._pick(self.part.outcome)).mean())

    def start(self) -> Floats:
        """A copy of the original predictions."""
        instances, layout = self.part.instances, self.part.layout
        return first_point(instances.prediction, self.problem, layout)

    def patch(self, prediction: Floats, tests: Integers, steps: Floats) -> int:
        """Patch in place; says how many instances the optimiser decided."""
        part = self.part
        order = np.where(tests == OPTIMISER, OPTIMISER, part.of_rule[tests])
        value_range = part.instances.value_range
        decided = Decided(self.problem, part.layout, part.picks, value_range)
        apply_patches(prediction, order, steps, decided)
        return int((tests == OPTIMISER).sum()) * len(part.layout)

    def value(self, prediction: Floats) -> float:
        """Mean value of the optimiser's decisions."""
        return float(self._values(self._pick(prediction)).mean())

    def squared_error(self, prediction: Floats) -> float:
        """Per entry."""
        return squared_error(self.part, prediction) / self.n_items

    def measure(self, prediction: Floats) -> Measured:
        """Everything that is reported of a run."""
        violations = audit(self.part, prediction, self.problem).violations
        return self._measured(
            self._values(self._pick(prediction)),
            self.squared_error(prediction),
            float(np.abs(violations).max()),
        )

    def measure_rule(self, rule: int) -> Measured:
        """The same of a rule, which decides on the predictions as they are."""
        start = self.measure(self.start())
        values = self._values_of_rule(rule)
        return self._measured(values, start.squared_error, start.largest_violation)

    def _measured(self, values: Floats, error: float, violation: float) -> Measured:
        difference, value = values - self._best, float(values.mean())
        gap_error = float(difference.std() / np.sqrt(len(difference)))
        gap, improvement = float(difference.mean()), value - self.plain
        return Measured(value, gap, gap_error, improvement, error, violation)

    def _values_of_rule(self, rule: int) -> Floats:
        rows = self.part.picks[self.part.of_rule[rule]].T.astype(np.int64)
        return self._values(np.where(rows < self.n_items, rows, -1))

    def _pick(self, weights: Floats) -> Integers:
        return np.asarray(self.problem.pick_on_threads(weights, self.part.layout), dtype=np.int64)

    def _values(self, picks: Integers) -> Floats:
        """The value of decisions (n, k), -1 where there is none."""
        outcome = self.part.outcome.reshape(-1, self.n_items)
        taken = np.take_along_axis(outcome, np.maximum(picks, 0), axis=1)
        return np.asarray(np.where(picks >= 0, taken, 0.0).sum(axis=1))
