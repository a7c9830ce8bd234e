"""The files of a command: outputs are checked before the work, models and tables are opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from outrule.cli.talking import say
from outrule.errors import DataError
from outrule.files import STANDARD, is_special, open_output

if TYPE_CHECKING:
    import polars as pl

    from outrule import Instances
    from outrule.data.origin import ColumnNames
    from outrule.model.model import Model

MODEL = Annotated[str, typer.Argument(help="A model file that `outrule fit` wrote.")]


def check_output(
    output: str | None,
    inputs: Sequence[str],
    *,
    as_json: bool = False,
    is_table: bool = False,
    option: str = "-o",
) -> None:
    """Raise an error for a path that cannot be written, or that is one of the inputs."""
    if output == STANDARD and as_json:
        raise DataError("--json and '-o -' both write to standard output: choose one.")
    if output is None or output == STANDARD or is_special(output):
        return
    path = Path(output)
    if path.is_dir():
        raise DataError(f"{output} is a folder: name a file inside it.")
    if not path.resolve().parent.is_dir():
        raise DataError(f"the folder {path.parent} does not exist: create it first.")
    for given in inputs:
        if given != STANDARD and path.exists() and Path(given).exists() and path.samefile(given):
            words = f"choose another name for {option}"
            raise DataError(f"{output} is an input of this command: {words}.")
    if is_table:
        from outrule.data.table_files import table_kind

        table_kind(output)


def finish(text: str, output: str | None, shown: str, *, as_json: bool, then: str = "") -> None:
    """Write the result of a command, if there is an output, and print what it shows."""
    if output is not None:
        with open_output(output) as file:
            file.write(text.removesuffix("\n").encode() + b"\n")
    if shown:
        say(shown, err=output == STANDARD)
    if not as_json and output not in (None, STANDARD):
        say(f"wrote {output}{then}")


def open_files(path: str, table: str, *, outcome: bool) -> tuple[Model, pl.DataFrame, Instances]:
    """A model, a table, and the instances of the table, read as in training."""
    from outrule.data.table_files import read_table

    model, frame = open_model(path), read_table(table)
    names, kept = model.columns, frame
    assert names is not None
    if not outcome:  # it is not needed to decide, and no rule may see it
        kept = frame.drop(names.outcome or (), strict=False)
        names = replace(names, outcome=None, weight=None, cluster=None)
    return model, frame, read_as_trained(model, kept, names)


def read_as_trained(model: Model, frame: pl.DataFrame, names: ColumnNames) -> Instances:
    """The instances of a table, whose columns have these names."""
    from outrule.data.instances import Instances

    if names.item in frame.columns:
        frame = _items_as_trained(frame, names.item, model)
    instances = Instances.from_table(frame, **asdict(names), value_range=model.value_range)
    return model.instances(instances)


def open_model(path: str) -> Model:
    """A model that knows its columns and needs no Python function."""
    from outrule.model.codec import FunctionNeededError, load_model

    try:
        model = load_model(path)
    except FunctionNeededError as error:
        raise DataError(
            f"{path} needs the Python function of {error.name!r}, which the command line does not "
            "have: use the model from Python, or write the rule as an expression and fit again."
        ) from None
    if model.columns is None:
        raise DataError(
            f"{path} was fitted on arrays, which have no column names: fit it again on a table, "
            "or use it from Python."
        )
    return model


def _items_as_trained(frame: pl.DataFrame, name: str, model: Model) -> pl.DataFrame:
    """Items of the type that the model knows: text files do not say whether 7 is a number."""
    import polars as pl

    from outrule.calibration.piecewise import POOLED
    from outrule.rules.rules import Fixed, Multiplier

    known: list[object] = [item for item in model.isotonic.curves if item is not POOLED]
    for rule in model.rules:
        if isinstance(rule, Multiplier) and isinstance(rule.vector, dict):
            known.extend(rule.vector)
        elif isinstance(rule, Fixed):
            known.append(rule.item)
    column, trained_text = frame[name], all(isinstance(item, str) for item in known)
    if known and trained_text and column.dtype.is_integer():
        return frame.with_columns(column.cast(pl.String))
    is_text = column.dtype in (pl.String, pl.Categorical, pl.Enum)
    if known and is_text != trained_text and column.null_count() < len(column):
        words = "text" if trained_text else "numbers"
        raise DataError(
            f"the item column {name!r} holds {column.dtype}, but held {words} when the model was "
            "fitted, so that no item would be recognised. Write the items as in training."
        )
    return frame
