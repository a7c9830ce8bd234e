"""`outrule predict` and `decide`: a model and a table enter, the table with a column leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outrule.cli.models import MODEL, instances_of, open_model
from outrule.cli.outputs import STANDARD, check_output
from outrule.cli.talking import refusals, say, waiting
from outrule.errors import DataError

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
OVERWRITE = Annotated[
    bool, typer.Option("--overwrite", help="Replace the column if the table has it already.")
]


def predict(
    model: MODEL,
    table: TABLE,
    output: OUTPUT,
    column: Annotated[
        str, typer.Option(metavar="NAME", help="Name of the column to add.")
    ] = "calibrated",
    overwrite: OVERWRITE = False,
) -> None:
    """Add calibrated predictions to a table.

    They are a column of their own. Rows and other columns stay as they are, in their order; hand
    the new column to the optimiser you have.

    \b
    outrule predict model.json today.parquet -o today_calibrated.parquet
    cat today.csv | outrule predict model.json - -o - | head

    Exit code 0, or 2 for bad input.
    """
    with refusals():
        _, filled = _add(model, table, output, column, overwrite, _predictions)
        _write(filled, output, f"{filled.height:,} rows, column {column!r} added")


def decide(
    model: MODEL,
    table: TABLE,
    output: OUTPUT,
    column: Annotated[
        str, typer.Option(metavar="NAME", help="Name of the column to add.")
    ] = "chosen",
    overwrite: OVERWRITE = False,
    only: Annotated[bool, typer.Option("--only", help="Write the chosen rows alone.")] = False,
) -> None:
    """Decide every instance of a table.

    The plain optimiser decides, on the calibrated predictions, and its choice is a column of true
    and false. Rows and other columns stay as they are, in their order.

    \b
    outrule decide model.json today.parquet -o decisions.parquet
    outrule decide model.json today.csv --only -o chosen.csv

    Exit code 0, or 2 for bad input.
    """
    with refusals():
        instances, filled = _add(model, table, output, column, overwrite, _decisions)
        chosen = filled.filter(filled[column])
        words = f"{len(instances):,} instances, {chosen.height:,} of {filled.height:,} rows chosen"
        _write(chosen if only else filled, output, words)


def _predictions(calibrator: DecisionCalibrator, instances: Instances) -> Any:
    return calibrator.predict(instances)


def _decisions(calibrator: DecisionCalibrator, instances: Instances) -> Any:
    return calibrator.decide(instances)


def _add(
    model: str,
    table: str,
    output: str,
    column: str,
    overwrite: bool,
    answer: Callable[[DecisionCalibrator, Instances], Any],
) -> tuple[Instances, pl.DataFrame]:
    """The instances of a table, and the table with the model's answer as a column."""
    check_output(output, (model, table), is_table=True)
    if not column:
        raise DataError("--column is empty: name the column.")
    with waiting("deciding"):
        from outrule.data.table_files import read_table

        calibrator = open_model(model)
        frame = read_table(table)
        if column in frame.columns and not overwrite:
            raise DataError(
                f"the table has a column {column!r} already: name another with --column, "
                "or give --overwrite."
            )
        instances = instances_of(calibrator.model_, frame, outcome=False)
        return instances, frame.with_columns(answer(calibrator, instances).alias(column))


def _write(frame: pl.DataFrame, output: str, words: str) -> None:
    from outrule.data.table_files import write_table

    write_table(frame, output)
    say(words if output == STANDARD else f"{words}: {output}", err=output == STANDARD)
