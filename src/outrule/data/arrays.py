"""The way in: arrays and tables are checked here, once, and leave as Instances."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outrule import threads
from outrule.data.instances import Instances
from outrule.data.origin import ArrayOrigin, TableOrigin
from outrule.errors import DataError, refuse_argument
from outrule.types import Booleans, Floats, Integers

FARTHEST = 1e6  # a range farther from zero, in its own widths, loses digits to the offset
SMALLEST, LARGEST = 1e-100, 1e100  # between them no square or product vanishes or overflows


def from_arrays(
    predictions: ArrayLike,
    outcomes: ArrayLike | None,
    available: ArrayLike | None,
    start: ArrayLike | None,
    weight: ArrayLike | None,
    cluster: ArrayLike | None,
    columns: Mapping[str, ArrayLike] | None,
    value_range: tuple[float, float],
) -> Instances:
    """See :meth:`Instances.from_arrays`."""
    value_range = check_range(value_range)
    array = numeric(predictions, "predictions")
    if array.ndim != 2:
        raise DataError(f"predictions have shape {array.shape}. They must have shape (n, m).")
    n, m = array.shape
    if n == 0 or m == 0:
        raise DataError(f"predictions have shape {array.shape}: there must be instances and items.")
    mask = None if available is None else _mask(available, (n, m), "predictions")
    origin = ArrayOrigin((n, m), mask, _columns(columns, (n, m)))
    instances = Instances(
        prediction=origin.gather(array),
        offsets=_offsets(origin),
        origin=origin,
        outcome=_same_shape(outcomes, "outcomes", origin),
        start=_same_shape(start, "start predictions", origin),
        weight=_per_instance(weight, "weights", n),
        cluster=_clusters(cluster, n),
        value_range=value_range,
    )
    check_instances(instances)
    return instances


def _offsets(origin: ArrayOrigin) -> Integers:
    """Where every instance starts among the items on offer, and the end."""
    n, m = origin.shape
    if origin.available is None:
        return np.arange(0, (n + 1) * m, m)
    return np.concatenate(([0], np.cumsum(origin.available.sum(axis=1))))


def check_instances(instances: Instances) -> None:
    """Refuse what no problem can work with; says where it stands first."""
    empty = np.flatnonzero(np.diff(instances.offsets) == 0)
    if len(empty):
        raise DataError(
            f"{instances.where(int(empty[0]))} has no items on offer. "
            "Every instance must offer at least one: drop the instance."
        )
    low, high = instances.value_range
    for name in ("prediction", "outcome", "start"):
        values = getattr(instances, name)
        if values is not None:
            _refuse_outside(values, name, instances, low, high)
    if instances.weight is not None:
        _check_weights(instances.weight, instances)


def _check_weights(weight: Floats, instances: Instances) -> None:
    bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if len(bad):
        raise DataError(
            f"weight is {weight[bad[0]]:g} at {instances.where(int(bad[0]))}. "
            "Weights must be finite and not negative."
        )
    extreme = np.flatnonzero((weight > 0) & ((weight < SMALLEST) | (weight > LARGEST)))
    if len(extreme):
        raise DataError(
            f"weight is {weight[extreme[0]]:g} at {instances.where(int(extreme[0]))}. Weights must "
            f"be zero or in [{SMALLEST:g}, {LARGEST:g}]: multiply all of them by one number."
        )
    if not weight.any():
        raise DataError("all weights are zero: at least one instance must count.")


def _refuse_outside(
    values: Floats, name: str, instances: Instances, low: float, high: float
) -> None:
    if _all_inside(values, low, high):
        return
    bad = np.flatnonzero(~(np.isfinite(values) & (values >= low) & (values <= high)))
    if not len(bad):
        return
    value, where = values[bad[0]], instances.where_flat(int(bad[0]))
    if not np.isfinite(value):
        word = "NaN" if np.isnan(value) else "infinite"
        plural = "Start predictions" if name == "start" else f"{name.capitalize()}s"
        is_table = isinstance(instances.origin, TableOrigin)
        other = "the row" if is_table else "mark the item as unavailable"
        raise DataError(
            f"{name} is {word} at {where}. {plural} must be finite: drop the instance, or {other}."
        )
    raise DataError(
        f"{name} is {value:g} at {where}, outside [{low:g}, {high:g}]. "
        "Give Instances the range of the values: value_range=(low, high)."
    )


def _all_inside(values: Floats, low: float, high: float) -> bool:
    """Whether all values are finite and in the range; no temporary. May say no for huge ones."""
    pieces = threads.spans(1 << 18, len(values))

    def inside(piece: int) -> bool:
        some = values[slice(*pieces[piece])]
        if low == -np.inf and high == np.inf:
            with np.errstate(all="ignore"):
                return bool(np.isfinite(some.sum()))
        return bool(some.min() >= low and some.max() <= high)  # NaN is neither

    return all(threads.run(inside, len(pieces)))


def check_range(value_range: Any) -> tuple[float, float]:
    """Return (low, high) as floats, or refuse it."""
    expected = "a pair (low, high) of finite numbers with low < high"
    try:
        low, high = value_range
        numbers = all(isinstance(end, Real) and not isinstance(end, bool) for end in (low, high))
        low, high = float(low), float(high)
    except (TypeError, ValueError, OverflowError):
        raise refuse_argument(value_range, "value_range", "Instances", expected) from None
    if not (numbers and np.isfinite(low) and np.isfinite(high) and low < high):
        raise refuse_argument(value_range, "value_range", "Instances", expected)
    if not SMALLEST <= high - low <= LARGEST:
        expected = f"a pair (low, high) with high - low in [{SMALLEST:g}, {LARGEST:g}]"
        raise refuse_argument(value_range, "value_range", "Instances", expected)
    if max(abs(low), abs(high)) > FARTHEST * (high - low):
        expected = f"within {FARTHEST:g} times its own width of zero: subtract a constant"
        raise refuse_argument(value_range, "value_range", "Instances", expected)
    return low, high


def numeric(values: Any, name: str) -> Floats:
    """Any numbers as a contiguous float64 array."""
    array = _array(values, name)
    try:
        if array.dtype.kind not in "bfiuO":
            raise ValueError
        return np.ascontiguousarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        is_table = hasattr(type(values), "columns")
        hint = " A table with one row per item comes in through Instances.from_table."
        raise DataError(f"{name} cannot be read as numbers.{hint if is_table else ''}") from None


def _array(values: Any, name: str) -> NDArray[Any]:
    """Any array-like as an array; refused where it is masked, or its rows differ in length."""
    if isinstance(values, np.ma.MaskedArray):
        raise DataError(
            f"{name} came as a masked array. Give a plain array: "
            "available= says which items are on offer."
        )
    try:
        return np.asarray(values)
    except ValueError:
        raise DataError(
            f"{name} cannot be read as an array: do all rows have the same length?"
        ) from None


def _mask(available: ArrayLike, shape: tuple[int, int], like: str) -> Booleans:
    mask = _array(available, "available")
    if mask.dtype != np.bool_ or mask.shape != shape:
        raise DataError(
            f"available has shape {mask.shape} and type {mask.dtype}. "
            f"It must be boolean of shape {shape}, like the {like}."
        )
    return mask


def _same_shape(values: ArrayLike | None, name: str, origin: ArrayOrigin) -> Floats | None:
    if values is None:
        return None
    array = numeric(values, name)
    if array.shape != origin.shape:
        raise DataError(
            f"{name} have shape {array.shape}, the predictions {origin.shape}. "
            "They must have the same shape."
        )
    return origin.gather(array)


def _per_instance(values: ArrayLike | None, name: str, n: int) -> Floats | None:
    if values is None:
        return None
    array = numeric(values, name)
    if array.shape != (n,):
        raise DataError(f"{name} have shape {array.shape}. They must have shape ({n},).")
    return array


def _clusters(values: ArrayLike | None, n: int) -> Integers | None:
    if values is None:
        return None
    array = _array(values, "clusters")
    if array.shape != (n,):
        raise DataError(f"clusters have shape {array.shape}. They must have shape ({n},).")
    null = np.array([_is_null(value) for value in array.tolist()])
    if null.any():
        raise DataError(
            f"cluster is null at instance {int(np.argmax(null))}. "
            "Every instance must have a cluster: fill it, or drop the instance."
        )
    if array.dtype.kind == "O":
        array = np.array([repr(value) for value in array.tolist()])
    return np.unique(array, return_inverse=True)[1].astype(np.int64)


def _is_null(value: Any) -> bool:
    """Whether it is None, NaN, NaT, or pandas' NA, which will not even say whether it is itself."""
    try:
        return value is None or bool(value != value)
    except TypeError:
        return True


def _columns(
    columns: Mapping[str, ArrayLike] | None, shape: tuple[int, int]
) -> dict[str, NDArray[Any]]:
    arrays = {name: _array(column, f"column {name!r}") for name, column in (columns or {}).items()}
    for name, array in arrays.items():
        if name == "item":
            raise DataError(
                "column 'item' is taken: it is the number of every item. Give it another name."
            )
        if array.shape not in (shape, shape[:1]):
            raise DataError(
                f"column {name!r} has shape {array.shape}. It must have shape {shape[:1]} "
                f"(one entry per instance) or {shape} (one per item)."
            )
    return arrays


def weights_only(
    weights: ArrayLike, available: ArrayLike | None, *, checked: bool = True
) -> Instances:
    """Instances that carry weights for the optimiser: any finite numbers, empty instances too."""
    array = numeric(weights, "weights")
    if array.ndim != 2:
        raise DataError(f"weights have shape {array.shape}. They must have shape (n, m).")
    if array.size == 0:
        raise DataError(f"weights have shape {array.shape}: there must be instances and items.")
    mask = None if available is None else _mask(available, array.shape, "weights")
    origin = ArrayOrigin(array.shape, mask)
    instances = Instances(origin.gather(array), _offsets(origin), origin)
    if checked:
        refuse_not_finite(instances)
    return instances


def refuse_not_finite(instances: Instances) -> None:
    """Refuse weights that are NaN or infinite; says where."""
    _refuse_outside(instances.prediction, "weight", instances, -np.inf, np.inf)
