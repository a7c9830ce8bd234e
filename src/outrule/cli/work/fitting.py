"""Fits on a table, or on a folder of Parquet files, and what is said of them."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from outrule import metrics
from outrule.cli.options import check_output
from outrule.cli.talking import drawn, printable
from outrule.cli.work.files import open_rows, places_in
from outrule.data.filled import Flags
from outrule.data.instances import Instances
from outrule.data.partitions import naming
from outrule.model.codec import check_item_names
from outrule.model.distributed import check_cluster, connect
from outrule.model.fitting import fit_model
from outrule.model.model import Model
from outrule.model.partitioned import check_supported, fit_surveyed
from outrule.model.spec_file import read_spec
from outrule.model.surveying import survey
from outrule.problems.offers import few_choices
from outrule.proof.answer import LABELS
from outrule.rules.descriptions import full_name
from outrule.words import Figures, count

ESTIMATED = (
    "These values are estimated from the log that the model was fitted on, so the calibrated one "
    "looks better than it is. A certificate on later data says what it is worth."
)


def fit_table(table: str, spec: str, epsilon: float | None) -> tuple[Model, Instances]:
    """A model, and the data it was fitted on."""
    file = read_spec(spec)
    read = open_rows(table, file.columns)
    with places_in(read):
        instances = file.instances(read.frame)
        check_item_names(instances.item_names or ())
        changes = {} if epsilon is None else {"epsilon": epsilon}
        return fit_model(file.settings(instances, **changes), instances), instances


def fit_folder(
    table: str,
    spec: str,
    epsilon: float | None,
    sample: int,
    scratch: str | None,
    checkpoint: str | None,
    scheduler: str | None,
) -> tuple[Model, Instances, dict[str, Any]]:
    """A model, a sample of the data it was fitted on, and how many all of them are."""
    file = read_spec(spec)
    check_supported(file.fit.get("check"))
    data = file.partitions(table, sample=sample, scratch=scratch)
    check_output(checkpoint, (table, spec), option="--checkpoint")
    if scheduler is None:
        with data.room(0):
            pass  # an unusable scratch folder is said before any work
    with nullcontext() if scheduler is None else connect(scheduler) as client:
        if client is not None:
            check_cluster(client, file.problem, file.rules)
        found = survey(data, file.problem, segments=file.fit.get("segments"))
        check_item_names(found.item_names or ())
        changes = {} if epsilon is None else {"epsilon": epsilon}
        with naming(data.files[0]):  # all of them have the same columns
            settings = file.settings(found.checked, **changes)
        model = fit_surveyed(settings, found, client=client, checkpoint=checkpoint)
    sizes = {"instances": found.n, "rows": found.n_rows}
    if len(found.sample) < found.n:
        sizes["sample"] = len(found.sample)
    return model, found.sample, sizes


def summarise(model: Model, instances: Instances) -> dict[str, Any]:
    """What is printed, as plain values."""
    best, logged = model.rules[model.best_rule], instances.propensity is not None
    filled = Flags.of(instances).warnings()
    if logged:
        instances = instances.filled(model.predict(instances))
    plain = metrics.value(instances, decisions=model.problem.solve(instances))
    marks = instances.origin.restore(instances.mark(model.pick(instances)), None)
    calibrated = metrics.value(instances, decisions=marks)
    warned = [few_choices(model.problem, instances), model.caution]
    warned = [*(words for words in warned if words is not None), *filled]
    if calibrated < plain - model.margin:
        warned.append(
            f"on this table the calibrated predictions are worth {calibrated:.4f}, less than the "
            f"original ones ({plain:.4f}). Do not use the model before it is certified."
        )
    return {
        "instances": len(instances),
        "rows": len(instances.prediction),
        "rules": len(model.rules),
        "rounds": len(model.history),
        "patches": len(model.patches),
        "status": model.status.value,
        "epsilon": model.epsilon,
        "tolerance": model.tolerance,
        "reached": model.reached,
        **({} if model.inside is None else {"segments": model.inside}),
        "best_rule": best.name,
        "values": {
            "plain": plain,
            "best_rule": metrics.values_of_rules(model.problem, [best], instances)[best.name],
            "calibrated": calibrated,
        },
        **({"note": ESTIMATED} if logged else {}),
        "warnings": warned,
    }


def shown(model: Model, summary: dict[str, Any], *, err: bool) -> str:
    """What is printed, in words."""
    low, high = model.value_range
    write = Figures.for_width((high - low) / 1_000)
    best = full_name(model.rules[model.best_rule], model.feature_names)
    labels = LABELS | {"best_rule": f"{LABELS['best_rule']} ({best})"}
    rows = [(labels[name], write.plain(value)) for name, value in summary["values"].items()]
    title = f"{model.settings.value.title} in training"
    if "sample" in summary:
        title += f", of {count(summary['sample'], 'instance')}"
    inside = f"{printable(summary['segments'])}\n" if "segments" in summary else ""
    note = f"\n{summary['note']}" if "note" in summary else ""
    return (
        f"{count(summary['rules'], 'rule')}, {count(summary['instances'], 'instance')}, "
        f"{count(summary['rows'], 'row')}\n{count(summary['rounds'], 'round')}, "
        f"{count(summary['patches'], 'patch')}, {summary['status']}\n"
        f"{summary['reached']}\n{inside}"
        f"{drawn(('decisions by', title), rows, err=err)}{note}"
    )
