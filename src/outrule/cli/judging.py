"""`outrule certify` and `outrule report`: judge a model on data it has not seen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

import outrule
from outrule.cli.options import (
    KEY,
    MODEL,
    MOST,
    SCRATCH,
    check_for_folder,
    check_output,
    check_side_files,
    finish,
    number,
)
from outrule.cli.talking import waiting
from outrule.errors import DataError
from outrule.files import STANDARD, is_folder, write_text

EXIT = {"pass": 0, "fail": 1, "inconclusive": 3}
TABLES = Annotated[
    list[str],
    typer.Argument(
        metavar="TABLE...",
        help='New rows, with outcomes, or a folder of Parquet files; "-" reads standard input.',
    ),
]
TABLE = Annotated[str, typer.Argument(help='New rows, with outcomes; "-" reads standard input.')]
EARLIER = Annotated[
    str | None,
    typer.Option(
        "--continue",
        metavar="FILE",
        help="Earlier certificate to add data to: give its tables, in order, then the new one.",
    ),
]
FILE = Annotated[str | None, typer.Option("--output", "-o", metavar="FILE", help="File to write.")]
JSON = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
LEVEL = Annotated[
    float, typer.Option(parser=number, help="Probability with which the verdict must hold.")
]
SEGMENTS = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        help="Also judge inside every value of this column; repeatable, and A+B crosses two.",
    ),
]
MIN_SHARE = Annotated[
    float | None,
    typer.Option(parser=number, help="Smallest share of a segment; smaller ones are pooled."),
]
JUNIT = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="JUnit XML to write, with one test case per kind of rival."),
]
SUMMARY = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Markdown summary to write, for the page of a pipeline."),
]


def certify(
    model: MODEL,
    table: TABLES,
    output: FILE = None,
    confidence: LEVEL = 0.95,
    max_weight: MOST = None,
    previous: EARLIER = None,
    segments: SEGMENTS = None,
    min_share: MIN_SHARE = None,
    junit: JUNIT = None,
    summary: SUMMARY = None,
    scratch: SCRATCH = None,
    as_json: JSON = False,
    key: KEY = None,
) -> None:
    """Judge a model on data it has not seen.

    Is the plain optimiser on the calibrated predictions at least as good as every rule, as the
    original predictions and as isotonic regression? The certificate has a lower confidence bound
    for each, and the values of all of them, of the best rule and of an oracle.

    \b
    outrule certify model.json later.parquet -o certificate.json
    outrule certify model.json december/ -o certificate.json

    If it is inconclusive, add data. The bounds hold over all looks together:

    \b
    outrule certify model.json later.parquet more.parquet --continue certificate.json -o new.json

    With segments, the verdict is the weakest of those on the whole and in every segment:

    \b
    outrule certify model.json later.parquet --segments city --segments city+daytype

    In a pipeline, show the verdicts as test results and on the page of the run:

    \b
    outrule certify model.json later.parquet --junit outrule.xml --summary "$GITHUB_STEP_SUMMARY"

    \b
    exit code 0: pass, at least as good as every rival, minus at most the margin
    exit code 1: fail, some rival is better
    exit code 3: inconclusive; the output says how many observations would decide it
    exit code 2: bad input
    """
    inputs = (model, *table, previous, key)
    check_output(output, inputs, as_json=as_json)
    check_side_files({"-o": output, "--junit": junit, "--summary": summary}, inputs)
    if len(table) > 1 and previous is None:
        raise DataError("several tables need --continue CERTIFICATE: add it, or give one table.")
    with waiting("certifying"):
        from outrule.cli.work import files, judging as work, pipelines  # loads Polars and Numba

        secret = files.open_key(key)
        asked = work.Asked(confidence, max_weight, segments, min_share, previous)
        if any(map(is_folder, table)):
            fitted, found = work.certify_folder(model, table, asked, secret, scratch)
        else:
            check_for_folder(scratch=scratch)
            fitted, _, found = work.certify_tables(model, table, asked, secret)
        answer = work.answer_of(fitted, found)
        shown = work.shown(answer, err=output == STANDARD)
    text = found.to_json(secret)
    if junit is not None:
        write_text(Path(junit), pipelines.junit(answer, Path(model).stem))
    if summary is not None:
        values = work.values_of(answer)
        write_text(Path(summary), pipelines.markdown(answer, values, _file_name(model)))
    finish(text, output, text if as_json else shown, as_json=as_json)
    raise typer.Exit(EXIT[found.verdict])


def report(
    model: MODEL,
    table: TABLE,
    output: FILE = None,
    confidence: LEVEL = 0.95,
    max_weight: MOST = None,
    segments: SEGMENTS = None,
    min_share: MIN_SHARE = None,
    as_json: JSON = False,
    key: KEY = None,
) -> None:
    """Write an HTML page about a model.

    It judges the model on data it has not seen. The page says whether to deploy it, against whom
    it was judged and how much it is worth, and below that shows every rule, predicted vs realised
    value, and what calibration changed. It is one file and loads nothing else.

    \b
    outrule report model.json later.parquet -o report.html

    The exit code is 0 whatever the verdict.
    """
    if output is None and not as_json:
        raise DataError("there is nothing to write: use -o REPORT.html or --json.")
    check_output(output, (model, table, key), as_json=as_json)
    with waiting("writing the report"):
        from outrule.cli.work import files, judging as work  # loads Polars and Numba

        asked = work.Asked(confidence, max_weight, segments, min_share)
        fitted, instances, found = work.certify_tables(model, [table], asked, files.open_key(key))
        summary = outrule.summarise(fitted, instances, found)
        page = outrule.report(summary, model=_file_name(model), table=_file_name(table))
        shown = work.shown(work.answer_of(fitted, found), err=output == STANDARD)
    finish(page, output, json.dumps(summary, indent=1) if as_json else shown, as_json=as_json)


def _file_name(path: str) -> str:
    return "standard input" if path == STANDARD else Path(path).name
