"""Model files: a fitted calibrator as JSON text; reading one runs no code and needs no trust."""

from __future__ import annotations

import hashlib
import inspect
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields, is_dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import outrule
from outrule.calibration import check, isotonic as start
from outrule.calibration.loop import Round, Status
from outrule.calibration.patches import Patch
from outrule.data.arrays import check_range
from outrule.data.origin import Schema
from outrule.errors import DataError, check_number
from outrule.files import write_text
from outrule.model.model import Model
from outrule.problems import contract, given, matchings, matroids, one_item
from outrule.rules import rules

if TYPE_CHECKING:
    from outrule.estimators.calibrator import DecisionCalibrator

FORMAT = 2  # format 1, which had no names, is read for ever
FORMATS = (1, FORMAT)
NAMES = ("columns", "feature_names")
KINDS: dict[str, type] = {
    name: kind
    for room in (one_item, matroids, matchings, given, rules, check, start)
    for name, kind in vars(room).items()
    if isinstance(kind, type) and is_dataclass(kind) and not inspect.isabstract(kind)
    if issubclass(kind, (contract.Problem, rules.Rule, check.Check, check.Step, start.Isotonic))
}


class FunctionNeededError(DataError):
    """The model has a function of the caller's, which files do not hold."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the model needs the function of {name!r}: load(path, functions={{{name!r}: ...}})."
        )
        self.name = name


def save(calibrator: DecisionCalibrator, path: str | PathLike[str]) -> None:
    """Write the model atomically: the file is whole, or it is not there."""
    write_text(Path(path), to_text(calibrator))


def to_text(calibrator: DecisionCalibrator) -> str:
    """The model as JSON, with a line for every rule, patch, round and curve."""
    parts = (f"{_line(name)}: {_lines(value)}" for name, value in describe(calibrator).items())
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _lines(value: Any) -> str:
    if isinstance(value, list) and any(isinstance(entry, list | dict) for entry in value):
        return "[\n " + ",\n ".join(map(_line, value)) + "\n]"
    return _line(value)


def _line(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def load(
    path: str | PathLike[str], *, functions: Mapping[str, Callable[..., Any]] | None = None
) -> DecisionCalibrator:
    """Read a model file.

    Parameters
    ----------
    functions : mapping, needed where the model has functions of yours
        By the name of the rule, or of the problem's argument (``"function"``, ``"independent"``).
        They are never stored.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
        content = json.loads(text, parse_constant=_refuse)
        if not isinstance(content, dict) or "format" not in content:
            raise ValueError("not a model")
        if type(content["format"]) is not int or content["format"] not in FORMATS:
            raise DataError(
                f"{path} has format {content['format']!r}, and this version of outrule reads "
                f"{' and '.join(map(str, FORMATS))}: install the version that wrote it, "
                f"{content.get('library')!r}."
            )
        return _restore(content, functions or {})
    except DataError:
        raise
    except (
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ) as error:
        raise DataError(f"{path} is not a model file of outrule, or it is damaged.") from error


def describe(calibrator: DecisionCalibrator) -> dict[str, Any]:
    """The model as plain values."""
    model = calibrator.model_
    curves = model.isotonic.curves
    return {
        "format": FORMAT,
        "library": outrule.__version__,
        "problem": _encode(model.problem),
        "rules": [_encode(rule) for rule in model.rules],
        "epsilon": model.epsilon,
        "check": _encode(calibrator.check),
        "step": _encode(calibrator.step),
        "start": _encode(model.start),
        "max_rounds": _plain(calibrator.max_rounds),
        "random_state": _plain(calibrator.random_state),
        "tolerance": model.tolerance,
        "k": model.k,
        "n_items": model.n_items,
        "value_range": list(model.value_range),
        "columns": None if model.columns is None else asdict(model.columns),
        "feature_names": _plain(getattr(calibrator, "feature_names_in_", None)),
        "has_start": model.has_start,
        "status": model.status.value,
        "patches": [[patch.test, patch.step] for patch in model.patches],
        "history": [list(row) for row in model.history],
        "rule_values": model.rule_values.tolist(),
        "weight_seen": model.weight_seen,
        "isotonic": [[_plain(name), x.tolist(), y.tolist()] for name, (x, y) in curves.items()],
        "training_data": list(model.fingerprints),
    }


def model_fingerprint(calibrator: DecisionCalibrator, library: str = outrule.__version__) -> str:
    """SHA-256 of the model, as that version of the library writes its file."""
    content = describe(calibrator) | {"library": library}
    if all(content[name] is None for name in NAMES):  # as in format 1: its certificates stay valid
        content["format"] = 1
        for name in NAMES:
            del content[name]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def check_item_names(names: Iterable[Any]) -> None:
    """Refuse names of items that a model file cannot hold: before the work, not after it."""
    for name in names:
        _plain(name)


def _encode(value: Any) -> Any:
    if value is None:
        return None
    kind = type(value).__name__
    if KINDS.get(kind) is not type(value) or not is_dataclass(value):
        raise DataError(
            f"{kind} cannot be written to a file: only problems, rules and checks of outrule can."
        )
    content = {
        field.name: _plain(getattr(value, field.name)) for field in fields(value) if field.init
    }
    return {"kind": kind, **content}


def _plain(value: Any) -> Any:
    if callable(value):
        return {"function": getattr(value, "__qualname__", repr(type(value)))}
    if isinstance(value, Mapping):
        return {"pairs": [[_plain(key), _plain(entry)] for key, entry in value.items()]}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise DataError(f"{value!r} cannot be written to a model file: use finite numbers or text.")


def _restore(content: dict[str, Any], functions: Mapping[str, Any]) -> DecisionCalibrator:
    from outrule.estimators.calibrator import DecisionCalibrator

    if content["format"] == 1:
        content = content | dict.fromkeys(NAMES)
    calibrator = DecisionCalibrator(
        _decode(content["problem"], contract.Problem, functions),
        tuple(_decode(rule, rules.Rule, functions) for rule in content["rules"]),
        content["epsilon"],
        check=_decode(content["check"], check.Check, functions),
        step=_decode(content["step"], check.Step, functions),
        start=_decode(content["start"], start.Isotonic, functions),
        max_rounds=content["max_rounds"],
        random_state=content["random_state"],
    )
    calibrator.check_parameters()
    calibrator.model_ = _model(content, calibrator)
    names = _feature_names(content)
    if names is not None:
        calibrator.feature_names_in_ = names
    return calibrator


def _model(content: dict[str, Any], calibrator: DecisionCalibrator) -> Model:
    """What fit left behind; ValueError where parts of it do not belong together."""
    n_rules, n_items = len(calibrator.rules), content["n_items"]
    values = _vector(content["rule_values"])
    if type(content["has_start"]) is not bool or len(values) != n_rules:
        raise ValueError("has_start, or rule values")
    return Model(
        problem=calibrator.problem,
        rules=tuple(calibrator.rules),
        epsilon=float(calibrator.epsilon),
        start=calibrator.start,
        tolerance=check_number(content["tolerance"], "tolerance", "load", 0),
        k=_count(content["k"], "k"),
        value_range=check_range(content["value_range"]),
        n_items=None if n_items is None else _count(n_items, "n_items"),
        columns=_columns(content),
        has_start=content["has_start"],
        isotonic=_isotonic(content["isotonic"], n_items),
        patches=tuple(_patch(test, step, n_rules) for test, step in content["patches"]),
        history=tuple(_round(*row) for row in content["history"]),
        status=Status(content["status"]),
        rule_values=values,
        weight_seen=check_number(content["weight_seen"], "weight_seen", "load", 0),
        fingerprints=tuple(str(fingerprint) for fingerprint in content["training_data"]),
    )


def _columns(content: dict[str, Any]) -> Schema | None:
    names = content["columns"]
    if names is None:
        return None
    columns = Schema(**names)
    required = (columns.instance, columns.prediction)
    given = [name for name in asdict(columns).values() if name is not None]
    if None in required or any(type(name) is not str for name in given):
        raise ValueError("columns")
    if content["n_items"] is not None or content["has_start"] != (columns.start is not None):
        raise ValueError("columns of arrays, or another start")
    return columns


def _feature_names(content: dict[str, Any]) -> Any:
    names = content["feature_names"]
    if names is None:
        return None
    if type(names) is not list or len(names) != content["n_items"]:
        raise ValueError("feature names")
    if any(type(name) is not str for name in names):
        raise ValueError("feature names")
    return np.array(names, dtype=object)


def _isotonic(rows: Any, n_items: int | None) -> start.FittedIsotonic:
    curves = {name: _curve(x, y) for name, x, y in rows}
    items = range(n_items or 0)
    every = len(curves) == len(items) and all(name in items for name in curves)
    if start.POOLED not in curves and not every:
        raise ValueError("isotonic")
    return start.FittedIsotonic(curves)


def _patch(test: Any, step: Any, n_rules: int) -> Patch:
    if type(test) is not int or not -1 <= test < n_rules or not np.isfinite(step):
        raise ValueError("patch")
    return Patch(test, float(step))


def _round(number: Any, test: Any, *numbers: Any) -> Round:
    for value in (number, *numbers):
        if type(value) not in (int, float) or not math.isfinite(value):
            raise ValueError("history")
    if test is not None and type(test) is not str:
        raise ValueError("history")
    return Round(number, test, *numbers)


def _vector(values: Any) -> Any:
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1 or not len(vector) or not np.isfinite(vector).all():
        raise ValueError("vector")
    return vector


def _curve(x: Any, y: Any) -> tuple[Any, Any]:
    curve = _vector(x), _vector(y)
    if len(curve[0]) != len(curve[1]) or (np.diff(curve[0]) < 0).any():
        raise ValueError("curve")
    return curve


def _count(value: Any, name: str) -> int:
    return int(check_number(value, name, "load", 1, low_open=False, integer=True))


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _decode(content: Any, expected: type, functions: Mapping[str, Any]) -> Any:
    if content is None:
        return None
    kind = KINDS[content["kind"]]
    if not issubclass(kind, expected):
        raise ValueError(f"{kind} is no {expected}")
    arguments = {
        name: _value(value, str(content.get("name", name)), functions)
        for name, value in content.items()
        if name != "kind"
    }
    return kind(**arguments)


def _value(value: Any, name: str, functions: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return tuple(value)
    if not isinstance(value, dict):
        return value
    if "pairs" in value:
        return dict(value["pairs"])
    if name not in functions:
        raise FunctionNeededError(name)
    return functions[name]
