"""What decisions are worth, one number per instance: all that a certificate reads of its data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from outrule.data.instances import Instances
from outrule.model.model import Model
from outrule.problems.contract import Layout
from outrule.proof.confidence import Estimates
from outrule.proof.logged import Log
from outrule.rules.decisions import decide_all, expand
from outrule.types import Floats, Integers, Picks

COLUMNS = ("outcome", "before", "after", "residual before", "residual after")


class LogNumbers(Protocol):
    """What a log with propensities says of decisions: see ``Log``."""

    def worth(self, picks: Any) -> Estimates: ...
    def gain(self, picks: Any) -> Estimates: ...
    def never(self, picks: Any) -> tuple[Floats, Integers]: ...
    def weights(self) -> Floats: ...


class Numbers(Protocol):
    """Totals per instance; decisions are picks, or names of them where they are on disk."""

    plain: Any
    calibrated: Any
    isotonic: Any
    k: int

    @property
    def estimates(self) -> LogNumbers | None: ...
    @property
    def fingerprint(self) -> str: ...
    def oracle(self) -> Any: ...
    def decisions(self, first: int, last: int) -> Callable[[int], Any]: ...
    def total(self, column: str, picks: Any) -> Floats: ...
    def squares(self, column: str) -> Floats: ...


class InLog:
    """What a log says of our decisions and of others, which are picks."""

    def __init__(self, log: Log, calibrated: Picks):
        self.log, self.ours = log, log.instances.mark(calibrated)

    def worth(self, picks: Picks) -> Estimates:
        """The value of decisions."""
        return self.log.worth(self.log.instances.mark(picks))

    def gain(self, picks: Picks) -> Estimates:
        """How much more our decisions are worth."""
        return self.log.difference(self.ours, self.log.instances.mark(picks))

    def never(self, picks: Picks) -> tuple[Floats, Integers]:
        """What could never be shown, where our decisions and these differ."""
        return self.log.never(self.ours, self.log.instances.mark(picks))

    def weights(self) -> Floats:
        """Those of our decisions."""
        return self.log.weights(self.ours)


class InMemory:
    """The numbers of instances, from their decisions as they are needed."""

    def __init__(
        self,
        model: Model,
        instances: Instances,
        layout: Layout | None = None,
        *,
        unknown: bool | None = None,
    ):
        self.model, self.instances, self.problem = model, instances, model.problem
        self.layout = layout or model.problem.lay(instances)
        self.k, before = self.layout.k, instances.prediction
        after = model.predict(instances)
        self.log = Log.of(model, instances, self.k, after, unknown=unknown)
        self.outcome = instances.filled(after).require_outcome("certify")
        columns = (self.outcome, before, after, self.outcome - before, self.outcome - after)
        self.columns = dict(zip(COLUMNS, columns, strict=True))
        self.plain, self.calibrated = self.picks(before), self.picks(after)
        frozen = self.layout.per_item.get("frozen")
        self.isotonic = self.picks(model.isotonic.apply(instances, frozen))
        self.estimates = None if self.log is None else InLog(self.log, self.calibrated)

    @property
    def fingerprint(self) -> str:
        return self.instances.fingerprint

    def picks(self, weights: Floats) -> Picks:
        return self.problem.pick_on_threads(weights, self.layout)

    def oracle(self) -> Picks:
        """The best decisions there are."""
        return self.picks(self.outcome)

    def decisions(self, first: int, last: int) -> Callable[[int], Picks]:
        """Those of some rules; few are held expanded at a time."""
        rules = self.model.rules[first:last]
        some = decide_all(rules, self.instances, self.problem, self.layout)
        return lambda number: expand(some[number], self.layout)

    def total(self, column: str, picks: Picks) -> Floats:
        return total(self.columns[column], picks, self.layout)

    def squares(self, column: str) -> Floats:
        """The squared error of predictions, per instance."""
        squares = (self.outcome - self.columns[column]) ** 2
        if self.log is not None:
            squares = self.log.squares(self.columns[column])
        return np.asarray(np.add.reduceat(squares, self.layout.offsets[:-1]))


def total(flat: Floats, picks: Picks, layout: Layout) -> Floats:
    """The sum of a flat column over each instance's decision, shape (n,)."""
    positions = layout.offsets[:-1, None] + np.maximum(picks, 0)
    return np.asarray(np.where(picks >= 0, flat[positions], 0.0).sum(axis=1))
