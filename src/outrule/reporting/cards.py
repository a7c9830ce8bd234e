"""The cards: what a summary says of data, model and terms enters, sections of the page leave."""

from __future__ import annotations

from typing import Any

from outrule.reporting.evidence import Summary, figures_of
from outrule.reporting.markup import Column, Html, Table, count, section, terms, text
from outrule.reporting.scale import MINUS
from outrule.reporting.training import patches_of


def cards(summary: Summary) -> str:
    """The held-out data, the model, and its rules."""
    return section(
        "cards",
        "Data and model",
        '<div class="pair">',
        f"<div>\n<h3>Held-out data</h3>\n{terms(_data(summary), 'card')}\n</div>",
        f"<div>\n<h3>Model</h3>\n{terms(_model(summary), 'card')}\n</div>",
        "</div>",
        f"<h3>Rules</h3>\n{_rules(summary)}",
    )


def _data(summary: Summary) -> dict[str, Any]:
    data = summary["data"]
    low, high = data["value_range"]
    most, least = data["most_items"], data["least_items"]
    spread = f"always {most:,}" if least == most else f"{least:,} to {most:,}"
    kinds = data["n_item_names"]
    clusters = data["n_clusters"]
    roles = Html(
        "<br>".join(f"{text(role)}: {_code(name)}" for role, name in data["roles"].items())
    )
    others = Html(", ".join(map(_code, data["other_columns"])))
    return {
        "Source": "a table" if data["source"] == "table" else "arrays",
        "Instances": f"{data['n_instances']:,}" + (", weighted" if data["weighted"] else ""),
        "Items on offer": f"{data['n_items']:,}"
        + ("" if kinds is None else f", of {count(kinds, 'kind')}"),
        "Items per instance": f"{data['mean_items']:,.4g} on average, {spread}",
        "Clusters": "none named: every instance is an observation"
        if clusters is None
        else f"{clusters:,}, each one observation",
        "Columns": roles or "—",
        "Other columns": others or "none",
        "Value range": f"{low:,g} to {high:,g}".replace("-", MINUS),
        "Fingerprint": Html(_code(data["fingerprint"])),
    }


def _model(summary: Summary) -> dict[str, Any]:
    model, write = summary["model"], figures_of(summary)
    kinds = ", ".join(f"{number:,} {kind}" for kind, number in model["kinds_of_rules"].items())
    prints = Html("<br>".join(map(_code, model["training_fingerprints"])))
    rounds = f"{model['n_rounds']:,}"
    if model["max_rounds"] is not None:
        rounds += f" of at most {model['max_rounds']:,}"
    optimiser = "" if model["ratio"] == 1 else f", {model['ratio']:g} of the optimum guaranteed"
    return {
        "Problem": Html(
            f"{_code(model['problem'])}, {count(model['k'], 'item')} at most{text(optimiser)}"
        ),
        "Rules": f"{model['n_rules']:,}: {kinds}" if len(model["kinds_of_rules"]) > 1 else kinds,
        "Epsilon": f"{model['epsilon']:g}",
        "Tolerance": f"{write.plain(model['tolerance'])}, flagged above "
        f"{write.plain(model['threshold'])}",
        "Check": Html(_code(model["check"])),
        "Step": Html(_code(model["step"])),
        "Start": model["start"],
        "Status": f"{model['status']}: {model['status_sentence']}",
        "Rounds": f"{rounds}, {patches_of(model)}",
        "Seed": "none" if model["random_state"] is None else model["random_state"],
        "Library": f"outrule {model['library']}",
        "Fingerprint": Html(_code(model["fingerprint"])),
        "Training data": prints or "—",
    }


def _rules(summary: Summary) -> str:
    write = figures_of(summary)
    cells = [
        [
            text(row["name"]),
            text(row["kind"]),
            _code(row["text"]),
            write.plain(row["value_in_training"]),
            write.plain(row["value"]),
        ]
        for row in summary["rules"]
    ]
    columns = [
        Column("Rule", "text"),
        Column("Kind", "word"),
        Column("Definition", "text"),
        Column("Value in training"),
        Column("Held out"),
    ]
    return str(Table("rules-table", "The rules and what they do", columns, cells, noun="rules"))


def _code(value: object) -> str:
    return f"<code>{text(value)}</code>"


def reading(summary: Summary) -> str:
    """What the terms mean."""
    pairs = {row["term"]: row["text"] for row in summary["reading"]}
    return section("reading", "How to read it", terms(pairs, "reading"))
