"""Sums over decisions and patches of predictions, in integers where a sum must be exact.

Residuals are rounded once to integer multiples of a power of two. Integer sums do not depend on
their order, so a violation has the same bits for any chunking, thread count or order of instances.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

BLOCK = 2048  # instances whose residuals stay in cache while all rules are summed


@njit(nogil=True, cache=True)
def residuals(
    prediction: NDArray[np.float64],
    outcome: NDArray[np.float64],
    offsets: NDArray[np.int64],
    weight: NDArray[np.float64],
    span: float,
    bits: int,
    residual: NDArray[np.int64],
) -> np.int64:
    """Write weight * (outcome - prediction) in units of span / 2**bits; return the sum of squares.

    The squares are in units of span**2 / 2**bits.
    """
    total = np.int64(0)
    for i in range(len(offsets) - 1):
        factor = weight[i] * 2.0**bits
        for j in range(offsets[i], offsets[i + 1]):
            difference = (outcome[j] - prediction[j]) / span
            residual[j] = np.int64(np.rint(factor * difference))
            total += np.int64(np.rint(factor * difference * difference))
    return total


@njit(nogil=True, cache=True)
def sum_over_picks(
    values: NDArray[np.int64],
    offsets: NDArray[np.int64],
    picks: NDArray[np.integer],
    sums: NDArray[np.int64],
) -> None:
    """Add to ``sums[r]`` the values of the items that ``picks[r]`` of shape (n, k) chooses.

    Behind the last pick of an instance stands the largest number of the type (or -1).
    """
    n_rules, n, k = picks.shape
    for first in range(0, n, BLOCK):
        last = min(first + BLOCK, n)
        for r in range(n_rules):
            total = 0
            for i in range(first, last):
                start, size = offsets[i], offsets[i + 1] - offsets[i]
                for j in range(k):
                    position = np.int64(picks[r, i, j])
                    if position < 0 or position >= size:
                        break
                    total += values[start + position]
            sums[r] += total


@njit(nogil=True, cache=True)
def patch_box(
    prediction: NDArray[np.float64],
    offsets: NDArray[np.int64],
    picks: NDArray[np.integer],
    order: NDArray[np.int64],
    steps: NDArray[np.float64],
    low: float,
    high: float,
) -> None:
    """Apply patches in order: ``picks[order[t]]`` moves by ``steps[t]``, then is clipped."""
    n, k = picks.shape[1], picks.shape[2]
    for first in range(0, n, BLOCK):
        last = min(first + BLOCK, n)
        for t in range(len(order)):
            for i in range(first, last):
                start, size = offsets[i], offsets[i + 1] - offsets[i]
                for j in range(k):
                    position = np.int64(picks[order[t], i, j])
                    if position < 0 or position >= size:
                        break
                    moved = prediction[start + position] + steps[t]
                    prediction[start + position] = min(max(moved, low), high)


@njit(nogil=True, cache=True)
def patch_simplex(
    prediction: NDArray[np.float64],
    offsets: NDArray[np.int64],
    picks: NDArray[np.integer],
    order: NDArray[np.int64],
    steps: NDArray[np.float64],
    frozen: NDArray[np.bool_],
) -> None:
    """As patch_box for decisions of one item; touched instances are projected on the simplex."""
    for t in range(len(order)):
        for i in range(picks.shape[1]):
            position = np.int64(picks[order[t], i, 0])
            start, stop = offsets[i], offsets[i + 1]
            if 0 <= position < stop - start and not frozen[start + position]:
                prediction[start + position] += steps[t]
                project_simplex(prediction[start:stop], frozen[start:stop])


@njit(nogil=True, cache=True)
def project_simplex(values: NDArray[np.float64], frozen: NDArray[np.bool_]) -> None:
    """The nearest point of the simplex, in place; frozen entries stay (Held et al. 1974)."""
    free = np.sort(values[~frozen])
    total, shift = 0.0, 0.0
    for rank in range(1, len(free) + 1):
        total += free[len(free) - rank]
        candidate = (total - 1.0) / rank
        if rank == len(free) or free[len(free) - rank - 1] <= candidate:
            shift = candidate
            break
    for j in range(len(values)):
        if not frozen[j]:
            values[j] = min(max(values[j] - shift, 0.0), 1.0)


@njit(nogil=True, cache=True)
def project_simplices(
    prediction: NDArray[np.float64], offsets: NDArray[np.int64], frozen: NDArray[np.bool_]
) -> None:
    """Project every instance that is off the simplex by more than rounding."""
    for i in range(len(offsets) - 1):
        start, stop = offsets[i], offsets[i + 1]
        total = 0.0
        for j in range(start, stop):
            if not frozen[j]:
                total += prediction[j]
        if np.abs(total - 1.0) > 1e-9:
            project_simplex(prediction[start:stop], frozen[start:stop])
