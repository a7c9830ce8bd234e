"""What a model file holds, as pydantic classes, and whether its parts belong together."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from outrule.calibration.cross_fit import CrossFit
from outrule.calibration.curves import CurvePatch
from outrule.calibration.log_bases import Coefficients
from outrule.calibration.loop import Round, Status
from outrule.calibration.patches import AnyPatch, Patch, SegmentPatch
from outrule.calibration.piecewise import POOLED
from outrule.calibration.trees import MOST_DEPTH, MOST_ITEMS, MOST_TESTS, MOST_TREES, Trees
from outrule.data.checks import check_range
from outrule.data.origin import ColumnNames
from outrule.data.segments import Segment, Segmentation, Segments
from outrule.data.sketch import CAPACITY, Sketch
from outrule.model.documents import LARGEST_SHOWN, StrictModel

FORMAT = 1
MOST_MEMBERS = 1 << 6  # six folds give 20
MOST_POINTS = 255
MOST_KAPPA = 1e3

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
Name = str | bool | int | float | dict[str, str] | None
ItemCurves = tuple[tuple[Name, Numbers, Numbers], ...]


def read_name(value: Any) -> Any:
    """A name of an item that JSON may have no type for."""
    if not isinstance(value, dict):
        return value
    ((word, text),) = value.items()
    return NAMES[word][2](text)


class TreesFile(StrictModel):
    """What a model file holds of the trees of a member."""

    edges: Annotated[tuple[float, ...], Field(max_length=MOST_POINTS)]
    items: Annotated[tuple[Name, ...], Field(max_length=MOST_ITEMS)]
    tests: Annotated[tuple[int, ...], Field(max_length=MOST_TESTS)]
    questions: Annotated[tuple[tuple[int, ...], ...], Field(min_length=1, max_length=MOST_TREES)]
    values: Annotated[tuple[Numbers, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _are_trees(self) -> Self:
        n_questions = len(self.edges) + len(self.items) + len(self.tests)
        size = len(self.values[0])
        good = size in [2**depth for depth in range(1, MOST_DEPTH + 1)]
        good = good and len(self.questions) == len(self.values)
        good = good and all(len(one) == size for one in self.values)
        good = good and all(
            2 ** len(one) == size and min(one) >= -1 and max(one) < n_questions
            for one in self.questions
        )
        good = good and all(one < other for one, other in pairwise(self.edges))
        names = {read_name(name) for name in self.items}
        distinct = len(names) == len(self.items) and len(set(self.tests)) == len(self.tests)
        if not (good and distinct):
            raise ValueError("trees do not agree with themselves")
        return self

    def trees(self) -> Trees:
        return Trees(
            edges=np.array(self.edges, dtype=np.float64),
            items=tuple(read_name(name) for name in self.items),
            tests=self.tests,
            questions=np.array(self.questions, dtype=np.int16),
            values=np.array(self.values, dtype=np.float64),
        )


class MemberFile(StrictModel):
    """What a model file holds of a member of a cross-fitted start."""

    start: ItemCurves | None
    trees: TreesFile | None = None
    patches: tuple[CurvePatch, ...]


class SketchFile(StrictModel):
    """What a model file holds of a sketch: numbers in base64; no counts if all are 1."""

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


class SegmentsFile(StrictModel):
    """What a model file holds of its segments."""

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


class ModelFile(StrictModel):
    """What a model file holds."""

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
    log_base: Coefficients | None = None
    segments: SegmentsFile | None = None

    @model_validator(mode="after")
    def _parts_belong_together(self) -> Self:
        check_range(self.value_range)
        n_rules, items = len(self.rules), range(self.n_items or 0)
        n_tests = n_rules + len(self.rivals)
        is_cross_fit = (self.start or {}).get("kind") == CrossFit.__name__
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
            "log_base": _are_shown(self.log_base or ()),
            "members": bool(self.members) == is_cross_fit
            and all(self._is_member(member, n_tests) for member in self.members),
        }
        for name, holds in claims.items():
            if not holds:
                raise ValueError(f"{name} does not agree with the rest")
        return self

    def _is_patch(self, patch: AnyPatch, n_tests: int) -> bool:
        low, high = self.value_range
        # The longest step is that of two classes, on the simplex: twice the width.
        n_segments = 0 if self.segments is None else len(self.segments.segments)
        known = -1 <= patch.test < n_tests and -1 <= patch.segment < n_segments
        return known and abs(patch.step) <= 2.001 * (high - low)

    def _is_member(self, member: MemberFile, n_tests: int) -> bool:
        starts = member.start is None or self._are_item_curves(member.start)
        starts = starts and (member.trees is None or self._are_trees(member.trees, n_tests))
        return starts and all(
            -1 <= patch.test < n_tests
            and len(patch.x) <= MOST_POINTS
            and self._is_curve(patch.x, patch.y)
            for patch in member.patches
        )

    def _are_trees(self, trees: TreesFile, n_tests: int) -> bool:
        low, high = self.value_range
        farthest = max(abs(value) for one in trees.values for value in one)
        known = all(0 <= test < n_tests for test in trees.tests)
        return known and farthest <= 1.001 * (high - low)

    def _are_item_curves(self, curves: ItemCurves) -> bool:
        names = {read_name(name) for name, _, _ in curves}
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
