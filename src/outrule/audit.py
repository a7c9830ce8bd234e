"""The audit: decisions of all rules are computed once; predictions enter, violations leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outrule.arrays import Floats, Picks
from outrule.instances import Instances
from outrule.problems import Layout, Problem
from outrule.rules import Rule

OPTIMISER = -1
"""The optimiser's own test stands behind those of the rules, so it is the last."""

BLOCK = 65_536  # instances whose decisions are computed at a time


@dataclass(frozen=True, eq=False)
class Part:
    """Instances with their outcomes, and all that no patch changes.

    ``picks`` has shape (n_rules, n, k), in the smallest type that holds an instance's positions.
    """

    instances: Instances
    outcome: Floats
    layout: Layout
    picks: NDArray[Any]
    weight: Floats
    bits: int  # residuals are integers in units of span / 2**bits
    sizes: Floats  # E|w| of every rule's test, counting items that a patch can move

    @property
    def span(self) -> float:
        """The width of the value range."""
        low, high = self.instances.value_range
        return high - low


@dataclass(frozen=True, eq=False)
class Audit:
    """What one look at the current predictions found; the optimiser's test is the last."""

    violations: Floats
    sizes: Floats
    squared_error: float
    optimiser: Picks
    n: int
    sensitivity: float  # how much one observation can change a violation


def decide_all(
    rules: Sequence[Rule], instances: Instances, problem: Problem, layout: Layout
) -> NDArray[Any]:
    """The decisions of all rules, shape (n_rules, n, k), a byte or two per chosen item.

    Cost: one call of the optimiser per rule and instance. Memory beyond the result: one block.
    """
    most = int(np.diff(layout.offsets).max())
    kind = np.uint8 if most <= 0xFF else np.uint16 if most <= 0xFFFF else np.int32
    picks = np.empty((len(rules), len(layout), layout.k), dtype=kind)
    for start in range(0, len(layout), BLOCK):
        stop = min(start + BLOCK, len(layout))
        block, block_layout = instances.slice(start, stop), layout.slice(start, stop)
        for r, rule in enumerate(rules):
            picks[r, start:stop] = rule.decide(block, problem, block_layout)
    return picks


def prepare(instances: Instances, problem: Problem, rules: Sequence[Rule]) -> Part:
    """Compute all that stays the same from round to round."""
    outcome = instances.require_outcome("DecisionCalibrator.fit")
    layout = problem.lay(instances)
    picks = decide_all(rules, instances, problem, layout)
    weight = instances.normalised_weight()
    most = int(np.diff(layout.offsets).max())
    bits = min(44, 62 - int(np.ceil(np.log2(len(layout) * most + 1))))
    movable = _movable(layout, weight, bits)
    sizes = _sums(movable, layout, picks) / (2.0**bits * len(layout))
    return Part(instances, outcome, layout, picks, weight, bits, sizes.astype(np.float64))


def audit(part: Part, prediction: Floats, problem: Problem) -> Audit:
    """The violation of every test, ``E<w, y - p>`` in the caller's units, and the squared error.

    Cost: one optimiser call per instance, and one addition per rule, instance and chosen item.
    """
    from outrule.kernels import tally

    layout, n = part.layout, len(part.layout)
    residual = np.empty(len(prediction), dtype=np.int64)
    squares = tally.residuals(
        prediction, part.outcome, layout.offsets, part.weight, part.span, part.bits, residual
    )
    optimiser = problem.pick(prediction, layout)
    sums = np.append(_sums(residual, layout, part.picks), _sums(residual, layout, optimiser[None]))
    movable = _movable(layout, part.weight, part.bits)
    size = _sums(movable, layout, optimiser[None]) / (2.0**part.bits * n)
    return Audit(
        violations=_means(sums, part, part.span),
        sizes=np.append(part.sizes, size),
        squared_error=squares * part.span**2 / (2.0**part.bits * n),
        optimiser=optimiser,
        n=n,
        sensitivity=2 * layout.k * part.span * _largest_share(part),
    )


def squared_error(part: Part, prediction: Floats) -> float:
    """``E||p - y||^2`` in the caller's units, as the audit has it."""
    from outrule.kernels import tally

    squares = tally.residuals(
        prediction,
        part.outcome,
        part.layout.offsets,
        part.weight,
        part.span,
        part.bits,
        np.empty(len(prediction), dtype=np.int64),
    )
    return float(squares * part.span**2 / (2.0**part.bits * len(part.layout)))


def rule_values(part: Part) -> Floats:
    """The mean value of every rule's decisions, shape (n_rules,)."""
    from outrule.kernels import tally

    scaled = np.empty(len(part.outcome), dtype=np.int64)
    zero = np.zeros_like(part.outcome)
    low, high = part.instances.value_range
    largest = max(abs(low), abs(high))
    tally.residuals(
        zero, part.outcome, part.layout.offsets, part.weight, largest, part.bits, scaled
    )
    sums = _sums(scaled, part.layout, part.picks)
    return _means(sums, part, largest)


def _sums(values: NDArray[np.int64], layout: Layout, picks: NDArray[Any]) -> NDArray[np.int64]:
    from outrule.kernels import tally

    sums = np.zeros(len(picks), dtype=np.int64)
    tally.sum_over_picks(values, layout.offsets, picks, sums)
    return sums


def _means(sums: NDArray[np.int64], part: Part, unit: float) -> Floats:
    """Integer sums as means in the caller's units."""
    return np.asarray(sums * (unit / (2.0**part.bits * len(part.layout))), dtype=np.float64)


def _movable(layout: Layout, weight: Floats, bits: int) -> NDArray[np.int64]:
    """The weight of every item that a patch can move, as the residuals have it."""
    units = np.repeat(np.rint(weight * 2.0**bits).astype(np.int64), np.diff(layout.offsets))
    if "frozen" in layout.per_item:
        units[layout.per_item["frozen"]] = 0
    return units


def _largest_share(part: Part) -> float:
    """The largest part of all weight that one observation (instance, or cluster) has."""
    weight, cluster = part.weight, part.instances.cluster
    if cluster is not None:
        weight = np.asarray(np.bincount(cluster, weights=weight), dtype=np.float64)
    return float(weight.max() / weight.sum())
