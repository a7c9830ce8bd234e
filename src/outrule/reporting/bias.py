"""The bias: violations and promises of a summary enter, sections of the page leave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from outrule.reporting.evidence import Summary, confidence_of, figures_of
from outrule.reporting.markup import (
    Column,
    Columns,
    Figures,
    Picture,
    Table,
    key,
    lead,
    note,
    section,
    sign,
    text,
)
from outrule.reporting.scale import Scale

OPTIMISER = "the optimiser's own choices"


def violations(summary: Summary) -> str:
    """The bias on what each rule chooses, before and after."""
    write, tolerance = figures_of(summary), summary["model"]["tolerance"]
    rows = sorted(summary["violations"], key=lambda row: -abs(row["before"]["mean"]))
    ends = [
        row[when][end] for row in rows for when in ("before", "after") for end in ("lower", "upper")
    ]
    scale = Scale.over([*ends, tolerance, -tolerance])
    guides = {"zero": 0.0, "margin": -tolerance, "other": tolerance}
    picture = Picture("Chart", scale, guides)
    columns: Columns = [
        Column("On what is chosen by", "text"),
        picture,
        Column("Before", "size", "descending"),
        Column("Interval before"),
        Column("After", "size"),
        Column("Interval after"),
    ]
    cells = [_violation_row(row, picture, write) for row in rows]
    return section(
        "violations",
        "Violations before and after",
        lead(_largest(rows, tolerance, write)),
        key(
            sign("hollow dot soft", "before"),
            sign("dot ours", "after"),
            sign("dashed", f"tolerance, ±{write.plain(tolerance)}"),
        ),
        str(Table("violations-table", "Violation of every test", columns, cells, noun="tests")),
        note(
            "Outcome less prediction on what a rule, or the optimiser itself, chooses, per "
            "held-out instance. All intervals hold at once with "
            f"{confidence_of(summary)} confidence."
        ),
    )


def name_of_test(row: Mapping[str, Any]) -> str:
    """A rule by its name, the optimiser by what it is."""
    return f"<em>{OPTIMISER}</em>" if row["kind"] == "optimiser" else text(row["test"])


def _violation_row(row: Mapping[str, Any], picture: Picture, write: Figures) -> list[str]:
    before, after = row["before"], row["after"]
    marks = picture.interval(before, y=32), picture.interval(after, y=68)  # colours: page.css
    words = f"before {write.signed(before['mean'])}, after {write.signed(after['mean'])}"
    return [
        name_of_test(row),
        picture.cell(*marks, title=words),
        write.signed(before["mean"]),
        write.interval(before, signed=True),
        write.signed(after["mean"]),
        write.interval(after, signed=True),
    ]


def _largest(rows: list[Any], tolerance: float, write: Figures) -> str:
    parts = []
    for when in ("before", "after"):
        sizes = [abs(row[when]["mean"]) for row in rows]
        above = sum(size > tolerance for size in sizes)
        parts.append(
            f"{when} it is {write.plain(max(sizes))}, with {above:,} of {len(rows):,} above the "
            "tolerance"
        )
    return f"The largest violation: {'; '.join(parts)}."


def promises(summary: Summary) -> str:
    """What the optimiser expected of its own choices, and what came."""
    write, rows = figures_of(summary), summary["promises"]
    scale = Scale.over([number for row in rows.values() for number in row.values()], 0.12)
    picture = Picture("Chart", scale, {})
    cells = []
    for when, row in rows.items():
        predicted, realised = row["predicted"], row["realised"]
        ours = "ours" if when == "after" else ""
        marks = [
            picture.stroke(realised, predicted, f"thick {ours}".strip()),
            picture.dot(predicted, f"hollow {ours}".strip()),
            picture.dot(realised, ours),
        ]
        words = f"promised {write.plain(predicted)}, kept {write.plain(realised)}"
        cells.append(
            [
                f"{when} calibration",
                picture.cell(*marks, title=words),
                write.plain(predicted),
                write.plain(realised),
                write.signed(predicted - realised),
            ]
        )
    columns: Columns = [
        Column("Predictions", "text"),
        picture,
        Column("Promised"),
        Column("Kept"),
        Column("Too much", "size"),
    ]
    return section(
        "promises",
        "Promised and kept",
        lead(_curse(rows, write)),
        key(sign("hollow dot", "promised"), sign("dot", "kept")),
        str(Table("promises-table", "Predicted and realised value", columns, cells)),
        note(
            "What the optimiser's own choices were predicted to be worth, and what they were "
            "worth, per held-out instance. Choosing the largest predictions picks those that are "
            "too large: the winner's curse."
        ),
    )


def _curse(rows: Mapping[str, Any], write: Figures) -> str:
    parts = []
    for when in ("before", "after"):
        excess = rows[when]["predicted"] - rows[when]["realised"]
        verb = "too much" if excess >= 0 else "too little"
        parts.append(f"{write.plain(abs(excess))} {verb} {when}")
    return f"Of its own choices the optimiser promised {', and '.join(parts)}."
