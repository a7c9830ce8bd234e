"""`outrule fit`: calibrate on a table, as a spec says, and write a model file."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Annotated, Any

import typer

import outrule
from outrule.cli.files import STANDARD, check_json, check_output, write_out
from outrule.cli.talking import drawn, printable, say, waiting
from outrule.words import count

if TYPE_CHECKING:
    from outrule.data.instances import Instances
    from outrule.estimators.calibrator import DecisionCalibrator


def fit(
    table: Annotated[
        str, typer.Argument(metavar="TABLE", help='One row per item; "-" reads standard input.')
    ],
    spec: Annotated[
        str, typer.Option("--spec", metavar="FILE", help="TOML file: problem, columns, rules.")
    ],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="MODEL", help="The model file to write.")
    ],
    epsilon: Annotated[
        float | None,
        typer.Option(help="How far below the best rule is acceptable; replaces the spec's."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON.")] = False,
) -> None:
    """Calibrate predictions against rules.

    The table has one row per item, with its prediction and its outcome; the spec names the columns
    and the rules. On the predictions of the model, the plain optimiser is at least as good as the
    best rule, minus at most epsilon: certify that on later data before you rely on it.

    \b
    outrule fit past.parquet --spec spec.toml -o model.json

    \b
    spec.toml:
      epsilon = 0.05
      [problem]
      kind = "assignment"
      rows = "rider"
      columns = "driver"
      [data]
      instance = "batch_id"
      prediction = "score"
      outcome = "completed"
      [[rules]]
      name = "no long pickups"
      weight = "CASE WHEN pickup_km > 3 THEN 0.5 * score ELSE score END"

    \b
    --json prints one object with the keys model, instances, rows, rules, rounds,
    patches, status, epsilon, tolerance, best_rule, values (plain, best_rule and
    calibrated: means per instance of this table) and warnings.

    Exit code 0, also with a warning; 2 for bad input.
    """
    check_json(as_json, output)
    check_output(output, (table, spec))
    with waiting("calibrating"):
        from outrule.model.codec import to_text

        calibrator, instances, warned = _fit(table, spec, epsilon)
        summary = {"model": output, **_summary(calibrator, instances, warned)}
    write_out(to_text(calibrator), output)
    for words in summary["warnings"]:
        say(f"Warning: {printable(words)}", err=True)
    if as_json:
        say(json.dumps(summary, indent=1))
    else:
        _show(summary, err=output == STANDARD)


def _fit(
    table: str, spec: str, epsilon: float | None
) -> tuple[DecisionCalibrator, Instances, list[str]]:
    """A fitted calibrator, its data, and its warnings."""
    from sklearn.exceptions import ConvergenceWarning

    from outrule.data.table_files import read_table
    from outrule.model.codec import check_item_names

    settings = outrule.read_spec(spec)
    instances = settings.instances(read_table(table))
    check_item_names(instances.item_names or ())
    changes = {} if epsilon is None else {"epsilon": epsilon}
    calibrator = settings.calibrator(instances, **changes)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        calibrator.fit(instances)
    return calibrator, instances, [str(warning.message) for warning in caught]


def _summary(
    calibrator: DecisionCalibrator, instances: Instances, warned: list[str]
) -> dict[str, Any]:
    from outrule import metrics

    model = calibrator.model_
    best = model.rules[model.best_rule]
    plain = metrics.value(instances, decisions=model.problem.solve(instances))
    calibrated = calibrator.score(instances)
    if calibrated < plain - model.margin:  # the plain optimiser is a rule only if the spec has it
        assert model.columns is not None
        warned = [
            *warned,
            f"on this table the calibrated predictions are worth {calibrated:.4f}, less than the "
            f"original ones ({plain:.4f}). To be at least as good as those too, add a rule with "
            f'weight = "{model.columns.prediction}".',
        ]
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


def _show(summary: dict[str, Any], *, err: bool) -> None:
    labels = {
        "plain": "plain optimiser, original predictions",
        "best_rule": f"best rule ({summary['best_rule']})",
        "calibrated": "plain optimiser, outrule",
    }
    rows = [(label, f"{summary['values'][name]:.4f}") for name, label in labels.items()]
    say(
        f"{count(summary['rules'], 'rule')}, {count(summary['instances'], 'instance')}, "
        f"{count(summary['rows'], 'row')}\n{count(summary['rounds'], 'round')}, "
        f"{count(summary['patches'], 'patch', 'patches')}, {summary['status']}\n"
        + drawn(("decisions by", "value in training"), rows, err=err),
        err=err,
    )
    if not err:
        name = summary["model"]
        say(f"wrote {name}. Next: outrule certify {name} LATER_TABLE -o certificate.json")
