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
    found = audit(part, prediction, problem)
    residual, _ = residuals(part, prediction)
    means = np.zeros(len(part.picks))
    means[part.of_rule] = found.violations[:OPTIMISER]
    of_rules = _errors(part, residual, part.picks, means)
    own = _errors(part, residual, found.optimiser[None], found.violations[OPTIMISER:])
    return np.append(of_rules[part.of_rule], own)


def observations(part: Part) -> Integers:
    """The number of the observation that an instance belongs to: its cluster, or itself."""
    cluster = part.instances.cluster
    if cluster is None:
        return np.arange(len(part.layout))
    return np.unique(cluster, return_inverse=True)[1]


def _errors(part: Part, residual: Integers, picks: NDArray[Any], violations: Floats) -> Floats:
    """The standard errors of these decisions' violations."""
    n, group = len(part.layout), observations(part)
    weight = np.asarray(np.bincount(group, weights=part.weight), dtype=np.float64)
    n_observations = int(np.count_nonzero(weight))
    if n_observations == 1:
        return np.full(len(picks), np.inf)
    squares = squares_of(part, residual, picks, violations, group, weight)
    return errors_for(squares, n_observations, part.span / 2.0**part.bits / n)


def squares_of(
    part: Part,
    residual: Integers,
    picks: NDArray[Any],
    violations: Floats,
    group: Integers,
    weight: Floats,
) -> Floats:
    """How the sums over groups of instances vary about these violations: sums of squares."""
    unit, squares = part.span / 2.0**part.bits, np.empty(len(picks))

    def add(rows: slice) -> None:
        given = (residual, part.layout.offsets, picks[rows], group, weight)
        kernels.tally.squares_over_picks(*given, violations[rows] / unit, squares[rows])

    run_on_rules(picks, add)
    return squares


def errors_for(squares: Floats, n_observations: int, unit: float) -> Floats:
    """Standard errors of means, from sums of squares in units of ``unit`` times the number."""
    corrected = squares * (n_observations / (n_observations - 1))
    return np.asarray(np.sqrt(corrected) * unit)
