"""Every operation and function of an expression, and the Polars expression it becomes.

All of them work row by row, on columns without NaN.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from typing import Any, NamedTuple

import polars as pl

MANY = 100
LONGEST_INTERVAL = timedelta(days=400_000)  # the sum of as many as a rule can hold fits 64 bits


class Word(NamedTuple):
    """A function or operator: how many arguments it has, and what it makes of them.

    Where ``written`` is given, the arguments from the second on are constants of this type. The
    first ``tests`` arguments must be true or false. ``numbers`` are computed as Float64, which
    cannot wrap around; true is one there, false is zero. ``repeats``: an argument occurs more than
    once in the Polars expression.
    """

    make: Callable[..., Any]
    fewest: int = 1
    most: int = 1
    written: type | None = None
    tests: int = 0
    numbers: bool = False
    repeats: bool = False


def _remainder(x: Any, y: Any) -> Any:
    """With the sign of the dividend, as in SQL; Polars' own has that of the divisor."""
    return pl.when(y != 0).then(x.sign() * (x.abs() % y.abs()))


def _cast(x: Any, name: str, strict: bool, source: Any) -> Any:
    kind = TYPES[name]
    if source == pl.String and kind == pl.Date:
        return x.str.to_date("%Y-%m-%d", strict=strict)
    if source == pl.String and kind == pl.Datetime:
        spaced = x.str.replace("T", " ", literal=True)
        whole = pl.when(x.str.len_chars() > 10).then(spaced).otherwise(x + " 00:00:00")
        return whole.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="us", strict=strict)
    return x.cast(kind, strict=strict)


def _like(x: Any, pattern: str, flags: str) -> Any:
    escaped = re.sub(r"[\\.+*?()|\[\]{}^$#&~-]", r"\\\g<0>", pattern)
    return x.str.contains(f"(?{flags})^{escaped.replace('%', '.*').replace('_', '.')}$")


def _number(make: Callable[..., Any], n: int = 1, *, repeats: bool = False) -> Word:
    return Word(make, n, n, numbers=True, repeats=repeats)


SAME_NAME = (  # in Polars
    *("abs", "cbrt", "ceil", "cos", "degrees", "exp", "floor", "log10", "log1p", "radians"),
    *("sign", "sin", "sqrt", "tan"),
)
FUNCTIONS: Mapping[str, Word] = {
    **{name.upper(): _number(operator.methodcaller(name)) for name in SAME_NAME},
    "ACOS": _number(lambda x: x.arccos()),
    "ASIN": _number(lambda x: x.arcsin()),
    "ATAN": _number(lambda x: x.arctan()),
    "ATAN2": _number(pl.arctan2, 2),
    "COALESCE": Word(pl.coalesce, 1, MANY),
    "CONCAT": Word(lambda *x: pl.concat_str(*x, ignore_nulls=True), 1, MANY),
    "CONTAINS": Word(lambda x, y: x.str.contains(y, literal=True), 2, 2),
    "ENDS_WITH": Word(lambda x, y: x.str.ends_with(y), 2, 2),
    "GREATEST": Word(pl.max_horizontal, 1, MANY),
    "IF": Word(lambda test, x, y: pl.when(test).then(x).otherwise(y), 3, 3, tests=1),
    "IFNULL": Word(pl.coalesce, 2, 2),
    "LEAST": Word(pl.min_horizontal, 1, MANY),
    "LEFT": Word(lambda x, n: x.str.head(n), 2, 2, int),
    "LENGTH": Word(lambda x: x.str.len_chars().cast(pl.Int64)),
    "LN": _number(lambda x: x.log()),
    "LOG2": _number(lambda x: x.log(2)),
    "LOWER": Word(lambda x: x.str.to_lowercase()),
    "LTRIM": Word(lambda x: x.str.strip_chars_start(" ")),
    "MOD": _number(_remainder, 2, repeats=True),
    "NULLIF": Word(lambda x, y: pl.when(x == y).then(None).otherwise(x), 2, 2, repeats=True),
    "PI": Word(lambda: pl.lit(math.pi), 0, 0),
    "POWER": _number(lambda x, y: x.pow(y), 2),
    "REGEXP_LIKE": Word(lambda x, pattern: x.str.contains(pattern), 2, 2, str),
    "RIGHT": Word(lambda x, n: x.str.tail(n), 2, 2, int),
    "ROUND": Word(
        lambda x, n=0: x.round(min(n, 15), mode="half_away_from_zero"), 1, 2, int, numbers=True
    ),
    "RTRIM": Word(lambda x: x.str.strip_chars_end(" ")),
    "STARTS_WITH": Word(lambda x, y: x.str.starts_with(y), 2, 2),
    "STRPTIME": Word(lambda x, form: x.str.strptime(pl.Datetime("us"), form), 2, 2, str),
    "SUBSTR": Word(lambda x, i, n=None: x.str.slice(i - 1, n), 2, 3, int),
    "TRIM": Word(lambda x: x.str.strip_chars(" ")),
    "UPPER": Word(lambda x: x.str.to_uppercase()),
}
OTHER_NAMES = {"CEILING": "CEIL", "CHAR_LENGTH": "LENGTH", "POW": "POWER", "SUBSTRING": "SUBSTR"}
WORDS: Mapping[str, Word] = {
    **FUNCTIONS,
    "OR": Word(operator.or_, tests=2),
    "AND": Word(operator.and_, tests=2),
    "NOT": Word(operator.invert, tests=1),
    "=": Word(operator.eq),
    "<>": Word(operator.ne),
    "!=": Word(operator.ne),
    "<": Word(operator.lt),
    "<=": Word(operator.le),
    ">": Word(operator.gt),
    ">=": Word(operator.ge),
    "IN": Word(
        lambda x, *others: pl.any_horizontal(*(x == other for other in others)), repeats=True
    ),
    "IS NULL": Word(lambda x: x.is_null()),
    "IS DISTINCT FROM": Word(lambda x, y: x.ne_missing(y)),
    "LIKE": Word(_like),
    "+": _number(operator.add),
    "-": _number(operator.sub),
    "negative": _number(lambda x: x * -1.0),
    "*": _number(operator.mul),
    "/": _number(lambda x, y: pl.when(y != 0).then(x / y), repeats=True),
    "%": FUNCTIONS["MOD"],
    "||": Word(pl.concat_str),
    "CASE": FUNCTIONS["IF"],
    "CAST": Word(_cast, repeats=True),
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
    """A length of time such as ``1 week 2 days``; months have no fixed length."""
    units = "week|day|hour|minute|second"
    pairs = re.findall(rf"([0-9]+) *({units})s?\b *", text)
    if not pairs or not re.fullmatch(rf" *([0-9]+ *({units})s?\b *)+", text):
        raise ValueError(text)
    length = sum((timedelta(**{f"{unit}s": int(n)}) for n, unit in pairs), timedelta())
    if length > LONGEST_INTERVAL:
        raise ValueError(text)
    return length


TIMES: Mapping[str, tuple[Callable[[str], Any], str]] = {
    "DATE": (date.fromisoformat, "2024-01-31"),
    "TIME": (time.fromisoformat, "18:30:00"),
    "TIMESTAMP": (datetime.fromisoformat, "2024-01-31 18:30:00"),
    "INTERVAL": (_interval, "3 days 12 hours"),
}
