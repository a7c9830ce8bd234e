"""`outrule predict` and `outrule decide`: add a column of predictions or decisions to a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from outrule.cli.exploring import PROPENSITY, Explorer, Over
from outrule.cli.files import KEY, MODEL, UNSEEN, Opened, Unseen, check_output, open_files, open_key
from outrule.cli.screening import (
    ERRORS,
    ON_ERROR,
    OnError,
    Work,
    answer,
    check_errors,
    write_errors,
)
from outrule.cli.talking import say, waiting
from outrule.errors import DataError
from outrule.files import STANDARD
from outrule.words import count

if TYPE_CHECKING:
    import polars as pl

TABLE = Annotated[str, typer.Argument(help='One row per item; "-" reads standard input.')]
FILE = Annotated[
    str, typer.Option("--output", "-o", metavar="TABLE", help='The table to write; "-" writes CSV.')
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
    """
    errors = check_errors(errors, output, on_error, (model, table))
    with waiting("predicting"):
        opened = _open(model, table, output, column, overwrite, key)
        fitted = opened.model
        found = answer(opened, fitted.predict, lambda some: some.prediction, on_error, unseen)
        filled = found.add_to(_as_it_was(opened, output), column)
    if errors is not None:
        write_errors(found, opened, errors)
    _write(filled, output, f"{count(filled.height, 'row')}, column {column!r} added")


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

    With --explore, a share of the decisions is random, and a column `propensity` says with which
    probability each row was to be chosen. Keep it with the outcomes: later fits and certificates
    can then compare rules although they know only the outcomes of chosen rows. The draw depends on
    the seed and the instance's name only. Use a new seed for every run on the same instances.

    \b
    outrule decide model.json today.parquet -o decisions.parquet --explore 0.05 --seed 7
    """
    errors = check_errors(errors, output, on_error, (model, table))
    with waiting("deciding"):
        opened = _open(model, table, output, column, overwrite, key)
        work, plain = _optimisers(opened)
        explorer = None
        if explore is not None:
            if PROPENSITY in opened.table.frame.columns and not overwrite:
                raise DataError(
                    f"the table already has a column {PROPENSITY!r}: drop it, or use --overwrite."
                )
            explorer = Explorer(opened.model, explore, seed, explore_over)
            work = explorer.decide
        found = answer(opened, work, plain, on_error, unseen)
        filled = found.add_to(_as_it_was(opened, output), column)
        if explorer is not None:
            filled = explorer.propensities(found).add_to(filled, PROPENSITY)
            say(f"exploring is expected to cost {explorer.cost:.4g} per instance", err=True)
        chosen = filled.filter(filled[column])
    numbers = f"{chosen.height:,} of {count(filled.height, 'row')} chosen"
    if errors is not None:
        write_errors(found, opened, errors)
    n_instances = sum(map(len, found.instances))
    _write(chosen if only else filled, output, f"{count(n_instances, 'instance')}, {numbers}")


def _optimisers(opened: Opened) -> tuple[Work, Work]:
    """The optimiser on calibrated predictions, and on the original ones."""
    model, problem = opened.model, opened.model.problem
    return (
        lambda some: some.mark(model.pick(some)),
        lambda some: some.mark(problem.pick_on_threads(some.prediction, problem.lay(some))),
    )


def _open(
    model: str, table: str, output: str, column: str, overwrite: bool, key: str | None
) -> Opened:
    check_output(output, (model, table, key), is_table=True)
    if not column:
        raise DataError("--column is empty: give the column a name.")
    opened = open_files(model, table, outcome=False, key=open_key(key))
    if column in opened.table.frame.columns and not overwrite:
        words = "choose another with --column, or use --overwrite"
        raise DataError(f"the table already has a column {column!r}: {words}.")
    return opened


def _as_it_was(opened: Opened, output: str) -> pl.DataFrame:
    """The table; from text to text, with the fields that it had."""
    from outrule.data.table_files import SEPARATORS, output_kind

    text = opened.table.text
    return text if text is not None and output_kind(output) in SEPARATORS else opened.table.frame


def _write(frame: pl.DataFrame, output: str, words: str) -> None:
    from outrule.data.table_files import write_table

    write_table(frame, output)
    say(words if output == STANDARD else f"wrote {output}: {words}", err=output == STANDARD)
