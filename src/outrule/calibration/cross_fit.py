"""The cross-fitted start: trees, then curves, each stopped on the half of the data left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outrule import kernels, progress, threads
from outrule.calibration.audit import OPTIMISER, Part
from outrule.calibration.curves import CurvePatch, Member, mean
from outrule.calibration.isotonic import Isotonic, n_outcomes, seen_weight, select
from outrule.calibration.log_bases import complete
from outrule.calibration.patches import first_point
from outrule.calibration.piecewise import NOTHING, pack
from outrule.calibration.trees import MOST_DEPTH, MOST_TREES, Forest, grow
from outrule.errors import check_number
from outrule.problems.contract import Problem
from outrule.rules.decisions import compact
from outrule.types import Booleans, Floats, Integers

SAMPLE = 8192  # marks whose quantiles are the levels by which tests are picked
FRESH_LEVELS = 8  # rounds for which the levels are kept
PROGRESS = "part of the start"  # what one member is called
CLEARLY = 1.0  # standard errors by which trees are to be worth more, or less, than none
MOST_PICKS = 1 << 24  # decisions that are read to pick a test; of more, some blocks at a time


@dataclass(frozen=True)
class CrossFit:
    """Boost on half of the data, stop on the other half, and average: the default start.

    The data are cut into folds. For each way to leave out half of the folds a member is boosted on
    the rest, from the predictions or from their isotonic regression on the rest. First come trees,
    which ask about the prediction, which item it is, and which tests mark it: they correct what is
    wrong for some items only, or where several rules agree. Then the test that promises the
    largest fall of the squared error gets a curve, the isotonic regression of outcomes on
    predictions over the items it marks, and so on. Both stop when the squared error of what is left
    out no longer falls, and go back to where it was lowest. The tests are those of the loop that
    follows. Where only some outcomes are observed, each first counts 1 / propensity. Then all
    members are boosted once more, on estimates of all outcomes: what to expect of an item given
    that first start and its propensity, moved towards its outcome where that is observed.

    Trees can lower the squared error and yet add noise to decisions. So each member is boosted with
    trees and without. The kind whose decisions are worth more on what its members have not seen is
    kept; where the difference is within a standard error, both are.

    In ``fit`` an instance starts from the mean of the members that have not seen it, which are half
    of them; new instances start from the mean of all, which is only a little smoother. ``predict``
    takes all instances for new ones, those of training too. With a single instance (or cluster) it
    starts from the predictions.

    Parameters
    ----------
    folds : int in [2, 6]
        By cluster where there are clusters; fewer, where there are fewer of them. Four give six
        members of a kind; fewer than four give each way both starts.
    bins : int in [1, 255]
        A curve has at most so many points, each the mean of equally many marked items.
    least : int
        The fewest marked items for a point. The isotonic regressions that members start from have
        as many outcomes for a point, too, and one curve for all items that have less than twice as
        many: with fewer they are mostly noise. If all items together have less, members start from
        the predictions.
    patience : int
        Rounds without a fall after which a member stops.
    max_patches : int
        The most patches that a member can have.
    max_trees : int in [0, 1000]
        The most trees that a member can have before its patches.
    depth : int in [1, 6]
        How many questions a tree asks.
    """

    folds: int = 4
    bins: int = 16
    least: int = 25
    patience: int = 20
    max_patches: int = 30
    max_trees: int = 60
    depth: int = 6

    def __post_init__(self) -> None:
        for name, low, high in (
            ("folds", 2, 6),
            ("bins", 1, 255),
            ("least", 1, np.inf),
            ("patience", 1, np.inf),
            ("max_patches", 1, np.inf),
            ("max_trees", 0, MOST_TREES),
            ("depth", 1, MOST_DEPTH),
        ):
            value = getattr(self, name)
            check_number(value, name, "CrossFit", low, high, low_open=False, integer=True)

    def fit(
        self,
        part: Part,
        problem: Problem,
        given: Floats,
        fold: Integers,
        generator: np.random.Generator,
        boost: Boost | None = None,
    ) -> tuple[tuple[Member, ...], Floats]:
        """The members, and the start of the instances they were fitted on.

        ``given`` are predictions to start from, ``fold`` is the fold of every instance; ``boost``
        makes the members, by default on threads of this process.
        """
        seen = seen_weight(part.instances, part.layout.per_item.get("frozen"))
        ways = _ways(fold, part.weight if seen is None else seen)
        if not ways:  # nothing can be left out
            return (Member(),), given
        if self.max_trees:
            ways = [way._replace(trees=True) for way in ways] + ways
        boost = boost or boost_on_threads
        material = Material(self, part, problem, given, _sample_marks(part, generator))
        members, start = material.members(ways, boost)
        if part.instances.propensity is not None:
            members, start = material.completed(start).members(ways, boost)
        return members, start


Grown = tuple[Member, Floats]  # a member, and what it predicts for what it leaves out


class Way(NamedTuple):
    """Which instances a member leaves out, and what comes before its curves."""

    left_out: Booleans
    smoothed: bool  # it starts from isotonic regression
    trees: bool = False


@dataclass(frozen=True, eq=False)
class Material:
    """What all members are made of; a member is a function of it and of its way alone."""

    options: CrossFit
    part: Part
    problem: Problem
    given: Floats
    sample: Integers  # where some marks of tests are

    def members(self, ways: Sequence[Way], boost: Boost) -> tuple[tuple[Member, ...], Floats]:
        """The members that are kept, and the start of the instances they are fitted on."""
        found = list(zip(ways, boost(self, ways), strict=True))
        if self.options.max_trees:
            found = _better(self.part, self.problem, found)
        return tuple(member for _, (member, _) in found), _outside(self.part, found)

    def completed(self, start: Floats) -> Material:
        """The same with an estimate of every outcome of a log, given a first start.

        Points and leaves need the more of them the noisier they are.
        """
        part, frozen = self.part, self.part.layout.per_item.get("frozen")
        instances, noise = complete(part.instances, start, frozen)
        assert instances.outcome is not None
        return replace(
            self,
            options=replace(self.options, least=round(self.options.least * noise)),
            part=replace(part, instances=instances, outcome=instances.outcome),
        )

    def member(self, way: Way) -> Grown:
        """A member, and what it predicts for the items of the instances left out."""
        options, part, start, trees = self.options, self.part, None, None
        first = self.given
        stays = part.layout.per_item.get("frozen")
        started = replace(part.instances, prediction=self.given)
        rest = select(started, ~way.left_out, stays)
        if way.smoothed and n_outcomes(*rest) >= 2 * options.least:  # else it would be a constant
            start = Isotonic().fit(*rest, options.least).inside(started.value_range)
            first = start.apply(started, stays)
        if way.trees:
            limits = (options.max_trees, options.depth, options.least)
            trees = grow(part, first, way.left_out, *limits)
        for forest in Forest.of([trees]):
            starts, picks = first[None].copy(), part.picks[part.of_rule[list(forest.tests)]]
            forest.add_to(starts, part.instances, part.layout.offsets, picks, stays)
            first = starts[0]
        patches, best = _Boosting(self, first, way.left_out).run()
        return Member(start, patches, trees), best

    def packed(self) -> Material:
        """The same without what members do not look at, to be sent elsewhere; of a table."""
        part = self.part
        numbers = replace(part.instances.without_origin(), start=None)
        return replace(self, part=replace(part, instances=numbers, movable=part.movable[:0]))


Boost = Callable[[Material, Sequence[Way]], list[Grown]]


def boost_on_threads(material: Material, ways: Sequence[Way]) -> list[Grown]:
    """The members of these ways, one on every thread of this process."""
    done = progress.counter(PROGRESS, len(ways))

    def boost(number: int) -> Grown:
        found = material.member(ways[number])
        done()
        return found

    # A function of the caller's is not called from other threads.
    with threads.using(threads.n_threads() if material.problem.threaded else 1):
        return threads.run(boost, len(ways))


def _outside(part: Part, found: Sequence[tuple[Way, Grown]]) -> Floats:
    """For every item the mean of the members that have not seen its instance."""
    total, count = np.zeros(len(part.outcome)), np.zeros(len(part.outcome))
    for way, (_, best) in found:
        outside = way.left_out[part.instances.instance]
        total[outside] += best
        count[outside] += 1.0
    return mean(total, count, part.instances, part.layout.per_item.get("frozen"))


def _better(
    part: Part, problem: Problem, found: list[tuple[Way, Grown]]
) -> list[tuple[Way, Grown]]:
    """The half of the members whose decisions are worth more, or all where that is not clear.

    The first half has trees, the other has not. The mean of all is less noisy than either.
    """
    halves = found[: len(found) // 2], found[len(found) // 2 :]
    if not any(member.trees for _, (member, _) in found):
        return halves[0]  # they are the same
    lead = _lead(part, problem, *(_outside(part, half) for half in halves))
    return found if abs(lead) <= CLEARLY else halves[lead < 0]


def _lead(part: Part, problem: Problem, one: Floats, other: Floats) -> float:
    """How much more decisions on one start are worth than on another, in standard errors."""
    instances, layout = part.instances, part.layout
    chosen, instead = (
        instances.mark(problem.pick(first_point(start, problem, layout), layout))
        for start in (one, other)
    )
    outcome = instances.filled((one + other) / 2).outcome
    assert outcome is not None  # a fit has them
    more = outcome * (chosen.astype(np.int8) - instead)
    gain = part.weight * np.bincount(instances.instance, more, minlength=len(layout))
    own = np.bincount(instances.observation, gain - part.weight * gain.sum() / part.weight.sum())
    noise = float(np.sqrt((own**2).sum()))
    return float(gain.sum()) / noise if noise > 0 else 0.0


def _ways(fold: Integers, weight: Floats) -> list[Way]:
    """The ways of all members.

    Half of the folds are left out, in all ways that leave weight. From four folds on the sum of
    their numbers is odd for some ways and even for others, whichever fold is among them.
    """
    n_folds = int(fold.max()) + 1
    found = [
        Way(np.isin(fold, way), smoothed)
        for way in combinations(range(n_folds), max(n_folds // 2, 1))
        for smoothed in ([sum(way) % 2 == 0] if n_folds > 3 else [False, True])
    ]
    return [way for way in found if weight[way.left_out].any() and weight[~way.left_out].any()]


class _Boosting:
    """The state of one member while it is boosted."""

    def __init__(self, material: Material, start: Floats, left_out: Booleans):
        part, problem = material.part, material.problem
        self.options, self.part, self.problem = material.options, part, problem
        self.sample = material.sample
        self.frozen = part.layout.per_item.get("frozen", NOTHING)
        self.prediction = first_point(start, problem, part.layout)
        self.weight = np.where(left_out, 0.0, part.weight)
        self.left_out, self.outside = np.where(left_out, part.weight, 0.0), left_out
        upweight = part.instances.upweight
        self.upweight = np.empty(0) if upweight is None else upweight
        self.values = np.empty((len(self.prediction), 2))
        self.levels = np.empty(len(self.prediction), dtype=np.uint8)
        most = np.diff(part.layout.offsets).max(initial=0)
        self.spare = np.empty((2, most)) if problem.simplex else None
        n_tests = len(part.picks) + 1
        self.promise = np.zeros(n_tests)  # the fall of the squared error that a test promises
        self.missed = np.zeros(n_tests)  # what its last curve did not keep of that
        n_blocks = -(-len(part.layout) // kernels.curves.INSTANCES_IN_CACHE)
        self.stride = min(-(-part.picks.size // MOST_PICKS), n_blocks)

    def run(self) -> tuple[tuple[CurvePatch, ...], Floats]:
        """The patches, and what they predict for the items of the fold left out."""
        part, patches = self.part, list[CurvePatch]()
        outside = self.outside[part.instances.instance]
        best, best_length, fallen = self.prediction[outside], 0, 0.0
        most_fallen = 0.0
        # Rules that decide the same are one test: the first of them.
        names = np.unique(part.of_rule, return_index=True)[1]
        for number in range(self.options.max_patches):
            threads.check_stop()
            own = compact(self.problem.pick(self.prediction, part.layout), part.layout)
            row = self._pick(own, number)
            if not self.promise[row] > self.missed[row]:
                break
            is_own = row == len(part.picks)
            picks = own if is_own else part.picks[row]
            curve = self._curve(picks)
            if curve is None:
                self.missed[row] = np.inf
                continue
            fall, fall_outside = self._move(picks, curve)
            self.missed[row] = max(self.promise[row] - fall, 0.0)
            x, y = (tuple(numbers.tolist()) for numbers in curve)
            patches.append(CurvePatch(OPTIMISER if is_own else int(names[row]), x, y))
            fallen += fall_outside
            if fallen > most_fallen:
                best, best_length, most_fallen = self.prediction[outside], len(patches), fallen
            elif len(patches) - best_length >= self.options.patience:
                break
        return tuple(patches[:best_length]), best

    def _set_levels(self) -> None:
        """Cut the predictions into levels of about equally many marks."""
        marks, bins = np.sort(self.prediction[self.sample]), self.options.bins
        at = (np.arange(1, bins) / bins * len(marks)).astype(np.int64)
        self.edges = np.unique(marks[at]) if len(marks) else np.empty(0)
        given = (self.prediction, self.part.outcome, self.part.layout.offsets, self.weight)
        rest = (self.frozen, self.edges, self.values, self.levels)
        kernels.curves.weigh(*given, self.upweight, *rest)

    def _pick(self, own: NDArray[Any], number: int) -> int:
        """The test that promises most beyond what its last curve missed; the last is ``own``.

        Patches seldom raise what other tests promise, so a promise is computed again only for the
        test that leads, until it still leads.
        """
        picks, period = self.part.picks, number // FRESH_LEVELS
        if number % FRESH_LEVELS == 0:
            self._set_levels()
            self.promise[:-1] = self._promises(picks, period)
        self.promise[-1] = self._promises(own[None], period)[0]
        known = np.full(len(picks) + 1, number % FRESH_LEVELS == 0)
        known[-1] = True
        while True:
            row = int(np.argmax(self.promise - self.missed))
            if known[row]:
                return row
            self.promise[row] = self._promises(picks[row : row + 1], period)[0]
            known[row] = True

    def _promises(self, picks: NDArray[Any], period: int) -> Floats:
        """By how much a level-wise correction of tests would lower the squared error."""
        sums, stride = np.zeros((len(picks), self.options.bins, 2)), self.stride
        given = (self.values, self.levels, self.part.layout.offsets)
        kernels.curves.sum_by_level(*given, picks, period % stride, stride, sums)
        residual, weight = sums[..., 0], sums[..., 1]
        falls = np.divide(residual**2, weight, out=np.zeros_like(weight), where=weight > 0)
        return np.asarray(falls.sum(axis=1) * stride)

    def _curve(self, picks: NDArray[Any]) -> tuple[Floats, Floats] | None:
        """Isotonic regression over the marked items, in bins of equally many; None if too few."""
        places = kernels.curves.marked_places(picks, self.part.layout.offsets, self.values)
        n_bins = min(self.options.bins, len(places) // self.options.least)
        if n_bins == 0:
            return None
        ordered = np.sort(self.prediction[places])
        cuts = np.unique(ordered[np.arange(1, n_bins) * len(places) // n_bins])
        sums = np.zeros((n_bins, 4))
        given = (self.prediction, self.part.outcome, self.values)
        kernels.curves.sum_by_bin(places, *given, cuts, sums)
        return fit_curve(sums, self.options.least, self.part.instances.value_range)

    def _move(self, picks: NDArray[Any], curve: tuple[Floats, Floats]) -> tuple[float, float]:
        fixed = (self.prediction, self.part.outcome, self.part.layout.offsets, picks)
        weights = (self.weight, self.left_out, self.upweight, self.frozen)
        state = (self.edges, self.values, self.levels, self.spare)
        return kernels.curves.move_along(*fixed, pack([curve])[1], *weights, *state)


def fit_curve(sums: Floats, least: int, value_range: tuple[float, float]) -> tuple[Floats, Floats]:
    """The curve through the means of bins, given their count, weight, and sums of x and y.

    Bins of too few (ties are never cut) are merged with the next.
    """
    from scipy.optimize import isotonic_regression  # heavy, and only needed here

    kept: list[Floats] = []
    for row in sums:
        if kept and kept[-1][0] < least:
            kept[-1] = kept[-1] + row
        elif row[0] > 0:
            kept.append(row)
    if len(kept) > 1 and kept[-1][0] < least:
        last = kept.pop()
        kept[-1] = kept[-1] + last
    _, weight, x, y = np.array(kept).T
    x, y = x / weight, y / weight
    level = isotonic_regression(y, weights=weight).x
    rises = np.append(True, x[1:] > x[:-1])  # means of neighbours can be equal after rounding
    return np.clip(x[rises], *value_range), np.clip(level[rises], *value_range)


def _sample_marks(part: Part, generator: np.random.Generator) -> Integers:
    """Where some items are that the tests mark."""
    n_tests, k, n = part.picks.shape
    test, rank, instance = (generator.integers(size, size=SAMPLE) for size in (n_tests, k, n))
    position = part.picks[test, rank, instance].astype(np.int64)
    first, size = part.layout.offsets[:-1], np.diff(part.layout.offsets)
    marked = position < size[instance]
    return np.asarray((first[instance] + position)[marked])
