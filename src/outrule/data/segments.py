"""Segments: groups of instances by columns that are constant within an instance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from outrule.data.arrays import is_null
from outrule.data.instances import Instances, rows_by
from outrule.data.origin import TableOrigin, missing
from outrule.errors import DataError, check_integer, check_number, refuse_argument
from outrule.types import Booleans, Floats, Integers
from outrule.words import count, harmless

Value = tuple[str | None, ...]  # of a segment's columns, as text; None is a null
LONGEST_LABEL = 200  # characters


@dataclass(frozen=True)
class Segments:
    """By which columns to cut the instances, and how large a segment must be.

    Parameters
    ----------
    by : sequence of str, or of tuples of str
        Columns that are the same for all items of an instance; a tuple is the crossing of its
        columns. Nulls are a value, too.
    min_share : float in (0, 1]
        The smallest share of the weight of a segment. Smaller ones are pooled as "other".
    min_instances : int
        The fewest instances of a segment.

    Examples
    --------
    >>> Segments(["city", ("city", "daytype")]).by
    (('city',), ('city', 'daytype'))
    """

    by: tuple[tuple[str, ...], ...]
    min_share: float = 0.02
    min_instances: int = 200

    def __post_init__(self) -> None:
        given = self.by
        expected = 'a list of columns, and of tuples of columns: ["city", ("city", "daytype")]'
        if isinstance(given, str) or not isinstance(given, Sequence) or not given:
            raise refuse_argument(given, "segments", "Segments", expected)
        by = tuple((one,) if isinstance(one, str) else one for one in given)
        for one in by:
            good = isinstance(one, tuple | list) and one and all(isinstance(c, str) for c in one)
            if not good or len(set(one)) < len(one):
                raise refuse_argument(given, "segments", "Segments", expected)
        by = tuple(tuple(one) for one in by)
        if len({frozenset(one) for one in by}) < len(by):
            raise refuse_argument(given, "segments", "Segments", "without repetitions")
        share = check_number(self.min_share, "min_share", "Segments", 0, 1)
        least = check_integer(self.min_instances, "min_instances", "Segments")
        for name, value in (("by", by), ("min_share", share), ("min_instances", least)):
            object.__setattr__(self, name, value)

    @property
    def columns(self) -> list[str]:
        """Every column once."""
        return list(dict.fromkeys(column for one in self.by for column in one))


def as_segments(given: Any) -> Segments | None:
    """What an argument ``segments`` asks for: nothing, columns, or Segments."""
    if given is None or isinstance(given, Segments):
        return given
    return None if isinstance(given, tuple | list) and not given else Segments(given)


class Segment(NamedTuple):
    """Some values of some columns; ``value`` None is all others, pooled."""

    columns: tuple[str, ...]
    value: Value | None
    share: float  # of the weight
    pooled: int = 0  # how many values are pooled in it
    tolerance: float | None = None  # of a fitted model, the largest violation inside it

    @property
    def name(self) -> str:
        return segment_name(self.columns, self.value)


def segment_name(columns: Sequence[str], value: Value | None) -> str:
    """How a segment is shown: ``city = Rome, daytype = weekend``."""
    if value is None:
        return f"other {' x '.join(columns)}"
    parts = zip(columns, value, strict=True)
    names = ", ".join(f"{c} is null" if text is None else f"{c} = {text}" for c, text in parts)
    return harmless(names)


@dataclass(frozen=True)
class Segmentation:
    """The segments that some instances have, in which other instances find their places.

    ``small`` are pools of values that are too small to be segments: nothing is said of them. A
    value that was not there belongs to the pool of its columns.
    """

    by: Segments
    segments: tuple[Segment, ...]
    small: tuple[Segment, ...] = ()

    def __len__(self) -> int:
        return len(self.segments)

    def codes(self, instances: Instances) -> Integers:
        """The segment of every instance for each entry of ``by``, -1 for none; (n_by, n)."""
        found = np.full((len(self.by.by), len(instances)), -1)
        for row, columns in enumerate(self.by.by):
            number, values = values_of(instances, columns)
            found[row] = self.codes_of(columns, values)[number]
        return found

    def codes_of(self, columns: tuple[str, ...], values: Sequence[Value]) -> Integers:
        """The segments of values of an entry of ``by``, -1 for none."""
        mine = {s.value: i for i, s in enumerate(self.segments) if s.columns == columns}
        other = mine.get(None, -1)
        return np.array([mine.get(value, other) for value in values], dtype=np.int64)

    def inside(self, instances: Instances) -> Booleans:
        """Whether an instance is in a segment; (n_segments, n)."""
        codes = self.codes(instances)
        row = {columns: number for number, columns in enumerate(self.by.by)}
        marks = [codes[row[s.columns]] == number for number, s in enumerate(self.segments)]
        return np.array(marks, dtype=np.bool_).reshape(len(marks), len(instances))

    @property
    def note(self) -> str | None:
        """What was pooled, in a sentence; None if nothing was."""
        pools = [s for s in self.segments if s.value is None] + list(self.small)
        parts = [
            f"{count(pool.pooled, 'value')} of {' x '.join(pool.columns)} "
            f"({100 * pool.share:.2g} % of the weight) "
            f"{'are' if pool.pooled > 1 else 'is'} "
            + ("too few to be judged" if pool in self.small else f"pooled as {pool.name!r}")
            for pool in pools
        ]
        if not parts:
            return None
        limit = f"{100 * self.by.min_share:g} % and {count(self.by.min_instances, 'instance')}"
        return f"segments below {limit}: {'; '.join(parts)}."


def cut(instances: Instances, by: Segments, like: Segmentation | None = None) -> Segmentation:
    """The segments of these instances; DataError where a column cannot be used.

    With ``like``, its values are the segments, whatever their size is here.
    """
    weight = np.ones(len(instances)) if instances.weight is None else instances.weight
    return cut_values(by, [values_of(instances, columns) for columns in by.by], weight, like)


def cut_values(
    by: Segments,
    read: Sequence[tuple[Integers, Sequence[Value]]],
    weight: Floats,
    like: Segmentation | None = None,
) -> Segmentation:
    """The same from what ``values_of`` returns for each entry, and the weights."""
    kept = None if like is None else {(s.columns, s.value) for s in like.segments}
    total = math.fsum(weight.tolist())
    segments, small = list[Segment](), list[Segment]()
    for columns, (number, values) in zip(by.by, read, strict=True):
        n_counted = np.bincount(number, weight > 0, len(values))
        # Exact, so that the order of the instances does not matter.
        share = [math.fsum(part) / total for part in split_weights(weight, number, len(values))]
        large = [
            s >= by.min_share and n >= by.min_instances if kept is None else (columns, v) in kept
            for s, n, v in zip(share, n_counted, values, strict=True)
        ]
        order = sorted(range(len(values)), key=lambda i: [(t is None, t or "") for t in values[i]])
        named = [Segment(columns, values[i], share[i]) for i in order if large[i]]
        if not named:
            raise DataError(
                f"no value of {' x '.join(columns)} has {100 * by.min_share:g} % of the weight and "
                f"{count(by.min_instances, 'instance')}, so there are no segments. Give more data, "
                "or lower min_share and min_instances."
            )
        segments += named
        rest = [i for i in order if not large[i] and n_counted[i]]
        if rest:
            pool = Segment(columns, None, math.fsum(share[i] for i in rest), len(rest))
            n_pooled = sum(n_counted[i] for i in rest)
            enough = pool.share >= by.min_share and n_pooled >= by.min_instances
            enough = enough if kept is None else (columns, None) in kept
            (segments if enough else small).append(pool)
    return Segmentation(by, tuple(segments), tuple(small))


def split_weights(weight: Floats, number: Integers, n_values: int) -> list[list[float]]:
    """The weights of every value."""
    return [weight[rows].tolist() for rows in rows_by(number, n_values)]


def values_of(instances: Instances, columns: tuple[str, ...]) -> tuple[Integers, list[Value]]:
    """The number of every instance's value, and the values."""
    read = [_read(instances, name) for name in columns]
    rows, number = np.unique(np.array([codes for codes, _ in read]), axis=1, return_inverse=True)
    labels = [labels for _, labels in read]
    values = [tuple(labels[c][code] for c, code in enumerate(row)) for row in rows.T.tolist()]
    return number.reshape(-1), values


def _read(instances: Instances, name: str) -> tuple[Integers, list[str | None]]:
    """A column as one number per instance, and what the numbers stand for."""
    codes, values = _distinct(instances, name)
    labels: dict[str | None, int] = {}
    of_value = [labels.setdefault(_label(value, name), len(labels)) for value in values]
    codes = np.array(of_value, dtype=np.int64)[codes]
    first = codes[instances.offsets[:-1]]
    differs = np.flatnonzero(codes != np.repeat(first, np.diff(instances.offsets)))
    if len(differs):
        raise instances.fault(
            f"column {name!r} changes within the instance",
            ". A segment must be the same for all items of an instance: use another column.",
            differs,
        )
    return first, list(labels)


def _distinct(instances: Instances, name: str) -> tuple[Integers, list[Any]]:
    """The number of every item's value, and the values."""
    origin = instances.origin
    if not isinstance(origin, TableOrigin):
        column = origin.flat_column(name)
        if column.dtype.kind in "mM":  # of which Python has microseconds
            column = column.astype(f"{column.dtype.kind}8[us]")
        if column.dtype.kind == "O":
            numbers: dict[Any, int] = {}
            listed = [_label(value, name) for value in column.tolist()]
            return np.array([numbers.setdefault(v, len(numbers)) for v in listed]), list(numbers)
        distinct, codes = np.unique(column, return_inverse=True)
        return codes.reshape(-1), distinct.tolist()
    if name not in origin.frame.columns:
        raise missing(name, origin.frame.columns)
    series = origin.frame[name]
    if str(series.dtype) == "Object" or series.dtype.is_nested():
        raise _unreadable(name, str(series.dtype))
    from outrule.data.tables import number_values  # loads Polars, which arrays do not need

    codes, values = number_values(series)
    return codes, values.to_list()


def _label(value: Any, name: str) -> str | None:
    """A value as text, the same for 1, 1.0 and "1"; None for a null."""
    if is_null(value):
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, date | time):
        value = value.isoformat()
    if not isinstance(value, str | int | float | Decimal | datetime | timedelta):
        raise _unreadable(name, type(value).__name__)
    text = str(value)
    if len(text) > LONGEST_LABEL:
        raise DataError(
            f"column {name!r} has a value of {len(text):,} characters, but the name of a segment "
            f"can have at most {LONGEST_LABEL}."
        )
    return text


def _unreadable(name: str, kind: str) -> DataError:
    return DataError(
        f"column {name!r} holds {kind}, which cannot name segments. Turn it into strings first."
    )
