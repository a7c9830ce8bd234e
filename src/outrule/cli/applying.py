"""`outrule predict` and `outrule decide`: add a column of predictions or decisions to a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from outrule.cli.options import ERRORS, KEY, MODEL, ON_ERROR, UNSEEN, OnError, Over, Unseen
from outrule.cli.talking import say, waiting
from outrule.errors import DataError
from outrule.files import STANDARD
from outrule.words import count

if TYPE_CHECKING:
    from outrule.cli.work.folders import Done

TABLE = Annotated[
    str,
    typer.Argument(
        help='One row per item, or per instance with lists of items; "-" reads standard input. '
        "Or a folder of Parquet files."
    ),
]
FILE = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="TABLE",
        help='The table to write; "-" writes CSV. Or a folder, for a folder.',
    ),
]
NAME = Annotated[str, typer.Option(metavar="NAME", help="Name of the column to add.")]
FORCE = Annotated[bool, typer.Option("--overwrite", help="Replace a column of that name.")]


def predict(
    model: MODEL,
    table: TABLE,
    output: FILE,
    column: NAME = "calibrated",
    overwrite: FORCE = False,
    on_error: ON_ERROR = OnError.STOP,
    errors: ERRORS = None,
    unseen: UNSEEN = Unseen.KEEP,
    key: KEY = None,
) -> None:
    """Add calibrated predictions to a table.

    They are a new column; rows and other columns stay as they are. Outcomes are not needed. Use
    the new column in your own optimiser.

    \b
    outrule predict model.json today.parquet -o today_calibrated.parquet
    cat today.csv | outrule predict model.json - -o - | head

    A folder (or a quoted pattern) of Parquet files becomes a folder with a file for each. Files
    that an earlier run has finished are kept, if neither they nor the model have changed since.

    \b
    outrule predict model.json november/ -o november_calibrated/
    """
    how = {"command": "predict", "column": column}
    with waiting("predicting"):
        from outrule.cli.work import applying as work, folders  # loads Polars and Numba

        names = folders.Names((column,), overwrite)
        job = folders.Job(model, table, output, names, how, on_error, errors, key)
        done = work.predict_all(job, unseen)
    _say_done(done, output, f"{count(done.rows, 'row')}, column {column!r} added")


def decide(
    model: MODEL,
    table: TABLE,
    output: FILE,
    column: NAME = "chosen",
    overwrite: FORCE = False,
    only: Annotated[bool, typer.Option("--only", help="Write only the chosen rows.")] = False,
    explore: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Share of random decisions, to learn from their log."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the random decisions.")] = 0,
    explore_over: Annotated[
        Over, typer.Option(help="Draw from all decisions, or from those of the rules.")
    ] = Over.UNIFORM,
    on_error: ON_ERROR = OnError.STOP,
    errors: ERRORS = None,
    unseen: UNSEEN = Unseen.KEEP,
    key: KEY = None,
) -> None:
    """Decide every instance of a table.

    The plain optimiser decides on the calibrated predictions. Its choice is a new column of true
    and false; rows and other columns stay as they are. Outcomes are not needed.

    \b
    outrule decide model.json today.parquet -o decisions.parquet
    outrule decide model.json today.csv --only -o chosen.csv
    outrule decide model.json november/ -o november_decided/

    With --explore, a share of the decisions is random, and a column `propensity` says with which
    probability each row was to be chosen. Keep it with the outcomes: later fits and certificates
    can then compare rules although they know only the outcomes of chosen rows. The draw depends on
    the seed and the instance's name only. Use a new seed for every run on the same instances.

    \b
    outrule decide model.json today.parquet -o decisions.parquet --explore 0.05 --seed 7
    """
    if only and explore is not None:
        raise DataError("--explore is for logs, which need all rows that were on offer: no --only.")
    how: dict[str, Any] = {"command": "decide", "column": column, "only": only}
    if explore is not None:
        how |= {"explore": explore, "seed": seed, "explore_over": explore_over.value}
    with waiting("deciding"):
        from outrule.cli.work import applying as work, files, folders  # loads Polars and Numba

        columns = (column,) if explore is None else (column, files.PROPENSITY)
        names = folders.Names(columns, overwrite)
        job = folders.Job(model, table, output, names, how, on_error, errors, key)
        done, cost = work.decide_all(job, unseen)
    if cost is not None:
        say(f"exploring is expected to cost {cost:.4g} per instance", err=True)
    numbers = f"{done.chosen:,} of {count(done.rows, 'item')} chosen"
    _say_done(done, output, f"{count(done.instances, 'instance')}, {numbers}")


def _say_done(done: Done, output: str, words: str) -> None:
    if done.files:
        words = f"{done.files}, {words}"
    say(words if output == STANDARD else f"wrote {output}: {words}", err=output == STANDARD)
