"""Models of the command line: a model file and a table enter, a calibrator and Instances leave."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from outrule.errors import DataError

if TYPE_CHECKING:
    import polars as pl

    from outrule.data.instances import Instances
    from outrule.estimators.calibrator import DecisionCalibrator
    from outrule.model.model import Model

MODEL = Annotated[
    str, typer.Argument(metavar="MODEL", help="A model file that `outrule fit` wrote.")
]


def open_model(path: str) -> DecisionCalibrator:
    """A model that knows its columns and needs no function."""
    from outrule.estimators.calibrator import load
    from outrule.model.codec import FunctionNeededError

    try:
        calibrator = load(path)
    except FunctionNeededError as error:
        raise DataError(
            f"{path} needs the Python function of {error.name!r}, which the command line does not "
            "have: use the model from Python, or write the rule as an expression and fit again."
        ) from None
    model = calibrator.model_
    if model.columns is None:
        raise DataError(
            f"{path} was fitted on arrays, which have no names of columns: "
            "use it from Python, or fit it on a table."
        )
    return calibrator


def instances_of(model: Model, frame: pl.DataFrame, *, outcome: bool) -> Instances:
    """The table as the model's training table was read; to decide, no outcome is needed."""
    from outrule.data.instances import Instances

    names = model.columns
    assert names is not None
    if not outcome:
        if names.outcome in frame.columns:
            frame = frame.drop(names.outcome)  # no rule has ever seen it
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
            f"the item column {name!r} holds {column.dtype}, and held {words} when the model was "
            "fitted: the items would be strangers. Give them as they were."
        )
    return frame


def _trained_items(model: Model) -> list[object]:
    """The names of items that the model's curves and rules speak of."""
    from outrule.calibration.isotonic import POOLED
    from outrule.rules.rules import Fixed, Multiplier

    names: list[object] = [name for name in model.isotonic.curves if name is not POOLED]
    for rule in model.rules:
        if isinstance(rule, Multiplier) and isinstance(rule.vector, dict):
            names.extend(rule.vector)
        elif isinstance(rule, Fixed):
            names.append(rule.item)
    return names
