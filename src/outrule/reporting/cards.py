"""The sections that describe the held-out data, the model and its rules, and explain the terms."""

from typing import Any

from outrule.reporting.charts import MINUS
from outrule.reporting.markup import Facts, Figures, Html, code, section, terms, text
from outrule.reporting.tables import Column, table
from outrule.words import count


def cards(summary: Facts) -> str:
    """The held-out data, the model, and its rules."""
    write = Figures.of(summary)
    columns = [
        Column("Rule", lambda row: text(row["name"]), "text"),
        Column("Kind", lambda row: text(row["kind"]), "word"),
        Column("Definition", lambda row: code(row["text"]), "text"),
        Column("Value in training", lambda row: write.plain(row["value_in_training"])),
        Column("Held out", lambda row: write.plain(row["value"])),
    ]
    return section(
        "cards",
        "Data and model",
        "",
        '<div class="pair">',
        f"<div>\n<h3>Held-out data</h3>\n{terms(_data(summary['data']), 'card')}\n</div>",
        f"<div>\n<h3>Model</h3>\n{terms(_model(summary['model'], write), 'card')}\n</div>",
        "</div>\n<h3>Rules</h3>",
        table("rules", "The rules and what they do", columns, summary["rules"], "rules"),
    )


def _data(data: Facts) -> dict[str, Any]:
    low, high = data["value_range"]
    least, most = data["least_items"], data["most_items"]
    kinds, clusters = data["n_item_names"], data["n_clusters"]
    roles = [f"{text(role)}: {code(name)}" for role, name in data["roles"].items()]
    return {
        "Source": "a table" if data["source"] == "table" else "arrays",
        "Instances": f"{data['n_instances']:,}" + (", weighted" if data["weighted"] else ""),
        "Items": f"{data['n_items']:,}" + ("" if kinds is None else f", {kinds:,} different"),
        "Items per instance": f"always {most:,}"
        if least == most
        else f"{data['mean_items']:,.4g} on average, {least:,} to {most:,}",
        "Clusters": "none: each instance is one observation"
        if clusters is None
        else f"{clusters:,}, each one observation",
        "Columns": Html("<br>".join(roles) or "—"),
        "Other columns": Html(", ".join(map(code, data["other_columns"])) or "none"),
        "Value range": f"{low:,g} to {high:,g}".replace("-", MINUS),
        "Fingerprint": code(data["fingerprint"]),
    }


def _model(model: Facts, write: Figures) -> dict[str, Any]:
    kinds = ", ".join(f"{number:,} {kind}" for kind, number in model["kinds_of_rules"].items())
    most = "" if model["max_rounds"] is None else f" of at most {model['max_rounds']:,}"
    ratio = "" if model["ratio"] == 1 else f", {model['ratio']:g} of the optimum guaranteed"
    size = f", {count(model['k'], 'item')} at most{ratio}"
    return {
        "Problem": Html(code(model["problem"]) + size),
        "Rules": f"{model['n_rules']:,}: {kinds}" if len(model["kinds_of_rules"]) > 1 else kinds,
        "Epsilon": f"{model['epsilon']:g}",
        "Tolerance": f"{write.plain(model['tolerance'])}, flagged above "
        f"{write.plain(model['threshold'])}",
        "Check": Html(f"{code(model['check'])} {text(model['heuristic'] or '')}".rstrip()),
        "Step": code(model["step"]),
        "Start": model["start"],
        "Status": f"{model['status']}: {model['status_sentence']}",
        "Rounds": f"{model['n_rounds']:,}{most}, {count(model['n_patches'], 'patch', 'patches')}",
        "Seed": "none" if model["random_state"] is None else model["random_state"],
        "Library": f"outrule {model['library']}",
        "Fingerprint": code(model["fingerprint"]),
        "Training data": Html("<br>".join(map(code, model["training_fingerprints"])) or "—"),
    }


def reading(summary: Facts) -> str:
    """What the terms mean."""
    pairs = {row["term"]: row["text"] for row in summary["reading"]}
    return section("reading", "How to read this page", "", terms(pairs, "reading"))
