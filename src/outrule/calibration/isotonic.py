"""Isotonic regression of outcomes on predictions, from which the loop can start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outrule import kernels, threads
from outrule.calibration.piecewise import NOTHING, POOLED, ItemCurves, codes, curves_of_items, pack
from outrule.data.instances import Instances, rows_by
from outrule.errors import DataError, check_integer, refuse_argument
from outrule.types import Booleans, Floats, Integers, computed_once


@dataclass(frozen=True)
class Isotonic:
    """Isotonic regression of outcomes on predictions, per item or pooled over items.

    In ``fit`` it is cross-fitted: an instance's start comes from folds without its cluster. New
    instances get the regression on all of the training data.

    Parameters
    ----------
    per_item : bool
        One curve for every item, or one for all. Items that training never saw (or only with weight
        zero) use the pooled one, and so do tables without an item column.
    folds : int
    """

    per_item: bool = True
    folds: int = 5

    def __post_init__(self) -> None:
        if not isinstance(self.per_item, bool):
            raise refuse_argument(self.per_item, "per_item", "Isotonic", "a bool")
        check_integer(self.folds, "folds", "Isotonic", 2)

    def fit(
        self, instances: Instances, frozen: Booleans | None = None, least: int = 1
    ) -> FittedIsotonic:
        """Fit on all instances; ``frozen`` items are left as they are.

        With ``least``, every point of a curve is the mean of at least so many outcomes (if there
        are as many), and items that have less than twice as many use the pooled curve.
        """
        kept = slice(None) if frozen is None else np.flatnonzero(~frozen)
        x = instances.prediction[kept]
        y = instances.require_observed("Isotonic.fit")[kept]
        weight = instances.normalised_weight()[instances.instance[kept]]
        if instances.upweight is not None:
            weight = weight * instances.upweight[kept]
            if not weight.any():
                raise DataError(
                    "no outcome is observed of any item whose prediction can be calibrated."
                )
        groups = []
        if self.per_item and instances.item is not None:
            groups = _rows_by_item(instances, instances.item[kept])
            enough = 1 if least == 1 else 2 * least
            groups = [one for one in groups if np.count_nonzero(weight[one[1]]) >= enough]

        def fit_one(i: int) -> tuple[Floats, Floats]:
            rows = groups[i][1]
            return _curve(x[rows], y[rows], weight[rows], least)

        names = [name for name, _ in groups]
        curves = dict(zip(names, threads.run(fit_one, len(groups)), strict=True))
        if len(curves) != getattr(instances.origin, "shape", (0, -1))[1]:
            curves[POOLED] = _curve(x, y, weight, least)  # for items that have no curve
        return FittedIsotonic(curves)

    def cross_fit(
        self, instances: Instances, generator: np.random.Generator, frozen: Booleans | None = None
    ) -> Floats:
        """Predictions for the same instances, each from folds without its cluster."""
        fold = draw_folds(instances, self.folds, generator)
        if not fold.any():
            raise DataError(
                "Isotonic needs at least two instances (or clusters): the start of each is fitted "
                "on the others."
            )
        return self.fit_folds(instances, fold, frozen).apply(instances, frozen)

    def fit_folds(
        self, instances: Instances, fold: Integers, frozen: Booleans | None = None
    ) -> FoldCurves:
        """The curves without each of the folds; none where one fold has all the weight."""
        weights = np.bincount(fold, weights=seen_weight(instances, frozen))
        if (weights == weights.sum()).any():
            return FoldCurves(fold, ())
        parts = (select(instances, fold != n, frozen) for n in range(len(weights)))
        return FoldCurves(fold, tuple(self.fit(*part) for part in parts))


def seen_weight(instances: Instances, frozen: Booleans | None) -> Floats | None:
    """What the observed outcomes of every instance weigh, without those of frozen items."""
    if instances.upweight is None:
        return instances.weight
    upweight = instances.upweight if frozen is None else instances.upweight * ~frozen
    seen = np.add.reduceat(upweight, instances.offsets[:-1])
    return np.asarray(seen if instances.weight is None else seen * instances.weight)


def n_outcomes(instances: Instances, frozen: Booleans | None) -> int:
    """How many observed outcomes have a weight, without those of frozen items."""
    seen = instances.normalised_weight()[instances.instance] > 0
    if instances.upweight is not None:
        seen = seen & (instances.upweight > 0)
    return int(np.count_nonzero(seen if frozen is None else seen & ~frozen))


def draw_folds(instances: Instances, folds: int, generator: np.random.Generator) -> Integers:
    """The fold of every instance, whole clusters at a time; all 0 where there is one cluster."""
    group = instances.observation
    n_groups = int(group.max()) + 1
    return (generator.permutation(n_groups) % min(folds, n_groups))[group]


def select(
    instances: Instances, rows: Booleans, frozen: Booleans | None
) -> tuple[Instances, Booleans | None]:
    """Some instances, and which of their items are frozen."""
    chosen = instances.take(np.flatnonzero(rows))
    return chosen, None if frozen is None else frozen[rows[instances.instance]]


@dataclass(frozen=True, eq=False)
class FoldCurves:
    """The fold of every instance, and the isotonic curves without each fold."""

    fold: Integers
    curves: tuple[FittedIsotonic, ...]

    def apply(self, instances: Instances, frozen: Booleans | None = None) -> Floats:
        """The predictions of the same instances, each by curves without its fold."""
        result = instances.prediction.copy()
        for number, fitted in enumerate(self.curves):
            rows = self.fold == number
            result[rows[instances.instance]] = fitted.apply(*select(instances, rows, frozen))
        return result


@dataclass(frozen=True, eq=False)
class FittedIsotonic:
    """Isotonic curves: for the pooled items and for each item, two arrays (x, y) of thresholds."""

    curves: ItemCurves

    @computed_once
    def _indexed(self) -> tuple[Any, ...]:
        """The curves with an index, by which a point is found among many."""
        packed = pack(self.curves.values())
        return *packed, *kernels.curves.index_points(*packed)

    def inside(self, value_range: tuple[float, float]) -> FittedIsotonic:
        """With values in the range; those of a regression on estimated outcomes may be outside."""
        return FittedIsotonic(
            {name: (x, np.clip(y, *value_range)) for name, (x, y) in self.curves.items()}
        )

    def apply(self, instances: Instances, frozen: Booleans | None = None) -> Floats:
        """The calibrated predictions, flat; ``frozen`` items stay as they are."""
        result, follow = np.empty_like(instances.prediction), kernels.curves.follow_item_curves
        rest: Any = (*self._indexed, NOTHING if frozen is None else frozen, result)
        prediction = kernels.picking.frozen(instances.prediction)
        follow(prediction, codes(instances), curves_of_items(self.curves, instances), *rest)
        return result


def _rows_by_item(
    instances: Instances, item: NDArray[np.int32]
) -> list[tuple[Any, Integers | slice]]:
    """The name of every item, and its rows among the given codes."""
    m, names = instances.width, instances.names_of_items
    if m is not None and len(item) == m * len(instances):
        return [(code, slice(code, None, m)) for code in range(m)]
    assert names is not None
    return list(zip(names, rows_by(item, len(names)), strict=True))


def _curve(x: Floats, y: Floats, weight: Floats, least: int) -> tuple[Floats, Floats]:
    """The thresholds of isotonic regression: between them it is interpolated.

    It is the regression of the means of bins, which are the distinct x if ``least`` is 1.
    """
    from scipy.optimize import isotonic_regression  # heavy, and only needed here

    order = np.argsort(x)
    order = order[weight[order] > 0]
    x, y, weight = x[order], y[order], weight[order]
    first = cut_bins(x, least)
    total = np.add.reduceat(weight, first)
    level = isotonic_regression(np.add.reduceat(weight * y, first) / total, weights=total).x
    rises = level[1:] != level[:-1]
    ends = np.append(True, rises) | np.append(rises, True)
    # Rounding takes no mean out of its bin, so that the thresholds ascend.
    last = np.append(first[1:], len(x)) - 1
    at = np.clip(np.add.reduceat(weight * x, first) / total, x[first], x[last])
    return at[ends], np.asarray(level[ends])


def cut_bins(x: Floats, least: int) -> Integers:
    """Where bins of equally many sorted x begin; equal x are in one, each has at least so many."""
    if least == 1:
        return np.flatnonzero(np.append(True, x[1:] != x[:-1]))
    n_bins = max(len(x) // least, 1)
    first = [0]
    for begin in np.searchsorted(x, x[np.arange(1, n_bins) * len(x) // n_bins]).tolist():
        if begin - first[-1] >= least and len(x) - begin >= least:
            first.append(begin)
    return np.array(first)
