"""The training: history and patches of a summary enter, sections of the page leave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from outrule.reporting.bias import OPTIMISER, name_of_test
from outrule.reporting.evidence import Summary, figures_of
from outrule.reporting.lines import chart, level, path
from outrule.reporting.markup import (
    Column,
    Columns,
    Figures,
    Picture,
    Table,
    count,
    lead,
    note,
    section,
    text,
)
from outrule.reporting.scale import MINUS, Scale

ROUNDS = 500  # most rounds that are drawn and listed
DOTS = 60  # rounds up to which every one has a dot


def thinned(rounds: Sequence[Any]) -> list[Any]:
    """At most so many rounds, evenly spaced, the first and the last among them."""
    if len(rounds) <= ROUNDS:
        return list(rounds)
    last = len(rounds) - 1
    return [rounds[number * last // (ROUNDS - 1)] for number in range(ROUNDS)]


def rounds(summary: Summary) -> str:
    """Squared error and largest violation, round by round."""
    rows, write, errors = summary["rounds"], figures_of(summary), _error_figures(summary)
    shown = thinned(rows)
    found = lead(_fell(summary, errors))
    title = "Round by round"
    if len(rows) < 2:
        return section("rounds", title, found)
    charts = [
        _chart("Squared error by round", "error", shown, lambda row: row["squared_error"], errors),
        _chart(
            "Violation by round",
            "violation",
            shown,
            lambda row: abs(row["violation"]),
            write,
            summary["model"]["threshold"],
        ),
    ]
    left_out = "" if len(shown) == len(rows) else f" Shown are {len(shown):,} of {len(rows):,}."
    return section(
        "rounds",
        title,
        found,
        f'<div class="pair" data-first="{rows[0]["round"]:d}" data-last="{rows[-1]["round"]:d}">',
        *charts,
        "</div>",
        _details("The rounds in figures", _rounds_table(shown, write, errors)),
        note(
            "On the training data, before the patch of the round: the squared error summed over "
            "the items of an instance, and the violation, without its sign, that led to the patch; "
            f"the dashed line is the threshold below which nothing is flagged.{left_out}"
        ),
    )


def patches_of(found: Mapping[str, Any]) -> str:
    """How many patches there are."""
    number = found["n_patches"]
    return count(number, "patch", "patches") if number else "no patch"


def _error_figures(summary: Summary) -> Figures:
    low, high = summary["data"]["value_range"]
    return Figures.of_range((high - low) ** 2)


def _fell(summary: Summary, errors: Figures) -> str:
    model, held_out = summary["model"], summary["squared_error"]
    return (
        f"{count(model['n_rounds'], 'round')} and {patches_of(model)}; then "
        f"{model['status_sentence']}. On held-out data the squared error went from "
        f"{errors.plain(held_out['before'])} to {errors.plain(held_out['after'])}."
    )


def _chart(
    title: str,
    name: str,
    rows: Sequence[Any],
    number: Callable[[Any], float],
    write: Figures,
    threshold: float | None = None,
) -> str:
    """A line over rounds, with what the script needs to walk along it."""
    numbers = [number(row) for row in rows]
    across = Scale(rows[0]["round"], max(rows[-1]["round"], rows[0]["round"] + 1))
    up = Scale.over([*numbers, *([0.0, threshold] if threshold is not None else [])])
    points = [
        (across.share(row["round"]), up.share(y)) for row, y in zip(rows, numbers, strict=True)
    ]
    drawn = [path("curve", points)]
    if len(rows) <= DOTS:
        drawn.append(path("dots", points, dotted=True))
    if threshold is not None:
        drawn.append(level("dashed", up.share(threshold)))
    words = (
        f"{title}: {write.plain(numbers[0])} in round {rows[0]['round']}, "
        f"{write.plain(numbers[-1])} in round {rows[-1]['round']}."
    )
    attributes = (
        f'class="lines rounds" data-series="{name}" data-low="{up.low!r}" data-high="{up.high!r}" '
        f'data-decimals="{write.decimals}"'
    )
    return chart(title, words, across, up, drawn, attributes)


def _rounds_table(rows: Sequence[Any], write: Figures, errors: Figures) -> str:
    cells = [
        [
            f"{row['round']:,}",
            "<i>nothing</i>" if row["test"] is None else text(row["test"]),
            write.signed(row["violation"]),
            write.signed(row["step"]),
            errors.plain(row["squared_error"]),
            f"{row['n']:,}",
        ]
        for row in rows
    ]
    columns: Columns = [
        Column("Round", order="ascending"),
        Column("Flagged", "text"),
        Column("Violation", "size"),
        Column("Step", "size"),
        Column("Squared error"),
        Column("Instances"),
    ]
    return str(Table("rounds-table", "Every round of training", columns, cells, noun="rounds"))


def _details(summary: str, content: str) -> str:
    return f"<details>\n<summary>{text(summary)}</summary>\n{content}\n</details>"


def ledger(summary: Summary) -> str:
    """What the patches of each test were worth."""
    found = summary["ledger"]
    title = "Patches by rule"
    if not found["tests"]:
        words = "No patch was kept: the predictions are as they came, or as the start gave them."
        return section("ledger", title, lead(words))
    write, errors = figures_of(summary), _error_figures(summary)
    rows, total = found["tests"], found["fall"]
    picture = Picture("Chart", Scale.over([0.0, *(row["fall"] or 0.0 for row in rows)], 0.02), {})
    columns: Columns = [
        Column("Test", "text"),
        picture,
        Column("Worth", order="descending"),
        Column("Share"),
        Column("Patches"),
        Column("Sum of steps", "size"),
        Column("Sum of lengths"),
    ]
    cells = [_ledger_row(row, total, picture, write, errors) for row in rows]
    return section(
        "ledger",
        title,
        lead(_most(found, errors)),
        str(Table("ledger-table", "Patches of every test", columns, cells, noun="tests")),
        note(
            f"{found['note']} The sum of steps says how far the predictions that a test marks were "
            "moved; the sum of lengths counts steps back as well."
        ),
    )


def _ledger_row(
    row: Mapping[str, Any], total: float, picture: Picture, write: Figures, errors: Figures
) -> list[str]:
    fall = row["fall"]
    worth = "—" if fall is None else errors.plain(fall)
    share = "—" if fall is None or total <= 0 else f"{100 * fall / total:.1f} %".replace("-", MINUS)
    return [
        name_of_test(row),
        picture.cell(picture.bar(fall or 0.0), title=worth),
        worth,
        share,
        f"{row['n_patches']:,}",
        write.signed(row["sum_of_steps"]),
        write.plain(row["sum_of_lengths"]),
    ]


def _most(found: Mapping[str, Any], errors: Figures) -> str:
    top, n_tests = found["tests"][0], found["n_tests"]
    untouched = n_tests - len(found["tests"])
    name = OPTIMISER if top["kind"] == "optimiser" else f"“{top['test']}”"
    words = (
        f"{count(found['n_patches'], 'patch', 'patches')} of {count(len(found['tests']), 'test')}"
    )
    if untouched:
        words += f"; the other {untouched:,} of {n_tests:,} needed none"
    if top["fall"]:
        words += f". Most was gained on {name}: {errors.plain(top['fall'])} of squared error"
    return f"{words}."
