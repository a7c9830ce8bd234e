"""Label or escalate: name one of six kinds of land in a satellite image, or ask an expert.

UCI satimage, 6,435 pixels; a wrong label costs 1, the expert 0.15.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB

import outrule
from cases import sources
from cases.case import BASE, CALIBRATION, TEST, Arrays, Case, split, take
from outrule.demos.real import spec_of

PROBLEM = outrule.Rejection(cost=0.15)
BAYES, FOREST = "naive Bayes", "random forest"
LABELS = (
    *("red soil", "cotton", "grey soil", "damp grey soil", "stubble", "very damp grey soil"),
    "ask",
)
RULES = spec_of("escalate").rules


def draw(model: str, seed: int, cache: Path) -> tuple[Arrays, Arrays]:
    """Class probabilities of the base model, and the constant of the reject item."""
    features, label = sources.keel_table("satimage", cache)
    part = split(np.arange(len(label)), seed)
    classifier = GaussianNB() if model == BAYES else RandomForestClassifier(200, random_state=0)
    classifier.fit(features[part == BASE], label[part == BASE])
    arrays = {
        "predictions": PROBLEM.with_reject(classifier.predict_proba(features)),
        "outcomes": PROBLEM.with_reject(np.eye(len(LABELS) - 1)[label]),
    }
    return take(arrays, part == CALIBRATION), take(arrays, part == TEST)


CASE = Case("escalate", (BAYES, FOREST), PROBLEM, RULES, draw, ("label", LABELS))
