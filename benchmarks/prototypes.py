"""Variations of the default method that the package does not offer, for variations.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
from cases import Data
from methods import Floats, Method, fitted

import outrule
from outrule.calibration import cross_fit, noise, trees
from outrule.calibration.audit import OPTIMISER
from outrule.calibration.curves import CurvePatch
from outrule.calibration.isotonic import draw_folds
from outrule.rules.decisions import compact


@dataclass(frozen=True)
class Permuted(outrule.CrossFit):
    """The members of several ways to cut the data into folds."""

    times: int = 2

    def fit(self, part: Any, problem: Any, given: Any, fold: Any, generator: Any) -> Any:
        found = []
        for _ in range(self.times):
            found.append(super().fit(part, problem, given, fold, generator))
            fold = draw_folds(part.instances, self.folds, generator)
        members = tuple(member for members, _ in found for member in members)
        return members, np.mean([start for _, start in found], axis=0)


class Thrifty(cross_fit._Boosting):
    """Goes back to the first round that is within a standard error of the best."""

    def run(self) -> Any:
        self.outside_items = self.outside[self.part.instances.instance]
        self.path = [self.prediction[self.outside_items]]
        patches, _ = super().run()
        losses = np.array([self._losses(one) for one in self.path[: len(patches) + 1]])
        more = losses - losses[-1]
        error = more.std(axis=1, ddof=1) / np.sqrt(more.shape[1])
        first = int(np.argmax(more.mean(axis=1) <= error))
        return patches[:first], self.path[first]

    def _move(self, picks: Any, curve: Any) -> Any:
        falls = super()._move(picks, curve)
        self.path.append(self.prediction[self.outside_items])
        return falls

    def _losses(self, prediction: Floats) -> Floats:
        """The squared error of every observation that is left out: a cluster, or an instance."""
        instances = self.part.instances
        groups = np.arange(len(instances)) if instances.cluster is None else instances.cluster
        group = np.unique(groups[self.outside], return_inverse=True)[1]
        rows = np.repeat(group, np.diff(instances.offsets)[self.outside])
        squares = (prediction - self.part.outcome[self.outside_items]) ** 2
        return np.bincount(rows, weights=squares)


class Refitted(cross_fit._Boosting):
    """Fits the curves again on all of the data, the same tests in the same order, for new data."""

    def __init__(self, material: Any, start: Any, out: Any):
        super().__init__(material, start, out)
        self.again = (material, start, np.zeros_like(out))

    def run(self) -> Any:
        patches, best = super().run()
        whole, found = cross_fit._Boosting(*self.again), []
        whole._set_levels()
        for test, _, _ in patches:
            part = self.part
            if test == OPTIMISER:
                picks = compact(self.problem.pick(whole.prediction, part.layout), part.layout)
            else:
                picks = part.picks[part.of_rule[test]]
            curve = whole._curve(picks)
            if curve is not None:
                whole._move(picks, curve)
                found.append(CurvePatch(test, *(tuple(axis.tolist()) for axis in curve)))
        return tuple(found), best


def boosted_by(kind: Any) -> Method:
    """The default with another way to boost a member."""

    def predict(data: Data) -> Floats:
        with patch.object(cross_fit, "_Boosting", kind):
            return fitted()(data)

    return predict


def with_values(module: Any, settings: dict[str, Any] | None = None, **values: Any) -> Method:
    """The default, or other settings, with other values of a module's names."""

    def predict(data: Data) -> Floats:
        with patch.multiple(module, **values):
            return fitted(**settings or {})(data)

    return predict


def smoothed(numbers: tuple[int, ...]) -> Method:
    """The default with these of its six members from isotonic regression."""
    ways = cross_fit._ways

    def changed(*given: Any) -> Any:
        return [way._replace(smoothed=k in numbers) for k, way in enumerate(ways(*given))]

    return with_values(cross_fit, _ways=changed)


def with_trees(_part: Any, _problem: Any, found: list[Any]) -> list[Any]:
    """Those of the members that were to have trees."""
    return [one for one in found if one[0].trees]


PROTOTYPES: dict[str, Method] = {
    "rate 0.2, 100 trees of 5 questions": with_values(
        trees, {"start": outrule.CrossFit(max_trees=100, depth=5)}, RATE=0.2
    ),
    "rate 0.4, 80 trees": with_values(trees, {"start": outrule.CrossFit(max_trees=80)}, RATE=0.4),
    "trees always": with_values(cross_fit, _better=with_trees),
    "members with trees and without, always": with_values(cross_fit, CLEARLY=np.inf),
    "members with trees or without, never both": with_values(cross_fit, CLEARLY=0.0),
    "four of six members from isotonic": smoothed((0, 2, 3, 5)),
    "no member from isotonic": smoothed(()),
    "the loop stops at two standard errors": with_values(noise, NOISE=2.0),
    "folds cut twice, 12 members": fitted(start=Permuted()),
    "folds cut three times, 18 members": fitted(start=Permuted(times=3)),
    "first round within a standard error": boosted_by(Thrifty),
    "curves fitted again on all data": boosted_by(Refitted),
}
