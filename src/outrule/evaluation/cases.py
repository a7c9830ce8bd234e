"""What a unit runs on: its problem, rules, and a source of predictions and outcomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from outrule import threads, worlds
from outrule.data.instances import Instances
from outrule.evaluation.grid import Unit
from outrule.problems.contract import Problem
from outrule.problems.matchings import Matching
from outrule.problems.matroids import GraphicMatroid, PartitionMatroid
from outrule.problems.one_item import BestAction, Rejection
from outrule.rules.rules import Rule, multipliers
from outrule.types import Floats
from outrule.worlds.seeds import Seed

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

Draw = Callable[[int, Seed], tuple[Floats, Floats]]


@dataclass(frozen=True, eq=False)
class Case:
    """What a unit runs on; ``draw(n, seed)`` gives predictions and outcomes of shape (n, m)."""

    seed: int
    problem: Problem
    rules: tuple[Rule, ...]
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
    """Draw the world, train the predictor, and choose the rules."""
    limit = max(1, n_rules // FEWER) if unit.problem in ("partition", "graphic") else n_rules
    rules = multipliers(unit.n_items, limit=limit, seed=unit.seed)
    draw = _rejection(unit) if unit.problem == "rejection" else _quadratic(unit)
    return Case(unit.seed, PROBLEMS[unit.problem], rules, draw)


def _quadratic(unit: Unit) -> Draw:
    world = worlds.Quadratic(unit.n_items, seed=unit.seed)
    train = worlds.brief_predictor if unit.regime == "brief" else worlds.converged_predictor
    predictor = train(world, seed=unit.seed)
    return lambda n, seed: worlds.draw(world, predictor, n, seed)


def _rejection(unit: Unit) -> Draw:
    def draw(n: int, seed: Seed) -> tuple[Floats, Floats]:
        predictions, outcomes = worlds.rejection(n, seed, SHARPNESS[unit.regime])
        return REJECTION.with_reject(predictions), REJECTION.with_reject(outcomes)

    return draw
