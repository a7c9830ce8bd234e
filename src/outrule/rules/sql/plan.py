"""Turns an expression into a few Polars selections, once for every text and types of columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import polars as pl
from polars.exceptions import PanicException, PolarsError

from outrule.errors import ArgumentError
from outrule.rules.sql.grammar import COMPARISONS, Node, read
from outrule.rules.sql.ranges import bounded, exact, is_inside, limits, range_words
from outrule.rules.sql.tokens import fault
from outrule.rules.sql.words import WORDS

# Polars processes a tree of operations by recursion: where the stack overflows, the process ends.
DEEPEST = 8
COMPARING = (*COMPARISONS, "IN", "IS DISTINCT FROM")
COMBINING = ("CASE", "IF", "COALESCE", "GREATEST", "IFNULL", "LEAST", "NULLIF")
MOMENTS = (pl.Date, pl.Datetime, pl.Time)


class Term(NamedTuple):
    """The value of an operation, before there are rows."""

    polars: Any
    kind: Any
    constant: Any = None  # a series of one row
    depth: int = 0
    level: int = 0  # of the steps that it needs
    nan: bool = False  # NaN stands for NULL; as an operand it is the largest number to Polars


class PlanStep(NamedTuple):
    """A column that is computed from columns of lower levels."""

    level: int
    name: str
    polars: Any
    start: int


class Plan(NamedTuple):
    """All steps of an expression; ``result`` is a constant, or the name of a column."""

    steps: Sequence[PlanStep]
    result: Any
    kind: Any


def run(text: str, columns: Sequence[Any]) -> Any:
    """The series of an expression, whose columns are given in the order of their first use."""
    kinds = tuple(column.dtype for column in columns)
    made = plan(text, kinds)
    if isinstance(made.result, pl.Series):
        return made.result
    rows = first = pl.DataFrame({_name(i): column for i, column in enumerate(columns)})
    try:
        for level in range(made.steps[-1].level + 1 if made.steps else 0):
            steps = (step for step in made.steps if step.level == level)
            rows = rows.with_columns(step.polars.alias(step.name) for step in steps)
    except (PolarsError, PanicException):
        return _run_one_by_one(text, kinds, first)
    return _result(made, rows)


def _run_one_by_one(text: str, kinds: tuple[Any, ...], rows: Any) -> Any:
    """The same, operation by operation: an error can say at which.

    And where a condition holds nowhere, Polars may answer with one row, which stands for all.
    """
    made = plan(text, kinds, deepest=0)
    for step in made.steps:
        try:
            column = rows.select(step.polars.alias(step.name)).to_series()
        except (PolarsError, PanicException) as error:
            raise _fault(error, text, step.start) from None
        whole = column if len(column) == rows.height else column.new_from_index(0, rows.height)
        rows = rows.with_columns(whole)
    return _result(made, rows)


def _result(made: Plan, rows: Any) -> Any:
    values = rows[made.result]
    return values.fill_nan(None) if values.dtype == pl.Float64 else values


@lru_cache(maxsize=1024)
def plan(text: str, kinds: tuple[Any, ...], deepest: int = DEEPEST) -> Plan:
    """The steps of an expression on columns of these types; raises where a type does not fit."""
    nodes, uses = read(text).nodes, read(text).uses
    numbers = {name: i for i, name in enumerate(dict.fromkeys(use.name for use in uses))}
    empty = pl.DataFrame(schema={_name(i): kind for i, kind in enumerate(kinds)})
    copies = _count_copies(nodes)
    # The nodes whose value goes where NaN and NULL differ.
    sensitive = {id(part) for node in nodes if not _passes_nan(node) for part in node.parts}
    terms: dict[int, Term] = {}
    steps: list[PlanStep] = []

    def split(term: Term, start: int) -> Term:
        """The same value as a column of the next level."""
        nonlocal empty
        steps.append(PlanStep(term.level, f"step {len(steps)}", term.polars, start))
        empty = empty.with_columns(term.polars.alias(steps[-1].name))
        return Term(pl.col(steps[-1].name), term.kind, level=term.level + 1, nan=term.nan)

    for node in nodes:
        if node.operation == "column":
            number = numbers[node.values[0]]
            term = Term(pl.col(_name(number)), kinds[number])
        else:
            term = _apply(node, [terms[id(part)] for part in node.parts], empty, text)
        if term.depth and node.operation not in COMBINING and limits(term.kind) is not None:
            whole = split(term, node.start)
            term = whole._replace(polars=bounded(whole.polars, term.kind), depth=1)
        apart = term.depth > deepest or copies[id(node)] > 1 or node is nodes[-1]
        if term.depth and (apart or (term.nan and id(node) in sensitive)):
            term = split(term, node.start)
        terms[id(node)] = term
    result = terms[id(nodes[-1])]
    name = result.polars.meta.output_name() if result.constant is None else result.constant
    return Plan(steps, name, result.kind)


def _count_copies(nodes: Sequence[Node]) -> Counter[int]:
    """How often the Polars expression of a node would be copied into others."""
    copies: Counter[int] = Counter()
    for node in nodes:
        for part in node.parts:
            copies[id(part)] += 2 if WORDS[node.operation].repeats else 1
    return copies


def _passes_nan(node: Node) -> bool:
    """Whether an operation makes NaN of NaN, as it makes NULL of NULL; POWER(NaN, 0) is 1."""
    if node.operation in ("column", "constant", "CASE", "IF"):
        return True
    return WORDS[node.operation].numbers and node.operation != "POWER"


def _name(number: int) -> str:
    return f"column {number}"


def _fault(error: Exception, text: str, start: int) -> ArgumentError:
    """What Polars says of an operation, with its place."""
    words = re.sub(" in column '(column|step) [0-9]+'", "", str(error).partition("\n")[0])
    return fault(text, start, f"{words.rstrip('. ')},")


def _apply(node: Node, terms: Sequence[Term], empty: Any, text: str) -> Term:
    """One operation; computed at once if all its operands are constants."""
    if node.operation == "constant":
        value = node.values[0]
        wide = type(value) is int and not -(2**63) <= value < 2**63
        return _constant(pl.Series([value], dtype=pl.Int128 if wide else None))
    _check_moments(node, terms, text)
    fixed = all(term.constant is not None for term in terms)
    try:
        operands = [_operand(node, i, terms, text) for i in range(len(terms))]
        made = _special(node, terms, operands)
        if made is None:
            source = (terms[0].kind,) if node.operation == "CAST" else ()
            made = WORDS[node.operation].make(*operands, *node.values, *source)
        result = (pl.DataFrame() if fixed else empty).select(made.alias("result"))["result"]
    except (PolarsError, PanicException) as error:
        raise _fault(error, text, node.start) from None
    floats = result.dtype == pl.Float64
    if fixed:
        if not is_inside(result):
            if node.operation == "CAST" and not node.values[1]:  # TRY_CAST
                return _constant(result.clear(1))
            words = f"the result of {node.operation} is {range_words(result.dtype)},"
            raise fault(text, node.start, words)
        return _constant(result.fill_nan(None) if floats else result)
    depth, level = 1 + max(term.depth for term in terms), max(term.level for term in terms)
    return Term(made, result.dtype, None, depth, level, floats)


def _constant(column: Any) -> Term:
    return Term(pl.lit(column.item(), dtype=column.dtype), column.dtype, column)


def _operand(node: Node, i: int, terms: Sequence[Term], text: str) -> Any:
    """One operand as the operation takes it."""
    word, term, kind = WORDS[node.operation], terms[i], terms[i].kind
    lengths = any(term.kind.is_temporal() for term in terms)
    polars = term.polars
    if term.nan and (lengths or not _passes_nan(node)):
        polars = polars.fill_nan(None)
    if word.numbers:
        number = kind == pl.Boolean or kind.is_integer() or (kind == pl.Null and not lengths)
        return polars.cast(pl.Float64) if number else polars
    if i < word.tests and kind not in (pl.Boolean, pl.Null):
        words = f"{node.operation} needs true or false, not {kind},"
        raise fault(text, node.parts[i].start, words)
    return polars.cast(pl.Boolean) if i < word.tests else polars


def _special(node: Node, terms: Sequence[Term], operands: Sequence[Any]) -> Any:
    """Operations that are something else on operands of some types; None for all others."""
    if node.operation in ("+", "-") and all(term.kind == pl.Duration for term in terms):
        return exact(node.operation, *operands)
    return _look_up(node, terms, operands[0]) if node.operation == "IN" else None


def _look_up(node: Node, terms: Sequence[Term], x: Any) -> Any:
    """Whether x is one of many constants of its type; None where there are others."""
    if any(part.operation != "constant" for part in node.parts[1:]):
        return None
    values = [part.values[0] for part in node.parts[1:]]
    kinds, kind = {type(value) for value in values}, terms[0].kind
    if kind == pl.Float64 and kinds <= {int, float}:
        return x.is_in([float(value) for value in values])
    same = all(term.kind == kind for term in terms)
    return x.is_in(values) if same and kind in (pl.Int64, pl.String) else None


def _check_moments(node: Node, terms: Sequence[Term], text: str) -> None:
    """Dates and times are not mixed with numbers or strings, which some versions of Polars do."""
    kinds = [term.kind for term in terms]
    mixed = node.operation in COMPARING or node.operation in COMBINING
    if not mixed or not any(kind in MOMENTS for kind in kinds):
        return
    verb = "compared" if node.operation in COMPARING else "combined"
    for kind in kinds:
        if kind == pl.String or kind.is_numeric():
            noun = "a string" if kind == pl.String else "a number"
            words = f"a date or time cannot be {verb} with {noun}"
            advice = "Write DATE '2024-01-31', or CAST(... AS DATE) for a column of strings."
            raise fault(text, node.start, words, advice)
