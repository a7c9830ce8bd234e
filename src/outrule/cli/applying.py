"""`outrule predict` and `outrule decide`: add a column of predictions or decisions to a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from outrule.cli.files import MODEL, STANDARD, check_output, instances_of, open_model
from outrule.cli.talking import say, waiting
from outrule.errors import DataError
from outrule.words import count

if TYPE_CHECKING:
    import polars as pl

    from outrule.data.instances import Instances
    from outrule.estimators.calibrator import DecisionCalibrator

TABLE = Annotated[
    str,
    typer.Argument(
        metavar="TABLE", help='One row per item, no outcome needed; "-" reads standard input.'
    ),
]
OUTPUT = Annotated[
    str, typer.Option("--output", "-o", metavar="TABLE", help='The table to write; "-" writes CSV.')
]
COLUMN = Annotated[str, typer.Option(metavar="NAME", help="Name of the column to add.")]
OVERWRITE = Annotated[
    bool, typer.Option("--overwrite", help="Replace the column if the table already has it.")
]


def predict(
    model: MODEL,
    table: TABLE,
    output: OUTPUT,
    column: COLUMN = "calibrated",
    overwrite: OVERWRITE = False,
) -> None:
    """Add calibrated predictions to a table.

    They are a new column; rows and other columns stay as they are. Use the new column in your
    own optimiser.

    \b
    outrule predict model.json today.parquet -o today_calibrated.parquet
    cat today.csv | outrule predict model.json - -o - | head

    Exit code 0, or 2 for bad input.
    """
    with waiting("predicting"):
        calibrator, frame, instances = _open(model, table, output, column, overwrite)
        filled = frame.with_columns(calibrator.predict(instances).alias(column))
    _write(filled, output, f"{count(filled.height, 'row')}, column {column!r} added")


def decide(
    model: MODEL,
    table: TABLE,
    output: OUTPUT,
    column: COLUMN = "chosen",
    overwrite: OVERWRITE = False,
    only: Annotated[bool, typer.Option("--only", help="Write only the chosen rows.")] = False,
) -> None:
    """Decide every instance of a table.

    The plain optimiser decides on the calibrated predictions. Its choice is a new column of true
    and false; rows and other columns stay as they are.

    \b
    outrule decide model.json today.parquet -o decisions.parquet
    outrule decide model.json today.csv --only -o chosen.csv

    Exit code 0, or 2 for bad input.
    """
    with waiting("deciding"):
        calibrator, frame, instances = _open(model, table, output, column, overwrite)
        filled = frame.with_columns(calibrator.decide(instances).alias(column))
        chosen = filled.filter(filled[column])
    numbers = f"{chosen.height:,} of {count(filled.height, 'row')} chosen"
    _write(chosen if only else filled, output, f"{count(len(instances), 'instance')}, {numbers}")


def _open(
    model: str, table: str, output: str, column: str, overwrite: bool
) -> tuple[DecisionCalibrator, pl.DataFrame, Instances]:
    from outrule.data.table_files import read_table

    check_output(output, (model, table), is_table=True)
    if not column:
        raise DataError("--column is empty: give the column a name.")
    calibrator, frame = open_model(model), read_table(table)
    if column in frame.columns and not overwrite:
        raise DataError(
            f"the table already has a column {column!r}: choose another name with --column, "
            "or use --overwrite."
        )
    return calibrator, frame, instances_of(calibrator.model_, frame, outcome=False)


def _write(frame: pl.DataFrame, output: str, words: str) -> None:
    from outrule.data.table_files import write_table

    write_table(frame, output)
    say(words if output == STANDARD else f"wrote {output}: {words}", err=output == STANDARD)
