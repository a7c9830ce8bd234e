"""One HTML page with claims, figures and settings, in the style of the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
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
    "line_batches": "batch sizes of the line search",
    "equal_batches": "batch sizes of reuse",
    "equal_epsilons": "epsilons of reuse",
}


def render(results: Results, claims: Sequence[Claim], figures: Sequence[Figure]) -> str:
    """Write the page; links to figures are relative, to files beside it."""
    tally = Counter(claim.verdict for claim in claims)
    tiles = {str(one): Html(f"<b>{tally[one]}</b>") for one in Verdict if tally[one]}
    machine = dict(results.provenance)
    if isinstance(seconds := machine.pop("seconds", None), int | float):
        machine["time (h:m:s)"] = timedelta(seconds=round(seconds))
    return Template(_read("outrule.evaluation", "page.html")).substitute(
        style=_read("outrule.reporting", "page.css"),
        tiles=terms(tiles, "tiles"),
        claims="\n".join(map(_claim, claims)),
        figures="\n".join(map(_figure, figures)),
        units=_units(results),
        grid=_card({_title(name): value for name, value in results.grid.as_json().items()}),
        machine=_card(machine),
    )


def _read(package: str, name: str) -> str:
    return files(package).joinpath(name).read_text(encoding="utf-8")


def _claim(claim: Claim) -> str:
    return (
        f'<h3>{text(claim.statement)}</h3>\n<p class="note"><b class="{claim.verdict.name}">'
        f"{claim.verdict}</b> · {text(claim.source)}</p>\n{terms(claim.measured, 'card')}"
    )


def _figure(figure: Figure) -> str:
    name, title = text(figure.name), text(figure.title)
    return (
        f'<figure id="{name}">\n<figcaption>{title}</figcaption>\n'
        f'<img src="{name}.svg" alt="{title}">\n<p class="note">{text(figure.caption)} '
        f'<a href="{name}.png">PNG</a>, <a href="{name}.svg">SVG</a></p>\n</figure>'
    )


def _units(results: Results) -> str:
    whole = pl.col("seconds").round().cast(pl.Int64)
    shown = results.units.drop("k", "n_solved").with_columns(whole)

    def cell(name: str) -> Callable[[Mapping[str, Any]], str]:
        def write(row: Mapping[str, Any]) -> str:
            value = row[name]
            return f"{value:,.4f}" if isinstance(value, float) else text(_words(value))

        return write

    columns = [
        Column(_title(name), cell(name), "number" if kind.is_numeric() else "word")
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
