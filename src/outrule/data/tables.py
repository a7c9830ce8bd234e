"""Reads tables with one row per item or instance, from any data frame library, into Polars."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from outrule.data.arrays import numeric
from outrule.data.checks import must_be_finite
from outrule.data.nesting import unnest
from outrule.data.origin import ColumnNames, TableOrigin, fault, missing
from outrule.data.propensities import check_observed, no_outcome
from outrule.errors import DataError, refuse_argument
from outrule.threads import check_forks
from outrule.types import Booleans, Floats, Integers


def read_frame(frame: Any, names: ColumnNames) -> dict[str, Any]:
    """The fields of Instances, from a table; the values are not yet checked."""
    given, library = to_polars(frame)
    names = _find(names, given.columns)
    table, owners = unnest(given, names)
    if table.height == 0:
        raise DataError("the table has no rows: there must be at least one instance.")
    codes, labels = _codes(table, names.instance, "instance")
    item, item_names = (None, None) if names.item is None else number_items(table, names.item)
    rows = np.lexsort((codes,)) if item is None else np.lexsort((item, codes))
    ordered = table[rows]
    index = frame.index if library == "pandas" else None
    offsets = np.concatenate(([0], np.cumsum(np.bincount(codes, minlength=len(labels)))))
    kept = without(ordered, *names.hidden)
    origin = TableOrigin(kept, rows, labels, names, library, index, owners)
    for role in ("prediction", "outcome", "start"):
        if role != "outcome" or names.propensity is None:
            _check_nulls(ordered, role, getattr(names, role), origin, offsets)
    outcome = _optional(ordered, names.outcome)
    if names.observed is not None and outcome is not None:
        check_observed(_flags(ordered, names.observed), outcome, origin, offsets)
    return {
        "prediction": _numbers(ordered, names.prediction),
        "offsets": offsets,
        "origin": origin,
        "outcome": outcome,
        "start": _optional(ordered, names.start),
        "codes": None if item is None else item[rows].astype(np.int32),
        "item_names": item_names,
        "weight": _constant(_optional(ordered, names.weight), offsets, labels, names.weight),
        "cluster": _clusters(table, names.cluster, rows, offsets, labels),
        "propensity": _propensity(ordered, names.propensity),
        "propensity_estimated": names.propensity_estimated,
    }


def without(table: pl.DataFrame, *names: str | None) -> pl.DataFrame:
    """The table without some columns; ``drop`` would take ``*`` or ``^x$`` for a pattern."""
    return pl.DataFrame([column for column in table.get_columns() if column.name not in names])


def _find(names: ColumnNames, columns: list[str]) -> ColumnNames:
    """The names as strings; every column must exist, and the outcome have no other role."""
    text: dict[str, Any] = {
        role: None if name is None else str(name)
        for role, name in vars(names).items()
        if role != "propensity_estimated" and not isinstance(name, float)
    }
    for role, name in text.items():
        required = role in ("instance", "prediction")
        if (required or name is not None) and name not in columns:
            raise DataError(f"the {role} {missing(name, columns)}")
    found = replace(names, **text)
    outcome = text.pop("outcome")
    if outcome is not None and outcome in text.values():
        expected = "a column that no other argument names"
        raise refuse_argument(outcome, "outcome", "Instances.from_table", expected)
    return found


def to_polars(frame: Any) -> tuple[pl.DataFrame, str]:
    """The table as a Polars frame, and the library it came from."""
    check_forks()
    if isinstance(frame, pl.LazyFrame):
        return frame.collect(), "polars"
    if isinstance(frame, pl.DataFrame):
        return frame, "polars"
    library = type(frame).__module__.split(".")[0]
    if library == "pandas" and hasattr(frame, "columns"):
        return _from_pandas(frame), "pandas"
    if library not in ("pandas", "polars") and hasattr(frame, "__arrow_c_stream__"):
        try:
            return pl.DataFrame(frame), library
        except pl.exceptions.SchemaError:
            pass  # a stream of one column, which is no table
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise DataError(
                f"the table cannot be read by Polars ({error}). Drop or convert the column."
            ) from None
    expected = "a table of pandas, Polars, PyArrow, DuckDB, Ibis or another library with Arrow"
    raise refuse_argument(type(frame), "frame", "Instances.from_table", expected)


def _from_pandas(frame: Any) -> pl.DataFrame:
    """Column by column: pandas exports Arrow only where PyArrow is installed."""
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"the table has two columns {twice!r}: rename or drop one.")
    columns = (_pandas_column(frame.iloc[:, i]) for i in range(len(names)))
    return pl.DataFrame(dict(zip(names, columns, strict=True)))


def _pandas_column(series: Any) -> Any:
    """Numbers and times as they are, the rest by way of Python objects."""
    values = series.to_numpy()
    if values.dtype in ("M8[s]", "m8[s]"):  # Polars starts at milliseconds
        values = values.astype(f"{values.dtype.kind}8[ms]")
    if values.dtype.kind in "bfiuMm":
        return pl.Series(values)
    nulls = series.isna().to_numpy()
    objects = [None if null else value for null, value in zip(nulls, values, strict=True)]
    try:
        return pl.Series(objects)
    except (TypeError, ValueError, pl.exceptions.PolarsError):  # of several types, or of none
        if all(isinstance(value, list | tuple | np.ndarray | None) for value in objects):
            return _lists(objects)
        if all(isinstance(value, Real | None) for value in objects):
            return pl.Series(objects, dtype=pl.Float64, strict=False)
        return pl.Series(objects, dtype=pl.Object)


def _lists(objects: list[Any]) -> Any:
    """Lists whose entries are of one type only if they are taken together, as 0 and 0.5 are."""
    import pandas as pd  # it is there if a frame is of it

    lists = [() if one is None else tuple(one) for one in objects]
    flat = pl.Series(_pandas_column(pd.Series([entry for one in lists for entry in one])))
    ends = np.cumsum([len(one) for one in lists]).tolist()
    return pl.Series(
        [flat.slice(end - len(one), len(one)) for one, end in zip(lists, ends, strict=True)]
    )


def _column(table: Any, name: str) -> Any:
    """A column under another name: methods of a Series that is called ``^x$`` go wrong."""
    return table[name].alias("values")


def _codes(table: Any, name: str, role: str) -> tuple[Integers, Any]:
    """The same as ``number_values``, of a column that must have a name in every row."""
    column = _column(table, name)
    if str(column.dtype) == "Object" or column.dtype.is_nested():
        raise DataError(
            f"{role} column {name!r} holds {column.dtype}, which cannot name the {role}s. "
            "Turn it into strings first, in pandas with .astype(str)."
        )
    null = column.is_null() | column.is_nan() if column.dtype.is_float() else column.is_null()
    if null.any():
        rows = null.arg_true().to_list()
        words = f"{role} column {name!r} is null"
        raise DataError(
            f"{words} in row {rows[0]} of the table. "
            f"Every row must have its {role}: fill it, or drop the row.",
            dict.fromkeys(rows, words),
        )
    return number_values(column)


def number_values(column: pl.Series) -> tuple[Integers, pl.Series]:
    """Codes 0, 1, ... in order of first appearance, and what they stand for; null is a value."""
    values = column.alias("values")
    distinct = values.unique(maintain_order=True)
    lookup = distinct.to_frame().with_row_index("code")
    joined = values.to_frame().join(
        lookup, on="values", how="left", nulls_equal=True, maintain_order="left"
    )
    return joined["code"].to_numpy().astype(np.int64), distinct


def number_items(table: Any, name: str) -> tuple[Integers, tuple[Any, ...]]:
    """Codes in sorted order, so that a table's row order never changes how a tie is broken."""
    codes, labels = _codes(table, name, "item")
    order = labels.arg_sort().to_numpy()
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    if getattr(labels.dtype, "time_zone", None):  # in which Python has some hours twice
        labels = labels.dt.convert_time_zone("UTC")
    names = tuple(labels.gather(order).to_list())
    if len(set(names)) < len(names):  # Python's times end at microseconds
        raise DataError(
            f"item column {name!r} holds {labels.dtype}, and two of its items are the same in "
            "Python. Turn it into strings first."
        )
    return rank[codes], names


def _check_nulls(
    table: Any, role: str, name: str | None, origin: TableOrigin, offsets: Integers
) -> None:
    """What is null is called null, where NaN would be a number that is none."""
    if name is not None and table[name].null_count():
        null = _column(table, name).is_null().arg_true().to_numpy().astype(np.int64)
        rest = must_be_finite(role, "the row")
        if role == "outcome":
            rest = no_outcome(len(null), len(table), "rows")
        raise fault(f"{role} is null", rest, null, origin, offsets)


def check_numbers(column: pl.Series, name: str) -> None:
    """Raise DataError for a column of anything but numbers or true and false."""
    if column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null):
        return
    kind, hint = str(column.dtype), ""
    if column.dtype == pl.String:
        kind, hint = "text", ", such as 0.7, or 1 for yes and 0 for no"
        wrong = column.filter(column.cast(pl.Float64, strict=False).is_null()).drop_nulls()
        if len(wrong):
            kind += f", {str(wrong[0])[:40]!r}"
    raise DataError(f"column {name!r} holds {kind}. It must hold numbers{hint}.")


def _numbers(table: Any, name: str) -> Floats:
    """A column of numbers; nulls become NaN."""
    column = _column(table, name)
    check_numbers(column, name)
    return numeric(column.cast(pl.Float64).fill_null(np.nan).to_numpy(), f"column {name!r}")


def _optional(table: Any, name: str | None) -> Floats | None:
    return None if name is None else _numbers(table, name)


def _propensity(table: Any, given: str | float | None) -> Floats | None:
    return np.full(len(table), given) if isinstance(given, float) else _optional(table, given)


def _flags(table: Any, name: str) -> Booleans:
    """A column of true and false, or of ones and zeros."""
    values = _numbers(table, name)
    if not np.isin(values, (0.0, 1.0)).all():
        raise DataError(f"column {name!r} must hold true or false in every row.")
    return np.asarray(values == 1.0)


def _constant(
    values: NDArray[Any] | None, offsets: Integers, labels: Any, name: str | None
) -> NDArray[Any] | None:
    """One value per instance; its rows may not differ."""
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


def _clusters(
    table: Any, name: str | None, rows: Integers, offsets: Integers, labels: Any
) -> Integers | None:
    if name is None:
        return None
    codes, _ = _codes(table, name, "cluster")
    return _constant(codes[rows], offsets, labels, name)
