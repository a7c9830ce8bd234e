"""Numbers in words, the same way in claims, comparisons, figures and page."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import inf
from statistics import fmean

import polars as pl


def setting(problem: str, n_items: int) -> str:
    """Best action by its number of items, the others by name."""
    return f"m = {n_items}" if problem == "best-action" else problem


def fraction(epsilon: float) -> str:
    """1/16 rather than 0.0625."""
    return str(Fraction(epsilon).limit_denominator(2**20))


def number(value: float) -> str:
    """Three decimals, and no minus sign before a zero."""
    return f"{value:z.3f}"


def count(value: float) -> str:
    """A count, or a mean of counts."""
    return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"


def span(values: Iterable[float]) -> str:
    """From the smallest to the largest."""
    known = list(values)
    return f"{number(min(known))} to {number(max(known))}"


def spread(values: Iterable[float]) -> str:
    """The mean, with the range where there are several."""
    known = list(values)
    return number(known[0]) if len(known) == 1 else f"{number(fmean(known))} ({span(known)})"


def seeds(table: pl.DataFrame) -> str:
    """Over how many worlds; problems may have different numbers of them."""
    counts = set(table.group_by("problem", "n_items").agg(pl.col("seed").n_unique())["seed"])
    if counts == {1}:
        return "for 1 world"
    return f"over {' to '.join(str(n) for n in sorted({min(counts), max(counts)}))} worlds"


def when(rounds: Iterable[float], last: int) -> str:
    """The slowest of some numbers of rounds, of which ``last`` were run."""
    slowest = max(rounds, default=None)
    if slowest is None:
        return "unknown"
    return f"more than {last:,}" if slowest == inf else f"{slowest:,.0f}"
