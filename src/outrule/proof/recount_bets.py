"""The bets of a certificate, and the order they are placed in, recomputed in plain NumPy."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from outrule.data.instances import Instances
from outrule.types import Floats, Integers


class Sums(NamedTuple):
    """Sums of outcomes, or of estimates: for bounds from below, for the mean, and from above."""

    low: Floats
    middle: Floats
    high: Floats


class Observed(NamedTuple):
    """What all bets on the same observations share."""

    weight: Floats
    largest: float  # weight that one can have
    planned: Integers  # how many there are up to the next look
    logged: bool  # estimates, which no value range bounds from above


class Game:
    """Bets that the mean of bounded observations is larger than some number."""

    def __init__(self, data: Observed, observed: Floats, low: float, high: float, delta: float):
        self.goal, most = math.log(1 / delta), data.largest
        self.w = data.weight / most
        self.d = np.maximum(observed / most - low * self.w, 0) / (high - low)
        if not data.logged:
            self.d = np.minimum(self.d, self.w)
        seen = np.arange(len(self.d))
        d, w, dd, dw, ww = (
            np.append(0.0, np.cumsum(part)[:-1])
            for part in (self.d, self.w, self.d**2, self.d * self.w, self.w**2)
        )
        w[0] = ww[0] = 1.0  # before the first bet: a variance of one quarter
        ratio = d / w
        squares = np.maximum(dd - 2 * ratio * dw + ratio**2 * ww, 0.0)
        squares[0] = 0.0
        prior = np.maximum(ww / np.maximum(seen, 1) / 4, 1e-300)  # squares of tiny weights vanish
        variance = (prior + squares) / (seen + 1)
        self.stake = np.sqrt(2 * self.goal / data.planned / variance)

    def path(self, s: float) -> Floats:
        """The logarithm of the capital after every bet against "at most s"."""
        stake = np.minimum(self.stake, 0.9 / s)
        return np.asarray(np.cumsum(np.log1p(stake * (self.d - s * self.w))))

    def wins(self, s: float) -> bool:
        """Whether the capital ever reaches its goal; NaN never wins."""
        return 0 < s < 1 and bool(self.path(s).max() >= self.goal)

    def stopped(self, s: float) -> float:
        """The capital as a share of its goal, stopped there."""
        path = self.path(min(s, 1.0))
        return 1.0 if path.max() >= self.goal else math.exp(path[-1] - self.goal)


def ranks(instances: Instances) -> Integers:
    """The observation of every instance, in the order of the names where a table has them."""
    names = getattr(instances.origin, "names", None)
    if names is None:
        given = instances.cluster
        return np.arange(len(instances)) if given is None else given
    labels = instances.origin.labels.to_list()  # type: ignore[attr-defined]
    if names.cluster is not None:
        column = instances.origin.frame[str(names.cluster)].to_list()  # type: ignore[attr-defined]
        labels = [column[flat] for flat in instances.offsets[:-1]]
    ordered = sorted(set(labels), key=lambda label: (label != label, label))
    rank = {label: number for number, label in enumerate(ordered)}
    return np.array([rank[label] for label in labels])


def hashed(number: int) -> int:
    """The splitmix64 hash, in Python's integers."""
    z = (number + 1) * 0x9E3779B97F4A7C15 % 2**64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    return z ^ z >> 31


def unit_of_rounding(low: float, high: float) -> float:
    """The width of the value range, and more where it is far from zero: sums lose digits there."""
    return high - low + 1e-4 * max(abs(low), abs(high))
