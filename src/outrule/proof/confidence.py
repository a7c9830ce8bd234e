"""Confidence: observations of bounded range enter, a mean with its bounds leaves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from outrule.data.instances import Instances
from outrule.types import Floats, Integers


class Estimate(NamedTuple):
    """A mean and its lower and upper confidence bounds."""

    mean: float
    lower: float
    upper: float

    def within(self, low: float, high: float) -> Estimate:
        """The same, cut to where the true mean can only be."""
        return Estimate(self.mean, max(self.lower, low), min(self.upper, high))


@dataclass(frozen=True, eq=False)
class Observations:
    """What counts as one independent observation: an instance, or a whole cluster.

    The mean over instances, by their weights, is the plain mean of ``of(values)``. An observation
    is its own mean value times its share of the weight, ``largest`` being the largest share; given
    the shares, observations are independent and bounded by ``largest`` times the range of a value.
    """

    group: Integers
    weight: Floats
    n: int
    largest: float

    @classmethod
    def from_instances(cls, instances: Instances) -> Observations:
        """Clusters where the instances have them, else the instances."""
        weight = np.ones(len(instances)) if instances.weight is None else instances.weight
        cluster = np.arange(len(instances)) if instances.cluster is None else instances.cluster
        names, group = np.unique(cluster[weight > 0], return_inverse=True)
        full = np.full(len(instances), -1)
        full[weight > 0] = group
        n = len(names)
        share = np.bincount(group, weights=weight[weight > 0], minlength=n) * (n / weight.sum())
        return cls(full, weight * (n / weight.sum()), n, float(share.max()))

    def of(self, values: Floats) -> Floats:
        """One number per observation, from one value per instance."""
        counted = self.group >= 0
        weights = (self.weight * values)[counted]
        return np.asarray(np.bincount(self.group[counted], weights, self.n), dtype=np.float64)


def bernstein(observed: Floats, width: float, delta: float) -> Estimate:
    """Empirical Bernstein bounds for the mean of independent observations in a range of ``width``.

    Each bound by itself holds with probability 1 - delta (Maurer and Pontil 2009, Theorem 11). With
    one observation nothing is known beyond the range.

    Examples
    --------
    >>> estimate = bernstein(np.tile([0.0, 1.0], 500), width=1.0, delta=0.05)
    >>> round(estimate.lower, 3), estimate.mean, round(estimate.upper, 3)
    (0.448, 0.5, 0.552)
    """
    n = len(observed)
    mean = float(observed.mean())
    if n < 2:
        return Estimate(mean, mean - width, mean + width)
    half = half_width(n, float(observed.var(ddof=1)), width, delta)
    return Estimate(mean, mean - half, mean + half)


def half_width(n: int, variance: float, width: float, delta: float) -> float:
    """How far the bound is from the mean of n observations with this sample variance."""
    return math.sqrt(2 * variance * math.log(2 / delta) / n) + 7 * width * math.log(2 / delta) / (
        3 * (n - 1)
    )


def observations_needed(distance: float, variance: float, width: float, delta: float) -> int | None:
    """The number of observations at which the bound is closer to the mean than ``distance``.

    None where no number is enough.
    """
    if not distance > 0:
        return None
    low, high = 2, 4
    while half_width(high, variance, width, delta) > distance:
        if high > 2**60:
            return None
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        if half_width(middle, variance, width, delta) > distance:
            low = middle + 1
        else:
            high = middle
    return low
