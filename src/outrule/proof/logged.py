"""Certificates on logs that show only some outcomes: estimates that are bounded on one side.

With y in [0, 1], u = observed / propensity and any base b that is fixed before the outcome,
``b + u (y - b)`` has the mean E[y] (doubly robust). The weight 1 / propensity has no useful upper
bound, so that no bet on it could be limited. But for ``b <= kappa * propensity`` the estimate is
never below -kappa, and for ``b >= 1 - kappa * propensity`` never above 1 + kappa. So a bound from
below takes the first kind for our items and the second for the rival's, a bound from above the
other way round; nothing is clipped (Karampatziakis et al. 2021; Waudby-Smith et al. 2022). Items
that the log could never show have propensity 0, and by the same formulas their worst outcome.

The range must be known before the data: with a range that depends on the instance, and a stake
that depends on it, the bets would not be fair for the mean over instances.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from outrule.data.instances import Instances
from outrule.model.model import Model
from outrule.proof.confidence import Observations, Range, Sides
from outrule.proof.statement import Support
from outrule.types import Booleans, Floats, Integers

KAPPA = 4.0  # where the model was fitted on all outcomes
NAMED = 3  # items that a message names


@dataclass(frozen=True, eq=False)
class Log:
    """Estimates of every outcome: bounded below, as exact as can be, and bounded above."""

    instances: Instances
    ends: Range  # the value of a decision: ``low`` is never below, and ``high`` never above
    apart: Range  # the same for the difference of two decisions
    low: Floats
    middle: Floats
    high: Floats

    @classmethod
    def of(cls, model: Model, instances: Instances, k: int, after: Floats) -> Log | None:
        """None where all outcomes are known. ``after`` are the calibrated predictions.

        ``k`` is the size of the largest decision.
        """
        if instances.propensity is None:
            return None
        return cls.within(model, instances, k, after, kappa_of(model, instances))

    @classmethod
    def within(cls, model: Model, instances: Instances, k: int, after: Floats, kappa: float) -> Log:
        """The same with the range of some ``kappa``, which the bases of these data may not need."""
        (low, high), q = instances.value_range, instances.propensity
        assert q is not None
        room = min(kappa, kappa_of(model, instances)) * np.nan_to_num(q) * (high - low)
        below, above = np.minimum(after, low + room), np.maximum(after, high - room)
        columns = (instances.filled(base).require_outcome("") for base in (below, after, above))
        slack = kappa * (high - low)
        ends = low - slack, high + slack
        if not model.problem.exactly_one:
            k = max(k, model.k)
            ends = k * min(ends[0], 0.0), k * max(ends[1], 0.0)
        width = ends[1] - ends[0]
        return cls(instances, Range(*ends), Range(-width, width), *columns)

    def difference(self, ours: Booleans, theirs: Booleans) -> Sides:
        """How much more our decisions are worth; items of both cancel."""
        more, less = self.worth(ours & ~theirs), self.worth(theirs & ~ours)
        return Sides(more.low - less.high, more.middle - less.middle, more.high - less.low)

    def worth(self, marks: Booleans) -> Sides:
        """The value of decisions."""
        return Sides(*(self._total(one, marks) for one in (self.low, self.middle, self.high)))

    def _total(self, column: Floats, marks: Booleans) -> Floats:
        return np.asarray(np.add.reduceat(column * marks, self.instances.offsets[:-1]))

    def squares(self, prediction: Floats) -> Floats:
        """An unbiased estimate of every squared error, flat."""
        outcome, upweight = self.instances.outcome, self.instances.upweight
        assert outcome is not None
        assert upweight is not None
        residual = np.where(self.instances.observed, outcome - prediction, 0.0)
        return np.asarray(upweight * residual**2)

    def sizes(self, ours: Booleans, observations: Observations) -> dict[str, float]:
        """The effective sample size for our decisions, and the share of the largest weight."""
        return sizes_of(self.weights(ours), observations)

    def weights(self, ours: Booleans) -> Floats:
        """How many items the observed ones of our decisions stand for, per instance."""
        upweight = self.instances.upweight
        assert upweight is not None
        return self._total(upweight, ours)

    def support(
        self, rival: str, ours: Booleans, theirs: Booleans, observations: Observations
    ) -> Support:
        """The items that the log could never show, where our decisions and a rival's differ."""
        return support_of(rival, *self.never(ours, theirs), self.instances, observations)

    def never(self, ours: Booleans, theirs: Booleans) -> tuple[Floats, Integers]:
        """How many such items an instance has, and how often each of them is one."""
        instances = self.instances
        assert instances.propensity is not None
        never = (ours ^ theirs) & (instances.propensity == 0)
        counts = np.zeros(0, dtype=np.int64)
        if instances.item is not None and instances.names_of_items is not None:
            counts = np.bincount(instances.item[never], minlength=len(instances.names_of_items))
        return self._total(np.ones(len(never)), never), counts


def sizes_of(weights: Floats, observations: Observations) -> dict[str, float]:
    """The effective sample size and the share of the largest weight, from those of instances."""
    weights = observations.of(weights)
    total = float(weights.sum())
    if total == 0:
        return {"effective_n": 0.0, "largest_weight": 1.0}
    effective = total**2 / float((weights**2).sum())
    return {"effective_n": effective, "largest_weight": float(weights.max()) / total}


def support_of(
    rival: str, never: Floats, counts: Integers, instances: Instances, observations: Observations
) -> Support:
    """What the log could never show, from how many items that are per instance, and which."""
    share, (low, high) = observations.mean(never), instances.value_range
    order, names = np.argsort(-counts, kind="stable")[:NAMED], instances.names_of_items or ()
    most = tuple(str(names[code]) for code in order.tolist() if counts[code])
    return Support(rival, share, share * (high - low), most)


def kappa_of(model: Model, instances: Instances) -> float:
    """How far bases may be from the ends of the range, in propensities."""
    return kappa_for(model, unknown=bool(np.isnan(instances.propensity).any()))  # type: ignore[arg-type] # there are some


def kappa_for(model: Model, *, unknown: bool) -> float:
    """The same: none at all where some propensities are unknown.

    For a base must be the same whether or not the outcome is observed.
    """
    if unknown:
        return 0.0
    return KAPPA if model.kappa is None else model.kappa
