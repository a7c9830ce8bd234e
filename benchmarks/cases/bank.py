"""Call or skip: the calls of a bank, with a model of the clients.

UCI bank marketing, 45,211 calls, May 2008 to November 2010. The table has day and month, and no
year: a new year begins where the month falls. The case splits them at random, so that the past is
like the future; the demo and the watch go through them in the order of time.
"""

from __future__ import annotations

from functools import cache as keep
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import outrule
from cases import sources
from cases.case import BASE, CALIBRATION, TEST, Arrays, Case, split, take
from outrule.demos.real import spec_of

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
COST = 0.12  # of a call, in deposits
# Not the duration of the call, which is known only after it.
KINDS = ("job", "marital", "education", "default", "housing", "loan", "contact", "poutcome")
NUMBERS = ("age", "balance", "campaign", "pdays", "previous")
AGE, TREES = "age and balance", "boosted trees"
ACTIONS = ("call", "skip")


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


def draw(model: str, seed: int, cache: Path) -> tuple[Arrays, Arrays]:
    """Logistic regression on two numbers, or boosted trees on all that is known before a call."""
    frame = calls(cache)
    part = split(frame["call"], seed)
    bought = (frame["y"] == "yes").to_numpy().astype(np.float64)
    if model == AGE:
        features = frame.select("age", "balance").to_numpy()
        logistic = make_pipeline(StandardScaler(), LogisticRegression())
        logistic.fit(features[part == BASE], bought[part == BASE])
        score = logistic.predict_proba(features)[:, 1]
    else:
        score = scores(frame, part == BASE)
    seen = ("poutcome", "job", "housing", "campaign")
    skip = np.full(len(frame), COST)
    arrays = {
        "predictions": np.column_stack([score, skip]),
        "outcomes": np.column_stack([bought, skip]),
        **{f"columns.{name}": frame[name].to_numpy().astype(_plain(frame[name])) for name in seen},
    }
    return take(arrays, part == CALIBRATION), take(arrays, part == TEST)


def _plain(column: pl.Series) -> Any:
    """A type that a file of arrays can hold."""
    return str if column.dtype == pl.String else np.float64


CASE = Case(
    "bank",
    (AGE, TREES),
    outrule.BestAction(),
    spec_of("bank").rules,
    draw,
    ("action", ACTIONS),
)
