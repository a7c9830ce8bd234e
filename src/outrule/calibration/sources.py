"""Where the data of a round comes from: the same instances each time, or a fresh batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from outrule import theory
from outrule.calibration.audit import Audit, Part, audit, prepare, rule_values, squared_error
from outrule.calibration.check import Check, FixedStep, FreshBatches, Reuse, Step
from outrule.calibration.incremental import Ledger
from outrule.calibration.patches import Patch, apply_patches, columns, first_point
from outrule.data.instances import Instances
from outrule.errors import DataError, refuse_argument
from outrule.problems.contract import Problem
from outrule.rules.rules import Rule
from outrule.types import Booleans, Floats


class Source(Protocol):
    """Where the data of a round comes from."""

    weight: float  # of the instances seen so far

    def look(self, patches: Sequence[Patch]) -> Audit | None:
        """The audit of the next round, after these patches; None when the data is used up."""

    def patched(self, patch: Patch, found: Audit) -> None:
        """Hear of a new patch."""

    def values(self) -> Floats:
        """The mean value of every rule on the data seen so far."""

    def enough_rounds(self, check: Check, step: Step, tolerance: float) -> int:
        """Rounds after which the loop has stopped by itself."""


class SameData:
    """The same instances every round; their predictions are patched in place."""

    def __init__(self, part: Part, start: Floats, problem: Problem, *, audited: bool = True):
        self.part, self.problem = part, problem
        self.prediction = first_point(start, problem, part.layout)
        self.weight = part.instances.total_weight()
        # On the simplex a patch moves other items too, and with weights by other amounts.
        quick = audited and not problem.simplex and part.instances.weight is None
        self.ledger = Ledger(part, self.prediction, problem) if quick else None

    def look(self, patches: Sequence[Patch]) -> Audit | None:
        if self.ledger is not None:
            return self.ledger.audit()
        return audit(self.part, self.prediction, self.problem)

    def patched(self, patch: Patch, found: Audit) -> None:
        if self.ledger is not None:
            self.ledger.patch(patch, found)
        else:
            self.replayed(patch)

    def replayed(self, patch: Patch) -> None:
        """Apply a patch that was found elsewhere."""
        layout, value_range = self.part.layout, self.part.instances.value_range
        order, steps = columns([patch], self.part.of_rule)
        picks = self.part.picks
        apply_patches(self.prediction, order, steps, picks, self.problem, layout, value_range)

    def values(self) -> Floats:
        return rule_values(self.part)

    def enough_rounds(self, check: Check, step: Step, tolerance: float) -> int:
        fixed = isinstance(step, FixedStep)
        if fixed and check.alert <= 0.25:  # then a fixed step may raise the squared error
            expected = f"given for FixedStep at alert {check.alert:g}"
            raise refuse_argument(None, "max_rounds", "DecisionCalibrator", expected)
        # The theory is in units of the value range.
        error = squared_error(self.part, self.prediction) / self.part.span**2
        tau, k = tolerance / self.part.span, self.part.layout.k
        # On its own data a flagged test has at least the alert's violation, so the bound holds;
        # one more round is needed to see that nothing is flagged.
        bound = theory.rounds if fixed else theory.rounds_line_search
        return 1 + bound(squared_error=error, k=k, tolerance=tau, alert=check.alert)


class FreshData:
    """A new batch every round; the patches so far are replayed on it."""

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

    def look(self, patches: Sequence[Patch]) -> Audit | None:
        first, last = self.position, self.position + self.size
        if last > len(self.instances):
            return None
        self.position = last
        batch = self.instances.slice(first, last)
        part = prepare(batch, self.problem, self.rules)
        offsets = self.instances.offsets
        prediction = first_point(
            self.start[offsets[first] : offsets[last]], self.problem, part.layout
        )
        value_range = self.instances.value_range
        order, steps = columns(patches, part.of_rule)
        layout = part.layout
        apply_patches(prediction, order, steps, part.picks, self.problem, layout, value_range)
        weight = batch.total_weight()
        self.sums += weight * rule_values(part)
        self.weight += weight
        return audit(part, prediction, self.problem)

    def patched(self, patch: Patch, found: Audit) -> None:
        """The next batch will have it replayed."""

    def values(self) -> Floats:
        return self.sums / self.weight

    def enough_rounds(self, check: Check, step: Step, tolerance: float) -> int:
        return 1 + len(self.instances) // self.size


class Watch:
    """The validation part: remembers after how many patches its squared error was lowest."""

    def __init__(self, data: SameData, patience: int):
        self.data, self.patience = data, patience
        self.best_error, self.best_length, self.length = self._error(), 0, 0

    def _error(self) -> float:
        return squared_error(self.data.part, self.data.prediction)

    def sees_no_progress(self, patch: Patch) -> bool:
        """Apply a patch; True when the error has not fallen for long enough."""
        self.data.replayed(patch)
        self.length += 1
        error = self._error()
        if error < self.best_error:
            self.best_error, self.best_length = error, self.length
        return self.length - self.best_length >= self.patience


def open_source(
    instances: Instances,
    start: Floats,
    problem: Problem,
    rules: Sequence[Rule],
    check: Check,
    generator: np.random.Generator,
) -> tuple[Source, Watch | None]:
    """The data a CHECK asks for, and the validation part where it wants one."""
    if isinstance(check, FreshBatches):
        if check.size > len(instances):
            expected = f"at most the {len(instances)} instances there are"
            raise refuse_argument(check.size, "size", "FreshBatches", expected)
        return FreshData(instances, start, problem, rules, check.size), None
    if not isinstance(check, Reuse) or check.validation is None:
        return SameData(prepare(instances, problem, rules), start, problem), None
    aside = _set_aside(instances, check.validation, generator)
    inside, outside = (
        SameData(
            prepare(instances.take(np.flatnonzero(rows)), problem, rules),
            start[rows[instances.instance]],
            problem,
            audited=audited,
        )
        for rows, audited in ((~aside, True), (aside, False))
    )
    return inside, Watch(outside, check.patience)


def _set_aside(instances: Instances, fraction: float, generator: np.random.Generator) -> Booleans:
    """Mark a part of the instances, whole clusters at a time."""
    groups = np.arange(len(instances)) if instances.cluster is None else instances.cluster
    group = np.unique(groups, return_inverse=True)[1]
    n_groups = int(group.max()) + 1
    n_aside = max(1, round(fraction * n_groups))
    if n_aside >= n_groups:
        raise DataError(
            f"a validation part of {fraction:g} leaves none of the {n_groups} instances "
            "(or clusters) to fit on."
        )
    return np.isin(group, generator.permutation(n_groups)[:n_aside])
