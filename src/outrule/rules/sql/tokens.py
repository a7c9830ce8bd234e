"""The tokens: the text of a rule enters, its words leave one by one, each with its place."""

from __future__ import annotations

import re
from typing import NamedTuple

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


class Token(NamedTuple):
    """A word of the text and where it starts."""

    kind: str
    text: str
    start: int

    @property
    def word(self) -> str:
        """What the grammar compares: a symbol, or a plain word in capitals; nothing for others."""
        plain = self.kind in ("word", "symbol") and self.text.isascii()
        return self.text.upper() if plain else ""


def place(text: str, start: int) -> str:
    """A position in words; lines and columns count from one."""
    before = text[:start]
    return f"at line {before.count(chr(10)) + 1}, column {start - before.rfind(chr(10))}"


def fault(text: str, start: int, words: str, advice: str = "") -> ArgumentError:
    """The error: what, where, what to do, and the line with a mark below it, if it is short."""
    first = text.rfind("\n", 0, start) + 1
    line = text[first:].partition("\n")[0].replace("\t", " ")
    picture = f"\n    {line}\n    {' ' * (start - first)}^" if len(line) <= 100 else ""
    return ArgumentError(f"{words} {place(text, start)}.{advice and ' '}{advice}{picture}")


def split(text: str) -> list[Token]:
    """The words of the text; the last one is empty."""
    tokens, start = [], 0
    while start < len(text):
        found = TOKEN.match(text, start)
        if found is None:
            noun = {"'": "a text", '"': "a name"}.get(text[start])
            words = f"{text[start]!r} has no meaning in an expression,"
            raise fault(text, start, f"{noun} is never closed that begins" if noun else words)
        if found.lastgroup == "comment":
            raise fault(text, start, "comments are not allowed:", "Name the rule instead.")
        if found.lastgroup != "blank":
            tokens.append(Token(str(found.lastgroup), found.group(), start))
        start = found.end()
    return [*tokens, Token("end", "", len(text))]


def unquote(token: Token) -> str:
    quote = token.text[0]
    return token.text[1:-1].replace(2 * quote, quote)


class Tokens:
    """A text that is read once, from left to right."""

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST:
            raise ArgumentError(
                f"the text has {len(text):,} characters. At most {LONGEST:,} are allowed."
            )
        self.text, self.tokens = text, split(text)
        self.position = 0

    @property
    def next(self) -> Token:
        """The token to come."""
        return self.tokens[self.position]

    def take(self) -> Token:
        """The next token, whatever it is."""
        token = self.next
        self.position += 1
        return token

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
            advice = "A rule decides every row by itself."
            return fault(self.text, token.start, f"{token.text!r} is not allowed", advice)
        found = "the text ends" if token.kind == "end" else f"{token.text!r} stands"
        return fault(self.text, token.start, f"{found} where {expected} should be,")
