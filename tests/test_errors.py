"""The checks of single arguments and their one-line errors."""

import re
from fractions import Fraction

import numpy as np
import pytest

from outrule import ArgumentError, DataError
from outrule.errors import check_number, refuse_argument


def test_an_error_says_what_it_must_be_and_what_it_was():
    error = refuse_argument(-0.1, "epsilon", "DecisionCalibrator", "a float in (0, 1]")
    assert isinstance(error, ArgumentError)
    assert str(error) == (
        "The 'epsilon' argument of DecisionCalibrator must be a float in (0, 1]. Got -0.1 instead."
    )


def test_both_errors_are_value_errors():
    assert issubclass(ArgumentError, ValueError)
    assert issubclass(DataError, ValueError)


@pytest.mark.parametrize("value", [1, 0.5, np.float32(0.5), np.int8(1), Fraction(1, 2)])
def test_numbers_of_any_type_become_floats(value):
    answer = check_number(value, "x", "f", 0, 1)
    assert type(answer) is float
    assert answer == value


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3)])
def test_whole_numbers_of_any_type_become_ints(value):
    assert type(check_number(value, "x", "f", integer=True)) is int


@pytest.mark.parametrize("value", [None, "1", True, np.nan, np.inf, -np.inf, 1j, [1.0]])
def test_what_is_no_finite_number_is_refused(value):
    message = f"The 'x' argument of f must be a finite float. Got {value!r} instead."
    with pytest.raises(ArgumentError, match=re.escape(message)):
        check_number(value, "x", "f")


@pytest.mark.parametrize("value", [1.0, 1.5, True, "1", None])
def test_what_is_no_whole_number_is_refused_as_one(value):
    with pytest.raises(ArgumentError, match="must be a finite int"):
        check_number(value, "x", "f", integer=True)


@pytest.mark.parametrize(
    ("options", "inside", "outside", "words"),
    [
        ({"low": 0, "high": 1}, [1, 0.1], [0, 1.1], "a float in (0, 1]"),
        ({"low": 0, "high": 1, "low_open": False}, [0, 1], [-0.1], "a float in [0, 1]"),
        ({"low": 0, "high": 1, "high_open": True}, [0.5], [0, 1], "a float in (0, 1)"),
        ({"low": 0}, [0.1], [0, -1], "a float greater than 0"),
        ({"low": 0, "low_open": False}, [0, 9], [-1], "a float of at least 0"),
        ({"low": 1, "low_open": False, "integer": True}, [1], [0], "an int of at least 1"),
        ({"low": 0, "high": 3, "integer": True}, [1, 3], [0, 4], "an int in (0, 3]"),
    ],
)
def test_the_ends_of_an_interval_count_as_its_brackets_say(options, inside, outside, words):
    for value in inside:
        assert check_number(value, "x", "f", **options) == value
    for value in outside:
        with pytest.raises(ArgumentError, match=re.escape(f"must be {words}. Got {value!r}")):
            check_number(value, "x", "f", **options)
