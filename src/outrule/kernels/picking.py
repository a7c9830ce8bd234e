"""What the kernels share to read instances and to write their chosen items."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from outrule.kernels.compiling import njit
from outrule.types import Floats, Integers, Positions

Scalar = TypeVar("Scalar", bound=np.generic)

LARGEST = float(np.finfo(np.float64).max)
# Not a literal: for one, Numba compiles once more whatever it is given to.
ZERO: int = np.int64(0)  # type: ignore[assignment] # as good as an int


@njit(nogil=True, cache=True)
def scaled(weights: Floats, scale: Floats, item: int) -> float:
    """The weight of an item; what overflows counts as the largest float, NaN as nothing."""
    return capped(weights[item] * scale[item])


@njit(nogil=True, cache=True)
def capped(weight: float) -> float:
    """A weight that is finite from above, so that differences of weights are numbers.

    With fastmath, NaN would stay; and a kernel compiles those that it calls with its own options.
    """
    if weight > LARGEST:
        return LARGEST
    return weight if weight == weight else 0.0


@njit(nogil=True, cache=True)
def longest(offsets: Integers) -> int:
    """The most items that an instance has."""
    most = 0
    for i in range(offsets.size - 1):
        most = max(most, offsets[i + 1] - offsets[i])
    return most


@njit(nogil=True, cache=True)
def insert_ascending(picks: Positions, n_picks: int, item: int) -> None:
    """Insert an item into picks[:n_picks], which stays in ascending order."""
    at = n_picks
    while at > 0 and picks[at - 1] > item:
        picks[at] = picks[at - 1]
        at -= 1
    picks[at] = item


def frozen(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """A read-only contiguous view, so that Numba compiles once whatever the caller may write to."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
