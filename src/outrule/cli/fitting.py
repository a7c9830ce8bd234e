"""`outrule fit`: calibrate on a table, as a spec says, and write a model file."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

import outrule
from outrule.cli.files import SCRATCH, check_output, finish, identifiers, open_key, places_in
from outrule.cli.talking import drawn, printable, say, waiting
from outrule.errors import DataError
from outrule.files import STANDARD, is_folder
from outrule.words import Figures, count

if TYPE_CHECKING:
    from outrule import Instances
    from outrule.model.model import Model


def fit(
    table: Annotated[
        str,
        typer.Argument(help='One row per item; "-" reads standard input. Or a folder of Parquet.'),
    ],
    spec: Annotated[str, typer.Option(metavar="FILE", help="TOML file: problem, columns, rules.")],
    output: Annotated[str, typer.Option("--output", "-o", metavar="MODEL", help="File to write.")],
    epsilon: Annotated[
        float | None, typer.Option(help="Replaces that of the spec; in the units of the outcome.")
    ] = None,
    refits: Annotated[
        int,
        typer.Option(min=0, help="Fit this often again, and say how many decisions change."),
    ] = 0,
    sample: Annotated[
        int, typer.Option(min=2, help="Of a folder: most instances that the start is fitted on.")
    ] = 1_000_000,
    scratch: SCRATCH = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Of a folder: go on from here if the fit was killed."),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Of a folder: Dask cluster whose workers fit."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON.")] = False,
    key: Annotated[
        str | None, typer.Option(metavar="FILE", help="Sign the model with this secret key.")
    ] = None,
) -> None:
    """Calibrate predictions against rules.

    The table has one row per item, with its prediction and its outcome; the spec names the columns
    and the rules. Fitting changes the predictions until the plain optimiser on them is at least as
    good as the best rule on this table, minus at most epsilon; without an epsilon, as nearly as the
    data can tell. Certify it on later data before you rely on it.

    \b
    outrule fit past.parquet --spec spec.toml -o model.json

    \b
    spec.toml (`outrule example` writes a longer one, with a table):
      problem = {kind = "assignment", rows = "rider", columns = "driver"}
      data = {instance = "batch_id", prediction = "score", outcome = "completed"}
      [[rules]]
      name = "no long pickups"
      weight = "CASE WHEN pickup_km > 3 THEN 0.5 * score ELSE score END"

    A folder (or a quoted pattern) of Parquet files need not fit into memory: what the loop needs is
    kept on disk, in the scratch folder.

    \b
    outrule fit 2025/ --spec spec.toml -o model.json --scratch /mnt/disk

    \b
    --json prints one object with the keys model, instances, rows, rules, rounds,
    patches, status, epsilon, tolerance, reached (a sentence), best_rule, values
    (plain, best_rule and calibrated: means per instance of this table) and warnings; with
    --refits also stability (share_changed, value_spread, n_refits), with segments also those;
    of a large folder also sample, the number of instances whose means the values are.
    """
    check_output(output, (table, spec, key), as_json=as_json)
    secret = open_key(key)
    with waiting("calibrating"):
        from outrule.model.codec import to_text

        if is_folder(table):
            if refits:
                raise DataError("--refits is not supported for a folder: use a part of the data.")
            where = {"checkpoint": checkpoint, "scheduler": scheduler}
            model, instances, sizes = _fit_folder(table, spec, epsilon, sample, scratch, **where)
        else:
            if checkpoint is not None or scheduler is not None:
                raise DataError("--checkpoint and --scheduler are for a folder of Parquet files.")
            model, instances = _fit(table, spec, epsilon)
            sizes = {}
        summary = {"model": output, **_summary(model, instances), **sizes}
        stability = outrule.stability(model, instances, n_refits=refits) if refits else None
        if stability is not None:
            summary["stability"] = asdict(stability)
    for words in summary["warnings"]:
        say(f"Warning: {printable(words)}", err=True)
    shown = _shown(model, summary, err=output == STANDARD)
    if stability is not None:
        shown += f"\n{stability}"
    shown = json.dumps(summary, indent=1) if as_json else shown
    then = f". Next: outrule certify {output} LATER_TABLE -o certificate.json"
    finish(to_text(model, secret), output, shown, as_json=as_json, then=then)


def _fit(table: str, spec: str, epsilon: float | None) -> tuple[Model, Instances]:
    """A model, and the data it was fitted on."""
    from outrule.data.table_files import open_table
    from outrule.model.codec import check_item_names
    from outrule.model.fitting import fit_model

    file = outrule.read_spec(spec)
    read = open_table(table, identifiers(file.columns))
    with places_in(read):
        instances = file.instances(read.frame)
        check_item_names(instances.item_names or ())
        changes = {} if epsilon is None else {"epsilon": epsilon}
        return fit_model(file.settings(instances, **changes), instances), instances


def _fit_folder(
    table: str,
    spec: str,
    epsilon: float | None,
    sample: int,
    scratch: str | None,
    checkpoint: str | None,
    scheduler: str | None,
) -> tuple[Model, Instances, dict[str, Any]]:
    """A model, a sample of the data it was fitted on, and how many all of them are."""
    from outrule.model.codec import check_item_names
    from outrule.model.distributed import check_cluster, connect
    from outrule.model.partitioned import check_supported, fit_surveyed
    from outrule.model.surveying import survey

    file = outrule.read_spec(spec)
    check_supported(file.fit.get("check"), file.fit.get("segments"))
    data = file.partitions(table, sample=sample, scratch=scratch)
    check_output(checkpoint, (table, spec), option="--checkpoint")
    with nullcontext() if scheduler is None else connect(scheduler) as client:
        if client is not None:
            check_cluster(client, file.rules)
        found = survey(data, file.problem)
        check_item_names(found.item_names or ())
        changes = {} if epsilon is None else {"epsilon": epsilon}
        settings = file.settings(found.checked, **changes)
        model = fit_surveyed(settings, found, client=client, checkpoint=checkpoint)
    sizes = {"instances": found.n, "rows": found.n_rows}
    if len(found.sample) < found.n:
        sizes["sample"] = len(found.sample)
    return model, found.sample, sizes


def _summary(model: Model, instances: Instances) -> dict[str, Any]:
    from outrule import metrics
    from outrule.problems.offers import few_choices

    best = model.rules[model.best_rule]
    if instances.propensity is not None:
        instances = instances.filled(model.predict(instances))
    plain = metrics.value(instances, decisions=model.problem.solve(instances))
    marks = instances.origin.restore(instances.mark(model.pick(instances)), None)
    calibrated = metrics.value(instances, decisions=marks)
    warned = [few_choices(model.problem, instances), model.caution]
    warned = [words for words in warned if words is not None]
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
        "warnings": warned,
    }


def _segments(words: str | None) -> str:
    return "" if words is None else f"{printable(words)}\n"


def _shown(model: Model, summary: dict[str, Any], *, err: bool) -> str:
    from outrule.proof.answer import LABELS
    from outrule.rules.descriptions import full_name

    low, high = model.value_range
    write = Figures.for_width((high - low) / 1_000)
    best = full_name(model.rules[model.best_rule], model.feature_names)
    labels = LABELS | {"best_rule": f"{LABELS['best_rule']} ({best})"}
    rows = [(labels[name], write.plain(value)) for name, value in summary["values"].items()]
    title = f"{model.settings.value.title} in training"
    if "sample" in summary:
        title += f", of {count(summary['sample'], 'instance')}"
    return (
        f"{count(summary['rules'], 'rule')}, {count(summary['instances'], 'instance')}, "
        f"{count(summary['rows'], 'row')}\n{count(summary['rounds'], 'round')}, "
        f"{count(summary['patches'], 'patch')}, {summary['status']}\n"
        f"{summary['reached']}\n{_segments(summary.get('segments'))}"
        f"{drawn(('decisions by', title), rows, err=err)}"
    )
