"""What a user has without us, as rules: the optimiser on the predictions, plain or isotonic."""

from __future__ import annotations

from dataclasses import dataclass, replace

from outrule.calibration.isotonic import FittedIsotonic, FoldCurves
from outrule.data.instances import Instances
from outrule.problems.contract import Layout, Problem
from outrule.rules.rules import Rule
from outrule.types import Booleans, Picks

PLAIN, ISOTONIC = RIVALS = ("plain", "isotonic")


@dataclass(frozen=True, eq=False)
class Plain(Rule):
    """The optimiser on the predictions."""

    name: str = PLAIN

    def decide(self, instances: Instances, problem: Problem, layout: Layout) -> Picks:
        return problem.pick_on_threads(instances.prediction, layout)


@dataclass(frozen=True, eq=False)
class OnIsotonic(Rule):
    """The optimiser on the isotonic regression of the predictions."""

    curves: FittedIsotonic
    name: str = ISOTONIC

    def decide(self, instances: Instances, problem: Problem, layout: Layout) -> Picks:
        weights = self.curves.apply(instances, layout.per_item.get("frozen"))
        return problem.pick_on_threads(weights, layout)


@dataclass(frozen=True, eq=False)
class OnStart(Rule):
    """The optimiser on the start that the instances carry."""

    name: str = ISOTONIC

    def decide(self, instances: Instances, problem: Problem, layout: Layout) -> Picks:
        assert instances.start is not None
        return problem.pick_on_threads(instances.start, layout)


def rivals_of(names: tuple[str, ...], isotonic: FittedIsotonic) -> tuple[Rule, ...]:
    """The rivals of these names, for new instances."""
    return tuple(Plain() if name == PLAIN else OnIsotonic(isotonic) for name in names)


def training_rivals(
    names: tuple[str, ...], isotonic: FoldCurves, instances: Instances, frozen: Booleans | None
) -> tuple[tuple[Rule, ...], Instances]:
    """The rivals on training data, and the data with what they look at.

    Curves that have seen the outcomes would flatter their own decisions, so isotonic regression is
    cross-fitted here. The predictions it gives travel with the instances, as their start.
    """
    rules = tuple(Plain() if name == PLAIN else OnStart() for name in names)
    return rules, replace(instances, start=isotonic.apply(instances, frozen))
