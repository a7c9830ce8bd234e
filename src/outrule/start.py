"""Where the loop starts: the predictions themselves, or isotonic regression of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from outrule.arguments import DataError, check_number
from outrule.arrays import Booleans, Floats, Integers
from outrule.instances import Instances

POOLED = None  # no item is called so: an item column has no nulls


@dataclass(frozen=True)
class Isotonic:
    """Isotonic regression of outcomes on predictions, per item or pooled over items.

    In ``fit`` it is cross-fitted: an instance's start comes from folds it is not in (nor is any of
    its cluster). New instances get the regression on all of the training data.

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
        check_number(self.folds, "folds", "Isotonic", 2, low_open=False, integer=True)

    def fit(self, instances: Instances, frozen: Booleans | None = None) -> FittedIsotonic:
        """Fit on all instances; ``frozen`` items are left as they are."""
        kept = slice(None) if frozen is None else np.flatnonzero(~frozen)
        x = instances.prediction[kept]
        y = instances.require_outcome("Isotonic.fit")[kept]
        weight = instances.normalised_weight()[instances.instance[kept]]
        curves = {POOLED: _curve(x, y, weight)}
        if self.per_item and instances.item is not None:
            item = instances.item[kept]
            order = np.argsort(item, kind="stable")
            codes, starts = np.unique(item[order], return_index=True)
            for code, rows in zip(codes.tolist(), np.split(order, starts[1:]), strict=True):
                name = code if instances.item_names is None else instances.item_names[code]
                if weight[rows].any():
                    curves[name] = _curve(x[rows], y[rows], weight[rows])
        return FittedIsotonic(curves)

    def cross_fit(
        self,
        instances: Instances,
        generator: np.random.Generator,
        frozen: Booleans | None = None,
    ) -> Floats:
        """Predictions for the same instances, each from folds without its cluster."""
        groups = np.arange(len(instances)) if instances.cluster is None else instances.cluster
        _, group = np.unique(groups, return_inverse=True)
        n_groups = int(group.max()) + 1
        if n_groups < 2:
            raise DataError(
                "Isotonic needs at least two instances (or clusters) to start from: an instance's "
                "start comes from others."
            )
        fold = (generator.permutation(n_groups) % min(self.folds, n_groups))[group]
        start = instances.prediction.copy()
        for number in range(int(fold.max()) + 1):
            inside = np.flatnonzero(fold == number)
            fitted = self._fit_on(instances, np.flatnonzero(fold != number), frozen)
            flat = np.flatnonzero(fold[instances.instance] == number)
            held_out = None if frozen is None else frozen[flat]
            start[flat] = fitted.apply(instances.take(inside), held_out)
        return start

    def _fit_on(
        self, instances: Instances, chosen: Integers, frozen: Booleans | None
    ) -> FittedIsotonic:
        if frozen is not None:
            members = np.zeros(len(instances), dtype=np.bool_)
            members[chosen] = True
            frozen = frozen[members[instances.instance]]
        return self.fit(instances.take(chosen), frozen)


@dataclass(frozen=True, eq=False)
class FittedIsotonic:
    """Isotonic curves: for the pooled items and for each item, two arrays (x, y) of thresholds."""

    curves: Mapping[Any, tuple[Floats, Floats]]

    def apply(self, instances: Instances, frozen: Booleans | None = None) -> Floats:
        """The calibrated predictions, flat."""
        result = np.interp(instances.prediction, *self.curves[POOLED])
        if len(self.curves) > 1 and instances.item is not None:
            order = np.argsort(instances.item, kind="stable")
            codes, starts = np.unique(instances.item[order], return_index=True)
            for code, rows in zip(codes.tolist(), np.split(order, starts[1:]), strict=True):
                name = code if instances.item_names is None else instances.item_names[code]
                if name in self.curves:
                    result[rows] = np.interp(instances.prediction[rows], *self.curves[name])
        low, high = instances.value_range
        result = np.clip(result, low, high)
        return result if frozen is None else np.where(frozen, instances.prediction, result)


def _curve(x: Floats, y: Floats, weight: Floats) -> tuple[Floats, Floats]:
    from sklearn.isotonic import IsotonicRegression

    counted = weight > 0
    fitted = IsotonicRegression(out_of_bounds="clip")
    fitted.fit(x[counted], y[counted], sample_weight=weight[counted])
    return fitted.X_thresholds_, fitted.y_thresholds_
