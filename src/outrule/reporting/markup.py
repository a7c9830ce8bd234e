"""Markup: text, figures and rows enter; escaped HTML leaves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from outrule.reporting.scale import MINUS, Scale

NUMBERS = ("number", "size")  # kinds of columns that stand to the right
BROAD = 6  # characters of a label, above which fewer are shown
FOLDED = 50  # rows of a long table that are shown until all are asked for


def text(value: object) -> str:
    """Any text of the data, harmless inside HTML and its attributes."""
    return escape(str(value))


def count(number: int, one: str, more: str = "") -> str:
    """A number with its noun."""
    return f"{number:,} {one if number == 1 else more or one + 's'}"


def section(name: str, title: str, *content: str) -> str:
    """A part of the page with its heading."""
    body = "\n".join(part for part in content if part)
    return (
        f'<section id="{name}" aria-labelledby="{name}-title">\n'
        f'<h2 id="{name}-title">{text(title)}</h2>\n{body}\n</section>'
    )


def lead(sentence: str) -> str:
    """What a section found, from text that is not yet escaped."""
    return f'<p class="lead">{text(sentence)}</p>'


def note(sentence: str) -> str:
    """How a section is to be read, from text that is not yet escaped."""
    return f'<p class="note">{text(sentence)}</p>'


@dataclass(frozen=True)
class Figures:
    """How numbers are written: with as many decimals as the width of their range asks for."""

    decimals: int

    @classmethod
    def of_range(cls, width: float) -> Figures:
        """Four decimals for a range of one, fewer for a wider one."""
        return cls(min(max(4 - math.floor(math.log10(width)), 0), 12))

    def plain(self, number: float) -> str:
        """A value."""
        return f"{self._rounded(number):,.{self.decimals}f}".replace("-", MINUS)

    def signed(self, number: float) -> str:
        """A difference."""
        return f"{self._rounded(number):+,.{self.decimals}f}".replace("-", MINUS)

    def interval(self, row: Mapping[str, float], *, signed: bool = False) -> str:
        """The bounds of an interval."""
        write = self.signed if signed else self.plain
        return f"{write(row['lower'])} to {write(row['upper'])}"

    def _rounded(self, number: float) -> float:
        return round(number, self.decimals) + 0.0  # no minus zero


@dataclass(frozen=True)
class Column:
    """A column: its title, how it is sorted, and how it stands when the page is opened.

    ``sort`` is "text", "word" for text that is never broken, "number", or "size" for numbers that
    are sorted without their sign.
    ``order`` is "ascending", "descending" or nothing.
    """

    title: str
    sort: str = "number"
    order: str = ""

    def head(self) -> str:
        """The cell of the head."""
        order = f' aria-sort="{self.order}"' if self.order else ""
        return (
            f'<th scope="col" class="{self.sort}" data-sort="{self.sort}"{order}>{self.title}</th>'
        )


@dataclass(frozen=True)
class Picture:
    """A column of marks on one scale, whose axis stands in the head.

    ``guides`` are numbers at which a line runs through all rows, by their class.
    """

    title: str
    scale: Scale
    guides: Mapping[str, float]

    def head(self) -> str:
        """The title for those who listen, the axis for those who look."""
        ticks = self.scale.ticks()
        if max(len(tick.label) for tick in ticks) > BROAD:
            ticks = self.scale.ticks(2) or self.scale.ticks(3)
        labels = "".join(tick.at("left") for tick in ticks)
        return (
            f'<th scope="col" class="picture"><span class="unseen">{text(self.title)}</span>'
            f'<span class="axis" aria-hidden="true">{labels}</span></th>'
        )

    def style(self) -> str:
        """Where the guides are, for the style sheet."""
        return ";".join(
            f"--{name}:{self.scale.place(number)}%" for name, number in self.guides.items()
        )

    def cell(self, *marks: str, title: str) -> str:
        """The marks of one row; ``title`` says the same in words."""
        return f'<svg aria-hidden="true"><title>{text(title)}</title>{"".join(marks)}</svg>'

    def interval(self, row: Mapping[str, float], kind: str = "", y: int = 50) -> str:
        """The mean as a dot, on a line from the lower bound to the upper one."""
        line = self.stroke(row["lower"], row["upper"], kind, y)
        return line + self.dot(row["mean"], kind, y)

    def stroke(self, start: float, end: float, kind: str = "", y: int = 50) -> str:
        """A line from one number to another, so many per cent below the top."""
        ends = f'x1="{self.scale.place(start)}%" x2="{self.scale.place(end)}%"'
        return f'<line{_class(kind)} {ends} y1="{y}%" y2="{y}%"/>'

    def dot(self, number: float, kind: str = "", y: int = 50) -> str:
        """A round mark."""
        return f'<circle{_class(kind)} cx="{self.scale.place(number)}%" cy="{y}%" r="4"/>'

    def square(self, number: float) -> str:
        """A square mark; an SVG of its own, so that it keeps its shape at any width."""
        place = f'x="{self.scale.place(number)}%" y="50%"'
        return f'<svg {place}><rect x="-4" y="-4" width="8" height="8"/></svg>'

    def bar(self, number: float) -> str:
        """A bar from zero."""
        start, end = sorted((self.scale.share(0.0), self.scale.share(number)))
        ends = f'x="{100 * start:.2f}%" width="{100 * (end - start):.2f}%"'
        return f'<rect {ends} y="20%" height="60%"/>'


Columns = Sequence[Column | Picture]


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


@dataclass(frozen=True)
class Table:
    """A table that can be sorted; ``rows`` hold cells that are HTML, the first names the row."""

    name: str
    caption: str
    columns: Columns
    rows: Sequence[Sequence[str]]
    marked: frozenset[int] = frozenset()  # rows that stand out
    noun: str = "rows"

    def __str__(self) -> str:
        head = "".join(column.head() for column in self.columns)
        kinds = ["picture" if isinstance(c, Picture) else c.sort for c in self.columns]
        body = "\n".join(
            self._row(cells, kinds, number in self.marked) for number, cells in enumerate(self.rows)
        )
        style = "".join(f' style="{c.style()}"' for c in self.columns if isinstance(c, Picture))
        long = f' data-noun="{text(self.noun)}"' if len(self.rows) > FOLDED else ""
        return (
            f'<div class="wide{" long" if long else ""}" role="region" tabindex="0" '
            f'aria-label="{text(self.caption)}"{long}>\n'
            f'<table id="{self.name}"{style}>\n'
            f'<caption class="unseen">{text(self.caption)}</caption>\n'
            f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</div>"
        )

    def _row(self, cells: Sequence[str], kinds: Sequence[str], marked: bool) -> str:
        first, *others = cells
        rest = "".join(
            f"<td{_class('' if kind in NUMBERS else kind)}>{cell}</td>"
            for cell, kind in zip(others, kinds[1:], strict=True)
        )
        return f'<tr{_class("marked" if marked else "")}><th scope="row">{first}</th>{rest}</tr>'


def terms(pairs: Mapping[str, Any], name: str = "") -> str:
    """Names with their descriptions; those that are already HTML are :class:`Html`."""
    rows = "\n".join(
        f"<div><dt>{text(term)}</dt>"
        f"<dd>{words if isinstance(words, Html) else text(words)}</dd></div>"
        for term, words in pairs.items()
    )
    return f"<dl{_class(name)}>\n{rows}\n</dl>"


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def key(*signs: str) -> str:
    """A legend."""
    return f'<ul class="key">{"".join(signs)}</ul>'


def sign(kind: str, words: str) -> str:
    """An entry of a legend."""
    shapes = {
        "dot": '<line x1="0" x2="24" y1="8" y2="8"/><circle cx="12" cy="8" r="4"/>',
        "square": '<line x1="0" x2="24" y1="8" y2="8"/><rect x="8" y="4" width="8" height="8"/>',
        "dashed": '<line class="dashed" x1="12" x2="12" y1="0" y2="16"/>',
    }
    shape = next(drawn for name, drawn in shapes.items() if name in kind.split())
    return (
        f'<li><svg class="{kind}" width="24" height="16" aria-hidden="true">{shape}</svg>'
        f"{text(words)}</li>"
    )
