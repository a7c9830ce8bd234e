"""The way in: arrays and tables are checked here, once, and leave as Instances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outrule.arguments import DataError, refuse_argument
from outrule.arrays import Booleans, Floats, Integers
from outrule.instances import Instances
from outrule.origin import ArrayOrigin, TableOrigin, missing


@dataclass(frozen=True)
class Schema:
    """The names of a table's columns."""

    instance: str
    prediction: str
    outcome: str | None = None
    item: str | None = None
    start: str | None = None
    weight: str | None = None
    cluster: str | None = None


def from_arrays(
    predictions: ArrayLike,
    outcomes: ArrayLike | None,
    available: ArrayLike | None,
    start: ArrayLike | None,
    weights: ArrayLike | None,
    clusters: ArrayLike | None,
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
    counts = np.full(n, m) if mask is None else mask.sum(axis=1)
    instances = Instances(
        prediction=origin.gather(array),
        offsets=np.concatenate(([0], np.cumsum(counts))),
        origin=origin,
        outcome=_same_shape(outcomes, "outcomes", origin),
        start=_same_shape(start, "start predictions", origin),
        item=origin.flat_column("item").astype(np.int32),
        weight=_per_instance(weights, "weights", n),
        cluster=_clusters(clusters, n),
        value_range=value_range,
    )
    check_instances(instances)
    return instances


def from_table(frame: Any, names: Schema, value_range: tuple[float, float]) -> Instances:
    """See :meth:`Instances.from_table`."""
    value_range = check_range(value_range)
    table, library = to_polars(frame)
    for role, name in vars(names).items():
        required = role in ("instance", "prediction")
        if (required or name is not None) and name not in table.columns:
            raise DataError(f"the {role} {missing(name, table.columns)}")
    if table.height == 0:
        raise DataError("the table has no rows: there must be at least one instance.")
    codes, labels = _codes(table, names.instance, "instance")
    item, item_names = (None, None) if names.item is None else _items(table, names.item)
    rows = np.lexsort((codes,)) if item is None else np.lexsort((item, codes))
    counts = np.bincount(codes, minlength=len(labels))
    ordered = table[rows]
    kept = ordered if names.outcome is None else ordered.drop(names.outcome)
    index = frame.index if library == "pandas" else None
    offsets = np.concatenate(([0], np.cumsum(counts)))
    instances = Instances(
        prediction=numeric(ordered[names.prediction], f"column {names.prediction!r}"),
        offsets=offsets,
        origin=TableOrigin(kept, rows, labels, library, index),
        outcome=_optional(ordered, names.outcome),
        start=_optional(ordered, names.start),
        item=None if item is None else item[rows].astype(np.int32),
        item_names=item_names,
        weight=_constant(_optional(ordered, names.weight), offsets, labels, names.weight),
        cluster=_table_clusters(table, names.cluster, rows, offsets, labels),
        value_range=value_range,
    )
    check_instances(instances)
    _refuse_repeated_items(instances)
    return instances


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
    weight = instances.weight
    if weight is not None:
        bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
        if len(bad):
            raise DataError(
                f"weight is {weight[bad[0]]:g} at {instances.where(int(bad[0]))}. "
                "Weights must be finite and not negative."
            )
        if not weight.sum() > 0:
            raise DataError("all weights are zero: at least one instance must count.")


def _refuse_outside(
    values: Floats, name: str, instances: Instances, low: float, high: float
) -> None:
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
        "Give the range of the values with value_range=(low, high)."
    )


def check_range(value_range: Any) -> tuple[float, float]:
    """Return (low, high) as floats, or refuse it."""
    expected = "a pair (low, high) of finite numbers with low < high"
    try:
        low, high = (float(end) for end in value_range)
    except (TypeError, ValueError):
        raise refuse_argument(value_range, "value_range", "Instances", expected) from None
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise refuse_argument(value_range, "value_range", "Instances", expected)
    return low, high


def numeric(values: Any, name: str) -> Floats:
    """Any numbers as a contiguous float64 array; nulls become NaN."""
    if hasattr(values, "dtype") and hasattr(values, "to_numpy") and hasattr(values, "fill_null"):
        if not (values.dtype.is_numeric() or str(values.dtype) in ("Boolean", "Null")):
            raise DataError(f"{name} holds {values.dtype}. It must hold numbers.")
        values = values.cast(_float64()).fill_null(np.nan).to_numpy()
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "bfiuO":
            raise ValueError
        return np.ascontiguousarray(array, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{name} cannot be read as numbers.") from None


def _float64() -> Any:
    import polars as pl

    return pl.Float64


def _mask(available: ArrayLike, shape: tuple[int, int], like: str) -> Booleans:
    mask = np.asarray(available)
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
    array = np.asarray(values)
    if array.shape != (n,):
        raise DataError(f"clusters have shape {array.shape}. They must have shape ({n},).")
    null = np.array([value is None or value != value for value in array.tolist()])
    if null.any():
        raise DataError(
            f"cluster is null at instance {int(np.argmax(null))}. "
            "Every instance must have a cluster: fill it, or drop the instance."
        )
    if array.dtype.kind == "O":
        array = np.array([repr(value) for value in array.tolist()])
    return np.unique(array, return_inverse=True)[1].astype(np.int64)


def _columns(
    columns: Mapping[str, ArrayLike] | None, shape: tuple[int, int]
) -> dict[str, NDArray[Any]]:
    arrays = {name: np.asarray(column) for name, column in (columns or {}).items()}
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


def to_polars(frame: Any) -> tuple[Any, str]:
    """The table as a Polars frame, and the library it came from."""
    import polars as pl

    if isinstance(frame, pl.LazyFrame):
        return frame.collect(), "polars"
    if isinstance(frame, pl.DataFrame):
        return frame, "polars"
    library = type(frame).__module__.split(".")[0]
    if library == "pandas" and hasattr(frame, "columns"):
        names = [str(name) for name in frame.columns]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise DataError(f"the table has two columns {twice!r}: rename or drop one.")
        columns = (_pandas_column(frame.iloc[:, i]) for i in range(len(names)))
        return pl.DataFrame(dict(zip(names, columns, strict=True))), "pandas"
    if library not in ("pandas", "polars") and hasattr(frame, "__arrow_c_stream__"):
        try:
            return pl.DataFrame(frame), "arrow"
        except pl.exceptions.PolarsError:
            pass  # a stream of one column, which is no table
    raise refuse_argument(
        type(frame), "frame", "Instances.from_table", "a pandas, Polars or Arrow table"
    )


def _pandas_column(series: Any) -> Any:
    """A column without pyarrow's help: numbers and times as they are, the rest as objects."""
    import polars as pl

    values = series.to_numpy()
    if values.dtype.kind in "bfiuMm":
        return pl.Series(values)
    nulls = series.isna().to_numpy()
    objects = [None if null else value for null, value in zip(nulls, values, strict=True)]
    try:
        return pl.Series(objects)
    except (TypeError, pl.exceptions.PolarsError):  # of several types
        if all(isinstance(value, Real | None) for value in objects):
            return pl.Series(objects, dtype=pl.Float64, strict=False)
        return pl.Series(objects, dtype=pl.Object)


def _codes(table: Any, name: str, role: str) -> tuple[Integers, Any]:
    """Codes 0, 1, ... in order of first appearance, and what they stand for."""
    column = table[name]
    null = column.is_null() | column.is_nan() if column.dtype.is_float() else column.is_null()
    if null.any():
        row = int(null.arg_max())
        raise DataError(
            f"{role} column {name!r} is null in row {row} of the table. "
            f"Every row must have its {role}: fill it, or drop the row."
        )
    labels = column.unique(maintain_order=True)
    lookup = labels.to_frame().with_row_index("code of outrule")
    joined = column.to_frame().join(
        lookup, on=name, how="left", maintain_order="left", nulls_equal=True
    )
    return joined["code of outrule"].to_numpy().astype(np.int64), labels


def _items(table: Any, name: str) -> tuple[Integers, tuple[Any, ...]]:
    """Codes in sorted order, so that a table's row order never changes how a tie is broken."""
    codes, labels = _codes(table, name, "item")
    order = labels.arg_sort().to_numpy()
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank[codes], tuple(labels.gather(order).to_list())


def _optional(table: Any, name: str | None) -> Floats | None:
    return None if name is None else numeric(table[name], f"column {name!r}")


def _constant(
    values: NDArray[Any] | None, offsets: Integers, labels: Any, name: str | None
) -> NDArray[Any] | None:
    """One value per instance, refused where rows of an instance differ."""
    if values is None:
        return None
    first = values[offsets[:-1]]
    expected = np.repeat(first, np.diff(offsets))
    differs = (values != expected) & ((values == values) | (expected == expected))
    if differs.any():
        instance = int(np.searchsorted(offsets, np.argmax(differs), side="right")) - 1
        raise DataError(
            f"column {name!r} differs between rows of instance {labels[instance]!r}. "
            "It must be constant within an instance."
        )
    return first


def _table_clusters(
    table: Any, name: str | None, rows: Integers, offsets: Integers, labels: Any
) -> Integers | None:
    if name is None:
        return None
    codes, _ = _codes(table, name, "cluster")
    return _constant(codes[rows], offsets, labels, name)


def _refuse_repeated_items(instances: Instances) -> None:
    if instances.item is None or instances.item_names is None:
        return
    same = (np.diff(instances.item) == 0) & (np.diff(instances.instance) == 0)
    if same.any():
        flat = int(np.argmax(same)) + 1
        raise DataError(
            f"item {instances.item_names[instances.item[flat]]!r} is offered twice, again at "
            f"{instances.where_flat(flat)}. An instance offers an item once: drop the row."
        )


def weights_only(weights: ArrayLike, available: ArrayLike | None) -> Instances:
    """Instances that carry weights for the optimiser: any finite numbers, empty instances too."""
    array = numeric(weights, "weights")
    if array.ndim != 2:
        raise DataError(f"weights have shape {array.shape}. They must have shape (n, m).")
    if array.size == 0:
        raise DataError(f"weights have shape {array.shape}: there must be instances and items.")
    mask = None if available is None else _mask(available, array.shape, "weights")
    origin = ArrayOrigin(array.shape, mask)
    counts = np.full(len(array), array.shape[1]) if mask is None else mask.sum(axis=1)
    instances = Instances(
        prediction=origin.gather(array),
        offsets=np.concatenate(([0], np.cumsum(counts))),
        origin=origin,
        item=origin.flat_column("item").astype(np.int32),
    )
    _refuse_outside(instances.prediction, "weight", instances, -np.inf, np.inf)
    return instances
