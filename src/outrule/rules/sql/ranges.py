"""The dates and lengths of time that expressions work with; at others Polars panics or wraps."""

from __future__ import annotations

from typing import Any

import polars as pl

FIRST, LAST = -719_162, 2_932_896  # days from 1970-01-01: the years 1 to 9999
LONGEST = 100_000_000  # days; added to any of these dates, the microseconds still fit 64 bits
PER_DAY = {"ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def limits(kind: Any) -> tuple[int, int] | None:
    """The least and the largest number that stands for a value of this type."""
    if kind == pl.Date:
        return FIRST, LAST
    if kind not in (pl.Datetime, pl.Duration):
        return None
    first, last = (FIRST, LAST) if kind == pl.Datetime else (-LONGEST, LONGEST - 1)
    day = PER_DAY[kind.time_unit]
    return max(first * day, -(2**63)), min((last + 1) * day - 1, 2**63 - 1)


def range_words(kind: Any) -> str:
    """What is wrong with a value outside of the limits."""
    return f"longer than {LONGEST:,} days" if kind == pl.Duration else "not in the years 1 to 9999"


def is_inside(column: Any) -> bool:
    """Whether all values of a column are within the limits."""
    found = limits(column.dtype)
    return found is None or bool(column.to_physical().drop_nulls().is_between(*found).all())


def bounded(term: Any, kind: Any) -> Any:
    """The expression of a column, with NULL for values outside of the limits."""
    low, high = limits(kind) or (None, None)
    return pl.when(term.to_physical().is_between(low, high)).then(term)


def exact(operation: str, x: Any, y: Any) -> Any:
    """The sum or difference of two lengths of time; NULL where 64 bits are too few for it."""
    wide = [term.cast(pl.Int64).cast(pl.Int128) for term in (x, y)]
    total = wide[0] + wide[1] if operation == "+" else wide[0] - wide[1]
    return total.cast(pl.Int64, strict=False).cast(pl.Duration("us"))
