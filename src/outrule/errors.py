"""The two errors of the package, and the check of a number that raises one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any


class ArgumentError(ValueError):
    """An argument is outside what its function or class accepts."""


class DataError(ValueError):
    """A value in the data is not what the method can work with; says where and what to do.

    Attributes
    ----------
    faults : mapping from the rows of a table that are to blame to what is wrong with each; empty
        where no single row is
    """

    def __init__(self, words: str, faults: Mapping[int, str] | None = None) -> None:
        super().__init__(words)
        self.faults = dict(faults or {})

    def said_by(self, who: str) -> DataError:
        """The same error with a name before its words."""
        faults = {row: f"{who}: {words}" for row, words in self.faults.items()}
        return DataError(f"{who}: {self}", faults)


LONGEST_VALUE = 1000  # characters of a value that a message shows
LARGEST_INTEGER = 2**63 - 1


def refuse_argument(value: object, name: str, owner: str, expected: str) -> ArgumentError:
    """The one-line error of an argument: what it must be, and what it was."""
    return ArgumentError(
        f"The {name!r} argument of {owner} must be {expected}. Got {_shown(value)} instead."
    )


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python does not write integers of thousands of digits
        return "a number with thousands of digits"
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}..."


def check_number(
    value: Any,
    name: str,
    owner: str,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    low_open: bool = True,
    high_open: bool = False,
    integer: bool = False,
) -> float:
    """Return ``value`` if it is a finite number inside the interval, else refuse it."""
    kind = Integral if integer else Real
    good = isinstance(value, kind) and not isinstance(value, bool)
    if good and integer and int(value) > LARGEST_INTEGER:
        raise refuse_argument(value, name, owner, "an int below 2**63")
    if good and _is_finite(value):
        above = value > low if low_open else value >= low
        below = value < high if high_open else value <= high
        if above and below:
            return int(value) if integer else float(value)
    raise refuse_argument(value, name, owner, _interval(low, high, low_open, high_open, integer))


def check_integer(value: Any, name: str, owner: str, low: int = 1) -> int:
    """Return ``value`` if it is an integer of at least ``low``, else refuse it."""
    return int(check_number(value, name, owner, low, low_open=False, integer=True))


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer that no float can hold
        return False


def _interval(low: float, high: float, low_open: bool, high_open: bool, integer: bool) -> str:
    noun = "an int" if integer else "a float"
    if high == math.inf:
        if low == -math.inf:
            return f"a finite {noun.split()[1]}"
        return f"{noun} {'greater than' if low_open else 'of at least'} {low:g}"
    return f"{noun} in {'(' if low_open else '['}{low:g}, {high:g}{')' if high_open else ']'}"
