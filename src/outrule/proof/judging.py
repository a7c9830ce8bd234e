"""A rival, judged: the difference to it, its bounds, and what they say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from outrule.data.origin import Rows
from outrule.data.segments import Segment
from outrule.proof.confidence import Bets, Estimate, Estimates, Observations, Range
from outrule.proof.statement import RivalResult, Support, Verdict, weakest
from outrule.types import Floats

NEARLY = 1 - 1e-12  # of a level that the capital of bets is stopped at


class Versus(NamedTuple):
    """A rival, judged."""

    result: RivalResult
    verdict: Verdict  # as if the largest weight were declared
    evidence: float  # the e-value for "the rival is better"
    approximate: Estimate
    needed: int | None
    lags: bool  # the data speak for the rival
    backing: float  # the e-value for "it is not better by more than the margin", where asked for
    unsupported: Support | None = None  # what a log could not show of it


@dataclass(frozen=True, eq=False)
class Judge:
    """Judges rivals on some observations: all of them, or those of a segment."""

    observations: Observations
    rows: Rows  # of its instances
    apart: Range  # of a difference
    margin: float
    delta: float
    shared: float  # delta divided by how many rivals and segments can fail
    segment: Segment | None = None
    n_segments: int = 0  # how many are judged beside it; 0 on the whole

    def versus(
        self, name: str, theirs: Floats, gain: Floats | Estimates, tolerated: float
    ) -> Versus:
        """Judge a rival; it makes the verdict fail if it is better by more than ``tolerated``.

        ``theirs`` is its value per instance, and ``gain`` how much more ours is.
        """
        gain = gain.take(self.rows) if isinstance(gain, Estimates) else gain[self.rows]
        value = self.observations.mean(theirs[self.rows])
        bets = self.observations.bets(gain, self.apart)
        difference, lower = bets.interval(self.shared), bets.lower(self.delta)
        near = bets.approximate(self.delta, self.apart)
        evidence = bets.evidence_below(-tolerated, self.shared)
        worse = tolerated == 0 and self._is_worse(bets)
        found: Verdict = "pass" if lower >= -self.margin and not worse else "inconclusive"
        if evidence * self.shared >= NEARLY:
            found = "fail"
        lags = worse or difference.mean < -self.margin
        needed = None
        if found == "inconclusive":
            level, delta = (-tolerated, self.shared) if lags else (-self.margin, self.delta)
            needed = bets.needed(level, delta)
        stated: Verdict = found if self.observations.declared else "inconclusive"
        result = RivalResult(name, value, difference, lower, stated)
        backing = 0.0
        if self.n_segments:
            backing = bets.evidence_above(-self.margin, self.delta / self.n_segments)
        return Versus(result, found, evidence, near, needed, lags, backing)

    def _is_worse(self, bets: Bets) -> bool:
        """Whether it is significantly worse than a rival; the more segments, the more it takes."""
        delta = self.delta / max(self.n_segments, 1)
        return bets.approximate(delta, self.apart).upper < 0 or bets.upper(delta / 2) < 0

    def verdict(self, rivals: Iterable[Versus]) -> Verdict:
        """The verdict against some rivals together."""
        rivals = list(rivals)
        if sum(row.evidence for row in rivals) * self.shared >= NEARLY:
            return "fail"
        return weakest(row.verdict for row in rivals)
