"""Problems that choose exactly one item: an action, a class, or a class unless rejected."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outrule import kernels
from outrule.data.instances import Instances
from outrule.errors import DataError, check_number
from outrule.problems.contract import Layout, Problem, Scale, count_marks
from outrule.types import Booleans, Floats, Picks


@dataclass(frozen=True)
class BestAction(Problem):
    """Choose exactly one item, the one of largest weight (paper, section 4).

    Examples
    --------
    >>> BestAction().solve([[0.2, 0.7], [0.5, 0.1]])
    array([[False,  True],
           [ True, False]])
    """

    exactly_one = True

    def lay(self, instances: Instances) -> Layout:
        return Layout(instances.offsets, 1, instances.width)

    def fill_picks(self, picks: Picks, weights: Floats, layout: Layout, scale: Scale) -> None:
        if layout.width is None:
            kernels.best.best_ragged(weights, layout.offsets, picks)
        else:
            rows, scales = map(kernels.picking.frozen, layout.rows(weights, scale))
            if layout.width <= kernels.best.FEW_ITEMS:
                picks[:] = self.pick_many(weights, layout, scales[None])[0].T
            else:
                kernels.best.best_dense(rows, scales, picks)

    def pick_many(self, weights: Floats, layout: Layout, scales: Floats) -> NDArray[Any]:
        n, m = len(layout), scales.shape[1]
        picks = np.empty((len(scales), n), dtype=layout.small_type)
        rows, scales = map(kernels.picking.frozen, (weights.reshape(n, m), scales))
        kernels.best.best_dense_rules(rows, scales, picks)
        return picks[:, None, :]

    def feasible(self, marks: Booleans, layout: Layout) -> Booleans:
        return np.asarray(count_marks(marks, layout.offsets) == 1)

    def uniform_odds(self, instances: Instances, layout: Layout) -> NDArray[Any] | None:
        return np.asarray(1 / np.diff(layout.offsets))


@dataclass(frozen=True)
class Classification(BestAction):
    """Choose exactly one class; outcomes and predictions are probabilities that sum to one.

    Like ``BestAction``, but predictions are projected on the simplex (paper, section 4).
    """

    simplex = True

    def lay(self, instances: Instances) -> Layout:
        return replace(super().lay(instances), per_item={"frozen": self._frozen(instances)})

    def _frozen(self, instances: Instances) -> Booleans:
        """Items that are no classes, so no patch moves them."""
        return np.zeros(len(instances.prediction), dtype=np.bool_)

    def check_data(self, instances: Instances) -> None:
        owner = type(self).__name__
        if instances.value_range != (0.0, 1.0):
            raise DataError(f"{owner} works on probabilities: its value_range must be (0, 1).")
        if instances.outcome is None:
            return
        classes = np.where(self._frozen(instances), 0.0, instances.outcome)
        totals = np.add.reduceat(classes, instances.offsets[:-1])
        bad = np.flatnonzero(np.abs(totals - 1.0) > 1e-6)
        if len(bad):
            where = instances.where(int(bad[0]))
            raise DataError(
                f"outcomes of the classes sum to {totals[bad[0]]:g} at {where}. "
                f"{owner} needs probabilities that sum to one, as in a one-hot label."
            )


@dataclass(frozen=True)
class Rejection(Classification):
    """Choose a class, or the item ``reject``, whose value is always ``1 - cost``.

    The classes live on the simplex; the reject item is never patched (paper, section 4).

    Parameters
    ----------
    cost : float in [0, 1]
        What rejecting costs; a wrong class costs 1.
    reject : which item it is
        The column of an array (the last one, -1, by default), or a name in a table's item column.

    Examples
    --------
    >>> problem = Rejection(cost=0.2)
    >>> problem.solve(problem.with_reject([[0.9, 0.1], [0.6, 0.4]]))
    array([[ True, False, False],
           [False, False,  True]])
    """

    cost: float
    reject: Any = -1

    def __post_init__(self) -> None:
        check_number(self.cost, "cost", "Rejection", 0, 1, low_open=False)

    def with_reject(self, values: ArrayLike) -> Floats:
        """Append the reject item's constant to predictions or outcomes of the classes, (n, c)."""
        array = np.asarray(values, dtype=np.float64)
        return np.column_stack((array, np.full(len(array), 1.0 - self.cost)))

    def _frozen(self, instances: Instances) -> Booleans:
        names = instances.names_of_items
        if instances.item is None or names is None:
            raise DataError("Rejection needs items: name the column of the 'item'.")
        reject, m = self.reject, len(names)
        is_column = instances.item_names is None and isinstance(reject, int | np.integer)
        if is_column and -m <= reject < 0:
            reject += m
        frozen = instances.item == (names.index(reject) if reject in names else m)
        without = count_marks(frozen, instances.offsets) != 1
        if without.any():
            words = f"does not offer the reject item {self.reject!r}"
            raise DataError(
                f"{instances.where(int(np.argmax(without)))} {words}. "
                "Every instance must: see Rejection.with_reject.",
                instances.faults(np.flatnonzero(without), f"the instance {words}"),
            )
        return np.asarray(frozen)

    def check_data(self, instances: Instances) -> None:
        frozen, constant = self._frozen(instances), 1.0 - self.cost
        for name in ("prediction", "outcome", "start"):
            values = getattr(instances, name)
            bad = False if values is None else frozen & ~(np.abs(values - constant) <= 1e-9)
            if np.any(bad):
                words = f"{name} of the reject item is {values[np.argmax(bad)]:g}"
                rest = f". It must be 1 - cost = {constant:g}: see Rejection.with_reject."
                raise instances.fault(words, rest, np.flatnonzero(bad))
        super().check_data(instances)
