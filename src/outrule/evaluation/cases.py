"""What a unit runs on, its problem, rules and data, and the held-out part that measures it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from outrule import threads, worlds
from outrule.calibration.audit import OPTIMISER, audit, prepare, rule_values, squared_error
from outrule.calibration.patches import Patch, first_point, patch_part
from outrule.data.instances import Instances
from outrule.evaluation.grid import Unit
from outrule.problems.contract import Problem
from outrule.problems.matchings import Matching
from outrule.problems.matroids import GraphicMatroid, PartitionMatroid
from outrule.problems.one_item import BestAction, Rejection
from outrule.rules.rules import Multiplier, multipliers
from outrule.types import Floats, Integers
from outrule.worlds.seeds import Seed, mix

STREAM, TEST, EQUAL = 1, 2, 3  # purposes of instances that a unit draws
REJECTION = Rejection(0.2)
SHARPNESS = {"brief": 3.0, "converged": 1.0}  # of the predictor of rejection: 1 is Bayes-optimal
PROBLEMS: dict[str, Problem] = {  # the last two choose five items, like the matching
    "best-action": BestAction(),
    "matching": Matching.complete(10),
    "rejection": REJECTION,
    "partition": PartitionMatroid([item // 3 for item in range(15)]),
    "graphic": GraphicMatroid.complete(6),
}
FEWER = 8  # matroids get an eighth of the rules: their optimiser decides one instance at a time

# The paper's metrics of a run, per instance, and three more: the standard error of the gap (paired
# with the best rule), the squared error per entry, and the largest violation.
MEASURES = ("value", "gap", "gap_error", "improvement", "squared_error", "largest_violation")

Draw = Callable[[int, Seed], tuple[Floats, Floats]]


@dataclass(frozen=True, eq=False)
class Case:
    """What a unit runs on; ``draw(n, seed)`` gives predictions and outcomes of shape (n, m)."""

    seed: int
    problem: Problem
    rules: tuple[Multiplier, ...]
    draw: Draw

    def instances(self, n: int, purpose: int, *more: int) -> Instances:
        """Instances for a purpose; ``more`` numbers distinguish several draws for it."""
        return Instances.from_arrays(*self.draw(n, (self.seed, purpose, *more)))

    def rounds(self, first: int, last: int, size: int) -> Instances:
        """The instances of these rounds, ``size`` each; every round has a separate seed."""
        with threads.lone_blas():  # around all threads: it is a setting of the process
            blocks = threads.run(
                lambda i: self.draw(size, (self.seed, STREAM, first + i)), last - first
            )
        predictions, outcomes = (np.concatenate(arrays) for arrays in zip(*blocks, strict=True))
        return Instances.from_arrays(predictions, outcomes)


def make_case(unit: Unit, n_rules: int) -> Case:
    """Draw the world, train the predictor, and choose the rules; all anew for every m."""
    seed = mix(unit.seed, unit.n_items)
    limit = max(1, n_rules // FEWER) if unit.problem in ("partition", "graphic") else n_rules
    rules = multipliers(unit.n_items, limit=limit, seed=seed)
    if unit.problem == "rejection":
        return Case(seed, REJECTION, rules, partial(_draw_rejection, SHARPNESS[unit.regime]))
    drawn = partial(worlds.draw, *_trained(unit.n_items, unit.regime, seed))
    return Case(seed, PROBLEMS[unit.problem], rules, drawn)


@cache  # the matroids have the same data
def _trained(
    n_items: int, regime: str, seed: int
) -> tuple[worlds.Quadratic, worlds.LinearPredictor]:
    world = worlds.Quadratic(n_items, seed=seed)
    train = worlds.brief_predictor if regime == "brief" else worlds.converged_predictor
    return world, train(world, seed=seed)


def _draw_rejection(sharpness: float, n: int, seed: Seed) -> tuple[Floats, Floats]:
    predictions, outcomes = worlds.rejection(n, seed, sharpness)
    return REJECTION.with_reject(predictions), REJECTION.with_reject(outcomes)


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

    def patch(self, prediction: Floats, tests: Iterable[int], steps: Iterable[float]) -> int:
        """Patch in place; returns how many instances the optimiser decided."""
        patches = list(map(Patch, tests, steps))
        patch_part(self.part, prediction, patches, self.problem)
        return sum(patch.test == OPTIMISER for patch in patches) * len(self.part.layout)

    def patched(self, tests: Iterable[int], steps: Iterable[float]) -> Floats:
        """The original predictions with these patches."""
        prediction = self.start()
        self.patch(prediction, tests, steps)
        return prediction

    def value(self, prediction: Floats) -> float:
        """Mean value of the optimiser's decisions."""
        return float(self._values_of(prediction).mean())

    def values(self, prediction: Floats) -> tuple[float, float]:
        """The same, and the mean over the first half of the instances."""
        values = self._values_of(prediction)
        return float(values.mean()), float(values[: (len(values) + 1) // 2].mean())

    def squared_error(self, prediction: Floats) -> float:
        """Squared error per entry."""
        return squared_error(self.part, prediction) / self.n_items

    def measure(self, prediction: Floats) -> dict[str, float]:
        """All that is reported of the optimiser on these predictions."""
        return self._measure(self._values_of(prediction), prediction)

    def measure_rule(self, rule: int) -> dict[str, float]:
        """The same for a rule, which decides on the original predictions."""
        return self._measure(self._values_of_rule(rule), self.start())

    def _measure(self, values: Floats, prediction: Floats) -> dict[str, float]:
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
