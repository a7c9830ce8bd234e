"""Calibrators as MLflow models: the model file itself, a signature, and no pickle.

Needs ``pip install 'outrule[mlflow]'``. What MLflow stores is the JSON of ``calibrator.save``; on
loading it calls ``_load_pyfunc`` here.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

import outrule
from outrule.data.instances import Instances
from outrule.errors import DataError
from outrule.model.codec import FunctionNeededError

DECIDE = {"decide": False}
FILE = "model.json"


def save_model(calibrator: Any, path: str | PathLike[str], example: Any, **more: Any) -> None:
    """Save a fitted calibrator as an MLflow model.

    Parameters
    ----------
    calibrator : a fitted DecisionCalibrator, without rules that are Python functions
    path : the folder to make
    example : what it will predict for, of which the signature is made
        For a calibrator that was fitted on a table, a pandas frame with one row per item (an
        outcome is ignored); the model then returns a frame with the columns ``calibrated`` and
        ``chosen``. Else an array of shape (n, m); the model returns calibrated predictions of that
        shape, or decisions with ``params={"decide": True}``.
    more : other arguments of ``mlflow.pyfunc.save_model``
    """
    import mlflow.pyfunc  # heavy and optional

    with _ready(calibrator, example) as given:
        mlflow.pyfunc.save_model(path=str(path), **(given | more))


def log_model(calibrator: Any, name: str, example: Any, **more: Any) -> Any:
    """The same, as a model of the active MLflow run; returns what MLflow knows of it."""
    import mlflow.pyfunc  # heavy and optional

    with _ready(calibrator, example) as given:
        return mlflow.pyfunc.log_model(name=name, **(given | more))


@contextmanager
def _ready(calibrator: Any, example: Any) -> Iterator[dict[str, Any]]:
    """The arguments that MLflow needs; the model file is read back, so it can be."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / FILE
        calibrator.save(path)
        try:
            served = _load_pyfunc(str(path))
        except FunctionNeededError as error:
            raise DataError(
                f"the rule {error.name!r} is a Python function, which MLflow would not get: write "
                "it as an expression, and fit again."
            ) from None
        yield {
            "loader_module": __name__,
            "data_path": str(path),
            "signature": _signature(served, served.clean(example)),
            "pip_requirements": [f"outrule[mlflow]=={outrule.__version__}"],
        }


def _signature(served: _Served, example: Any) -> Any:
    from mlflow.models import infer_signature  # heavy and optional

    params = None if served.of_table else DECIDE
    example, found = _with_lists(example), _with_lists(served.predict(example))
    with warnings.catch_warnings():
        # Integers have no missing values here: outrule refuses them.
        warnings.filterwarnings("ignore", ".*integer column", UserWarning)
        return infer_signature(example, found, params)


def _with_lists(frame: Any) -> Any:
    """The same with lists for arrays in the cells of a frame, whose types MLflow cannot tell."""
    if isinstance(frame, np.ndarray):
        return frame
    frame = frame.copy()
    for name in frame.select_dtypes(object).columns:
        frame[name] = [one.tolist() if isinstance(one, np.ndarray) else one for one in frame[name]]
    return frame


class _Served:
    """What MLflow calls."""

    def __init__(self, calibrator: Any):
        self.calibrator, self.columns = calibrator, calibrator.model_.columns

    @property
    def of_table(self) -> bool:
        return self.columns is not None

    def clean(self, example: Any) -> Any:
        """Without what is only known after the decision."""
        if self.of_table:
            return example.drop(columns=self.columns.hidden, errors="ignore")
        return np.asarray(example, dtype=np.float64)

    def predict(self, data: Any, params: dict[str, Any] | None = None) -> Any:
        import pandas as pd  # optional; MLflow has it

        if not self.of_table:
            array = np.asarray(data, dtype=np.float64)
            decide = (params or DECIDE)["decide"]
            return self.calibrator.decide(array) if decide else self.calibrator.predict(array)
        names = replace(self.columns.before_decision(), weight=None, cluster=None)
        ends = self.calibrator.model_.value_range
        instances = Instances.from_table(self.clean(data), **asdict(names), value_range=ends)
        predicted, chosen = self.calibrator.predict(instances), self.calibrator.decide(instances)
        return pd.DataFrame({"calibrated": predicted, "chosen": chosen})


def _load_pyfunc(path: str) -> _Served:
    """Called by MLflow."""
    return _Served(outrule.load(path))
