"""Splits the text of a rule into tokens, and says where in the text an error is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from outrule.errors import ArgumentError

LONGEST = 10_000  # characters

TOKEN = re.compile(
    r"""(?P<blank>[ \t\r\n]+)
    | (?P<comment>--|/\*)
    | (?P<text>'(?:[^']|'')*')
    | (?P<quoted>"(?:[^"]|"")+")
    | (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<word>[^\W\d]\w*)
    | (?P<symbol><>|!=|<=|>=|\|\||::|[-+*/%<>=(),])""",
    re.VERBOSE,
)

FOREIGN = ("SELECT", "OVER", "FILTER")  # of sub-queries and window functions
ALONE = "A rule decides every row from that row alone."


class Token(NamedTuple):
    """A piece of the text, and where it starts."""

    kind: str
    text: str
    start: int

    @property
    def word(self) -> str:
        """A symbol, or a plain word in capitals; empty for everything else."""
        plain = self.kind in ("word", "symbol") and self.text.isascii()
        return self.text.upper() if plain else ""

    @property
    def content(self) -> str:
        """What the quotes contain."""
        quote = self.text[0]
        return self.text[1:-1].replace(2 * quote, quote)


def place(text: str, start: int) -> str:
    """A position in words; lines and columns count from one."""
    before = text[:start]
    return f"at line {before.count(chr(10)) + 1}, column {start - before.rfind(chr(10))}"


def fault(text: str, start: int, words: str, advice: str = "") -> ArgumentError:
    """The error: what, where, what to do, and a short line is shown with a mark below it."""
    first = text.rfind("\n", 0, start) + 1
    line = text[first:].partition("\n")[0].replace("\t", " ")
    picture = f"\n    {line}\n    {' ' * (start - first)}^" if len(line) <= 100 else ""
    return ArgumentError(f"{words} {place(text, start)}.{advice and ' '}{advice}{picture}")


def split(text: str) -> list[Token]:
    """The tokens of the text; the last one is empty."""
    if len(text) > LONGEST:
        words = f"the expression has {len(text):,} characters. At most {LONGEST:,} are allowed."
        raise ArgumentError(words)
    tokens, start = [], 0
    while start < len(text):
        found = TOKEN.match(text, start)
        if found is None:
            noun = {"'": "string", '"': "name"}.get(text[start])
            unclosed = f"a {noun} that is never closed starts"
            raise fault(text, start, unclosed if noun else f"unexpected character {text[start]!r}")
        if found.lastgroup == "comment":
            raise fault(text, start, "comments are not supported,", "Name the rule instead.")
        if found.lastgroup != "blank":
            tokens.append(Token(str(found.lastgroup), found.group(), start))
        start = found.end()
    return [*tokens, Token("end", "", len(text))]


class Tokens:
    """A text that is read once, from left to right."""

    def __init__(self, text: str) -> None:
        self.text, self.tokens, self.position = text, split(text), 0

    @property
    def next(self) -> Token:
        return self.tokens[self.position]

    def take(self) -> Token:
        self.position += 1
        return self.tokens[self.position - 1]

    def accept(self, *words: str) -> Token | None:
        return self.take() if self.next.word in words else None

    def expect(self, *words: str) -> Token:
        """The next token, which must be one of these words."""
        if self.next.word not in words:
            names = (word if word.isalpha() else repr(word) for word in words)
            raise self.unexpected(" or ".join(names))
        return self.take()

    def unexpected(self, expected: str) -> ArgumentError:
        token = self.next
        if token.word in FOREIGN:
            return self.fault(token, f"{token.text!r} is not supported", ALONE)
        found = "the expression ends" if token.kind == "end" else f"found {token.text!r}"
        return self.fault(token, f"expected {expected}, but {found}")

    def unknown(self, noun: str, token: Token, known: Iterable[str]) -> ArgumentError:
        advice = f"{ALONE} " if noun == "function" else ""
        advice += f"The {noun}s are: {', '.join(known)}."
        return self.fault(token, f"unknown {noun} {token.text!r}", advice)

    def fault(self, place: Any, words: str, advice: str = "") -> ArgumentError:
        return fault(self.text, place.start, words, advice)
