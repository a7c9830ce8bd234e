"""Nested tables: one row per instance, with lists of what its items have.

Spark, BigQuery and Snowflake hold them. At the door they become tables with one row per item, and
what is given back becomes lists again. A table is nested if its predictions are lists; then every
list has one entry per item, and every other column one value per instance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from outrule.errors import DataError
from outrule.types import Integers
from outrule.words import count

if TYPE_CHECKING:
    from outrule.data.origin import ColumnNames  # which nests what it restores

PER_ITEM = ("item", "outcome", "start", "observed")


class Unnested(NamedTuple):
    """A table with one row per item, and the row of the nested table that each came from."""

    frame: pl.DataFrame
    owners: Integers | None  # None: it was not nested


def is_nested(column: pl.Series) -> bool:
    """Whether a column holds lists."""
    return isinstance(column.dtype, pl.List | pl.Array)


def unnest(table: pl.DataFrame, names: ColumnNames) -> Unnested:
    """The table with one row per item; the columns that are named exist, and have their roles."""
    if names.prediction not in table.columns or not is_nested(table[names.prediction]):
        return Unnested(table, None)
    _check_roles(table, names)
    # Methods of a Series that is called ^x$ go wrong, so none has a name for a moment.
    columns = {name: table[name].alias("") for name in table.columns}
    lists = {
        name: one.cast(pl.List(inner_type(one))) for name, one in columns.items() if is_nested(one)
    }
    lengths = _lengths(lists, names.prediction)
    owners = np.repeat(np.arange(table.height), lengths)
    flat = [
        (lists[name].explode() if name in lists else column.gather(owners)).alias(name)
        for name, column in columns.items()
    ]
    return Unnested(pl.DataFrame(flat), owners)


def nest(flat: pl.Series, owners: Integers) -> pl.Series:
    """A list for each run of equal owners."""
    pairs = pl.DataFrame({"owner": owners, "value": flat})
    return pairs.group_by("owner", maintain_order=True).agg("value")["value"].alias("")


def inner_type(column: pl.Series) -> pl.DataType:
    """The type of a column's entries, in lists or not."""
    inner = getattr(column.dtype, "inner", None) if is_nested(column) else None
    return column.dtype if inner is None else inner


def _check_roles(table: pl.DataFrame, names: ColumnNames) -> None:
    """Raise for a list where an instance has one value, and for one value where items have many."""
    for role, name in names.roles.items():
        if name not in table.columns:
            continue  # which is said elsewhere
        nested = is_nested(table[name])
        if nested and role in ("instance", "weight", "cluster"):
            raise DataError(
                f"{role} column {name!r} holds lists. In a table with one row per instance it must "
                "have one value per row."
            )
        if not nested and role in PER_ITEM:
            raise DataError(
                f"{role} column {name!r} holds {table[name].dtype}, but {names.prediction!r} holds "
                "lists. Both must be lists, with one entry per item."
            )
    if names.instance in table.columns:
        again = table[names.instance].alias("").is_duplicated()
        if again.any():
            rows = again.arg_true().to_list()
            raise DataError(
                f"instance {table[names.instance][rows[0]]!r} is in several rows, first in row "
                f"{rows[0]} of the table. With lists of items, there is one row per instance."
            )


def _lengths(lists: dict[str, pl.Series], prediction: str) -> Integers:
    """How many items every row has, by its predictions; the other lists must agree."""
    lengths = {name: one.list.len().fill_null(0).to_numpy() for name, one in lists.items()}
    expected = lengths.pop(prediction).astype(np.int64)
    if not expected.all():
        words = f"prediction column {prediction!r} is null or empty"
        rows = np.flatnonzero(expected == 0).tolist()
        rest = "An instance must have at least one item: drop the row."
        faults = dict.fromkeys(rows, words)
        raise DataError(f"{words} in row {rows[0]} of the table. {rest}", faults)
    for name, found in lengths.items():
        rows = np.flatnonzero(found != expected).tolist()
        if rows:
            faults = {
                row: f"column {name!r} has {count(found[row], 'entry')}, but {prediction!r} has "
                f"{expected[row]}"
                for row in rows
            }
            raise DataError(
                f"{faults[rows[0]]} in row {rows[0]} of the table. All lists of a row must have "
                "one entry per item, perhaps null: correct the row, or drop the column.",
                faults,
            )
    return expected
