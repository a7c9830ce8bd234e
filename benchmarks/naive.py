"""What a competent user would write with NumPy (and rustworkx for matchings): the peer to beat.

Plain loops over rules, everything else vectorised; same algorithm (Reuse, line search), same
tolerance, same order of tests.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def best_action(weights: np.ndarray) -> np.ndarray:
    """Marks (n, m) of the largest weight."""
    marks = np.zeros(weights.shape, dtype=bool)
    marks[np.arange(len(weights)), weights.argmax(axis=1)] = True
    return marks


class RustworkxMatching:
    """Maximum-weight matchings with one graph whose weights are exchanged for every instance."""

    def __init__(self, n_nodes: int):
        import rustworkx

        self.edges = [(i, j) for i in range(n_nodes) for j in range(i + 1, n_nodes)]
        self.number = {edge: e for e, edge in enumerate(self.edges)}
        self.graph = rustworkx.PyGraph()
        self.graph.add_nodes_from(range(n_nodes))
        self.graph.add_edges_from([(i, j, e) for e, (i, j) in enumerate(self.edges)])
        self.match = rustworkx.max_weight_matching

    def solve_one(self, weights: list[int]) -> list[int]:
        """The edges of one matching; rustworkx takes integer weights only."""
        chosen = self.match(self.graph, weight_fn=weights.__getitem__)
        return [self.number[min(i, j), max(i, j)] for i, j in chosen]

    def __call__(self, weights: np.ndarray) -> np.ndarray:
        marks = np.zeros(weights.shape, dtype=bool)
        for row, ints in zip(marks, np.rint(weights * 2.0**40).astype(np.int64), strict=True):
            row[self.solve_one(ints.tolist())] = True
        return marks & (weights > 0)


def fit(
    solve: Callable[[np.ndarray], np.ndarray],
    multipliers: np.ndarray,
    predictions: np.ndarray,
    outcomes: np.ndarray,
    epsilon: float,
    max_rounds: int | None = None,
) -> tuple[np.ndarray, int]:
    """Calibrated predictions and the number of patches."""
    tolerance, n = epsilon / 2, len(predictions)
    # The decisions of the rules as flat indices of chosen entries, computed once.
    chosen = [np.flatnonzero(solve(predictions * vector)) for vector in multipliers]
    p, rounds = predictions.copy(), 0
    while max_rounds is None or rounds < max_rounds:
        residual = (outcomes - p).ravel()
        own = np.flatnonzero(solve(p))
        violations = np.array([residual[marks].sum() for marks in [*chosen, own]]) / n
        worst = int(np.abs(violations).argmax())
        if abs(violations[worst]) <= tolerance:
            break
        marks = own if worst == len(chosen) else chosen[worst]
        flat = p.reshape(-1)
        flat[marks] = np.clip(flat[marks] + violations[worst] * n / len(marks), 0, 1)
        rounds += 1
    return p, rounds
