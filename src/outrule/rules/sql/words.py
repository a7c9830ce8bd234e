"""The words of an expression: every operation and function, with what Polars makes of it.

All of them work element by element. NaN, which Polars takes for the largest number, is NULL here:
by ``replace``, since ``fill_nan`` writes its operand three times, and nested ones explode.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from enum import Enum
from typing import Any, NamedTuple

import polars as pl

MANY = 100


class Takes(Enum):
    """What an operation does with its operands."""

    ANYTHING = 0
    NUMBERS = 1  # true is one, false is zero
    CONDITIONS = 2  # refuses what is neither true nor false
    BRANCHES = 3  # condition, value, condition, value, ..., value


class Word(NamedTuple):
    """A function: how many arguments it has, and what it makes of them.

    Where ``written`` is given, the arguments from the second on are such constants in the text.
    """

    make: Callable[..., Any]
    fewest: int = 1
    most: int = 1
    written: type | None = None
    takes: Takes = Takes.ANYTHING


def _case(*parts: Any) -> Any:
    chain: Any = pl
    for condition, value in zip(parts[:-1:2], parts[1::2], strict=True):
        chain = chain.when(condition).then(value)
    return chain.otherwise(parts[-1])


def _cast(x: Any, kind: str, strict: bool) -> Any:
    result = x.cast(TYPES[kind], strict=strict)
    return result.replace(math.nan, None) if TYPES[kind] == pl.Float64 else result


def _like(x: Any, pattern: str, flags: str) -> Any:
    escaped = re.sub(r"[\\.+*?()|\[\]{}^$#&~-]", r"\\\g<0>", pattern)
    return x.str.contains(f"(?{flags})^{escaped.replace('%', '.*').replace('_', '.')}$")


def _numbers(**makes: Callable[..., Any]) -> dict[str, Word]:
    return {name: Word(make, takes=Takes.NUMBERS) for name, make in makes.items()}


FUNCTIONS: Mapping[str, Word] = {
    **_numbers(
        ABS=lambda x: x.abs(),
        ACOS=lambda x: x.arccos().replace(math.nan, None),
        ASIN=lambda x: x.arcsin().replace(math.nan, None),
        ATAN=lambda x: x.arctan(),
        CBRT=lambda x: x.cbrt(),
        CEIL=lambda x: x.ceil(),
        COS=lambda x: x.cos(),
        DEGREES=lambda x: x.degrees(),
        EXP=lambda x: x.exp(),
        FLOOR=lambda x: x.floor(),
        LN=lambda x: x.log().replace(math.nan, None),
        LOG10=lambda x: x.log10().replace(math.nan, None),
        LOG1P=lambda x: x.log1p().replace(math.nan, None),
        LOG2=lambda x: x.log(2).replace(math.nan, None),
        RADIANS=lambda x: x.radians(),
        SIGN=lambda x: x.sign(),
        SIN=lambda x: x.sin(),
        SQRT=lambda x: x.sqrt().replace(math.nan, None),
        TAN=lambda x: x.tan(),
    ),
    "ATAN2": Word(pl.arctan2, 2, 2, takes=Takes.NUMBERS),
    "COALESCE": Word(lambda *x: pl.coalesce(*x), 1, MANY),
    "CONCAT": Word(lambda *x: pl.concat_str(*x, ignore_nulls=True), 1, MANY),
    "CONTAINS": Word(lambda x, y: x.str.contains(y, literal=True), 2, 2),
    "ENDS_WITH": Word(lambda x, y: x.str.ends_with(y), 2, 2),
    "GREATEST": Word(lambda *x: pl.max_horizontal(*x), 1, MANY),
    "IF": Word(_case, 3, 3, takes=Takes.BRANCHES),
    "IFNULL": Word(lambda x, y: pl.coalesce(x, y), 2, 2),
    "LEAST": Word(lambda *x: pl.min_horizontal(*x), 1, MANY),
    "LEFT": Word(lambda x, n: x.str.head(n), 2, 2, int),
    "LENGTH": Word(lambda x: x.str.len_chars().cast(pl.Int64)),
    "LOWER": Word(lambda x: x.str.to_lowercase()),
    "LTRIM": Word(lambda x: x.str.strip_chars_start(" ")),
    "PI": Word(lambda: pl.lit(math.pi), 0, 0),
    "POWER": Word(
        lambda x, y: x.cast(pl.Float64).pow(y).replace(math.nan, None), 2, 2, takes=Takes.NUMBERS
    ),
    "REGEXP_LIKE": Word(lambda x, pattern: x.str.contains(pattern), 2, 2, str),
    "RIGHT": Word(lambda x, n: x.str.tail(n), 2, 2, int),
    "ROUND": Word(
        lambda x, n=0: x.round(min(n, 15), mode="half_away_from_zero"), 1, 2, int, Takes.NUMBERS
    ),
    "RTRIM": Word(lambda x: x.str.strip_chars_end(" ")),
    "STARTS_WITH": Word(lambda x, y: x.str.starts_with(y), 2, 2),
    "STRPTIME": Word(lambda x, form: x.str.strptime(pl.Datetime("us"), form), 2, 2, str),
    "SUBSTR": Word(lambda x, i, n=None: x.str.slice(i - 1, n), 2, 3, int),
    "TRIM": Word(lambda x: x.str.strip_chars(" ")),
    "UPPER": Word(lambda x: x.str.to_uppercase()),
}
OTHER_NAMES = {
    "CEILING": "CEIL",
    "CHAR_LENGTH": "LENGTH",
    "POW": "POWER",
    "SUBSTRING": "SUBSTR",
}
OPERATIONS: Mapping[str, Word] = {
    "OR": Word(lambda x, y: x | y, takes=Takes.CONDITIONS),
    "AND": Word(lambda x, y: x & y, takes=Takes.CONDITIONS),
    "NOT": Word(lambda x: ~x, takes=Takes.CONDITIONS),
    "=": Word(lambda x, y: x == y),
    "<>": Word(lambda x, y: x != y),
    "<": Word(lambda x, y: x < y),
    "<=": Word(lambda x, y: x <= y),
    ">": Word(lambda x, y: x > y),
    ">=": Word(lambda x, y: x >= y),
    "IS NULL": Word(lambda x: x.is_null()),
    "IS DISTINCT FROM": Word(lambda x, y: x.ne_missing(y)),
    "LIKE": Word(_like),
    "+": Word(lambda x, y: x + y, takes=Takes.NUMBERS),
    "-": Word(lambda x, y: x - y, takes=Takes.NUMBERS),
    "negative": Word(lambda x: x * pl.lit(-1, dtype=pl.Int64), takes=Takes.NUMBERS),
    "*": Word(lambda x, y: x * y, takes=Takes.NUMBERS),
    "/": Word(lambda x, y: x / y, takes=Takes.NUMBERS),
    "%": Word(lambda x, y: x % y, takes=Takes.NUMBERS),
    "||": Word(lambda x, y: pl.concat_str(x, y)),
    "CASE": Word(_case, takes=Takes.BRANCHES),
    "CAST": Word(_cast),
    "EXTRACT": Word(lambda x, part: PARTS[part](x).cast(pl.Int64)),
}
TYPES: Mapping[str, Any] = {
    **dict.fromkeys(("INT", "INTEGER", "BIGINT"), pl.Int64),
    **dict.fromkeys(("DOUBLE", "FLOAT", "REAL"), pl.Float64),
    **dict.fromkeys(("VARCHAR", "TEXT", "STRING"), pl.String),
    "BOOLEAN": pl.Boolean,
    "DATE": pl.Date,
    "TIMESTAMP": pl.Datetime("us"),
}
PARTS: Mapping[str, Callable[[Any], Any]] = {
    "YEAR": lambda x: x.dt.year(),
    "QUARTER": lambda x: x.dt.quarter(),
    "MONTH": lambda x: x.dt.month(),
    "WEEK": lambda x: x.dt.week(),
    "DAY": lambda x: x.dt.day(),
    "DOY": lambda x: x.dt.ordinal_day(),
    "DOW": lambda x: x.dt.weekday() % 7,  # Sunday is 0
    "ISODOW": lambda x: x.dt.weekday(),  # Monday is 1, Sunday 7
    "HOUR": lambda x: x.dt.hour(),
    "MINUTE": lambda x: x.dt.minute(),
    "SECOND": lambda x: x.dt.second(),
}


def _interval(text: str) -> timedelta:
    """A length of time from words such as ``1 week 2 days``; months have no one length."""
    units = "week|day|hour|minute|second"
    pairs = re.findall(rf"([0-9]+) *({units})s?\b *", text)
    if not pairs or not re.fullmatch(rf" *([0-9]+ *({units})s?\b *)+", text):
        raise ValueError(text)
    return sum((timedelta(**{f"{unit}s": int(n)}) for n, unit in pairs), timedelta())


TIMES: Mapping[str, tuple[Callable[[str], Any], str]] = {
    "DATE": (date.fromisoformat, "2024-01-31"),
    "TIME": (time.fromisoformat, "18:30:00"),
    "TIMESTAMP": (datetime.fromisoformat, "2024-01-31 18:30:00"),
    "INTERVAL": (_interval, "3 days 12 hours"),
}
