"""What the kernels share to write the chosen items of an instance."""

from typing import TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

Scalar = TypeVar("Scalar", bound=np.generic)


@njit(nogil=True, cache=True)
def insert_ascending(picks, n_picks, item):
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
