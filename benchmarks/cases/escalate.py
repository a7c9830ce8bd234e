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

PROBLEM = outrule.Rejection(cost=0.15)
BAYES, FOREST = "naive Bayes", "random forest"
DAMP, REJECT = 3, 6  # damp grey soil, which is taken for grey and for very damp grey soil
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 0.999999, 0.999999999)

RULES = (
    *(
        outrule.Reweight(
            f"escalate below {threshold}",
            f"CASE WHEN item = {REJECT} THEN {threshold} ELSE prediction END",
        )
        for threshold in THRESHOLDS
    ),
    outrule.Reweight("never escalate", f"CASE WHEN item = {REJECT} THEN 0 ELSE prediction END"),
    outrule.Reweight(
        "doubt damp grey soil", f"CASE WHEN item = {DAMP} THEN 0.8 * prediction ELSE prediction END"
    ),
    outrule.Fixed(REJECT, "always escalate"),
)


def draw(model: str, seed: int, cache: Path) -> tuple[Arrays, Arrays]:
    """Class probabilities of the base model, and the constant of the reject item."""
    features, label = sources.keel_table("satimage", cache)
    part = split(np.arange(len(label)), seed)
    classifier = GaussianNB() if model == BAYES else RandomForestClassifier(200, random_state=0)
    classifier.fit(features[part == BASE], label[part == BASE])
    arrays = {
        "predictions": PROBLEM.with_reject(classifier.predict_proba(features)),
        "outcomes": PROBLEM.with_reject(np.eye(REJECT)[label]),
    }
    return take(arrays, part == CALIBRATION), take(arrays, part == TEST)


CASE = Case("escalate", (BAYES, FOREST), PROBLEM, RULES, draw)
