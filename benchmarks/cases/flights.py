"""Flight desk: which carrier to book for a day, a part of the day and a destination?

Flights from New York City in 2013 (nycflights13). The items are the carriers that fly there then,
of the ten largest, where there are at least two; the outcome is the share of their flights that
arrive at most 15 minutes late (cancelled and diverted flights do not). Split by day.
"""

from __future__ import annotations

from functools import cache as keep
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import outrule
from cases import sources
from cases.case import BASE, CALIBRATION, TEST, Arrays, Case, split, take
from outrule.demos.real import spec_of

SPRING, YEAR = "January to April", "whole year"
N_CARRIERS = 10
LATE = 15  # minutes
BLOCKS = (12, 18)  # hours at which the afternoon and the evening begin
PRIOR = 20  # flights that a carrier's own mean counts for in its history at a destination
FEATURES = ["code", "block", "place"]
CARRIERS = ("UA", "B6", "EV", "DL", "AA", "MQ", "US", "9E", "WN", "VX")  # by number of flights

RULES = spec_of("flights").rules


def draw(model: str, seed: int, _cache: Path) -> tuple[Arrays, Arrays]:
    """Crude: additive, from base days up to April. Good: boosted trees, from all base days."""
    offers = carrier_offers()
    part = split(offers["day"], seed)
    base = part == BASE
    if model == SPRING:
        prediction = additive_scores(offers, base & (offers["month"] <= 4).to_numpy())
    else:
        features = offers[[*FEATURES, "month", "weekday", "flights"]]
        trees = HistGradientBoostingRegressor(
            max_iter=150, learning_rate=0.05, categorical_features=FEATURES, random_state=0
        )
        trees.fit(features[base], offers["on_time"][base], sample_weight=offers["flights"][base])
        prediction = np.clip(trees.predict(features), 0, 1)
    arrays, context_part = _wide(offers, prediction, base, part)
    return take(arrays, context_part == CALIBRATION), take(arrays, context_part == TEST)


def additive_scores(offers: Any, fitted: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The share on time by carrier, part of the day and destination, of the fitted rows."""
    ridge = make_pipeline(OneHotEncoder(handle_unknown="ignore"), Ridge(10.0))
    ridge.fit(
        offers[FEATURES][fitted],
        offers["on_time"][fitted],
        ridge__sample_weight=offers["flights"][fitted],
    )
    return np.clip(ridge.predict(offers[FEATURES]), 0, 1)


def _flights() -> Any:
    flights = sources.r_table("nycflights13", "flights")
    return flights[flights["carrier"].isin(CARRIERS)]


def destinations() -> NDArray[np.str_]:
    """The airports, by their code in the column place."""
    return np.unique(_flights()["dest"]).astype(str)


@keep
def carrier_offers() -> Any:
    """One row for each carrier in each context: how many flights, and the share on time."""
    flights = _flights()
    date = pd.to_datetime(flights[["year", "month", "day"]])
    rows = pd.DataFrame(
        {
            "day": date.dt.dayofyear,
            "block": np.digitize(flights["hour"], BLOCKS),
            "place": np.unique(flights["dest"], return_inverse=True)[1],
            "code": flights["carrier"].map({name: i for i, name in enumerate(CARRIERS)}),
            "month": flights["month"],
            "weekday": date.dt.weekday,
            "on_time": (flights["arr_delay"] <= LATE).astype(float),  # missing: not on time
        }
    )
    keys = ["day", "block", "place"]
    offers = rows.groupby([*keys, "code", "month", "weekday"], as_index=False).agg(
        flights=("on_time", "size"), on_time=("on_time", "mean")
    )
    offers["context"] = offers.groupby(keys).ngroup()
    several = offers.groupby("context")["code"].transform("size") >= 2
    offers = offers[several].reset_index(drop=True)
    offers["context"] = np.unique(offers["context"], return_inverse=True)[1]
    return offers


def _wide(
    offers: Any, prediction: NDArray[np.float64], base: NDArray[np.bool_], part: NDArray[np.int64]
) -> tuple[Arrays, NDArray[np.int64]]:
    """Arrays with one row per context and one column per carrier, and the part of every context."""
    context, code = offers["context"].to_numpy(), offers["code"].to_numpy()
    n = int(context.max()) + 1
    first = np.unique(context, return_index=True)[1]

    def spread(values: Any) -> NDArray[np.float64]:
        wide = np.zeros((n, N_CARRIERS))
        wide[context, code] = values
        return wide

    there, overall = histories(offers, base)
    arrays = {
        "predictions": spread(prediction),
        "outcomes": spread(offers["on_time"]),
        "available": spread(1.0) > 0,
        "cluster": offers["day"].to_numpy()[first],
        "columns.history": spread(there),
        "columns.carrier_history": spread(overall),
        "columns.flights": spread(offers["flights"]),
        "columns.month": offers["month"].to_numpy()[first],
    }
    return arrays, part[first]


def histories(
    offers: Any, base: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """On base days, the share on time of each row's carrier at its destination, and overall."""
    code, place = offers["code"].to_numpy(), offers["place"].to_numpy()
    flights = offers["flights"].to_numpy() * base
    good = flights * offers["on_time"].to_numpy()
    overall = np.bincount(code, good, N_CARRIERS) / np.bincount(code, flights, N_CARRIERS)
    pair = code * (place.max() + 1) + place
    there = np.bincount(pair, good)[pair] + PRIOR * overall[code]
    return there / (np.bincount(pair, flights)[pair] + PRIOR), overall[code]


CASE = Case("flights", (SPRING, YEAR), outrule.BestAction(), RULES, draw, ("carrier", CARRIERS))
