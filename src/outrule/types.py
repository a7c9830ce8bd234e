"""Names for the kinds of array that the package uses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Picks = NDArray[np.int32]
"""(n, k): the positions of the chosen items in each instance, ascending, -1 behind the last."""
Booleans = NDArray[np.bool_]
