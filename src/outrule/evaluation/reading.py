"""How claims and comparisons read the rows of the evaluation's tables."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, sqrt
from statistics import fmean
from typing import Any, NamedTuple

import polars as pl

from outrule import theory
from outrule.evaluation import say
from outrule.evaluation.results import UNIT, Results

SETTING = ("problem", "n_items")
EXAMPLE = 1 / 16  # the smallest epsilon of the paper's worked examples


class ClaimAnswer(NamedTuple):
    """What the results of one regime say; ``holds`` is None where the paper claims nothing.

    ``number`` is the sentence in a few words.
    """

    number: str
    sentence: str
    holds: bool | None = None


Ask = Callable[[Results], ClaimAnswer | None]  # None where the results do not have what it needs


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


def with_change(runs: pl.DataFrame, results: Results) -> pl.DataFrame:
    """Runs with the change of their squared error."""
    start = results.units.select(*UNIT, pl.col("squared_error").alias("start"))
    joined = runs.join(start, on=list(UNIT), maintain_order="left")
    return joined.with_columns(change=pl.col("squared_error") - pl.col("start"))


def below_zero(runs: pl.DataFrame) -> bool:
    """Whether the mean gap is below zero by more than two standard errors on test instances."""
    error = sqrt(sum(one**2 for one in runs["gap_error"])) / len(runs)
    return mean(runs, "gap") < -2 * error


def example_epsilon(runs: pl.DataFrame) -> float | None:
    """The epsilon of the paper's example, or else the middle one."""
    epsilons = sorted(runs["epsilon"].drop_nulls().unique())
    if not epsilons:
        return None
    return EXAMPLE if EXAMPLE in epsilons else epsilons[len(epsilons) // 2]


def rounds_needed(
    results: Results, runs: pl.DataFrame, tolerance: float, loss: float
) -> tuple[str, int, int]:
    """The traced round from which on the best rule leads by at most ``loss``, for the slowest seed.

    Also the bound, for a squared error of one per item and for the measured one; the latter is
    against outcomes, not their expectation, so it is at least the r of the bound.
    """
    run, unit = [*UNIT, "step", "epsilon", "batch_size"], [*UNIT]
    units = results.units.join(runs, on=unit, how="semi")
    points = results.trace.join(runs.select(run), on=run, how="semi").sort("round")
    points = points.join(units.select(*unit, "plain", "best_rule"), on=unit)
    seeds = [_settled(part, loss) for part in parts(points, "seed").values()]
    m, k = units["n_items"][0], units["k"][0]
    errors = (m, m * mean(units, "squared_error"))
    worst, measured = (theory.rounds(squared_error=e, k=k, tolerance=tolerance) for e in errors)
    return say.when(seeds, results.grid.rounds), worst, measured


def _settled(points: pl.DataFrame, loss: float) -> float:
    """Zero if the rule never led by more, infinity if it does in the end."""
    first, least = inf, points["best_rule"][0] - loss
    rounds, values = [0, *points["round"]], [points["plain"][0], *points["value"]]
    for done, value in zip(reversed(rounds), reversed(values), strict=True):
        if value < least:
            break
        first = done
    return first
