"""The batches of a table: one, or as many as a column says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from outrule.cli.work.files import read_as_trained
from outrule.data.instances import Instances
from outrule.data.origin import missing
from outrule.data.table_files import read_table
from outrule.data.tables import without
from outrule.errors import DataError
from outrule.model.model import Model
from outrule.watching.keys import as_key, in_order

Batch = tuple[Any, Instances, Any]  # key, instances, and outcomes in the order of the rows


def read_batches(model: Model, table: str, key: str | None, column: str | None) -> Iterator[Batch]:
    """The batches of a table in the order of their keys; outcomes that are null are NaN."""
    frame, names = read_table(table), model.columns
    assert names is not None
    outcome = _outcome(frame, names.outcome)
    kept = without(frame, *names.hidden)
    instances = read_as_trained(model, kept, names.before_decision())
    if column is None:
        yield key, instances, outcome
        return
    for one, chosen in _split(instances, column):
        batch = instances.take(np.array(chosen))
        yield one, batch, outcome[np.sort(batch.origin.rows)]  # type: ignore[attr-defined] # a table


def _outcome(frame: pl.DataFrame, name: str | None) -> Any:
    """The outcomes in the order of the rows, NaN where there are none."""
    if name is None:
        raise DataError("the model was fitted without an outcome column: use it from Python.")
    if name not in frame.columns:
        raise DataError(f"the outcome {missing(name, frame.columns)}")
    column = frame[name].alias("")  # a name like ^x$ would be taken for a pattern
    if not (column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null)):
        raise DataError(f"column {name!r} holds {column.dtype}. It must hold numbers.")
    return column.cast(pl.Float64).fill_null(np.nan).to_numpy()


def _split(instances: Instances, name: str) -> Iterator[tuple[Any, list[int]]]:
    """The instances of every key, in the order of the keys."""
    frame: pl.DataFrame = instances.origin.frame  # type: ignore[attr-defined] # a table
    if name not in frame.columns:
        raise DataError(f"the batch {missing(name, frame.columns)}")
    column = frame[name].alias("")  # a name like ^x$ would be taken for a pattern
    if column.null_count():
        where = instances.where_flat(int(column.is_null().arg_max() or 0))
        raise DataError(f"column {name!r} is null at {where}. Every row must have its batch.")
    first = instances.offsets[:-1]
    differs = column != column.gather(np.repeat(first, np.diff(instances.offsets)))
    if differs.any():
        where = instances.where_flat(int(differs.arg_max() or 0))
        raise DataError(f"column {name!r} differs within an instance, at {where}.")
    keys = {value: as_key(value) for value in column.unique().to_list()}
    groups: dict[Any, list[int]] = {}
    for number, value in enumerate(column.gather(first).to_list()):
        groups.setdefault(keys[value], []).append(number)
    for key in in_order(groups):
        yield key, groups[key]
