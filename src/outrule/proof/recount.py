"""Sums and bounds of a certificate, recomputed in plain NumPy for the verification.

Bounds are checked rather than searched: the bets must win against a number just below the claimed
bound, and not against one just above it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from outrule.data.instances import Instances
from outrule.model.model import Model
from outrule.proof.confidence import Estimate
from outrule.proof.recount_bets import Game, Observed, Ranges, Sums, hashed, ranks, unit_of_rounding
from outrule.proof.statement import Certificate, RivalResult, Support
from outrule.types import Booleans, Floats, Integers


class Recount:
    """Sums and bounds with one entry per observation, in the order of the bets."""

    def __init__(
        self,
        model: Model,
        instances: Instances,
        after: Floats,
        certificate: Certificate,
        shares: int,
    ):
        self.instances, self.instance = instances, instances.instance
        self.logged = instances.propensity is not None
        self.delta, self.shares = 1 - certificate.confidence, shares
        self._set_ranges(model, instances)
        self.after, self.informed = after, self._informed(model, after)
        self.outcome = self._estimate(after, np.arange(len(after)))
        weight = np.ones(len(instances)) if instances.weight is None else instances.weight
        looks = [look.n_instances for look in certificate.earlier]
        planned = self._put_in_order(ranks(instances), weight, looks)
        self.of_weight = weight
        self.weight = self.per_observation(np.ones(len(instances)))
        heaviest = float(self.weight.max())
        self.largest = heaviest
        if certificate.max_weight is not None:
            if heaviest > certificate.max_weight * (1 + 1e-12):
                raise ValueError(f"max_weight: an observation has weight {heaviest:g}")
            self.largest = max(certificate.max_weight, heaviest)
        equal = instances.cluster is None and bool(np.all(self.weight == heaviest))
        self.declared = certificate.max_weight is not None or equal
        self.stakes = Observed(self.weight, self.largest, planned, self.logged)

    def _put_in_order(self, cluster: Integers, weight: Floats, looks: list[int]) -> Integers:
        """Number the observations look by look, and inside each by the hash of their rank.

        Returns how many there are up to the look of each.
        """
        if not all(a < b for a, b in pairwise([0, *looks, len(cluster)])):
            raise ValueError(f"earlier: {looks} of {len(cluster)} instances")
        look_of = np.searchsorted(looks, np.arange(len(cluster)), side="right")
        if len(set(zip(cluster.tolist(), look_of.tolist(), strict=True))) > len(set(cluster)):
            raise ValueError("earlier: a cluster belongs to two looks")
        place: dict[int, int] = {}
        self.counts = []
        for look in range(len(looks) + 1):
            names = sorted(set(cluster[(look_of == look) & (weight > 0)].tolist()))
            order = sorted(range(len(names)), key=hashed)
            place |= {names[number]: len(place) + i for i, number in enumerate(order)}
            self.counts.append(len(place))
        self.n = len(place)
        self.of_instance = np.array([place.get(name, self.n) for name in cluster.tolist()])
        return np.array([min(c for c in self.counts if c > i) for i in range(self.n)])

    def _set_ranges(self, model: Model, instances: Instances) -> None:
        """Of values and differences; those of the bets are wider where outcomes are estimates."""
        low, high = instances.value_range
        self.unit, self.span = unit_of_rounding(low, high), high - low
        self.margin, self.base = float(model.epsilon), 0.0
        kinds = [(0.0, False)]
        if self.logged and not np.isnan(instances.propensity).any():  # type: ignore[arg-type]
            for kappa in (2.0, 8.0, 24.0):
                kinds += [(kappa, False)] + [(kappa, True)] * (model.log_base is not None)
        self.kinds, ends, items = kinds, (0.0, self.span), 1
        if model.problem.exactly_one:
            self.base = low
        else:
            items = max(model.k, model.problem.lay(instances).k)
            ends = (items * min(low, 0.0), items * max(high, 0.0))
        self.slacks = [kappa * self.span * items for kappa, _ in kinds]
        self.bet_ends = [(ends[0] - slack, ends[1] + slack) for slack in self.slacks]
        wide = [ends[1] - ends[0] + slack for slack in self.slacks]
        self.bet_apart = [(-most, most) for most in wide]
        self.ends, self.apart = self.bet_ends[0], self.bet_apart[0]

    def _informed(self, model: Model, after: Floats) -> Floats:
        """What the model expects of an item, given its propensity."""
        q = self.instances.propensity
        if q is None or model.log_base is None:
            return after
        a, b, c, d = model.log_base
        share = (after - self.instances.value_range[0]) / self.span
        log = np.log(np.maximum(np.where(q > 0, q, 0.0), 1e-9))
        expected = np.clip(a + b * share + (c + d * share) * log, 0, 1)
        return np.asarray(self.instances.value_range[0] + self.span * expected)

    def _estimate(self, base: Floats, items: Integers) -> Floats:
        """Base plus outcome minus base over propensity; or the outcomes."""
        y, q = self.instances.outcome, self.instances.propensity
        assert y is not None
        if q is None:
            return y[items]
        seen = y[items] == y[items]
        return np.where(seen, base + (y[items] - base) / np.where(seen, q[items], 1), base)

    def _least(self, more: Booleans, less: Booleans, number: int) -> Floats:
        """The estimates of one kind that bound what ``more`` is worth minus ``less`` from below."""
        q, (low, high) = self.instances.propensity, self.instances.value_range
        items = np.flatnonzero(more | less)
        ours, sign = more[items], np.where(more[items], 1.0, -1.0)
        end = np.where(ours, low, high)
        if q is None:
            base = end
        else:
            expected = (self.informed if self.kinds[number][1] else self.after)[items]
            way = np.where(q[items] > 0, expected - end, 0.0)
            odd = np.where(way == 0, 1.0, q[items])
            drop = np.bincount(
                self.instance[items], np.abs(way) * (1 - odd) / odd, len(self.instances)
            )
            free = drop <= self.slacks[number]
            share = np.where(free, 1.0, self.slacks[number] / np.where(free, 1.0, drop))
            base = end + share[self.instance[items]] * way
        total = np.zeros(len(more))
        total[items] = sign * (self._estimate(base, items) - self.base)
        return self.sums(total)

    def squared_error(self, prediction: Floats) -> float:
        y, q = self.instances.outcome, self.instances.propensity
        assert y is not None
        squares = (y - prediction) ** 2
        return self.mean(self.sums(squares if q is None else np.nan_to_num(squares / q)))

    def feedback(
        self, ours: Booleans, rivals: dict[str, Booleans], claimed: Support | None
    ) -> dict[str, Any]:
        """What the log could show; for full outcomes that is all."""
        q, y = self.instances.propensity, self.instances.outcome
        names = ("propensity_estimated", "effective_n", "largest_weight", "unsupported")
        if q is None or y is None:
            return {"feedback": "full", **dict(zip(names, (False, None, None, None), strict=True))}
        taken = ours & (y == y)
        weights = self.sums(np.where(taken, 1 / np.where(taken, q, 1), 0.0))
        whole = float(weights.sum())
        size, largest = 0.0, 1.0
        if whole > 0:
            size, largest = whole / float((weights**2).sum()) * whole, float(weights.max()) / whole
        never = {name: (ours != theirs) & (q == 0) for name, theirs in rivals.items()}
        shares = {name: self.mean(self.sums(marks * 1.0)) for name, marks in never.items()}
        first = max(shares, key=shares.__getitem__)
        if claimed is not None and math.isclose(shares.get(claimed.rival, -1), shares[first]):
            first = claimed.rival
        share, items = shares[first], self._frequent(never[first])
        support = {"rival": first, "share": share, "worst": share * self.span, "items": items}
        found = (self.instances.propensity_estimated, size, largest, support)
        return {"feedback": "logged", **dict(zip(names, found, strict=True))}

    def _frequent(self, marks: Booleans) -> list[str]:
        """The three items that are marked most often, by their numbers where that is equal."""
        item, names = self.instances.item, self.instances.names_of_items
        if item is None or names is None:
            return []
        counts = Counter(item[marks].tolist())
        order = sorted(counts, key=lambda code: (-counts[code], code))
        return [str(names[code]) for code in order[:3]]

    def per_observation(self, per_instance: Floats) -> Floats:
        total = np.zeros(self.n + 1)
        np.add.at(total, self.of_instance, self.of_weight * per_instance)
        return total[: self.n]

    def sums(self, per_item: Floats) -> Floats:
        per_instance = np.bincount(self.instance, weights=per_item)
        return self.per_observation(np.asarray(per_instance, dtype=np.float64))

    def value(self, marks: Booleans) -> Sums:
        """Values above ``base`` per instance."""
        return self.difference(marks, np.zeros_like(marks))

    def difference(self, ours: Booleans, theirs: Booleans) -> Sums:
        """How much more our decisions are worth: what only we take, minus what only they take."""
        more, less, kinds = ours & ~theirs, theirs & ~ours, range(len(self.kinds))
        middle = self.sums((self.outcome - self.base) * (more * 1.0 - less))
        low = np.array([self._least(more, less, number) for number in kinds])
        high = -np.array([self._least(less, more, number) for number in kinds])
        return Sums(low, middle, high)

    def mean(self, observed: Floats) -> float:
        return float(observed.sum() / self.weight.sum())

    def promise(self, prediction: Floats, marks: Booleans) -> dict[str, float]:
        return {
            "predicted": self.mean(self.sums(prediction * marks)),
            "realised": self.base + self.mean(self.value(marks).middle),
        }

    def worth(self, marks: Booleans, claimed: Sequence[float]) -> list[float]:
        hint = [number - self.base for number in claimed]
        found = self.interval(self.value(marks), self.bet_ends, self.delta / 2, hint)
        return [self.base + number for number in found]

    def roughly(self, marks: Booleans) -> list[float]:
        found = self.student(self.value(marks).middle, *self.ends, self.delta)
        return [self.base + number for number in found]

    def interval(
        self, observed: Sums, ranges: Ranges, delta: float, claimed: Sequence[float]
    ) -> list[float]:
        """Mean and bounds by betting; a claimed bound is returned if it is one."""
        lower = self.lower(observed.low, ranges, delta, claimed[1])
        other = [(-high, -low) for low, high in ranges]
        upper = -self.lower(-observed.high, other, delta, -claimed[2])
        return [self.mean(observed.middle), lower, upper]

    def lower(self, observed: Floats, ranges: Ranges, delta: float, claimed: float) -> float:
        game, (low, high) = Game(self.stakes, observed, ranges, delta), ranges[-1]
        s, slack = (claimed - low) / (high - low), 0.4e-9 * self.unit / (high - low)
        below = s - slack <= 0 or game.wins(s - slack)
        if s >= -slack and below and not game.wins(max(s, 0.0) + slack):
            return claimed
        s, step = 0.0, 0.5
        for _ in range(50):
            s, step = (s + step if game.wins(s + step) else s), step / 2
        return low + (high - low) * s

    def student(self, observed: Floats, low: float, high: float, delta: float) -> list[float]:
        """The ratio with its standard error by linearisation, and quantiles of t."""
        from scipy.stats import t  # slow to import, needed only here

        mean = self.mean(observed)
        if self.n < 2:
            return [mean, low, high]
        squares = ((observed - mean * self.weight) ** 2).sum()
        error = math.sqrt(squares * self.n / (self.n - 1)) / self.weight.sum()
        half = float(t.isf(delta / 2, self.n - 1)) * error
        return [mean, max(mean - half, low), min(mean + half, high)]

    def rival(
        self,
        name: str,
        ours: Booleans,
        theirs: Booleans,
        claim: RivalResult | None,
        tolerated: float,
    ) -> dict[str, Any]:
        """All that is said of one rival, and what the verdict takes from it."""
        observed = self.difference(ours, theirs)
        delta, shared = self.delta, self.delta / self.shares
        stated = Estimate(math.nan, math.nan, math.nan) if claim is None else claim.difference
        difference = self.interval(observed, self.bet_apart, shared, stated)
        hint = math.nan if claim is None else claim.lower
        lower = self.lower(observed.low, self.bet_apart, delta, hint)
        row = self._judged(observed, lower >= -self.margin, tolerated)
        result = {
            "name": name,
            "value": self.base + self.mean(self.value(theirs).middle),
            "difference": difference,
            "lower": lower,
            "verdict": row["verdict"] if self.declared else "inconclusive",
        }
        return {**row, "result": result, "lower": lower}

    def inside(
        self,
        ours: Booleans,
        theirs: Sequence[Booleans],
        tolerated: Sequence[float],
        claimed: float | None,
        n_segments: int,
    ) -> list[dict[str, Any]]:
        """What the verdict of a segment takes from every rival; its smallest bound is claimed.

        A bound above the smallest is not searched: it is infinite here.
        """
        one = self.bet_apart[-1][1]
        slack, rows, late = 0.4e-9 * self.unit / (2 * one), [], []
        for marks, most in zip(theirs, tolerated, strict=True):
            observed = self.difference(ours, marks)
            game = Game(self.stakes, observed.low, self.bet_apart, self.delta)
            lower = math.inf
            passes = self.margin >= one or game.wins((one - self.margin) / (2 * one))
            if claimed is None or not game.wins((claimed + one) / (2 * one) + slack):
                hint = math.nan if claimed is None else claimed
                lower = self.lower(observed.low, self.bet_apart, self.delta, hint)
            backing = Game(self.stakes, observed.low, self.bet_apart, self.delta / n_segments)
            level = max(one - self.margin, 0.0) / (2 * one)
            row = self._judged(observed, passes, most, n_segments)
            rows.append({**row, "lower": lower, "backing": backing.stopped(level)})
            late.append(observed.low)
        if min(row["lower"] for row in rows) == math.inf:  # the claim is too small
            for row, low in zip(rows, late, strict=True):
                row["lower"] = self.lower(low, self.bet_apart, self.delta, math.nan)
        return rows

    def _judged(
        self, observed: Sums, passes: bool, tolerated: float, n_segments: int = 1
    ) -> dict[str, Any]:
        """The verdict against one rival, and what it rests on."""
        delta, shared, one = self.delta, self.delta / self.shares, self.bet_apart[-1][1]
        mean, near = self.mean(observed.middle), self.student(observed.middle, *self.apart, delta)
        against = Game(self.stakes, -observed.high, self.bet_apart, shared)
        evidence = against.stopped((tolerated + one) / (2 * one))
        veto = delta / n_segments
        half = Game(self.stakes, -observed.high, self.bet_apart, veto / 2)
        upper = self.student(observed.middle, *self.apart, veto)[2]
        worse = tolerated == 0 and (upper < 0 or half.wins(0.5))
        verdict = "pass" if passes and not worse else "inconclusive"
        if evidence >= 1:
            verdict = "fail"
        lags = worse or mean < -self.margin
        needed = None
        if verdict == "inconclusive":
            level, chance = (-tolerated, shared) if lags else (-self.margin, delta)
            needed = self.needed(observed, level, chance)
        return {
            "mean": mean,
            "approximate": near,
            "evidence": evidence,
            "verdict": verdict,
            "open": verdict == "inconclusive",
            "lags": lags,
            "needed": needed,
        }

    def verdict(self, rivals: list[dict[str, Any]]) -> str:
        if sum(rival["evidence"] for rival in rivals) >= 1 - 1e-12:
            return "fail"
        every = all(rival["verdict"] == "pass" for rival in rivals)
        return "pass" if every else "inconclusive"

    def closest(self, rivals: list[dict[str, Any]], names: list[str], claimed: str) -> str:
        """The name with the smallest lower bound; among equals the claimed one."""
        lowers = [rival["lower"] for rival in rivals]
        near = [
            name
            for name, lower in zip(names, lowers, strict=True)
            if lower <= min(lowers) + 1e-9 * self.unit
        ]
        return claimed if claimed in near else names[int(np.argmin(lowers))]

    def nearest(self, rivals: list[dict[str, Any]], claimed: Estimate | None) -> dict[str, Any]:
        """The rival of smallest mean; among equals the one whose interval is claimed."""
        upper = math.nan if claimed is None else claimed.upper
        lowest = min(rival["mean"] for rival in rivals)
        near = [rival for rival in rivals if rival["mean"] <= lowest + 1e-9 * self.unit]
        return min(near, key=lambda rival: abs(rival["approximate"][2] - upper))

    def needed(self, both: Sums, level: float, delta: float) -> int | None:
        """The n at which the second-order growth of the capital reaches 1 / delta."""
        one, sign = self.bet_apart[-1][1], 1
        game = Game(self.stakes, both.low, self.bet_apart, delta)
        observed = game.chosen(both.low)
        if self.mean(both.middle) < level:
            game, sign = Game(self.stakes, -both.high, self.bet_apart, delta), -1
            observed = game.chosen(both.high)
        gain, room = sign * float((observed - level * self.weight).mean()), one + sign * level
        if self.n < 2 or room <= 0 or room >= 2 * one or gain <= 0:
            return None
        variance = float(((observed - self.mean(observed) * self.weight) ** 2).mean())
        room = max(room - 2 * one * game.floor[-1], 2e-12 * one)
        cap, goal = 0.9 / (room * self.largest), math.log(1 / delta)

        def short(n: int) -> bool:
            stake = min(cap, 1 / gain)
            if variance > 0:
                stake = min(stake, math.sqrt(2 * goal / n / variance))
            return bool(n * stake * (gain - stake * (variance + gain**2) / 2) < goal)

        if short(2**60):
            return None
        n = 2**60
        for power in range(59, -1, -1):
            if n > 2**power and not short(n - 2**power):
                n -= 2**power
        return n
