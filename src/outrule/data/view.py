"""What a rule may see of the data: predictions and columns, never an outcome."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from outrule.data.origin import Origin, TableOrigin
from outrule.errors import DataError
from outrule.types import Floats, Integers


class View:
    """What a rule sees of some instances: predictions and columns, never an outcome.

    For arrays everything has shape (n, m), or (n, 1) for a column of the instances, and
    ``predictions`` is NaN where an item is not on offer. For a table everything has one entry per
    row, the rows of an instance together; ``frame`` is the table itself (Polars). Arrays are
    read-only.
    """

    def __init__(self, origin: Origin, prediction: Floats, offsets: Integers) -> None:
        self._origin, self._prediction, self._offsets = origin, prediction, offsets

    @property
    def predictions(self) -> Floats:
        """The original predictions."""
        return _read_only(self._origin.spread(self._prediction))

    @property
    def instance(self) -> Integers:
        """Number of the instance within this view: (n, 1) for arrays, one per row for a table."""
        numbers = np.arange(len(self._offsets) - 1)
        if isinstance(self._origin, TableOrigin):
            return _read_only(np.repeat(numbers, np.diff(self._offsets)))
        return numbers[:, None]

    @property
    def frame(self) -> Any:
        """The table, as a Polars frame."""
        if not isinstance(self._origin, TableOrigin):
            raise DataError("These instances came as arrays, not as a table: use view['column'].")
        return self._origin.frame.clone()

    def __getitem__(self, name: str) -> NDArray[Any]:
        return _read_only(self._origin.column(name))


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """The same numbers; a rule must not write into the caller's array."""
    view = array.view()
    view.flags.writeable = False
    return view
