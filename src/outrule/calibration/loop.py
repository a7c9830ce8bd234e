"""The only loop in the house: CHECK, patch what it flags, until it flags nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from outrule.calibration.audit import OPTIMISER
from outrule.calibration.check import Check, Step
from outrule.calibration.patches import Patch
from outrule.calibration.sources import Source, Watch
from outrule.rules.rules import Rule


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
    max_rounds: int | None  # as many as the source says where it is None


def boost(
    source: Source,
    rules: Sequence[Rule],
    plan: Plan,
    generator: np.random.Generator,
    watch: Watch | None = None,
    patches: Sequence[Patch] = (),
) -> Boosted:
    """Run WeightedMC (paper, Algorithm 1) and say why it stopped."""
    done, history = list(patches), list[Round]()
    max_rounds = plan.max_rounds or source.enough_rounds(plan.check, plan.step, plan.tolerance)
    for number in range(max_rounds):
        found = source.look(done)
        if found is None:
            return _end(done, history, Status.OUT_OF_DATA, watch)
        if number == 0:
            plan.check.begin(found, plan.tolerance, max_rounds)
        finding = plan.check.flag(found, plan.tolerance, plan.k, max_rounds, generator)
        if finding is None:
            largest = found.violations[np.argmax(np.abs(found.violations))]
            row = Round(number, None, float(largest), 0.0, found.squared_error, found.n)
            history.append(row)
            if plan.check.early_exit:
                return _end(done, history, Status.CONVERGED, watch)
            continue
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
    if watch is not None and watch.best_length < len(patches):
        return Boosted(patches[: watch.best_length], history, Status.VALIDATION)
    return Boosted(patches, history, status)
