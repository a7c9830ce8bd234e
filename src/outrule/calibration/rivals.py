"""What a user has without us, as rules: the optimiser on the predictions, plain or isotonic."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from outrule.calibration.isotonic import FittedIsotonic, FoldCurves
from outrule.data.instances import Instances
from outrule.problems.contract import Layout, Problem
from outrule.rules.rules import Rule
from outrule.types import Booleans, Picks

PLAIN, ISOTONIC = RIVALS = ("plain", "isotonic")


@dataclass(frozen=True, eq=False)
class Rival(Rule):
    """The optimiser on the predictions, or on their isotonic regression."""

    name: str
    curves: FittedIsotonic | None  # None: what they give is the start that the instances carry

    def decide(self, instances: Instances, problem: Problem, layout: Layout) -> Picks:
        weights: Any = instances.prediction
        if self.name == ISOTONIC:
            frozen, weights = layout.per_item.get("frozen"), instances.start
            weights = weights if self.curves is None else self.curves.apply(instances, frozen)
        return problem.pick_on_threads(weights, layout)


def rivals_of(names: tuple[str, ...], isotonic: FittedIsotonic | None) -> tuple[Rule, ...]:
    """The rivals of these names."""
    return tuple(Rival(name, isotonic) for name in names)


def training_rivals(
    names: tuple[str, ...], isotonic: FoldCurves, instances: Instances, frozen: Booleans | None
) -> tuple[tuple[Rule, ...], Instances]:
    """The rivals on training data, and the data with what they look at.

    Curves that have seen the outcomes would flatter their own decisions, so isotonic regression is
    cross-fitted here. The predictions it gives travel with the instances, as their start.
    """
    return rivals_of(names, None), replace(instances, start=isotonic.apply(instances, frozen))
