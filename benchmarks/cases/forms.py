"""Form reader: ten handwritten digits on a form, each digit exactly once; which is which?

UCI pen digits, 10,992 images. Item 10 i + j says that image i is the digit j; the value is the
number of images that are read correctly.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import outrule
from cases import sources
from cases.case import BASE, CALIBRATION, TEST, Arrays, Case, split
from outrule.demos.real import spec_of

BAYES, LOGISTIC = "naive Bayes", "logistic regression"
N_DIGITS = 10


RULES = spec_of("forms").rules


def draw(model: str, seed: int, cache: Path) -> tuple[Arrays, Arrays]:
    """Digit probabilities of the base model; images are put on forms at random, each once."""
    features, label = sources.keel_table("penbased", cache)
    part = split(np.arange(len(label)), seed)
    classifier = GaussianNB() if model == BAYES else logistic()
    classifier.fit(features[part == BASE], label[part == BASE])
    predictions = classifier.predict_proba(features)
    calibration, test = (
        {
            "predictions": predictions[forms].reshape(len(forms), -1),
            "outcomes": np.eye(N_DIGITS)[label[forms]].reshape(len(forms), -1),
            "columns.digit_total": digit_totals(predictions[forms]).reshape(len(forms), -1),
        }
        for forms in fill_forms(label, part, seed)
    )
    return calibration, test


def logistic() -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))


def digit_totals(square: NDArray[np.float64]) -> NDArray[np.float64]:
    """What all images of a form have for a digit; of predictions (form, image, digit)."""
    return np.broadcast_to(square.sum(axis=1, keepdims=True), square.shape)


def fill_forms(
    label: NDArray[np.int64], part: NDArray[np.int64], seed: int
) -> Iterator[NDArray[np.int64]]:
    """The images of each form, shape (n, 10), of the calibration part and of the test part."""
    generator = np.random.default_rng([seed, N_DIGITS])
    for images in (np.flatnonzero(part == CALIBRATION), np.flatnonzero(part == TEST)):
        piles = [generator.permutation(images[label[images] == digit]) for digit in range(N_DIGITS)]
        n = min(len(pile) for pile in piles)
        yield generator.permuted(np.column_stack([pile[:n] for pile in piles]), axis=1)


CASE = Case(
    "forms",
    (BAYES, LOGISTIC),
    outrule.Assignment(N_DIGITS, N_DIGITS),
    RULES,
    draw,
    ("digit", [item % N_DIGITS for item in range(N_DIGITS**2)]),
)
