"""`outrule fit`: a table and a spec enter, a model file leaves."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Annotated, Any

import typer

import outrule
from outrule.cli.outputs import STANDARD, check_json, check_output, write_out
from outrule.cli.talking import drawn, printable, refusals, say, waiting

if TYPE_CHECKING:
    from rich.table import Table

    from outrule.data.instances import Instances
    from outrule.estimators.calibrator import DecisionCalibrator
    from outrule.model.model import Model


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
        float | None, typer.Option(help="Instead of the spec's: what may lack to the best rule.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Calibrate predictions against rules.

    The table has one row per item, with the prediction and what happened; the spec names its
    columns and the rules. With the model that is written, the plain optimiser is worth as much as
    the best of the rules, up to epsilon: certify it on later data before you rely on it.

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
    calibrated, per instance, on this very table) and warnings.

    Exit code 0, also with a warning; 2 for bad input.
    """
    with refusals():
        check_json(as_json, output)
        check_output(output, (table, spec))
        with waiting("calibrating"):
            calibrator, instances, heard = _fit(table, spec, epsilon)
            values = _values(calibrator, instances)
        heard += _losses(values, calibrator.model_)
        summary = {
            "model": output,
            **_summary(calibrator, instances, values),
            "warnings": heard,
        }
        from outrule.model.codec import to_text

        write_out(to_text(calibrator.model_), output)
        for words in heard:
            say(f"Warning: {printable(words)}", err=True)
        if as_json:
            say(json.dumps(summary, indent=1))
        else:
            _show(summary, err=output == STANDARD)


def _fit(
    table: str, spec: str, epsilon: float | None
) -> tuple[DecisionCalibrator, Instances, list[str]]:
    """A fitted calibrator, its data, and what it warned of."""
    from sklearn.exceptions import ConvergenceWarning

    from outrule.data.table_files import read_table
    from outrule.model.codec import check_item_names

    settings = outrule.read_spec(spec)
    instances = settings.instances(read_table(table))
    check_item_names(instances.item_names or ())
    changes = {} if epsilon is None else {"epsilon": epsilon}
    calibrator = outrule.DecisionCalibrator.from_spec(settings, instances, **changes)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        calibrator.fit(instances)
    return calibrator, instances, [str(warning.message) for warning in caught]


def _values(calibrator: DecisionCalibrator, instances: Instances) -> dict[str, float]:
    """What decisions are worth on the training data."""
    from outrule import metrics

    model = calibrator.model_
    best = model.rules[model.best_rule]
    return {
        "plain": metrics.value(instances, decisions=model.problem.solve(instances)),
        "best_rule": metrics.values_of_rules(model.problem, [best], instances)[best.name],
        "calibrated": calibrator.score(instances),
    }


def _losses(values: dict[str, float], model: Model) -> list[str]:
    """The plain optimiser on the predictions as they are is no rule, unless the spec has it."""
    if values["calibrated"] >= values["plain"] - model.margin:
        return []
    assert model.columns is not None
    return [
        f"in training the calibrated predictions are worth {values['calibrated']:.4f}, and the "
        f"original ones {values['plain']:.4f}. To compete with those too, add a rule with "
        f'weight = "{model.columns.prediction}".'
    ]


def _summary(
    calibrator: DecisionCalibrator, instances: Instances, values: dict[str, float]
) -> dict[str, Any]:
    """What there is to say of a fit, as plain values."""
    model = calibrator.model_
    return {
        "instances": len(instances),
        "rows": len(instances.prediction),
        "rules": len(model.rules),
        "rounds": len(model.history),
        "patches": len(model.patches),
        "status": model.status.value,
        "epsilon": model.epsilon,
        "tolerance": model.tolerance,
        "best_rule": model.rules[model.best_rule].name,
        "values": values,
    }


def _show(summary: dict[str, Any], *, err: bool) -> None:
    say(
        f"{summary['rules']:,} rules, {summary['instances']:,} instances, "
        f"{summary['rows']:,} rows\n"
        f"{summary['rounds']:,} rounds, {summary['patches']:,} patches, {summary['status']}",
        err=err,
    )
    say(drawn(_table(summary), err=err), err=err)
    if not err:
        name = summary["model"]
        say(f"{name} is written. Next: outrule certify {name} LATER_TABLE -o certificate.json")


def _table(summary: dict[str, Any]) -> Table:
    from rich.table import Table

    table = Table("decisions by")
    table.add_column("value in training", justify="right")
    words = {
        "plain": "plain optimiser on the predictions",
        "best_rule": f"best rule ({printable(summary['best_rule'])})",
        "calibrated": "plain optimiser, outrule",
    }
    for key, value in summary["values"].items():
        table.add_row(words[key], f"{value:.4f}")
    return table
