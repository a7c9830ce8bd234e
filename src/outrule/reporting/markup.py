"""The building blocks of the page: escaped text, numbers, sections and legends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from outrule.model.value import Value
from outrule.reporting.charts import MINUS
from outrule.words import Figures, as_html

Facts = Mapping[str, Any]  # a summary, or a part of it
SHAPES = {  # of the entries of a legend
    "dot": '<line x1="0" x2="24" y1="8" y2="8"/><circle cx="12" cy="8" r="4"/>',
    "square": '<line x1="0" x2="24" y1="8" y2="8"/><rect x="8" y="4" width="8" height="8"/>',
    "dashed": '<line class="dashed" x1="12" x2="12" y1="0" y2="16"/>',
    "line": '<line x1="0" x2="24" y1="8" y2="8"/>',
}


class Html(str):
    """A string that is HTML already."""

    __slots__ = ()


def text(value: object) -> str:
    """Anything as HTML; all but ``Html`` is escaped, invisible characters too."""
    return value if isinstance(value, Html) else as_html(str(value))


def code(value: object) -> Html:
    return Html(f"<code>{text(value)}</code>")


def section(name: str, title: str, lead: str, *content: str, note: str = "") -> str:
    """A part of the page: heading, what it found, content, and how to read it."""
    found = f'<p class="lead">{text(lead)}</p>' if lead else ""
    how = f'<p class="note">{text(note)}</p>' if note else ""
    body = "\n".join(part for part in (found, *content, how) if part)
    return (
        f'<section id="{name}" aria-labelledby="{name}-title">\n'
        f'<h2 id="{name}-title">{text(title)}</h2>\n{body}\n</section>'
    )


def tile(figure: str, more: str) -> Html:
    """A number, large, and what belongs to it."""
    return Html(f"<b>{text(figure)}</b> <span>{text(more)}</span>")


def terms(pairs: Mapping[str, Any], kind: str) -> str:
    rows = "\n".join(
        f"<div><dt>{text(term)}</dt><dd>{text(words)}</dd></div>" for term, words in pairs.items()
    )
    return f'<dl class="{kind}">\n{rows}\n</dl>'


def legend(entries: Mapping[str, str]) -> str:
    """What the marks of a picture mean; the last word of a kind is its shape."""
    signs = "".join(
        f'<li><svg class="{kind}" width="24" height="16" aria-hidden="true">'
        f"{SHAPES[kind.split()[-1]]}</svg>{text(words)}</li>"
        for kind, words in entries.items()
    )
    return f'<ul class="key">{signs}</ul>'


def figures(summary: Facts) -> Figures:
    """Writes values and their differences."""
    return Figures(summary["decimals"], MINUS)


def error_figures(summary: Facts) -> Figures:
    """Writes squared errors, with four digits."""
    return Figures.for_width(max(summary["squared_error"].values()) / 100, MINUS)


def value_title(summary: Facts) -> str:
    """What an axis of values is called."""
    value = Value(**summary["verdict"]["value"])
    return f"{value.title} per {summary['answer']['instance']}"
