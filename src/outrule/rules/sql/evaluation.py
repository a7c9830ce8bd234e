"""Evaluates an expression on instances: one flat NumPy column of weights or choices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.exceptions import PanicException, PolarsError

from outrule.data.instances import Instances
from outrule.data.origin import TableOrigin
from outrule.errors import DataError
from outrule.rules.sql.grammar import Expression, read
from outrule.rules.sql.plan import plan, run
from outrule.rules.sql.ranges import LONGEST, is_inside, range_words
from outrule.rules.sql.tokens import place
from outrule.threads import check_forks


def values(text: str, rule: str, instances: Instances, *, chooses: bool = False) -> NDArray[Any]:
    """The weights of an expression, or its choices, one per item on offer; NULL is an error."""
    with _said_by(rule):
        column = evaluate(text, instances, chooses)
        if column.null_count():
            noun, other = ("choice", "FALSE") if chooses else ("weight", "0")
            null = np.flatnonzero(np.broadcast_to(column.is_null(), instances.prediction.shape))
            rest = (
                ". CASE without ELSE gives NULL, and so do missing values and division by zero: "
                f"COALESCE(..., {other}) replaces it."
            )
            raise instances.fault(f"the {noun} is NULL", rest, null)
    array = column.cast(pl.Boolean if chooses else pl.Float64).to_numpy(writable=True)
    n = len(instances.prediction)
    return array if len(array) == n else np.full(n, array[0])


def check_types(text: str, rule: str, instances: Instances, *, chooses: bool = False) -> None:
    """Raise if a column is missing, or has a type that the expression cannot use."""
    with _said_by(rule):
        _check_result(text, _columns(read(text), instances.slice(0, 1)), chooses)


def evaluate(text: str, instances: Instances, chooses: bool | None = None) -> Any:
    """The series of an expression, of one row if it is constant."""
    columns = _columns(read(text), instances)
    _check_result(text, columns, chooses)
    return run(text, columns)


def columns_of(instances: Instances) -> list[str]:
    """The columns that an expression may name."""
    origin = instances.origin
    if isinstance(origin, TableOrigin):
        names = list(origin.frame.columns)
    else:
        names = [*(name for name, _ in origin.all_columns()), "item"]
    return names if "prediction" in names else [*names, "prediction"]


def column_faults(expression: Expression, known: Sequence[str], outcome: str | None) -> list[str]:
    """What is wrong with the columns that an expression names, each column once."""
    faults: dict[str, str] = {}
    for name, start, quoted in expression.uses:
        where = place(expression.text, start)
        if name == outcome:
            faults.setdefault(
                name, f"column {name!r} {where} is the outcome, which rules may not use."
            )
        elif name not in known:
            words = f"unknown column {name!r} {where}."
            close = get_close_matches(name, known, 1)
            words += f" Did you mean {close[0]!r}?" if close else ""
            words += " Strings are written in single quotes." if quoted and not close else ""
            faults.setdefault(name, words)
    return list(faults.values())


@contextmanager
def _said_by(rule: str) -> Iterator[None]:
    """Put the name of the rule before the message of an error."""
    try:
        yield
    except DataError as error:
        raise error.said_by(f"rule {rule!r}") from None
    except ValueError as error:
        raise DataError(f"rule {rule!r}: {error}") from None


def _check_result(text: str, columns: Sequence[Any], chooses: bool | None) -> None:
    """Raise if the expression does not give what is wanted, or cannot use a column's type."""
    kind = plan(text, tuple(column.dtype for column in columns)).kind
    good = kind in (pl.Boolean, pl.Null) or (not chooses and kind.is_numeric())
    if chooses is not None and not good:
        wanted = "true or false" if chooses else "numbers"
        raise DataError(f"the expression gives {kind}. It must give {wanted}.")


def _columns(expression: Expression, instances: Instances) -> list[Any]:
    """The columns that the expression names, in the order of their first use."""
    check_forks()
    origin, known = instances.origin, columns_of(instances)
    outcome = origin.names.outcome if isinstance(origin, TableOrigin) else None
    faults = column_faults(expression, known, outcome)
    if faults:
        words = ", ".join(repr(name) for name in known)
        raise DataError(f"{' '.join(faults)} The columns are: {words}.")
    return [_column(instances, name) for name in dict.fromkeys(use.name for use in expression.uses)]


def _column(instances: Instances, name: str) -> Any:
    """One column, in the types that expressions work with."""
    try:
        column = _read_column(instances, name)
        if is_inside(column):
            return _plain(column)
    except (TypeError, ValueError, OverflowError, PolarsError, PanicException):
        raise DataError(f"column {name!r} has a type that expressions cannot use.") from None
    raise DataError(f"column {name!r} has a value that is {range_words(column.dtype)}.")


def _read_column(instances: Instances, name: str) -> Any:
    origin = instances.origin
    if isinstance(origin, TableOrigin) and name in origin.frame.columns:
        return origin.frame[name].alias("")  # it may be called ^x$, a pattern
    if name == "prediction" and name not in getattr(origin, "columns", ()):
        return pl.Series(instances.prediction)
    values = origin.flat_column(name)
    if values.dtype.kind in "mM":
        values = _microseconds(values)
    return pl.Series(values.tolist() if values.dtype.kind == "O" else values)


def _microseconds(values: NDArray[Any]) -> NDArray[Any]:
    """Polars lacks days and seconds; what would wrap around becomes a value that is refused."""
    kind = values.dtype.kind
    wide = values.astype(f"{kind}8[us]")
    far = np.abs(values.astype(f"{kind}8[D]").astype(np.int64)) > LONGEST
    return np.where(far & ~np.isnat(values), wide.dtype.type(2**63 - 1, "us"), wide)


def _plain(column: Any) -> Any:
    """Numbers in their widest types, missing ones as NULL, and categories as strings."""
    kind = column.dtype
    if kind.is_float() or kind.is_decimal():
        return column.cast(pl.Float64).fill_nan(None)
    if kind.is_integer():
        wide = str(kind) in ("UInt64", "Int128", "UInt128")
        return column.cast(pl.Int128 if wide else pl.Int64)
    if kind in (pl.Categorical, pl.Enum):
        return column.cast(pl.String)
    if kind in (pl.Datetime, pl.Duration):
        return column.dt.cast_time_unit("us")
    if kind in (pl.Boolean, pl.String, pl.Date, pl.Time, pl.Null):
        return column
    raise TypeError(kind)
