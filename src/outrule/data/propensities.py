"""Logs that know only some outcomes: are the propensities possible, and do the choices fit them?"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from outrule.data.origin import Origin, fault
from outrule.errors import DataError
from outrule.types import Booleans, Floats, Integers

if TYPE_CHECKING:
    from outrule.data.instances import Instances

CONTRADICTION = 4.5  # standard errors
ROUNDING = 1e-6  # of probabilities that sum to one
DECILES = 10
Say = Callable[[int], str]
EXAMPLE_SHARE, EXAMPLE_DIFFERENCE = 0.1, 0.05


def no_outcome(n: int, n_all: int, noun: str) -> str:
    """What follows the place of an outcome that is not known, where no propensity is given."""
    words = (
        f", and in {n:,} of {n_all:,} {noun}. Does the log know only the outcome of what was "
        "chosen? Then do not drop the rest, because without it there is nothing left to choose "
        "from, and do not fill it in, because what you make up is what would be proven. "
        "Either give the outcome of every item; or give the probability with which each was "
        "observed (propensity); or, if choices were never random, let your present system choose "
        "at random in a small share of the instances: see docs/logs.md, 'Without a model'."
    )
    return f"{words} Otherwise drop the instance." if 2 * n < n_all else words


def check_observed(observed: Booleans, outcome: Floats, origin: Origin, offsets: Integers) -> None:
    """What the table says of which outcomes are known must agree with the nulls."""
    bad = np.flatnonzero(observed == np.isnan(outcome))
    if len(bad):

        def what(flat: int) -> str:
            if observed[flat]:
                return "observed is true but the outcome is null"
            return f"observed is false but the outcome is {outcome[flat]:g}"

        rest = ". An outcome must be null, not zero, where it was not observed, and only there."
        raise fault(what, rest, bad, origin, offsets)


def check_propensity(instances: Instances, propensity: Floats) -> None:
    """Propensities must be probabilities, and above 0 where something was observed."""
    observed = instances.observed
    inside = (propensity >= 0) & (propensity <= 1)
    good = np.where(observed, inside & (propensity > 0), inside | np.isnan(propensity))
    sure = ~observed & (propensity == 1)

    def what(flat: int) -> str:
        q = propensity[flat]
        return f"propensity is {'null' if np.isnan(q) else f'{q:g}'}"

    if not good.all():
        rest = (
            ". It is the probability that the outcome of this item is observed, in (0, 1]; it may "
            "be 0 (never shown) or null (unknown) only where the outcome was not observed."
        )
        raise instances.fault(what, rest, np.flatnonzero(~good))
    if sure.any():
        rest = ", but the outcome is missing. It must be given where it is certain to be observed."
        raise instances.fault(what, rest, np.flatnonzero(sure))


def check_log(instances: Instances, *, exactly_one: bool) -> None:
    """Raise DataError where propensities cannot describe the choices of the log, or say nothing.

    ``exactly_one``: decisions are of one item. Cost: a few passes over the items.
    """
    q, observed = instances.propensity, instances.observed
    if q is None:
        return
    counted = True if instances.weight is None else (instances.weight > 0)[instances.instance]
    if not (observed & counted).any():
        raise DataError("no outcome is observed: all of them are null, or have weight zero.")
    counts = np.add.reduceat(observed, instances.offsets[:-1], dtype=np.int64)
    if not np.isnan(q).any():
        if exactly_one and (counts == 1).all():
            _check_sums(instances, q)
        _check_frequencies(instances, q)
    if not observed.all() and (q[observed] == 1).all() and not (q[~observed] > 0).any():
        raise DataError(_deterministic(instances))


def _check_sums(instances: Instances, q: Floats) -> None:
    totals = np.add.reduceat(q, instances.offsets[:-1])
    bad = np.flatnonzero(np.abs(totals - 1) > ROUNDING)
    if not len(bad):
        return
    first = int(bad[0])
    rest = "probability of every item on offer, and not that of the chosen one in all its rows."
    if not q[(instances.instance == first) & ~instances.observed].any():
        rest = (
            "probability of every item on offer. Those of the items that were not chosen are 0 "
            "here, which says that they could never have been: leave them null if you do not "
            "know them."
        )
    raise DataError(
        f"propensities sum to {totals[first]:g} at {instances.where(first)}. Exactly one item was "
        f"chosen in every instance, so they must sum to one: give the {rest}"
    )


def _check_frequencies(instances: Instances, q: Floats) -> None:
    """Items must be observed about as often as the propensities say.

    Each item by its name, each tenth of the propensities and of the predictions, and those that a
    log without exploration would show: the items of largest prediction.
    """
    names, prediction = instances.names_of_items, instances.prediction
    _compare_tenths(instances, q, q, "propensities")
    if instances.item is not None and names is not None:
        _compare_counts(instances, q, instances.item, lambda code: f"item {names[code]!r} was")
    _compare_tenths(instances, q, prediction, "predictions")
    largest = np.maximum.reduceat(prediction, instances.offsets[:-1])[instances.instance]
    sides = "items of largest prediction were", "items whose prediction is not the largest were"
    _compare_counts(instances, q, (prediction < largest).astype(np.int64), sides.__getitem__)


def _compare_tenths(instances: Instances, q: Floats, values: Floats, noun: str) -> None:
    edges = np.unique(np.quantile(values, np.arange(1, DECILES) / DECILES))
    ends = [values.min(), *edges.tolist(), values.max()]

    def tenth(number: int) -> str:
        return f"items with {noun} from {ends[number]:.3g} to {ends[number + 1]:.3g} were"

    _compare_counts(instances, q, np.searchsorted(edges, values, side="left"), tenth)


def _compare_counts(instances: Instances, q: Floats, kind: NDArray[Any], words: Say) -> None:
    n, group = int(kind.max()) + 1, instances.instance
    seen, expected = (np.bincount(kind, values, n) for values in (instances.observed, q))
    # What an observation (an instance, or a cluster) adds is independent of the others.
    if instances.cluster is not None:
        group = instances.cluster[group]
    n_groups = int(group.max()) + 1
    pairs, which = np.unique(kind.astype(np.int64) * n_groups + group, return_inverse=True)
    sums = np.bincount(which, instances.observed - q)
    squares = np.bincount(pairs // n_groups, sums**2, n)
    errors = np.sqrt(np.maximum(squares, np.bincount(kind, q * (1 - q), n)))
    off = np.abs(seen - expected) - CONTRADICTION * errors
    if (off > ROUNDING * len(q)).any():
        worst = int(np.argmax(off))
        raise _contradiction(
            f"{words(worst)} observed {seen[worst]:,.0f} times, but the propensities imply "
            f"{expected[worst]:,.0f}, give or take {errors[worst]:,.0f}"
        )


def check_marked(instances: Instances, marked: Integers, words: str, bar: float) -> None:
    """Raise DataError where some items were observed more or less often than propensities say.

    By more than ``bar`` standard errors. Where some propensities are unknown, they may be 0, so
    that only items which are observed too often contradict the others.
    """
    q, u = instances.propensity, instances.upweight
    assert q is not None
    assert u is not None
    known = not np.isnan(q).any()
    observed, q, u = instances.observed[marked], q[marked], u[marked]
    more = observed - q if known else u - 1.0
    noise = q * (1 - q) if known else np.where(observed, u**2 * (1 - q), 0.0)
    group = instances.instance[marked]
    if instances.cluster is not None:
        group = instances.cluster[group]
    error = math.sqrt(max((np.bincount(group, more) ** 2).sum(), noise.sum()))
    off = float(more.sum())
    if (abs(off) if known else off) - bar * error <= ROUNDING * len(instances.prediction):
        return
    seen = f"{words} were observed {observed.sum():,} times, but the propensities imply "
    if known:
        raise _contradiction(f"{seen}{q.sum():,.0f}, give or take {error:,.0f}")
    raise _contradiction(
        f"{seen}fewer: weighted by 1 / propensity these are {u.sum():,.0f} items, but there are "
        f"{len(u):,}, give or take {error:,.0f}"
    )


def _contradiction(words: str) -> DataError:
    return DataError(
        f"the choices contradict the propensities: {words}. A propensity is the probability that "
        "this outcome is observed, given the instance, under the policy that chose at that time: "
        "not a score, and not the probability under a later version."
    )


def explored_instances(n_items: float, share: float, difference: float) -> int:
    """About how many instances tell apart decisions that differ by so much, 95 % confidence.

    ``share`` of the decisions is drawn at random from ``n_items``; the difference is in units of
    the value range, and the noise of an outcome at most a quarter: ``2 ln(20) / 4 * n_items /
    (share * difference**2)``. Where decisions are the same in most instances, it takes
    proportionally fewer.

    >>> explored_instances(8, 0.1, 0.05)
    47932
    """
    return math.ceil(math.log(20) / 2 * n_items / (share * difference**2))


def _deterministic(instances: Instances) -> str:
    m = len(instances.prediction) / len(instances)
    n = float(f"{explored_instances(m, EXAMPLE_SHARE, EXAMPLE_DIFFERENCE):.2g}")
    return (
        "every choice of this log was certain: all propensities of observed items are 1, and all "
        "others 0. It cannot say what another choice would have been worth, so rules cannot be "
        "compared. Let a share s of the decisions explore (explore of the calibrator, outrule "
        "decide --explore): about 1.5 m / (s d^2) instances of m items then tell apart decisions "
        f"that differ by d of the value range; here, with s = {EXAMPLE_SHARE:g} and "
        f"d = {EXAMPLE_DIFFERENCE:g}, {n:,.0f} at most."
    )
