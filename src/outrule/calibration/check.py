"""CHECK, three ways: which test of an audit to patch, if any, and how far (paper, section 3.2)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass
from math import log, log1p, sqrt
from typing import NamedTuple

import numpy as np

from outrule.calibration.audit import OPTIMISER, Audit
from outrule.errors import DataError, check_number


class Flagged(NamedTuple):
    """A flagged test: its violation, and the mean size E|w| of its mark."""

    test: int
    violation: float
    size: float


class Check(ABC):
    """How violations are looked for, and in which data."""

    alert: float
    early_exit: bool = True  # stop when nothing is flagged
    exact = True  # it sees the violations as they are

    def check_data(self, audit: Audit, tolerance: float, rounds: int) -> None:  # noqa: B027 - one needs it
        """Raise DataError, at the first audit, if the data are too few for this CHECK."""

    def flag(
        self, audit: Audit, tolerance: float, k: int, rounds: int, generator: np.random.Generator
    ) -> Flagged | None:
        """The test to patch, or None where nothing is flagged."""
        return flag_largest(audit, self.alert * tolerance)


def flag_largest(audit: Audit, threshold: float) -> Flagged | None:
    """The test of largest violation, the first of equals, if it is above the threshold."""
    # A test that marks nothing a patch can move cannot be patched.
    row = int(np.argmax(np.where(audit.sizes > 0, np.abs(audit.violations), 0.0)))
    violation = float(audit.violations[row])
    if not abs(violation) > threshold:
        return None
    return Flagged(_test(audit, row), violation, float(audit.sizes[row]))


def _test(audit: Audit, row: int) -> int:
    return OPTIMISER if row == len(audit.violations) - 1 else row


@dataclass(frozen=True)
class FreshBatches(Check):
    """A new, disjoint batch of instances every round, in the order of the data (Theorem 3.3).

    Parameters
    ----------
    size : int
        Instances per batch; ``theory.batch_size`` says how many the theorem asks for.
    alert : float in (0, 1]
        A violation above ``alert * tolerance`` is flagged. With batches that estimate to
        within a quarter of the tolerance (``theory.batch_size(..., margin=1/4)``), 3/4 flags only
        true violations; the paper's theorem has 1/2, its experiments 1.
    early_exit : bool
        Stop at the first batch in which nothing is flagged. The paper's experiments go on.
    """

    size: int
    alert: float = 0.75
    _: KW_ONLY
    early_exit: bool = True

    def __post_init__(self) -> None:
        check_number(self.size, "size", "FreshBatches", 1, low_open=False, integer=True)
        check_number(self.alert, "alert", "FreshBatches", 0, 1)


@dataclass(frozen=True)
class PrivateReuse(Check):
    """The same data every round, looked at through noise (paper, section 3.3).

    The test is drawn by the exponential mechanism over tests and signs, and whether it is flagged
    is decided on its violation plus Laplace noise. So the list of patches is differentially private
    in the observations (instances, or clusters), and what it repairs holds beyond them. What is
    reported with it is not private: history, rule values and isotonic curves are exact.

    Parameters
    ----------
    privacy, delta : float
        The budget of the patches, by composition over twice ``max_rounds`` looks. Give
        ``max_rounds``: the default is the theory's worst case, which leaves little for each look.
        ``fit`` raises DataError if the noise would be larger than the violations to be found.
    alert : float in (0, 1]
    """

    privacy: float = 1.0
    delta: float = 0.05
    alert: float = 0.75
    exact = False

    def __post_init__(self) -> None:
        check_number(self.privacy, "privacy", "PrivateReuse", 0)
        check_number(self.delta, "delta", "PrivateReuse", 0, 1, high_open=True)
        check_number(self.alert, "alert", "PrivateReuse", 0, 1)

    def budget_per_look(self, rounds: int) -> float:
        """The epsilon of one mechanism, such that 2 * rounds of them cost ``privacy``.

        Advanced composition (Dwork, Rothblum and Vadhan 2010) in the form
        ``privacy = e * sqrt(2 T ln(1/delta)) + T e (exp(e) - 1)``, solved by bisection.
        """
        looks = 2 * rounds
        # Above one, T e (exp(e) - 1) is at least exp(e) - 1: no larger e can be paid.
        low, high = 0.0, min(self.privacy, 1 + log1p(self.privacy))
        for _ in range(200):
            middle = (low + high) / 2
            cost = middle * sqrt(2 * looks * log(1 / self.delta))
            cost += looks * middle * float(np.expm1(middle))
            low, high = (middle, high) if cost <= self.privacy else (low, middle)
        return max(low, self.privacy / looks)  # plain composition is better for large budgets

    def check_data(self, audit: Audit, tolerance: float, rounds: int) -> None:
        noise, sought = audit.sensitivity / self.budget_per_look(rounds), self.alert * tolerance
        if noise > sought:
            raise DataError(
                f"PrivateReuse would decide by noise: with max_rounds={rounds} its scale is "
                f"{noise:.3g}, and violations of {sought:.3g} are looked for. Give about "
                f"{noise / sought:.3g} times as many instances, fewer max_rounds, more privacy or "
                "a larger epsilon."
            )

    def flag(
        self, audit: Audit, tolerance: float, k: int, rounds: int, generator: np.random.Generator
    ) -> Flagged | None:
        budget = self.budget_per_look(rounds)
        scores = np.concatenate((audit.violations, -audit.violations))
        noisy = scores * (budget / (2 * audit.sensitivity)) + generator.gumbel(size=len(scores))
        drawn = int(np.argmax(noisy)) % len(audit.violations)
        violation = float(audit.violations[drawn])
        violation += generator.laplace(scale=audit.sensitivity / budget)
        if not abs(violation) > self.alert * tolerance:
            return None
        violation = min(max(violation, -audit.reach), audit.reach)
        # The mean size of the mark would be one more look at the data; k bounds it.
        return Flagged(_test(audit, drawn), violation, float(k))


@dataclass(frozen=True)
class Reuse(Check):
    """The same data every round, without noise: the practical default.

    It guarantees nothing beyond the data: the certificate on held-out data is the proof.

    Parameters
    ----------
    alert : float in (0, 1]
    validation : float in (0, 1), optional
        Part of the instances (of the clusters, where there are any) to set aside. The loop stops
        when their squared error has not fallen for ``patience`` rounds, and goes back to where it
        was lowest.
    patience : int
    """

    alert: float = 1.0
    validation: float | None = None
    patience: int = 20

    def __post_init__(self) -> None:
        check_number(self.alert, "alert", "Reuse", 0, 1)
        if self.validation is not None:
            check_number(self.validation, "validation", "Reuse", 0, 1, high_open=True)
        check_number(self.patience, "patience", "Reuse", 1, low_open=False, integer=True)


class Step(ABC):
    """How far a flagged test is moved."""

    @abstractmethod
    def size(self, flagged: Flagged, tolerance: float, k: int) -> float:
        """The length of the step, without its sign."""


@dataclass(frozen=True)
class FixedStep(Step):
    """The paper's step, ``tolerance / (2 k)``."""

    def size(self, flagged: Flagged, tolerance: float, k: int) -> float:
        return tolerance / (2 * k)


@dataclass(frozen=True)
class LineSearch(Step):
    """The step that lowers the squared error most, ``|violation| / E|w|``."""

    def size(self, flagged: Flagged, tolerance: float, k: int) -> float:
        return abs(flagged.violation) / flagged.size
