"""Reads the text of a rule into a tree of operations.

Our own parser and not sqlglot's: that one saves few lines, and accepts too much without a trace.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import polars as pl

from outrule.errors import ArgumentError
from outrule.rules.sql.tokens import LONGEST, Token, fault, split
from outrule.rules.sql.words import FUNCTIONS, OTHER_NAMES, PARTS, TIMES, TYPES

NESTING = 20
# Polars processes its trees by recursion, and a stack overflow ends the process.
OPERATIONS = 200  # and branches of CASE
DEPTH = 200  # of the tree; a function takes as much of the stack as four operators
SIZE = 2_000  # of the tree, where an operand that is evaluated twice counts twice
WILDCARDS = 100  # of LIKE; the time of a match grows with their number

COMPARISONS = ("=", "<>", "!=", "<", "<=", ">", ">=")
VERBS = ("IN", "BETWEEN", "LIKE", "ILIKE")
NOT, COMPARING, SIGN = 3, 4, 7
BINDING = {  # how tightly an operator binds; left to right where equal
    "OR": 1,
    "AND": 2,
    **dict.fromkeys((*COMPARISONS, *VERBS, "IS", "NOT"), COMPARING),
    **dict.fromkeys(("+", "-", "||"), 5),
    **dict.fromkeys(("*", "/", "%"), 6),
    "::": 8,
}
REPEATING = {"/": 6, "%": 14, "MOD": 14, "NULLIF": 6}  # these evaluate operands twice
DEPTHS = {**dict.fromkeys((*COMPARISONS, "AND", "OR", "+", "-", "*"), 1), **REPEATING}
CONSTANTS = {"NULL": None, "TRUE": True, "FALSE": False}
SPECIAL = ("CAST", "DATE_PART", "EXTRACT", "TRY_CAST")
FOREIGN = ("SELECT", "OVER", "FILTER")  # of sub-queries and window functions
RESERVED = (
    *("AND", "AS", "BETWEEN", "CASE", "DISTINCT", "ELSE", "END", "FROM", "ILIKE", "IN", "IS"),
    *("LIKE", "NOT", "OR", "THEN", "WHEN", *CONSTANTS, *FOREIGN),
)


class Node(NamedTuple):
    """An operation on others, or a ``column`` or ``constant``, whose name or value it holds."""

    operation: str
    start: int
    parts: tuple[Node, ...] = ()
    values: tuple[Any, ...] = ()
    size: int = 1
    depth: int = 1


class Use(NamedTuple):
    """A column that the text names."""

    name: str
    start: int
    quoted: bool


@dataclass(frozen=True, eq=False)
class Expression:
    """A text, its tree, all nodes of it from the leaves to the root, and the columns it names."""

    text: str
    root: Node
    nodes: tuple[Node, ...]
    uses: tuple[Use, ...]


@lru_cache(maxsize=1024)
def read(text: str) -> Expression:
    """The tree of an expression; ArgumentError says what is wrong with it, and where.

    Examples
    --------
    >>> [use.name for use in read("CASE WHEN km > 3 THEN 0.5 * score ELSE score END").uses]
    ['km', 'score', 'score']
    """
    reader = Reader(text)
    root = reader.expression()
    if reader.next.kind != "end":
        raise reader.unexpected("an operator")
    return Expression(text, root, tuple(reader.nodes), tuple(reader.uses))


class Reader:
    """Reads a text once, from left to right, by how tightly its operators bind."""

    def __init__(self, text: str) -> None:
        self.text, self.tokens, self.position = text, split(text), 0
        self.nodes: list[Node] = []
        self.uses: list[Use] = []
        self.level = self.operations = 0

    @property
    def next(self) -> Token:
        return self.tokens[self.position]

    def take(self) -> Token:
        self.position += 1
        return self.tokens[self.position - 1]

    def accept(self, *words: str) -> Token | None:
        """The next token if it is one of these words."""
        return self.take() if self.next.word in words else None

    def expect(self, *words: str) -> Token:
        """The next token, which must be one of these words."""
        token = self.accept(*words)
        if token is None:
            raise self.unexpected(" or ".join(words))
        return token

    def unexpected(self, expected: str) -> ArgumentError:
        """The error for the next token."""
        token = self.next
        if token.word in FOREIGN:
            advice = "A rule decides every row from that row alone."
            return fault(self.text, token.start, f"{token.text!r} is not supported", advice)
        found = "the expression ends" if token.kind == "end" else f"found {token.text!r}"
        return fault(self.text, token.start, f"expected {expected}, but {found}")

    def node(self, operation: str, start: int, *parts: Node, values: tuple[Any, ...] = ()) -> Node:
        """A new operation; an error where there are too many."""
        branches = len(parts) // 2 if operation == "CASE" else 0
        self.operations += max(1, branches)
        size = 1 + sum(part.size for part in parts) * (2 if operation in REPEATING else 1)
        if operation == "IN":
            size += (parts[0].size - 1) * (len(parts) - 2)
        depth = DEPTHS.get(operation, 4) + branches
        depth += max((part.depth for part in parts), default=0)
        if self.operations > OPERATIONS or size > SIZE or depth > DEPTH:
            advice = f"At most {OPERATIONS} operations are allowed: put a long list of cases into "
            raise fault(self.text, start, "the expression is too large", advice + "a column.")
        self.nodes.append(Node(operation, start, parts, values, size, depth))
        return self.nodes[-1]

    def leaf(self, operation: str, start: int, value: Any) -> Node:
        """A column or a constant."""
        self.nodes.append(Node(operation, start, values=(value,)))
        return self.nodes[-1]

    def expression(self, binding: int = 0) -> Node:
        """Operands and the operators between them that bind more tightly than this."""
        self.level += binding in (0, NOT, SIGN)
        if self.level > NESTING:
            words = f"the expression is nested more than {NESTING} deep"
            raise fault(self.text, self.next.start, words)
        node = self.operand(binding)
        while BINDING.get(self.next.word, 0) > binding:
            node = self.extend(node, self.take())
        self.level -= binding in (0, NOT, SIGN)
        return node

    def extend(self, left: Node, token: Token) -> Node:
        """The operation that an operator makes of the left operand and what follows."""
        if token.word == "::":
            return self.node("CAST", token.start, left, values=(self.type_name(), True))
        binding = BINDING[token.word]
        if binding != COMPARING:
            return self.node(token.word, token.start, left, self.expression(binding))
        node = self.comparison(left, token)
        if BINDING.get(self.next.word, 0) >= COMPARING:  # 1 < x < 3 would compare true with 3
            raise self.unexpected("AND, OR or a parenthesis")
        return node

    def comparison(self, left: Node, token: Token) -> Node:
        """``=`` and the like, ``IS [NOT] NULL``, ``IS [NOT] DISTINCT FROM ...``, ``[NOT] IN``..."""
        start = token.start
        if token.word in COMPARISONS:
            return self.node(token.word, start, left, self.expression(COMPARING))
        if token.word == "NOT":
            return self.node("NOT", start, self.membership(left, self.expect(*VERBS)))
        if token.word != "IS":
            return self.membership(left, token)
        negated = self.accept("NOT")
        if self.expect("NULL", "DISTINCT").word == "NULL":
            node = self.node("IS NULL", start, left)
        else:
            self.expect("FROM")
            node = self.node("IS DISTINCT FROM", start, left, self.expression(COMPARING))
        return self.node("NOT", start, node) if negated else node

    def membership(self, left: Node, token: Token) -> Node:
        """``IN (...)``, ``BETWEEN ... AND ...`` and ``LIKE '...'``"""
        start = token.start
        if token.word == "IN":
            self.expect("(")
            return self.node("IN", start, left, *self.arguments(1, LONGEST, "IN"))
        if token.word == "BETWEEN":
            low = self.node(">=", start, left, self.expression(COMPARING))
            self.expect("AND")
            high = self.node("<=", start, left, self.expression(COMPARING))
            return self.node("AND", start, low, high)
        if self.next.kind != "text":
            raise self.unexpected("a string in single quotes")
        pattern = self.take()
        if sum(map(pattern.content.count, "_%")) > WILDCARDS:
            words = f"the pattern has more than {WILDCARDS} wildcards"
            raise fault(self.text, pattern.start, words)
        values = (pattern.content, "s" if token.word == "LIKE" else "is")
        return self.node("LIKE", start, left, values=values)

    def operand(self, binding: int) -> Node:
        """A number, string, column, function, CASE, sign, NOT, or something in parentheses."""
        token = self.take()
        word, start = token.word, token.start
        if token.kind == "number":
            return self.number(token)
        if token.kind == "text":
            return self.leaf("constant", start, token.content)
        if token.kind == "quoted":
            return self.column(token, token.content)
        if word in CONSTANTS:
            return self.leaf("constant", start, CONSTANTS[word])
        if word == "CASE":
            return self.case(token)
        if word == "(":
            node = self.expression()
            self.expect(")")
            return node
        if word in ("+", "-"):
            return self.signed(token, self.expression(SIGN))
        if word == "NOT" and binding <= NOT:
            return self.node("NOT", start, self.expression(NOT))
        if token.kind != "word" or word in RESERVED:
            self.position -= 1
            raise self.unexpected("a value")
        if self.accept("("):
            return self.function(token)
        if word in TIMES and self.next.kind == "text":
            return self.time(token, self.take())
        return self.column(token, token.text)

    def signed(self, token: Token, node: Node) -> Node:
        """The sign of a number is part of it."""
        value: Any = node.values[0] if node.operation == "constant" else None
        if token.word == "+":
            return node
        if type(value) in (int, float):
            return self.leaf("constant", token.start, -value)
        return self.node("negative", token.start, node)

    def number(self, token: Token) -> Node:
        """Whole numbers of up to 64 bits stay whole."""
        whole = token.text.isdigit() and len(token.text) < 20 and int(token.text) < 2**63
        value = int(token.text) if whole else float(token.text)
        if not math.isfinite(value):
            raise fault(self.text, token.start, "the number is too large")
        return self.leaf("constant", token.start, value)

    def time(self, token: Token, text: Token) -> Node:
        """``DATE '2024-01-31'`` and the like."""
        parse, example = TIMES[token.word]
        try:
            value = parse(text.content)
            good = getattr(value, "tzinfo", None) is None
        except (ValueError, OverflowError):
            good = False
        if not good:
            words = f"{text.text} cannot be read as {token.word}"
            raise fault(self.text, text.start, words, f"Write it as {token.word} '{example}'.")
        return self.leaf("constant", token.start, value)

    def column(self, token: Token, name: str) -> Node:
        self.uses.append(Use(name, token.start, token.kind == "quoted"))
        return self.leaf("column", token.start, name)

    def case(self, token: Token) -> Node:
        """``CASE [value] WHEN ... THEN ... ELSE ... END``; NULL without ELSE."""
        value = None if self.next.word == "WHEN" else self.expression()
        parts: list[Node] = []
        when: Token | None = self.expect("WHEN")
        while when:
            test = self.expression()
            parts.append(test if value is None else self.node("=", when.start, value, test))
            self.expect("THEN")
            parts.append(self.expression())
            when = self.accept("WHEN")
        other = self.accept("ELSE")
        parts.append(self.expression() if other else self.leaf("constant", token.start, None))
        self.expect("END")
        return self.node("CASE", token.start, *parts)

    def function(self, token: Token) -> Node:
        """``NAME(..., ...)``"""
        name = OTHER_NAMES.get(token.word, token.word)
        if name in SPECIAL:
            return self.special(token, name)
        if name not in FUNCTIONS:
            known = ", ".join(sorted({*FUNCTIONS, *OTHER_NAMES, *SPECIAL}))
            advice = f"A rule decides every row from that row alone. The functions are: {known}."
            raise fault(self.text, token.start, f"unknown function {token.text!r}", advice)
        word = FUNCTIONS[name]
        parts = self.arguments(word.fewest, word.most, name)
        if word.written is None:
            return self.node(name, token.start, *parts)
        values = tuple(self.written(part, word.written, name) for part in parts[1:])
        return self.node(name, token.start, parts[0], values=values)

    def arguments(self, fewest: int, most: int, name: str) -> list[Node]:
        """``..., ...)``"""
        parts: list[Node] = []
        closing = self.accept(")")
        while closing is None:
            parts.append(self.expression())
            if self.next.word not in (",", ")"):
                raise self.unexpected("an operator, ',' or ')'")
            closing = self.accept(")")
            if closing is None:
                self.take()
        if not fewest <= len(parts) <= most:
            count = str(fewest) if fewest == most else f"{fewest} to {most}"
            words = f"{name} needs {count} argument{'s'[: count != '1']}, but has {len(parts)},"
            raise fault(self.text, closing.start, words)
        return parts

    def written(self, part: Node, kind: Any, name: str) -> Any:
        """The value of an argument that must be a constant."""
        value: Any = part.values[0] if part.operation == "constant" else None
        if type(value) is not kind or (kind is int and value < 0):
            noun = "a whole number" if kind is int else "a string in single quotes"
            raise fault(self.text, part.start, f"an argument of {name} is not {noun}")
        if name == "SUBSTR" and value == 0:
            raise fault(self.text, part.start, "SUBSTR counts from 1, not 0,")
        if name == "REGEXP_LIKE" and not _is_pattern(value):
            raise fault(self.text, part.start, "invalid regular expression")
        return value

    def special(self, token: Token, name: str) -> Node:
        """``CAST(... AS type)``, ``EXTRACT(part FROM ...)`` and ``DATE_PART('part', ...)``"""
        if name in ("CAST", "TRY_CAST"):
            inner = self.expression()
            self.expect("AS")
            values: tuple[Any, ...] = (self.type_name(), name == "CAST")
            operation = "CAST"
        else:
            operation, word = "EXTRACT", self.take()
            part = (word.content if word.kind == "text" else word.text).upper()
            if part not in PARTS or (word.kind == "text") != (name == "DATE_PART"):
                advice = f"The parts are: {', '.join(PARTS)}."
                raise fault(self.text, word.start, f"unknown part {word.text!r}", advice)
            self.expect("FROM" if name == "EXTRACT" else ",")
            inner, values = self.expression(), (part,)
        self.expect(")")
        return self.node(operation, token.start, inner, values=values)

    def type_name(self) -> str:
        token = self.take()
        if token.word not in TYPES:
            advice = f"The types are: {', '.join(TYPES)}."
            raise fault(self.text, token.start, f"unknown type {token.text!r}", advice)
        if token.word == "DOUBLE":
            self.accept("PRECISION")
        return token.word


def _is_pattern(text: str) -> bool:
    try:
        pl.Series([""]).str.contains(text)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return False
    return True
