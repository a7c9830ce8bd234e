"""How much the bets of a watch gain or lose on a batch, for several sizes: sums of logarithms."""

from __future__ import annotations

import numpy as np

from outrule.kernels.compiling import njit
from outrule.types import Floats

FACTORS_AT_A_TIME = 64  # factors between 1/4 and 7/4, whose product neither vanishes nor overflows
FAR = 1.5


@njit(nogil=True, cache=True)
def log_growth(above: Floats, below: Floats, stakes: Floats) -> Floats:
    """``sum(log(1 - stake above))`` and ``sum(log(1 + stake below))``, shape (2, n_stakes).

    Stakes are at most 1/2; ``above`` is at most 3/2, and ``below`` at least -3/2. Where outcomes
    are known the two are the same.
    """
    found = np.zeros((2, len(stakes)))
    down, up = np.empty(len(stakes)), np.empty(len(stakes))
    for start in range(0, len(above), FACTORS_AT_A_TIME):
        down[:] = 1.0
        up[:] = 1.0
        for i in range(start, min(start + FACTORS_AT_A_TIME, len(above))):
            if max(-above[i], below[i]) > FAR:
                found[0] += np.log(1.0 - stakes * above[i])
                found[1] += np.log(1.0 + stakes * below[i])
                continue
            for g in range(len(stakes)):
                down[g] *= 1.0 - stakes[g] * above[i]
                up[g] *= 1.0 + stakes[g] * below[i]
        found[0] += np.log(down)
        found[1] += np.log(up)
    return found
