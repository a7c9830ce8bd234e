"""CHECK, three ways: which test of an audit to patch, if any, and how far (paper, section 3.2)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np

from outrule import theory
from outrule.calibration.audit import Audit
from outrule.data.checks import check_range
from outrule.data.instances import Instances
from outrule.errors import DataError, check_integer, check_number, refuse_argument
from outrule.problems.contract import Problem


class Flagged(NamedTuple):
    """A flagged test: its violation, and the mean size E|w| of its mark.

    On the simplex a marked class counts for ``1 - 1/c``, what the projection leaves of a step.
    """

    test: int
    violation: float
    size: float
    segment: int = -1  # the whole


class Check(ABC):
    """How violations are looked for, and in which data."""

    alert: float  # the smallest violation that is flagged, in units of the tolerance
    early_exit: bool = True  # stop when nothing is flagged
    exact = True  # it sees the violations as they are, without noise
    fresh = False  # every round has instances of its own

    @property
    def heuristic(self) -> str | None:
        """A sentence, where its noise is of the user's choice."""
        return None

    def check_data(  # noqa: B027 - one needs it
        self, reach: float, sensitivity: float, tolerance: float, n_tests: int, rounds: int
    ) -> None:
        """Raise DataError if the data are too few for this CHECK.

        No violation can be larger than ``reach``, and no observation can change one by more than
        ``sensitivity``.
        """

    def flag(
        self, audit: Audit, tolerance: float, k: int, rounds: int, generator: np.random.Generator
    ) -> Flagged | None:
        """The test to patch, or None where nothing is flagged."""
        return flag_largest(audit, self.alert * tolerance)


def flag_largest(audit: Audit, threshold: float) -> Flagged | None:
    """The test of largest violation, the first of equals, if it is above the threshold."""
    # A test that marks nothing a patch can move cannot be patched.
    sought = np.where(audit.sizes > 0, np.abs(audit.violations), 0.0)
    if audit.scale is not None:
        # A test inside a segment lowers the squared error by about violation^2 / share.
        sought = np.where(sought > threshold * audit.scale, sought / np.sqrt(audit.scale), 0.0)
        threshold = 0.0
    row = int(np.argmax(sought))
    if not sought[row] > threshold:
        return None
    test, segment = audit.place(row)
    return Flagged(test, float(audit.violations[row]), float(audit.sizes[row]), segment)


@dataclass(frozen=True)
class FreshBatches(Check):
    """A new, disjoint batch of instances every round, in the order of the data (Theorem 3.3).

    Parameters
    ----------
    size : int
        Instances per batch; ``for_guarantee`` says how many the theorem asks for.
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
    fresh = True

    def __post_init__(self) -> None:
        check_integer(self.size, "size", "FreshBatches")
        check_number(self.alert, "alert", "FreshBatches", 0, 1)
        if not isinstance(self.early_exit, bool):
            raise refuse_argument(self.early_exit, "early_exit", "FreshBatches", "a bool")

    @classmethod
    def for_guarantee(
        cls,
        problem: Problem | int,
        n_rules: int,
        epsilon: float,
        *,
        n_items: int,
        delta: float = 0.05,
        value_range: tuple[float, float] = (0.0, 1.0),
    ) -> FreshBatches:
        """Batches so large that a loop that converges has its guarantee (Theorem 3.3).

        With probability 1 - delta every violation is estimated to within a quarter of the tolerance
        in every round. Then each patch corrects a true violation, of half the tolerance at least;
        the loop converges after at most ``4 k r / tau^2`` patches with ``FixedStep()``, r being the
        squared error of the start (``16/3 k r / tau^2`` with ``LineSearch()`` where all decisions
        have the same size); and when its status is "converged", the optimiser is at least as good
        as every rule, minus at most epsilon, on the whole population and not only on these data.

        It holds for independent instances without weights, and where nothing else has seen them:
        ``start=None`` (or the output of a calibrator fitted on other data), and no isotonic rival.

        Parameters
        ----------
        problem : Problem, or int
            Or k, the size of the largest decision, where the problem's structure is in the data.
        n_rules : int
        epsilon : float
            As for the calibrator, in the units of the value.
        n_items : int
            The most items that an instance offers; the squared error of any start is less.
        value_range : (low, high)

        Examples
        --------
        >>> from outrule import BestAction
        >>> FreshBatches.for_guarantee(BestAction(), 100, 0.5, n_items=16)
        FreshBatches(size=7959, alert=0.75, early_exit=True)
        """
        owner = "FreshBatches.for_guarantee"
        low, high = check_range(value_range)
        check_number(epsilon, "epsilon", owner, 0, high - low)
        for name, count in (("n_rules", n_rules), ("n_items", n_items)):
            check_integer(count, name, owner)
        check_number(delta, "delta", owner, 0, 1, high_open=True)
        if isinstance(problem, Problem):
            k = problem.lay(Instances.from_weights(np.ones((1, n_items)))).k
            ratio = problem.ratio
        else:
            k, ratio = check_integer(problem, "problem", owner), 1.0
        tolerance = theory.tolerance(epsilon / (high - low), ratio)
        # The line search at 3/4 with errors of 1/4 lowers the potential by 3/16 tau^2 / k; the
        # fixed step by more. One more round finds nothing, and the rivals are two more tests.
        most = theory.rounds_line_search(
            squared_error=n_items, k=k, tolerance=tolerance, alert=sqrt(3) / 4
        )
        size = theory.batch_size(
            k=k,
            tolerance=tolerance,
            n_tests=n_rules + 3,
            rounds=most + 1,
            delta=delta,
            margin=0.25,
        )
        return cls(size)


@dataclass(frozen=True)
class PrivateReuse(Check):
    """The same data every round, looked at through noise (paper, section 3.3).

    The test is drawn by the exponential mechanism over tests and signs, and whether it is flagged
    is decided on its violation plus Laplace noise. So the list of patches is differentially private
    in the observations (instances, or clusters), and what it repairs holds beyond them. What is
    reported with it is not private: history, rule values and isotonic curves are exact.

    Without ``privacy`` the noise follows from the tolerance, from ``max_rounds`` and from delta
    (``theory.private_budget``). Then, for independent instances without weights, a loop that
    converges has its guarantee on the whole population with probability 1 - delta. That takes very
    many instances, as a rule more than ``FreshBatches``: ``theory.private_samples`` says how many,
    and ``fit`` raises DataError before any work if there are fewer.

    With a ``privacy`` of your own it is a heuristic: less noise, and no guarantee beyond the data.

    ``max_rounds`` must be given, as the noise depends on it. What is fitted on the same data is not
    supported, because it has seen them without noise: use ``start=None`` and ``rivals=("plain",)``.

    Parameters
    ----------
    privacy : float, optional
        The budget of all patches, by composition over two looks in every round. ``fit`` raises
        DataError if the noise would be larger than the violations to be found.
    delta : float
        The probability that the guarantee fails; with ``privacy``, the delta of that budget.
    alert : float in (0, 1]; without ``privacy`` in (0.5, 1)
    """

    privacy: float | None = None
    delta: float = 0.05
    alert: float = 0.75
    exact = False

    def __post_init__(self) -> None:
        check_number(self.delta, "delta", "PrivateReuse", 0, 1, high_open=True)
        if self.privacy is None:
            check_number(self.alert, "alert", "PrivateReuse", 0.5, 1, high_open=True)
        else:
            check_number(self.privacy, "privacy", "PrivateReuse", 0)
            check_number(self.alert, "alert", "PrivateReuse", 0, 1)

    @property
    def heuristic(self) -> str | None:
        if self.privacy is None:
            return None
        return (
            f"PrivateReuse with privacy={self.privacy:g} is a heuristic: its noise is not derived "
            "from epsilon, so nothing is guaranteed beyond these data without a certificate."
        )

    def budget_per_look(self, reach: float, tolerance: float, rounds: int) -> float:
        """The epsilon of one mechanism, of which there are two in every round."""
        if self.privacy is not None:
            return theory.budget_per_look(self.privacy, self.delta, rounds)
        # The theory's violations are between -k and k: here k is 1.
        budget = theory.private_budget(
            k=1, tolerance=tolerance / reach, delta=self.delta, margin=1 - self.alert
        )
        return theory.budget_per_look(budget.privacy, budget.privacy_delta, rounds)

    def check_data(
        self, reach: float, sensitivity: float, tolerance: float, n_tests: int, rounds: int
    ) -> None:
        if self.privacy is None:
            needed = theory.private_samples(
                k=1,
                tolerance=tolerance / reach,
                n_tests=n_tests,
                rounds=rounds,
                delta=self.delta,
                margin=1 - self.alert,
            )
            n = round(2 * reach / sensitivity)
            if n < needed:
                raise DataError(
                    f"the guarantee of PrivateReuse needs {needed:,} instances of equal weight "
                    f"with max_rounds={rounds} and this epsilon, but these count as {n:,}. Use "
                    "Reuse() and a certificate, fewer max_rounds or a larger epsilon; or set "
                    "privacy, which is a heuristic."
                )
            return
        noise = sensitivity / self.budget_per_look(reach, tolerance, rounds)
        sought = self.alert * tolerance
        if noise > sought:
            raise DataError(
                f"PrivateReuse would decide by noise: with max_rounds={rounds} the noise has scale "
                f"{noise:.3g}, but it looks for violations of {sought:.3g}. Use about "
                f"{noise / sought:.3g} times as many instances, fewer max_rounds, a larger privacy "
                "or a larger epsilon."
            )

    def flag(
        self, audit: Audit, tolerance: float, k: int, rounds: int, generator: np.random.Generator
    ) -> Flagged | None:
        budget = self.budget_per_look(audit.reach, tolerance, rounds)
        scores = np.concatenate((audit.violations, -audit.violations))
        noisy = scores * (budget / (2 * audit.sensitivity)) + generator.gumbel(size=len(scores))
        drawn = int(np.argmax(noisy)) % len(audit.violations)
        violation = float(audit.violations[drawn])
        violation += generator.laplace(scale=audit.sensitivity / budget)
        if not abs(violation) > self.alert * tolerance:
            return None
        violation = min(max(violation, -audit.reach), audit.reach)
        # The mean size of the mark would be one more look at the data; k bounds it.
        return Flagged(audit.place(drawn)[0], violation, float(k))


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
        check_integer(self.patience, "patience", "Reuse")


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
    """The step that lowers the squared error most, ``|violation| / E|w|``.

    On the simplex of c classes the projection moves the marked class by ``1 - 1/c`` of a step and
    the others by the rest, so the step is ``|violation| / E[|w| (1 - 1/c)]`` there.
    """

    def size(self, flagged: Flagged, tolerance: float, k: int) -> float:
        return abs(flagged.violation) / flagged.size
