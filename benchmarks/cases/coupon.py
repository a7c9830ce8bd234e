"""Coupon: on each shopping trip, a coupon for one of five brands of tuna; is that brand bought?

13,705 trips of 3,093 households (Ecdat Tuna), split by household.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import outrule
from cases import sources
from cases.case import BASE, CALIBRATION, TEST, Arrays, Case, split, take

BRANDS = ("skw", "cosw", "sko", "coso", "pw")
PRICES, HISTORY = "prices only", "prices and history"

RULES = (
    outrule.Reweight("repeat last brand", "prediction + last"),
    outrule.Reweight(
        "repeat last brand unless it is dear",
        "CASE WHEN above_cheapest < 0.2 THEN prediction + last ELSE prediction END",
    ),
    outrule.Reweight("history share", "prediction + share"),
    outrule.Choose("cheapest", "cheapest = 1"),
    outrule.Reweight(
        "promotion x1.5", "CASE WHEN promotion = 1 THEN 1.5 * prediction ELSE prediction END"
    ),
    outrule.Reweight("chance per dollar", "prediction / price"),
    outrule.Reweight(
        "private label only when cheapest",
        "CASE WHEN item = 4 AND cheapest = 0 THEN 0 ELSE prediction END",
    ),
    outrule.Fixed(0, "always the market leader"),
)


def draw(model: str, seed: int, _cache: Path) -> tuple[Arrays, Arrays]:
    """Multinomial logistic regression on log prices, with or without the household's past."""
    frame = sources.r_table("Ecdat", "Tuna")
    household = frame["Tuna.hid"].to_numpy()
    price = frame[[f"price.{brand}" for brand in BRANDS]].to_numpy()
    bought = (frame["Tuna.choice"].to_numpy()[:, None] == np.array(BRANDS)).astype(float)
    part = split(household, seed)
    base = part == BASE
    last, share = _history(household, bought)
    features = np.log(price)
    if model == HISTORY:
        features = np.column_stack([features, last, share])
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    classifier.fit(features[base], bought[base].argmax(axis=1))
    arrays = {
        "predictions": classifier.predict_proba(features),
        "outcomes": bought,
        "cluster": household,
        "columns.price": price,
        "columns.cheapest": np.eye(len(BRANDS))[price.argmin(axis=1)],
        "columns.above_cheapest": price - price.min(axis=1, keepdims=True),
        "columns.promotion": (price <= 0.85 * np.median(price[base], axis=0)).astype(float),
        "columns.last": last,
        "columns.share": share,
    }
    return take(arrays, part == CALIBRATION), take(arrays, part == TEST)


def _history(
    household: NDArray[np.int64], bought: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The brand of the trip before, and the share of each brand in all trips before; or zeros.

    The table has the trips of a household together, in order.
    """
    first = np.append(True, household[1:] != household[:-1])
    last = np.where(first[:, None], 0.0, np.roll(bought, 1, axis=0))
    start = np.maximum.accumulate(np.where(first, np.arange(len(first)), 0))
    before = np.vstack([np.zeros(bought.shape[1]), np.cumsum(bought, axis=0)])
    counts = before[np.arange(len(first))] - before[start]
    return last, counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)


CASE = Case("coupon", (PRICES, HISTORY), outrule.BestAction(), RULES, draw)
