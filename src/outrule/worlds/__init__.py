"""Synthetic worlds with known answers: seeds enter, predictions and outcomes in [0, 1] leave."""

from outrule.worlds.examples import rejection, two_arms
from outrule.worlds.predictors import (
    LinearPredictor,
    brief_predictor,
    converged_predictor,
    draw,
)
from outrule.worlds.quadratic import Quadratic

__all__ = [
    "LinearPredictor",
    "Quadratic",
    "brief_predictor",
    "converged_predictor",
    "draw",
    "rejection",
    "two_arms",
]
