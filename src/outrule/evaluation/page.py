"""One HTML page with claims, figures and settings, in the style of the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any

import polars as pl

from outrule.evaluation.claims import Claim, Verdict
from outrule.evaluation.results import Results
from outrule.evaluation.say import fraction
from outrule.reporting.markup import Html, terms, text
from outrule.reporting.tables import Column, table

if TYPE_CHECKING:  # it imports matplotlib, which is optional
    from outrule.evaluation.figures import Figure

TITLES = {  # of columns and fields whose names are not clear
    "n_items": "m",
    "regime": "predictor",
    "plain": "plain optimiser",
    "n_rules": "rules",
    "n_test": "test instances",
    "half_plain": "plain optimiser, first half",
    "seeds": "worlds",
    "other_seeds": "worlds of other problems",
    "other_batches": "batch sizes of other steps",
    "other_epsilons": "epsilons of other steps",
    "equal_batches": "batch sizes of reuse",
    "equal_epsilons": "epsilons of reuse",
}
HEADLINES = {  # comparisons on the first screen: regime, number
    "Value against squared error, by round": "{0} predictor: the squared error falls throughout, "
    "and yet the value ends clearly below its peak, in {1}.",
    "Remedies": "Mean gap to the best rule where stopping helps most: {1}.",
}
FIRST = ("gap-matching", "value-best-action")  # figures on the first screen, where they are


def render(results: Results, claims: Sequence[Claim], figures: Sequence[Figure]) -> str:
    """Write the page; links to figures are relative, to files beside it."""
    tally = Counter(claim.verdict for claim in claims)
    tiles = {str(one): Html(f"<b>{tally[one]}</b>") for one in Verdict if tally[one]}
    machine = dict(results.provenance)
    if isinstance(seconds := machine.pop("seconds", None), int | float):
        machine["time (h:m:s)"] = timedelta(seconds=round(seconds))
    known = {figure.name for figure in figures}
    first = [one for stem in FIRST for one in figures if one.name.startswith(stem)]
    by_stem = {one.name.rpartition("-")[0]: one for one in reversed(first)}
    return Template(_read("outrule.evaluation", "page.html")).substitute(
        style=_read("outrule.reporting", "page.css"),
        answer=text(_answer(claims)),
        tiles=terms(tiles, "tiles"),
        first="\n".join(_figure(by_stem[stem], first=True) for stem in FIRST if stem in by_stem),
        claims=_rows(claims, known),
        details="\n".join(map(_claim, claims)),
        figures="\n".join(map(_figure, figures)),
        units=_units(results),
        grid=_card({_title(name): value for name, value in results.grid.as_json().items()}),
        machine=_card(machine),
    )


def _read(package: str, name: str) -> str:
    return files(package).joinpath(name).read_text(encoding="utf-8")


def _answer(claims: Sequence[Claim]) -> str:
    """How many claims of the paper hold."""
    tally = Counter(claim.verdict for claim in claims)
    asked = (Verdict.CONFIRMED, Verdict.DEPENDS, Verdict.NOT_CONFIRMED)
    total = sum(tally[one] for one in asked)
    holds, depends, fails = (tally[one] for one in asked)
    answer = (
        f"Of {total} claims of the paper that were judged, {holds} hold wherever they were run, "
        f"{depends} depend on how long the predictor was trained, and {fails} do not hold."
    )
    more = [
        HEADLINES[one.statement].format(regime.capitalize(), number)
        for one in claims
        for regime, number in list(one.numbers.items())[:1]
        if one.statement in HEADLINES and one.verdict == Verdict.MEASURED
    ]
    return " ".join([answer, *more])


def _rows(claims: Sequence[Claim], figures: set[str]) -> str:
    """The claims as short rows: claim, verdict, a number by regime, and the figure."""
    regimes = list(dict.fromkeys(name for claim in claims for name in claim.numbers))

    def verdict(claim: Claim) -> str:
        return Html(f'<b class="{claim.verdict.name}">{claim.verdict}</b>')

    def number(name: str, claim: Claim) -> str:
        return text(claim.numbers.get(name, ""))

    def link(claim: Claim) -> str:
        known = [name for one in regimes if (name := f"{claim.figure}-{one}") in figures]
        return Html(f'<a href="#{text(known[0])}">figure</a>') if known else Html("")

    columns = [
        Column("claim", lambda claim: text(claim.statement), "text"),
        Column("verdict", verdict, "word"),
        *(Column(text(name), partial(number, name), "text") for name in regimes),
        Column("", link, "word"),
    ]
    return table("claim-rows", "Claims and verdicts", columns, list(claims))


def _claim(claim: Claim) -> str:
    return (
        f'<h3>{text(claim.statement)}</h3>\n<p class="note"><b class="{claim.verdict.name}">'
        f"{claim.verdict}</b> · {text(claim.source)}</p>\n{terms(claim.measured, 'card')}"
    )


def _figure(figure: Figure, *, first: bool = False) -> str:
    """A figure with its caption; on the first screen without, but with a link to that."""
    name, title = text(figure.name), text(figure.title)
    if first:
        start, head, lazy, note = "", f'<a href="#{name}">{title}</a>', "", ""
    else:
        start, head, lazy = f' id="{name}"', title, ' loading="lazy"'
        links = f'<a href="{name}.png">PNG</a>, <a href="{name}.svg">SVG</a>'
        note = f'<p class="note">{text(figure.caption)} {links}</p>\n'
    return (
        f"<figure{start}>\n<figcaption>{head}</figcaption>\n"
        f'<div class="drawn"><img src="{name}.svg" alt="{title}"{lazy}></div>\n{note}</figure>'
    )


def _units(results: Results) -> str:
    whole = pl.col("seconds").round().cast(pl.Int64)
    shown = results.units.drop("k", "n_solved").with_columns(whole)

    def cell(name: str, row: Mapping[str, Any]) -> str:
        value = row[name]
        return f"{value:,.4f}" if isinstance(value, float) else text(_words(value))

    columns = [
        Column(_title(name), partial(cell, name), "number" if kind.is_numeric() else "word")
        for name, kind in shown.schema.items()
    ]
    return table("units", "Values by problem and seed", columns, list(shown.iter_rows(named=True)))


def _title(name: str) -> str:
    return TITLES.get(name, name.replace("_", " "))


def _card(values: Mapping[str, Any]) -> str:
    return terms({name: _words(value) for name, value in values.items()}, "card")


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_words(one)}" for name, one in value.items())
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ", ".join(map(_words, value))
    if isinstance(value, float):
        return fraction(value) if value < 1 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
