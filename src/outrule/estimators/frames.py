"""Wide data frames at the scikit-learn classes: features in, answers out of the same kind."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from outrule.data.arrays import library_of
from outrule.errors import DataError


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
