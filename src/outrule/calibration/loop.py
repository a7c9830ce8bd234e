"""The loop of the paper: CHECK, patch what it flags, until it flags nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from outrule import progress
from outrule.calibration.audit import OPTIMISER
from outrule.calibration.check import Check, Step
from outrule.calibration.patches import AnyPatch, make_patch
from outrule.calibration.sources import FreshData, Source, Validation
from outrule.rules.rules import Rule


class Status(StrEnum):
    """Why the loop stopped."""

    CONVERGED = "converged"  # CHECK flagged nothing
    MAX_ROUNDS = "max_rounds"
    OUT_OF_DATA = "out_of_data"  # FreshBatches had no whole batch left
    VALIDATION = "validation"  # the squared error of the validation part no longer fell


class Round(NamedTuple):
    """One row of the history: what CHECK saw, before the patch it led to.

    ``test`` is the name of a rule or ``"optimiser"``, inside a segment followed by ``in`` and its
    name; or None where nothing was flagged: then ``violation`` is the largest there was (on the
    whole), and ``step`` is 0.
    """

    round: int
    test: str | None
    violation: float
    step: float
    squared_error: float
    n: int


@dataclass(frozen=True)
class Boosted:
    """The result of the loop."""

    patches: list[AnyPatch]
    history: list[Round]
    status: Status


@dataclass(frozen=True)
class LoopSettings:
    """What the loop needs to know besides the data."""

    check: Check
    step: Step
    tolerance: float
    k: int
    max_rounds: int | None  # if None, the source says how many
    segment_names: tuple[str, ...] = ()


def boost(
    source: Source,
    rules: Sequence[Rule],
    settings: LoopSettings,
    generator: np.random.Generator,
    validation: Validation | None = None,
    patches: Sequence[AnyPatch] = (),
) -> Boosted:
    """Run WeightedMC (paper, Algorithm 1) and say why it stopped."""
    check, step, tolerance, k = settings.check, settings.step, settings.tolerance, settings.k
    max_rounds = settings.max_rounds or source.enough_rounds(check, step, tolerance)
    done, history, status = list(patches), list[Round](), Status.MAX_ROUNDS
    # On the same data the number is a worst case, which says nothing about the time left.
    known = settings.max_rounds is not None or isinstance(source, FreshData)
    done_one = progress.counter("round", max_rounds if known else None)
    for number in range(max_rounds):
        found = source.next_audit(done)
        if found is None:
            status = Status.OUT_OF_DATA
            break
        if number == 0:
            size = (found.reach, found.sensitivity)
            check.check_data(*size, tolerance, len(found.violations), max_rounds)
        done_one()
        flagged = check.flag(found, tolerance, k, max_rounds, generator)
        if flagged is None and check.exact and (afresh := source.audit_afresh()) is not None:
            found = afresh
            flagged = check.flag(found, tolerance, k, max_rounds, generator)
        if flagged is None:
            n_tests = found.n_tests or len(found.violations)  # those of the whole
            whole = found.violations[:n_tests]
            largest = float(whole[np.argmax(np.abs(whole))])
            history.append(Round(number, None, largest, 0.0, found.squared_error, found.n))
            if check.early_exit:
                status = Status.CONVERGED
                break
            continue
        length = float(np.copysign(step.size(flagged, tolerance, k), flagged.violation))
        name = "optimiser" if flagged.test == OPTIMISER else rules[flagged.test].name
        if flagged.segment >= 0:
            name += f" in {settings.segment_names[flagged.segment]}"
        seen = (flagged.violation, length, found.squared_error, found.n)
        history.append(Round(number, name, *seen))
        done.append(make_patch(flagged.test, length, flagged.segment))
        source.apply(done[-1], found)
        if validation is not None:
            validation.apply(done[-1])
            if validation.length - validation.best_length >= validation.patience:
                break
    if validation is not None and validation.best_length < len(done):
        done, status = done[: validation.best_length], Status.VALIDATION
    return Boosted(done, history, status)
