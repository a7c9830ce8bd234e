"""Call or skip: the calls of a bank, in the order of time, with a model of the clients.

UCI bank marketing, 45,211 calls, May 2008 to November 2010. The table has day and month, and no
year: a new year begins where the month falls.
"""

from __future__ import annotations

from functools import cache as keep
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier

from cases import sources

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
COST = 0.12  # of a call, in deposits
# Not the duration of the call, which is known only after it.
KINDS = ("job", "marital", "education", "default", "housing", "loan", "contact", "poutcome")
NUMBERS = ("age", "balance", "campaign", "pdays", "previous")


@keep
def calls(cache: Path) -> pl.DataFrame:
    """One row per call, with its date."""
    frame = sources.bank_table(cache)
    month = frame["month"].replace_strict(MONTHS, range(1, 13), return_dtype=pl.Int64)
    year = 2008 + (month < month.shift(1)).fill_null(value=False).cum_sum()
    frame = frame.with_columns(date=pl.date(year, month, pl.col("day")))
    return frame.select(
        pl.int_range(pl.len(), dtype=pl.Int32).alias("call"), "date", *KINDS, *NUMBERS, "y"
    )


def scores(frame: pl.DataFrame, base: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The chance of a deposit by boosted trees, fitted on the base calls."""
    codes = [frame[name].cast(pl.Enum(frame[name].unique().sort())).to_physical() for name in KINDS]
    features = np.column_stack([*codes, *(frame[name] for name in NUMBERS)])
    trees = HistGradientBoostingClassifier(
        learning_rate=0.05, categorical_features=list(range(len(KINDS))), random_state=0
    )
    trees.fit(features[base], (frame["y"] == "yes").to_numpy()[base])
    return trees.predict_proba(features)[:, 1]


def long(frame: pl.DataFrame, score: NDArray[np.float64]) -> pl.DataFrame:
    """Two rows per call: make it, or skip it."""
    bought = (pl.col("y") == "yes").cast(pl.Float64)
    rows = frame.with_columns(pl.Series("score", score.round(4)), worth=bought).drop("y")
    skip = rows.with_columns(score=pl.lit(COST), worth=pl.lit(COST))
    both = [rows.with_columns(action=pl.lit("call")), skip.with_columns(action=pl.lit("skip"))]
    return pl.concat(both).sort("call", "action")
