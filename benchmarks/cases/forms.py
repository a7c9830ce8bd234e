"""Form reader: ten handwritten digits on a form, each digit exactly once; which is which?

UCI pen digits, 10,992 images. Item 10 i + j says that image i is the digit j; the value is the
number of images that are read correctly.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import outrule
from cases import sources
from cases.case import BASE, CALIBRATION, TEST, Arrays, Case, split

BAYES, LOGISTIC = "naive Bayes", "logistic regression"
N_DIGITS = 10


def digit_share(view: outrule.View) -> NDArray[np.float64]:
    """Each prediction as a share of what all images of the form have for that digit."""
    square = view.predictions.reshape(-1, N_DIGITS, N_DIGITS)
    return (square / np.maximum(square.sum(axis=1, keepdims=True), 1e-300)).reshape(-1, N_DIGITS**2)


def _discount(*digits: int) -> list[float]:
    return [0.8 if item % N_DIGITS in digits else 1.0 for item in range(N_DIGITS**2)]


RULES = (
    *(
        outrule.Reweight(f"prediction to the power {power}", f"POWER(prediction, {power})")
        for power in (0.05, 0.1, 0.25, 0.5, 2)
    ),
    *(
        outrule.Reweight(
            f"likelihood, at least 1e-{zeros}",
            f"1.01 + LN(GREATEST(prediction, 1e-{zeros})) / {zeros * np.log(10):.4f}",
        )
        for zeros in (2, 6, 12)
    ),
    outrule.Reweight("share of the digit", digit_share),
    outrule.Reweight("only above 0.5", "CASE WHEN prediction > 0.5 THEN 1 ELSE prediction END"),
    outrule.Multiplier(_discount(1, 7), "discount 1 and 7"),
    outrule.Multiplier(_discount(5, 8, 9), "discount 5, 8 and 9"),
)


def draw(model: str, seed: int, cache: Path) -> tuple[Arrays, Arrays]:
    """Digit probabilities of the base model; images are put on forms at random, each once."""
    features, label = sources.keel_table("penbased", cache)
    part = split(np.arange(len(label)), seed)
    classifier = (
        GaussianNB()
        if model == BAYES
        else make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    )
    classifier.fit(features[part == BASE], label[part == BASE])
    predictions = classifier.predict_proba(features)
    generator = np.random.default_rng([seed, N_DIGITS])
    calibration, test = np.flatnonzero(part == CALIBRATION), np.flatnonzero(part == TEST)
    return (
        _fill_forms(predictions, label, calibration, generator),
        _fill_forms(predictions, label, test, generator),
    )


def _fill_forms(
    predictions: NDArray[np.float64],
    label: NDArray[np.int64],
    images: NDArray[np.int64],
    generator: np.random.Generator,
) -> Arrays:
    piles = [generator.permutation(images[label[images] == digit]) for digit in range(N_DIGITS)]
    n = min(len(pile) for pile in piles)
    forms = generator.permuted(np.column_stack([pile[:n] for pile in piles]), axis=1)
    return {
        "predictions": predictions[forms].reshape(n, -1),
        "outcomes": np.eye(N_DIGITS)[label[forms]].reshape(n, -1),
    }


CASE = Case("forms", (BAYES, LOGISTIC), outrule.Assignment(N_DIGITS, N_DIGITS), RULES, draw)
