"""E-detectors (Shin, Ramdas and Rinaldo 2024) in the form of Shiryaev and Roberts.

A claim is that a bounded quantity x has no negative mean. Against it, ``M_t = (M_{t-1} + 1) G_t``,
where ``G_t`` is the product of ``1 - stake x`` over the batch t. While the claim is true, ``M_t``
minus the number of batches is a supermartingale, so that batches until M reaches a level number at
least that level on average. A mean of detectors is a detector: over stakes, over claims. M never
falls below zero, so that a long good past does not delay an alarm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from outrule.types import Floats, Integers

# A geometric grid instead of bets that adapt: it needs no state, and a long healthy time does not
# mislead it. The best of them grows at least 8/9 as fast as the best stake between them.
STAKES: Floats = np.exp2(-np.arange(1.0, 9.0))
SHOWN = math.log(20)  # capital at which a claim counts as shown, with confidence 0.95
FULL = 2 * SHOWN  # most capital that is kept: bad batches can take back what good ones showed
LARGE = 600.0  # logarithm beyond which evidence is not told apart


@dataclass(frozen=True, eq=False)
class Detectors:
    """For every claim (rows) and stake (columns), what all batches so far have left."""

    doubt: Floats  # log(1 + M)
    climb: Floats  # log of the largest product of G over the last batches
    start: Integers  # the first of those batches, counted from 1
    trust: Floats  # log of the capital of bets on the claim, at most FULL

    @classmethod
    def fresh(cls, n_claims: int) -> Detectors:
        """Before the first batch."""
        zeros = np.zeros((n_claims, len(STAKES)))
        return cls(zeros, zeros, np.zeros(zeros.shape, dtype=np.int64), zeros)

    def after(self, growth: Floats, batch: int) -> Detectors:
        """Count a batch: ``growth`` has shape (claims, 2, stakes), ``batch`` is its number."""
        against, favour = growth[:, 0], growth[:, 1]
        return Detectors(
            np.logaddexp(0.0, self.doubt + against),
            np.maximum(self.climb, 0.0) + against,
            np.where(self.climb > 0, self.start, batch),
            np.minimum(self.trust + favour, FULL),
        )

    def evidence(self) -> Floats:
        """M of every claim, the mean over stakes; up to exp(LARGE)."""
        return np.asarray(np.expm1(np.minimum(self.doubt, LARGE)).mean(axis=1))

    def shown(self) -> NDArray[np.bool_]:
        """Which claims the batches show: all bets on them together, the mean over stakes."""
        return np.asarray(np.exp(self.trust).mean(axis=1) >= math.exp(SHOWN))

    def since(self, claim: int) -> int:
        """The batch from which on the evidence against a claim is largest."""
        return int(self.start[claim, np.argmax(self.climb[claim])])

    def part(self, rows: slice) -> Detectors:
        """Those of some of the claims."""
        return Detectors(**{name: array[rows] for name, array in vars(self).items()})


def refuted(evidence: Floats, level: float) -> list[int]:
    """The claims that are refuted one by one, the strongest evidence first.

    By closed testing with means (Vovk and Wang 2021), which includes e-Holm: a claim is, if every
    set of claims that contains it has a mean of at least ``level``.
    """
    order = np.argsort(-evidence, kind="stable")
    found = []
    for claim in order.tolist():
        others = np.sort(np.delete(evidence, claim))
        sums = evidence[claim] + np.concatenate(([0.0], np.cumsum(others)))
        if not np.all(sums / np.arange(1, len(sums) + 1) >= level):
            break
        found.append(claim)
    return found
