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


class Numbers(Protocol):
    """Totals per instance; decisions are picks, or names of them where they are on disk."""

    plain: Any
    calibrated: Any
    isotonic: Any
    k: int
    logged: bool  # only some outcomes are known, so that values are estimates

    @property
    def fingerprint(self) -> str: ...
    def oracle(self) -> Any: ...
    def decisions(self, first: int, last: int) -> Callable[[int], Any]: ...
    def total(self, column: str, picks: Any) -> Floats: ...
    def squares(self, column: str) -> Floats: ...
    def worth(self, picks: Any) -> Floats | Estimates: ...
    def gain(self, picks: Any) -> Floats | Estimates: ...
    def never(self, picks: Any) -> tuple[Floats, Integers]: ...
    def weights(self) -> Floats: ...


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
        self.logged = self.log is not None
        self.outcome = instances.filled(after).require_outcome("certify")
        columns = (self.outcome, before, after, self.outcome - before, self.outcome - after)
        self.columns = dict(zip(COLUMNS, columns, strict=True))
        self.plain, self.calibrated = self.picks(before), self.picks(after)
        frozen = self.layout.per_item.get("frozen")
        self.isotonic = self.picks(model.isotonic.apply(instances, frozen))
        self.ours = self.total("outcome", self.calibrated)
        self.marks = instances.mark(self.calibrated)

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

    def worth(self, picks: Picks) -> Floats | Estimates:
        """The value of decisions, per instance."""
        if self.log is None:
            return self.total("outcome", picks)
        return self.log.worth(self.instances.mark(picks))

    def gain(self, picks: Picks) -> Floats | Estimates:
        """How much more our decisions are worth."""
        if self.log is None:
            return self.ours - self.total("outcome", picks)
        return self.log.difference(self.marks, self.instances.mark(picks))

    def never(self, picks: Picks) -> tuple[Floats, Integers]:
        """What a log could never show, where our decisions and these differ."""
        assert self.log is not None
        return self.log.never(self.marks, self.instances.mark(picks))

    def weights(self) -> Floats:
        """How many items the observed ones of our decisions stand for, per instance."""
        assert self.log is not None
        return self.log.weights(self.marks)


def total(flat: Floats, picks: Picks, layout: Layout) -> Floats:
    """The sum of a flat column over each instance's decision, shape (n,)."""
    positions = layout.offsets[:-1, None] + np.maximum(picks, 0)
    return np.asarray(np.where(picks >= 0, flat[positions], 0.0).sum(axis=1))
