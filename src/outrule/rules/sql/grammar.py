"""Reads the text of a rule into a list of operations.

Our own parser, not sqlglot's: that one needs as many lines around it, since it accepts much
without a trace in its tree (``x BETWEEN 1 2``, ``CASE WHEN b 1 END``, ``ABS(x,)``).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import polars as pl

from outrule.rules.sql.tokens import FOREIGN, LONGEST, Token, Tokens
from outrule.rules.sql.words import FUNCTIONS, OTHER_NAMES, PARTS, TIMES, TYPES

NESTING = 20
OPERATIONS = 200  # and branches of CASE
WILDCARDS = 100  # of LIKE; the time of a match grows with their number

COMPARISONS = ("=", "<>", "!=", "<", "<=", ">", ">=")
VERBS = ("IN", "BETWEEN", "LIKE", "ILIKE")
NOT, COMPARING, SIGN = 3, 4, 7
BINDING = {  # how tightly an operator binds; from left to right where equal
    "OR": 1,
    "AND": 2,
    **dict.fromkeys((*COMPARISONS, *VERBS, "IS", "NOT"), COMPARING),
    **dict.fromkeys(("+", "-", "||"), 5),
    **dict.fromkeys(("*", "/", "%"), 6),
    "::": 8,
}
CONSTANTS = {"NULL": None, "TRUE": True, "FALSE": False}
SPECIAL = ("CAST", "DATE_PART", "EXTRACT", "TRY_CAST")
RESERVED = {*BINDING, *CONSTANTS, *FOREIGN}
RESERVED |= {"AS", "CASE", "DISTINCT", "ELSE", "END", "FROM", "THEN", "WHEN"}


class Node(NamedTuple):
    """An operation on others, or a ``column`` or ``constant``, whose name or value it holds."""

    operation: str
    start: int
    parts: tuple[Node, ...] = ()
    values: tuple[Any, ...] = ()


class Use(NamedTuple):
    """A column that the text names."""

    name: str
    start: int
    quoted: bool


class Expression(NamedTuple):
    """A text, its operations from the first to the last, and the columns it names."""

    text: str
    nodes: list[Node]
    uses: list[Use]


@lru_cache(maxsize=1024)
def read(text: str) -> Expression:
    """The operations of an expression; ArgumentError says what is wrong with it, and where.

    Examples
    --------
    >>> [use.name for use in read("CASE WHEN km > 3 THEN 0.5 * score ELSE score END").uses]
    ['km', 'score', 'score']
    """
    reader = Reader(text)
    reader.expression()
    if reader.next.kind != "end":
        raise reader.unexpected("an operator")
    return Expression(text, reader.nodes, reader.uses)


class Reader(Tokens):
    """Reads a text once, from left to right, by how tightly its operators bind."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.nodes: list[Node] = []
        self.uses: list[Use] = []
        self.guards: list[list[Any]] = []  # a condition around, whether it holds, and with others
        self.level = self.operations = 0

    def node(self, operation: str, place: Token, *parts: Node, values: Any = ()) -> Node:
        self.nodes.append(Node(operation, place.start, parts, values))
        self.operations += operation not in ("column", "constant")
        if self.operations > OPERATIONS:
            advice = f"At most {OPERATIONS} operations are allowed: put long lists into a column."
            raise self.fault(place, "the expression is too large", advice)
        return self.nodes[-1]

    def constant(self, place: Token, value: Any) -> Node:
        return self.node("constant", place, values=(value,))

    def column(self, token: Token, name: str) -> Node:
        self.uses.append(Use(name, token.start, token.kind == "quoted"))
        return self.node("column", token, values=(name,))

    def expression(self, binding: int = 0) -> Node:
        """An operand, and the operators after it that bind more tightly than this."""
        nested = binding in (0, NOT, SIGN)
        self.level += nested
        if self.level > NESTING:
            raise self.fault(self.next, f"the expression is nested more than {NESTING} deep")
        node = self.operand(binding)
        while BINDING.get(self.next.word, 0) > binding:
            node = self.extend(node, self.take())
        self.level -= nested
        return node

    def extend(self, left: Node, token: Token) -> Node:
        """What an operator makes of its left operand and the text after it."""
        if token.word == "::":
            values = (self.type_name(), True)
            return self.node("CAST", token, self.guarded(token, left), values=values)
        binding = BINDING[token.word]
        if binding != COMPARING:
            return self.node(token.word, token, left, self.expression(binding))
        node = self.comparison(left, token)
        if BINDING.get(self.next.word, 0) >= COMPARING:  # 1 < x < 3 would compare true with 3
            raise self.unexpected("AND, OR or a parenthesis")
        return node

    def comparison(self, left: Node, token: Token) -> Node:
        """``=`` and the like, ``IS [NOT] NULL``, ``IS [NOT] DISTINCT FROM``, ``[NOT] IN`` etc."""
        if token.word in COMPARISONS:
            return self.node(token.word, token, left, self.expression(COMPARING))
        if token.word == "NOT":
            return self.node("NOT", token, self.membership(left, self.expect(*VERBS)))
        if token.word != "IS":
            return self.membership(left, token)
        negated = self.accept("NOT")
        if self.expect("NULL", "DISTINCT").word == "NULL":
            node = self.node("IS NULL", token, left)
        else:
            self.expect("FROM")
            node = self.node("IS DISTINCT FROM", token, left, self.expression(COMPARING))
        return self.node("NOT", token, node) if negated else node

    def membership(self, left: Node, token: Token) -> Node:
        """``IN (...)``, ``BETWEEN ... AND ...`` and ``LIKE '...'``"""
        if token.word == "IN":
            self.expect("(")
            return self.node("IN", token, left, *self.arguments(1, LONGEST, "IN"))
        if token.word == "BETWEEN":
            low = self.node(">=", token, left, self.expression(COMPARING))
            self.expect("AND")
            high = self.node("<=", token, left, self.expression(COMPARING))
            return self.node("AND", token, low, high)
        if self.next.kind != "text":
            raise self.unexpected("a string in single quotes")
        pattern = self.take()
        if sum(map(pattern.content.count, "_%")) > WILDCARDS:
            raise self.fault(pattern, f"the pattern has more than {WILDCARDS} wildcards")
        values = (pattern.content, "s" if token.word == "LIKE" else "is")
        return self.node("LIKE", token, left, values=values)

    def operand(self, binding: int) -> Node:
        """A number, string, column, function, CASE, sign, NOT, or something in parentheses."""
        token = self.take()
        if token.kind == "number":
            return self.number(token)
        if token.kind == "text":
            return self.constant(token, token.content)
        if token.kind == "quoted":
            return self.column(token, token.content)
        if token.word in CONSTANTS:
            return self.constant(token, CONSTANTS[token.word])
        if token.word == "CASE":
            return self.case(token)
        if token.word == "(":
            node = self.expression()
            self.expect(")")
            return node
        if token.word in ("+", "-"):
            return self.signed(token, self.expression(SIGN))
        if token.word == "NOT" and binding <= NOT:
            return self.node("NOT", token, self.expression(NOT))
        if token.kind != "word" or token.word in RESERVED:
            self.position -= 1
            raise self.unexpected("a value")
        if self.accept("("):
            return self.function(token)
        if token.word in TIMES and self.next.kind == "text":
            return self.time(token, self.take())
        return self.column(token, token.text)

    def signed(self, token: Token, node: Node) -> Node:
        """The sign of a number is part of it."""
        if token.word == "+":
            return node
        value: Any = node.values[0] if node.operation == "constant" else None
        if type(value) in (int, float):
            return self.constant(token, -value)
        return self.node("negative", token, node)

    def number(self, token: Token) -> Node:
        """Whole numbers stay whole, up to those that Int128 holds."""
        whole = token.text.isdigit() and len(token.text) < 40 and int(token.text) < 2**127
        value = int(token.text) if whole else float(token.text)
        if not math.isfinite(value):
            raise self.fault(token, "the number is too large")
        return self.constant(token, value)

    def time(self, token: Token, text: Token) -> Node:
        """``DATE '2024-01-31'`` and the like."""
        parse, example = TIMES[token.word]
        try:
            value = parse(text.content)
            if getattr(value, "tzinfo", None) is not None:
                raise ValueError
        except (ValueError, OverflowError):
            advice = f"Write it as {token.word} '{example}'."
            raise self.fault(text, f"{text.text} cannot be read as {token.word}", advice) from None
        return self.constant(token, value)

    def case(self, token: Token) -> Node:
        """``CASE [value] WHEN ... THEN ... ELSE ... END``; NULL without ELSE."""
        value = None if self.next.word == "WHEN" else self.expression()
        branches, outside = [], len(self.guards)
        when: Token | None = self.expect("WHEN")
        while when:
            test = self.expression()
            if value is not None:
                test = self.node("=", when, value, test)
            self.expect("THEN")
            branches.append((test, self.under(test, True)))
            self.guards.append([test, False, None])
            when = self.accept("WHEN")
        node = self.expression() if self.accept("ELSE") else self.constant(token, None)
        self.expect("END")
        del self.guards[outside:]
        for test, result in reversed(branches):
            node = self.node("CASE", token, test, result, node)
        return node

    def under(self, test: Node, holds: bool) -> Node:
        """An expression that only counts where a condition holds, or does not."""
        self.guards.append([test, holds, None])
        node = self.expression()
        self.guards.pop()
        return node

    def guarded(self, token: Token, node: Node) -> Node:
        """NULL where it does not count, so that CAST does not fail there."""
        if not self.guards:
            return node
        active, operations = self.constant(token, True), self.operations
        for guard in self.guards:
            if guard[2] is None:
                never = self.constant(token, False)
                parts = (active, never) if guard[1] else (never, active)
                guard[2] = self.node("CASE", token, guard[0], *parts)
            active = guard[2]
        node = self.node("CASE", token, active, node, self.constant(token, None))
        self.operations = operations  # guards do not count
        return node

    def function(self, token: Token) -> Node:
        """``NAME(..., ...)``"""
        name = OTHER_NAMES.get(token.word, token.word)
        if name in SPECIAL:
            return self.special(token, name)
        if name not in FUNCTIONS:
            raise self.unknown("function", token, sorted({*FUNCTIONS, *OTHER_NAMES, *SPECIAL}))
        if name == "IF":
            parts = [self.expression()]
            for holds in (True, False):
                self.expect(",")
                parts.append(self.under(parts[0], holds))
            self.expect(")")
            return self.node("IF", token, *parts)
        word = FUNCTIONS[name]
        parts = self.arguments(word.fewest, word.most, name)
        if word.written is None:
            return self.node(name, token, *parts)
        values = tuple(self.written(part, word.written, name) for part in parts[1:])
        if name == "SUBSTR" and values[0] == 0:
            raise self.fault(parts[1], "SUBSTR counts from 1, not 0,")
        first = self.guarded(token, parts[0]) if name == "STRPTIME" else parts[0]
        return self.node(name, token, first, values=values)

    def arguments(self, fewest: int, most: int, name: str) -> list[Node]:
        """``..., ...)``"""
        parts: list[Node] = []
        if self.next.word != ")":
            parts.append(self.expression())
            while self.accept(","):
                parts.append(self.expression())
        if self.next.word != ")":
            raise self.unexpected("an operator, ',' or ')'")
        closing = self.take()
        if not fewest <= len(parts) <= most:
            count = str(fewest) if fewest == most else f"{fewest} to {most}"
            noun = "argument" if count == "1" else "arguments"
            raise self.fault(closing, f"{name} needs {count} {noun}, but has {len(parts)},")
        return parts

    def written(self, part: Node, kind: Any, name: str) -> Any:
        """The value of an argument that must be a constant."""
        value: Any = part.values[0] if part.operation == "constant" else None
        if type(value) is not kind or (kind is int and value < 0):
            noun = "a whole number" if kind is int else "a string in single quotes"
            raise self.fault(part, f"an argument of {name} is not {noun}")
        if name == "REGEXP_LIKE":
            try:
                pl.Series([""]).str.contains(value)
            except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
                raise self.fault(part, "invalid regular expression") from None
        return value

    def special(self, token: Token, name: str) -> Node:
        """``CAST(... AS type)``, ``EXTRACT(part FROM ...)`` and ``DATE_PART('part', ...)``"""
        values: tuple[Any, ...]
        if name in ("CAST", "TRY_CAST"):
            inner = self.expression()
            self.expect("AS")
            operation, values = "CAST", (self.type_name(), name == "CAST")
        else:
            word = self.take()
            part = (word.content if word.kind == "text" else word.text).upper()
            if part not in PARTS or (word.kind == "text") != (name == "DATE_PART"):
                raise self.unknown("part", word, PARTS)
            self.expect("FROM" if name == "EXTRACT" else ",")
            operation, inner, values = "EXTRACT", self.expression(), (part,)
        self.expect(")")
        if name == "CAST":
            inner = self.guarded(token, inner)
        return self.node(operation, token, inner, values=values)

    def type_name(self) -> str:
        token = self.take()
        if token.word not in TYPES:
            raise self.unknown("type", token, TYPES)
        if token.word == "DOUBLE":
            self.accept("PRECISION")
        return token.word
