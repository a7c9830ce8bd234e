"""Outcomes that look filled in: the same wherever an item was not chosen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import polars as pl

from outrule.data.instances import Instances
from outrule.data.origin import CHOSEN, TableOrigin
from outrule.errors import DataError
from outrule.types import Floats

CLEAR = 20.0  # other outcomes to expect where there is none, if it did not matter what was chosen


class Side(NamedTuple):
    """The outcomes of the rows in which a flag is true, or false."""

    n: int = 0
    low: float = np.inf
    high: float = -np.inf
    n_not_zero: int = 0

    def including(self, outcome: Floats) -> Side:
        low, high = outcome.min(initial=self.low), outcome.max(initial=self.high)
        n_not_zero = self.n_not_zero + int(np.count_nonzero(outcome))
        return Side(self.n + len(outcome), float(low), float(high), n_not_zero)


class Flag(NamedTuple):
    """A column of true and false, and the outcomes on both sides of it."""

    name: str
    true: Side = Side()
    false: Side = Side()

    @property
    def what(self) -> str:
        return (
            f"the outcome is {self.false.low:g} in all {self.false.n:,} rows in which "
            f"{self.name!r} is false"
        )

    @property
    def remedy(self) -> str:
        return (
            "If it is only known where that is true, it must be null elsewhere, and the spec "
            "needs a propensity: see docs/logs.md."
        )

    def check(self) -> None:
        """Raise for zeros wherever `outrule decide` did not choose, unless it can be chance."""
        true, false = self.true, self.false
        zeros = false.n > 0 and false.n_not_zero == 0
        if zeros and true.n_not_zero * false.n >= CLEAR * max(true.n, 1):
            raise DataError(
                f"{self.what}, but not where it is true. Such outcomes are almost surely not "
                "known: leave them empty instead of 0, and give the propensity (docs/logs.md). If "
                f"they really are known, drop the column {self.name!r}."
            )


class Flags:
    """All columns of true and false, or of 0 and 1, of a table that may come in parts."""

    def __init__(self) -> None:
        self._found: dict[str, Flag | None] = {}  # None: it is no flag

    @classmethod
    def of(cls, instances: Instances) -> Flags:
        """Those of instances; none where there are propensities."""
        flags = cls()
        if instances.outcome is not None and instances.propensity is None:
            flags.add(other_columns(instances), instances.outcome)
        return flags

    def add(self, columns: Iterable[tuple[str, pl.Series]], outcome: Floats) -> None:
        """Count the next part of the table, unless an outcome of it is null, as it must be."""
        if np.isnan(outcome).any():
            return
        for name, column in columns:
            flag = self._found.get(name, Flag(name))
            if flag is None or not _is_flag(column):
                self._found[name] = None
                continue
            true = column.cast(pl.Boolean).to_numpy()
            sides = flag.true.including(outcome[true]), flag.false.including(outcome[~true])
            self._found[name] = Flag(name, *sides)

    def may_be(self, name: str, kind: pl.DataType) -> bool:
        """Whether a column of this type can be a flag, by what was counted so far."""
        return self._found.get(name, Flag(name)) is not None and _may_be_flag(kind)

    def filled(self) -> list[Flag]:
        """Those where outcomes are one number where it is false, and differ where it is true."""
        known = [flag for flag in self._found.values() if flag is not None]
        return [f for f in known if f.false.low == f.false.high and f.true.low < f.true.high]

    def warnings(self) -> list[str]:
        return [f"{flag.what}. {flag.remedy}" for flag in self.filled()]

    def check(self) -> None:
        """DataError where it is the column of decisions, which makes it almost sure."""
        if (flag := self._found.get(CHOSEN)) is not None:
            flag.check()


def other_columns(instances: Instances) -> Iterator[tuple[str, pl.Series]]:
    """The columns that have no role in [data]; a name like ^x$ would be taken for a pattern."""
    origin = instances.origin
    if not isinstance(origin, TableOrigin):
        return
    roles = set(origin.names.roles.values())
    for name in origin.frame.columns:
        column = origin.frame[name].alias("")
        if name not in roles and str(column.dtype) != "Object" and not column.dtype.is_nested():
            yield name, column


def _may_be_flag(kind: pl.DataType) -> bool:
    inner = getattr(kind, "inner", None) or kind  # of lists
    return bool(inner == pl.Boolean or inner.is_integer())


def _is_flag(column: pl.Series) -> bool:
    if column.null_count() or not _may_be_flag(column.dtype):
        return False
    return column.dtype == pl.Boolean or bool(((column == 0) | (column == 1)).all())
