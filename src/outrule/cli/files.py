"""The files of a command: models and tables are opened, results checked and written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from outrule.cli.talking import say
from outrule.errors import DataError

if TYPE_CHECKING:
    import polars as pl

    from outrule.data.instances import Instances
    from outrule.estimators.calibrator import DecisionCalibrator
    from outrule.model.model import Model

STANDARD = "-"  # standard output
MODEL = Annotated[
    str, typer.Argument(metavar="MODEL", help="A model file that `outrule fit` wrote.")
]


def check_output(output: str | None, inputs: Sequence[str], *, is_table: bool = False) -> None:
    """Raise an error for a path that cannot be written, or that is one of the inputs."""
    from outrule.data.table_files import is_special, table_kind

    if output is None or output == STANDARD or is_special(output):
        return
    path = Path(output)
    if path.is_dir():
        raise DataError(f"{output} is a folder: name a file inside it.")
    if not path.resolve().parent.is_dir():
        raise DataError(f"the folder {path.parent} does not exist: create it first.")
    if is_table:
        table_kind(output)
    for given in inputs:
        if given != STANDARD and path.exists() and Path(given).exists() and path.samefile(given):
            raise DataError(f"{output} is an input of this command: choose another name for -o.")


def check_json(as_json: bool, output: str | None) -> None:
    """Raise an error if two things would go to standard output."""
    if as_json and output == STANDARD:
        raise DataError("--json and '-o -' both write to standard output: choose one.")


def write_out(text: str, output: str) -> None:
    """Write a string to standard output, into a pipe or device, or as a whole file."""
    from outrule.data.table_files import is_special
    from outrule.files import write_text

    if output == STANDARD:
        say(text.removesuffix("\n"))
        return
    try:
        if is_special(output):
            Path(output).write_text(text, encoding="utf-8")
        else:
            write_text(Path(output).resolve(), text)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise DataError(f"{output} cannot be written: {error.strerror or error}.") from None


def open_model(path: str) -> DecisionCalibrator:
    """A model that knows its columns and needs no Python function."""
    from outrule.model.codec import FunctionNeededError, load

    try:
        calibrator = load(path)
    except FunctionNeededError as error:
        raise DataError(
            f"{path} needs the Python function of {error.name!r}, which the command line does not "
            "have: use the model from Python, or write the rule as an expression and fit again."
        ) from None
    if calibrator.model_.columns is not None:
        return calibrator
    if calibrator.model_.n_items is not None:
        raise DataError(
            f"{path} was fitted on arrays, which have no column names: "
            "use it from Python, or fit it on a table."
        )
    raise DataError(
        f"{path} is from an older version and does not name the columns of its table: "
        "fit it again, or use it from Python."
    )


def instances_of(model: Model, frame: pl.DataFrame, *, outcome: bool) -> Instances:
    """The instances of a table, read as in training; without outcomes, to decide."""
    from outrule.data.instances import Instances

    names = model.columns
    assert names is not None
    if not outcome:
        if names.outcome in frame.columns:
            frame = frame.drop(names.outcome)  # no rule may see it
        names = replace(names, outcome=None, weight=None, cluster=None)
    if names.item in frame.columns:
        frame = _items_as_trained(frame, names.item, model)
    return Instances.from_table(frame, **asdict(names), value_range=model.value_range)


def _items_as_trained(frame: pl.DataFrame, name: str, model: Model) -> pl.DataFrame:
    """Items of the type that the model knows: text files do not say whether 7 is a number."""
    import polars as pl

    known = _trained_items(model)
    if not known:
        return frame
    trained_text = all(isinstance(item, str) for item in known)
    column = frame[name]
    if trained_text and column.dtype.is_integer():
        return frame.with_columns(column.cast(pl.String))
    is_text = column.dtype in (pl.String, pl.Categorical, pl.Enum)
    if is_text != trained_text and column.null_count() < len(column):
        words = "text" if trained_text else "numbers"
        raise DataError(
            f"the item column {name!r} holds {column.dtype}, but held {words} when the model was "
            "fitted, so that no item would be recognised. Write the items as in training."
        )
    return frame


def _trained_items(model: Model) -> list[object]:
    """The names of items that the model's curves and rules refer to."""
    from outrule.calibration.isotonic import POOLED
    from outrule.rules.rules import Fixed, Multiplier

    names: list[object] = [name for name in model.isotonic.curves if name is not POOLED]
    for rule in model.rules:
        if isinstance(rule, Multiplier) and isinstance(rule.vector, dict):
            names.extend(rule.vector)
        elif isinstance(rule, Fixed):
            names.append(rule.item)
    return names
