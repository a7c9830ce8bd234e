"""Problems that choose exactly one item: an action, a class, or a class unless rejected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outrule.data.instances import Instances
from outrule.errors import DataError, check_number
from outrule.problems.contract import Layout, Problem, count_marks
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

    def pick(self, weights: Floats, layout: Layout, scale: Floats | None = None) -> Picks:
        from outrule.kernels import greedy

        picks = layout.new_picks()
        if layout.width is None:
            greedy.best_ragged(weights, layout.offsets, picks)
        else:
            scale = np.ones(layout.width) if scale is None else scale
            greedy.best_dense(weights.reshape(-1, layout.width), scale, picks)
        return picks

    def pick_many(self, weights: Floats, layout: Layout, scales: Floats) -> NDArray[Any]:
        from outrule.kernels import greedy

        n, m = len(layout), scales.shape[1]
        picks = np.empty((len(scales), n), dtype=layout.small_type)
        greedy.best_dense_rules(weights.reshape(n, m), scales, picks)
        return picks[:, None, :]

    def feasible(self, marks: Booleans, layout: Layout) -> Booleans:
        return np.asarray(count_marks(marks, layout.offsets) == 1)


@dataclass(frozen=True)
class Classification(BestAction):
    """Choose exactly one class; outcomes and predictions are probabilities that sum to one.

    As :class:`BestAction`, but predictions are projected on the simplex (paper, section 4).
    """

    simplex = True

    def lay(self, instances: Instances) -> Layout:
        layout = super().lay(instances)
        frozen = np.zeros(len(instances.prediction), dtype=np.bool_)
        return Layout(layout.offsets, 1, layout.width, {"frozen": frozen})

    def check_data(self, instances: Instances) -> None:
        none = np.zeros(len(instances.prediction), dtype=np.bool_)
        _check_simplex(instances, none, "Classification")


@dataclass(frozen=True)
class Rejection(BestAction):
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

    simplex = True

    def __post_init__(self) -> None:
        check_number(self.cost, "cost", "Rejection", 0, 1, low_open=False)

    def with_reject(self, values: ArrayLike) -> Floats:
        """Append the reject item's constant to predictions or outcomes of the classes, (n, c)."""
        array = np.asarray(values, dtype=np.float64)
        return np.column_stack((array, np.full(len(array), 1.0 - self.cost)))

    def lay(self, instances: Instances) -> Layout:
        layout = super().lay(instances)
        frozen = self._reject_items(instances)
        return Layout(layout.offsets, 1, layout.width, {"frozen": frozen})

    def _reject_items(self, instances: Instances) -> Booleans:
        names = instances.names_of_items
        if instances.item is None or names is None:
            raise DataError("Rejection must know the reject item: name the item column with item=.")
        reject, m = self.reject, len(names)
        if (
            instances.item_names is None
            and isinstance(reject, int | np.integer)
            and -m <= reject < 0
        ):
            reject += m
        wanted = names.index(reject) if reject in names else m
        frozen = instances.item == wanted
        without = count_marks(frozen, instances.offsets) != 1
        if without.any():
            raise DataError(
                f"{instances.where(int(np.argmax(without)))} does not offer the reject item "
                f"{self.reject!r}. Every instance must: see Rejection.with_reject."
            )
        return np.asarray(frozen)

    def check_data(self, instances: Instances) -> None:
        frozen = self._reject_items(instances)
        for name in ("prediction", "outcome", "start"):
            values = getattr(instances, name)
            if values is not None:
                self._check_constant(values, frozen, name, instances)
        _check_simplex(instances, frozen, "Rejection")

    def _check_constant(
        self, values: Floats, frozen: Booleans, name: str, instances: Instances
    ) -> None:
        bad = frozen & (np.abs(values - (1.0 - self.cost)) > 1e-9)
        if bad.any():
            flat = int(np.argmax(bad))
            raise DataError(
                f"{name} of the reject item is {values[flat]:g} at {instances.where_flat(flat)}. "
                f"It must be 1 - cost = {1.0 - self.cost:g}: see Rejection.with_reject."
            )


def _check_simplex(instances: Instances, frozen: Booleans, owner: str) -> None:
    if instances.value_range != (0.0, 1.0):
        raise DataError(f"{owner} works on probabilities: its value_range must be (0, 1).")
    if instances.outcome is None:
        return
    classes = np.where(frozen, 0.0, instances.outcome)
    totals = np.add.reduceat(classes, instances.offsets[:-1])
    bad = np.flatnonzero(np.abs(totals - 1.0) > 1e-6)
    if len(bad):
        raise DataError(
            f"outcomes of the classes sum to {totals[bad[0]]:g} at {instances.where(int(bad[0]))}. "
            f"{owner} needs probabilities that sum to one, as in a one-hot label."
        )
