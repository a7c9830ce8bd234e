"""Confidence bounds for a weighted mean: valid at finite n by betting, and approximate ones."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from outrule.data.instances import Instances
from outrule.data.origin import Rows, TableOrigin
from outrule.data.sketch import mix
from outrule.errors import DataError
from outrule.kernels.betting import CAP, evidence, lower_bound, stakes, stakes_on_kinds
from outrule.types import Booleans, Floats, Integers

LEAST_ROOM = 1e-12  # of a bet that cannot lose


class Estimate(NamedTuple):
    """A mean and its lower and upper confidence bounds."""

    mean: float
    lower: float
    upper: float


class Range(NamedTuple):
    """What the value of one instance can be."""

    low: float
    high: float

    @property
    def width(self) -> float:
        return self.high - self.low


class Sides(NamedTuple):
    """Estimates of a value per instance; all three have the mean in question.

    ``low`` is never below the range of the value, and ``high`` never above it; what they exceed it
    by at the other end is neither cut off nor declared. ``middle`` is as exact as can be.
    """

    low: Floats
    middle: Floats
    high: Floats

    def take(self, rows: Rows) -> Sides:
        return Sides(*(side[rows] for side in self))


class Estimates(NamedTuple):
    """Several kinds of estimates of the same value per instance, and the range of each.

    The wider the range of a kind, the less noisy it is; the last one has the widest.
    """

    kinds: tuple[Sides, ...]
    ends: tuple[Range, ...]

    def take(self, rows: Rows) -> Estimates:
        return Estimates(tuple(kind.take(rows) for kind in self.kinds), self.ends)


@dataclass(frozen=True, eq=False)
class Observations:
    """What counts as one independent observation: an instance, or a whole cluster.

    Observation i has weight ``W_i`` (the sum over its instances) and, for any value v per instance,
    ``D_i``, the weighted sum of v. What is estimated is the population's ratio E[D] / E[W].

    A lower bound t for it is a test of E[D - tW] <= 0. Betting needs ``D - tW`` bounded below,
    which is so where v has a range and W is at most ``largest``. No finite n bounds the ratio
    without that: rare heavy observations that the sample lacks can move it anywhere. So ``largest``
    is a declared number, or that of observations that all weigh the same by construction
    (instances without weights); else it is only the largest seen, and ``declared`` is False.

    The bets are made in an order in which outcomes have no say: the observations of a table are
    numbered by their names in sorted order, those of arrays by their place (clusters again by their
    names), and then sorted by the splitmix64 hash of the number. Data that were added after a look
    come after those of the look, and the bets on these stay what they were, so what is won by any
    look is won: the bounds hold at all of them together.
    """

    group: Integers  # the place of every instance's observation in the order; -1 without weight
    weight: Floats
    total: Floats  # W, shape (n,)
    planned: Integers  # how many there are up to the next look, shape (n,)
    largest: float
    declared: bool

    @classmethod
    def from_instances(
        cls, instances: Instances, max_weight: float | None = None, looks: Sequence[int] = ()
    ) -> Observations:
        """Clusters where the instances have them, else the instances.

        ``looks`` are the numbers of instances that there were at earlier looks.
        """
        weight = np.ones(len(instances)) if instances.weight is None else instances.weight
        group, ends = _order(instances, weight > 0, (*looks, len(instances)))
        sums = np.bincount(group[group >= 0], weight[group >= 0])
        total = np.asarray(sums, dtype=np.float64)
        planned = np.repeat(ends, np.diff(ends, prepend=0))
        seen = float(total.max())
        if max_weight is None:
            alike = instances.cluster is None and bool((total == seen).all())
            return cls(group, weight, total, planned, seen, alike)
        if seen > max_weight * (1 + 1e-12):
            what = "a cluster" if instances.cluster is not None else "an instance"
            raise DataError(
                f"{what} has weight {seen:g}, more than max_weight={max_weight:g}. Declare the "
                f"largest weight that {what} can have."
            )
        return cls(group, weight, total, planned, max(float(max_weight), seen), True)

    @property
    def n(self) -> int:
        return len(self.total)

    def of(self, values: Floats) -> Floats:
        """The weighted sums over each observation's instances, in the order of the bets."""
        counted = self.group >= 0
        sums = np.bincount(self.group[counted], (self.weight * values)[counted], self.n)
        return np.asarray(sums, dtype=np.float64)

    def mean(self, values: Floats) -> float:
        return float(self.of(values).sum() / self.total.sum())

    def bets(self, values: Floats | Estimates, ends: Range) -> Bets:
        """What is needed for bounds of the mean of a value per instance, whose range is known.

        Estimates have ranges of their own; bounds from below bet on ``low``, those from above on
        ``high``.
        """
        if isinstance(values, Estimates):
            return self._bets_on_estimates(values)
        weight, unit = self.total / self.largest, ends.width * self.largest
        value = np.clip(self.of(values - ends.low) / unit, 0.0, weight)
        stake = stakes(value, weight, self.planned)
        one, least = np.zeros(self.n, dtype=np.int8), np.zeros(1)
        sides = (
            OneSide(value, weight, stake, one, least, False),
            OneSide(weight - value, weight, stake, one, least, False),
        )
        return Bets(self.of(values), self.total, *sides, ends)

    def _bets_on_estimates(self, values: Estimates) -> Bets:
        ends = values.ends[-1]
        lows = [self.of(kind.low - ends.low) for kind in values.kinds]
        highs = [self.of(ends.high - kind.high) for kind in values.kinds]
        below = self._on_kinds(lows, [one.low - ends.low for one in values.ends], ends.width)
        above = self._on_kinds(highs, [ends.high - one.high for one in values.ends], ends.width)
        return Bets(self.of(values.kinds[-1].middle), self.total, below, above, ends)

    def _on_kinds(self, sums: list[Floats], floors: list[float], width: float) -> OneSide:
        weight, least = self.total / self.largest, np.array(floors) / width
        rows = np.maximum(np.array(sums) / (width * self.largest), 0.0)
        kind, stake = stakes_on_kinds(rows, weight, self.planned, least)
        return OneSide(rows[kind, np.arange(self.n)], weight, stake, kind, least, True)


class OneSide(NamedTuple):
    """Observations as the bets from one end of the range take them: see kernels/betting.py."""

    value: Floats  # at least 0
    weight: Floats  # from 0 to 1
    stake: Floats
    kind: NDArray[np.int8]
    least: Floats
    strives: bool  # stakes depend on how far the capital is from the level

    def room(self, s: float) -> float:
        """How far below s a value can be, of the kind that bets end with and would go on with."""
        return max(s - float(self.least[self.kind[-1]]), LEAST_ROOM)


@dataclass(frozen=True, eq=False)
class Bets:
    """The observations of one value; all bounds are in its units."""

    sums: Floats  # D
    total: Floats  # W
    below: OneSide  # for bounds from below
    above: OneSide  # the same from the other end
    ends: Range

    @property
    def mean(self) -> float:
        return float(self.sums.sum() / self.total.sum())

    def lower(self, delta: float) -> float:
        """A lower bound that holds with probability 1 - delta."""
        found = lower_bound(tuple(self.below), -math.log(delta))
        return self.ends.low + self.ends.width * found

    def upper(self, delta: float) -> float:
        """An upper bound that holds with probability 1 - delta."""
        found = lower_bound(tuple(self.above), -math.log(delta))
        return self.ends.high - self.ends.width * found

    def interval(self, delta: float) -> Estimate:
        """The mean and two bounds, each of which holds with probability 1 - delta."""
        return Estimate(self.mean, self.lower(delta), self.upper(delta))

    def evidence_below(self, level: float, delta: float) -> float:
        """The e-value against "the mean is at least ``level``", stopped at 1 / delta."""
        s = min(max((self.ends.high - level) / self.ends.width, 0.0), 1.0)
        return math.exp(evidence(tuple(self.above), s, -math.log(delta)))

    def evidence_above(self, level: float, delta: float) -> float:
        """The e-value against "the mean is at most ``level``", stopped at 1 / delta."""
        s = min(max((level - self.ends.low) / self.ends.width, 0.0), 1.0)
        return math.exp(evidence(tuple(self.below), s, -math.log(delta)))

    def approximate(self, delta: float, ends: Range | None = None) -> Estimate:
        """The cluster-robust interval, within ``ends``: see ``student``."""
        return student(self.sums, self.total, ends or self.ends, delta)

    def needed(self, level: float, delta: float) -> int | None:
        """About how many observations would show on which side of ``level`` the mean is.

        At the mean and the variance seen; None where no number is enough. The bets on a log's
        estimates see another mean, and where it is on the other side of ``level``, no number is.
        """
        side, s = self.below, (level - self.ends.low) / self.ends.width
        if self.mean < level:
            side, s = self.above, 1 - s
        value, weight = side.value, side.weight
        if not 0 < s < 1 or len(value) < 2:
            return None
        gain = float((value - s * weight).mean())
        ratio = value.sum() / weight.sum()
        variance = float(((value - ratio * weight) ** 2).mean())
        return observations_needed(gain, variance, side.room(s), delta)


def student(sums: Floats, total: Floats, ends: Range, delta: float) -> Estimate:
    """A ratio of sums with its approximate interval: linearised, t with n - 1 degrees of freedom.

    With one observation nothing is known beyond the range.
    """
    from scipy.special import stdtrit  # slow to import, needed only here

    n, whole = len(sums), float(total.sum())
    mean = float(sums.sum()) / whole
    if n < 2:
        return Estimate(mean, *ends)
    squares = float(((sums - mean * total) ** 2).sum())  # not a product: BLAS differs by threads
    half = -float(stdtrit(n - 1, delta / 2)) * math.sqrt(n / (n - 1) * squares) / whole
    return Estimate(mean, max(mean - half, ends.low), min(mean + half, ends.high))


def _order(
    instances: Instances, counted: Booleans, looks: Sequence[int]
) -> tuple[Integers, Integers]:
    """The place of every instance's observation, and how many there are up to each look."""
    name, first = _by_name(instances), 0
    group, ends = np.full(len(instances), -1), [0]
    for last in looks:
        part = np.flatnonzero(counted[first:last]) + first
        known = np.isin(name[part], name[:first])
        if known.any():
            raise DataError(
                f"the cluster of {instances.where(int(part[np.argmax(known)]))} is in the earlier "
                "data too. A cluster must be in one or the other as a whole: leave it out."
            )
        names, number = np.unique(name[part], return_inverse=True)
        group[part] = ends[-1] + np.argsort(shuffled(len(names)))[number]
        ends.append(ends[-1] + len(names))
        first = last
    return group, np.array(ends[1:])


def _by_name(instances: Instances) -> Integers:
    """The observation of every instance, as a number in the order of the names."""
    origin, cluster = instances.origin, instances.cluster
    if not isinstance(origin, TableOrigin):
        return np.arange(len(instances)) if cluster is None else cluster
    if cluster is None:
        names, number = origin.labels, np.arange(len(instances))
    else:
        _, first, number = np.unique(cluster, return_index=True, return_inverse=True)
        names = origin.frame[str(origin.names.cluster)].gather(instances.offsets[first])
    if str(names.dtype).startswith(("Cat", "Enum")):  # whose order is not that of their names
        names = names.cast(str)
    rank = np.empty(len(names), dtype=np.int64)
    rank[names.arg_sort().to_numpy()] = np.arange(len(names))
    return rank[number]


def shuffled(n: int) -> Integers:
    """The numbers from 0 to n - 1 in the order of their splitmix64 hashes, always the same."""
    return np.argsort(mix(np.arange(n, dtype=np.uint64)), kind="stable")


def observations_needed(gain: float, variance: float, s: float, delta: float) -> int | None:
    """The n at which bets on observations with this mean and variance reach 1 / delta.

    By the first two terms of the logarithm: ``n (stake gain - stake^2 (variance + gain^2) / 2)``.

    Examples
    --------
    >>> observations_needed(gain=0.05, variance=0.04, s=0.5, delta=0.05)
    102
    """
    log_level = -math.log(delta)

    def enough(n: int) -> bool:
        # Two terms are enough up to a stake of 1 / gain; beyond it they would fall again.
        stake = min(math.sqrt(2 * log_level / (n * max(variance, 1e-300))), CAP / s, 1 / gain)
        return n * (stake * gain - stake**2 * (variance + gain**2) / 2) >= log_level

    if not gain > 0 or not enough(2**60):
        return None
    return 1 + bisect_left(range(1, 2**60), True, key=enough)
