"""Synthetic data with known answers: those of the paper's evaluation, and two small examples."""

from outrule.worlds.examples import rejection, two_arms
from outrule.worlds.predictors import LinearPredictor, brief_predictor, converged_predictor, draw
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
