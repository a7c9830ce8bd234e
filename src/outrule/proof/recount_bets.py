"""The bets of a certificate, and the order they are placed in, recomputed in plain NumPy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from outrule.data.instances import Instances
from outrule.types import Floats, Integers


class Sums(NamedTuple):
    """Sums of outcomes, or of estimates: for bounds from below, for the mean, and from above.

    The first and the last have one row per kind of estimates.
    """

    low: Floats
    middle: Floats
    high: Floats


Ranges = Sequence[tuple[float, float]]


class Observed(NamedTuple):
    """What all bets on the same observations share."""

    weight: Floats
    largest: float  # weight that one can have
    planned: Integers  # how many there are up to the next look
    logged: bool  # estimates, which no value range bounds from above


class Game:
    """Bets that the mean of bounded observations is larger than some number.

    ``observed`` has one row per kind of observations, which all have the same mean, and ``ranges``
    one range. The last kind has the widest.
    """

    def __init__(self, data: Observed, observed: Floats, ranges: Ranges, delta: float):
        (low, high), most, n = ranges[-1], data.largest, len(data.weight)
        self.goal, self.n = math.log(1 / delta), n
        self.w = data.weight / most
        rows = np.maximum(observed / most - low * self.w, 0) / (high - low)
        if not data.logged:
            rows = np.minimum(rows, self.w)
        floors = [(first - low) / (high - low) for first, _ in ranges]
        widths = [1 - 2 * floor for floor in floors]
        firsts = [width * min(widths) for width in widths]
        spread = np.array([self._variance(*pair) for pair in zip(rows, firsts, strict=True)])
        self.kind = self._kinds(spread, widths, data.planned)
        self.d, variance = self.chosen(rows), self.chosen(spread)
        self.floor = np.array(floors)[self.kind]
        self.strives = data.logged
        bets = data.planned - np.arange(n) + data.planned / 10 if data.logged else data.planned
        self.stake = np.sqrt(2 * self.goal / bets / variance)  # where nothing is won yet

    def chosen(self, rows: Floats) -> Floats:
        """Of every observation, the row of the kind that the bet is on."""
        return np.asarray(rows[self.kind, np.arange(self.n)])

    def _variance(self, d: Floats, first: float) -> Floats:
        """Before every bet; that of the first is a quarter of ``first``."""
        seen = np.arange(self.n)
        sum_d, w, dd, dw, ww = (
            np.append(0.0, np.cumsum(part)[:-1])
            for part in (d, self.w, d**2, d * self.w, self.w**2)
        )
        w[0] = ww[0] = 1.0
        ratio = sum_d / w
        squares = np.maximum(dd - 2 * ratio * dw + ratio**2 * ww, 0.0)
        squares[0] = 0.0
        prior = np.maximum(first * ww / np.maximum(seen, 1) / 4, 1e-300)  # tiny squares vanish
        return np.asarray((prior + squares) / (seen + 1))

    def _kinds(self, spread: Floats, widths: list[float], planned: Integers) -> Integers:
        """The kind that every bet is on: chosen before bets 0, 64, 128, 256 and so on."""
        kind, first, last = np.zeros(self.n, dtype=np.int64), 0, 64
        while first < self.n and len(widths) > 1:
            n, distances = int(planned[first]), []
            for variance, width in zip(spread[:, first].tolist(), widths, strict=True):
                stake = min(math.sqrt(6 / (n * variance)), 1.8 / width)
                distances.append(3 / (n * stake) + stake * variance / 2)
            kind[first:last] = int(np.argmin(distances))
            first, last = last, 2 * last
        return kind

    def path(self, s: float) -> Floats:
        """The logarithm of the capital after every bet against "at most s"."""
        room = s - self.floor
        most = 0.9 / np.where(room > 0, room, 1e-300)
        if self.strives:
            return self._striving(most, self.d - s * self.w)
        return np.asarray(np.cumsum(np.log1p(np.minimum(self.stake, most) * (self.d - s * self.w))))

    def _striving(self, most: Floats, gains: Floats) -> Floats:
        """The same where stakes depend on what is still to be won; it ends at the goal."""
        path, now = [], 0.0
        bets = (self.stake.tolist(), most.tolist(), gains.tolist())
        for stake, limit, gain in zip(*bets, strict=True):
            share = max(self.goal - now, 0.5) / self.goal
            won = min(stake * math.sqrt(share), limit) * gain
            now += math.log1p(max(won, -0.99))  # no bet can lose more than 0.9, but for rounding
            path.append(now)
            if now >= self.goal:
                break
        return np.array(path)

    def wins(self, s: float) -> bool:
        """Whether the capital ever reaches its goal; NaN never wins."""
        return 0 < s < 1 and bool(self.path(s).max() >= self.goal)

    def stopped(self, s: float) -> float:
        """The capital as a share of its goal, stopped there."""
        path = self.path(min(s, 1.0))
        return 1.0 if path.max() >= self.goal else math.exp(path[-1] - self.goal)


def ranks(instances: Instances) -> Integers:
    """The observation of every instance, in the order of the names where a table has them."""
    origin: Any = instances.origin
    names = getattr(origin, "names", None)
    if names is None:
        given = instances.cluster
        return np.arange(len(instances)) if given is None else given
    labels = origin.labels.to_list()
    if names.cluster is not None:
        column = origin.frame[str(names.cluster)].to_list()
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
