"""How many items the decisions of every rule share with one decision per instance."""

from __future__ import annotations

import numpy as np

from outrule.kernels.compiling import njit
from outrule.kernels.picking import longest
from outrule.types import Integers, Small

# Instances whose own decision stays in cache while all rules are compared with it.
COMPARE_BLOCK = 8192
BITS = 63


@njit(nogil=True, cache=True)
def overlap_single(picks: Small, own: Small, shared: Integers) -> None:
    """Add to shared[r] how often picks[r, 0, i] equals own[0, i]."""
    n_rules, _, n = picks.shape
    for first in range(0, n, COMPARE_BLOCK):
        mine = own[0, first : first + COMPARE_BLOCK]
        for r in range(n_rules):
            theirs = picks[r, 0, first : first + COMPARE_BLOCK]
            count = np.uint16(0)  # enough for a block, and short, so that a vector holds many
            for i in range(mine.size):
                count = np.uint16(count + (theirs[i] == mine[i]))
            shared[r] += np.int64(count)


@njit(nogil=True, cache=True)
def overlap_masks(picks: Small, own: Small, shared: Integers) -> None:
    """The same for sets of fewer than BITS items on offer: own decisions become masks of bits.

    A place without a pick holds the largest number of its type, which reads as bit 63: never set.
    """
    n_rules, k, n = picks.shape
    masks = np.zeros(n, dtype=np.uint64)
    for j in range(k):
        for i in range(n):
            masks[i] |= np.uint64(1) << (np.uint64(own[j, i]) & np.uint64(63))
    masks &= ~(np.uint64(1) << np.uint64(63))
    for block in range(0, n, COMPARE_BLOCK // 2):
        end = min(block + COMPARE_BLOCK // 2, n)
        mine = masks[block:end]
        for r in range(n_rules):
            total = np.uint64(0)
            for j in range(k):
                chosen = picks[r, j, block:end]
                for i in range(end - block):
                    total += (mine[i] >> (np.uint64(chosen[i]) & np.uint64(63))) & np.uint64(1)
            shared[r] += np.int64(total)


@njit(nogil=True, cache=True)
def overlap_sets(
    picks: Small,
    before: Small | None,
    own: Small,
    offsets: Integers,
    changed: Integers,
    shared: Integers,
) -> None:
    """The same for sets of any number of items, in the instances ``changed``.

    With decisions ``before``, it is by how much more items these share than those.
    """
    n_rules, k, _ = picks.shape
    marks = np.zeros(longest(offsets) + 1, dtype=np.int64)
    for i in changed:
        size = offsets[i + 1] - offsets[i]
        for j in range(k):
            if before is not None and before[j, i] < size:
                marks[before[j, i]] -= 1
            if own[j, i] < size:
                marks[own[j, i]] += 1
        for r in range(n_rules):
            for j in range(k):
                if picks[r, j, i] >= size:
                    break
                shared[r] += marks[picks[r, j, i]]
        for j in range(k):
            if before is not None and before[j, i] < size:
                marks[before[j, i]] = 0
            if own[j, i] < size:
                marks[own[j, i]] = 0


@njit(nogil=True, cache=True)
def add_at_items(picks: Small, rows: Integers, sums: Integers) -> None:
    """For rows (instance, position, amount): add it to every rule that picks that position."""
    n_rules, k, _ = picks.shape
    for r in range(n_rules):
        total = np.int64(0)
        for c in range(len(rows)):
            for j in range(k):
                if picks[r, j, rows[c, 0]] == rows[c, 1]:
                    total += rows[c, 2]
        sums[r] += total
