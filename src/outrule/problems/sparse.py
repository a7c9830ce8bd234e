"""Matchings in graphs too large for a dense matrix, one by one, through rustworkx."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from outrule.errors import DataError
from outrule.problems.contract import Layout
from outrule.types import Floats, Picks

LARGEST_DENSE = 1_000  # nodes; above, n * n integers cost more than they help
SCALE_BITS = 40  # rustworkx takes integers


def match_sparse(weights: Floats, layout: Layout, which: NDArray[np.int64], picks: Picks) -> None:
    """Match the instances ``which``; of parallel edges the heaviest counts, the first on ties."""
    try:
        import rustworkx
    except ImportError:
        raise DataError(
            f"a graph of more than {LARGEST_DENSE} nodes is matched by rustworkx, which is not "
            "installed: pip install 'outrule[sparse]', or take GreedyMatching."
        ) from None
    u, v = layout.column("u"), layout.column("v")
    for i in which.tolist():
        span = slice(int(layout.offsets[i]), int(layout.offsets[i + 1]))
        edges = _heaviest_edges(weights[span], u[span], v[span])
        graph = rustworkx.PyGraph(multigraph=False)
        graph.add_nodes_from(range(int(layout.per_instance["n_nodes"][i])))
        graph.add_edges_from([(*pair, weight) for pair, (_, weight) in edges.items()])
        chosen = rustworkx.max_weight_matching(graph, weight_fn=int)
        positions = sorted(edges[min(pair), max(pair)][0] for pair in chosen)
        picks[i, : len(positions)] = positions
        picks[i, len(positions) :] = -1


def _heaviest_edges(
    weights: Floats, u: NDArray[Any], v: NDArray[Any]
) -> dict[tuple[int, int], tuple[int, int]]:
    """The position and integer weight of the heaviest positive edge of every pair of nodes."""
    positive = np.flatnonzero(weights > 0)
    if not len(positive):
        return {}
    # The exponent of the largest weight, so that scaling by a power of two rounds only small ones.
    shift = SCALE_BITS - int(np.frexp(weights[positive].max())[1])
    integers = np.rint(np.ldexp(weights[positive], shift)).astype(np.int64)
    edges: dict[tuple[int, int], tuple[int, int]] = {}
    order = positive[np.lexsort((positive, -weights[positive]))]
    scaled = dict(zip(positive.tolist(), integers.tolist(), strict=True))
    for position in order.tolist():
        ends = int(u[position]), int(v[position])
        edges.setdefault((min(ends), max(ends)), (position, max(1, scaled[position])))
    return edges
