"""Monotone curves through points, packed as the kernels read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outrule import kernels
from outrule.data.instances import Instances
from outrule.types import Floats, Integers

POOLED = None  # no item has this name: an item column has no nulls
NOTHING = np.zeros(0, dtype=np.bool_)

Curve = tuple[Any, Any]  # x and y, both ascending; constant beyond the ends
ItemCurves = Mapping[Any, Curve]  # by the name of the item


def pack(curves: Iterable[Curve]) -> tuple[Integers, Floats]:
    """Where each curve ends, and the points of all of them behind each other."""
    found = [_points(np.asarray(x), np.asarray(y)) for x, y in curves]
    ends = np.cumsum([0, *map(len, found)], dtype=np.int64)
    return ends, np.concatenate([np.empty((0, 5)), *found])


def _points(x: Floats, y: Floats) -> Floats:
    x = x * kernels.curves.SCALE
    width = np.append(np.diff(x), 0.0)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        slope = np.append(np.diff(y), 0.0) / width
    slope[~np.isfinite(slope)] = 0.0  # behind the last, or no number at all
    # The sums that the kernel forms piece by piece: the same bits in either way.
    level = np.cumsum(np.append(y[0] + 0.0, slope[:-1] * width[:-1]))
    return np.stack([x, level, slope, width, np.full(len(x), y[-1])], axis=1)


def codes(instances: Instances) -> NDArray[np.int32]:
    """The code of every item, or none where a table has no items."""
    return np.empty(0, dtype=np.int32) if instances.item is None else instances.item


def curves_of_items(curves: ItemCurves, instances: Instances) -> Integers:
    """The number of every item's curve; -1 for none."""
    names: Any = [POOLED] if instances.item is None else instances.names_of_items or [POOLED]
    number = {name: k for k, name in enumerate(curves)}
    pooled = number.get(POOLED, -1)
    return np.array([number.get(name, pooled) for name in names], dtype=np.int64)
