"""Wide data: arrays, or frames whose columns are the items, enter; the same kind leaves."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from outrule.errors import DataError


def library_of(values: Any) -> str | None:
    """``"pandas"`` or ``"polars"`` for a frame of theirs; neither is imported to find out."""
    for name in ("pandas", "polars"):
        frame = getattr(sys.modules.get(name), "DataFrame", None)
        if frame is not None and isinstance(values, frame):
            return name
    return None


def read(predictions: Any) -> Any:
    """Predictions for the door; what scikit-learn refuses is refused here, in its words too."""
    if issparse(predictions):
        raise DataError(
            "predictions came as a sparse matrix, and sparse data is not supported: "
            "give predictions.toarray()."
        )
    array = to_array(predictions, "predictions")
    if not _has_numbers(array):
        return array
    if array.ndim != 2:
        raise DataError(
            f"predictions have shape {array.shape}. They must have shape (n, m). "
            "Reshape your data: one instance is predictions.reshape(1, -1)."
        )
    if array.shape[0] and not array.shape[1]:
        raise DataError(
            f"predictions have shape {array.shape}: there must be instances and items. Found 0 "
            f"feature(s) (shape={array.shape}) while a minimum of 1 is required."
        )
    return array


def to_array(values: Any, name: str) -> Any:
    """An array of numbers; anything else comes back as it is, for the door to refuse."""
    if values is None or isinstance(values, np.ma.MaskedArray):
        return values
    try:
        array = np.asarray(values)
        if array.dtype.kind == "O" and library_of(values) == "pandas":
            array = values.to_numpy(dtype=np.float64, na_value=np.nan)
        elif array.dtype.kind == "O":
            array = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        return values
    if array.dtype.kind == "c":
        raise DataError(f"{name} hold complex numbers. Complex data not supported.")
    return array if _has_numbers(array) else values


def _has_numbers(array: Any) -> bool:
    plain = isinstance(array, np.ndarray) and not isinstance(array, np.ma.MaskedArray)
    return plain and array.dtype.kind in "bfiu"


def check_same_columns(predictions: Any, values: Any, name: str) -> None:
    """Refuse a second frame that shares columns with the first, but not at the same places."""
    if library_of(predictions) is None or library_of(values) is None:
        return
    expected, got = list(predictions.columns), list(values.columns)
    if expected == got or set(expected).isdisjoint(got):
        return
    places = range(max(len(expected), len(got)))
    where = next(i for i in places if expected[i : i + 1] != got[i : i + 1])
    words = [repr(names[where]) if where < len(names) else "none" for names in (got, expected)]
    raise DataError(
        f"column {where} of {name} is {words[0]}, that of the predictions {words[1]}. Both must "
        f"have the same columns in the same order: give {name}[predictions.columns]."
    )


def names_in(values: Any) -> NDArray[Any] | None:
    """The names of a frame's columns, where they are text; None otherwise, as for an array."""
    names = [] if library_of(values) is None else list(values.columns)
    texts = sum(isinstance(name, str) for name in names)
    if 0 < texts < len(names):
        raise DataError(
            "some columns of the predictions are named by text, some are not: name all by text."
        )
    return np.array(names, dtype=object) if texts else None


def check_like_fit(estimator: Any, predictions: Any, array: Any) -> None:
    """Refuse another number of items, and a frame whose columns are not those of ``fit``."""
    expected = getattr(estimator, "n_features_in_", None)
    if expected is None or not _has_numbers(array):
        return
    got = array.shape[1]
    owner = type(estimator).__name__
    fitted: Any = getattr(estimator, "feature_names_in_", None)
    names = None if fitted is None else names_in(predictions)
    words = "the columns of the predictions are not those of fit"
    if got != expected:
        words = f"predictions have {got} items, those of fit had {expected}"
    if names is not None and not np.array_equal(names, fitted):
        raise DataError(f"{words}: {_difference(names.tolist(), fitted.tolist())}")
    if got != expected:
        counts = f"X has {got} features, but {owner} is expecting {expected} features as input"
        raise DataError(f"{words}: {counts}.")
    if fitted is not None and names is None:
        warnings.warn(
            f"X does not have valid feature names, but {owner} was fitted with feature names: "
            "items are taken in the order in which they stand.",
            stacklevel=5,
        )


def _difference(names: list[str], fitted: list[str]) -> str:
    """In the words of scikit-learn."""
    lines = ["The feature names should match those that were passed during fit."]
    unseen, missing = set(names).difference(fitted), set(fitted).difference(names)
    if unseen:
        lines += ["Feature names unseen at fit time:", *_some(unseen)]
    if missing:
        lines += ["Feature names seen at fit time, yet now missing:", *_some(missing)]
    if not unseen and not missing:
        lines.append("Feature names must be in the same order as they were in fit.")
    return "\n".join([*lines, ""])


def _some(names: set[str], most: int = 5) -> list[str]:
    shown = [f"- {name}" for name in sorted(names)[:most]]
    return shown if len(names) <= most else [*shown, "- ..."]


def columns(features: Any) -> dict[str, NDArray[Any]]:
    """The columns of a frame by name, for rules; none for anything else."""
    if library_of(features) is None:
        return {}
    names = [str(name) for name in features.columns]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"X has two columns {twice!r}: rename or drop one.")
    return {str(name): features[name].to_numpy() for name in features.columns}


def restore(array: NDArray[Any], like: Any) -> Any:
    """The array as a frame with the columns and the index of ``like``, if that is a frame."""
    library = library_of(like)
    if library == "pandas":
        import pandas as pd

        return pd.DataFrame(array, index=like.index, columns=like.columns)
    if library == "polars":
        import polars as pl

        return pl.DataFrame(array, schema=like.columns)
    return array
