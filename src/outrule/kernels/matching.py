"""Exact maximum-weight matching of a batch of graphs."""

import numpy as np

from outrule.kernels.blossom import blossom_chunk, new_scratch
from outrule.kernels.matching_dp import subset_dense, subset_plan, subset_ragged
from outrule.kernels.picking import frozen
from outrule.types import Floats, Integers, Positions

# Up to here the subset recursion is faster than the blossom search (both measured on full graphs).
LARGEST_SUBSET_PLAN = 18


def match_dense(
    weights: Floats, scale: Floats, u: Positions, v: Positions, n_nodes: int, picks: Positions
) -> None:
    """Match every row of weights * scale; item k of every row is the edge (u[k], v[k]).

    `picks` (n, n_nodes // 2) receives the chosen items in ascending order, then -1. Items of
    weight <= 0 and loops are never chosen; of parallel items the heaviest is, the first on ties.
    """
    n, m = weights.shape
    starts = np.arange(n + 1, dtype=np.int64) * m
    if n == 0 or m == 0 or n_nodes < 2:
        picks[:] = -1
    elif n_nodes <= LARGEST_SUBSET_PLAN:
        edges = np.minimum(u, v) * np.int64(n_nodes) + np.maximum(u, v)
        if len(np.unique(edges)) < m:  # parallel edges are rare
            with np.errstate(all="ignore"):
                flat, nodes = (weights * scale).ravel(), np.full(n, n_nodes, dtype=np.int64)
            match_ragged(flat, starts, np.tile(u, n), np.tile(v, n), nodes, picks)
            return
        plan = subset_plan(n_nodes)
        subset_dense(frozen(weights), frozen(scale), frozen(u), frozen(v), plan, picks)
    else:
        starts, edge_starts = starts[:-1], np.zeros(n, dtype=np.int64)
        counts, every = np.full(n, m, dtype=np.int64), np.arange(n, dtype=np.int64)
        shape = (starts, edge_starts, counts)
        _match_large(weights.reshape(-1), scale, u, v, shape, every, n_nodes, picks)


def match_ragged(
    weights: Floats,
    offsets: Integers,
    u: Positions,
    v: Positions,
    n_nodes: Integers,
    picks: Positions,
) -> None:
    """As match_dense for instances of different graphs.

    The items of instance i are offsets[i] .. offsets[i + 1] - 1; their ends and the picks count
    from 0 within the instance.
    """
    counts = np.diff(offsets)
    sizes = np.maximum(2, n_nodes + n_nodes % 2)
    sizes[(counts == 0) | (n_nodes < 2)] = 0
    picks[sizes == 0] = -1
    for size in np.unique(sizes[sizes > 0]).tolist():
        which = np.flatnonzero(sizes == size)
        if size <= LARGEST_SUBSET_PLAN:
            plan = subset_plan(size)
            shared = frozen(weights), frozen(offsets), frozen(u), frozen(v)
            subset_ragged(*shared, frozen(which), plan, picks)
        else:
            scale = np.ones(counts[which].max())
            starts = np.ascontiguousarray(offsets[:-1])
            _match_large(weights, scale, u, v, (starts, starts, counts), which, size, picks)


def _match_large(
    weights: Floats,
    scale: Floats,
    u: Positions,
    v: Positions,
    shape: tuple[Integers, Integers, Integers],
    which: Integers,
    n_nodes: int,
    picks: Positions,
) -> None:
    scratch = new_scratch(n_nodes + n_nodes % 2)
    inputs = frozen(weights), frozen(scale), frozen(u), frozen(v)
    starts, edge_starts, counts = map(frozen, shape)
    blossom_chunk(scratch, *inputs, starts, edge_starts, counts, frozen(which), picks)
