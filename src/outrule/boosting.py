"""The only loop in the house: CHECK the predictions, patch what it flags, until it flags nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

import numpy as np

from outrule.arrays import Floats
from outrule.audit import OPTIMISER, Audit, Part, audit, prepare, rule_values, squared_error
from outrule.check import Check, FreshBatches, Step
from outrule.instances import Instances
from outrule.patches import Patch, apply_patches, first_point, move
from outrule.problems import Problem
from outrule.rules import Rule


class Status(StrEnum):
    """Why the loop stopped."""

    CONVERGED = "converged"  # CHECK flagged nothing
    MAX_ROUNDS = "max_rounds"
    OUT_OF_DATA = "out_of_data"  # FreshBatches had no whole batch left
    VALIDATION = "validation"  # the squared error of the validation part no longer fell


class Round(NamedTuple):
    """One row of the history: what CHECK saw, before the patch it led to.

    ``test`` is the name of a rule, ``"optimiser"``, or None where nothing was flagged; then
    ``violation`` is the largest there was, and ``step`` is 0.
    """

    round: int
    test: str | None
    violation: float
    step: float
    squared_error: float
    n: int


class Source(Protocol):
    """Where the data of a round comes from."""

    def next(self, patches: Sequence[Patch]) -> tuple[Part, Floats] | None:
        """The instances of the next round with the current predictions on them."""

    def patched(self, patch: Patch, found: Audit) -> None:
        """Hear of a new patch."""

    def values(self) -> Floats:
        """The mean value of every rule on the data seen so far."""


class SameData:
    """The same instances every round; their predictions are patched in place."""

    def __init__(
        self, instances: Instances, start: Floats, problem: Problem, rules: Sequence[Rule]
    ):
        self.problem = problem
        self.part = prepare(instances, problem, rules)
        self.prediction = first_point(start, problem, self.part.layout)

    def next(self, patches: Sequence[Patch]) -> tuple[Part, Floats] | None:  # noqa: ARG002 - fresh data needs them
        return self.part, self.prediction

    def patched(self, patch: Patch, found: Audit | None) -> None:
        value_range = self.part.instances.value_range
        layout, picks = self.part.layout, self.part.picks
        if patch.test != OPTIMISER or found is None:
            apply_patches(self.prediction, [patch], picks, self.problem, layout, value_range)
        else:  # the audit has just solved on these predictions
            order, steps, picks = np.zeros(1, np.int64), np.asarray([patch.step]), found.optimiser
            move(self.prediction, picks[None], order, steps, self.problem, layout, value_range)

    def values(self) -> Floats:
        return rule_values(self.part)


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

    def next(self, patches: Sequence[Patch]) -> tuple[Part, Floats] | None:
        first, last = self.position, self.position + self.size
        if last > len(self.instances):
            return None
        self.position = last
        part = prepare(self.instances.slice(first, last), self.problem, self.rules)
        offsets = self.instances.offsets
        prediction = first_point(
            self.start[offsets[first] : offsets[last]], self.problem, part.layout
        )
        value_range = self.instances.value_range
        apply_patches(prediction, patches, part.picks, self.problem, part.layout, value_range)
        weight = (
            self.size
            if self.instances.weight is None
            else float(self.instances.weight[first:last].sum())
        )
        self.sums += weight * rule_values(part)
        self.weight += weight
        return part, prediction

    def patched(self, patch: Patch, found: Audit) -> None:
        """The next batch will have it replayed."""

    def values(self) -> Floats:
        return self.sums / self.weight


class Watch:
    """The validation part: remembers after how many patches its squared error was lowest."""

    def __init__(self, data: SameData, patience: int):
        self.data, self.patience = data, patience
        self.best_error, self.best_length, self.length = self._error(), 0, 0

    def _error(self) -> float:
        return squared_error(self.data.part, self.data.prediction)

    def sees_no_progress(self, patch: Patch) -> bool:
        """Apply a patch; True when the error has not fallen for long enough."""
        self.data.patched(patch, None)
        self.length += 1
        error = self._error()
        if error < self.best_error:
            self.best_error, self.best_length = error, self.length
        return self.length - self.best_length >= self.patience


@dataclass(frozen=True)
class Boosted:
    """What leaves the loop."""

    patches: list[Patch]
    history: list[Round]
    status: Status


@dataclass(frozen=True)
class Plan:
    """The settings of the loop."""

    check: Check
    step: Step
    tolerance: float
    k: int
    max_rounds: int


def boost(
    source: Source,
    problem: Problem,
    rules: Sequence[Rule],
    plan: Plan,
    generator: np.random.Generator,
    watch: Watch | None = None,
    patches: Sequence[Patch] = (),
) -> Boosted:
    """Run WeightedMC (paper, Algorithm 1) and say why it stopped."""
    done, history = list(patches), list[Round]()
    goes_on = isinstance(plan.check, FreshBatches) and not plan.check.early_exit
    for number in range(plan.max_rounds):
        batch = source.next(done)
        if batch is None:
            return _end(done, history, Status.OUT_OF_DATA, watch)
        found = audit(*batch, problem)
        finding = plan.check.flag(found, plan.tolerance, plan.k, plan.max_rounds, generator)
        if finding is None:
            largest = found.violations[np.argmax(np.abs(found.violations))]
            row = Round(number, None, float(largest), 0.0, found.squared_error, found.n)
            history.append(row)
            if goes_on:
                continue
            return _end(done, history, Status.CONVERGED, watch)
        length = plan.step.size(finding, plan.tolerance, plan.k)
        patch = Patch(finding.test, float(np.copysign(length, finding.violation)))
        name = "optimiser" if patch.test == OPTIMISER else rules[patch.test].name
        seen = (finding.violation, patch.step, found.squared_error, found.n)
        history.append(Round(number, name, *seen))
        done.append(patch)
        source.patched(patch, found)
        if watch is not None and watch.sees_no_progress(patch):
            return _end(done, history, Status.VALIDATION, watch)
    return _end(done, history, Status.MAX_ROUNDS, watch)


def _end(
    patches: list[Patch], history: list[Round], status: Status, watch: Watch | None
) -> Boosted:
    """With a validation part, go back to where its error was lowest."""
    if watch is not None:
        patches = patches[: watch.best_length]
    return Boosted(patches, history, status)
