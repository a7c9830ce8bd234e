"""Held-out instances of a unit, on which patched predictions are measured."""

from __future__ import annotations

import numpy as np

from outrule.calibration.audit import OPTIMISER, audit, prepare, rule_values, squared_error
from outrule.calibration.patches import apply_patches, first_point
from outrule.evaluation.cases import TEST, Case
from outrule.types import Floats, Integers

# The paper's metrics of a run, per instance, and three more: the standard error of the gap (paired
# with the best rule), the squared error per entry, and the largest violation.
MEASURES = ("value", "gap", "gap_error", "improvement", "squared_error", "largest_violation")
Measures = dict[str, float]


class HeldOut:
    """Instances that no run learns from; the best rule is the best on them, as in the paper."""

    def __init__(self, case: Case, n: int):
        self.problem = case.problem
        self.part = prepare(case.instances(n, TEST), case.problem, case.rules)
        self.n_items = len(self.part.outcome) // n
        self.rule_values = rule_values(self.part)
        self._best = self._values_of_rule(int(np.argmax(self.rule_values)))
        self.plain = self.value(self.start())
        self.oracle = self.value(self.part.outcome)

    def start(self) -> Floats:
        """A copy of the original predictions."""
        return first_point(self.part.instances.prediction, self.problem, self.part.layout)

    def patch(self, prediction: Floats, tests: Integers, steps: Floats) -> int:
        """Patch in place; returns how many instances the optimiser decided."""
        part = self.part
        order = np.where(tests == OPTIMISER, OPTIMISER, part.of_rule[tests])
        value_range = part.instances.value_range
        apply_patches(prediction, order, steps, part.picks, self.problem, part.layout, value_range)
        return int((tests == OPTIMISER).sum()) * len(part.layout)

    def patched(self, tests: list[int], steps: list[float]) -> Floats:
        """The original predictions with these patches."""
        prediction = self.start()
        self.patch(prediction, np.asarray(tests, np.int64), np.asarray(steps, np.float64))
        return prediction

    def value(self, prediction: Floats) -> float:
        """Mean value of the optimiser's decisions."""
        return float(self._values_of(prediction).mean())

    def squared_error(self, prediction: Floats) -> float:
        """Squared error per entry."""
        return squared_error(self.part, prediction) / self.n_items

    def measure(self, prediction: Floats) -> Measures:
        """All that is reported of the optimiser on these predictions."""
        return self._measure(self._values_of(prediction), prediction)

    def measure_rule(self, rule: int) -> Measures:
        """The same for a rule, which decides on the original predictions."""
        return self._measure(self._values_of_rule(rule), self.start())

    def _measure(self, values: Floats, prediction: Floats) -> Measures:
        difference, value = values - self._best, float(values.mean())
        violations = audit(self.part, prediction, self.problem).violations
        measures = (
            value,
            float(difference.mean()),
            float(difference.std() / np.sqrt(len(difference))),
            value - self.plain,
            self.squared_error(prediction),
            float(np.abs(violations).max()),
        )
        return dict(zip(MEASURES, measures, strict=True))

    def _values_of_rule(self, rule: int) -> Floats:
        rows = self.part.picks[self.part.of_rule[rule]].T.astype(np.int64)
        return self._values(np.where(rows < self.n_items, rows, -1))

    def _values_of(self, weights: Floats) -> Floats:
        picks = self.problem.pick_on_threads(weights, self.part.layout)
        return self._values(np.asarray(picks, dtype=np.int64))

    def _values(self, picks: Integers) -> Floats:
        """The value of decisions (n, k), with -1 for no item."""
        outcome = self.part.outcome.reshape(-1, self.n_items)
        taken = np.take_along_axis(outcome, np.maximum(picks, 0), axis=1)
        return np.asarray(np.where(picks >= 0, taken, 0.0).sum(axis=1))
