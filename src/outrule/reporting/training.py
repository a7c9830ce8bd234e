"""The sections about training: the rounds of the loop, and what the patches of each test did."""

from collections.abc import Collection, Sequence

from outrule.reporting.charts import MINUS, PER_CENT, Scale, chart, level, path
from outrule.reporting.held_out import cell_of_test, multiplied, name_of_test
from outrule.reporting.markup import Facts, Html, error_figures, figures, section, text
from outrule.reporting.tables import Column, picture, table
from outrule.words import Figures, count, percent

ROUNDS = 500  # most rounds that are drawn and listed
NOTHING = Html("<i>nothing</i>")
DOTS = 60  # up to so many rounds, every one has a dot


def thinned(rounds: Sequence[Facts]) -> list[Facts]:
    """At most ``ROUNDS`` rounds, evenly spaced, with the first and the last."""
    if len(rounds) <= ROUNDS:
        return list(rounds)
    last = len(rounds) - 1
    return [rounds[number * last // (ROUNDS - 1)] for number in range(ROUNDS)]


def rounds(summary: Facts) -> str:
    """Squared error and largest violation, round by round."""
    rows, model, after = summary["rounds"], summary["model"], summary["squared_error"]
    write, errors, shown = figures(summary), error_figures(summary), thinned(summary["rounds"])
    lead = (
        f"{count(model['n_rounds'], 'round')} and {count(model['n_patches'], 'patch')}; "
        f"the loop stopped because {model['status_sentence']}. On held-out data the squared error "
        f"went from {errors.plain(after['before'])} to {errors.plain(after['after'])}."
    )
    if len(rows) < 2:
        return section("rounds", "Round by round", lead)
    rules = [row["name"] for row in summary["rules"]]

    def flagged(row: Facts) -> str:
        return NOTHING if row["test"] is None else text(name_of_test(row["test"], rules))

    columns = [
        Column("Round", lambda row: f"{row['round']:,}", order="ascending"),
        Column("Flagged", flagged, "text"),
        Column("Violation", lambda row: write.signed(row["violation"]), "size"),
        Column("Step", lambda row: write.signed(row["step"]), "size"),
        Column("Squared error", lambda row: errors.plain(row["squared_error"])),
        Column("Instances", lambda row: f"{row['n']:,}"),
    ]
    violations = [(row["round"], abs(row["violation"])) for row in shown]
    note = (
        "Measured on the training data before each round's patch: the squared error, summed over "
        "the items of an instance, and the absolute value of the violation that led to the patch. "
        "Below the dashed line, the threshold, nothing is flagged."
    )
    if "segments" in summary:
        note += " That is for all the data; for a segment it is its own tolerance times its share."
    if len(shown) < len(rows):
        note += f" Shown are {len(shown):,} of {len(rows):,} rounds."
    return section(
        "rounds",
        "Round by round",
        lead,
        f'<div class="pair" data-first="{rows[0]["round"]:d}" data-last="{rows[-1]["round"]:d}">',
        _curve("error", [(row["round"], row["squared_error"]) for row in shown], errors),
        _curve("violation", violations, write, model["threshold"]),
        "</div>\n<details>\n<summary>The rounds in numbers</summary>",
        table("rounds", "Every round of training", columns, shown, "rounds"),
        "</details>",
        note=note,
    )


def _curve(
    series: str, points: Sequence[tuple[int, float]], write: Figures, threshold: float | None = None
) -> str:
    """A line over the rounds, with the data attributes that page.js needs to move along it."""
    name = {"error": "squared error", "violation": "absolute violation"}[series]
    title = f"{name.capitalize()} by round"
    (first, start), (last, end) = points[0], points[-1]
    across = Scale(first, max(last, first + 1))
    up = Scale.from_zero([*(y for _, y in points), threshold or 0.0])
    places = [(across.share(x), up.share(y)) for x, y in points]
    drawn = [path("curve", places)]
    if len(points) <= DOTS:
        drawn.append(path("dots", places, dotted=True))
    if threshold is not None:
        drawn.append(level("dashed", up.share(threshold)))
    words = f"{title}: {write.plain(start)} in round {first}, {write.plain(end)} in round {last}."
    attributes = (
        f' class="rounds" data-series="{series}" data-low="{up.low!r}" data-high="{up.high!r}" '
        f'data-decimals="{write.decimals}"'
    )
    return chart(title, words, ("round", name), (across, up), drawn, attributes)


def ledger(summary: Facts) -> str:
    """What the patches of each test did to the squared error."""
    found, title, rows = summary["ledger"], "Patches by test", summary["ledger"]["tests"]
    if not rows:
        words = "No patch was kept: the calibrated predictions are those the loop started from."
        return section("ledger", title, words)
    largest = max(abs(row["fall"] or 0.0) for row in rows)
    write, falls = figures(summary), Figures.for_width(largest / 10, MINUS)
    names = {row["name"]: multiplied(row) for row in summary["rules"]}
    scale = Scale.from_zero(row["fall"] or 0.0 for row in rows)

    def fall(row: Facts) -> str:
        if row["fall"] is None:
            return "—"
        share = percent(row["fall"] / found["fall"]) if found["fall"] > 0 else ""
        share = share.replace(" %", PER_CENT).replace("-", MINUS)
        return f"{falls.plain(row['fall'])} <small>{share}</small>"

    columns = [
        Column("Test", lambda row: cell_of_test(row, names), "text"),
        picture(scale, lambda row: scale.bar(row["fall"] or 0.0), "reduction of squared error"),
        Column("Reduction", fall, order="descending"),
        Column("Patches", lambda row: f"{row['n_patches']:,}"),
        Column("Sum of steps", lambda row: write.signed(row["sum_of_steps"]), "size"),
        Column("Total length", lambda row: write.plain(row["sum_of_lengths"])),
    ]
    return section(
        "ledger",
        title,
        _most(found, names, falls),
        table("ledger", "Patches of every test", columns, rows, "tests"),
        note=f"{found['note']} The sum of steps is how far the predictions that a test marks were "
        "moved; the total length adds up the steps without their signs.",
    )


def _most(found: Facts, rules: Collection[str], falls: Figures) -> str:
    top = found["tests"][0]
    words = (
        f"{count(found['n_patches'], 'patch')} for {len(found['tests']):,} of "
        f"{count(found['n_tests'], 'test')}."
    )
    if top["fall"]:
        name = name_of_test(top["test"], rules)
        words += f" The squared error fell most on “{name}”: by {falls.plain(top['fall'])}."
    return words
