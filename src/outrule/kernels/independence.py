"""Greedy bases of transversal and linear matroids, whose independence takes an augmentation."""

from __future__ import annotations

from typing import Any

import numpy as np

from outrule.kernels.compiling import njit
from outrule.types import Floats, Integers, Positions


@njit(nogil=True, cache=True)
def heaviest_first(weights: Floats) -> Integers:
    """Positions of positive weights, heaviest first, the first of equals first."""
    order = np.argsort(-weights, kind="mergesort")
    n_positive = 0
    while n_positive < len(order) and weights[order[n_positive]] > 0:
        n_positive += 1
    return order[:n_positive]


@njit(nogil=True, cache=True)
def transversal_ragged(
    weights: Floats,
    offsets: Integers,
    item: Positions,
    set_offsets: Integers,
    sets: Positions,
    n_sets: int,
    picks: Positions,
) -> None:
    """Greedy over items that can still be given distinct sets.

    The sets that hold item e are ``sets[set_offsets[e]:set_offsets[e + 1]]``.
    """
    holder = np.empty(n_sets, np.int64)  # which position a set is given to
    came_from = np.empty(n_sets, np.int64)  # the position from which a set was reached
    reached = np.empty(n_sets, np.bool_)
    queue = np.empty(n_sets + 1, np.int64)
    for i in range(len(offsets) - 1):
        start = offsets[i]
        holder[:] = -1
        for position in heaviest_first(weights[start : offsets[i + 1]]):
            reached[:] = False
            queue[0] = position
            head, tail, free = 0, 1, -1
            while head < tail and free < 0:  # breadth first over alternating paths
                here = queue[head]
                head += 1
                e = item[start + here]
                for s in sets[set_offsets[e] : set_offsets[e + 1]]:
                    if reached[s]:
                        continue
                    reached[s] = True
                    came_from[s] = here
                    if holder[s] < 0:
                        free = s
                        break
                    queue[tail] = holder[s]
                    tail += 1
            while free >= 0:  # hand sets on along the path, back to the new item
                here = came_from[free]
                previous = -1
                for s in range(n_sets):
                    if holder[s] == here:
                        previous = s
                holder[free] = here
                free = previous if here != position else -1
        _write(np.sort(holder[holder >= 0]), picks[i])


@njit(nogil=True, cache=True)
def linear_ragged(
    weights: Floats,
    offsets: Integers,
    item: Positions,
    vectors: Floats,
    tolerance: float,
    picks: Positions,
) -> None:
    """Greedy over items whose vectors, ``vectors[e]``, are linearly independent over the reals."""
    # Rounding can make more vectors look independent than others of them did.
    most = min(vectors.shape[1], picks.shape[1])
    basis = np.empty((most, vectors.shape[1]))
    pivots = np.empty(most, np.int64)
    for i in range(len(offsets) - 1):
        start, rank = offsets[i], 0
        chosen = np.empty(most, np.int64)
        for position in heaviest_first(weights[start : offsets[i + 1]]):
            if rank == most:
                break
            rest = vectors[item[start + position]].copy()
            limit = tolerance * np.abs(rest).max()
            for b in range(rank):
                rest -= rest[pivots[b]] * basis[b]
            pivot = np.argmax(np.abs(rest))
            if np.abs(rest[pivot]) > limit:
                basis[rank] = rest / rest[pivot]
                pivots[rank] = pivot
                chosen[rank] = position
                rank += 1
        _write(np.sort(chosen[:rank]), picks[i])


@njit(nogil=True, cache=True)
def _write(positions: Integers, row: Positions) -> Any:
    row[: len(positions)] = positions
    row[len(positions) :] = -1
