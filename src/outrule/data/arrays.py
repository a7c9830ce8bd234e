"""Reads arrays and wide frames: one row per instance, one column per item."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outrule.data.origin import ArrayOrigin
from outrule.errors import DataError
from outrule.types import Booleans, Floats, Integers


def read_arrays(
    predictions: Any,
    outcomes: ArrayLike | None = None,
    *,
    available: ArrayLike | None = None,
    start: ArrayLike | None = None,
    weight: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    columns: Mapping[str, ArrayLike] | None = None,
    propensity: ArrayLike | None = None,
    name: str = "predictions",
) -> dict[str, Any]:
    """The fields of Instances, from arrays of shape (n, m); the values are not yet checked."""
    array = _matrix(predictions, name)
    shape = (array.shape[0], array.shape[1])
    for other, values in (("outcomes", outcomes), ("available", available)):
        _check_same_columns(predictions, values, other)
    mask = None if available is None else _mask(available, shape, name)
    origin = ArrayOrigin(shape, mask, _columns(columns, shape))
    return {
        "prediction": origin.gather(array),
        "offsets": _offsets(origin),
        "origin": origin,
        "outcome": _same_shape(outcomes, "outcomes", origin),
        "start": _same_shape(start, "start predictions", origin),
        "weight": _weights(weight, shape[0]),
        "cluster": _clusters(cluster, shape[0]),
        "propensity": _propensity(propensity, origin),
    }


def numeric(values: Any, name: str) -> Floats:
    """Any numbers as a contiguous float64 array."""
    array = _plain(values, name)
    if array.dtype.kind == "c":
        raise DataError(f"{name} hold complex numbers. Complex data not supported.")
    try:
        if array.dtype.kind == "O" and library_of(values) == "pandas":  # nullable columns
            array = values.to_numpy(dtype=np.float64, na_value=np.nan)
        if array.dtype.kind not in "bfiuO":
            raise ValueError
        return np.ascontiguousarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        is_table = hasattr(type(values), "columns")
        hint = " For a table with one row per item, use Instances.from_table."
        raise DataError(f"{name} cannot be read as numbers.{hint if is_table else ''}") from None


def library_of(values: Any) -> str | None:
    """``"pandas"`` or ``"polars"`` for a data frame of theirs; imports neither to find out."""
    for name in ("pandas", "polars"):
        frame = getattr(sys.modules.get(name), "DataFrame", None)
        if frame is not None and isinstance(values, frame):
            return name
    return None


def _matrix(values: Any, name: str) -> Floats:
    array = numeric(values, name)
    if array.ndim != 2:
        raise DataError(
            f"{name} have shape {array.shape}. They must have shape (n, m). "
            f"Reshape your data: one instance is {name}.reshape(1, -1)."
        )
    if not array.size:
        missing = "sample(s)" if not array.shape[0] else "feature(s)"
        raise DataError(
            f"{name} have shape {array.shape}: there must be instances and items. Found 0 "
            f"{missing} (shape={array.shape}) while a minimum of 1 is required."
        )
    return array


def _plain(values: Any, name: str) -> NDArray[Any]:
    """Any array-like as an array; not where it is sparse, masked, or its rows differ in length."""
    sparse = sys.modules.get("scipy.sparse")  # not loaded: then it is none of its matrices
    if sparse is not None and sparse.issparse(values):
        raise DataError(
            f"{name} came as a sparse matrix, and sparse data is not supported: "
            f"give {name}.toarray()."
        )
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


def _check_same_columns(predictions: Any, values: Any, name: str) -> None:
    """A second frame may not have the columns of the first in other places."""
    if library_of(predictions) is None or library_of(values) is None:
        return
    expected, got = list(predictions.columns), list(values.columns)
    if expected == got or set(expected).isdisjoint(got):
        return
    places = range(max(len(expected), len(got)))
    where = next(i for i in places if expected[i : i + 1] != got[i : i + 1])
    words = [repr(names[where]) if where < len(names) else "none" for names in (got, expected)]
    raise DataError(
        f"column {where} of {name} is {words[0]}, but that of the predictions is {words[1]}. "
        f"Both must have the same columns in the same order: give {name}[predictions.columns]."
    )


def _offsets(origin: ArrayOrigin) -> Integers:
    """The position of every instance's first item on offer, and the end."""
    n, m = origin.shape
    if origin.available is None:
        return np.arange(0, (n + 1) * m, m)
    return np.concatenate(([0], np.cumsum(origin.available.sum(axis=1))))


def _mask(available: ArrayLike, shape: tuple[int, int], like: str) -> Booleans:
    mask = _plain(available, "available")
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
            f"{name} have shape {array.shape}, but the predictions have shape {origin.shape}. "
            "They must have the same shape."
        )
    return origin.gather(array)


def _propensity(values: ArrayLike | None, origin: ArrayOrigin) -> Floats | None:
    """One for each item, or a number for all of them."""
    if values is not None and np.ndim(values) == 0:
        values = np.full(origin.shape, numeric(values, "propensities"))
    return _same_shape(values, "propensities", origin)


def _weights(values: ArrayLike | None, n: int) -> Floats | None:
    return None if values is None else _per_instance(numeric(values, "weights"), "weights", n)


def _clusters(values: ArrayLike | None, n: int) -> Integers | None:
    if values is None:
        return None
    array = _per_instance(_plain(values, "clusters"), "clusters", n)
    null = np.array([is_null(value) for value in array.tolist()])
    if null.any():
        raise DataError(
            f"cluster is null at instance {int(np.argmax(null))}. "
            "Every instance must have a cluster: fill it, or drop the instance."
        )
    if array.dtype.kind == "O":
        array = np.array([repr(value) for value in array.tolist()])
    return np.unique(array, return_inverse=True)[1].astype(np.int64)


def _per_instance(array: NDArray[Any], name: str, n: int) -> NDArray[Any]:
    if array.shape != (n,):
        raise DataError(f"{name} have shape {array.shape}. They must have shape ({n},).")
    return array


def is_null(value: Any) -> bool:
    """Whether it is None, NaN, NaT, or pandas' NA, whose comparisons raise."""
    try:
        return value is None or bool(value != value)
    except TypeError:
        return True


def _columns(
    columns: Mapping[str, ArrayLike] | None, shape: tuple[int, int]
) -> dict[str, NDArray[Any]]:
    arrays = {name: _plain(column, f"column {name!r}") for name, column in (columns or {}).items()}
    for name, array in arrays.items():
        if name == "item":
            raise DataError(
                "column 'item' is reserved for the number of every item. Give it another name."
            )
        if array.shape not in (shape, shape[:1]):
            raise DataError(
                f"column {name!r} has shape {array.shape}. It must have shape {shape[:1]} "
                f"(one entry per instance) or {shape} (one per item)."
            )
    return arrays
