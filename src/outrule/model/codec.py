"""Model files: a model as JSON text. Reading one runs no code."""

from __future__ import annotations

import hashlib
import inspect
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

import outrule
from outrule import theory
from outrule.calibration import check, cross_fit, isotonic
from outrule.calibration.cross_fit import CrossFit
from outrule.calibration.curves import Member
from outrule.calibration.isotonic import FittedIsotonic, Isotonic
from outrule.data.origin import ColumnNames
from outrule.data.segments import Segmentation
from outrule.data.sketch import Seen
from outrule.errors import DataError
from outrule.files import write_text
from outrule.model import value as values
from outrule.model.documents import compact, damaged, read_document, read_file, seal
from outrule.model.model import Model
from outrule.model.model_file import FORMAT, NAMES, ItemCurves, ModelFile, SketchFile, read_name
from outrule.model.settings import Settings
from outrule.model.value import Value
from outrule.problems import given, matchings, matroids, one_item
from outrule.problems.contract import Problem
from outrule.rules import rules
from outrule.rules.rules import Rule

KINDS: dict[str, type] = {
    name: kind
    for module in (one_item, matroids, matchings, given, rules, check, isotonic, cross_fit, values)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and is_dataclass(kind) and not inspect.isabstract(kind)
    if issubclass(kind, (Problem, Rule, check.Check, check.Step, Isotonic, CrossFit, Value))
}
PARAMETERS = [field.name for field in fields(Settings) if field.name != "segments"]
MOST_ROUNDS = 1 << 17
MOST_TEXT = 4_000_000  # characters of all expressions together, as in a spec

Functions = Mapping[str, Callable[..., Any]]


class FunctionNeededError(DataError):
    """The model has a function of the caller's, which files do not hold."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the model needs the function of {name!r}: load(path, functions={{{name!r}: ...}})."
        )
        self.name = name


def save(model: Model, path: str | PathLike[str], key: bytes | None = None) -> None:
    """Write the model atomically: the file is complete, or it does not exist."""
    write_text(Path(path), to_text(model, key))


def load_model(
    path: str | PathLike[str], functions: Functions | None = None, key: bytes | None = None
) -> Model:
    """Read a model file; ``functions`` are those of the caller that the model needs, by name."""
    words = {"name": str(path), "noun": "model file"}
    text = read_file(path, words["noun"])
    try:
        return _model(read_document(ModelFile, text, FORMAT, **words, key=key), functions or {})
    except DataError:
        raise
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
        raise damaged(**words, error=error) from error


def to_text(model: Model, key: bytes | None = None) -> str:
    """The model as JSON, with a line for every rule, patch, round and curve, and its digest."""
    content = describe(model)
    _check_sizes(content["patches"], content["history"], content["rules"])
    parts = (f"{compact(name)}: {_lines(value)}" for name, value in content.items())
    return seal("{\n" + ",\n".join(parts) + "\n}\n", key)


def fingerprint(model: Model, library: str = outrule.__version__) -> str:
    """SHA-256 of the model, as that version of the library writes its file."""
    content = describe(model) | {"library": library}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def describe(model: Model) -> dict[str, Any]:
    """The model as plain values."""
    settings = {name: _encode(getattr(model.settings, name)) for name in PARAMETERS}
    return {
        "format": FORMAT,
        "library": outrule.__version__,
        **settings,
        "tolerance": model.tolerance,
        "k": model.k,
        "n_items": model.n_items,
        "value_range": list(model.value_range),
        "columns": None if model.columns is None else _columns(model.columns),
        "feature_names": _plain(model.feature_names),
        "has_start": model.has_start,
        "status": model.status.value,
        "patches": [list(patch) for patch in model.patches],
        "history": [list(row) for row in model.history],
        "rule_values": model.rule_values.tolist(),
        "weight_seen": model.weight_seen,
        "isotonic": _item_curves(model.isotonic),
        "members": [
            {
                "start": None if member.start is None else _item_curves(member.start),
                "patches": [[patch.test, list(patch.x), list(patch.y)] for patch in member.patches],
                **({} if member.trees is None else {"trees": _arguments(member.trees)}),
            }
            for member in model.members
        ],
        "training_data": list(model.fingerprints),
        "seen": [None if one is None else SketchFile.of(one) for one in model.seen or ()] or None,
        **({} if model.kappa is None else {"kappa": model.kappa}),
        **({} if model.log_base is None else {"log_base": list(model.log_base)}),
        **({} if model.segmentation is None else {"segments": _segments(model.segmentation)}),
    }


def _segments(found: Segmentation) -> dict[str, Any]:
    return {
        **asdict(found.by),
        "segments": [list(segment) for segment in found.segments],
        "small": [list(segment) for segment in found.small],
    }


def _columns(names: ColumnNames) -> dict[str, Any]:
    """The columns; what only logs of chosen items have, where it is given."""
    logged = ("propensity", "observed", "propensity_estimated")
    return {role: name for role, name in asdict(names).items() if name or role not in logged}


def _item_curves(fitted: FittedIsotonic) -> list[Any]:
    return [[_plain(name), x.tolist(), y.tolist()] for name, (x, y) in fitted.curves.items()]


def _fitted(curves: ItemCurves) -> FittedIsotonic:
    return FittedIsotonic({read_name(name): (np.array(x), np.array(y)) for name, x, y in curves})


def _seen(file: ModelFile) -> Seen | None:
    found: Any = (None if one is None else one.sketch() for one in file.seen or ())
    return Seen(*found) if file.seen else None


def check_item_names(names: Iterable[Any]) -> None:
    """Raise for names of items that a model file cannot hold: before the work, not after it."""
    for name in names:
        _plain(name)


def _settings(file: ModelFile, functions: Functions) -> Settings:
    kinds: dict[str, Any] = {
        "problem": Problem,
        "check": check.Check,
        "step": check.Step,
        "start": Isotonic | CrossFit,
        "value": Value,
    }
    decoded: dict[str, Any] = {
        name: _decode(content, kind, functions)
        for name, kind in kinds.items()
        if (content := getattr(file, name)) is not None
    }
    return Settings(
        rules=tuple(_decode(rule, Rule, functions) for rule in file.rules),
        epsilon=file.epsilon,
        max_rounds=file.max_rounds,
        random_state=file.random_state,
        rivals=file.rivals,
        segments=None if file.segments is None else file.segments.read().by,
        **{"start": None, **decoded},
    )


def _model(file: ModelFile, functions: Functions) -> Model:
    _check_sizes(file.patches, file.history, file.rules)
    settings = _settings(file, functions)
    if settings.epsilon is not None:
        expected = theory.tolerance(settings.epsilon, settings.problem.ratio)
        if not math.isclose(file.tolerance, expected):
            raise ValueError("tolerance does not agree with epsilon")
    return Model(
        settings=settings,
        isotonic=_fitted(file.isotonic),
        members=tuple(
            Member(
                start=None if one.start is None else _fitted(one.start),
                patches=one.patches,
                trees=None if one.trees is None else one.trees.trees(),
            )
            for one in file.members
        ),
        rule_values=np.array(file.rule_values, dtype=np.float64),
        fingerprints=file.training_data,
        seen=_seen(file),
        segmentation=None if file.segments is None else file.segments.read(),
        **{
            name: getattr(file, name)
            for name in (
                *("tolerance", "k", "value_range", "n_items", "feature_names", "columns"),
                *("has_start", "patches", "history", "status", "weight_seen", "kappa"),
                "log_base",
            )
        },
    )


def _check_sizes(
    patches: Sequence[Any], history: Sequence[Any], rules: Sequence[dict[str, Any]]
) -> None:
    """Raise where reading the file would take too long, before it is written as well."""
    if max(len(patches), len(history)) > MOST_ROUNDS:
        raise DataError(f"a model file has at most {MOST_ROUNDS:,} patches and rounds.")
    texts = (rule.get("function") for rule in rules)
    if sum(len(text) for text in texts if isinstance(text, str)) > MOST_TEXT:
        raise DataError(f"the rules of a model file have at most {MOST_TEXT:,} characters in all.")


def _encode(value: Any) -> Any:
    """A problem, a rule or an option as its kind and its arguments; anything else as it is."""
    if isinstance(value, tuple):
        return [_encode(entry) for entry in value]
    if value is None or isinstance(value, float | int | str):
        return value
    kind = type(value).__name__
    if KINDS.get(kind) is not type(value) or not is_dataclass(value):
        raise DataError(
            f"{kind} cannot be written to a file: only problems, rules and checks of outrule can."
        )
    return {"kind": kind, **_arguments(value)}


def _arguments(value: Any) -> dict[str, Any]:
    """What a dataclass is made with, as plain values."""
    return {one.name: _plain(getattr(value, one.name)) for one in fields(value) if one.init}


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
    for word, (kind, write, _) in NAMES.items():
        if type(value) is kind:
            return {word: write(value)}
    raise DataError(f"{value!r} cannot be written to a model file: use finite numbers or strings.")


def _decode(content: dict[str, Any], expected: Any, functions: Functions) -> Any:
    kind = KINDS[content["kind"]]
    if not issubclass(kind, expected):
        words = getattr(expected, "__name__", str(expected))
        raise ValueError(f"{kind.__name__} is no {words}")
    if kind is given.LinearProblem and content.get("k") is None:
        raise ValueError("LinearProblem has no k")  # to find it could take hours
    arguments = {
        name: _value(value, str(content.get("name", name)), functions)
        for name, value in content.items()
        if name != "kind"
    }
    return kind(**arguments)


def _value(value: Any, name: str, functions: Functions) -> Any:
    if isinstance(value, list):
        return tuple(value)
    if not isinstance(value, dict):
        return value
    if set(value) == {"pairs"}:
        table = {read_name(key): entry for key, entry in value["pairs"]}
        if len(table) != len(value["pairs"]):
            raise ValueError(f"{name}: a key occurs twice")
        return table
    if set(value) != {"function"}:
        return read_name(value)
    if name not in functions:
        raise FunctionNeededError(name)
    return functions[name]


def _lines(value: Any) -> str:
    if isinstance(value, list) and any(isinstance(entry, list | dict) for entry in value):
        return "[\n " + ",\n ".join(map(compact, value)) + "\n]"
    return compact(value)
