"""Where the data of a round comes from: the same instances each time, or a fresh batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from outrule import theory
from outrule.calibration.audit import Audit, Part, audit, prepare, rule_values, squared_error
from outrule.calibration.check import Check, FixedStep, FreshBatches, Reuse, Step
from outrule.calibration.incremental import IncrementalAudit
from outrule.calibration.noise import supported_tolerance
from outrule.calibration.patches import AnyPatch, first_point, patch_part
from outrule.calibration.segmented import Blocks, cut_part, segment_noises
from outrule.data.instances import Instances
from outrule.data.segments import Segmentation
from outrule.errors import DataError, refuse_argument
from outrule.problems.contract import Problem
from outrule.rules.rules import Rule
from outrule.types import Booleans, Floats, computed_once


class SameData:
    """The same instances every round; their predictions are patched in place."""

    def __init__(self, part: Part, start: Floats, problem: Problem):
        self.part, self.problem = part, problem
        self.prediction = first_point(start, problem, part.layout)
        self.weight = part.instances.total_weight()

    @computed_once
    def incremental(self) -> IncrementalAudit | None:
        """What is kept from audit to audit; None where each begins anew."""
        # On the simplex a patch moves other items too, and with weights by different amounts.
        if self.problem.simplex or self.part.instances.weight is not None:
            return None
        return IncrementalAudit(self.part, self.prediction, self.problem)

    def next_audit(self, patches: Sequence[AnyPatch]) -> Audit | None:
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

    def apply(self, patch: AnyPatch, found: Audit) -> None:
        """Apply a new patch, which this audit led to."""
        if self.incremental is not None:
            self.incremental.apply(patch, found.optimiser)
        else:
            self.replay([patch])

    def replay(self, patches: Sequence[AnyPatch]) -> None:
        """Apply patches that were found on other data."""
        patch_part(self.part, self.prediction, patches, self.problem)

    def squared_error(self) -> float:
        """That of the current predictions."""
        return squared_error(self.part, self.prediction)

    def values(self) -> Floats:
        """The mean value of every rule on the data seen so far."""
        return rule_values(self.part)

    def supported_tolerance(self) -> float:
        """The smallest tolerance that the data support, at the start."""
        return supported_tolerance(self.part, self.prediction, self.problem)

    def enough_rounds(self, check: Check, step: Step, tolerance: float) -> int:
        """Rounds after which the loop has stopped by itself."""
        span = self.part.span
        # Where outcomes are estimates their noise is in it, which no patch can take away.
        offers = np.average(np.diff(self.part.layout.offsets), weights=self.part.weight)
        error = min(self.squared_error() / span**2, float(offers))
        return rounds_for(check, step, tolerance / span, error, self.part.layout.k)


def rounds_for(check: Check, step: Step, tolerance: float, error: float, k: int) -> int:
    """Rounds after which the loop has stopped by itself; all in units of the value range."""
    fixed = isinstance(step, FixedStep)
    if fixed and check.alert <= 0.25:  # then a fixed step may raise the squared error
        expected = f"given for FixedStep at alert {check.alert:g}"
        raise refuse_argument(None, "max_rounds", "DecisionCalibrator", expected)
    # On the loop's own data a flagged test has at least the alert's violation, so the bound
    # holds; one more round is needed to see that nothing is flagged.
    bound = theory.rounds if fixed else theory.rounds_line_search
    return 1 + bound(squared_error=error, k=k, tolerance=tolerance, alert=check.alert)


class CellData(SameData):
    """The same instances every round, cut into cells: see ``outrule.calibration.segmented``."""

    def __init__(
        self,
        part: Part,
        start: Floats,
        problem: Problem,
        segmentation: Segmentation,
        tolerance: float = math.nan,
    ):
        self.part, self.problem, self.tolerance = part, problem, tolerance
        self.weight = part.instances.total_weight()
        self.blocks = Blocks.of(part.instances, segmentation)
        self.data = [
            SameData(cut_part(part, cell.rows), start[cell.flat], problem)
            for cell in self.blocks.cells
        ]
        self.found = list[Audit]()

    def next_audit(self, patches: Sequence[AnyPatch]) -> Audit | None:
        found = [one.next_audit(patches) for one in self.data]
        self.found = [audit for audit in found if audit is not None]
        return self.blocks.join(self.found, self.tolerance)

    def audit_afresh(self) -> Audit | None:
        found = [one.audit_afresh() for one in self.data]
        if not any(found):
            return None
        self.found = [new or old for new, old in zip(found, self.found, strict=True)]
        return self.blocks.join(self.found, self.tolerance)

    def apply(self, patch: AnyPatch, found: Audit) -> None:
        for cell, one, seen in zip(self.blocks.cells, self.data, self.found, strict=True):
            if cell.own([patch]):
                one.apply(patch, seen)

    def replay(self, patches: Sequence[AnyPatch]) -> None:
        for cell, one in zip(self.blocks.cells, self.data, strict=True):
            one.replay(cell.own(patches))

    def supported_tolerance(self) -> float:
        return supported_tolerance(self.part, self._prediction(), self.problem)

    def tolerate(self, tolerance: float, *, noisy: bool) -> Segmentation:
        """Set what is tolerated, in segments not less than their noise if that is asked for."""
        found = self.blocks.segmentation
        noises = [0.0] * len(found)
        if noisy:
            noises = segment_noises(found, self.part, self._prediction(), self.problem)
        self.blocks, self.tolerance = self.blocks.tolerating(tolerance, noises), tolerance
        return self.blocks.segmentation

    def _prediction(self) -> Floats:
        """That of all cells, in the order of the data."""
        prediction = self.part.instances.prediction.copy()  # what has no weight stays
        for cell, one in zip(self.blocks.cells, self.data, strict=True):
            prediction[cell.flat] = one.prediction
        return prediction

    def squared_error(self) -> float:
        return float(self.blocks.mean([one.squared_error() for one in self.data]))

    def enough_rounds(self, check: Check, step: Step, tolerance: float) -> int:
        return self.blocks.enough_rounds(super().enough_rounds(check, step, tolerance))


class FreshData:
    """A new batch every round; the patches so far are replayed on it.

    The methods are those of ``SameData``.
    """

    def __init__(
        self,
        instances: Instances,
        start: Floats,
        problem: Problem,
        rules: Sequence[Rule],
        size: int,
        segmentation: Segmentation | None = None,
        tolerance: float = math.nan,
    ):
        self.segmentation, self.tolerance = segmentation, tolerance
        self.instances, self.start, self.problem, self.rules = instances, start, problem, rules
        self.size, self.position = size, 0
        self.sums, self.weight = np.zeros(len(rules)), 0.0

    def next_audit(self, patches: Sequence[AnyPatch]) -> Audit | None:
        first, last = self.position, self.position + self.size
        if last > len(self.instances):
            return None
        self.position = last
        part, prediction = self._batch(first, last)
        weight = part.instances.total_weight()
        self.sums += weight * rule_values(part)
        self.weight += weight
        if self.segmentation is not None:
            cut = (self.segmentation, self.tolerance)
            cells = CellData(part, prediction, self.problem, *cut)
            cells.replay(patches)
            return cells.next_audit(patches)
        patch_part(part, prediction, patches, self.problem)
        return audit(part, prediction, self.problem)

    def _batch(self, first: int, last: int) -> tuple[Part, Floats]:
        """Some instances, and the predictions that they start from."""
        part = prepare(self.instances.slice(first, last), self.problem, self.rules)
        start = self.start[self.instances.offsets[first] : self.instances.offsets[last]]
        return part, first_point(start, self.problem, part.layout)

    def audit_afresh(self) -> Audit | None:
        return None

    def apply(self, patch: AnyPatch, found: Audit) -> None:
        """It is replayed on the next batch."""

    def values(self) -> Floats:
        return self.sums / self.weight

    def supported_tolerance(self) -> float:
        """By the noise of one batch, the first."""
        return supported_tolerance(*self._batch(0, self.size), self.problem)

    def tolerate(self, tolerance: float, *, noisy: bool) -> Segmentation:
        """Set what is tolerated, by the noise of the first batch if that is asked for."""
        assert self.segmentation is not None
        first = CellData(*self._batch(0, self.size), self.problem, self.segmentation)
        self.segmentation = first.tolerate(tolerance, noisy=noisy)
        self.tolerance = tolerance
        return self.segmentation

    def enough_rounds(self, check: Check, step: Step, tolerance: float) -> int:
        return 1 + len(self.instances) // self.size


class Source(Protocol):
    """What the loop asks of its data: see ``SameData``."""

    @property
    def weight(self) -> float: ...
    def next_audit(self, patches: Sequence[AnyPatch]) -> Audit | None: ...
    def audit_afresh(self) -> Audit | None: ...
    def apply(self, patch: AnyPatch, found: Audit) -> None: ...
    def values(self) -> Floats: ...
    def supported_tolerance(self) -> float: ...
    def enough_rounds(self, check: Check, step: Step, tolerance: float) -> int: ...


class Validation:
    """Instances set aside, and after how many patches their squared error was lowest."""

    def __init__(self, data: SameData, patience: int):
        self.data, self.patience, self.length, self.best_length = data, patience, 0, 0
        self.best_error = data.squared_error()

    def apply(self, patch: AnyPatch) -> None:
        """Apply a patch that the loop has found."""
        self.data.replay([patch])
        self.length += 1
        error = self.data.squared_error()
        if error < self.best_error:
            self.best_error, self.best_length = error, self.length


def open_source(
    instances: Instances,
    start: Floats,
    problem: Problem,
    rules: Sequence[Rule],
    check: Check,
    generator: np.random.Generator,
    part: Part | None,
    segmentation: Segmentation | None,
) -> tuple[SameData | FreshData, Validation | None]:
    """The data that a CHECK uses, and the validation part if it has one.

    ``part`` is the result of ``prepare``, where it is known already.
    """

    def same(part: Part, start: Floats) -> SameData:
        if segmentation is None:
            return SameData(part, start, problem)
        return CellData(part, start, problem, segmentation)

    if isinstance(check, FreshBatches):
        if check.size > len(instances):
            expected = f"at most {len(instances)}, the number of instances"
            raise refuse_argument(check.size, "size", "FreshBatches", expected)
        return FreshData(instances, start, problem, rules, check.size, segmentation), None
    if not isinstance(check, Reuse) or check.validation is None:
        return same(part or prepare(instances, problem, rules), start), None

    def some(rows: Booleans) -> SameData:
        part = prepare(instances.take(np.flatnonzero(rows)), problem, rules)
        return same(part, start[rows[instances.instance]])

    aside = _set_aside(instances, check.validation, generator)
    return some(~aside), Validation(some(aside), check.patience)


def _set_aside(instances: Instances, fraction: float, generator: np.random.Generator) -> Booleans:
    """Mark a part of the instances, whole clusters at a time."""
    group = instances.observation
    n_groups = int(group.max()) + 1
    n_aside = max(1, round(fraction * n_groups))
    if n_aside >= n_groups:
        raise DataError(
            f"a validation part of {fraction:g} leaves nothing to fit on: the number of instances "
            f"(or clusters) is {n_groups}. Give more data, or a smaller part."
        )
    return np.isin(group, generator.permutation(n_groups)[:n_aside])
