"""Wording that messages, terminal output and the report share."""

import math


def count(number: int, one: str, more: str = "") -> str:
    """A number with its noun: 1 round, 2 rounds, no rounds."""
    return f"{f'{number:,}' if number else 'no'} {one if number == 1 else more or one + 's'}"


def round_up(number: float) -> float:
    """To two significant digits, and not below zero; an infinite one stays.

    >>> round_up(0.00351)
    0.0036
    """
    if not 0 < number < math.inf:
        return max(number, 0.0)
    unit = 10.0 ** (math.floor(math.log10(number)) - 1)
    return float(f"{math.ceil(number / unit - 1e-9) * unit:.2g}")
