"""How many items the decisions of every rule share with one decision per instance."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.core import cgutils as untyped_cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

cgutils: Any = untyped_cgutils

BLOCK = 8192  # instances whose own decision stays in cache while all rules are compared with it
LANES = 32
STEPS = 255  # vectors that can be counted in lanes of one byte before they overflow

BITS = 63

_I64 = ir.IntType(64)


def _count_equal(_: Any, left: Any, right: Any, start: Any, first: Any, steps: Any) -> Any:
    """Count i < LANES * steps with left[start + first + i] == right[first + i]; steps <= STEPS.

    Written as vector code, since LLVM does not vectorise a sum of comparisons of bytes.
    """
    signature = types.int64(left, right, start, first, steps)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        lane = context.get_data_type(sig.args[0].dtype)
        vector = ir.VectorType(lane, LANES)
        ends = [context.make_array(sig.args[k])(context, builder, args[k]).data for k in (0, 1)]
        start, first, steps = args[2:]
        places = [builder.add(start, first), first]
        count = cgutils.alloca_once_value(builder, ir.Constant(vector, [0] * LANES))
        with cgutils.for_range(builder, steps) as loop:
            shift = builder.mul(loop.index, _I64(LANES))
            values = [
                builder.load(
                    builder.bitcast(
                        builder.gep(data, [builder.add(place, shift)]), vector.as_pointer()
                    ),
                    align=lane.width // 8,
                )
                for data, place in zip(ends, places, strict=True)
            ]
            equal = builder.icmp_signed("==", *values)
            builder.store(builder.add(builder.load(count), builder.zext(equal, vector)), count)
        total, counts = _I64(0), builder.zext(builder.load(count), ir.VectorType(_I64, LANES))
        for k in range(LANES):
            total = builder.add(total, builder.extract_element(counts, _I64(k)))
        return total

    return signature, codegen


count_equal: Any = intrinsic(_count_equal)


@njit(nogil=True, cache=True)
def overlap_single(
    picks: NDArray[np.integer], own: NDArray[np.integer], shared: NDArray[np.int64]
) -> None:
    """Add to shared[r] how often picks[r, 0, i] equals own[0, i]."""
    n_rules, _, n = picks.shape
    flat, mine = picks.reshape(-1), own.reshape(-1)
    for block in range(0, n, BLOCK):
        end = min(block + BLOCK, n)
        for r in range(n_rules):
            first = block
            while end - first >= LANES:
                steps = min((end - first) // LANES, STEPS)
                shared[r] += count_equal(flat, mine, r * n, first, steps)
                first += steps * LANES
            for i in range(first, end):
                shared[r] += flat[r * n + i] == mine[i]


@njit(nogil=True, cache=True)
def overlap_masks(
    picks: NDArray[np.integer], own: NDArray[np.integer], shared: NDArray[np.int64]
) -> None:
    """The same for sets of fewer than BITS items on offer: own decisions become masks of bits.

    A place without a pick holds the largest number of its type, which reads as bit 63: never set.
    """
    n_rules, k, n = picks.shape
    masks = np.zeros(n, dtype=np.uint64)
    for j in range(k):
        for i in range(n):
            masks[i] |= np.uint64(1) << (np.uint64(own[j, i]) & np.uint64(63))
    masks &= ~(np.uint64(1) << np.uint64(63))
    for block in range(0, n, BLOCK // 2):
        end = min(block + BLOCK // 2, n)
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
    picks: NDArray[np.integer],
    own: NDArray[np.integer],
    sizes: NDArray[np.int64],
    shared: NDArray[np.int64],
) -> None:
    """The same for sets of any number of items; sizes[i] is how many instance i offers."""
    n_rules, k, n = picks.shape
    marks = np.zeros(sizes.max() + 1, dtype=np.int64)
    for i in range(n):
        for j in range(k):
            if own[j, i] < sizes[i]:
                marks[own[j, i]] = 1
        for r in range(n_rules):
            for j in range(k):
                if picks[r, j, i] >= sizes[i]:
                    break
                shared[r] += marks[picks[r, j, i]]
        for j in range(k):
            if own[j, i] < sizes[i]:
                marks[own[j, i]] = 0


@njit(nogil=True, cache=True)
def overlap_changes(
    picks: NDArray[np.integer],
    before: NDArray[np.integer],
    after: NDArray[np.integer],
    sizes: NDArray[np.int64],
    changed: NDArray[np.int64],
    shared: NDArray[np.int64],
) -> None:
    """Bring shared from the decisions ``before`` to ``after``, which differ where ``changed``."""
    n_rules, k, _ = picks.shape
    marks = np.zeros(sizes.max() + 1, dtype=np.int64)
    for i in changed:
        for j in range(k):
            if before[j, i] < sizes[i]:
                marks[before[j, i]] -= 1
            if after[j, i] < sizes[i]:
                marks[after[j, i]] += 1
        for r in range(n_rules):
            for j in range(k):
                if picks[r, j, i] >= sizes[i]:
                    break
                shared[r] += marks[picks[r, j, i]]
        for j in range(k):
            if before[j, i] < sizes[i]:
                marks[before[j, i]] = 0
            if after[j, i] < sizes[i]:
                marks[after[j, i]] = 0


@njit(nogil=True, cache=True)
def add_at_items(
    picks: NDArray[np.integer], rows: NDArray[np.int64], sums: NDArray[np.int64]
) -> None:
    """For rows (instance, position, amount): add it to every rule that picks that position."""
    n_rules, k, _ = picks.shape
    for r in range(n_rules):
        total = np.int64(0)
        for c in range(len(rows)):
            for j in range(k):
                if picks[r, j, rows[c, 0]] == rows[c, 1]:
                    total += rows[c, 2]
        sums[r] += total
