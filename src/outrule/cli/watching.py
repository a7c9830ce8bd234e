"""`outrule watch`: count new outcomes after deployment; an alarm if the guarantee is lost."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Annotated

import typer

import outrule
from outrule.cli.options import MODEL, MOST, check_output, check_side_files, finish, number
from outrule.cli.talking import printable, say, waiting
from outrule.errors import DataError
from outrule.files import is_folder, write_text

EXIT = {"kept": 0, "lost": 1, "undecided": 3}
HOURS = {"hour": 1, "day": 24, "week": 168, "month": 730, "year": 8760}
RUN_LENGTH = "20y"
LONGEST = 20  # characters of a run length
TABLE = Annotated[
    str | None,
    typer.Argument(
        help='New rows with known outcomes, or a folder of Parquet files; "-" reads standard input.'
    ),
]
STATE = Annotated[
    str, typer.Option(metavar="FILE", help="What the watch remembers; the first batch creates it.")
]
LENGTH = Annotated[
    str | None,
    typer.Option(
        metavar="N",
        help="Batches per false alarm, or a time such as 20y.",
        show_default=RUN_LENGTH,
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
    float | None,
    typer.Option(parser=number, help="Margin in units of the value.", show_default="the model's"),
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
        bool, typer.Option("--acknowledge", help="Acknowledge an alarm, and start again.")
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

    In a folder (or a quoted pattern) of Parquet files, every file is a batch, in the order of the
    names; a name such as 2026-11-16.parquet is also the key of its batch. With --batch-column a
    file may hold many batches, but a batch must be whole in one file.

    \b
    outrule watch model.json decided/ --state watch.json

    \b
    exit code 0: kept; there is no alarm, and the batches so far show it
    exit code 1: lost, against which rival and since when; until it is acknowledged
    exit code 3: undecided; no alarm, but too little data
    exit code 2: bad input, nothing was counted
    """
    inputs = [path for path in (model, table) if path is not None]
    check_output(output, inputs, as_json=as_json)
    check_side_files({"--state": state, "-o": output, "--metrics": metrics}, inputs)
    if batch_key is not None and batch_column is not None:
        raise DataError("--batch-key is for one batch and --batch-column for many: choose one.")
    if table is None and (batch_key is not None or batch_column is not None):
        raise DataError("--batch-key and --batch-column are for a table of new outcomes: add it.")
    usual = read_run_length(RUN_LENGTH, batch)
    length = None if run_length is None else read_run_length(run_length, batch)
    with waiting("watching"):
        from outrule.cli.work import files, watching as work  # loads Polars and Numba
        from outrule.watching.locking import locked
        from outrule.watching.prometheus import metrics_text

        fitted = files.open_model(model)
        read = None
        if table is not None and not is_folder(table):
            read = files.open_rows(table, files.columns_of(fitted))
        with locked(Path(state)):
            begin = table is not None
            watcher = work.open_watch(fitted, state, length, usual, margin, max_weight, begin=begin)
            if acknowledge:
                try:
                    watcher.acknowledge()
                except DataError as error:
                    raise error.said_by(state) from None
            notes = []
            if table is not None:
                notes = work.count_batches(watcher, table, read, batch_key, batch_column)
            write_text(Path(state), watcher.to_json())
            if metrics is not None:
                write_text(Path(metrics), metrics_text(watcher.status, watcher.state))
            status, page = watcher.status, "" if output is None else outrule.watch_report(watcher)
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
