"""`outrule fit`: calibrate on a table, as a spec says, and write a model file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

import outrule
from outrule.cli.files import check_output, finish, open_key
from outrule.cli.talking import drawn, printable, say, waiting
from outrule.files import STANDARD
from outrule.words import count

if TYPE_CHECKING:
    from outrule import Instances
    from outrule.model.model import Model


def fit(
    table: Annotated[str, typer.Argument(help='One row per item; "-" reads standard input.')],
    spec: Annotated[str, typer.Option(metavar="FILE", help="TOML file: problem, columns, rules.")],
    output: Annotated[str, typer.Option("--output", "-o", metavar="MODEL", help="File to write.")],
    epsilon: Annotated[float | None, typer.Option(help="Replaces the epsilon of the spec.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON.")] = False,
    key: Annotated[
        str | None, typer.Option(metavar="FILE", help="Sign the model with this secret key.")
    ] = None,
) -> None:
    """Calibrate predictions against rules.

    The table has one row per item, with its prediction and its outcome; the spec names the columns
    and the rules. Fitting changes the predictions until the plain optimiser on them is at least as
    good as the best rule on this table, minus at most epsilon. Certify it on later data before you
    rely on it.

    \b
    outrule fit past.parquet --spec spec.toml -o model.json

    \b
    spec.toml (`outrule example` writes a longer one, with a table):
      epsilon = 0.05
      problem = {kind = "assignment", rows = "rider", columns = "driver"}
      data = {instance = "batch_id", prediction = "score", outcome = "completed"}
      [[rules]]
      name = "no long pickups"
      weight = "CASE WHEN pickup_km > 3 THEN 0.5 * score ELSE score END"

    \b
    --json prints one object with the keys model, instances, rows, rules, rounds,
    patches, status, epsilon, tolerance, best_rule, values (plain, best_rule and
    calibrated: means per instance of this table) and warnings.
    """
    check_output(output, (table, spec, key), as_json=as_json)
    secret = open_key(key)
    with waiting("calibrating"):
        from outrule.model.codec import to_text

        model, instances = _fit(table, spec, epsilon)
        summary = {"model": output, **_summary(model, instances)}
    for words in summary["warnings"]:
        say(f"Warning: {printable(words)}", err=True)
    shown = json.dumps(summary, indent=1) if as_json else _shown(summary, err=output == STANDARD)
    then = f". Next: outrule certify {output} LATER_TABLE -o certificate.json"
    finish(to_text(model, secret), output, shown, as_json=as_json, then=then)


def _fit(table: str, spec: str, epsilon: float | None) -> tuple[Model, Instances]:
    """A model, and the data it was fitted on."""
    from outrule.data.table_files import read_table
    from outrule.model.codec import check_item_names
    from outrule.model.fitting import fit_model

    file = outrule.read_spec(spec)
    instances = file.instances(read_table(table))
    check_item_names(instances.item_names or ())
    changes = {} if epsilon is None else {"epsilon": epsilon}
    return fit_model(file.settings(instances, **changes), instances), instances


def _summary(model: Model, instances: Instances) -> dict[str, Any]:
    from outrule import metrics

    best = model.rules[model.best_rule]
    plain = metrics.value(instances, decisions=model.problem.solve(instances))
    marks = instances.origin.restore(instances.mark(model.pick(instances)), None)
    calibrated = metrics.value(instances, decisions=marks)
    warned = [] if model.caution is None else [model.caution]
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
        "best_rule": best.name,
        "values": {
            "plain": plain,
            "best_rule": metrics.values_of_rules(model.problem, [best], instances)[best.name],
            "calibrated": calibrated,
        },
        "warnings": warned,
    }


def _shown(summary: dict[str, Any], *, err: bool) -> str:
    best = f"best rule ({summary['best_rule']})"
    labels = ("plain optimiser, original predictions", best, "plain optimiser, outrule")
    values = (f"{value:.4f}" for value in summary["values"].values())
    rows = zip(labels, values, strict=True)
    return (
        f"{count(summary['rules'], 'rule')}, {count(summary['instances'], 'instance')}, "
        f"{count(summary['rows'], 'row')}\n{count(summary['rounds'], 'round')}, "
        f"{count(summary['patches'], 'patch', 'patches')}, {summary['status']}\n"
        f"{drawn(('decisions by', 'value in training'), rows, err=err)}"
    )
