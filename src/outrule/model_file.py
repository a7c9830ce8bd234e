"""Model files: a fitted calibrator as JSON text; reading one runs no code and needs no trust."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import outrule
from outrule import check, problems, rules, start
from outrule.arguments import DataError, check_number
from outrule.boosting import Round, Status
from outrule.doors import check_range
from outrule.files import write_text
from outrule.model import Model
from outrule.patches import Patch

if TYPE_CHECKING:
    from outrule.calibrator import DecisionCalibrator

FORMAT = 1
KINDS: dict[str, type] = {
    name: kind
    for room in (problems, rules, check, start)
    for name, kind in vars(room).items()
    if isinstance(kind, type) and is_dataclass(kind) and not inspect.isabstract(kind)
    if issubclass(kind, (problems.Problem, rules.Rule, check.Check, check.Step, start.Isotonic))
}


def save(calibrator: DecisionCalibrator, path: str | PathLike[str]) -> None:
    """Write the model atomically: the file is whole, or it is not there."""
    write_text(Path(path), json.dumps(describe(calibrator), indent=1, allow_nan=False))


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
        if content["format"] != FORMAT:
            raise DataError(
                f"{path} has format {content['format']!r}, and this version of outrule reads "
                f"{FORMAT}: install the version that wrote it, {content.get('library')!r}."
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
    text = json.dumps(describe(calibrator) | {"library": library}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


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
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise DataError(f"{value!r} cannot be written to a model file: use numbers or text.")


def _restore(content: dict[str, Any], functions: Mapping[str, Any]) -> DecisionCalibrator:
    from outrule.calibrator import DecisionCalibrator

    calibrator = DecisionCalibrator(
        _decode(content["problem"], problems.Problem, functions),
        tuple(_decode(rule, rules.Rule, functions) for rule in content["rules"]),
        content["epsilon"],
        check=_decode(content["check"], check.Check, functions),
        step=_decode(content["step"], check.Step, functions),
        start=_decode(content["start"], start.Isotonic, functions),
        max_rounds=content["max_rounds"],
        random_state=content["random_state"],
    )
    settings = calibrator.check_parameters()
    n_rules, n_items = len(settings.rules), content["n_items"]
    if type(content["has_start"]) is not bool:
        raise ValueError("has_start")
    calibrator.model_ = Model(
        problem=calibrator.problem,
        rules=settings.rules,
        epsilon=float(calibrator.epsilon),
        start=calibrator.start,
        tolerance=check_number(content["tolerance"], "tolerance", "load", 0),
        k=_count(content["k"], "k"),
        value_range=check_range(content["value_range"]),
        n_items=None if n_items is None else _count(n_items, "n_items"),
        columns=None,
        has_start=content["has_start"],
        isotonic=_isotonic(content["isotonic"], n_items),
        patches=tuple(_patch(test, step, n_rules) for test, step in content["patches"]),
        history=tuple(Round(*row) for row in content["history"]),
        status=Status(content["status"]),
        rule_values=_vector(content["rule_values"]),
        weight_seen=check_number(content["weight_seen"], "weight_seen", "load", 0),
        fingerprints=tuple(str(fingerprint) for fingerprint in content["training_data"]),
    )
    if len(calibrator.model_.rule_values) != n_rules:
        raise ValueError("rule values")
    return calibrator


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
        raise DataError(
            f"the model needs the function of {name!r}: load(path, functions={{{name!r}: ...}})."
        )
    return functions[name]
