"""How noisy the violations are: the smallest tolerance that the data support."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from outrule import kernels
from outrule.calibration.audit import Part, audit, residuals, run_on_rules
from outrule.problems.contract import Problem
from outrule.types import Floats, Integers
from outrule.words import round_up

NOISE = 1.5  # standard errors of the noisiest test: a smaller violation may be chance
LEAST_SHARE = 1e-9  # of the value range; below it the rounding of sums decides


def supported_tolerance(part: Part, prediction: Floats, problem: Problem) -> float:
    """NOISE standard errors of the noisiest test, to two digits of the value range.

    Rounded up, so that what is printed of it is what was used.
    """
    share = NOISE * float(standard_errors(part, prediction, problem).max()) / part.span
    most = part.layout.k / (1 + problem.ratio)  # one observation alone supports nothing
    return part.span * min(max(round_up(share), LEAST_SHARE), most)


def standard_errors(part: Part, prediction: Floats, problem: Problem) -> Floats:
    """Of the violation of every test, the optimiser's last; infinite for one observation.

    An observation is a cluster, or an instance. The violation is a ratio of sums over them, so
    what varies is an observation's sum minus its weight times the violation. Cost: two audits.
    """
    found = audit(part, prediction, problem)
    residual, _ = residuals(part, prediction)
    means = np.zeros(len(part.picks))
    means[part.of_rule] = found.violations[:-1]
    of_rules = _spreads(part, residual, part.picks, means)
    own = _spreads(part, residual, found.optimiser[None], found.violations[-1:])
    return np.append(of_rules[part.of_rule], own)


def _spreads(part: Part, residual: Integers, picks: NDArray[np.integer], means: Floats) -> Floats:
    """The standard error of every decision's violation, given the violations."""
    n, cluster = len(part.layout), part.instances.cluster
    group = np.arange(n) if cluster is None else np.unique(cluster, return_inverse=True)[1]
    weight = np.bincount(group, weights=part.weight)
    n_observations = np.count_nonzero(weight)
    if n_observations == 1:
        return np.full(len(picks), np.inf)
    # Squares of at most 4, as integers: their sum does not depend on the order of instances.
    unit, bits = part.layout.k * float(weight.max()), 59 - int(np.ceil(np.log2(len(weight))))
    squares = np.zeros(len(picks), dtype=np.int64)

    def add(rows: slice) -> None:
        kernels.tally.squares_over_picks(
            *(residual, part.layout.offsets, picks[rows], group, weight, means[rows] / part.span),
            *(2.0**part.bits, unit, 2.0**bits, squares[rows]),
        )

    run_on_rules(picks, add)
    corrected = squares / 2.0**bits * n_observations / (n_observations - 1)
    return np.sqrt(corrected) * (unit * part.span / n)
