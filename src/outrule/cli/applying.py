"""`outrule predict` and `outrule decide`: add a column of predictions or decisions to a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from outrule.cli.files import KEY, MODEL, check_output, open_files, open_key
from outrule.cli.talking import say, waiting
from outrule.errors import DataError
from outrule.files import STANDARD
from outrule.words import count

if TYPE_CHECKING:
    import polars as pl

    from outrule import Instances
    from outrule.model.model import Model

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
    key: KEY = None,
) -> None:
    """Add calibrated predictions to a table.

    They are a new column; rows and other columns stay as they are. Outcomes are not needed. Use
    the new column in your own optimiser.

    \b
    outrule predict model.json today.parquet -o today_calibrated.parquet
    cat today.csv | outrule predict model.json - -o - | head
    """
    with waiting("predicting"):
        fitted, frame, instances = _open(model, table, output, column, overwrite, key)
        calibrated = instances.origin.restore(fitted.predict(instances), None)
        filled = frame.with_columns(calibrated.alias(column))
    _write(filled, output, f"{count(filled.height, 'row')}, column {column!r} added")


def decide(
    model: MODEL,
    table: TABLE,
    output: FILE,
    column: NAME = "chosen",
    overwrite: FORCE = False,
    only: Annotated[bool, typer.Option("--only", help="Write only the chosen rows.")] = False,
    key: KEY = None,
) -> None:
    """Decide every instance of a table.

    The plain optimiser decides on the calibrated predictions. Its choice is a new column of true
    and false; rows and other columns stay as they are. Outcomes are not needed.

    \b
    outrule decide model.json today.parquet -o decisions.parquet
    outrule decide model.json today.csv --only -o chosen.csv
    """
    with waiting("deciding"):
        fitted, frame, instances = _open(model, table, output, column, overwrite, key)
        marks = instances.origin.restore(instances.mark(fitted.pick(instances)), None)
        filled = frame.with_columns(marks.alias(column))
        chosen = filled.filter(filled[column])
    numbers = f"{chosen.height:,} of {count(filled.height, 'row')} chosen"
    _write(chosen if only else filled, output, f"{count(len(instances), 'instance')}, {numbers}")


def _open(
    model: str, table: str, output: str, column: str, overwrite: bool, key: str | None
) -> tuple[Model, pl.DataFrame, Instances]:
    check_output(output, (model, table, key), is_table=True)
    if not column:
        raise DataError("--column is empty: give the column a name.")
    fitted, frame, instances = open_files(model, table, outcome=False, key=open_key(key))
    if column in frame.columns and not overwrite:
        words = "choose another with --column, or use --overwrite"
        raise DataError(f"the table already has a column {column!r}: {words}.")
    return fitted, frame, instances


def _write(frame: pl.DataFrame, output: str, words: str) -> None:
    from outrule.data.table_files import write_table

    write_table(frame, output)
    say(words if output == STANDARD else f"wrote {output}: {words}", err=output == STANDARD)
