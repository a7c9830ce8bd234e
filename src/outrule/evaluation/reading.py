"""Reading the tables: results enter; regimes, parts of them, and words for figures leave."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from statistics import fmean
from typing import Any, NamedTuple

import polars as pl

from outrule import theory
from outrule.evaluation.settings import Settings
from outrule.evaluation.tables import UNIT, Results

PAPER = ("best-action", "matching")  # what the paper evaluates
SETTING = ("problem", "n_items")
EXAMPLE = 1 / 16  # the smallest epsilon of the paper's worked examples


class Finding(NamedTuple):
    """What one regime says of a claim; ``holds`` is None where the paper claims nothing."""

    sentence: str
    holds: bool | None = None


@dataclass(frozen=True, eq=False)
class Regime:
    """The results of one regime."""

    settings: Settings
    units: pl.DataFrame
    runs: pl.DataFrame
    trace: pl.DataFrame

    @property
    def fixed(self) -> pl.DataFrame:
        """Runs as the paper's: fresh batches and the fixed step."""
        return self.runs.filter(check="fresh batches", step="fixed")

    @property
    def paper(self) -> pl.DataFrame:
        """The paper's runs."""
        return self.fixed.filter(pl.col("problem").is_in(PAPER))


def regimes_of(results: Results) -> dict[str, Regime]:
    """The regimes that have results, by name."""
    return {
        name: Regime(
            results.settings,
            *(table.filter(regime=name) for table in (results.units, results.runs, results.trace)),
        )
        for name in results.units["regime"].unique(maintain_order=True)
    }


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
    """Over all rows."""
    return fmean(table[column].to_list())


def settled(regime: Regime, runs: pl.DataFrame, loss: float) -> list[float]:
    """By world, the traced round from which on the best rule leads by at most ``loss``.

    Zero if it never led by more, infinity if it does so in the end; nothing without a trace.
    """
    line = [*UNIT, "step", "epsilon", "batch_size"]
    points = regime.trace.join(runs.select(line), on=line, how="semi").sort("round")
    points = points.join(regime.units.select(*UNIT, "plain", "best_rule"), on=[*UNIT])
    return [_settled(part, loss) for part in parts(points, "seed").values()]


def _settled(points: pl.DataFrame, loss: float) -> float:
    first, least = inf, points["best_rule"][0] - loss
    rounds, values = [0, *points["round"]], [points["plain"][0], *points["value"]]
    for done, value in zip(reversed(rounds), reversed(values), strict=True):
        if value < least:
            break
        first = done
    return first


def half_falls(regime: Regime) -> dict[tuple[str, int], dict[float, list[float]]]:
    """Rounds until the squared error has made half of the fall of the best run of its unit.

    By setting and epsilon, one for every world in which it falls at all; infinity if never.
    """
    unit = [*UNIT]
    start = regime.units.select(*unit, pl.col("squared_error").alias("start"))
    trace = at(regime.trace.filter(step="fixed"), "batch_size", largest=True)
    trace = trace.join(start, on=unit, maintain_order="left")
    middle = (pl.col("start") + pl.col("squared_error").min().over(unit)) / 2
    reached = pl.col("round").filter(pl.col("squared_error") <= pl.col("middle")).min()
    trace = trace.with_columns(middle=middle).filter(pl.col("middle") < pl.col("start"))
    runs = trace.group_by(*unit, "epsilon", maintain_order=True).agg(reached)
    falls: dict[tuple[str, int], dict[float, list[float]]] = {}
    for problem, n_items, epsilon, done in runs.select(*SETTING, "epsilon", "round").iter_rows():
        by_epsilon = falls.setdefault((problem, n_items), {})
        by_epsilon.setdefault(epsilon, []).append(inf if done is None else done)
    return falls


def bounds(units: pl.DataFrame, tolerance: float) -> tuple[int, int]:
    """The bound on the rounds for an error of one per item, and for the measured one.

    The measured error is against outcomes, not their expectation, so it is not below the r of the
    bound.
    """
    m, k = units["n_items"][0], units["k"][0]
    worst = theory.rounds(squared_error=m, k=k, tolerance=tolerance)
    error = m * mean(units, "squared_error")
    return worst, theory.rounds(squared_error=error, k=k, tolerance=tolerance)


def label(problem: str, n_items: int) -> str:
    """Best action by its number of items, the others by name."""
    return f"m = {n_items}" if problem == "best-action" else problem


def fraction(epsilon: float) -> str:
    """1/16 rather than 0.0625."""
    return str(Fraction(epsilon).limit_denominator(2**20))


def number(value: float) -> str:
    """Three decimals, and no minus before a zero."""
    return f"{value:z.3f}"


def count(value: float) -> str:
    """A count, or a mean of counts."""
    return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"


def spread(values: pl.Series) -> str:
    """The mean, and from least to most where there are several."""
    known = values.to_list()
    if len(known) == 1:
        return number(known[0])
    return f"{number(fmean(known))} ({number(min(known))} to {number(max(known))})"


def seeds(table: pl.DataFrame) -> str:
    """Over how many worlds; settings may have different numbers of them."""
    counts = {part["seed"].n_unique() for part in parts(table, *SETTING).values()}
    if counts == {1}:
        return "for 1 seed"
    return f"over {' to '.join(str(n) for n in sorted({min(counts), max(counts)}))} seeds"


def when(rounds: Iterable[float], last: int) -> str:
    """The slowest of some numbers of rounds, of which ``last`` were run."""
    slowest = max(rounds, default=None)
    if slowest is None:
        return "unknown"
    return f"more than {last:,}" if slowest == inf else f"{slowest:,.0f}"
