"""Evaluates an expression on instances: one flat NumPy column of weights or choices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from polars.exceptions import PanicException, PolarsError

from outrule.data.instances import Instances
from outrule.data.origin import TableOrigin
from outrule.errors import DataError
from outrule.rules.sql.grammar import COMPARISONS, Expression, Node, read
from outrule.rules.sql.tokens import fault, place
from outrule.rules.sql.words import FUNCTIONS, OPERATIONS, Takes
from outrule.types import Booleans, Floats

Types = tuple[tuple[str, Any], ...]  # the columns of an expression and what they hold
NUMBERS, CHOICES = "numbers", "true or false"
COMPARING = (*COMPARISONS, "IN", "IS DISTINCT FROM")


class Term(NamedTuple):
    """A part of an expression for Polars, and its type."""

    polars: Any
    type: Any


def weights(text: str, rule: str, instances: Instances) -> Floats:
    """The numbers that an expression gives, one per item on offer; NULL is an error."""
    array: Floats = _array(text, rule, instances, NUMBERS, "the weight", "COALESCE(..., 0)")
    return array.astype(np.float64, copy=False)


def choice(text: str, rule: str, instances: Instances) -> Booleans:
    """True where an expression chooses, one per item on offer; NULL is an error."""
    array: Booleans = _array(text, rule, instances, CHOICES, "the choice", "COALESCE(..., FALSE)")
    return array


def check_types(text: str, rule: str, instances: Instances, *, chooses: bool = False) -> None:
    """Raise if a column is missing, or has a type that the expression cannot use."""
    with _said_by(rule):
        expression = read(text)
        columns = _columns(expression, instances.slice(0, 1))
        _build(expression, tuple(columns.schema.items()), CHOICES if chooses else NUMBERS)


def evaluate(expression: Expression, instances: Instances, result: str | None = None) -> Any:
    """The column that an expression gives, a Polars series; of one row where it is constant."""
    columns = _columns(expression, instances)
    built = _build(expression, tuple(columns.schema.items()), result)
    try:
        return columns.select(built.polars.alias("result"))["result"]
    except (PolarsError, PanicException) as error:
        raise DataError(f"{_first_line(error)}.") from None


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


def _array(
    text: str, rule: str, instances: Instances, result: str, noun: str, replacement: str
) -> Any:
    """The values of an expression as an array, one per item on offer."""
    with _said_by(rule):
        column = evaluate(read(text), instances, result)
        if column.null_count():
            where = instances.where_flat(int(column.is_null().arg_max()))
            raise DataError(
                f"{noun} is NULL at {where}. CASE without ELSE gives NULL, and so do missing "
                f"values and division by zero: {replacement} replaces it."
            )
    array = column.cast(pl.Float64 if result == NUMBERS else pl.Boolean).to_numpy(writable=True)
    n = len(instances.prediction)
    return array if len(array) == n else np.full(n, array[0])


@contextmanager
def _said_by(rule: str) -> Iterator[None]:
    """Put the name of the rule before the message of an error."""
    try:
        yield
    except ValueError as error:
        raise DataError(f"rule {rule!r}: {error}") from None


def _columns(expression: Expression, instances: Instances) -> Any:
    """The columns that the expression names; after a space, as Polars reads ^...$ as a pattern."""
    origin, known = instances.origin, columns_of(instances)
    outcome = origin.names.outcome if isinstance(origin, TableOrigin) else None
    faults = column_faults(expression, known, outcome)
    if faults:
        words = ", ".join(repr(name) for name in known)
        raise DataError(f"{' '.join(faults)} The columns are: {words}.")
    names = dict.fromkeys(use.name for use in expression.uses)
    return pl.DataFrame([_column(instances, name).rename(f" {name}") for name in names])


def _column(instances: Instances, name: str) -> Any:
    """One column, in the types that expressions work with."""
    origin = instances.origin
    try:
        if isinstance(origin, TableOrigin) and name in origin.frame.columns:
            return _plain(origin.frame[name])
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


@lru_cache(maxsize=1024)
def _build(expression: Expression, types: Types, result: str | None) -> Term:
    """The expression for Polars; an error says where types do not fit.

    Without recursion, since chains of operators are longer than Python's stack is deep.
    """
    made: dict[int, Term] = {}
    for node in expression.nodes:
        terms = [made[id(part)] for part in node.parts]
        kind = _type_of(node, terms, expression.text, dict(types))
        made[id(node)] = Term(_apply(node, terms, expression.text), kind)
    built = made[id(expression.root)]
    good = built.type in (pl.Boolean, pl.Null) or (result == NUMBERS and built.type.is_numeric())
    if result is not None and not good:
        raise DataError(f"the expression gives {built.type}. It must give {result}.")
    return built


def _apply(node: Node, terms: Sequence[Term], text: str) -> Any:
    """The operation of a node on these terms."""
    if node.operation == "column":
        return pl.col(f" {node.values[0]}")
    if node.operation == "constant":
        value = node.values[0]
        return pl.lit(value, dtype=pl.Int64) if type(value) is int else pl.lit(value)
    if node.operation == "IN":
        return _one_of(node, terms)
    word = FUNCTIONS.get(node.operation) or OPERATIONS[node.operation]
    operands = [_operand(node, i, term, word.takes, text) for i, term in enumerate(terms)]
    source = (terms[0].type,) if node.operation == "CAST" else ()
    return word.make(*operands, *node.values, *source)


def _operand(node: Node, i: int, term: Term, takes: Takes, text: str) -> Any:
    """One operand as the operation takes it."""
    if takes is Takes.NUMBERS and (term.type == pl.Boolean or term.type.is_integer()):
        return term.polars.cast(pl.Float64)
    is_test = takes is Takes.BRANCHES and i % 2 == 0 and i < len(node.parts) - 1
    if is_test or takes is Takes.CONDITIONS:
        if term.type == pl.Null:
            return term.polars.cast(pl.Boolean)
        if term.type != pl.Boolean:
            words = f"{node.operation} needs true or false, not {term.type},"
            raise fault(text, node.parts[i].start, words)
    return term.polars


def _one_of(node: Node, terms: Sequence[Term]) -> Any:
    """Whether the first term is one of the others; constants of its type are looked up."""
    left, *others = terms
    if all(part.operation == "constant" for part in node.parts[1:]):
        values = [part.values[0] for part in node.parts[1:]]
        kinds = {type(value) for value in values}
        if left.type == pl.Float64 and kinds <= {int, float}:
            return left.polars.is_in([float(value) for value in values])
        if kinds == {{pl.Int64: int, pl.String: str}.get(left.type)}:
            return left.polars.is_in(values)
    return pl.any_horizontal(*(left.polars == term.polars for term in others))


def _type_of(node: Node, terms: Sequence[Term], text: str, types: dict[str, Any]) -> Any:
    """The type of an operation, tried on no rows; columns stand for its operands, to be cheap."""
    _check_moments(node, terms, text)
    stand_ins = []
    for i, (part, term) in enumerate(zip(node.parts, terms, strict=True)):
        if part.operation not in ("column", "constant"):
            types[f"operand {i + 1}"] = term.type
            term = Term(pl.col(f"operand {i + 1}"), term.type)
        stand_ins.append(term)
    try:
        tried = _apply(node, stand_ins, text).alias("type")
        return pl.DataFrame(schema=types).select(tried).schema["type"]
    except (PolarsError, PanicException) as error:
        raise fault(text, node.start, f"{_first_line(error)},") from None


def _check_moments(node: Node, terms: Sequence[Term], text: str) -> None:
    """Dates and times cannot be compared with numbers, which Polars would do, or with strings."""
    if node.operation not in COMPARING:
        return
    kinds = [term.type for term in terms]
    if any(kind in (pl.Date, pl.Datetime, pl.Time) for kind in kinds):
        for kind in kinds:
            if kind == pl.String or kind.is_numeric():
                noun = "a string" if kind == pl.String else "a number"
                words = f"a date or time cannot be compared with {noun}"
                advice = "Write DATE '2024-01-31', or CAST(... AS DATE) for a column of strings."
                raise fault(text, node.start, words, advice)


def _first_line(error: BaseException) -> str:
    """What Polars says, without the expression as Polars writes it."""
    return str(error).partition("\n")[0].rstrip(". ").replace("column ' ", "column '")
