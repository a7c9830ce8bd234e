"""Model files: a fitted calibrator as JSON text; reading one runs no code and needs no trust."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

import outrule
from outrule import check, problems, rules, start
from outrule.arguments import DataError, check_number
from outrule.boosting import Round, Status
from outrule.doors import check_range
from outrule.patches import Patch

if TYPE_CHECKING:
    from outrule.calibrator import DecisionCalibrator

FORMAT = 1
KINDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        problems.BestAction,
        problems.Classification,
        problems.Rejection,
        problems.TopK,
        problems.PartitionMatroid,
        problems.GraphicMatroid,
        problems.LaminarMatroid,
        problems.TransversalMatroid,
        problems.LinearMatroid,
        problems.Matroid,
        problems.Matching,
        problems.GreedyMatching,
        problems.Assignment,
        problems.LinearProblem,
        problems.Oracle,
        rules.Multiplier,
        rules.Reweight,
        rules.Choose,
        rules.Fixed,
        check.FreshBatches,
        check.PrivateReuse,
        check.Reuse,
        check.FixedStep,
        check.LineSearch,
        start.Isotonic,
    )
}


def save(calibrator: DecisionCalibrator, path: str | PathLike[str]) -> None:
    """Write the model atomically: the file is whole, or it is not there."""
    target = Path(path)
    text = json.dumps(describe(calibrator), indent=1, allow_nan=False)
    draft = target.with_name(f".{target.name}.{uuid4().hex}")
    try:
        with draft.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


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
    isotonic = calibrator.isotonic_
    return {
        "format": FORMAT,
        "library": outrule.__version__,
        "problem": _encode(calibrator.problem),
        "rules": [_encode(rule) for rule in calibrator.rules],
        "epsilon": float(calibrator.epsilon),
        "check": _encode(calibrator.check),
        "step": _encode(calibrator.step),
        "start": _encode(calibrator.start),
        "max_rounds": _plain(calibrator.max_rounds),
        "random_state": _plain(calibrator.random_state),
        "tolerance": float(calibrator.tolerance_),
        "k": int(calibrator.k_),
        "n_items": calibrator.n_items_,
        "value_range": list(calibrator.value_range_),
        "has_start": calibrator.has_start_,
        "status": calibrator.status_.value,
        "patches": [[patch.test, patch.step] for patch in calibrator.patches_],
        "history": [list(row) for row in calibrator.history_],
        "rule_values": calibrator.rule_values_.tolist(),
        "weight_seen": calibrator.weight_seen_,
        "isotonic": [
            [_plain(name), x.tolist(), y.tolist()] for name, (x, y) in isotonic.curves.items()
        ],
        "training_data": calibrator.fingerprints_,
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
    calibrator.check_parameters()
    n_rules = len(calibrator.rules)
    calibrator.patches_ = [_patch(test, step, n_rules) for test, step in content["patches"]]
    calibrator.history_ = [Round(*row) for row in content["history"]]
    calibrator.status_ = Status(content["status"])
    calibrator.tolerance_ = check_number(content["tolerance"], "tolerance", "load", 0)
    calibrator.k_ = _count(content["k"], "k")
    n_items = content["n_items"]
    calibrator.n_items_ = None if n_items is None else _count(n_items, "n_items")
    calibrator.value_range_ = check_range(content["value_range"])
    calibrator.has_start_ = content["has_start"]
    if type(calibrator.has_start_) is not bool:
        raise ValueError("has_start")
    calibrator.rule_values_ = _vector(content["rule_values"])
    if len(calibrator.rule_values_) != n_rules:
        raise ValueError("rule values")
    calibrator.best_rule_ = int(np.argmax(calibrator.rule_values_))
    calibrator.weight_seen_ = check_number(content["weight_seen"], "weight_seen", "load", 0)
    calibrator.isotonic_ = start.FittedIsotonic(
        {name: _curve(x, y) for name, x, y in content["isotonic"]}
    )
    if start.POOLED not in calibrator.isotonic_.curves:
        raise ValueError("isotonic")
    calibrator.fingerprints_ = [str(fingerprint) for fingerprint in content["training_data"]]
    return calibrator


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
