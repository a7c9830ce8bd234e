"""The sections that describe the held-out data, the model and its rules, and explain the terms."""

from typing import Any

from outrule.reporting.charts import MINUS
from outrule.reporting.markup import Facts, Html, code, figures, section, terms, text
from outrule.reporting.tables import Column, table
from outrule.words import count, figure

KINDS = {  # of rules, by the names of their classes
    "Multiplier": "multiplier",
    "Reweight": "reweighting",
    "Choose": "choice",
    "Fixed": "fixed item",
}
READING = {
    "Value": "The sum of the outcomes of the items a decision takes, as a mean per instance. More "
    "is better. With weights, means are weighted, and a total is the mean times the number of "
    "instances.",
    "Verdict": "Pass: with the stated confidence the plain optimiser on the calibrated predictions "
    "is at least as good as every rule, the plain optimiser on the original predictions and "
    "isotonic regression, minus at most the margin, and is not significantly worse than the last "
    "two. Fail: some rule is better by more than the margin, or one of the last two is better. "
    "Inconclusive: there is too little data to say, or sizes vary and no bound on them is "
    "declared.",
    "Margin": "How far below the best rule is acceptable, in the units of the value: the epsilon "
    "that was asked for, or what the training data support.",
    "Gap": "The smallest difference to a rival, and the smallest of their lower bounds. The true "
    "gap is the difference to one rival, so the bound needs no correction for their number.",
    "Difference to a rival": "Value of the calibrated optimiser minus that of the rival, on the "
    "same instances. The interval is shared over all rivals: all lower bounds hold at once, and "
    "all upper bounds. A pass rests on the lower bound for the rival alone; if all rivals pass, "
    "that holds for all of them together.",
    "Intervals": "Bounds by betting, valid for any number of independent observations: instances, "
    "or whole clusters where the data have them. Those of the violations are approximate, the "
    "usual cluster-robust t intervals: narrower, and good for many observations.",
    "Violation": "Outcome minus prediction, summed over what a rule (or the optimiser itself) "
    "chooses, as a mean per instance. Zero means unbiased. If no violation is larger than the "
    "tolerance, no rule can be worth more than the optimiser by more than the margin.",
    "Predicted vs realised": "What the optimiser's own choices were predicted to be worth, and "
    "what they were worth. Choosing the largest predictions favours those that are too large: the "
    "winner's curse. After calibration the two should agree.",
    "Best rule": "Picked by its value in training, as one would pick it in practice; on held-out "
    "data another rule may be better. The verdict compares with every rule.",
    "Oracle": "The optimiser on the outcomes themselves: a ceiling that no prediction reaches.",
    "Limits": "The figures hold for data like these held-out instances. Training instances "
    "among them, found by their exact predictions and outcomes, are an error; a few are a note on "
    "the first screen.",
}


def cards(summary: Facts) -> str:
    """The held-out data, the model, and its rules."""
    write = figures(summary)
    columns = [
        Column("Rule", lambda row: text(row["name"]), "text"),
        Column("Kind", lambda row: text(KINDS.get(row["kind"], row["kind"])), "word"),
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
        f"<div>\n<h3>Model</h3>\n{terms(_model(summary['model']), 'card')}\n</div>",
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


def _model(model: Facts) -> dict[str, Any]:
    kinds = ", ".join(
        count(n, KINDS.get(kind, kind)) for kind, n in model["kinds_of_rules"].items()
    )
    most = "" if model["max_rounds"] is None else f" of at most {model['max_rounds']:,}"
    ratio = "" if model["ratio"] == 1 else f", {model['ratio']:g} of the optimum guaranteed"
    size = f"at most {count(model['k'], 'item')}{ratio}"
    flagged = f", flagged above {figure(model['threshold'])}"
    return {
        "Problem": f"{model['problem']}; {size}",
        "Rules": f"{model['n_rules']:,}: {kinds}" if len(model["kinds_of_rules"]) > 1 else kinds,
        "Epsilon": figure(model["epsilon"]),
        "Tolerance": figure(model["tolerance"])
        + ("" if model["threshold"] == model["tolerance"] else flagged),
        "Check": ". ".join(filter(None, [model["check"], model["heuristic"]])),
        "Step": model["step"],
        "Start": model["start"],
        "Status": f"{model['status']}: {model['status_sentence']}",
        "Training": model["reached"],
        "Rounds": f"{model['n_rounds']:,}{most}, {count(model['n_patches'], 'patch')}",
        "Seed": model["random_state"] or 0,
        "Library": f"outrule {model['library']}",
        "Fingerprint": code(model["fingerprint"]),
        "Training data": Html("<br>".join(map(code, model["training_fingerprints"])) or "—"),
    }


def reading(_: Facts) -> str:
    """What the terms mean."""
    return section("reading", "How to read this page", "", terms(READING, "reading"))
