"""`outrule certify` and `outrule report`: judge a model on data it has not seen."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

import outrule
from outrule.cli.files import KEY, MODEL, check_output, finish, open_files, open_key
from outrule.cli.talking import drawn, printable, waiting
from outrule.errors import DataError
from outrule.files import STANDARD

if TYPE_CHECKING:
    from outrule import Certificate, Instances
    from outrule.model.model import Model
    from outrule.proof.confidence import Estimate

EXIT = {"pass": 0, "fail": 1, "inconclusive": 3}
TABLE = Annotated[str, typer.Argument(help='New rows, with outcomes; "-" reads standard input.')]
FILE = Annotated[str | None, typer.Option("--output", "-o", metavar="FILE", help="File to write.")]
JSON = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
LEVEL = Annotated[float, typer.Option(help="Probability with which the verdict must hold.")]
MOST = Annotated[
    float | None,
    typer.Option(help="Largest weight (or number of instances) that one cluster can have."),
]


def certify(
    model: MODEL,
    table: TABLE,
    output: FILE = None,
    confidence: LEVEL = 0.95,
    max_weight: MOST = None,
    as_json: JSON = False,
    key: KEY = None,
) -> None:
    """Judge a model on data it has not seen.

    Is the plain optimiser on the calibrated predictions at least as good as every rule, as the
    original predictions and as isotonic regression? The certificate has a lower confidence bound
    for each, and the values of all of them, of the best rule and of an oracle.

    \b
    outrule certify model.json later.parquet -o certificate.json

    \b
    exit code 0: pass, at least as good as every rival, minus at most the margin
    exit code 1: fail, some rival is better
    exit code 3: inconclusive; the output says how many observations would decide it
    exit code 2: bad input
    """
    check_output(output, (model, table, key), as_json=as_json)
    secret = open_key(key)
    with waiting("certifying"):
        _, _, found = _certify(model, table, confidence, max_weight, secret)
    shown = f"{printable(str(found))}\n{values_table(found, err=output == STANDARD)}"
    text = found.to_json(secret)
    finish(text, output, text if as_json else shown, as_json=as_json)
    raise typer.Exit(EXIT[found.verdict])


def report(
    model: MODEL,
    table: TABLE,
    output: FILE = None,
    confidence: LEVEL = 0.95,
    max_weight: MOST = None,
    as_json: JSON = False,
    key: KEY = None,
) -> None:
    """Write an HTML page about a model.

    It judges the model on data it has not seen, and shows the verdict, every rule, predicted vs
    realised value, and what calibration changed. The page is one file and loads nothing else.

    \b
    outrule report model.json later.parquet -o report.html

    The exit code is 0 whatever the verdict.
    """
    if output is None and not as_json:
        raise DataError("there is nothing to write: use -o REPORT.html or --json.")
    check_output(output, (model, table, key), as_json=as_json)
    secret = open_key(key)
    with waiting("writing the report"):
        summary = outrule.summarise(*_certify(model, table, confidence, max_weight, secret))
        page = outrule.report(summary)
    finish(page, output, json.dumps(summary, indent=1) if as_json else "", as_json=as_json)


def _certify(
    model: str, table: str, confidence: float, max_weight: float | None, key: bytes | None
) -> tuple[Model, Instances, Certificate]:
    from outrule.proof import certificate

    fitted, _, instances = open_files(model, table, outcome=True, key=key)
    return (
        fitted,
        instances,
        certificate.certify(fitted, instances, confidence=confidence, max_weight=max_weight),
    )


def values_table(
    certificate: Certificate, paper: Estimate | None = None, *, err: bool = False
) -> str:
    """The value of the calibrated optimiser, and of all that it is compared with."""
    rows = {
        "plain optimiser, original predictions": certificate.plain,
        f"best rule in training ({certificate.best_rule_name})": certificate.best_rule,
        "plain optimiser, isotonic regression": certificate.isotonic,
        "plain optimiser, outrule": certificate.calibrated,
        "plain optimiser, the paper's algorithm": paper,
        "oracle that knows the outcomes": certificate.oracle,
    }
    cells = [
        (words, f"{found.mean:.4f}", f"{found.lower:.4f} to {found.upper:.4f}")
        for words, found in rows.items()
        if found is not None
    ]
    interval = f"{100 * certificate.confidence:g} % interval"
    return drawn(("decisions by", "value on held-out data", interval), cells, err=err)
