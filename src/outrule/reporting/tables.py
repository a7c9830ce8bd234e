"""Tables that can be sorted, with a picture of every row on a shared scale."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import unescape
from typing import Any

from outrule.reporting.charts import Scale, css_class
from outrule.reporting.markup import text

BROAD = 6  # characters of a tick label, above which an axis has fewer ticks
FOLDED = 50  # rows of a long table that are shown at first


@dataclass(frozen=True)
class Column:
    """A column; ``title`` is HTML, and ``cell`` makes HTML of a row.

    ``sort`` is "text", "word" (text that is never wrapped), "number", "size" (numbers that are
    sorted by their absolute value) or "picture"; ``order`` is "ascending", "descending" or empty.
    """

    title: str
    cell: Callable[[Any], str]
    sort: str = "number"
    order: str = ""
    style: str = ""  # of the table

    def head(self) -> str:
        sort = "" if self.sort == "picture" else f' data-sort="{self.sort}"'
        order = f' aria-sort="{self.order}"' if self.order else ""
        return f'<th scope="col" class="{self.sort}"{sort}{order}>{self.title}</th>'


def picture(scale: Scale, draw: Callable[[Any], str], title: str, **guides: float) -> Column:
    """A column of marks on one scale, with its axis and the title of that in the header.

    A line runs through all rows at each of the guides, which page.css knows by their names.
    """
    ticks = scale.ticks()
    if max(len(tick.label) for tick in ticks) > BROAD:
        ticks = scale.ticks(2) or scale.ticks(3)
    axis = "".join(tick.at("left") for tick in ticks)
    name = f'<span class="name">{text(title)}</span>'
    return Column(
        f'{name}<span class="axis" aria-hidden="true">{axis}</span>',
        lambda row: f'<svg aria-hidden="true">{draw(row)}</svg>',
        "picture",
        style="".join(f"--{name}:{scale.place(number)}%;" for name, number in guides.items()),
    )


def table(
    name: str,
    caption: str,
    columns: Sequence[Column],
    rows: Sequence[Any],
    noun: str = "rows",
    marked: str = "",
) -> str:
    """A table whose first column names the row; the row with the name ``marked`` stands out."""
    first, *others = columns
    kinds = ["" if column.sort in ("number", "size") else column.sort for column in others]
    body = "".join(
        f"<tr{css_class('marked' if marked and row['name'] == marked else '')}>"
        f'<th scope="row">{first.cell(row)}</th>'
        + "".join(
            f"<td{css_class(k)}>{c.cell(row)}</td>" for k, c in zip(kinds, others, strict=True)
        )
        + "</tr>\n"
        for row in rows
    )
    style = "".join(column.style for column in columns)
    for number, column in enumerate(others, start=2):  # shown beside the cells on a phone
        if column.sort != "picture":
            title = unescape(column.title).replace("\\", r"\\").replace("'", r"\'")
            style += f"--c{number}:'{text(title)}';"
    long = f' data-noun="{noun}"' if len(rows) > FOLDED else ""
    return (
        f'<div class="wide{" long" if long else ""}" role="region" tabindex="0" '
        f'aria-label="{text(caption)}"{long}>\n'
        f'<table id="{name}-table" style="{style}">\n'
        f'<caption class="unseen">{text(caption)}</caption>\n'
        f"<thead><tr>{''.join(column.head() for column in columns)}</tr></thead>\n"
        f"<tbody>\n{body}</tbody>\n</table>\n</div>"
    )
