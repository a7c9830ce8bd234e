"""What claims and comparisons need to read the tables."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from statistics import fmean
from typing import Any, NamedTuple

import polars as pl

from outrule import theory
from outrule.evaluation.results import UNIT, Results

SETTING = ("problem", "n_items")
EXAMPLE = 1 / 16  # the smallest epsilon of the paper's worked examples


class Answer(NamedTuple):
    """What the results of one regime say; ``holds`` is None where the paper claims nothing."""

    sentence: str
    holds: bool | None = None


Ask = Callable[[Results], Answer | None]  # None where the results do not have what it needs


def parts(table: pl.DataFrame, *names: str) -> dict[tuple[Any, ...], pl.DataFrame]:
    """The rows by the values of some columns, in the order of the table."""
    if table.is_empty():
        return {}
    return table.partition_by(names, as_dict=True, maintain_order=True)


def at(table: pl.DataFrame, column: str, *, largest: bool) -> pl.DataFrame:
    """The rows with the largest, or the smallest, value of a column."""
    extreme = pl.col(column).max() if largest else pl.col(column).min()
    return table.filter(pl.col(column) == extreme)


def mean(table: pl.DataFrame, column: str) -> float:
    """The mean over all rows."""
    return fmean(table[column].to_list())


def settled(results: Results, runs: pl.DataFrame, loss: float) -> list[float]:
    """For each seed, the traced round from which on the best rule leads by at most ``loss``.

    Zero if it never led by more, infinity if it does in the end; empty without a trace.
    """
    run = [*UNIT, "step", "epsilon", "batch_size"]
    points = results.trace.join(runs.select(run), on=run, how="semi").sort("round")
    points = points.join(results.units.select(*UNIT, "plain", "best_rule"), on=[*UNIT])
    return [_settled(part, loss) for part in parts(points, "seed").values()]


def _settled(points: pl.DataFrame, loss: float) -> float:
    first, least = inf, points["best_rule"][0] - loss
    rounds, values = [0, *points["round"]], [points["plain"][0], *points["value"]]
    for done, value in zip(reversed(rounds), reversed(values), strict=True):
        if value < least:
            break
        first = done
    return first


def bounds(units: pl.DataFrame, tolerance: float) -> tuple[int, int]:
    """The bound on the rounds, for an error of one per item and for the measured one.

    The measured error is against outcomes, not their expectation, so it is at least the r of the
    bound.
    """
    m, k = units["n_items"][0], units["k"][0]
    worst = theory.rounds(squared_error=m, k=k, tolerance=tolerance)
    error = m * mean(units, "squared_error")
    return worst, theory.rounds(squared_error=error, k=k, tolerance=tolerance)
