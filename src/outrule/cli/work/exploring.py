"""`outrule decide --explore`: random decisions in known proportions, and their propensities."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from outrule.cli.options import Over
from outrule.cli.work.screening import Answers
from outrule.data.instances import Instances
from outrule.model.exploring import Exploration, explore
from outrule.model.model import Model


class Explorer:
    """Explores, and remembers with which probabilities."""

    def __init__(self, model: Model, share: float, seed: int, over: Over):
        self.model, self.share, self.seed, self.over = model, share, seed, over
        self.found: dict[int, tuple[Instances, Exploration]] = {}  # by the id of the instances

    def decide(self, instances: Instances) -> NDArray[Any]:
        explored = explore(self.model, instances, self.share, self.seed, self.over.value)
        self.found[id(instances)] = (instances, explored)
        return explored.chosen  # type: ignore[no-any-return] # flat marks

    def propensities(self, answers: Answers) -> Answers:
        """What to add to the answered rows; instances that were not explored were certain."""
        columns = []
        for instances, marks in zip(answers.instances, answers.columns, strict=True):
            if id(instances) in self.found:
                flat = self.found[id(instances)][1].propensity
                columns.append(instances.origin.restore(flat, None))
            else:
                columns.append(marks.cast(float))
        return Answers(answers.rows, columns, answers.instances)

    @property
    def costs(self) -> list[tuple[int, float]]:
        """Numbers of explored instances, and what exploring is expected to cost on each."""
        return [(len(instances), one.cost) for instances, one in self.found.values()]
