"""The grammar: the text of a rule enters, a tree leaves, or an error that says what and where."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import polars as pl

from outrule.rules.sql.tokens import FOREIGN, LONGEST, Token, Tokens, fault, unquote
from outrule.rules.sql.words import FUNCTIONS, OTHER_NAMES, PARTS, TIMES, TYPES

NESTING = 20
# Polars walks its trees by recursion, and ends the process where the stack does.
OPERATIONS = 200  # and branches of CASE
DEPTH = 200  # of the tree, in which a function takes as much of the stack as four operators
SIZE = 2_000  # of the tree, in which what is used twice, as a divisor is, stands twice

RESERVED = (
    *("AND", "AS", "BETWEEN", "CASE", "DISTINCT", "ELSE", "END", "FALSE", "FROM", "ILIKE", "IN"),
    *("IS", "LIKE", "NOT", "NULL", "OR", "THEN", "TRUE", "WHEN", *FOREIGN),
)
COMPARISONS = ("=", "<>", "!=", "<", "<=", ">", ">=")
CHEAP = (*COMPARISONS, "AND", "OR", "+", "-", "*", "/", "%")
VERBS = ("IN", "BETWEEN", "LIKE", "ILIKE")
SPECIAL = ("CAST", "DATE_PART", "EXTRACT", "MOD", "NULLIF", "TRY_CAST")


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
    root = reader.either()
    if reader.next.kind != "end":
        raise reader.unexpected("an operator")
    return Expression(text, root, tuple(reader.nodes), tuple(reader.uses))


def _is_pattern(text: str) -> bool:
    try:
        pl.Series([""]).str.contains(text)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return False
    return True


class Reader(Tokens):
    """Reads a text once, from left to right; its methods go from the loosest bond to the tightest.

    What has a longer name for something simpler is written as that: ``BETWEEN`` as two comparisons,
    a division as one that is NULL where the divisor is zero.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.nodes: list[Node] = []
        self.uses: list[Use] = []
        self.level = self.operations = 0

    def node(self, operation: str, start: int, *parts: Node, values: tuple[Any, ...] = ()) -> Node:
        """A new operation; refused where there are too many."""
        branches = len(parts) // 2 if operation == "CASE" else 0
        self.operations += max(1, branches)
        size = 1 + sum(part.size for part in parts)
        depth = 1 if operation in CHEAP else 4 + branches
        depth += max((part.depth for part in parts), default=0)
        if self.operations > OPERATIONS or size > SIZE or depth > DEPTH:
            advice = f"It may have {OPERATIONS} operations: put a long list of cases into a column."
            raise fault(self.text, start, "the expression grows too large", advice)
        self.nodes.append(Node(operation, start, parts, values, size, depth))
        return self.nodes[-1]

    def leaf(self, operation: str, start: int, value: Any) -> Node:
        """A column or a constant."""
        self.nodes.append(Node(operation, start, values=(value,)))
        return self.nodes[-1]

    def either(self) -> Node:
        """``... OR ...``"""
        self.level += 1
        if self.level > NESTING:
            words = f"the expression is nested more than {NESTING} deep"
            raise fault(self.text, self.next.start, words)
        node = self.chain(self.both, "OR")
        self.level -= 1
        return node

    def both(self) -> Node:
        """``... AND ...``"""
        return self.chain(self.negation, "AND")

    def chain(self, operand: Callable[[], Node], *words: str) -> Node:
        """Operands with these operators between them, from left to right."""
        node = operand()
        while token := self.accept(*words):
            node = self.join(token, node, operand())
        return node

    def join(self, token: Token, left: Node, right: Node) -> Node:
        """Two operands; a quotient or remainder by zero is NULL, as for most SQL."""
        start = token.start
        node = self.remainder if token.word == "%" else self.node
        joined = node(token.word, start, left, right)
        if token.word not in ("/", "%") or (right.operation == "constant" and right.values[0]):
            return joined
        not_zero = self.node("<>", start, right, self.leaf("constant", start, 0))
        return self.node("CASE", start, not_zero, joined, self.constant(token))

    def remainder(self, operation: str, start: int, left: Node, right: Node) -> Node:
        """With the sign of the dividend, as in SQL; Polars' own has that of the divisor."""
        sizes = (self.node("ABS", start, side) for side in (left, right))
        positive = self.node(operation, start, *sizes)
        return self.node("*", start, self.node("SIGN", start, left), positive)

    def negation(self) -> Node:
        """``NOT ...``"""
        tokens = self.prefixes("NOT")
        node = self.comparison()
        for token in reversed(tokens):
            node = self.node("NOT", token.start, node)
        return node

    def prefixes(self, *words: str) -> list[Token]:
        """All the next tokens that are such words."""
        tokens = []
        while token := self.accept(*words):
            tokens.append(token)
        return tokens

    def comparison(self) -> Node:
        """At most one comparison: ``1 < x < 3`` would compare a truth with a number."""
        left = self.sum()
        token = self.accept(*COMPARISONS, "IS", "NOT", *VERBS)
        if token is None:
            return left
        if token.word in COMPARISONS:
            operation = "<>" if token.word == "!=" else token.word
            node = self.node(operation, token.start, left, self.sum())
        elif token.word == "IS":
            node = self.identity(left, token)
        elif token.word == "NOT":
            node = self.node("NOT", token.start, self.membership(left, self.expect(*VERBS)))
        else:
            node = self.membership(left, token)
        if self.next.word in (*COMPARISONS, "IS", "NOT", *VERBS):
            raise self.unexpected("AND, OR or a parenthesis")
        return node

    def identity(self, left: Node, token: Token) -> Node:
        """``IS [NOT] NULL`` and ``IS [NOT] DISTINCT FROM ...``"""
        negated = self.accept("NOT")
        if self.expect("NULL", "DISTINCT").word == "NULL":
            node = self.node("IS NULL", token.start, left)
        else:
            self.expect("FROM")
            node = self.node("IS DISTINCT FROM", token.start, left, self.sum())
        return self.node("NOT", token.start, node) if negated else node

    def membership(self, left: Node, token: Token) -> Node:
        """``IN (...)``, ``BETWEEN ... AND ...`` and ``LIKE '...'``"""
        start = token.start
        if token.word == "IN":
            self.expect("(")
            return self.one_of(left, token, self.arguments(1, LONGEST, "IN"))
        if token.word == "BETWEEN":
            low = self.node(">=", start, left, self.sum())
            self.expect("AND")
            return self.node("AND", start, low, self.node("<=", start, left, self.sum()))
        if self.next.kind != "text":
            raise self.unexpected("a text in single quotes")
        values = (unquote(self.take()), "s" if token.word == "LIKE" else "is")
        return self.node("LIKE", start, left, values=values)

    def one_of(self, left: Node, token: Token, members: list[Node]) -> Node:
        """A list of numbers or of texts is looked up, any other is compared one by one."""
        constants = all(member.operation == "constant" for member in members)
        kinds = {type(member.values[0]) for member in members} if constants else set()
        if kinds == {str} or (kinds and kinds <= {int, float}):
            return self.node("IN", token.start, left, *members)
        node = self.node("=", token.start, left, members[0])
        for member in members[1:]:
            equal = self.node("=", token.start, left, member)
            node = self.node("OR", token.start, node, equal)
        return node

    def sum(self) -> Node:
        """``+``, ``-`` and ``||``"""
        return self.chain(self.product, "+", "-", "||")

    def product(self) -> Node:
        """``*``, ``/`` and ``%``"""
        return self.chain(self.signed, "*", "/", "%")

    def signed(self) -> Node:
        """``- ...`` and ``...::type``"""
        tokens = self.prefixes("+", "-")
        node = self.operand()
        while token := self.accept("::"):
            node = self.node("CAST", token.start, node, values=(self.type_name(), True))
        for token in reversed(tokens):
            if token.word == "-":
                node = self.negative(token, node)
        return node

    def negative(self, token: Token, node: Node) -> Node:
        """The sign of a number belongs to it."""
        value: Any = node.values[0] if node.operation == "constant" else None
        if type(value) in (int, float):
            return self.leaf("constant", token.start, -value)
        return self.node("negative", token.start, node)

    def operand(self) -> Node:
        """A number, a text, a column, a function, CASE, or an expression in parentheses."""
        token = self.next
        if token.word in RESERVED or token.kind in ("symbol", "end"):
            if token.word not in OPENERS:
                raise self.unexpected("a value")
            return OPENERS[token.word](self, self.take())
        self.take()
        if token.kind == "number":
            return self.number(token)
        if token.kind == "text":
            return self.leaf("constant", token.start, unquote(token))
        if token.kind == "quoted":
            return self.column(token, unquote(token))
        if self.next.word == "(":
            return self.function(token)
        if token.word in TIMES and self.next.kind == "text":
            return self.time(token, self.take())
        return self.column(token, token.text)

    def parenthesis(self, _: Token) -> Node:
        """``(...)``"""
        node = self.either()
        self.expect(")")
        return node

    def number(self, token: Token) -> Node:
        """Whole numbers of up to 64 bits stay whole."""
        whole = token.text.isdigit() and len(token.text) < 20 and int(token.text) < 2**63
        value = int(token.text) if whole else float(token.text)
        if not math.isfinite(value):
            raise fault(self.text, token.start, "the number is too large")
        return self.leaf("constant", token.start, value)

    def time(self, token: Token, text: Token) -> Node:
        """``DATE '2024-01-31'`` and its kin."""
        parse, example = TIMES[token.word]
        try:
            value = parse(unquote(text))
            good = getattr(value, "tzinfo", None) is None
        except (ValueError, OverflowError):
            good = False
        if not good:
            words = f"{text.text} cannot be read as {token.word}"
            raise fault(self.text, text.start, words, f"Write it as {token.word} '{example}'.")
        return self.leaf("constant", token.start, value)

    def column(self, token: Token, name: str) -> Node:
        """The name of a column."""
        if name == "*" or name.startswith("^"):
            words = f"the column {name!r} has a name that Polars takes for a pattern,"
            raise fault(self.text, token.start, words, "Rename it.")
        self.uses.append(Use(name, token.start, token.kind == "quoted"))
        return self.leaf("column", token.start, name)

    def case(self, token: Token) -> Node:
        """``CASE [value] WHEN ... THEN ... ELSE ... END``; without ELSE it is NULL there."""
        value = None if self.next.word == "WHEN" else self.either()
        parts: list[Node] = []
        when: Token | None = self.expect("WHEN")
        while when:
            test = self.either()
            parts.append(test if value is None else self.node("=", when.start, value, test))
            self.expect("THEN")
            parts.append(self.either())
            when = self.accept("WHEN")
        other = self.either() if self.accept("ELSE") else self.constant(token)
        self.expect("END")
        return self.node("CASE", token.start, *parts, other)

    def constant(self, token: Token) -> Node:
        """``NULL``, ``TRUE`` and ``FALSE``"""
        value = {"TRUE": True, "FALSE": False}.get(token.word)
        return self.leaf("constant", token.start, value)

    def function(self, token: Token) -> Node:
        """``NAME(..., ...)``"""
        name = OTHER_NAMES.get(token.word, token.word)
        if name not in FUNCTIONS and name not in SPECIAL:
            known = ", ".join(sorted({*FUNCTIONS, *OTHER_NAMES, *SPECIAL}))
            advice = f"A rule decides every row by itself, with these functions: {known}."
            raise fault(self.text, token.start, f"there is no function {token.text!r}", advice)
        self.take()
        if name in ("MOD", "NULLIF"):
            return self.sugar(token, *self.arguments(2, 2, name))
        if name in SPECIAL:
            return self.special(token, name)
        word = FUNCTIONS[name]
        parts = self.arguments(word.fewest, word.most, name)
        if word.written is None:
            return self.node(name, token.start, *parts)
        values = tuple(self.written(part, word.written, name) for part in parts[1:])
        if name == "SUBSTR" and values[0] == 0:
            raise fault(self.text, parts[1].start, "SUBSTR counts from 1, and not from 0,")
        return self.node(name, token.start, parts[0], values=values)

    def sugar(self, token: Token, left: Node, right: Node) -> Node:
        """``MOD(x, y)`` is ``x % y``, and ``NULLIF(x, y)`` is NULL where x = y, else x."""
        if token.word == "MOD":
            return self.join(Token("symbol", "%", token.start), left, right)
        equal = self.node("=", token.start, left, right)
        return self.node("CASE", token.start, equal, self.constant(token), left)

    def arguments(self, fewest: int, most: int, name: str) -> list[Node]:
        """``..., ...)``"""
        parts: list[Node] = []
        closing = self.accept(")")
        while closing is None:
            parts.append(self.either())
            if self.next.word not in (",", ")"):
                raise self.unexpected("an operator, ',' or ')'")
            closing = None if self.take().word == "," else self.tokens[self.position - 1]
        if not fewest <= len(parts) <= most:
            count = str(fewest) if fewest == most else f"{fewest} to {most}"
            words = f"{name} has {len(parts)} arguments and should have {count},"
            raise fault(self.text, closing.start, words)
        return parts

    def written(self, part: Node, kind: Any, name: str) -> Any:
        """The value of an argument that must stand in the text."""
        value: Any = part.values[0] if part.operation == "constant" else None
        if type(value) is not kind or (kind is int and value < 0):
            noun = "a whole number" if kind is int else "a text in single quotes"
            words = f"an argument of {name} is not {noun}"
            raise fault(self.text, part.start, words)
        if name == "REGEXP_LIKE" and not _is_pattern(value):
            raise fault(self.text, part.start, "there is no valid regular expression")
        return value

    def special(self, token: Token, name: str) -> Node:
        """``CAST(... AS type)``, ``EXTRACT(part FROM ...)`` and ``DATE_PART('part', ...)``"""
        if name in ("CAST", "TRY_CAST"):
            inner = self.either()
            self.expect("AS")
            values: tuple[Any, ...] = (self.type_name(), name == "CAST")
            operation = "CAST"
        else:
            operation, word = "EXTRACT", self.take()
            part = (unquote(word) if word.kind == "text" else word.text).upper()
            if part not in PARTS or (word.kind == "text") != (name == "DATE_PART"):
                advice = f"The parts are: {', '.join(PARTS)}."
                raise fault(self.text, word.start, f"there is no part {word.text!r}", advice)
            self.expect("FROM" if name == "EXTRACT" else ",")
            inner, values = self.either(), (part,)
        self.expect(")")
        return self.node(operation, token.start, inner, values=values)

    def type_name(self) -> str:
        """The name of a type."""
        token = self.take()
        if token.word not in TYPES:
            advice = f"The types are: {', '.join(TYPES)}."
            raise fault(self.text, token.start, f"there is no type {token.text!r}", advice)
        if token.word == "DOUBLE":
            self.accept("PRECISION")
        return token.word


OPENERS: dict[str, Callable[[Reader, Token], Node]] = {
    "(": Reader.parenthesis,
    "CASE": Reader.case,
    "NULL": Reader.constant,
    "TRUE": Reader.constant,
    "FALSE": Reader.constant,
}
