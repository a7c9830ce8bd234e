"""What a user has without us, as rules: the optimiser on the predictions, plain or isotonic."""

from __future__ import annotations

from dataclasses import dataclass

from outrule.calibration.isotonic import FittedIsotonic
from outrule.data.instances import Instances
from outrule.problems.contract import Layout, Problem
from outrule.rules.rules import Rule
from outrule.types import Picks

RIVALS = ("plain", "isotonic")


@dataclass(frozen=True, eq=False)
class Rival(Rule):
    """The optimiser on the predictions, or on their isotonic regression where there are curves."""

    name: str
    curves: FittedIsotonic | None = None

    def decide(self, instances: Instances, problem: Problem, layout: Layout) -> Picks:
        weights = instances.prediction
        if self.curves is not None:
            weights = self.curves.apply(instances, layout.per_item.get("frozen"))
        return problem.pick_on_threads(weights, layout)


def rivals_of(names: tuple[str, ...], isotonic: FittedIsotonic) -> tuple[Rule, ...]:
    """The rivals of these names; the curves are those fitted on all the training data."""
    return tuple(Rival(name, isotonic if name == "isotonic" else None) for name in names)
