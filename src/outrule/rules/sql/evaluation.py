"""Evaluates an expression on instances: one flat NumPy column of weights or choices."""

from __future__ import annotations

import re
from collections import Counter
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
from outrule.rules.sql.grammar import COMPARISONS, Expression, Node, read
from outrule.rules.sql.tokens import fault, place
from outrule.rules.sql.words import WORDS

COMPARING = (*COMPARISONS, "IN", "IS DISTINCT FROM")
MOMENTS = (pl.Date, pl.Datetime, pl.Time)


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
        evaluate(text, instances.slice(0, 1), chooses, no_rows=True)


def evaluate(
    text: str, instances: Instances, chooses: bool | None = None, *, no_rows: bool = False
) -> Any:
    """The series of an expression, of one row if it is constant: one operation after the other.

    No tree of operations reaches Polars, which would process it by recursion: where the stack
    overflows, the process ends.
    """
    expression = read(text)
    columns = _columns(expression, instances)
    n = 0 if no_rows else len(instances.prediction)
    made: dict[int, Any] = {}
    uses = Counter(id(part) for node in expression.nodes for part in node.parts)
    for node in expression.nodes:
        if node.operation == "column":
            made[id(node)] = columns[node.values[0]][:n]
        else:
            made[id(node)] = _apply(node, [made[id(part)] for part in node.parts], n, text)
        for part in node.parts:  # free what is not needed again
            uses[id(part)] -= 1
            if not uses[id(part)]:
                del made[id(part)]
    result = made[id(expression.nodes[-1])]
    good = result.dtype in (pl.Boolean, pl.Null) or (not chooses and result.dtype.is_numeric())
    if chooses is not None and not good:
        wanted = "true or false" if chooses else "numbers"
        raise DataError(f"the expression gives {result.dtype}. It must give {wanted}.")
    return result


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
            faults.setdefault(name, f"column {name!r} {where} is the outcome, hidden from rules.")
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


def _columns(expression: Expression, instances: Instances) -> dict[str, Any]:
    """The columns that the expression names."""
    origin, known = instances.origin, columns_of(instances)
    outcome = origin.names.outcome if isinstance(origin, TableOrigin) else None
    faults = column_faults(expression, known, outcome)
    if faults:
        words = ", ".join(repr(name) for name in known)
        raise DataError(f"{' '.join(faults)} The columns are: {words}.")
    return {name: _column(instances, name) for name, *_ in expression.uses}


def _column(instances: Instances, name: str) -> Any:
    """One column, in the types that expressions work with."""
    origin = instances.origin
    try:
        if isinstance(origin, TableOrigin) and name in origin.frame.columns:
            return _plain(origin.frame[name].alias(""))  # it may be called ^x$, a pattern
        if name == "prediction" and name not in getattr(origin, "columns", ()):
            return pl.Series(instances.prediction)
        values = origin.flat_column(name)
        if values.dtype.kind in "mM":
            values = values.astype(f"{values.dtype.kind}8[us]")  # Polars lacks days and seconds
        return _plain(pl.Series(values.tolist() if values.dtype.kind == "O" else values))
    except (TypeError, ValueError, OverflowError, PolarsError, PanicException):
        raise DataError(f"column {name!r} has a type that expressions cannot use.") from None


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


def _apply(node: Node, terms: Sequence[Any], n: int, text: str) -> Any:
    """The result of one operation; of one row if all its operands are constants."""
    if node.operation == "constant":
        value = node.values[0]
        return pl.Series([value], dtype=pl.Int64 if type(value) is int else None)
    _check_moments(node, terms, text)
    rows = {f"operand {i}": term for i, term in enumerate(terms) if len(term) == n}
    try:
        operands = [_operand(node, i, terms, n, text) for i in range(len(terms))]
        made = _look_up(node, terms, operands[0]) if node.operation == "IN" else None
        if made is None:
            source = (terms[0].dtype,) if node.operation == "CAST" else ()
            made = WORDS[node.operation].make(*operands, *node.values, *source)
        result = pl.DataFrame(rows).select(made.alias("result"))["result"]
    except (PolarsError, PanicException) as error:
        words = re.sub(" in column 'operand [0-9]+'", "", str(error).partition("\n")[0])
        raise fault(text, node.start, f"{words.rstrip('. ')},") from None
    has_nan = result.dtype == pl.Float64 and result.is_nan().any()  # the largest, to Polars
    return result.fill_nan(None) if has_nan else result


def _operand(node: Node, i: int, terms: Sequence[Any], n: int, text: str) -> Any:
    """One operand as the operation takes it."""
    word, term, kind = WORDS[node.operation], terms[i], terms[i].dtype
    polars = pl.col(f"operand {i}") if len(term) == n else pl.lit(term.item(), dtype=kind)
    if word.numbers:
        lengths = any(term.dtype.is_temporal() for term in terms)
        number = kind == pl.Boolean or kind.is_integer() or (kind == pl.Null and not lengths)
        return polars.cast(pl.Float64) if number else polars
    if i < word.tests and kind not in (pl.Boolean, pl.Null):
        words = f"{node.operation} needs true or false, not {kind},"
        raise fault(text, node.parts[i].start, words)
    return polars.cast(pl.Boolean) if i < word.tests else polars


def _look_up(node: Node, terms: Sequence[Any], x: Any) -> Any:
    """Whether x is one of many constants of its type; None where there are others."""
    if any(part.operation != "constant" for part in node.parts[1:]):
        return None
    values = [part.values[0] for part in node.parts[1:]]
    kinds, kind = {type(value) for value in values}, terms[0].dtype
    if kind == pl.Float64 and kinds <= {int, float}:
        return x.is_in([float(value) for value in values])
    return x.is_in(values) if kinds == {{pl.Int64: int, pl.String: str}.get(kind)} else None


def _check_moments(node: Node, terms: Sequence[Any], text: str) -> None:
    """Dates and times cannot be compared with numbers, which Polars would do, or with strings."""
    kinds = [term.dtype for term in terms]
    if node.operation not in COMPARING or not any(kind in MOMENTS for kind in kinds):
        return
    for kind in kinds:
        if kind == pl.String or kind.is_numeric():
            noun = "a string" if kind == pl.String else "a number"
            words = f"a date or time cannot be compared with {noun}"
            advice = "Write DATE '2024-01-31', or CAST(... AS DATE) for a column of strings."
            raise fault(text, node.start, words, advice)
