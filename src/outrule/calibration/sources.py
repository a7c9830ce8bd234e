"""Where the data of a round comes from: the same instances each time, or a fresh batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from outrule import theory
from outrule.calibration.audit import Audit, Part, audit, prepare, rule_values, squared_error
from outrule.calibration.check import Check, FixedStep, FreshBatches, Reuse, Step
from outrule.calibration.incremental import IncrementalAudit
from outrule.calibration.noise import supported_tolerance
from outrule.calibration.patches import Decided, Patch, apply_patches, first_point, patch_columns
from outrule.data.instances import Instances
from outrule.errors import DataError, refuse_argument
from outrule.problems.contract import Problem
from outrule.rules.rules import Rule
from outrule.types import Booleans, Floats


class SameData:
    """The same instances every round; their predictions are patched in place."""

    def __init__(self, part: Part, start: Floats, problem: Problem, *, audited: bool = True):
        self.part, self.problem = part, problem
        self.prediction = first_point(start, problem, part.layout)
        self.weight = part.instances.total_weight()
        # On the simplex a patch moves other items too, and with weights by different amounts.
        quick = audited and not problem.simplex and part.instances.weight is None
        self.incremental = IncrementalAudit(part, self.prediction, problem) if quick else None

    def next_audit(self, patches: Sequence[Patch]) -> Audit | None:
        """The audit of the next round, after these patches; None when the data is used up."""
        if self.incremental is not None:
            return self.incremental.audit()
        return audit(self.part, self.prediction, self.problem)

    def audit_afresh(self) -> Audit | None:
        """The same audit from the predictions alone; None where it was."""
        if self.incremental is None or self.incremental.exact:
            return None
        self.incremental.refresh()
        return self.incremental.audit()

    def apply(self, patch: Patch, found: Audit) -> None:
        """Apply a new patch, which this audit led to."""
        if self.incremental is not None:
            self.incremental.apply(patch, found)
        else:
            self.replay([patch])

    def replay(self, patches: Sequence[Patch]) -> None:
        """Apply patches that were found on other data."""
        _replay(patches, self.prediction, self.part, self.problem)

    def values(self) -> Floats:
        """The mean value of every rule on the data seen so far."""
        return rule_values(self.part)

    def supported_tolerance(self) -> float:
        """The smallest tolerance that the data support, at the start."""
        return supported_tolerance(self.part, self.prediction, self.problem)

    def enough_rounds(self, check: Check, step: Step, tolerance: float) -> int:
        """Rounds after which the loop has stopped by itself."""
        fixed = isinstance(step, FixedStep)
        if fixed and check.alert <= 0.25:  # then a fixed step may raise the squared error
            expected = f"given for FixedStep at alert {check.alert:g}"
            raise refuse_argument(None, "max_rounds", "DecisionCalibrator", expected)
        # The theory is in units of the value range.
        error = squared_error(self.part, self.prediction) / self.part.span**2
        # Where outcomes are estimates their noise is in it, which no patch can take away.
        offers = np.diff(self.part.layout.offsets)
        error = min(error, float(np.average(offers, weights=self.part.weight)))
        tau, k = tolerance / self.part.span, self.part.layout.k
        # On the loop's own data a flagged test has at least the alert's violation, so the bound
        # holds; one more round is needed to see that nothing is flagged.
        bound = theory.rounds if fixed else theory.rounds_line_search
        return 1 + bound(squared_error=error, k=k, tolerance=tau, alert=check.alert)


class FreshData:
    """A new batch every round; the patches so far are replayed on it.

    The methods are those of :class:`SameData`.
    """

    def __init__(
        self,
        instances: Instances,
        start: Floats,
        problem: Problem,
        rules: Sequence[Rule],
        size: int,
    ):
        self.instances, self.start, self.problem, self.rules = instances, start, problem, rules
        self.size, self.position = size, 0
        self.sums, self.weight = np.zeros(len(rules)), 0.0

    def next_audit(self, patches: Sequence[Patch]) -> Audit | None:
        first, last = self.position, self.position + self.size
        if last > len(self.instances):
            return None
        self.position = last
        part, prediction = self._batch(first, last)
        _replay(patches, prediction, part, self.problem)
        weight = part.instances.total_weight()
        self.sums += weight * rule_values(part)
        self.weight += weight
        return audit(part, prediction, self.problem)

    def _batch(self, first: int, last: int) -> tuple[Part, Floats]:
        """Some instances, and the predictions that they start from."""
        part = prepare(self.instances.slice(first, last), self.problem, self.rules)
        start = self.start[self.instances.offsets[first] : self.instances.offsets[last]]
        return part, first_point(start, self.problem, part.layout)

    def audit_afresh(self) -> Audit | None:
        return None

    def apply(self, patch: Patch, found: Audit) -> None:
        """It is replayed on the next batch."""

    def values(self) -> Floats:
        return self.sums / self.weight

    def supported_tolerance(self) -> float:
        """By the noise of one batch, the first."""
        return supported_tolerance(*self._batch(0, self.size), self.problem)

    def enough_rounds(self, check: Check, step: Step, tolerance: float) -> int:
        return 1 + len(self.instances) // self.size


Source = SameData | FreshData


def _replay(patches: Sequence[Patch], prediction: Floats, part: Part, problem: Problem) -> None:
    decided = Decided(problem, part.layout, part.picks, part.instances.value_range)
    apply_patches(prediction, *patch_columns(patches, part.of_rule), decided)


class Validation:
    """Instances set aside, and after how many patches their squared error was lowest."""

    def __init__(self, data: SameData, patience: int):
        self.data, self.patience, self.length, self.best_length = data, patience, 0, 0
        self.best_error = squared_error(data.part, data.prediction)

    def apply(self, patch: Patch) -> None:
        """Apply a patch that the loop has found."""
        self.data.replay([patch])
        self.length += 1
        error = squared_error(self.data.part, self.data.prediction)
        if error < self.best_error:
            self.best_error, self.best_length = error, self.length

    @property
    def out_of_patience(self) -> bool:
        """Whether the error has not fallen for ``patience`` patches."""
        return self.length - self.best_length >= self.patience


def open_source(
    instances: Instances,
    start: Floats,
    problem: Problem,
    rules: Sequence[Rule],
    check: Check,
    generator: np.random.Generator,
    part: Part | None = None,
) -> tuple[Source, Validation | None]:
    """The data that a CHECK uses, and the validation part if it has one.

    ``part`` is the result of :func:`prepare`, where it is known already.
    """
    if isinstance(check, FreshBatches):
        if check.size > len(instances):
            expected = f"at most {len(instances)}, the number of instances"
            raise refuse_argument(check.size, "size", "FreshBatches", expected)
        return FreshData(instances, start, problem, rules, check.size), None
    if not isinstance(check, Reuse) or check.validation is None:
        return SameData(part or prepare(instances, problem, rules), start, problem), None

    def data(rows: Booleans, *, audited: bool) -> SameData:
        part = prepare(instances.take(np.flatnonzero(rows)), problem, rules)
        return SameData(part, start[rows[instances.instance]], problem, audited=audited)

    aside = _set_aside(instances, check.validation, generator)
    inside, outside = data(~aside, audited=True), data(aside, audited=False)
    return inside, Validation(outside, check.patience)


def _set_aside(instances: Instances, fraction: float, generator: np.random.Generator) -> Booleans:
    """Mark a part of the instances, whole clusters at a time."""
    groups = np.arange(len(instances)) if instances.cluster is None else instances.cluster
    group = np.unique(groups, return_inverse=True)[1]
    n_groups = int(group.max()) + 1
    n_aside = max(1, round(fraction * n_groups))
    if n_aside >= n_groups:
        raise DataError(
            f"a validation part of {fraction:g} leaves nothing to fit on: the number of instances "
            f"(or clusters) is {n_groups}. Give more data, or a smaller part."
        )
    return np.isin(group, generator.permutation(n_groups)[:n_aside])
