"""Coupon: on each shopping trip, a coupon for one of five brands of tuna; is that brand bought?

13,705 trips of 3,093 households (Ecdat Tuna), split by household.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import outrule
from cases.case import BASE, CALIBRATION, TEST, Arrays, Case, split, take
from outrule.demos.coupons import BRANDS, Trips
from outrule.demos.real import spec_of

PRICES, HISTORY = "prices only", "prices and history"
RULES = spec_of("coupons").rules


def draw(model: str, seed: int, _cache: Path) -> tuple[Arrays, Arrays]:
    """Multinomial logistic regression on log prices, with or without the household's past."""
    trips = Trips.read()
    part = split(trips.household, seed)
    columns = trips.columns(part == BASE)
    features = np.log(trips.price)
    if model == HISTORY:
        features = np.column_stack([features, columns["last"], columns["share"]])
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    classifier.fit(features[part == BASE], trips.bought[part == BASE].argmax(axis=1))
    arrays = {
        "predictions": classifier.predict_proba(features),
        "outcomes": trips.bought,
        "cluster": trips.household,
        **{f"columns.{name}": values for name, values in columns.items()},
    }
    return take(arrays, part == CALIBRATION), take(arrays, part == TEST)


CASE = Case("coupon", (PRICES, HISTORY), outrule.BestAction(), RULES, draw, ("brand", BRANDS))
