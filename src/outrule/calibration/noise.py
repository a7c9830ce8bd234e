"""How noisy the violations are: the smallest tolerance that the data support."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from outrule import kernels
from outrule.calibration.audit import OPTIMISER, Part, audit, residuals, run_on_rules
from outrule.problems.contract import Problem
from outrule.types import Floats, Integers
from outrule.words import round_up

NOISE = 1.0  # standard errors of the noisiest test; less would chase chance


def supported_tolerance(part: Part, prediction: Floats, problem: Problem) -> float:
    """NOISE standard errors of the noisiest test, rounded up to two digits of the value range.

    So what is printed of it is what was used, and the last bits of a sum do not matter.
    """
    errors = standard_errors(part, prediction, problem)
    return tolerance_for(errors, int(np.count_nonzero(part.weight)), part.layout.k, part.span)


def tolerance_for(errors: Floats, n: int, k: int, span: float) -> float:
    """The same from the standard errors of n instances with a weight."""
    noise = NOISE * float(errors.max()) / span
    # One more instance can move a mean by so much, even where outcomes have shown no noise.
    least = 2 / n
    # No violation is above k: a single observation supports no patch.
    return span * min(round_up(max(noise, least)), k)


def standard_errors(part: Part, prediction: Floats, problem: Problem) -> Floats:
    """Of the violation of every test, the optimiser's last; infinite for a single observation.

    An observation is a cluster, or an instance. The violation is a ratio of sums over them, so
    what varies is an observation's sum minus its weight times the violation. Cost: two audits.
    """
    found, group = audit(part, prediction, problem), part.instances.observation
    weight = np.asarray(np.bincount(group, weights=part.weight), dtype=np.float64)
    residual, _ = residuals(part, prediction)
    squares = squares_of(part, residual, found.optimiser, found.violations, group, weight)
    unit = part.span / 2.0**part.bits / len(part.layout)
    return errors_for(squares, int(np.count_nonzero(weight)), unit)


def squares_of(
    part: Part,
    residual: Integers,
    optimiser: NDArray[Any],
    violations: Floats,
    group: Integers,
    weight: Floats,
) -> Floats:
    """How every test's sums over groups of instances vary about its violation: sums of squares."""
    unit = part.span / 2.0**part.bits

    def squares(picks: NDArray[Any], means: Floats) -> Floats:
        found = np.empty(len(picks))

        def add(rows: slice) -> None:
            given = (residual, part.layout.offsets, picks[rows], group, weight)
            kernels.tally.squares_over_picks(*given, means[rows] / unit, found[rows])

        run_on_rules(picks, add)
        return found

    means = np.zeros(len(part.picks))
    means[part.of_rule] = violations[:OPTIMISER]
    own = squares(optimiser[None], violations[OPTIMISER:])
    return np.append(squares(part.picks, means)[part.of_rule], own)


def errors_for(squares: Floats, n_observations: int, unit: float) -> Floats:
    """Standard errors of means, from sums of squares in units of ``unit`` times the number."""
    if n_observations == 1:
        return np.full(len(squares), np.inf)
    corrected = squares * (n_observations / (n_observations - 1))
    return np.asarray(np.sqrt(corrected) * unit)
