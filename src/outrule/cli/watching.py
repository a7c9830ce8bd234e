"""`outrule watch`: count new outcomes after deployment; an alarm if the guarantee is lost."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from outrule.cli.batches import Batch, split_folder, split_table
from outrule.cli.files import (
    MODEL,
    check_output,
    finish,
    identifiers,
    open_model,
    places_in,
)
from outrule.cli.talking import printable, say, waiting
from outrule.errors import DataError
from outrule.files import STANDARD, is_folder, write_text
from outrule.words import count

if TYPE_CHECKING:
    from outrule import Watch
    from outrule.data.table_files import TableFile
    from outrule.model.model import Model

EXIT = {"kept": 0, "lost": 1, "undecided": 3}
HOURS = {"hour": 1, "day": 24, "week": 168, "month": 730, "year": 8760}
RUN_LENGTH = 7300
LONGEST = 20  # characters of a run length
TABLE = Annotated[
    str | None,
    typer.Argument(
        help='New rows with outcomes, matured; "-" reads standard input. Or a folder of Parquet.'
    ),
]
STATE = Annotated[
    str, typer.Option(metavar="FILE", help="What the watch remembers; made by the first batch.")
]
LENGTH = Annotated[
    str | None,
    typer.Option(
        metavar="N", help="Batches until a false alarm, or a time such as 20y.", show_default="20y"
    ),
]
UNIT = Annotated[str, typer.Option(metavar="UNIT", help="One batch: hour, day, week or month.")]
KEY = Annotated[
    str | None, typer.Option(metavar="KEY", help="Number, ISO date or ISO time of the batch.")
]
COLUMN = Annotated[
    str | None, typer.Option(metavar="NAME", help="Column of keys, if a table has many batches.")
]
MARGIN = Annotated[
    float | None, typer.Option(help="Margin in units of the value.", show_default="the model's")
]
MOST = Annotated[
    float | None,
    typer.Option(help="Largest weight (or number of instances) that one cluster can have."),
]
PAGE = Annotated[
    str | None, typer.Option("--output", "-o", metavar="FILE", help="HTML page to write.")
]
METRICS = Annotated[
    str | None, typer.Option(metavar="FILE", help="Metrics for Prometheus, to write.")
]


def watch(
    model: MODEL,
    state: STATE,
    table: TABLE = None,
    run_length: LENGTH = None,
    batch: UNIT = "day",
    batch_key: KEY = None,
    batch_column: COLUMN = None,
    margin: MARGIN = None,
    max_weight: MOST = None,
    acknowledge: Annotated[
        bool, typer.Option("--acknowledge", help="Take note of an alarm, and start again.")
    ] = False,
    output: PAGE = None,
    metrics: METRICS = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the status as JSON.")] = False,
) -> None:
    """Watch a model after deployment.

    Pass new rows once their outcomes are known, in the order of the decisions. With the outcomes of
    all items, or a log with propensities (decide --explore), it watches whether decisions are still
    at least as good as every rival's, minus the margin; in any case, whether they are worth what
    was predicted, for which the outcomes of chosen items are enough (leave the others empty). A
    batch that is already counted is not counted again. Without a table it only shows the status.

    \b
    outrule watch model.json yesterday.csv --state watch.json --batch-key 2026-11-16
    outrule watch model.json year.parquet --state watch.json --batch-column day -o watch.html
    outrule watch model.json --state watch.json --acknowledge

    Of a folder (or a quoted pattern) of Parquet files, every file is a batch, in the order of their
    names; files that are named by keys, such as 2026-11-16.parquet, have these. With --batch-column
    a file may have many batches, each of them whole.

    \b
    outrule watch model.json decided/ --state watch.json

    \b
    exit code 0: kept, there is no alarm, and the batches so far show it
    exit code 1: lost, with which rival and since when; until it is acknowledged
    exit code 3: undecided, no alarm and too little data
    exit code 2: bad input, nothing was counted
    """
    inputs = [path for path in (model, table) if path is not None]
    _check_files(inputs, state, output, metrics, as_json=as_json)
    if batch_key is not None and batch_column is not None:
        raise DataError("--batch-key is for one batch and --batch-column for many: choose one.")
    length = None if run_length is None else read_run_length(run_length, batch)
    with waiting("watching"):
        from outrule.watching.locking import locked

        fitted = open_model(model)
        folder = table is not None and is_folder(table)
        read = None if table is None or folder else _open_table(fitted, table)
        with locked(Path(state)):
            watcher = _open(fitted, state, length, margin, max_weight, begin=table is not None)
            if acknowledge:
                watcher.acknowledge()
            notes: list[str] = []
            if read is not None:
                with places_in(read):
                    batches = split_table(fitted, read.frame, batch_key, batch_column)
                    notes = _count(watcher, batches)
            elif table is not None:
                notes = _count(watcher, split_folder(fitted, table, batch_key, batch_column))
            write_text(Path(state), watcher.to_json())
            _write_metrics(watcher, metrics)
            status, page = watcher.status, "" if output is None else _page(watcher)
    for words in notes:
        say(f"Note: {printable(words)}", err=True)
    shown = status.to_json() if as_json else printable(str(status))
    finish(page, output, shown, as_json=as_json)
    raise typer.Exit(EXIT[status.status])


def read_run_length(text: str, unit: str) -> int:
    """A run length in batches, from a number of them or from a time.

    Examples
    --------
    >>> read_run_length("20y", "day"), read_run_length("2y", "week"), read_run_length("500", "day")
    (7300, 105, 500)
    """
    if unit not in HOURS or unit == "year":
        raise DataError(f"--batch {unit!r} is not hour, day, week or month.")
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([hdwmy]?)", text)
    if not found or len(text) > LONGEST:
        raise DataError(
            f"--run-length {text[:LONGEST]!r} is neither a number of batches nor a time such as "
            "20y, 36m, 52w, 365d or 12h."
        )
    number, word = float(found[1]), found[2]
    if word:
        name = next(name for name in HOURS if name.startswith(word))
        number *= HOURS[name] / HOURS[unit]
    return math.ceil(round(number, 6))


def _check_files(
    inputs: Sequence[str], state: str, output: str | None, metrics: str | None, *, as_json: bool
) -> None:
    for path, option in ((state, "--state"), (metrics, "--metrics")):
        if path == STANDARD:
            raise DataError(f"{option} must be a file, not '-'.")
        check_output(path, inputs, option=option)
    check_output(output, inputs, as_json=as_json)
    paths = [path for path in (state, output, metrics) if path is not None and path != STANDARD]
    names = [Path(path).resolve() for path in paths]
    if len(set(names)) < len(names):
        raise DataError("--state, -o and --metrics must be different files.")


def _open_table(model: Model, path: str) -> TableFile:
    from outrule.data.table_files import open_table

    assert model.columns is not None
    return open_table(path, identifiers(model.columns))


def _open(
    model: Model,
    state: str,
    run_length: int | None,
    margin: float | None,
    max_weight: float | None,
    *,
    begin: bool,
) -> Watch:
    """Continue a watch, or begin one; what was set at its beginning cannot change."""
    from outrule.model.documents import read_file
    from outrule.watching.state import NOUN
    from outrule.watching.watch import Watch

    path = Path(state)
    if not path.exists():
        if not begin:
            raise DataError(f"{state} does not exist: it is made by the first batch.")
        length = RUN_LENGTH if run_length is None else run_length
        return Watch(model, length, margin, max_weight)
    watcher = Watch.from_json(read_file(path, NOUN), model, name=state)
    given = {"run_length": run_length, "margin": margin, "max_weight": max_weight}
    for name, value in given.items():
        kept = getattr(watcher.state, name)
        if value is not None and value != kept:
            raise DataError(
                f"--{name.replace('_', '-')} was {kept} when {state} began, and is {value} now. It "
                "cannot change: leave it out, or begin a new state file."
            )
    return watcher


def _count(watcher: Watch, batches: Iterable[Batch]) -> list[str]:
    """Count what is new; say what is not."""
    from outrule.watching.watch import CountedError

    known, total = [], 0
    for key, instances, outcome in batches:
        total += 1
        try:
            watcher.update(instances, outcome, batch=key)
        except CountedError as error:
            known.append(str(error))
    if len(known) > 1:
        return [f"{len(known):,} of {count(total, 'batch')} are already counted."]
    return known


def _write_metrics(watcher: Watch, path: str | None) -> None:
    from outrule.watching.prometheus import metrics_text

    if path is not None:
        write_text(Path(path), metrics_text(watcher.status, watcher.state))


def _page(watcher: Watch) -> str:
    from outrule.reporting.watched import watch_report

    return watch_report(watcher)
