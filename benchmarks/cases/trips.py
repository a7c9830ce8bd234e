"""A synthetic world in which a rule by hand is nearly right: nothing is left to learn but noise.

Five drivers for a trip; the score does not know that long pickups are often cancelled, and a rule
does. Every seed is another draw: 500 or 2,000 trips to calibrate on, 20,000 to test.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import outrule
from cases.case import Arrays, Case

N_DRIVERS, N_TEST = 5, 20_000
SIZES = {"500 trips": 500, "2,000 trips": 2000}
RULES = (
    outrule.Reweight(
        "no long pickups", "CASE WHEN pickup_km > 3 THEN 0.5 * prediction ELSE prediction END"
    ),
    outrule.Reweight("the closest", "1 / (1 + pickup_km)"),
)


def draw(size: str, seed: int, _cache: Path) -> tuple[Arrays, Arrays]:
    """The trips to calibrate on and those to test, which are the same for both sizes."""
    return _trips([seed, 0], SIZES[size]), _trips([seed, 1], N_TEST)


def _trips(seed: list[int], n: int) -> Arrays:
    generator, shape = np.random.default_rng(seed), (n, N_DRIVERS)
    km, quality = generator.gamma(2.0, 1.5, shape), generator.random(shape)
    chance = quality * np.where(km > 3, 0.3, 0.9)
    score = np.clip(quality + generator.normal(0, 0.05, shape), 0, 1)
    outcomes = (generator.random(shape) < chance).astype(float)
    return {"predictions": score, "outcomes": outcomes, "columns.pickup_km": km}


CASE = Case("trips", tuple(SIZES), outrule.BestAction(), RULES, draw)
