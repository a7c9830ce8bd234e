"""How much bets of several sizes gain or lose on a batch: sums of logarithms."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from outrule.kernels.compiling import njit

BLOCK = 64  # factors between 1/4 and 7/4, whose product neither vanishes nor overflows


@njit(nogil=True, cache=True)
def log_growth(x: NDArray[np.float64], stakes: NDArray[np.float64]) -> NDArray[np.float64]:
    """``sum(log(1 - stake x))`` and ``sum(log(1 + stake x))`` for every stake, shape (2, n_stakes).

    Stakes are at most 1/2, and x is between -3/2 and 3/2.
    """
    found = np.zeros((2, len(stakes)))
    down, up = np.empty(len(stakes)), np.empty(len(stakes))
    for start in range(0, len(x), BLOCK):
        down[:] = 1.0
        up[:] = 1.0
        for i in range(start, min(start + BLOCK, len(x))):
            for g in range(len(stakes)):
                down[g] *= 1.0 - stakes[g] * x[i]
                up[g] *= 1.0 + stakes[g] * x[i]
        found[0] += np.log(down)
        found[1] += np.log(up)
    return found
