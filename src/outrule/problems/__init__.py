"""The problems: which sets of items are feasible, and the optimiser over them."""

from outrule.problems.contract import Layout, Problem
from outrule.problems.given import LinearProblem, Matroid, Oracle
from outrule.problems.matchings import Assignment, GreedyMatching, Matching
from outrule.problems.matroids import (
    GraphicMatroid,
    LaminarMatroid,
    LinearMatroid,
    PartitionMatroid,
    TopK,
    TransversalMatroid,
)
from outrule.problems.one_item import BestAction, Classification, Rejection

__all__ = [
    "Assignment",
    "BestAction",
    "Classification",
    "GraphicMatroid",
    "GreedyMatching",
    "LaminarMatroid",
    "Layout",
    "LinearMatroid",
    "LinearProblem",
    "Matching",
    "Matroid",
    "Oracle",
    "PartitionMatroid",
    "Problem",
    "Rejection",
    "TopK",
    "TransversalMatroid",
]
