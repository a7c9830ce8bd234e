"""`outrule predict` and `outrule decide`: add a column of predictions or decisions to a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from outrule.cli.exploring import Explorer, Over
from outrule.cli.files import (
    KEY,
    MODEL,
    PROPENSITY,
    UNSEEN,
    Opened,
    Unseen,
    check_output,
    open_files,
    open_key,
    warn_of_unseen,
)
from outrule.cli.folders import Done, Fill, Filled, Job, Names, fill_folder
from outrule.cli.screening import (
    ERRORS,
    ON_ERROR,
    Answers,
    OnError,
    Work,
    answer,
    check_errors,
    write_errors,
)
from outrule.cli.talking import say, waiting
from outrule.errors import DataError
from outrule.files import STANDARD, is_folder, local_path
from outrule.words import count

if TYPE_CHECKING:
    import polars as pl

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

    def fill(opened: Opened) -> Filled:
        fitted = opened.model
        found = answer(opened, fitted.predict, lambda some: some.prediction, on_error, unseen)
        return Filled(found.add_to(_as_it_was(opened, output), column), found)

    names, how = Names((column,), overwrite), {"command": "predict", "column": column}
    job = Job(model, table, output, names, how, on_error, errors, key)
    with waiting("predicting"):
        done = _fill_all(job, fill)
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
    costs: list[tuple[int, float]] = []
    how: dict[str, Any]

    def fill(opened: Opened) -> Filled:
        work, plain = _optimisers(opened)
        explorer = None
        if explore is not None:
            explorer = Explorer(opened.model, explore, seed, explore_over)
            work = explorer.decide
        found = answer(opened, work, plain, on_error, unseen)
        filled = found.add_to(_as_it_was(opened, output), column)
        if explorer is not None:
            filled = explorer.propensities(found).add_to(filled, PROPENSITY)
            costs.append(explorer.cost)
        return _decided(filled, found, column, only)

    names = Names((column,) if explore is None else (column, PROPENSITY), overwrite)
    how = {"command": "decide", "column": column, "only": only}
    if explore is not None:
        how |= {"explore": explore, "seed": seed, "explore_over": explore_over.value}
    job = Job(model, table, output, names, how, on_error, errors, key)
    with waiting("deciding"):
        done = _fill_all(job, fill)
    if costs:
        cost = sum(n * one for n, one in costs) / max(sum(n for n, _ in costs), 1)
        say(f"exploring is expected to cost {cost:.4g} per instance", err=True)
    numbers = f"{done.chosen:,} of {count(done.rows, 'item')} chosen"
    _say_done(done, output, f"{count(done.instances, 'instance')}, {numbers}")


def _decided(filled: pl.DataFrame, found: Answers, column: str, only: bool) -> Filled:
    """The table to write, and how many rows it chose, or items of its lists."""
    from outrule.data.nesting import is_nested

    marks = filled[column].alias("")
    if not is_nested(marks):
        chosen = filled.filter(marks)
        return Filled(chosen if only else filled, found, filled.height, chosen.height)
    if only:
        raise DataError("--only is for tables with one row per item: this one has lists of items.")
    flat = marks.explode()
    return Filled(filled, found, len(flat), int(flat.sum()))


def _optimisers(opened: Opened) -> tuple[Work, Work]:
    """The optimiser on calibrated predictions, and on the original ones."""
    model, problem = opened.model, opened.model.problem
    return (
        lambda some: some.mark(model.pick(some)),
        lambda some: some.mark(problem.pick_on_threads(some.prediction, problem.lay(some))),
    )


def _fill_all(job: Job, fill: Fill) -> Done:
    """Fill a folder, or one table, and write it."""
    from outrule.data.table_files import write_table

    job = job._replace(source=local_path(job.source), output=local_path(job.output))
    if is_folder(job.source):
        return fill_folder(job, fill)
    inputs = (job.model, job.source)
    errors = check_errors(job.errors, job.output, job.on_error, inputs)
    check_output(job.output, (*inputs, job.key), is_table=True)
    job.names.check_given()
    opened = open_files(*inputs, outcome=False, key=open_key(job.key))
    job.names.check_free(opened.table.frame.columns)
    filled = fill(opened)
    warn_of_unseen(opened.model, *filled.found.instances)
    if errors is not None:
        write_errors(filled.found, opened, errors)
    write_table(filled.frame, job.output)
    return filled.done


def _as_it_was(opened: Opened, output: str) -> pl.DataFrame:
    """The table; from text to text, with the fields that it had."""
    from outrule.data.table_files import SEPARATORS, output_kind

    text = opened.table.text
    return text if text is not None and output_kind(output) in SEPARATORS else opened.table.frame


def _say_done(done: Done, output: str, words: str) -> None:
    if done.files:
        words = f"{done.files}, {words}"
    say(words if output == STANDARD else f"wrote {output}: {words}", err=output == STANDARD)
