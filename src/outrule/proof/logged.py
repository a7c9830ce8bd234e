"""Certificates on logs that show only some outcomes: estimates that are bounded on one side.

With y in [0, 1], u = observed / propensity and any base b that is fixed before the outcome,
``b + u (y - b)`` has the mean E[y] (doubly robust). The weight 1 / propensity has no useful upper
bound, so that no bet on it could be limited. But with ``odds = 1 / propensity - 1`` the estimate is
never below ``-b odds``, nor above ``1 + (1 - b) odds``. So for a bound from below the bases of our
items are so near to 0, and those of the rival's so near to 1, that in no instance these terms add
up to more than kappa; for a bound from above it is the other way round. Nothing is clipped
(Karampatziakis et al. 2021; Waudby-Smith et al. 2022). Items that the log could never show have
propensity 0, and their worst outcome as their base.

The range must be known before the data: with a range that depends on the instance, and a stake
that depends on it, the bets would not be fair for the mean over instances. A small kappa has a
small range and a large one little noise. What is better depends on how often two decisions differ
and on how much data there are, so there are estimates of several kappas, and each bet is on that
which would have been best for the observations before it. For each kappa bases are the calibrated
predictions, or what a model that was fitted on a log expects where the propensity is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from outrule.calibration.log_bases import Coefficients, expected
from outrule.data.instances import Instances
from outrule.model.model import Model
from outrule.proof.confidence import Estimates, Observations, Range, Sides
from outrule.proof.statement import Support
from outrule.types import Booleans, Floats, Integers

KAPPAS = (0.0, 2.0, 8.0, 24.0)  # of the kinds of estimates that a certificate bets on
KAPPA = 4.0  # of a watch, where the model was fitted on all outcomes
NAMED = 3  # items that a message names


@dataclass(frozen=True)
class EstimateKind:
    """How far estimates may be outside of the range of the value, and what their bases are."""

    kappa: float
    learned: bool  # bases take notice of propensities: see calibration/log_bases.py
    values: Range  # of a decision, where all outcomes are known
    unit: float  # the width of the range of all items of a decision

    @property
    def slack(self) -> float:
        """How far: ``low`` below the range of the value, and ``high`` above it."""
        return self.kappa * self.unit

    @property
    def ends(self) -> Range:
        """The value of a decision: ``low`` is never below, and ``high`` never above."""
        return Range(self.values.low - self.slack, self.values.high + self.slack)

    @property
    def apart(self) -> Range:
        """The same for the difference of two decisions."""
        most = self.values.width + self.slack
        return Range(-most, most)


@dataclass(frozen=True, eq=False)
class Log:
    """Estimates of what decisions were worth: bounded below, as exact as can be, bounded above."""

    instances: Instances
    after: Floats  # calibrated predictions
    kinds: tuple[EstimateKind, ...]
    learned: Coefficients | None = None

    @classmethod
    def of(
        cls,
        model: Model,
        instances: Instances,
        k: int,
        after: Floats,
        *,
        unknown: bool | None = None,
    ) -> Log | None:
        """None where all outcomes are known. ``k`` is the size of the largest decision.

        Bases are at the ends of the range where some propensities are unknown: a base must be the
        same whether or not the outcome is observed. ``unknown`` says so of all the data, where
        these are a part of them.
        """
        if instances.propensity is None:
            return None
        if unknown is None:
            unknown = bool(np.isnan(instances.propensity).any())
        kinds = [kind_of(model, instances, k, KAPPAS[0])]
        if not unknown:
            ways = (False,) if model.log_base is None else (False, True)
            pairs = product(KAPPAS[1:], ways)
            kinds += [kind_of(model, instances, k, kappa, learned=way) for kappa, way in pairs]
        return cls(instances, after, tuple(kinds), model.log_base)

    def difference(self, ours: Booleans, theirs: Booleans) -> Estimates:
        """How much more our decisions are worth; items of both cancel."""
        return self._estimates(ours & ~theirs, theirs & ~ours, [one.apart for one in self.kinds])

    def worth(self, marks: Booleans) -> Estimates:
        """The value of decisions."""
        return self._estimates(marks, np.zeros_like(marks), [one.ends for one in self.kinds])

    def _estimates(self, more: Booleans, less: Booleans, ends: list[Range]) -> Estimates:
        """What the first items are worth minus what the second ones are."""
        plus, minus = (self._marked(np.flatnonzero(marks)) for marks in (more, less))
        middle = plus.total(plus.after) - minus.total(minus.after)
        kinds = []
        for one in self.kinds:
            kinds.append(Sides(_below(plus, minus, one), middle, -_below(minus, plus, one)))
        return Estimates(tuple(kinds), tuple(ends))

    def _marked(self, items: Integers) -> _Items:
        data = self.instances
        assert data.outcome is not None
        assert data.propensity is not None
        assert data.upweight is not None
        y, q, u, after = (
            column[items] for column in (data.outcome, data.propensity, data.upweight, self.after)
        )
        learned = after
        if self.learned is not None:
            learned = expected(self.learned, after, q, data.value_range)
        return _Items(data.instance[items], len(data), data.value_range, y, q, u, after, learned)

    def squares(self, prediction: Floats) -> Floats:
        """An unbiased estimate of every squared error, flat."""
        outcome, upweight = self.instances.outcome, self.instances.upweight
        assert outcome is not None
        assert upweight is not None
        residual = np.where(self.instances.observed, outcome - prediction, 0.0)
        return np.asarray(upweight * residual**2)

    def _total(self, column: Floats) -> Floats:
        return np.asarray(np.add.reduceat(column, self.instances.offsets[:-1]))

    def weights(self, ours: Booleans) -> Floats:
        """How many items the observed ones of our decisions stand for, per instance."""
        upweight = self.instances.upweight
        assert upweight is not None
        return self._total(upweight * ours)

    def never(self, ours: Booleans, theirs: Booleans) -> tuple[Floats, Integers]:
        """The items that the log could never show, where our decisions and a rival's differ.

        How many an instance has, and how often each of them is one.
        """
        instances = self.instances
        assert instances.propensity is not None
        never = (ours ^ theirs) & (instances.propensity == 0)
        counts = np.zeros(0, dtype=np.int64)
        if instances.item is not None and instances.names_of_items is not None:
            counts = np.bincount(instances.item[never], minlength=len(instances.names_of_items))
        return self._total(never * 1.0), counts


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


@dataclass(frozen=True, eq=False)
class _Items:
    """Items of a log, and what is known of each."""

    instance: Integers
    n: int  # instances
    value_range: tuple[float, float]
    outcome: Floats
    propensity: Floats
    upweight: Floats
    after: Floats
    learned: Floats

    def above(self, end: float, kind: EstimateKind) -> Floats:
        """How far bases would be above an end of the range; not at all if never shown."""
        free = self.learned if kind.learned else self.after
        return np.where(self.propensity > 0, free - end, 0.0)

    def excess(self, off: Floats) -> Floats:
        """How far estimates can be outside of the range if bases are so far off an end, (n,)."""
        with np.errstate(divide="ignore", over="ignore"):
            odds = 1 / np.where(off > 0, self.propensity, 1.0) - 1
        most = np.where(off > 0, off, 0.0) * odds
        return np.asarray(np.bincount(self.instance, most, self.n), dtype=np.float64)

    def total(self, base: Floats) -> Floats:
        """The estimates by these bases, summed over each instance, shape (n,)."""
        residual = np.where(self.upweight > 0, self.outcome - base, 0.0)
        estimate = base + self.upweight * residual
        return np.asarray(np.bincount(self.instance, estimate, self.n), dtype=np.float64)


def _below(plus: _Items, minus: _Items, kind: EstimateKind) -> Floats:
    """Estimates of what the first items are worth minus the second ones, bounded below.

    Where an instance could get below the range by more than the slack, all of its bases are moved
    towards their ends, by the same share of the way.
    """
    low, high = plus.value_range
    more, less = plus.above(low, kind), minus.above(high, kind)
    excess = plus.excess(more) + minus.excess(-less)
    share = kind.slack / np.where(excess > kind.slack, excess, 1.0)
    share[excess <= kind.slack] = 1.0
    first = plus.total(low + share[plus.instance] * more)
    return first - minus.total(high + share[minus.instance] * less)


def kind_of(
    model: Model, instances: Instances, k: int, kappa: float, *, learned: bool = False
) -> EstimateKind:
    """The estimates of some kappa; ``k`` is the size of the largest decision."""
    low, high = instances.value_range
    if model.problem.exactly_one:
        return EstimateKind(kappa, learned, Range(low, high), high - low)
    k = max(k, model.k)
    return EstimateKind(
        kappa, learned, Range(k * min(low, 0.0), k * max(high, 0.0)), k * (high - low)
    )


def kappa_of(model: Model, instances: Instances) -> float:
    """The kappa of a watch; 0 where some propensities are unknown."""
    if np.isnan(instances.propensity).any():  # type: ignore[arg-type] # there are some
        return 0.0
    return KAPPA if model.kappa is None else model.kappa
