"""Whether outcomes can tell decisions apart: those of a broken export are all the same."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from outrule.errors import DataError
from outrule.problems.contract import Problem
from outrule.proof.statement import Certificate
from outrule.types import Floats


class OutcomeEnds(NamedTuple):
    """The smallest and the largest known outcome."""

    low: float = np.inf
    high: float = -np.inf

    def including(self, outcome: Floats) -> OutcomeEnds:
        """With more outcomes, of which those that are not known are NaN."""
        low, high = np.fmin.reduce(outcome), np.fmax.reduce(outcome)
        return OutcomeEnds(float(np.fmin(self.low, low)), float(np.fmax(self.high, high)))

    def check(self, problem: Problem) -> None:
        """Raise where any decision is worth the same as any other, whatever the model does."""
        if self.low == self.high and (problem.exactly_one or self.low == 0):
            raise self._error()

    def check_differences(self, found: Certificate) -> None:
        """The same for problems whose decisions may differ in size: raise if none did."""
        rivals = (*found.rules, *found.rivals)
        if self.low == self.high and not any(rival.difference.mean for rival in rivals):
            raise self._error()

    def _error(self) -> DataError:
        return DataError(
            f"every outcome is {self.low:g}. No decision can then be better than another, so "
            "nothing is proven: check the outcome column, and how it was exported."
        )
