"""Synthetic data with known answers: those of the paper's evaluation, and small examples."""

from outrule.worlds.examples import rejection, six_cities, two_arms
from outrule.worlds.predictors import LinearPredictor, brief_predictor, converged_predictor, draw
from outrule.worlds.quadratic import Quadratic

__all__ = [
    "LinearPredictor",
    "Quadratic",
    "brief_predictor",
    "converged_predictor",
    "draw",
    "rejection",
    "six_cities",
    "two_arms",
]
