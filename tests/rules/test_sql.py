"""Expressions: what they mean, row by row, and what is refused, with its place."""

import datetime as dt
import math
import re
import threading
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from outrule import ArgumentError, DataError, Instances
from outrule.rules.sql import check_types, column_faults, columns_of, evaluate, read, values
from outrule.rules.sql.grammar import NESTING, OPERATIONS, SPECIAL, WILDCARDS
from outrule.rules.sql.plan import _run_one_by_one, plan, run
from outrule.rules.sql.tokens import LONGEST
from outrule.rules.sql.words import FUNCTIONS, OTHER_NAMES, PARTS

TABLE = pl.DataFrame(
    {
        "trip": [0, 0, 1, 1, 2, 2],
        "score": [0.5, 0.25, 0.75, 0.0, 1.0, 0.125],
        "won": [1, 0, 1, 0, 0, 1],
        "x": [7, -7, None, 0, 2, 3],
        "y": [2.5, -2.5, 0.5, None, math.nan, math.inf],
        "s": ["Abc", " a_c ", None, "", "it's 5%", "ÄÖß\nz"],
        "b": [True, False, None, True, False, True],
        "c": [True, True, False, None, False, False],
        "day": [dt.date(2024, 1, 7), dt.date(2020, 2, 29), None, *[dt.date(2023, 12, 31)] * 3],
        "at": [dt.datetime(2024, 1, 7, 5, 6, 7), None, *[dt.datetime(2023, 12, 31, 23, 59)] * 4],
        "written": ["2024-01-07", "2020-02-29", None, *["2023-12-31"] * 3],
    }
)


def table(frame=TABLE, **names):
    return Instances.from_table(frame, instance="trip", prediction="score", outcome="won", **names)


def value(text, instances=None):
    """What an expression gives for every row, as Python values."""
    instances = table() if instances is None else instances
    column = evaluate(text, instances).to_list()
    return column * len(instances.prediction) if not read(text).uses else column


def assert_same(result, expected):
    """Of the same types too; floats may differ in the last digits."""
    assert [type(entry) for entry in result] == [type(entry) for entry in expected]
    for entry, other in zip(result, expected, strict=True):
        close = type(entry) is float and math.isclose(entry, other, rel_tol=1e-12, abs_tol=1e-15)
        assert close or entry == other


def refused(message, kind=ArgumentError):
    return pytest.raises(kind, match=re.escape(message))


# What they mean


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x", [7, -7, None, 0, 2, 3]),
        ("y", [2.5, -2.5, 0.5, None, None, math.inf]),  # NaN is NULL
        ('"x"', [7, -7, None, 0, 2, 3]),
        ("X'", None),
        ("prediction", [0.5, 0.25, 0.75, 0.0, 1.0, 0.125]),
        ("1.5", [1.5] * 6),
        (".5 + 1.", [1.5] * 6),
        ("1e2", [100.0] * 6),
        ("'it''s'", ["it's"] * 6),
        ("NULL", [None] * 6),
        ("x + 1", [8.0, -6.0, None, 1.0, 3.0, 4.0]),
        ("x - -1", [8.0, -6.0, None, 1.0, 3.0, 4.0]),
        ("- x", [-7.0, 7.0, None, 0.0, -2.0, -3.0]),
        ("+ x * 2", [14.0, -14.0, None, 0.0, 4.0, 6.0]),
        ("1 + x * 2", [15.0, -13.0, None, 1.0, 5.0, 7.0]),
        ("(1 + x) * 2", [16.0, -12.0, None, 2.0, 6.0, 8.0]),
        ("x / 2", [3.5, -3.5, None, 0.0, 1.0, 1.5]),
        ("1 / 2", [0.5] * 6),
        ("1.0 / 3", [1 / 3] * 6),
        ("1 / x", [1 / 7, -1 / 7, None, None, 0.5, 1 / 3]),
        ("x / 0", [None] * 6),
        ("0 / (x - x)", [None] * 6),
        ("8 / 2 / 2", [2.0] * 6),
        ("x % 4", [3.0, -3.0, None, 0.0, 2.0, 3.0]),
        ("MOD(x, -4)", [3.0, -3.0, None, 0.0, 2.0, 3.0]),
        ("x % 0", [None] * 6),
        ("b + c", [2.0, 1.0, None, None, 0.0, 1.0]),
        ("b + c - 3", [-1.0, -2.0, None, None, -3.0, -2.0]),
        ("score * (x > 1)", [0.5, 0.0, None, 0.0, 1.0, 0.125]),
        ("(x > 1) + (x > 2)", [2.0, 0.0, None, 0.0, 1.0, 2.0]),
        ("- b", [-1.0, 0.0, None, -1.0, 0.0, -1.0]),
        ("x = 7", [True, False, None, False, False, False]),
        ("x <> 7", [False, True, None, True, True, True]),
        ("x != 7", [False, True, None, True, True, True]),
        ("x >= 2 AND x <= 3", [False, False, None, False, True, True]),
        ("x < 0 OR b", [True, True, None, True, False, True]),
        ("b AND c", [True, False, False, None, False, False]),
        ("b OR c", [True, True, None, True, False, True]),
        ("NOT b", [False, True, None, False, True, False]),
        ("NOT NOT b", [True, False, None, True, False, True]),
        ("NOT x = 7", [False, True, None, True, True, True]),
        ("NOT b AND c", [False, True, False, False, False, False]),
        ("b OR c AND FALSE", [True, False, None, True, False, True]),
        ("NULL AND FALSE", [False] * 6),
        ("x IS NULL", [False, False, True, False, False, False]),
        ("y IS NOT NULL", [True, True, True, False, False, True]),
        ("x IS DISTINCT FROM 7", [False, True, True, True, True, True]),
        ("x IS NOT DISTINCT FROM NULL", [False, False, True, False, False, False]),
        ("x IN (7, 2)", [True, False, None, False, True, False]),
        ("x IN (-7)", [False, True, None, False, False, False]),
        ("x IN (7, 2.0, 2.5)", [True, False, None, False, True, False]),
        ("y IN (2.5, 7)", [True, False, False, None, None, False]),
        ("x NOT IN (7, 2)", [False, True, None, True, False, True]),
        ("x IN (7, NULL)", [True, None, None, None, None, None]),
        ("x IN (x, 1)", [True, True, None, True, True, True]),
        ("s IN ('Abc', '')", [True, False, None, True, False, False]),
        ("day IN (DATE '2024-01-07')", [True, False, None, False, False, False]),
        ("x BETWEEN 0 AND 3 AND b", [False, False, None, True, False, True]),
        ("x NOT BETWEEN 0 AND 3", [True, True, None, False, False, False]),
        ("s LIKE 'A%'", [True, False, None, False, False, False]),
        ("s LIKE '_b_'", [True, False, None, False, False, False]),
        ("s LIKE '%.%'", [False, False, None, False, False, False]),
        ("s LIKE '%z'", [False, False, None, False, False, True]),
        ("s ILIKE 'äö%'", [False, False, None, False, False, True]),
        ("s NOT LIKE '%a%'", [True, False, None, True, True, True]),
        ("s || '!'", ["Abc!", " a_c !", None, "!", "it's 5%!", "ÄÖß\nz!"]),
        ("'n' || x", ["n7", "n-7", None, "n0", "n2", "n3"]),
        ("CASE WHEN x > 1 THEN 'big' WHEN x < 0 THEN 'negative' ELSE 'small' END",
         ["big", "negative", "small", "small", "big", "big"]),
        ("CASE WHEN x > 1 THEN 1 END", [1, None, None, None, 1, 1]),
        ("CASE x WHEN 7 THEN 1 WHEN NULL THEN 2 ELSE 0.5 END", [1.0, 0.5, 0.5, 0.5, 0.5, 0.5]),
        ("CAST(x AS DOUBLE) / 2", [3.5, -3.5, None, 0.0, 1.0, 1.5]),
        ("CAST(y AS INTEGER)", None),  # infinity is no integer
        ("TRY_CAST(y AS INT)", [2, -2, 0, None, None, None]),
        ("x::text", ["7", "-7", None, "0", "2", "3"]),
        ("-x::DOUBLE PRECISION", [-7.0, 7.0, None, 0.0, -2.0, -3.0]),
        ("CAST(b AS INTEGER)", [1, 0, None, 1, 0, 1]),
        ("TRY_CAST('nan' AS FLOAT)", [None] * 6),
        ("TRY_CAST(s AS BIGINT)", [None] * 6),
        ("CASE WHEN x < 3 THEN CAST(y AS INTEGER) ELSE 1 END", [1, -2, 1, None, None, 1]),
        ("CASE WHEN x >= 3 OR x IS NULL THEN 1 ELSE y::INT END", [1, -2, 1, None, None, 1]),
        ("IF(score = 0.125, 0, CAST(y AS INT))", [2, -2, 0, None, None, 0]),
        ("CASE WHEN x = 3 THEN 0 WHEN y::INT = 2 THEN 1 ELSE y::INT END",
         [1, -2, 0, None, None, 0]),
        ("IF(b, IF(x = 3, 5, y::INT), STRPTIME(s, '%Y') IS NULL)", None),
        ("IF(x > 0, CASE WHEN x < 3 THEN y::INT END, y::INT + 1)",
         [None, -1.0, 1.0, None, None, None]),
        ("y - y", [0.0, 0.0, 0.0, None, None, None]),
        ("y - y > 1", [False, False, False, None, None, None]),
        ("y % 2 < 9", [True, True, True, None, None, None]),
        ("9223372036854775807 + x > 0", [True, True, None, True, True, True]),
        ("x * 9223372036854775807 * 4 > x", [True, False, None, False, True, True]),
        ("ABS(NULL) + POWER(NULL, 2)", [None] * 6),
        ("CAST(written AS DATE) = day", [True, True, None, True, True, True]),
        ("written::DATE < DATE '2024-01-01'", [False, True, None, True, True, True]),
        ("CAST(written AS TIMESTAMP) = day", [True, True, None, True, True, True]),
        ("CAST(day AS DATE) IN (DATE '2024-01-07')", [True, False, None, False, False, False]),
        ("'2024-01-31T18:30:00.5'::TIMESTAMP > TIMESTAMP '2024-01-31 18:30:00'", [True] * 6),
        ("TRY_CAST(s AS DATE)", [None] * 6),
        ("at > TIMESTAMP '2024-01-01 00:00:00'", [True, None, False, False, False, False]),
        ("at::DATE = day", [True, None, None, True, True, True]),
        ("day + INTERVAL '1 day 24 hours' > DATE '2024-01-08'",
         [True, False, None, False, False, False]),
        ("(at - day) / INTERVAL '1 hour'",
         [5 + 367 / 3600, None, None, *[24 - 1 / 60] * 3]),
        ("STRPTIME(written, '%Y-%m-%d') = day", [True, True, None, True, True, True]),
        ("TIME '18:30:00' > TIME '06:00:00'", [True] * 6),
        ("case when X then 1 end", None),
    ],
)  # fmt: skip
def test_an_expression_means_what_sql_means(text, expected):
    if expected is None:
        with pytest.raises((ArgumentError, DataError)):
            value(text)
    else:
        assert_same(value(text), expected)


FUNCTION_CALLS = {
    "ABS": ("ABS(x)", [7.0, 7.0, None, 0.0, 2.0, 3.0]),
    "ACOS": ("ACOS(score * 2)", [0.0, math.acos(0.5), None, math.acos(0), None, math.acos(0.25)]),
    "ASIN": ("ASIN(score * 2)", [math.asin(1), math.asin(0.5), None, 0.0, None, math.asin(0.25)]),
    "ATAN": ("ATAN(x)", [math.atan(7), math.atan(-7), None, 0.0, math.atan(2), math.atan(3)]),
    "ATAN2": ("ATAN2(x, 2)", [math.atan2(n, 2) if n is not None else None for n in TABLE["x"]]),
    "CAST": ("CAST(x AS VARCHAR)", ["7", "-7", None, "0", "2", "3"]),
    "CBRT": ("CBRT(x)", [math.cbrt(n) if n is not None else None for n in TABLE["x"]]),
    "CEIL": ("CEIL(y)", [3.0, -2.0, 1.0, None, None, math.inf]),
    "CEILING": ("CEILING(x)", [7.0, -7.0, None, 0.0, 2.0, 3.0]),
    "CHAR_LENGTH": ("CHAR_LENGTH(s)", [3, 5, None, 0, 7, 5]),
    "COALESCE": ("COALESCE(x, y, 9)", [7.0, -7.0, 0.5, 0.0, 2.0, 3.0]),
    "CONCAT": ("CONCAT(s, x)", ["Abc7", " a_c -7", "", "0", "it's 5%2", "ÄÖß\nz3"]),
    "CONTAINS": ("CONTAINS(s, 'a_')", [False, True, None, False, False, False]),
    "COS": ("COS(x)", [math.cos(n) if n is not None else None for n in TABLE["x"]]),
    "DATE_PART": ("DATE_PART('year', day)", [2024, 2020, None, 2023, 2023, 2023]),
    "DEGREES": ("DEGREES(x)", [math.degrees(n) if n is not None else None for n in TABLE["x"]]),
    "ENDS_WITH": ("ENDS_WITH(s, 'c')", [True, False, None, False, False, False]),
    "EXP": ("EXP(x)", [math.exp(n) if n is not None else None for n in TABLE["x"]]),
    "EXTRACT": ("EXTRACT(hour FROM at) * 60", [300.0, None, *[1380.0] * 4]),
    "FLOOR": ("FLOOR(y)", [2.0, -3.0, 0.0, None, None, math.inf]),
    "GREATEST": ("GREATEST(x, 2)", [7, 2, 2, 2, 2, 3]),
    "IF": ("IF(x > 1, x, 0.5)", [7.0, 0.5, 0.5, 0.5, 2.0, 3.0]),
    "IFNULL": ("IFNULL(x, 1)", [7, -7, 1, 0, 2, 3]),
    "LEAST": ("LEAST(x, 2.5)", [2.5, -7.0, 2.5, 0.0, 2.0, 2.5]),
    "LEFT": ("LEFT(s, 2)", ["Ab", " a", None, "", "it", "ÄÖ"]),
    "LENGTH": ("LENGTH(s) - 5", [-2.0, 0.0, None, -5.0, 2.0, 0.0]),
    "LN": ("LN(x)", [math.log(7), None, None, -math.inf, math.log(2), math.log(3)]),
    "LOG10": ("LOG10(x)", [math.log10(7), None, None, -math.inf, math.log10(2), math.log10(3)]),
    "LOG1P": ("LOG1P(x)", [math.log(8), None, None, 0.0, math.log(3), math.log(4)]),
    "LOG2": ("LOG2(x)", [math.log2(7), None, None, -math.inf, 1.0, math.log2(3)]),
    "LOWER": ("LOWER(s)", ["abc", " a_c ", None, "", "it's 5%", "äöß\nz"]),
    "LTRIM": ("LTRIM(s)", ["Abc", "a_c ", None, "", "it's 5%", "ÄÖß\nz"]),
    "MOD": ("MOD(x, 2.5)", [2.0, -2.0, None, 0.0, 2.0, 0.5]),
    "NULLIF": ("NULLIF(x, 0)", [7, -7, None, None, 2, 3]),
    "PI": ("PI() * x", [math.pi * n if n is not None else None for n in TABLE["x"]]),
    "POW": ("POW(x, 0.5)", [7**0.5, None, None, 0.0, 2**0.5, 3**0.5]),
    "POWER": ("POWER(x, 30)", [n**30.0 if n is not None else None for n in TABLE["x"]]),
    "RADIANS": ("RADIANS(x)", [math.radians(n) if n is not None else None for n in TABLE["x"]]),
    "REGEXP_LIKE": ("REGEXP_LIKE(s, '^[A-Z]')", [True, False, None, False, False, False]),
    "RIGHT": ("RIGHT(s, 2)", ["bc", "c ", None, "", "5%", "\nz"]),
    "ROUND": ("ROUND(y)", [3.0, -3.0, 1.0, None, None, math.inf]),
    "RTRIM": ("RTRIM(s)", ["Abc", " a_c", None, "", "it's 5%", "ÄÖß\nz"]),
    "SIGN": ("SIGN(x)", [1.0, -1.0, None, 0.0, 1.0, 1.0]),
    "SIN": ("SIN(x)", [math.sin(n) if n is not None else None for n in TABLE["x"]]),
    "SQRT": ("SQRT(x)", [7**0.5, None, None, 0.0, 2**0.5, 3**0.5]),
    "STARTS_WITH": ("STARTS_WITH(s, 'A')", [True, False, None, False, False, False]),
    "STRPTIME": (
        "EXTRACT(DAY FROM STRPTIME(written, '%Y-%m-%d'))",
        [7, 29, None, 31, 31, 31],
    ),
    "SUBSTR": ("SUBSTR(s, 2, 1)", ["b", "a", None, "", "t", "Ö"]),
    "SUBSTRING": ("SUBSTRING(s, 3)", ["c", "_c ", None, "", "'s 5%", "ß\nz"]),
    "TAN": ("TAN(x)", [math.tan(n) if n is not None else None for n in TABLE["x"]]),
    "TRIM": ("TRIM(s)", ["Abc", "a_c", None, "", "it's 5%", "ÄÖß\nz"]),
    "TRY_CAST": ("TRY_CAST(written AS DOUBLE)", [None] * 6),
    "UPPER": ("UPPER(s)", ["ABC", " A_C ", None, "", "IT'S 5%", "ÄÖSS\nZ"]),
}


def test_every_function_is_tested():
    assert sorted(FUNCTION_CALLS) == sorted({*FUNCTIONS, *OTHER_NAMES, *SPECIAL})


@pytest.mark.parametrize("name", FUNCTION_CALLS)
def test_a_function_gives_the_value_of_its_name(name):
    text, expected = FUNCTION_CALLS[name]
    assert_same(value(text), expected)


@pytest.mark.parametrize("name", FUNCTION_CALLS)
def test_a_function_gives_every_row_its_value_alone_and_in_any_company(name):
    text, _ = FUNCTION_CALLS[name]
    whole = value(text)
    alone = [value(text, table(TABLE[i]))[0] for i in range(TABLE.height)]
    backwards = value(text, table(TABLE.with_columns(trip=-pl.int_range(6)).reverse()))
    often = value(text, table(pl.concat([TABLE] * 50)))
    assert alone == whole
    assert backwards == whole[::-1]
    assert sorted(map(str, often)) == sorted(map(str, whole * 50))


@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_a_time_is_that_of_python(part):
    moments = [dt.datetime(2024, 1, 7, 5, 6, 7), dt.datetime(2020, 12, 31, 23, 59, 58)]
    frame = pl.DataFrame({"trip": [0, 1], "score": [0.0, 0.0], "won": [0, 0], "at": moments})
    by_python = {
        "YEAR": lambda at: at.year,
        "QUARTER": lambda at: (at.month + 2) // 3,
        "MONTH": lambda at: at.month,
        "WEEK": lambda at: at.isocalendar().week,
        "DAY": lambda at: at.day,
        "DOY": lambda at: at.timetuple().tm_yday,
        "DOW": lambda at: at.isoweekday() % 7,
        "ISODOW": lambda at: at.isoweekday(),
        "HOUR": lambda at: at.hour,
        "MINUTE": lambda at: at.minute,
        "SECOND": lambda at: at.second,
    }
    expected = [by_python[part](at) for at in moments]
    assert value(f"EXTRACT({part} FROM at)", table(frame)) == expected
    assert value(f"DATE_PART('{part.lower()}', at)", table(frame)) == expected


def test_half_is_rounded_away_from_zero():
    frame = TABLE.with_columns(y=pl.Series([0.5, 1.5, 2.5, -0.5, 0.25, -2.25]))
    assert value("ROUND(y)", table(frame))[:4] == [1.0, 2.0, 3.0, -1.0]
    assert value("ROUND(y, 1)", table(frame))[4:] == [0.3, -2.3]


# A slow twin: SQL on Python values, NULL is None


def both(left, right):
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def strictly(function):
    return lambda *values: None if None in values else function(*values)


TWINS = {
    "+": strictly(lambda x, y: x + y),
    "-": strictly(lambda x, y: x - y),
    "*": strictly(lambda x, y: x * y),
    "/": strictly(lambda x, y: x / y if y else None),
    "%": strictly(lambda x, y: int(math.fmod(x, y)) if y else None),
    "=": strictly(lambda x, y: x == y),
    "<>": strictly(lambda x, y: x != y),
    "<": strictly(lambda x, y: x < y),
    ">=": strictly(lambda x, y: x >= y),
    "AND": both,
    "OR": lambda x, y: negated(both(negated(x), negated(y))),
}


def negated(entry):
    return None if entry is None else not entry


@st.composite
def numbers(draw, depth=3):
    """The text of a whole number, and a function that computes it from a row."""
    kind = draw(st.sampled_from(["column", "constant", "both", "minus", "case", "coalesce"]))
    if kind == "column" or depth == 0:
        name = draw(st.sampled_from(["p", "q"]))
        return name, lambda row: row[name]
    if kind == "constant":
        constant = draw(st.integers(0, 9))
        return str(constant), lambda _: constant
    left, one = draw(numbers(depth - 1))
    if kind == "minus":
        return f"(- {left})", lambda row: strictly(lambda n: -n)(one(row))
    right, other = draw(numbers(depth - 1))
    if kind == "both":
        word = draw(st.sampled_from("+-*%"))
        return f"({left} {word} {right})", lambda row: TWINS[word](one(row), other(row))
    if kind == "coalesce":
        text = f"COALESCE({left}, {right})"
        return text, lambda row: other(row) if one(row) is None else one(row)
    test, passes = draw(conditions(depth - 1))
    text = f"CASE WHEN {test} THEN {left} ELSE {right} END"
    return text, lambda row: one(row) if passes(row) else other(row)


@st.composite
def conditions(draw, depth=3):
    """The same for true, false or unknown."""
    kind = draw(st.sampled_from(["column", "compare", "compare", "both", "not"]))
    if kind == "column" or depth == 0:
        name = draw(st.sampled_from(["f", "g"]))
        return name, lambda row: row[name]
    if kind == "not":
        text, function = draw(conditions(depth - 1))
        return f"(NOT {text})", lambda row: negated(function(row))
    inner, words = (
        (numbers, ["=", "<>", "<", ">="]) if kind == "compare" else (conditions, ["AND", "OR"])
    )
    (left, one), (right, other) = draw(inner(depth - 1)), draw(inner(depth - 1))
    word = draw(st.sampled_from(words))
    return f"({left} {word} {right})", lambda row: TWINS[word](one(row), other(row))


maybe = st.none() | st.integers(-9, 9)
rows = st.lists(
    st.fixed_dictionaries(
        {"p": maybe, "q": maybe, "f": st.none() | st.booleans(), "g": st.none() | st.booleans()}
    ),
    min_size=1,
    max_size=6,
)
KINDS = {"p": pl.Int8, "q": pl.Int64, "f": pl.Boolean, "g": pl.Boolean}


def table_of(entries):
    frame = pl.DataFrame(entries, schema=KINDS).with_columns(
        trip=pl.int_range(len(entries)), score=0.5, won=1
    )
    return table(frame)


@settings(max_examples=75)
@given(numbers(), rows)
def test_numbers_are_those_of_the_slow_twin(expression, entries):
    text, function = expression
    assert value(text, table_of(entries)) == [function(row) for row in entries]
    quotient = value(f"{text} / q", table_of(entries))
    assert quotient == [TWINS["/"](function(row), row["q"]) for row in entries]


@settings(max_examples=100)
@given(conditions(), rows)
def test_conditions_are_those_of_the_slow_twin(expression, entries):
    text, function = expression
    assert value(text, table_of(entries)) == [function(row) for row in entries]


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_any_text_can_stand_in_single_quotes(text):
    quoted = "'" + text.replace("'", "''") + "'"
    assert value(quoted) == [text] * 6
    assert value(f"{quoted} LIKE {quoted}") == [True] * 6


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


@example("*")
@example("^x$")
@example("^.*$")
@example("column 0")
@example("step 0")
@given(names)
def test_any_name_can_stand_in_double_quotes(name):
    if name in TABLE.columns:
        return
    quoted = '"' + name.replace('"', '""') + '"'
    assert value(f"{quoted} + 1", table(TABLE.with_columns(pl.lit(3).alias(name)))) == [4] * 6


SOUP = [
    *("x", "y", "s", "b", "day", "1", "0", "2.5", "'a'", '"x"', "NULL", "TRUE", "(", ")", ","),
    *("+", "-", "*", "/", "%", "||", "=", "<", "<>", "::", "INT", "AS", "AND", "OR", "NOT", "IS"),
    *("IN", "(", ")", "BETWEEN", "LIKE", "CASE", "WHEN", "THEN", "ELSE", "END", "DATE", "FROM"),
    *("ABS(", "COALESCE(", "IF(", "CAST(", "EXTRACT(", "SUBSTR(", "SUM(", "SELECT", "OVER", ";"),
    *("STRPTIME(", "ROUND(", "REGEXP_LIKE(", "'('", "'%'", "INTERVAL", "'1 day'", "DISTINCT"),
]


@settings(max_examples=200)
@given(st.lists(st.sampled_from(SOUP), max_size=12).map(" ".join))
def test_a_soup_of_words_is_refused_or_has_a_value(text):
    try:
        result = value(text)
    except (ArgumentError, DataError):
        return
    assert len(result) == 6


# What is refused


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a value, but the expression ends at line 1, column 1."),
        ("x +", "expected a value, but the expression ends at line 1, column 4."),
        ("x y", "expected an operator, but found 'y' at line 1, column 3."),
        ("'a' 'b'", "expected an operator, but found \"'b'\" at line 1, column 5."),
        ("1_000", "expected an operator, but found '_000' at line 1, column 2."),
        ("x AS z", "expected an operator, but found 'AS' at line 1, column 3."),
        ("x, y", "expected an operator, but found ',' at line 1, column 2."),
        ("(x", "expected ')', but the expression ends at line 1, column 3."),
        ("x)", "expected an operator, but found ')' at line 1, column 2."),
        ("* 2", "expected a value, but found '*' at line 1, column 1."),
        ("ABS(*)", "expected a value, but found '*' at line 1, column 5."),
        ("ABS(x y)", "expected an operator, ',' or ')', but found 'y' at line 1, column 7."),
        ("ABS(x, y)", "ABS needs 1 argument, but has 2, at line 1, column 9."),
        ("SUBSTR(s)", "SUBSTR needs 2 to 3 arguments, but has 1, at line 1, column 9."),
        ("x IN ()", "IN needs 1 to 10000 arguments, but has 0, at line 1, column 7."),
        ("1 < x < 3", "expected AND, OR or a parenthesis, but found '<' at line 1, column 7."),
        ("x IS TRUE", "expected NULL or DISTINCT, but found 'TRUE' at line 1, column 6."),
        ("x LIKE y", "expected a string in single quotes, but found 'y' at line 1, column 8."),
        ("x NOT 3", "expected IN or BETWEEN or LIKE or ILIKE, but found '3' at line 1"),
        ("x BETWEEN 1 OR 2", "expected AND, but found 'OR' at line 1, column 13."),
        ("CASE x END", "expected WHEN, but found 'END' at line 1, column 8."),
        ("CASE WHEN x THEN", "expected a value, but the expression ends at line 1, column 17."),
        ("CASE WHEN b THEN 1", "expected END, but the expression ends at line 1, column 19."),
        ("x\n  + \n -", "expected a value, but the expression ends at line 3, column 3."),
        ("x -- why", "comments are not supported, at line 1, column 3."),
        ("x /* why */", "comments are not supported, at line 1, column 3."),
        ("x; y", "unexpected character ';' at line 1, column 2."),
        ("x.y", "unexpected character '.' at line 1, column 2."),
        ("`x`", "unexpected character '`' at line 1, column 1."),
        ("x = $1", "unexpected character '$' at line 1, column 5."),
        ("x[1]", "unexpected character '[' at line 1, column 2."),
        ("s = 'Abc", "a string that is never closed starts at line 1, column 5."),
        ('"x', "a name that is never closed starts at line 1, column 1."),
        ('""', "a name that is never closed starts at line 1, column 1."),
        ("(SELECT 1)", "'SELECT' is not supported at line 1, column 2. A rule decides every row"),
        ("ABS(x) OVER ()", "'OVER' is not supported at line 1, column 8. A rule decides every row"),
        ("ABS(x) FILTER (x)", "'FILTER' is not supported at line 1, column 8."),
        ("SUM(x)", "unknown function 'SUM' at line 1, column 1. A rule decides every row from"),
        ("now()", "unknown function 'now' at line 1, column 1."),
        ("1 + read_csv('/etc/passwd')", "unknown function 'read_csv' at line 1, column 5."),
        ("__import__('os')", "unknown function '__import__' at line 1, column 1."),
        ('"ABS"(x)', "expected an operator, but found '(' at line 1, column 6."),
        ("CAST(x AS BLOB)", "unknown type 'BLOB' at line 1, column 11. The types are: INT,"),
        ("CAST(x, INT)", "expected AS, but found ',' at line 1, column 7."),
        ("EXTRACT(eon FROM at)", "unknown part 'eon' at line 1, column 9. The parts are: YEAR"),
        ("EXTRACT('year' FROM at)", "unknown part \"'year'\" at line 1, column 9."),
        ("DATE_PART(year, at)", "unknown part 'year' at line 1, column 11."),
        ("DATE '2024-13-01'", "'2024-13-01' cannot be read as DATE at line 1, column 6. Write it"),
        ("TIMESTAMP '2024-01-01T00:00:00+01:00'", "cannot be read as TIMESTAMP at line 1"),
        ("INTERVAL '2 months'", "'2 months' cannot be read as INTERVAL at line 1, column 10."),
        ("INTERVAL '99999999999 weeks'", "cannot be read as INTERVAL at line 1, column 10."),
        ("INTERVAL '400001 days'", "cannot be read as INTERVAL at line 1, column 10."),
        ("ROUND(y, x)", "an argument of ROUND is not a whole number at line 1, column 10."),
        ("ROUND(y, -1)", "an argument of ROUND is not a whole number at line 1, column 10."),
        ("LEFT(s, 1.5)", "an argument of LEFT is not a whole number at line 1, column 9."),
        (
            "REGEXP_LIKE(s, s)",
            "an argument of REGEXP_LIKE is not a string in single quotes at line",
        ),
        ("REGEXP_LIKE(s, '(')", "invalid regular expression at line 1, column 16."),
        ("SUBSTR(s, 0)", "SUBSTR counts from 1, not 0, at line 1, column 11."),
        ("1e999", "the number is too large at line 1, column 1."),
        ("x IS NULL + 1", "expected AND, OR or a parenthesis, but found '+' at line 1, column 11."),
        ("x = NOT b", "expected a value, but found 'NOT' at line 1, column 5."),
        ("x BETWEEN 1 2", "expected AND, but found '2' at line 1, column 13."),
        ("x NOT NULL", "expected IN or BETWEEN or LIKE or ILIKE, but found 'NULL' at line 1"),
        ("CASE WHEN b 1 END", "expected THEN, but found '1' at line 1, column 13."),
        ("ABS(x,)", "expected a value, but found ')' at line 1, column 7."),
        ("IF(b, 1)", "expected ',', but found ')' at line 1, column 8."),
        ("s LIKE '" + "_" * 101 + "'", f"the pattern has more than {WILDCARDS} wildcards at line"),
    ],
)
def test_a_fault_of_the_text_is_refused_with_its_place(text, message):
    with refused(message):
        read(text)


def test_a_fault_is_shown_under_its_line():
    with refused(
        "line 2, column 4. A rule decides every row from that row alone. The functions are: ABS"
    ):
        read("x +\n 2*SUM(x)\n + y")
    with pytest.raises(ArgumentError) as error:
        read("x +\n\t2*SUM(x)\n + y")
    assert str(error.value).endswith("\n     2*SUM(x)\n       ^")
    with pytest.raises(ArgumentError) as error:
        read("x + " * 50)
    assert str(error.value).endswith("at line 1, column 201.")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x + s", "not allowed"),
        ("y * (s = 1)", "cannot compare string with numeric type (i64), at line 1, column 8."),
        ("NOT x", "NOT needs true or false, not Int64, at line 1, column 5."),
        ("b AND x", "AND needs true or false, not Int64, at line 1, column 7."),
        (
            "CASE WHEN x THEN 1 END",
            "CASE needs true or false, not Int64, at line 1, column 11.",
        ),
        ("IF(s, 1, 2)", "IF needs true or false, not String, at line 1, column 4."),
        ("LENGTH(x)", "at line 1, column 1."),
        ("ABS(s)", "at line 1, column 1."),
        ("x IN ('a')", "at line 1, column 3."),
        ("EXTRACT(HOUR FROM x)", "at line 1, column 1."),
        (
            "day > '2024-01-01'",
            "a date or time cannot be compared with a string at line 1, column 5. Write DATE",
        ),
        (
            "day > 20240101",
            "a date or time cannot be compared with a number at line 1, column 5. Write DATE",
        ),
        (
            "at IN (1, 2)",
            "a date or time cannot be compared with a number at line 1, column 4.",
        ),
        ("s", "the expression gives String. It must give numbers."),
        ("day", "the expression gives Date. It must give numbers."),
        ("CASE WHEN b THEN 'a' ELSE 1 END", "the expression gives String. It must give numbers."),
        ("CAST(s AS DOUBLE)", "conversion from `str` to `f64` failed"),
        ("1 + CAST(s AS DOUBLE)", "at line 1, column 5."),
        (
            "written < DATE '2024-01-01'",
            "a date or time cannot be compared with a string at line 1, column 9. Write DATE "
            "'2024-01-31', or CAST(... AS DATE) for a column of strings.",
        ),
        ("unknown + 1", "unknown column 'unknown' at line 1, column 1. The columns are: 'trip',"),
        (
            "scores",
            "unknown column 'scores' at line 1, column 1. Did you mean 'score'? The columns",
        ),
        (
            's = "north"',
            "unknown column 'north' at line 1, column 5. Strings are written in single quotes.",
        ),
        ("CURRENT_DATE > day", "unknown column 'CURRENT_DATE' at line 1, column 1."),
        ("1 + won", "column 'won' at line 1, column 5 is the outcome, which rules may not use."),
        (
            "CASE WHEN x > 1 THEN 1 END",
            "the weight is NULL at instance 0, row 1 of the table. CASE without ELSE gives NULL, "
            "and so do missing values and division by zero: COALESCE(..., 0) replaces it.",
        ),
        ("x / 0", "the weight is NULL at instance 0, row 0 of the table."),
        ("NULL", "the weight is NULL at instance 0, row 0 of the table."),
    ],
)
def test_a_fault_of_types_columns_or_values_is_refused_with_its_place(text, message):
    with refused("rule 'half': ", DataError) as error:
        values(text, "half", table())
    assert message in str(error.value)


def test_a_choice_must_be_true_or_false():
    with refused("rule 'half': the expression gives Int64. It must give true or false.", DataError):
        values("x", "half", table(), chooses=True)
    message = "rule 'half': the choice is NULL at instance 1, row 2 of the table. CASE without ELSE"
    with refused(message, DataError):
        values("b", "half", table(), chooses=True)


def test_types_are_refused_before_any_value_is_computed():
    with refused("rule 'half': the expression gives Int64. It must", DataError):
        check_types("x", "half", table(), chooses=True)
    with pytest.raises(DataError, match=r"rule 'half': .* at line 1, column 5"):
        check_types("1 + ABS(s)", "half", table())
    check_types("CAST(s AS DOUBLE)", "half", table())  # the values will tell
    check_types("b", "half", table(), chooses=True)


def test_all_unknown_columns_are_named_once_each():
    faults = column_faults(read("a + b + a + won"), ["b"], "won")
    assert [fault.partition(" at")[0] for fault in faults] == ["unknown column 'a'", "column 'won'"]


# Limits


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x " * LONGEST, "the expression has 20,000 characters. At most 10,000 are allowed."),
        ("(" * 1000 + "x" + ")" * 1000, f"nested more than {NESTING} deep at line 1, column 21."),
        ("ABS(" * 1000 + "x" + ")" * 1000, f"nested more than {NESTING} deep"),
        ("CASE " * 1000, f"nested more than {NESTING} deep"),
        ("x IN (" * 1000, f"nested more than {NESTING} deep"),
        ("CAST(" * 100 + "x" + " AS INT)" * 100, f"nested more than {NESTING} deep"),
        ("+".join(["x"] * 1000), "the expression is too large at line 1, column 402."),
        ("||".join(["s"] * 1000), "the expression is too large"),
        (" AND ".join(["b"] * 1000), "the expression is too large"),
        ("NOT " * 1000 + "b", f"nested more than {NESTING} deep at line 1, column 81."),
        ("- " * 1000 + "x", f"nested more than {NESTING} deep"),
        ("x" + "::INT" * 1000, "the expression is too large"),
        ("CASE " + "WHEN b THEN 1 " * 500 + "END", "the expression is too large"),
    ],
    ids=range(13),
)
def test_an_expression_that_is_too_large_is_refused(text, message):
    with refused(message):
        read(text)


LARGEST = {
    **{sign: sign.join(["(score + 1)"] * (OPERATIONS // 2)) for sign in ("+", "-", "*", "/", "%")},
    "concat": "LENGTH(" + "||".join(["s"] * OPERATIONS) + ")",
    "and": " AND ".join(["score > 1"] * (OPERATIONS // 2)),
    "or": " OR ".join(["score > 1"] * (OPERATIONS // 2)),
    "not": "NOT " * (NESTING - 1) + "s IS NULL",
    "minus": "- " * (NESTING - 1) + "score",
    "cast": "score" + "::DOUBLE" * OPERATIONS,
    "branches": "CASE " + "WHEN score > 1 THEN 1 " * (OPERATIONS // 2) + "ELSE 0 END",
    "casts": "CASE " + "WHEN score::INT = 9 THEN 1 " * (OPERATIONS // 3) + "ELSE score::INT END",
    "values": "CASE s " + "WHEN 'q' THEN score " * (OPERATIONS // 2) + "ELSE 0 END",
    "list": "score IN (" + ",".join(map(str, range(2000))) + ")",
    "other list": "score IN (" + ",".join(["score"] * 1500) + ")",
    "like": "s LIKE '" + "%_" * (WILDCARDS // 2) + "a" * 1000 + "'",
    "nullif": "NULLIF(" * (NESTING - 1) + "score" + ", 9)" * (NESTING - 1),
    **{
        name: f"{name}(" * (NESTING - 1) + "score" + f"{rest})" * (NESTING - 1)
        for name, rest in {
            "SQRT": "",
            "GREATEST": ", 0",
            "COALESCE": ", 0",
            "POWER": ", 1",
            "CAST": " AS DOUBLE",
            "ROUND": ", 3",
        }.items()
    },
    "if": "IF(score > 1, 1, " * (NESTING - 1) + "score" + ")" * (NESTING - 1),
    "case": "CASE WHEN score > 1 THEN 1 ELSE " * (NESTING - 1) + "1" + " END" * (NESTING - 1),
}


@pytest.mark.parametrize("name", LARGEST)
def test_the_largest_expression_is_evaluated_on_a_small_stack(name):
    found = []

    def evaluate_it():
        frame = TABLE.with_columns(s=pl.lit("ab"), score=pl.lit(0.5))
        found.append(values(LARGEST[name], "large", table(frame)))

    before = threading.stack_size(512 * 1024)  # that of a thread on a Mac
    try:
        thread = threading.Thread(target=evaluate_it)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    assert len(found) == 1
    assert np.isfinite(found[0]).all()


# Where the columns come from


@pytest.mark.parametrize(
    ("kind", "low"),
    [
        *((kind, 0) for kind in (pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)),
        *((kind, -100) for kind in (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Int128)),
    ],
)
def test_small_numbers_do_not_wrap_around(kind, low):
    frame = TABLE.with_columns(x=pl.Series([low, 1, 2, 3, 4, 100], dtype=kind))
    expected = np.array([low, 1, 2, 3, 4, 100.0])
    for text, function in {
        "x - 101": lambda x: x - 101,
        "x * 1000": lambda x: x * 1000,
        "-x": lambda x: -x,
        "x * x * x * x": lambda x: x**4,
        "IF(b IS NULL, 1, 2) * 2000000000 * 10 + x": lambda x: (
            x + np.array([4e10, 4e10, 2e10, 4e10, 4e10, 4e10])
        ),
    }.items():
        np.testing.assert_array_equal(values(text, "rule", table(frame)), function(expected))


def test_large_whole_numbers_are_compared_exactly():
    large = [2**53, 2**53 + 1, 2**62, 5, 6, 7]
    frame = TABLE.with_columns(x=pl.Series(large))
    assert value(f"x = {2**53 + 1}", table(frame)) == [n == 2**53 + 1 for n in large]
    assert value(f"x IN ({2**53 + 1}, 5)", table(frame)) == [n in (2**53 + 1, 5) for n in large]
    frame = TABLE.with_columns(x=pl.Series([2**64 - 1, 1, 2, 3, 4, 5], dtype=pl.UInt64))
    assert value("x > 9223372036854775807", table(frame)) == [True, *[False] * 5]
    assert value("x IN (1, 2)", table(frame)) == [False, True, True, False, False, False]
    keys = [2**64 - 1, 2**64 - 2, 2**63, 2**63 + 1, 4, 5]
    frame = TABLE.with_columns(x=pl.Series(keys, dtype=pl.UInt64))
    for word, test in (("=", lambda n, key: n == key), (">", lambda n, key: n > key)):
        for key in keys:
            assert value(f"x {word} {key}", table(frame)) == [test(n, key) for n in keys]
    assert value(f"x IN ({2**64 - 1}, 5)", table(frame)) == [True, *[False] * 4, True]
    assert value(f"score < {2**127}") == [True] * 6  # no whole number of 128 bits


@pytest.mark.parametrize(
    "text",
    [
        "CASE WHEN b THEN day ELSE 5 END",
        "COALESCE(day, 'never')",
        "GREATEST(at, s)",
        "LEAST(day, 5)",
        "NULLIF(day, 5)",
        "IF(b, x, day)",
        "IFNULL(day, s)",
    ],
)
def test_a_date_is_never_mixed_with_a_number_or_a_string(text):
    noun = "a string" if "'" in text or "s)" in text else "a number"
    with refused(f"a date or time cannot be combined with {noun} at line 1, column 1. Write DATE"):
        value(text)


def test_the_longest_intervals_do_not_wrap_around_in_a_sum():
    total = " + ".join(["INTERVAL '400000 days'"] * (OPERATIONS - 1))
    assert value(f"{total} > INTERVAL '1 day'") == [True] * 6


FAR = pl.Series([dt.date(9999, 12, 31), dt.date(1, 1, 1), None, *[dt.date(2024, 1, 1)] * 3])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("EXTRACT(YEAR FROM far + INTERVAL '1 day')", [None, 1, None, *[2024] * 3]),
        ("EXTRACT(YEAR FROM far - INTERVAL '1 day')", [9999, None, None, *[2023] * 3]),
        ("EXTRACT(DAY FROM far + x * INTERVAL '1 day')", [None, None, None, 1, 3, 4]),
        ("(far + INTERVAL '1 day')::VARCHAR", [None, "0001-01-02", None, *["2024-01-02"] * 3]),
        ("far::TIMESTAMP + INTERVAL '24 hours' > at", [None, None, None, *[True] * 3]),
        ("EXTRACT(YEAR FROM CAST(x * 2e8 AS DATE))", [None, None, None, 1970, None, None]),
        ("EXTRACT(YEAR FROM TRY_CAST(x * 2e18 AS TIMESTAMP))",
         [None, None, None, 1970, None, None]),
        ("CAST(CAST(x * 2e8 AS DATE) AS VARCHAR)", [None, None, None, "1970-01-01", None, None]),
        ("x * INTERVAL '400000 days' * 50 / INTERVAL '1 day'", [None, None, None, 0.0, 4e7, 6e7]),
        ("x * INTERVAL '400000 days' * 30 + INTERVAL '400000 days' * 100 < INTERVAL '1 day'",
         [None, True, None, False, False, False]),
        ("INTERVAL '400000 days' * -200 - x * INTERVAL '400000 days' * 20 > INTERVAL '1 day'",
         [None, False, None, False, False, None]),
        ("TRY_CAST(2147483647 AS DATE) IS NULL", [True] * 6),
    ],
)  # fmt: skip
def test_what_leaves_the_calendar_is_null(text, expected, capfd):
    assert value(text, table(TABLE.with_columns(far=FAR))) == expected
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("DATE '9999-12-31' + INTERVAL '1 day' > day", "+ is not in the years 1 to 9999, at line"),
        ("TIMESTAMP '0001-01-01 00:00:00' - INTERVAL '1 second' < at", "- is not in the years 1"),
        ("CAST(2147483647 AS DATE) > day", "CAST is not in the years 1 to 9999, at line 1"),
        ("CAST(CAST(9e18 AS TIMESTAMP) AS VARCHAR) = s", "CAST is not in the years 1 to 9999"),
        ("CAST('+262142-12-31' AS DATE) > day", "CAST is not in the years 1 to 9999"),
        ("INTERVAL '400000 days' * 251 > at - day", "* is longer than 100,000,000 days, at line"),
    ],
)  # fmt: skip
def test_a_constant_that_leaves_the_calendar_is_refused(text, message, capfd):
    with refused(f"the result of {message}"):
        value(text)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pl.Series([2_932_897] * 6, dtype=pl.Int32).cast(pl.Date), "not in the years 1 to 9999"),
        (pl.Series([2**62] * 6).cast(pl.Datetime("ms")), "not in the years 1 to 9999"),
        (pl.Series([-(2**62)] * 6).cast(pl.Datetime("us", "UTC")), "not in the years 1 to 9999"),
        (pl.Series([2**63 - 1] * 6).cast(pl.Duration("us")), "longer than 100,000,000 days"),
    ],
)
def test_a_column_beyond_the_calendar_is_refused(column, message, capfd):
    frame = TABLE.with_columns(column.alias("z"))
    with refused(f"rule 'r': column 'z' has a value that is {message}.", DataError):
        values("z IS NULL", "r", table(frame))
    assert capfd.readouterr().err == ""


def test_dates_of_arrays_do_not_wrap_around():
    far = np.array(["2024-01-01", "NaT", "586542-02-01"], dtype="M8[s]")
    assert far.astype("M8[us]")[2] < np.datetime64("2024")  # as NumPy has it
    with refused("column 'z' has a value that is not in the years 1 to 9999.", DataError):
        values("z IS NULL", "r", arrays(z=far))
    assert value("z IS NULL", arrays(z=far[[0, 1, 0]])) == [False, False, True, False, False]


# In how many selections


FLOATS = [0.0, -0.0, 1.0, -2.5, math.nan, math.inf, -math.inf, 5e-324, 1e300, None]
PIECES = [
    *(
        "({} + {})",
        "({} * {})",
        "({} / {})",
        "({} % {})",
        "(- {})",
        "SQRT({})",
        "LN({})",
        "ABS({})",
    ),
    *("POWER({}, {})", "COALESCE({}, {})", "GREATEST({}, {})", "SIGN({})", "ROUND({}, 1)"),
    *("IF({} > {}, {}, {})", "CASE WHEN {} IS NULL THEN {} ELSE {} END", "NULLIF({}, {})"),
    *("IF({} IN ({}, 1), {}, 2)", "CAST({} = {} AS DOUBLE)", "ATAN2({}, {})", "FLOOR({})"),
]


@st.composite
def sums(draw, depth=6):
    """The text of a number, in which NaN can arise everywhere."""
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return draw(st.sampled_from(["p", "q", "0", "1.5"]))
    piece = draw(st.sampled_from(PIECES))
    return piece.format(*(draw(sums(depth - 1)) for _ in range(piece.count("{}"))))


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(sums(), st.lists(st.tuples(*[st.sampled_from(FLOATS)] * 2), min_size=1, max_size=8))
@example("IF(0 > CASE WHEN p IS NULL THEN p ELSE 0 END, p, p)", [(1.0, 1.0), (2.0, 1.0)])
def test_few_selections_give_what_one_for_every_operation_gives(text, entries):
    frame = pl.DataFrame(entries, schema={"p": pl.Float64, "q": pl.Float64}, orient="row")
    try:
        names = list(dict.fromkeys(use.name for use in read(text).uses))
    except ArgumentError:  # it is too large
        return
    columns = [frame[name].fill_nan(None) for name in names]
    rows = pl.DataFrame({f"column {i}": column for i, column in enumerate(columns)})
    one_by_one = _run_one_by_one(text, (pl.Float64,) * len(columns), rows) if columns else None
    assert one_by_one is None or run(text, columns).to_list() == one_by_one.to_list()


def test_a_rule_of_many_operations_takes_few_selections():
    text = "CASE WHEN x > 1 AND y < 2 THEN " + " + ".join(["0.5 * score"] * 12) + " ELSE score END"
    kinds = (pl.Int64, pl.Float64, pl.Float64)
    steps = plan(text, kinds).steps
    assert steps[-1].level <= 2
    assert len(plan(text, kinds, deepest=0).steps) > 20


MILLISECONDS = pl.Series([dt.datetime(2024, 1, 1)] * 6, dtype=pl.Datetime("ms"))
NANOSECONDS = pl.Series([dt.timedelta(hours=3)] * 6, dtype=pl.Duration("ns"))


@pytest.mark.parametrize(
    ("column", "text", "expected"),
    [
        (pl.Series([0.5, 0.75] * 3, dtype=pl.Float32), "z * 2 > 1", [False, True] * 3),
        (pl.Series([Decimal("0.1")] * 6), "z / 3 = 0.1 / 3", [True] * 6),
        (pl.Series(["a", "b"] * 3, dtype=pl.Categorical), "UPPER(z) = 'A'", [True, False] * 3),
        (pl.Series(["a", "b"] * 3, dtype=pl.Enum(["b", "a"])), "z < 'b'", [True, False] * 3),
        (pl.Series([None] * 6), "z IS NULL AND COALESCE(z > 1, TRUE)", [True] * 6),
        (MILLISECONDS, "(z - DATE '2023-12-31')::INT = 86400000000", [True] * 6),
        (NANOSECONDS, "z > INTERVAL '2 hours'", [True] * 6),
        (pl.Series([dt.time(6)] * 6), "z < TIME '07:00:00'", [True] * 6),
    ],
)  # fmt: skip
def test_columns_of_many_types_can_be_used(column, text, expected):
    assert value(text, table(TABLE.with_columns(column.alias("z")))) == expected


@pytest.mark.parametrize(
    "column",
    [
        pl.Series([[1]] * 6),
        pl.Series([{"a": 1}] * 6),
        pl.Series([b"x"] * 6),
        pl.Series([object()] * 6, dtype=pl.Object),
    ],
)
def test_columns_of_other_types_are_refused(column):
    frame = TABLE.with_columns(column.alias("z"))
    with refused("rule 'r': column 'z' has a type that expressions cannot use.", DataError):
        values("z = 1", "r", table(frame))
    values("score", "r", table(frame))


def test_the_prediction_has_its_own_name_unless_a_column_has_it():
    assert columns_of(table())[-1] == "prediction"
    np.testing.assert_array_equal(values("prediction", "r", table()), TABLE["score"])
    frame = TABLE.with_columns(prediction=pl.lit(3.0))
    np.testing.assert_array_equal(values("prediction", "r", table(frame)), [3.0] * 6)


def test_keywords_of_other_dialects_are_plain_columns():
    names = ["user", "rank", "left", "date", "interval", "order", "first", "größe", "count"]
    frame = TABLE.with_columns(pl.lit(1).alias(name) for name in names)
    assert value(" + ".join(names), table(frame)) == [len(names)] * 6


def test_rows_come_in_the_order_of_the_instances():
    frame = TABLE.with_columns(trip=pl.Series([2, 1, 0, 2, 1, 0]))
    data = table(frame)
    np.testing.assert_array_equal(values("score", "r", data), data.prediction)
    with refused("the weight is NULL at instance 0, row 2 of the table.", DataError):
        values("x * 1", "r", data)


def test_a_constant_stands_for_every_row():
    np.testing.assert_array_equal(values("1", "r", table()), np.ones(6))
    np.testing.assert_array_equal(values("TRUE", "r", table()), np.ones(6))
    np.testing.assert_array_equal(
        values("1 < 2", "r", table(), chooses=True), np.ones(6, dtype=bool)
    )
    np.testing.assert_array_equal(values("2", "r", table(TABLE[:1])), [2.0])


def test_weights_are_an_array_that_kernels_may_take():
    for text in ("score", "x IS NULL", "1", "score * 2"):
        array = values(text, "r", table())
        assert array.dtype == np.float64
        assert array.flags.c_contiguous
        assert array.flags.writeable


PREDICTIONS = np.array([[0.5, 0.25], [0.75, 0.0], [1.0, 0.125]])
ON_OFFER = np.array([[True, True], [False, True], [True, True]])


def arrays(**columns):
    return Instances.from_arrays(PREDICTIONS, available=ON_OFFER, columns=columns)


def test_arrays_have_prediction_item_and_their_columns_with_one_row_per_item_on_offer():
    data = arrays(km=np.arange(6.0).reshape(3, 2), far=np.array([True, False, True]))
    assert columns_of(data) == ["km", "far", "item", "prediction"]
    np.testing.assert_array_equal(values("prediction", "r", data), [0.5, 0.25, 0.0, 1.0, 0.125])
    np.testing.assert_array_equal(values("item", "r", data), [0, 1, 1, 0, 1])
    np.testing.assert_array_equal(values("km * far", "r", data), [0, 1, 0, 4, 5])
    np.testing.assert_array_equal(
        values("item = 1", "r", data, chooses=True), [False, True, True, False, True]
    )
    whole = Instances.from_arrays(PREDICTIONS, columns={"prediction": np.ones(3)})
    np.testing.assert_array_equal(values("prediction", "r", whole), np.ones(6))


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (np.array(["a", "b", "c"]), "z = 'a'"),
        (np.array(["a", None, "c"], dtype=object), "COALESCE(z, '') = 'a'"),
        (np.array(["2024-01-01", "2025", "2026"], dtype="M8[D]"), "z < TIMESTAMP '2024-06-01'"),
        (np.array(["2024-01-01", "2025", "2026"], dtype="M8[s]"), "z < DATE '2024-06-01'"),
        (np.array([1, 30, 40], dtype="m8[h]"), "z < INTERVAL '1 day'"),
        (np.array([1, 3, 4], dtype=np.uint8), "z - 2 < 0"),
        (np.array([1, 3, 4], dtype=np.float16), "z < 2"),
        (np.array([1.0, np.nan, 4]), "COALESCE(z, 5) < 2"),
    ],
)
def test_columns_of_arrays_can_have_many_types(column, text):
    np.testing.assert_array_equal(
        values(text, "r", arrays(z=column), chooses=True), [True, True, False, False, False]
    )


@pytest.mark.parametrize("column", [np.array([1, "a", object()], dtype=object), np.ones(3) * 1j])
def test_columns_of_arrays_without_a_type_are_refused(column):
    with refused("rule 'r': column 'z' has a type that expressions cannot use.", DataError):
        values("z", "r", arrays(z=column))


def test_an_unknown_column_of_arrays_is_refused_and_the_others_are_named():
    message = "unknown column 'kms' at line 1, column 5. Did you mean 'km'? The columns are: 'km', "
    with refused(message, DataError):
        values("2 * kms", "r", arrays(km=np.ones(3)))
