"""Model files: a model as JSON text. Reading one runs no code."""

from __future__ import annotations

import hashlib
import inspect
import json
import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, Field, model_validator

import outrule
from outrule import theory
from outrule.calibration import check, cross_fit, isotonic
from outrule.calibration.cross_fit import CrossFit
from outrule.calibration.curves import CurvePatch, Member
from outrule.calibration.isotonic import FittedIsotonic, Isotonic
from outrule.calibration.loop import Round, Status
from outrule.calibration.patches import AnyPatch, Patch, SegmentPatch
from outrule.calibration.piecewise import POOLED
from outrule.data.checks import check_range
from outrule.data.origin import ColumnNames
from outrule.data.segments import Segment, Segmentation, Segments
from outrule.data.sketch import CAPACITY, Seen, Sketch
from outrule.errors import DataError
from outrule.files import write_text
from outrule.model import value as values
from outrule.model.documents import (
    LARGEST_SHOWN,
    STRICT,
    damaged,
    read_document,
    read_file,
    seal,
)
from outrule.model.model import Model
from outrule.model.settings import Settings
from outrule.model.value import Value
from outrule.problems import given, matchings, matroids, one_item
from outrule.problems.contract import Problem
from outrule.rules import rules
from outrule.rules.rules import Rule

FORMAT = 1
KINDS: dict[str, type] = {
    name: kind
    for module in (one_item, matroids, matchings, given, rules, check, isotonic, cross_fit, values)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and is_dataclass(kind) and not inspect.isabstract(kind)
    if issubclass(kind, (Problem, Rule, check.Check, check.Step, Isotonic, CrossFit, Value))
}
PARAMETERS = [field.name for field in fields(Settings) if field.name != "segments"]

Functions = Mapping[str, Callable[..., Any]]
Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1, lt=2**31)]
Numbers = Annotated[tuple[float, ...], Field(min_length=1)]


# Names of items that JSON has no type for, with how they are written and read.
NAMES: dict[str, tuple[type, Callable[[Any], str], Callable[[str], Any]]] = {
    "date": (date, date.isoformat, date.fromisoformat),
    "datetime": (datetime, datetime.isoformat, datetime.fromisoformat),
    "time": (time, time.isoformat, time.fromisoformat),
    "microseconds": (
        timedelta,
        lambda value: str(value // timedelta(microseconds=1)),
        lambda text: timedelta(microseconds=int(text)),
    ),
    "decimal": (Decimal, str, Decimal),
}
ItemCurves = tuple[tuple[str | bool | int | float | dict[str, str] | None, Numbers, Numbers], ...]
MOST_MEMBERS = 1 << 10
MOST_POINTS = 255
MOST_ROUNDS = 1 << 17
MOST_KAPPA = 1e3
MOST_TEXT = 4_000_000  # characters of all expressions together, as in a spec


class FunctionNeededError(DataError):
    """The model has a function of the caller's, which files do not hold."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the model needs the function of {name!r}: load(path, functions={{{name!r}: ...}})."
        )
        self.name = name


class MemberFile(BaseModel):
    """What a model file holds of a member of a cross-fitted start."""

    model_config = STRICT

    start: ItemCurves | None
    patches: tuple[CurvePatch, ...]


class SketchFile(BaseModel):
    """What a model file holds of a sketch: numbers in base64; no counts if all are 1."""

    model_config = STRICT

    n: Count
    hashes: str
    counts: str

    @classmethod
    def of(cls, sketch: Sketch) -> dict[str, Any]:
        counts = sketch.counts if (sketch.counts > 1).any() else sketch.counts[:0]
        parts = {"hashes": sketch.hashes.astype("<u8"), "counts": counts.astype("<u4")}
        texts = {name: b64encode(array.tobytes()).decode() for name, array in parts.items()}
        return {"n": sketch.n, **texts}

    def sketch(self) -> Sketch:
        hashes = np.frombuffer(b64decode(self.hashes, validate=True), dtype="<u8")
        counts = np.frombuffer(b64decode(self.counts, validate=True), dtype="<u4")
        counts = counts if len(counts) else np.ones(len(hashes), dtype="<u4")
        ascending = bool((hashes[1:] > hashes[:-1]).all())
        fits = 0 < len(hashes) == len(counts) and len(hashes) <= CAPACITY
        if not (ascending and fits and counts.min() > 0 and int(counts.sum()) <= self.n):
            raise ValueError("a sketch of the training data does not agree with itself")
        return Sketch(hashes.astype(np.uint64), counts.astype(np.int64), self.n)


class SegmentsFile(BaseModel):
    """What a model file holds of its segments."""

    model_config = STRICT

    by: tuple[tuple[str, ...], ...]
    min_share: float
    min_instances: int
    segments: Annotated[tuple[Segment, ...], Field(min_length=1)]
    small: tuple[Segment, ...]

    @model_validator(mode="after")
    def _are_segments(self) -> Self:
        by, named = Segments(self.by, self.min_share, self.min_instances), list[Any]()
        for segment in self.segments:
            value, tolerance = segment.value, segment.tolerance
            good = segment.columns in by.by and 0 < segment.share <= 1 + 1e-9
            good = good and (value is None or len(value) == len(segment.columns))
            if not good or tolerance is None or tolerance <= 0:
                raise ValueError("a segment does not agree with the rest")
            named.append((segment.columns, value))
        if len(set(named)) < len(named):
            raise ValueError("a segment occurs twice")
        return self

    def read(self) -> Segmentation:
        by = Segments(self.by, self.min_share, self.min_instances)
        return Segmentation(by, self.segments, self.small)


class ModelFile(BaseModel):
    """What a model file holds."""

    model_config = STRICT

    format: Literal[1]
    library: str
    problem: dict[str, Any]
    rules: Annotated[tuple[dict[str, Any], ...], Field(min_length=1)]
    epsilon: float | None
    check: dict[str, Any]
    step: dict[str, Any]
    start: dict[str, Any] | None
    max_rounds: int | None
    random_state: int | None
    rivals: tuple[str, ...] = ()
    value: dict[str, Any] | None = None
    tolerance: Positive
    k: Count
    n_items: Count | None
    value_range: tuple[float, float]
    columns: ColumnNames | None
    feature_names: tuple[str, ...] | None
    has_start: bool
    status: Status
    patches: tuple[Patch | SegmentPatch, ...]
    history: tuple[Round, ...]
    rule_values: Numbers
    weight_seen: Positive
    isotonic: ItemCurves
    members: Annotated[tuple[MemberFile, ...], Field(max_length=MOST_MEMBERS)] = ()
    training_data: tuple[str, ...]
    seen: tuple[SketchFile, SketchFile, SketchFile | None, SketchFile | None] | None = None
    kappa: Annotated[float, Field(ge=0, le=MOST_KAPPA)] | None = None
    segments: SegmentsFile | None = None

    @model_validator(mode="after")
    def _parts_belong_together(self) -> Self:
        check_range(self.value_range)
        n_rules, items = len(self.rules), range(self.n_items or 0)
        n_tests, is_cross_fit = n_rules + len(self.rivals), self._is_cross_fit
        claims = {
            "rule_values": len(self.rule_values) == n_rules and _are_shown(self.rule_values),
            "history": all(
                _are_shown((row.violation, row.step, row.squared_error)) for row in self.history
            ),
            "patches": all(self._is_patch(patch, n_tests) for patch in self.patches),
            "feature_names": self.feature_names is None or len(self.feature_names) == len(items),
            "columns": self.columns is None
            or (self.n_items is None and self.has_start == (self.columns.start is not None)),
            "isotonic": self._are_item_curves(self.isotonic),
            "members": bool(self.members) == is_cross_fit
            and all(self._is_member(member, n_tests) for member in self.members),
        }
        for name, holds in claims.items():
            if not holds:
                raise ValueError(f"{name} does not agree with the rest")
        return self

    @property
    def _is_cross_fit(self) -> bool:
        return self.start is not None and self.start.get("kind") == CrossFit.__name__

    def _is_patch(self, patch: AnyPatch, n_tests: int) -> bool:
        low, high = self.value_range
        # The longest step is that of two classes, on the simplex: twice the width.
        n_segments = 0 if self.segments is None else len(self.segments.segments)
        known = -1 <= patch.test < n_tests and -1 <= patch.segment < n_segments
        return known and abs(patch.step) <= 2.001 * (high - low)

    def _is_member(self, member: MemberFile, n_tests: int) -> bool:
        return (member.start is None or self._are_item_curves(member.start)) and all(
            -1 <= patch.test < n_tests
            and len(patch.x) <= MOST_POINTS
            and self._is_curve(patch.x, patch.y)
            for patch in member.patches
        )

    def _are_item_curves(self, curves: ItemCurves) -> bool:
        names = {_name(name) for name, _, _ in curves}
        # The number of items may be a lie, so that no set of so many is made.
        complete = len(names) == (self.n_items or 0) and names == set(range(len(names)))
        every = all(self._is_curve(x, y) for _, x, y in curves)
        return every and (POOLED in names or complete) and len(names) == len(curves)

    def _is_curve(self, x: tuple[float, ...], y: tuple[float, ...]) -> bool:
        low, high = self.value_range
        if not len(x) == len(y) > 0:
            return False
        points = np.array((x, y))
        inside = low <= points.min() and points.max() <= high
        return bool(inside and (points[:, 1:] >= points[:, :-1]).all())


def _are_shown(numbers: Iterable[float]) -> bool:
    """Whether a report can show numbers that nothing is computed from."""
    return all(abs(number) <= LARGEST_SHOWN for number in numbers)


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
    parts = (f"{_line(name)}: {_lines(value)}" for name, value in content.items())
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
            }
            for member in model.members
        ],
        "training_data": list(model.fingerprints),
        "seen": [None if one is None else SketchFile.of(one) for one in model.seen or ()] or None,
        **({} if model.kappa is None else {"kappa": model.kappa}),
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
    return FittedIsotonic({_name(name): (np.array(x), np.array(y)) for name, x, y in curves})


def _seen(file: ModelFile) -> Seen | None:
    if file.seen is None:
        return None
    predictions, contents, *named = file.seen
    names, named_contents = (None if one is None else one.sketch() for one in named)
    return Seen(predictions.sketch(), contents.sketch(), names, named_contents)


def check_item_names(names: Iterable[Any]) -> None:
    """Raise for names of items that a model file cannot hold: before the work, not after it."""
    for name in names:
        _plain(name)


def _model(file: ModelFile, functions: Functions) -> Model:
    _check_sizes(file.patches, file.history, file.rules)
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
    settings = Settings(
        rules=tuple(_decode(rule, Rule, functions) for rule in file.rules),
        epsilon=file.epsilon,
        max_rounds=file.max_rounds,
        random_state=file.random_state,
        rivals=file.rivals,
        segments=None if file.segments is None else file.segments.read().by,
        **{"start": None, **decoded},
    )
    if settings.epsilon is not None:
        expected = theory.tolerance(settings.epsilon, settings.problem.ratio)
        if not math.isclose(file.tolerance, expected):
            raise ValueError("tolerance does not agree with epsilon")
    return Model(
        settings=settings,
        isotonic=_fitted(file.isotonic),
        members=tuple(
            Member(None if one.start is None else _fitted(one.start), one.patches)
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


def _name(value: Any) -> Any:
    """A name of an item, as :func:`_plain` writes it."""
    if not isinstance(value, dict):
        return value
    ((word, text),) = value.items()
    return NAMES[word][2](text)


def _value(value: Any, name: str, functions: Functions) -> Any:
    if isinstance(value, list):
        return tuple(value)
    if not isinstance(value, dict):
        return value
    if set(value) == {"pairs"}:
        table = {_name(key): entry for key, entry in value["pairs"]}
        if len(table) != len(value["pairs"]):
            raise ValueError(f"{name}: a key occurs twice")
        return table
    if set(value) != {"function"}:
        return _name(value)
    if name not in functions:
        raise FunctionNeededError(name)
    return functions[name]


def _lines(value: Any) -> str:
    if isinstance(value, list) and any(isinstance(entry, list | dict) for entry in value):
        return "[\n " + ",\n ".join(map(_line, value)) + "\n]"
    return _line(value)


def _line(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
