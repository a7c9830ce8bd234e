"""Graphs too large for a dense matrix: matchings by rustworkx, and how large one can be."""

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
        import rustworkx  # an optional dependency
    except ImportError:
        raise DataError(
            f"a graph of more than {LARGEST_DENSE} nodes is matched by rustworkx, which is not "
            "installed: pip install 'outrule[sparse]', or use GreedyMatching."
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


def _heaviest_edges(
    weights: Floats, u: NDArray[Any], v: NDArray[Any]
) -> dict[tuple[int, int], tuple[int, int]]:
    """The position and integer weight of the heaviest positive edge of every pair of nodes."""
    order = np.argsort(-weights, kind="stable")
    order = order[weights[order] > 0]
    # The exponent of the largest weight, so that scaling by a power of two rounds only small ones.
    shift = SCALE_BITS - int(np.frexp(weights.max(initial=0.0))[1])
    integers = np.rint(np.ldexp(weights[order], shift)).astype(np.int64)
    ends = np.sort(np.column_stack((u[order], v[order])), axis=1)
    edges: dict[tuple[int, int], tuple[int, int]] = {}
    for (a, b), position, weight in zip(
        ends.tolist(), order.tolist(), integers.tolist(), strict=True
    ):
        edges.setdefault((a, b), (position, max(1, weight)))
    return edges


def bound_matching(u: NDArray[Any], v: NDArray[Any], n_nodes: int) -> int:
    """No matching has more edges; the largest of a bipartite graph has as many.

    Half the largest matching of the double cover, in which every node has two copies and every
    edge joins a copy of one kind to one of the other.
    """
    from scipy.sparse import csr_array  # heavy, and only needed here
    from scipy.sparse.csgraph import maximum_bipartite_matching

    ends = np.concatenate((u, v)), np.concatenate((v, u))
    cover = csr_array((np.ones(2 * len(u), dtype=np.bool_), ends), shape=(n_nodes, n_nodes))
    return int((maximum_bipartite_matching(cover) >= 0).sum()) // 2
