"""`outrule certify` and `outrule report`: judge a model on data it has not seen."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

import outrule
from outrule.cli.files import (
    KEY,
    MODEL,
    SCRATCH,
    check_item_type,
    check_output,
    finish,
    open_files,
    open_key,
    open_model,
    places_in,
    warn_of_unseen,
)
from outrule.cli.pipelines import JUNIT, SUMMARY, junit as junit_xml, markdown
from outrule.cli.talking import drawn, printable, say, waiting
from outrule.errors import ArgumentError, DataError
from outrule.files import STANDARD, is_folder, write_text

if TYPE_CHECKING:
    from outrule import Certificate, Instances
    from outrule.model.model import Model
    from outrule.proof.answer import Answer
    from outrule.proof.confidence import Estimate

EXIT = {"pass": 0, "fail": 1, "inconclusive": 3}
TABLE = Annotated[str, typer.Argument(help='New rows, with outcomes; "-" reads standard input.')]
TABLES = Annotated[
    list[str],
    typer.Argument(
        metavar="TABLE...",
        help='New rows, with outcomes; "-" reads standard input. Or a folder of Parquet.',
    ),
]
EARLIER = Annotated[
    str | None,
    typer.Option(
        "--continue",
        metavar="FILE",
        help="Earlier certificate to add data to: first its tables, in order, then the new one.",
    ),
]
FILE = Annotated[str | None, typer.Option("--output", "-o", metavar="FILE", help="File to write.")]
JSON = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
LEVEL = Annotated[float, typer.Option(help="Probability with which the verdict must hold.")]
MOST = Annotated[
    float | None,
    typer.Option(help="Largest weight (or number of instances) that one cluster can have."),
]
SEGMENTS = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        help="Judge inside every value of this column too; may be repeated, and A+B crosses two.",
    ),
]
MIN_SHARE = Annotated[
    float | None, typer.Option(help="Smallest share of a segment; smaller ones are pooled.")
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

    Where it is inconclusive, add data. The bounds hold at all looks together:

    \b
    outrule certify model.json later.parquet more.parquet --continue certificate.json -o new.json

    With segments the verdict is the weakest, of the whole and of every segment:

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
    _check_pipeline(output, junit, summary, inputs)
    if len(table) > 1 and previous is None:
        raise DataError("several tables are for --continue CERTIFICATE: give one, or that too.")
    secret = open_key(key)
    with waiting("certifying"):
        asked = Asked(confidence, max_weight, segments, min_share)
        if any(map(is_folder, table)):
            fitted, found = _certify_folder(model, table, asked, secret, previous, scratch)
        else:
            fitted, _, found = _certify(model, table, asked, secret, previous)
        answer = _answer(fitted, found)
        shown = _shown(answer, err=output == STANDARD)
    text = found.to_json(secret)
    if junit is not None:
        write_text(Path(junit), junit_xml(answer, Path(model).stem))
    if summary is not None:
        write_text(Path(summary), markdown(answer, _values(answer), _file_name(model)))
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
    if is_folder(table):
        raise DataError(f"{table} is a folder: a report needs one table. Use a part of the data.")
    check_output(output, (model, table, key), as_json=as_json)
    secret = open_key(key)
    with waiting("writing the report"):
        asked = Asked(confidence, max_weight, segments, min_share)
        fitted, instances, found = _certify(model, [table], asked, secret)
        summary = outrule.summarise(fitted, instances, found)
        page = outrule.report(summary, model=_file_name(model), table=_file_name(table))
        shown = _shown(_answer(fitted, found), err=output == STANDARD)
    finish(page, output, json.dumps(summary, indent=1) if as_json else shown, as_json=as_json)


class Asked(NamedTuple):
    """What to judge by."""

    confidence: float
    max_weight: float | None
    segments: list[str] | None
    min_share: float | None

    def segments_in(self, columns: Sequence[str], model: Model) -> outrule.Segments | None:
        """The segments; a name with + is a crossing, unless there is a column of that name."""
        fitted = model.settings.segments
        if self.segments is None and (fitted is None or self.min_share is None):
            if self.min_share is not None:
                raise DataError("--min-share is for --segments COLUMN: give that too.")
            return None
        by: list[str | tuple[str, ...]] = [*(fitted.by if fitted and not self.segments else ())]
        for name in self.segments or ():
            by.append(name if name in columns else tuple(name.split("+")))
        try:
            given: Any = tuple(by)
            if self.min_share is None:
                return outrule.Segments(given)
            return outrule.Segments(given, self.min_share)
        except ArgumentError:
            if self.min_share is not None and not 0 < self.min_share <= 1:
                words = f"--min-share must be a number in (0, 1]. Got {self.min_share:g} instead."
                raise DataError(words) from None
            raise DataError("--segments names a column twice, or none.") from None


def _certify(
    model: str,
    tables: list[str],
    asked: Asked,
    key: bytes | None,
    previous: str | None = None,
) -> tuple[Model, Instances, Certificate]:
    from outrule.problems.offers import few_choices
    from outrule.proof import certificate

    earlier = None if previous is None else open_certificate(previous, key)
    opened = open_files(model, *tables, outcome=True, key=key)
    fitted = opened.model
    with places_in(opened.table):
        instances = opened.instances()
        found = certificate.certify(
            fitted,
            instances,
            confidence=asked.confidence,
            max_weight=asked.max_weight,
            previous=earlier,
            segments=asked.segments_in(opened.frame.columns, fitted),
        )
    if (words := few_choices(fitted.problem, instances)) is not None:
        say(f"Warning: {words}", err=True)
    warn_of_unseen(fitted, instances)
    return fitted, instances, found


def _certify_folder(
    model: str,
    tables: list[str],
    asked: Asked,
    key: bytes | None,
    previous: str | None,
    scratch: str | None,
) -> tuple[Model, Certificate]:
    """The same for a folder of Parquet files, which need not fit into memory."""
    import warnings

    from outrule.data.partitions import Partitions, naming
    from outrule.data.table_files import parquet_schema
    from outrule.proof import certificate

    earlier = None if previous is None else open_certificate(previous, key)
    fitted = open_model(model, key)
    assert fitted.columns is not None
    names = asdict(fitted.columns)
    source = tables[0] if len(tables) == 1 else _all_files(tables)
    data = Partitions(source, value_range=fitted.value_range, scratch=scratch, **names)
    first = data.files[0]
    with naming(first):
        check_item_type(fitted, first.path)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = certificate.certify(
            fitted,
            data,
            confidence=asked.confidence,
            max_weight=asked.max_weight,
            previous=earlier,
            segments=asked.segments_in(list(parquet_schema(first.path)), fitted),
        )
    for one in said:
        say(f"Warning: {printable(str(one.message))}", err=True)
    return fitted, found


def _all_files(tables: list[str]) -> list[str]:
    """The files of some folders, and single ones, in this order."""
    from outrule.data.partitions import find_files

    found = [find_files(one) if is_folder(one) else [one] for one in tables]
    return [one if isinstance(one, str) else str(one.path) for some in found for one in some]


def open_certificate(path: str, key: bytes | None) -> Certificate:
    """A certificate that was written; an error names its file."""
    from outrule.model.documents import read_file

    text = read_file(path, "certificate")
    try:
        return outrule.Certificate.from_json(text, key)
    except ValueError as error:
        raise DataError(f"{path}: {error}") from None


def _file_name(path: str) -> str:
    return "standard input" if path == STANDARD else Path(path).name


def _check_pipeline(
    output: str | None, junit: str | None, summary: str | None, inputs: tuple[str | None, ...]
) -> None:
    """Files for a pipeline must be files, and others than the rest."""
    for path, option in ((junit, "--junit"), (summary, "--summary")):
        if path == STANDARD:
            raise DataError(f"{option} must be a file, not '-'.")
        check_output(path, inputs, option=option)
    names = [Path(path).resolve() for path in (output, junit, summary) if path not in (None, "-")]
    if len(set(names)) < len(names):
        raise DataError("-o, --junit and --summary must be different files.")


def _answer(model: Model, certificate: Certificate) -> Answer:
    from outrule.proof.answer import Answer
    from outrule.rules.descriptions import full_name

    names = {rule.name: full_name(rule, model.feature_names) for rule in model.rules}
    return Answer(certificate, names)


def _shown(answer: Answer, *, err: bool) -> str:
    """What the first screen of the report says, and the values."""
    return f"{printable(answer.text)}\n{values_table(answer, err=err)}"


def values_table(answer: Answer, paper: Estimate | None = None, *, err: bool = False) -> str:
    """The value of the calibrated optimiser, and of all that it is compared with."""
    title = f"{answer.certificate.value.title} on held-out data"
    titles = ("decisions by", title, f"{answer.confidence} interval")
    return drawn(titles, _values(answer, paper), err=err)


def _values(answer: Answer, paper: Estimate | None = None) -> list[tuple[str, str, str]]:
    from outrule.proof.answer import LABELS

    write, found, cells = answer.figures, answer.certificate, []
    for name, label in LABELS.items():
        value = paper if name == "paper" else getattr(found, name)
        label += f" ({answer.name(found.best_rule_name)})" if name == "best_rule" else ""
        if name == "oracle" and value is None:  # not all outcomes are known
            cells.append((label, "-", "-"))
        elif value is not None:
            cells.append((label, write.plain(value.mean), write.interval(value._asdict())))
    return cells
