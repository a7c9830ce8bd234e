"""The evidence: verdict, values and rules of a summary enter, sections of the page leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from outrule.reporting.lines import chart, level, path
from outrule.reporting.markup import (
    FOLDED,
    Column,
    Columns,
    Figures,
    Html,
    Picture,
    Table,
    count,
    key,
    lead,
    note,
    section,
    sign,
    terms,
    text,
)
from outrule.reporting.scale import Scale

Summary = Mapping[str, Any]

VERDICTS = {"pass": "Pass", "inconclusive": "Inconclusive", "fail": "Fail"}
ICONS = {  # a tick, a question mark, a cross
    "pass": '<path d="M15 25l7 7 12-15"/>',
    "inconclusive": '<path d="M18.5 19.5a5.5 5.5 0 1 1 8 4.9q-2.5 1.3-2.5 4M24 33.5v.1"/>',
    "fail": '<path d="M17 17l14 14M31 17l-14 14"/>',
}
MARKS = {"pass": "dot", "inconclusive": "hollow dot", "fail": "square"}


def figures_of(summary: Summary) -> Figures:
    """How values are written in this report."""
    low, high = summary["data"]["value_range"]
    return Figures.of_range(high - low)


def verdict(summary: Summary) -> str:
    """The verdict, large, with the figures it rests on."""
    found, write = summary["verdict"], figures_of(summary)
    word = found["verdict"]
    share = f"{100 * found['confidence']:g} %"
    observations = count(found["n_observations"], "observation")
    if found["n_observations"] != found["n_instances"]:
        observations += f" of {count(found['n_instances'], 'instance')}"
    tiles = {
        "Gap to the best rule": _tile(
            write.signed(found["gap"]), f"at least {write.signed(found['gap_lower'])}"
        ),
        "Over the plain optimiser": _tile(
            write.signed(found["improvement"]["mean"]),
            write.interval(found["improvement"], signed=True),
        ),
        "Tolerated margin": _tile(write.plain(found["margin"]), f"epsilon {found['epsilon']:g}"),
        "Confidence": _tile(share, f"on {observations}"),
    }
    return (
        f'<section id="verdict" class="verdict {word}" aria-labelledby="verdict-title">\n'
        f'<svg class="icon" viewBox="0 0 48 48" aria-hidden="true"><circle cx="24" cy="24" '
        f'r="22"/>{ICONS[word]}</svg>\n'
        f'<div><h1 id="verdict-title">{VERDICTS[word]}</h1>\n'
        f"<p>{text(found['sentence'])}</p></div>\n{terms(tiles, 'tiles')}\n</section>"
    )


def _tile(figure: str, more: str) -> Html:
    return Html(f"<b>{text(figure)}</b> <span>{text(more)}</span>")


def values(summary: Summary) -> str:
    """The five values, each with its interval."""
    write, rows = figures_of(summary), summary["values"]
    ends = [row[end] for row in rows for end in ("lower", "upper")]
    ours = next(row["mean"] for row in rows if row["name"] == "calibrated")
    picture = Picture("Chart", Scale.over(ends), {"guide": ours})
    cells = []
    for row in rows:
        kind = "ours" if row["name"] == "calibrated" else ""
        label = text(row["label"])
        if row["name"] == "best_rule":
            label += f"<small>{text(summary['model']['best_rule'])}</small>"
        words = f"{write.plain(row['mean'])} ({write.interval(row)})"
        cells.append(
            [
                label,
                picture.cell(picture.interval(row, kind), title=words),
                write.plain(row["mean"]),
                write.interval(row),
            ]
        )
    columns: Columns = [
        Column("Decided by", "text"),
        picture,
        Column("Value"),
        Column(f"{confidence_of(summary)} interval"),
    ]
    marked = frozenset(i for i, row in enumerate(rows) if row["name"] == "calibrated")
    return section(
        "values",
        "What the decisions are worth",
        lead(_gain(summary)),
        str(Table("values-table", "Value by way of deciding", columns, cells, marked)),
        note("Mean value per held-out instance; a line is the confidence interval of its own."),
    )


def confidence_of(summary: Summary) -> str:
    """The confidence, in per cent."""
    return f"{100 * summary['verdict']['confidence']:g} %"


def _gain(summary: Summary) -> str:
    """What calibration brought, and whether something simpler brings more."""
    write, gain = figures_of(summary), summary["verdict"]["improvement"]
    values = {row["name"]: row["mean"] for row in summary["values"]}
    settled = gain["lower"] > 0 or gain["upper"] < 0
    if gain["mean"] == 0:
        words = "Calibration changes nothing here."
    else:
        words = f"Calibration is worth {write.signed(gain['mean'])} per instance over the plain "
        words += "optimiser"
        most = values["oracle"] - values["plain"]
        if settled and gain["mean"] > 0 and most > 0:  # an inexact optimiser may have less
            words += f", {100 * gain['mean'] / most:.0f} % of what an oracle would add"
        words += "." if settled else "; on these data that cannot be told from nothing."
    others = {"best_rule": "The best rule, picked in training,", "isotonic": "Isotonic regression"}
    for name, noun in others.items():
        more = values[name] - values["calibrated"]
        if more > 0:
            words += f" {noun} is worth {write.plain(more)} more."
    return words


def forest(summary: Summary) -> str:
    """Every rule against the calibrated optimiser, the closest first."""
    write, margin = figures_of(summary), summary["verdict"]["margin"]
    rows = sorted(summary["rules"], key=lambda row: row["difference"]["mean"])
    ends = [row["difference"][end] for row in rows for end in ("lower", "upper")]
    picture = Picture("Chart", Scale.over([*ends, 0.0, -margin]), {"zero": 0.0, "margin": -margin})
    columns: Columns = [
        Column("Rule", "text"),
        picture,
        Column("Difference", order="ascending"),
        Column("At least"),
        Column("At most"),
        Column("Value of rule"),
        Column("Verdict", "word"),
    ]
    cells = [_forest_row(row, picture, write) for row in rows]
    return section(
        "forest",
        "Against every rule",
        lead(_closest(summary, rows, write)),
        key(
            sign("dot", "worth at least as much, less the margin"),
            sign("hollow dot", "not settled"),
            sign("square", "the rule is worth more"),
            sign("dashed", f"margin, {write.signed(-margin)}"),
        ),
        _overview(rows, margin) if len(rows) > FOLDED else "",
        str(Table("forest-table", "Difference to every rule", columns, cells, noun="rules")),
        note(
            "Value of the calibrated optimiser less that of the rule, on the same instances. The "
            f"lower bounds hold for all rules at once with {confidence_of(summary)} confidence, "
            "and so do the upper ones."
        ),
    )


def _overview(rows: Sequence[Any], margin: float) -> str:
    """All rules in one picture, where the table would be long."""
    found = [row["difference"] for row in rows]
    across = Scale(0, len(rows))
    up = Scale.over([0.0, -margin, *(row[end] for row in found for end in ("lower", "upper"))])
    lower, mean, upper = (
        [(across.share(i + 0.5), up.share(row[name])) for i, row in enumerate(found)]
        for name in ("lower", "mean", "upper")
    )
    drawn = [
        path("band", [*lower, *reversed(upper)]),
        level("zero", up.share(0.0)),
        level("dashed", up.share(-margin)),
        path("curve", mean),
    ]
    title = f"All {len(rows):,} rules at a glance, the closest first"
    return chart(title, f"{title}; the table has the figures.", across, up, drawn)


def _forest_row(row: Mapping[str, Any], picture: Picture, write: Figures) -> list[str]:
    difference, word = row["difference"], row["verdict"]
    line, middle = picture.stroke(difference["lower"], difference["upper"]), difference["mean"]
    if word == "fail":
        mark = picture.square(middle)
    else:
        mark = picture.dot(middle, "" if word == "pass" else "hollow")
    words = f"{write.signed(difference['mean'])} ({write.interval(difference, signed=True)})"
    return [
        text(row["name"]),
        picture.cell(line, mark, title=words),
        *(write.signed(difference[name]) for name in ("mean", "lower", "upper")),
        write.plain(row["value"]),
        VERDICTS[word].lower(),
    ]


def _closest(summary: Summary, rows: list[Any], write: Figures) -> str:
    tally = {word: sum(row["verdict"] == word for row in rows) for word in VERDICTS}
    name = summary["verdict"]["closest_rule"]
    near = next(row["difference"] for row in rows if row["name"] == name)
    more = "more" if near["mean"] >= 0 else "less"
    words = (
        f"By its lower bound the closest rule is “{name}”: the calibrated optimiser is worth "
        f"{write.plain(abs(near['mean']))} {more} than it; the difference is at least "
        f"{write.signed(near['lower'])}."
    )
    if tally["pass"] == len(rows):
        return words
    parts = [
        f"{_are(tally['fail'])} worth more by more than the margin" if tally["fail"] else "",
        f"{_are(tally['inconclusive'])} not settled" if tally["inconclusive"] else "",
    ]
    return f"{words} Of {count(len(rows), 'rule')}, {' and '.join(filter(None, parts))}."


def _are(number: int) -> str:
    return f"{number:,} {'is' if number == 1 else 'are'}"
