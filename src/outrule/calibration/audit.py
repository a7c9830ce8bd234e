"""The audit: how far the predictions are off on the decisions of every rule and the optimiser."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from outrule import kernels, threads
from outrule.data.instances import Instances
from outrule.errors import DataError
from outrule.problems.contract import Layout, Problem, count_marks
from outrule.rules.decisions import decide_all, distinct
from outrule.rules.rules import Rule
from outrule.types import Floats, Integers, Picks

OPTIMISER = -1
"""The optimiser's own test comes after those of the rules, so it is the last."""

LEAST_BITS = 20
THREAD_PICKS = 1 << 18  # fewer picks are not worth a thread

Result = TypeVar("Result")


class Whole(NamedTuple):
    """What a part must know of all the data that it is a part of; mostly, it is all of them."""

    n: int
    total_weight: float
    bits: int  # residuals are integers in units of span / 2**bits
    sensitivity: float = np.nan  # how much one observation can change a violation


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
    whole: Whole
    movable: Integers  # how far a step moves every item, weighted, times 2**bits; empty: all alike
    marked: Integers  # of every rule's test: the sum of what a step moves, in the same units

    @property
    def span(self) -> float:
        """The width of the value range."""
        low, high = self.instances.value_range
        return high - low

    @property
    def bits(self) -> int:
        return self.whole.bits


class Tally(NamedTuple):
    """The integer sums of an audit: those of parts add up to those of the whole."""

    sums: Integers  # of the residuals that every rule's decisions mark
    own: int  # the same for the optimiser's decisions
    own_marked: int  # what a step on these would move
    squares: int

    def plus(self, more: Tally) -> Tally:
        return Tally(*map(operator.add, self, more))


@dataclass(frozen=True, eq=False)
class Audit:
    """What was found on the current predictions; the optimiser's test is the last."""

    violations: Floats
    sizes: Floats
    squared_error: float
    optimiser: NDArray[Any]  # (k, n), its decisions
    n: int
    sensitivity: float
    reach: float = np.inf  # no violation can be larger
    n_tests: int | None = None  # of the whole; after them come as many for every segment
    scale: Floats | None = None  # of the tolerance of every test; None: 1

    def place(self, row: int) -> tuple[int, int]:
        """The number of a row's test, and of its segment, -1 for the whole."""
        block = self.n_tests or len(self.violations)
        test = row % block
        return (OPTIMISER if test == block - 1 else test), row // block - 1


def prepare(instances: Instances, problem: Problem, rules: Sequence[Rule]) -> Part:
    """Compute all that stays the same from round to round."""
    instances.require_outcome("DecisionCalibrator.fit")
    problem.check_data(instances)
    layout = problem.lay(instances)
    return part_of(instances, layout, *distinct(decide_all(rules, instances, problem, layout)))


def part_of(
    instances: Instances,
    layout: Layout,
    picks: NDArray[Any],
    of_rule: Integers,
    whole: Whole | None = None,
) -> Part:
    """The same as ``prepare``, from the decisions of the rules; of some data, or of all."""
    outcome = instances.require_observed("DecisionCalibrator.fit")
    if instances.propensity is not None:  # what is not observed has no weight
        outcome = np.where(instances.observed, outcome, instances.prediction)
    whole = whole or whole_of(instances, layout, outcome)
    weight = instances.normalised_weight(whole.n, whole.total_weight)
    if instances.weight is None and "frozen" not in layout.per_item:
        movable = np.empty(0, dtype=np.int64)  # all the same
        none = np.iinfo(picks.dtype).max
        counts = run_on_rules(picks, lambda r: np.count_nonzero(picks[r] != none, axis=(1, 2)))
        marked = np.concatenate(counts) << whole.bits
    else:
        share, frozen, sizes = weight, layout.per_item.get("frozen"), np.diff(layout.offsets)
        if frozen is not None:
            # On the simplex of c classes, the projection keeps 1 - 1/c of a step (squared norm).
            n_classes = sizes - count_marks(frozen, layout.offsets)
            share = weight * (1 - 1 / np.maximum(n_classes, 1))
        movable = np.repeat(np.rint(share * 2.0**whole.bits).astype(np.int64), sizes)
        if frozen is not None:
            movable[frozen] = 0
        marked = sum_over(movable, layout, picks)
    fixed = (instances, outcome, layout, picks, of_rule, weight, whole, movable)
    return Part(*fixed, np.asarray(marked)[of_rule])


def whole_of(instances: Instances, layout: Layout, outcome: Floats) -> Whole:
    """What a part knows that is all of the data."""
    instances.normalised_weight()  # raises where all weights are zero
    n, total = len(layout), instances.total_weight()
    largest: float = n * int(np.diff(layout.offsets).max())
    if is_outside(outcome, instances.value_range):
        largest = farthest_sum(instances, outcome, n, total)
    _, sensitivity = reach_and_sensitivity(instances, layout)
    return Whole(n, total, bits_for(largest), sensitivity)


def is_outside(outcome: Floats, value_range: tuple[float, float]) -> bool:
    """Whether estimates of outcomes are outside of the range; else no sum exceeds the items."""
    low, high = value_range
    return not (low <= outcome.min() and outcome.max() <= high)


def bits_for(largest_sum: float) -> int:
    """How many bits a residual can have so that no sum overflows."""
    bits = min(44, 62 - int(np.ceil(np.log2(largest_sum + 1))))
    if bits < LEAST_BITS:
        raise DataError(
            "some observed items have such small propensities that sums would lose precision: drop "
            "their instances, or explore more."
        )
    return bits


def farthest_sum(instances: Instances, outcome: Floats, n: int, total_weight: float) -> float:
    """What no sum of residuals or of their squares exceeds, in units of the value range.

    It is a sum of whole numbers: the same for any order or cut of the instances.
    """
    low, high = instances.value_range
    farthest = np.abs(outcome - (low + high) / 2) / (high - low) + 0.5
    squares = np.add.reduceat(np.maximum(farthest, 1) ** 2, instances.offsets[:-1])
    # Four times, because values are in other units than sums.
    shares = 1024 * squares * instances.normalised_weight(n, total_weight)
    return float(np.ceil(shares).sum()) / 256


def reach_and_sensitivity(instances: Instances, layout: Layout) -> tuple[float, float]:
    """How large a violation can be, and how much one observation can change it."""
    cluster = np.arange(len(instances)) if instances.cluster is None else instances.cluster
    shares = np.bincount(cluster, weights=instances.normalised_weight())
    low, high = instances.value_range
    reach = layout.k * (high - low)
    return reach, 2 * reach * float(shares.max() / shares.sum())


def audit(part: Part, prediction: Floats, problem: Problem) -> Audit:
    """The violation of every test, ``E<w, y - p>`` in the caller's units, and the squared error.

    Cost: one optimiser call per instance, and one addition per rule, instance and chosen item.
    """
    return read_audit(part, *tally(part, prediction, problem))


def tally(part: Part, prediction: Floats, problem: Problem) -> tuple[Tally, NDArray[Any]]:
    """The sums of that audit, and the optimiser's decisions."""
    residual, squares = residuals(part, prediction)
    sums = sum_over(residual, part.layout, part.picks)
    optimiser = problem.pick_on_threads(prediction, part.layout)
    return tally_of(part, residual, sums, squares, optimiser)


def read_audit(part: Part, sums: Tally, optimiser: NDArray[Any]) -> Audit:
    """The audit of a part that is all of the data."""
    return read_tally(sums, part.marked, part.whole, part.layout.k, part.span, optimiser)


def tally_of(
    part: Part, residual: Integers, sums: Integers, squares: int, optimiser: Picks
) -> tuple[Tally, NDArray[Any]]:
    """The sums of an audit, and the optimiser's decisions as small numbers (k, n).

    ``sums`` are those of the integer residuals over the distinct decisions of the rules.
    """
    n = len(part.layout)
    own = np.empty((part.layout.k, n), dtype=part.picks.dtype)
    pieces = threads.spans(THREAD_PICKS // 8, n)

    def look(piece: int) -> tuple[np.int64, np.int64]:
        rows = (optimiser, part.layout.offsets, residual, part.movable)
        return kernels.tally.compact_and_sum(*rows, 1 << part.bits, own, pieces[piece])

    totals = threads.run(look, len(pieces))
    total, moved = (sum(int(one[k]) for one in totals) for k in (0, 1))
    return Tally(sums[part.of_rule], total, moved, squares), own


def read_tally(
    tally: Tally, marked: Integers, whole: Whole, k: int, span: float, optimiser: NDArray[Any]
) -> Audit:
    """The audit of all the data, from their sums."""
    unit = 2.0**whole.bits * whole.n
    return Audit(
        violations=np.append(tally.sums, tally.own) * (span / unit),
        sizes=np.append(marked, tally.own_marked) / unit,
        squared_error=tally.squares * span**2 / unit,
        optimiser=optimiser,
        n=whole.n,
        sensitivity=whole.sensitivity,
        reach=k * span,
    )


def residuals(part: Part, prediction: Floats, unit: float | None = None) -> tuple[Integers, int]:
    """Weighted residuals as integers in units of span / 2**bits, and the sum of their squares."""
    residual, unit = np.empty(len(prediction), dtype=np.int64), unit or part.span
    given = (prediction, part.outcome, part.layout.offsets, part.weight, unit, part.bits)
    return residual, int(kernels.tally.residuals(*given, residual))


def squared_error(part: Part, prediction: Floats) -> float:
    """``E||p - y||^2`` in the caller's units, the same bits as in the audit."""
    return residuals(part, prediction)[1] * part.span**2 / (2.0**part.bits * part.whole.n)


def rule_values(part: Part) -> Floats:
    """The mean value of every rule's decisions, shape (n_rules,)."""
    return read_values(value_sums(part), part.whole, part.instances.value_range)


def value_sums(part: Part) -> Integers:
    """The integer sums that ``read_values`` turns into the values of the rules."""
    largest = max(map(abs, part.instances.value_range))
    values, _ = residuals(part, np.zeros_like(part.outcome), largest)
    return np.asarray(sum_over(values, part.layout, part.picks)[part.of_rule])


def read_values(sums: Integers, whole: Whole, value_range: tuple[float, float]) -> Floats:
    """The mean value of every rule on all the data."""
    return np.asarray(sums * (max(map(abs, value_range)) / (2.0**whole.bits * whole.n)))


def sum_over(values: Integers, layout: Layout, picks: NDArray[Any]) -> Integers:
    """The sum of a flat column over the decisions of every rule, (n_rules, k, n), on threads."""
    sums = np.zeros(len(picks), dtype=np.int64)

    def add(rows: slice) -> None:
        items = (layout.offsets, layout.width)
        kernels.tally.sum_over_picks(values, *items, picks[rows], sums[rows])

    run_on_rules(picks, add)
    return sums


def run_on_rules(picks: NDArray[Any], work: Callable[[slice], Result]) -> list[Result]:
    """Call ``work`` for blocks of the rules, on threads."""
    n_rules, k, n = picks.shape
    size = max(n_rules // (4 * threads.n_threads()), THREAD_PICKS // (k * n), 1)
    blocks = [slice(*span) for span in threads.spans(size, n_rules)]
    return threads.run(lambda block: work(blocks[block]), len(blocks))
