"""The other CHECKs on as many samples as the grid's: a case enters, one run per method leaves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from outrule.calibration.audit import OPTIMISER, Part, prepare
from outrule.calibration.check import Check, FixedStep, LineSearch, PrivateReuse, Reuse, Step
from outrule.calibration.loop import LoopSettings, Status, boost
from outrule.calibration.sources import SameData
from outrule.errors import DataError
from outrule.evaluation.cases import EQUAL, Case
from outrule.evaluation.held_out import HeldOut, Measured
from outrule.evaluation.settings import Settings

METHODS: tuple[tuple[Check, Step], ...] = (
    (Reuse(), FixedStep()),
    (Reuse(), LineSearch()),
    (PrivateReuse(alert=1.0), FixedStep()),
)


@dataclass(frozen=True)
class Reused:
    """A run that saw all its samples in every round; without measures where it was refused."""

    check: Check
    step: Step
    epsilon: float
    n_samples: int
    n_patches: int = 0
    n_own: int = 0
    last_patch: int = 0
    status: str = "refused"
    measured: Measured | None = None


def compare(settings: Settings, case: Case, held_out: HeldOut) -> Iterator[Reused]:
    """Run every method at every number of samples and epsilon; decisions are made once for all."""
    for size in settings.equal_batches:
        n = size * settings.rounds
        part = prepare(case.instances(n, EQUAL, size), case.problem, case.rules)
        for check, step in METHODS:
            for epsilon in settings.equal_epsilons:
                yield _run(part, check, step, epsilon, settings.rounds, case, held_out)


def _run(
    part: Part,
    check: Check,
    step: Step,
    epsilon: float,
    rounds: int,
    case: Case,
    held_out: HeldOut,
) -> Reused:
    source = SameData(part, part.instances.prediction, case.problem)
    plan = LoopSettings(check, step, epsilon / 2, part.layout.k, rounds)
    n = len(part.layout)
    try:
        boosted = boost(source, case.rules, plan, np.random.default_rng(case.seed))
    except DataError:  # PrivateReuse would decide by noise
        return Reused(check, step, epsilon, n)
    tests = np.asarray([patch.test for patch in boosted.patches], dtype=np.int64)
    steps = np.asarray([patch.step for patch in boosted.patches], dtype=np.float64)
    prediction = held_out.start()
    held_out.patch(prediction, tests, steps)
    found = [row.round + 1 for row in boosted.history if row.test is not None]
    return Reused(
        check=check,
        step=step,
        epsilon=epsilon,
        n_samples=n,
        n_patches=len(tests),
        n_own=int((tests == OPTIMISER).sum()),
        last_patch=max(found, default=0),
        status=Status(boosted.status).value,
        measured=held_out.measure(prediction),
    )
