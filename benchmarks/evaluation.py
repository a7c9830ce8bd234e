"""How long the matchings of the committed evaluation would take elsewhere, from measured rates.

python benchmarks/evaluation.py
"""

from __future__ import annotations

import time
from pathlib import Path

import naive
import networkx
import numpy as np
import polars as pl

from outrule import worlds

FOLDER = Path(__file__).parents[1] / "docs" / "evaluation"
N_NODES = 10


def networkx_matching(weights: np.ndarray, edges: list[tuple[int, int]]) -> None:
    graph = networkx.Graph()
    graph.add_weighted_edges_from((*edge, w) for edge, w in zip(edges, weights, strict=True))
    networkx.max_weight_matching(graph)


def main() -> None:
    world = worlds.Quadratic(45, seed=0)
    predictions, _ = worlds.draw(world, worlds.converged_predictor(world), 20_000, seed=0)
    peer = naive.RustworkxMatching(N_NODES)
    start = time.perf_counter()
    peer(predictions)
    rates = {"rustworkx": (time.perf_counter() - start) / len(predictions)}
    start = time.perf_counter()
    for row in predictions[:500]:
        networkx_matching(row, peer.edges)
    rates["networkx"] = (time.perf_counter() - start) / 500
    units = pl.read_parquet(FOLDER / "units.parquet").filter(pl.col("problem") == "matching")
    for (regime,), some in units.group_by("regime", maintain_order=True):
        n, seconds = some["n_solved"].sum(), some["seconds"].sum()
        print(f"{regime}: {n:,} matchings; ours with everything around them {seconds / 60:.0f} min")
        for name, rate in rates.items():
            hours = rate * n / 3600
            words = f"{rate * 1e6:.0f} us each on one core: {hours:,.0f} hours"
            print(f"  {name} {words}, {rate * n / seconds:,.0f} times as long")


if __name__ == "__main__":
    main()
