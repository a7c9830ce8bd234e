"""`outrule predict` and `outrule decide`: add a column of predictions or decisions to a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from outrule.cli.options import ERRORS, KEY, MODEL, ON_ERROR, UNSEEN, OnError, Over, Unseen, number
from outrule.cli.talking import say, waiting
from outrule.errors import DataError
from outrule.files import STANDARD
from outrule.words import count

if TYPE_CHECKING:
    from outrule.cli.work.folders import Done

TABLE = Annotated[
    str,
    typer.Argument(
        help="One row per item, or per instance with lists of items; or a folder of Parquet files. "
        '"-" reads standard input.'
    ),
]
FILE = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="TABLE",
        help='The table to write, or the folder if the input is one; "-" writes CSV.',
    ),
]
NAME = Annotated[str, typer.Option(metavar="NAME", help="Name of the column to add.")]
FORCE = Annotated[bool, typer.Option("--overwrite", help="Replace a column that has this name.")]


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

    They become a new column; rows and other columns stay as they are. Outcomes are not needed. Use
    the new column in your own optimiser.

    \b
    outrule predict model.json today.parquet -o today_calibrated.parquet
    cat today.csv | outrule predict model.json - -o - | head

    For a folder (or a quoted pattern) of Parquet files, the output is a folder with one file for
    each. Files that an earlier run finished are kept, unless the input or the model has changed.

    \b
    outrule predict model.json november/ -o november_calibrated/
    """
    how = {"command": "predict", "column": column}
    with waiting("predicting"):
        from outrule.cli.work import applying as work, folders  # loads Polars and Numba

        asked = (how, on_error, errors, key)
        job = folders.FolderJob(model, table, output, (column,), overwrite, *asked)
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
        typer.Option(
            parser=number, metavar="SHARE", help="Share of decisions to make at random, for a log."
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the random decisions.", show_default="0")
    ] = None,
    explore_over: Annotated[
        Over | None,
        typer.Option(
            help="Draw from all possible decisions, or from those of the rules.",
            show_default="uniform",
        ),
    ] = None,
    on_error: ON_ERROR = OnError.STOP,
    errors: ERRORS = None,
    unseen: UNSEEN = Unseen.KEEP,
    key: KEY = None,
) -> None:
    """Decide every instance in a table.

    The plain optimiser decides on the calibrated predictions. Its choice is a new column of true
    and false; rows and other columns stay as they are. Outcomes are not needed.

    \b
    outrule decide model.json today.parquet -o decisions.parquet
    outrule decide model.json today.csv --only -o chosen.csv
    outrule decide model.json november/ -o november_decided/

    With --explore, a share of the decisions is random, and a column `propensity` gives each row's
    probability of being chosen. Keep it with the outcomes: later fits and certificates can then
    compare rules, although only the outcomes of chosen rows are known. The draw depends only on the
    seed and the instance's name. Use a new seed for every run on the same instances.

    \b
    outrule decide model.json today.parquet -o decisions.parquet --explore 0.05 --seed 7
    """
    if only and explore is not None:
        raise DataError("--explore is for logs, which need every row on offer: leave out --only.")
    how: dict[str, Any] = {"command": "decide", "column": column, "only": only}
    if explore is not None:
        over = explore_over or Over.UNIFORM
        how |= {"explore": explore, "seed": seed or 0, "explore_over": over.value}
    elif seed is not None or explore_over is not None:
        raise DataError("--seed and --explore-over are for --explore SHARE: add it.")
    with waiting("deciding"):
        from outrule.cli.work import applying as work, files, folders  # loads Polars and Numba

        columns = (column,) if explore is None else (column, files.PROPENSITY)
        asked = (how, on_error, errors, key)
        job = folders.FolderJob(model, table, output, columns, overwrite, *asked)
        done, cost = work.decide_all(job, unseen)
    if cost is not None:
        say(f"exploring is expected to cost {cost} per instance", err=True)
    numbers = f"{done.chosen:,} of {count(done.rows, 'item')} chosen"
    _say_done(done, output, f"{count(done.instances, 'instance')}, {numbers}")


def _say_done(done: Done, output: str, words: str) -> None:
    if done.files:
        words = f"{done.files}, {words}"
    say(words if output == STANDARD else f"wrote {output}: {words}", err=output == STANDARD)
