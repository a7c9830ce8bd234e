"""Advice to a few hundred people: how to fish, to commute, to heat; is it what they choose?

Ecdat Fishing (1,182 anglers), Mode (453 commuters) and Heating (900 houses): small data.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import outrule
from cases import sources
from cases.case import BASE, CALIBRATION, TEST, Arrays, Case, split, take

COST, ALL = "cost only", "all columns"


class Kind(NamedTuple):
    """The column of what was chosen; items; the columns per item, and per person."""

    chosen: str
    items: tuple[str, ...]
    per_item: dict[str, str]
    per_person: tuple[str, ...]
    rules: dict[str, str]


KINDS = {
    "Fishing": Kind(
        "mode",
        ("beach", "pier", "boat", "charter"),
        {"cost": "p{}", "good": "c{}"},
        ("income",),
        {
            "largest catch": "good",
            "catch per dollar": "good / cost",
            "a boat for the rich": (
                "CASE WHEN mode IN ('boat', 'charter') AND income > 4000 THEN 2 * prediction "
                "ELSE prediction END"
            ),
            "the charter when it is cheap": (
                "CASE WHEN mode = 'charter' AND cost < 60 THEN 1 ELSE prediction END"
            ),
        },
    ),
    "Mode": Kind(
        "choice",
        ("car", "carpool", "bus", "rail"),
        {"cost": "cost.{}", "time": "time.{}"},
        (),
        {
            "fastest": "-time",
            "an hour is worth ten dollars": "-cost - time / 6",
            "rail unless it is slow": (
                "CASE WHEN choice = 'rail' AND time < 45 THEN 1.5 * prediction ELSE prediction END"
            ),
            "never carpool": "CASE WHEN choice = 'carpool' THEN 0 ELSE prediction END",
        },
    ),
    "Heating": Kind(
        "depvar",
        ("gc", "gr", "ec", "er", "hp"),
        {"cost": "ic.{}", "later": "oc.{}"},
        ("income", "agehed", "rooms"),
        {
            "cheapest over ten years": "-cost - 10 * later",
            "gas": "CASE WHEN depvar = 'gc' THEN 1 ELSE prediction END",
            "rooms by themselves in small houses": (
                "CASE WHEN depvar IN ('gr', 'er') AND rooms < 4 THEN 1.5 * prediction "
                "ELSE prediction END"
            ),
            "a heat pump for the rich": (
                "CASE WHEN depvar = 'hp' AND income > 6 THEN 3 * prediction ELSE prediction END"
            ),
        },
    ),
}


def draw(name: str, model: str, seed: int, _cache: Path) -> tuple[Arrays, Arrays]:
    """Logistic regression on the cost of each item, or on all columns."""
    kind, frame = KINDS[name], sources.r_table("Ecdat", name)
    part = split(np.arange(len(frame)), seed)
    columns = {
        column: frame[[pattern.format(item) for item in kind.items]].to_numpy(np.float64)
        for column, pattern in kind.per_item.items()
    }
    person = {column: frame[column].to_numpy(np.float64) for column in kind.per_person}
    features = columns["cost"]
    if model == ALL:
        features = np.column_stack([*columns.values(), *person.values()])
    outcomes = (frame[kind.chosen].to_numpy()[:, None] == np.array(kind.items)).astype(np.float64)
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    classifier.fit(features[part == BASE], outcomes[part == BASE].argmax(axis=1))
    arrays = {
        "predictions": classifier.predict_proba(features),
        "outcomes": outcomes,
        **{f"columns.{column}": values for column, values in (columns | person).items()},
    }
    return take(arrays, part == CALIBRATION), take(arrays, part == TEST)


def _rules(kind: Kind) -> tuple[outrule.Rule, ...]:
    written = {"cheapest": "-cost", "chance per dollar": "prediction / cost", **kind.rules}
    return tuple(outrule.Reweight(name, weight) for name, weight in written.items())


CASES = tuple(
    Case(
        name.lower(),
        (COST, ALL),
        outrule.BestAction(),
        _rules(kind),
        partial(draw, name),
        (kind.chosen, kind.items),
    )
    for name, kind in KINDS.items()
)
