"""One large sparse graph, 10,000 nodes and 30,000 edges: exact and greedy, through the public call.

python benchmarks/sparse.py
"""

from __future__ import annotations

import time

import numpy as np

import outrule


def main() -> None:
    generator = np.random.default_rng(0)
    edges = generator.integers(0, 10_000, (30_100, 2))
    edges = edges[edges[:, 0] != edges[:, 1]][:30_000]
    weights = generator.random((1, len(edges)))
    for problem in (outrule.GreedyMatching(edges), outrule.Matching(edges)):
        if isinstance(problem, outrule.GreedyMatching):
            problem.solve(weights)  # compiles
        start = time.perf_counter()
        value = (weights * problem.solve(weights)).sum()
        name, taken = type(problem).__name__, time.perf_counter() - start
        print(f"{name}: value {value:.1f} in {taken:.4f} s", flush=True)


if __name__ == "__main__":
    main()
