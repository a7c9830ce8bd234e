"""`outrule certify` and `outrule report`: a model and held-out data enter, a judgement leaves."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

import outrule
from outrule.cli.models import MODEL, instances_of, open_model
from outrule.cli.outputs import STANDARD, check_json, check_output, write_out
from outrule.cli.talking import drawn, printable, refusals, say, waiting
from outrule.errors import DataError

if TYPE_CHECKING:
    from outrule.data.instances import Instances
    from outrule.estimators.calibrator import DecisionCalibrator

EXIT = {"pass": 0, "fail": 1, "inconclusive": 3}
TABLE = Annotated[
    str,
    typer.Argument(
        metavar="TABLE", help='Rows that fit has not seen, with outcomes; "-" reads standard input.'
    ),
]

CONFIDENCE = Annotated[float, typer.Option(help="Probability with which all bounds hold at once.")]


def certify(
    model: MODEL,
    table: TABLE,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="The certificate to write, as JSON."),
    ] = None,
    confidence: CONFIDENCE = 0.95,
    as_json: Annotated[bool, typer.Option("--json", help="Print the certificate.")] = False,
) -> None:
    """Judge a model on data it has not seen.

    Is the plain optimiser worth as much as every rule? The certificate has a lower confidence
    bound for every rule, and beside it the plain optimiser on the predictions as they are,
    isotonic regression, the best rule and the oracle.

    \b
    outrule certify model.json later.parquet -o certificate.json

    \b
    exit code 0: pass, worth at least as much as every rule, less epsilon
    exit code 1: fail, some rule is better by more than that
    exit code 3: inconclusive, with the number of observations that would settle it
    exit code 2: bad input
    """
    with refusals():
        check_json(as_json, output)
        if output is not None:
            check_output(output, (model, table))
        with waiting("judging"):
            from outrule.cli.tables import baselines
            from outrule.proof import certificate

            calibrator, instances = _open(model, table)
            found = certificate.certify(calibrator, instances, confidence=confidence)
        if output is not None:
            write_out(found.to_json(), output)
        if as_json:
            say(found.to_json())
        else:
            err = output == STANDARD
            say(drawn(printable(str(found)), baselines(found), err=err), err=err)
    raise typer.Exit(EXIT[found.verdict])


def report(
    model: MODEL,
    table: TABLE,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="The page to write, as HTML."),
    ] = None,
    confidence: CONFIDENCE = 0.95,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what the page says, as JSON.")
    ] = False,
) -> None:
    """Write a page about a model, for people.

    It judges the model on data it has not seen, and has the verdict, every rule, what the
    optimiser promised and kept, and what the model changed; one file that needs no other.

    \b
    outrule report model.json later.parquet -o report.html

    Exit code 0 whatever the verdict, or 2 for bad input.
    """
    with refusals():
        check_json(as_json, output)
        if output is None and not as_json:
            raise DataError("give -o REPORT.html, or --json.")
        if output is not None:
            check_output(output, (model, table))
        with waiting("writing the report"):
            from outrule.proof import certificate

            calibrator, instances = _open(model, table)
            found = certificate.certify(calibrator, instances, confidence=confidence)
            summary = outrule.summarise(calibrator, instances, certificate=found)
            page = None if output is None else outrule.report(summary)
        if output is not None and page is not None:
            write_out(page, output)
        if as_json:
            say(json.dumps(summary, indent=1))
        elif output != STANDARD:
            say(f"{output} is written")


def _open(model: str, table: str) -> tuple[DecisionCalibrator, Instances]:
    from outrule.data.table_files import read_table

    calibrator = open_model(model)
    return calibrator, instances_of(calibrator.model_, read_table(table), outcome=True)
