"""More coupons: one of four brands of ketchup, crackers or yogurt on a shopping trip; is it bought?

Ecdat Ketchup, Catsup, Cracker and Yogurt: 2,412 to 4,956 trips of 100 to 1,956 households, split by
household.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import outrule
from cases import sources
from cases.case import BASE, CALIBRATION, TEST, Arrays, Case, split, take
from outrule.demos.coupons import Trips

PRICES, HISTORY = "prices only", "trees with history"
# The market leader first, the cheap brand last.
BRANDS = {
    "Ketchup": ("heinz", "hunts", "delmonte", "stb"),
    "Catsup": ("heinz32", "heinz28", "heinz41", "hunts32"),
    "Cracker": ("nabisco", "sunshine", "kleebler", "private"),
    "Yogurt": ("dannon", "yoplait", "weight", "hiland"),
}


def rules(brands: tuple[str, ...]) -> tuple[outrule.Rule, ...]:
    written = {
        "repeat last brand": "prediction + last",
        "repeat last brand unless it is dear": (
            "CASE WHEN price < 1.3 * cheapest_price THEN prediction + last ELSE prediction END"
        ),
        "history share": "prediction + share",
        "cheapest": "prediction + 2 * cheapest",
        "promotion x1.5": "CASE WHEN promotion > 0 THEN 1.5 * prediction ELSE prediction END",
        "chance per dollar": "prediction / price",
        "cheap brand only when cheapest": (
            f"CASE WHEN brand = '{brands[-1]}' AND cheapest = 0 THEN 0 ELSE prediction END"
        ),
        "the market leader first": f"CASE WHEN brand = '{brands[0]}' THEN 2 ELSE prediction END",
    }
    return tuple(outrule.Reweight(name, weight) for name, weight in written.items())


def draw(name: str, model: str, seed: int, _cache: Path) -> tuple[Arrays, Arrays]:
    """Logistic regression on log prices, or boosted trees on all that rules look at."""
    trips, promotion = _read(name)
    part = split(trips.household, seed)
    columns = trips.columns(part == BASE)
    columns["cheapest_price"] = trips.price.min(axis=1)
    if promotion is not None:
        columns["promotion"] = promotion
    features, classifier = np.log(trips.price), _logistic()
    if model == HISTORY:
        seen = (columns["promotion"], columns["last"], columns["share"])
        features = np.column_stack([features, *seen])
        classifier = HistGradientBoostingClassifier(
            max_iter=50, learning_rate=0.05, max_leaf_nodes=8, random_state=0
        )
    classifier.fit(features[part == BASE], trips.bought[part == BASE].argmax(axis=1))
    arrays = {
        "predictions": classifier.predict_proba(features),
        "outcomes": trips.bought,
        "cluster": trips.household,
        **{f"columns.{name}": values for name, values in columns.items()},
    }
    return take(arrays, part == CALIBRATION), take(arrays, part == TEST)


def _logistic() -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))


def _read(name: str) -> tuple[Trips, Any]:
    """The trips, and what was in an advertisement or on display; None where nothing says so."""
    frame, brands = sources.r_table("Ecdat", name), BRANDS[name]
    prefix = f"{name}." if f"{name}.choice" in frame else ""
    household = frame[f"{prefix}hid" if prefix else "id"].to_numpy()
    price = frame[[f"price.{brand}" for brand in brands]].to_numpy(np.float64)
    price = np.where(price > 0, price, np.median(price, axis=0))  # a few are missing
    bought = frame[f"{prefix}choice"].to_numpy()[:, None] == np.array(brands)
    shown = [
        frame[[f"{kind}.{brand}" for brand in brands]].to_numpy(np.float64)
        for kind in ("feat", "disp")
        if f"{kind}.{brands[0]}" in frame
    ]
    promotion = np.maximum.reduce(shown) if shown else None
    return Trips(household, price, bought.astype(np.float64)), promotion


CASES = tuple(
    Case(
        name.lower(),
        (PRICES, HISTORY),
        outrule.BestAction(),
        rules(brands),
        partial(draw, name),
        ("brand", brands),
    )
    for name, brands in BRANDS.items()
)
