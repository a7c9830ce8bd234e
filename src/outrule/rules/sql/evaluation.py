"""Evaluation: an expression and instances enter, a flat NumPy column leaves."""

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
    """The numbers that an expression gives, one per item on offer; nulls are refused."""
    with _said_by(rule):
        column = evaluate(read(text), instances, NUMBERS).cast(pl.Float64)
        _refuse_nulls(column, instances, "the weight", "COALESCE(..., 0)")
    array: Floats = _spread(column, instances)
    return array


def choice(text: str, rule: str, instances: Instances) -> Booleans:
    """True where an expression chooses, one per item on offer; nulls are refused."""
    with _said_by(rule):
        column = evaluate(read(text), instances, CHOICES).cast(pl.Boolean)
        _refuse_nulls(column, instances, "the choice", "COALESCE(..., FALSE)")
    array: Booleans = _spread(column, instances)
    return array


def check_types(text: str, rule: str, instances: Instances, *, chooses: bool = False) -> None:
    """Refuse columns that are not there, or that hold what the expression cannot work with."""
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
    """What is wrong with the columns that an expression names, each said once."""
    faults: dict[str, str] = {}
    for name, start, quoted in expression.uses:
        where = place(expression.text, start)
        if name == outcome:
            faults.setdefault(name, f"column {name!r} {where} is the outcome, hidden from rules.")
        elif name not in known:
            words = f"unknown column {name!r} {where}."
            close = get_close_matches(name, known, 1)
            words += f" Did you mean {close[0]!r}?" if close else ""
            words += " Text stands in single quotes." if quoted and not close else ""
            faults.setdefault(name, words)
    return list(faults.values())


@contextmanager
def _said_by(rule: str) -> Iterator[None]:
    """Put the name of the rule before what is wrong with it."""
    try:
        yield
    except ValueError as error:
        raise DataError(f"rule {rule!r}: {error}") from None


def _columns(expression: Expression, instances: Instances) -> Any:
    """The columns that the expression names."""
    origin, known = instances.origin, columns_of(instances)
    outcome = origin.names.outcome if isinstance(origin, TableOrigin) else None
    faults = column_faults(expression, known, outcome)
    if faults:
        words = ", ".join(repr(name) for name in known)
        raise DataError(f"{' '.join(faults)} The columns are: {words}.")
    names = dict.fromkeys(use.name for use in expression.uses)
    return pl.DataFrame([_column(instances, name) for name in names])


def _column(instances: Instances, name: str) -> Any:
    """One column, in the types that expressions work with."""
    try:
        return _plain(_as_it_came(instances, name)).rename(name)
    except (TypeError, ValueError, OverflowError, PolarsError, PanicException):
        raise DataError(f"column {name!r} holds what an expression cannot work with.") from None


def _as_it_came(instances: Instances, name: str) -> Any:
    origin = instances.origin
    if isinstance(origin, TableOrigin) and name in origin.frame.columns:
        return origin.frame[name]
    if name == "prediction" and name not in getattr(origin, "columns", ()):
        return pl.Series(instances.prediction)
    values = origin.flat_column(name)
    if values.dtype.kind in "mM":
        values = values.astype(f"{values.dtype.kind}8[us]")  # Polars has no days, and no seconds
    return pl.Series(values.tolist() if values.dtype.kind == "O" else values)


def _plain(column: Any) -> Any:
    """Numbers without small types, which wrap around; missing ones as null; texts as text."""
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
    """The expression for Polars; refused where types do not fit, saying where that stands."""
    built = _Builder(expression.text, types).build(expression)
    kind = built.type
    good = kind in (pl.Boolean, pl.Null) or (result == NUMBERS and kind.is_numeric())
    if result is not None and not good:
        raise DataError(f"the expression gives {kind}. It must give {result}.")
    return built


class _Builder:
    """Makes the parts of an expression, each with its type."""

    def __init__(self, text: str, types: Types) -> None:
        self.text, self.types = text, dict(types)
        self.made: dict[int, Term] = {}

    def build(self, expression: Expression) -> Term:
        """The whole of it; without recursion, as chains are longer than Python's stack is deep."""
        for node in expression.nodes:
            self.made[id(node)] = self.make(node)
        return self.made[id(expression.root)]

    def make(self, node: Node) -> Term:
        """One part, of others that are made."""
        terms = [self.made[id(part)] for part in node.parts]
        self.refuse_days_as_numbers(node, terms)
        return Term(self.apply(node, terms), self.type_of(node, terms))

    def apply(self, node: Node, terms: Sequence[Term]) -> Any:
        """The operation of a node on such terms."""
        if node.operation == "column":
            return pl.col(node.values[0])
        if node.operation == "constant":
            value = node.values[0]
            return pl.lit(value, dtype=pl.Int64) if type(value) is int else pl.lit(value)
        if node.operation == "IN":
            return _one_of(terms, [part.values[0] for part in node.parts[1:]])
        word = FUNCTIONS.get(node.operation) or OPERATIONS[node.operation]
        operands = [self.operand(node, i, term, word.takes) for i, term in enumerate(terms)]
        return word.make(*operands, *node.values)

    def operand(self, node: Node, i: int, term: Term, takes: Takes) -> Any:
        """One operand as the operation takes it."""
        if takes is Takes.NUMBERS and term.type == pl.Boolean:
            return term.polars.cast(pl.Int64)
        is_test = takes is Takes.BRANCHES and i % 2 == 0 and i < len(node.parts) - 1
        if is_test or takes is Takes.CONDITIONS:
            if term.type == pl.Null:
                return term.polars.cast(pl.Boolean)
            if term.type != pl.Boolean:
                words = f"{node.operation} needs true or false, and not {term.type},"
                raise fault(self.text, node.parts[i].start, words)
        return term.polars

    def refuse_days_as_numbers(self, node: Node, terms: Sequence[Term]) -> None:
        """Refuse ``day > 2024``, which Polars would answer, counting days or seconds."""
        kinds = [term.type for term in terms]
        moment = any(kind in (pl.Date, pl.Datetime, pl.Time) for kind in kinds)
        if node.operation in COMPARING and moment and any(kind.is_numeric() for kind in kinds):
            words = "a date or a time is compared with a number (write DATE '2024-01-31'),"
            raise fault(self.text, node.start, words)

    def type_of(self, node: Node, terms: Sequence[Term]) -> Any:
        """The operation tried on no rows; columns stand for its operands, so that it is cheap."""
        types, stand_ins = dict(self.types), []
        for i, (part, term) in enumerate(zip(node.parts, terms, strict=True)):
            if part.operation in ("column", "constant"):
                stand_ins.append(term)
            else:
                types[f"operand {i + 1}"] = term.type
                stand_ins.append(Term(pl.col(f"operand {i + 1}"), term.type))
        try:
            tried = self.apply(node, stand_ins).alias("type")
            return pl.DataFrame(schema=types).select(tried).schema["type"]
        except (PolarsError, PanicException) as error:
            raise fault(self.text, node.start, f"{_first_line(error)},") from None


def _one_of(terms: Sequence[Term], values: Sequence[Any]) -> Any:
    """Whether the first term is among numbers or texts, whose type must be the term's."""
    left = terms[0]
    if left.type == pl.Float64 and str not in map(type, values):
        return left.polars.is_in([float(value) for value in values])
    kind = {pl.Int64: int, pl.String: str}.get(left.type)
    if {type(value) for value in values} == {kind}:
        return left.polars.is_in(values)
    return pl.any_horizontal(*(left.polars == term.polars for term in terms[1:]))


def _refuse_nulls(column: Any, instances: Instances, noun: str, replacement: str) -> None:
    if column.null_count():
        first = int(column.is_null().arg_max())
        raise DataError(
            f"{noun} is NULL at {instances.where_flat(first)}. CASE without ELSE gives NULL, and "
            f"so do missing values and division by zero: {replacement} replaces it."
        )


def _spread(column: Any, instances: Instances) -> Any:
    """The column as an array; a constant stands for every item."""
    array, n = column.to_numpy(writable=True), len(instances.prediction)
    return array if len(array) == n else np.full(n, array[0])


def _first_line(error: BaseException) -> str:
    """What Polars says, without the expression as Polars writes it."""
    words = str(error).partition("\n")[0].rstrip(". ")
    if "date/datetime/time" in words:
        return "a date or a time is compared with text (write DATE '2024-01-31')"
    return words
