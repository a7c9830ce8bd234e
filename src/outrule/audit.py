"""The audit: instances with the decisions of all rules and predictions enter, violations leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outrule import threads
from outrule.arrays import Floats, Integers, Picks
from outrule.decisions import decide_all, distinct
from outrule.instances import Instances
from outrule.problems import Layout, Problem
from outrule.rules import Rule

OPTIMISER = -1
"""The optimiser's own test stands behind those of the rules, so it is the last."""

WORTH = 4  # picks per item of an instance from which on columns are laid side by side
PICKS = 1 << 18  # fewer picks are not worth a thread


@dataclass(frozen=True, eq=False)
class Part:
    """Instances with their outcomes, and all that no patch changes.

    ``picks`` has shape (n_distinct, k, n), in the smallest type that holds an instance's positions;
    the decisions of rule r are ``picks[of_rule[r]]``.
    """

    instances: Instances
    outcome: Floats
    layout: Layout
    picks: NDArray[Any]
    of_rule: Integers
    weight: Floats
    bits: int  # residuals are integers in units of span / 2**bits
    movable: Integers  # the weight of every item that a patch can move, times 2**bits; or empty
    sizes: Floats  # E|w| of every rule's test, counting items that a patch can move
    sensitivity: float  # how much one observation can change a violation

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
    optimiser: NDArray[Any]  # (k, n), its decisions
    n: int
    sensitivity: float
    reach: float = np.inf  # no violation can be larger


def prepare(instances: Instances, problem: Problem, rules: Sequence[Rule]) -> Part:
    """Compute all that stays the same from round to round."""
    instances.require_outcome("DecisionCalibrator.fit")
    problem.check_data(instances)
    layout = problem.lay(instances)
    return part_of(instances, layout, *distinct(decide_all(rules, instances, problem, layout)))


def part_of(instances: Instances, layout: Layout, picks: NDArray[Any], of_rule: Integers) -> Part:
    """As :func:`prepare`, with the decisions of the rules already there."""
    outcome = instances.require_outcome("DecisionCalibrator.fit")
    weight = instances.normalised_weight()
    most = int(np.diff(layout.offsets).max())
    bits = min(44, 62 - int(np.ceil(np.log2(len(layout) * most + 1))))
    if instances.weight is None and "frozen" not in layout.per_item:
        movable = np.empty(0, dtype=np.int64)  # all alike
        sizes = _count_picks(picks) / len(layout)
    else:
        movable = np.repeat(np.rint(weight * 2.0**bits).astype(np.int64), np.diff(layout.offsets))
        if "frozen" in layout.per_item:
            movable[layout.per_item["frozen"]] = 0
        sizes = sums_over(movable, layout, picks) / (2.0**bits * len(layout))
    low, high = instances.value_range
    sensitivity = 2 * layout.k * (high - low) * _largest_share(weight, instances)
    return Part(
        instances,
        outcome,
        layout,
        picks,
        of_rule,
        weight,
        bits,
        movable,
        np.asarray(sizes)[of_rule],
        sensitivity,
    )


def audit(part: Part, prediction: Floats, problem: Problem) -> Audit:
    """The violation of every test, ``E<w, y - p>`` in the caller's units, and the squared error.

    Cost: one optimiser call per instance, and one addition per rule, instance and chosen item.
    """
    residual, squares = residuals(part, prediction)
    sums = sums_over(residual, part.layout, part.picks)
    optimiser = problem.pick_on_threads(prediction, part.layout)
    return audit_of(part, residual, sums, squares, optimiser)


def audits(part: Part, predictions: Sequence[Floats], problem: Problem) -> list[Audit]:
    """The audits of several predictions on the same instances, which all offer as many items.

    Cost: as :func:`audit` each, but many decisions of rules are read once for eight of them.
    """
    from outrule.kernels import tally

    width, lanes, count = part.layout.width, tally.COLUMNS, len(predictions)
    assert width is not None
    if len(part.picks) * part.layout.k < WORTH * width:
        return threads.run(lambda i: audit(part, predictions[i], problem), count)
    values = [np.zeros((len(part.outcome), lanes), dtype=np.int64) for _ in range(0, count, lanes)]
    sums = [np.zeros((len(part.picks), lanes), dtype=np.int64) for _ in values]

    def look(i: int) -> tuple[Integers, int, Picks]:
        residual, squares = residuals(part, predictions[i])
        values[i // lanes][:, i % lanes] = residual
        return residual, squares, problem.pick(predictions[i], part.layout)

    looks, blocks = threads.run(look, count), rule_blocks(part.picks)

    def add(task: int) -> None:
        group, rows = task // len(blocks), slice(*blocks[task % len(blocks)])
        tally.sum_together(values[group], width, part.picks[rows], sums[group][rows])

    threads.run(add, len(values) * len(blocks))

    def end(i: int) -> Audit:
        residual, squares, optimiser = looks[i]
        own = np.ascontiguousarray(sums[i // lanes][:, i % lanes])
        return audit_of(part, residual, own, squares, optimiser)

    return threads.run(end, count)


def audit_of(
    part: Part, residual: Integers, sums: Integers, squares: int, optimiser: Picks
) -> Audit:
    """The audit, from sums of integer residuals over the distinct decisions of the rules."""
    from outrule.kernels import tally

    n, unit = len(part.layout), 2.0**part.bits * len(part.layout)
    own = np.empty((part.layout.k, n), dtype=part.picks.dtype)
    pieces = threads.spans(PICKS // 8, n)

    def look(piece: int) -> tuple[np.int64, np.int64]:
        rows = (optimiser, part.layout.offsets, residual, part.movable)
        return tally.compact_and_sum(*rows, 1 << part.bits, own, pieces[piece])

    looks = threads.run(look, len(pieces))
    total, moved = (sum(int(one[k]) for one in looks) for k in (0, 1))
    return Audit(
        violations=_means(np.append(sums[part.of_rule], total), part, part.span),
        sizes=np.append(part.sizes, moved / unit),
        squared_error=squares * part.span**2 / unit,
        optimiser=own,
        n=n,
        sensitivity=part.sensitivity,
        reach=part.layout.k * part.span,
    )


def residuals(part: Part, prediction: Floats) -> tuple[Integers, int]:
    """Weighted residuals as integers in units of span / 2**bits, and the sum of their squares."""
    from outrule.kernels import tally

    residual = np.empty(len(prediction), dtype=np.int64)
    offsets, weight = part.layout.offsets, part.weight
    squares = tally.residuals(
        prediction, part.outcome, offsets, weight, part.span, part.bits, residual
    )
    return residual, int(squares)


def squared_error(part: Part, prediction: Floats) -> float:
    """``E||p - y||^2`` in the caller's units, as the audit has it."""
    return residuals(part, prediction)[1] * part.span**2 / (2.0**part.bits * len(part.layout))


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
    return _means(sums_over(scaled, part.layout, part.picks)[part.of_rule], part, largest)


def sums_over(values: Integers, layout: Layout, picks: NDArray[Any]) -> Integers:
    """The sum of a flat column over the decisions of every rule, (n_rules, k, n), on threads."""
    from outrule.kernels import tally

    sums, blocks = np.zeros(len(picks), dtype=np.int64), rule_blocks(picks)

    def add(block: int) -> None:
        rows = slice(*blocks[block])
        if layout.width is None:
            tally.sum_over_picks(values, layout.offsets, picks[rows], sums[rows])
        else:
            tally.sum_over_dense_picks(values, layout.width, picks[rows], sums[rows])

    threads.run(add, len(blocks))
    return sums


def _count_picks(picks: NDArray[Any]) -> Integers:
    """How many items the decisions (n_rules, k, n) choose; the largest number is no pick."""
    none, blocks = np.iinfo(picks.dtype).max, rule_blocks(picks)

    def count(block: int) -> Any:
        return np.count_nonzero(picks[slice(*blocks[block])] != none, axis=(1, 2))

    return np.concatenate(threads.run(count, len(blocks)))


def rule_blocks(picks: NDArray[Any]) -> list[tuple[int, int]]:
    """Cut the rules into pieces that are worth a thread."""
    n_rules, k, n = picks.shape
    return threads.spans(max(n_rules // (4 * threads.n_threads()), PICKS // (k * n), 1), n_rules)


def _means(sums: Integers, part: Part, unit: float) -> Floats:
    """Integer sums as means in the caller's units."""
    return np.asarray(sums * (unit / (2.0**part.bits * len(part.layout))), dtype=np.float64)


def _largest_share(weight: Floats, instances: Instances) -> float:
    """The largest part of all weight that one observation (instance, or cluster) has."""
    if instances.cluster is not None:
        weight = np.asarray(np.bincount(instances.cluster, weights=weight), dtype=np.float64)
    return float(weight.max() / weight.sum())
