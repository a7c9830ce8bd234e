"""Writing to scratch folders, where a full disk must be an error that says what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outrule.errors import DataError


def spill(path: Path, array: NDArray[Any]) -> None:
    """Add an array to a file in a scratch folder; DataError where it has no room."""
    try:
        with path.open("ab") as file:
            file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    except OSError as error:
        raise DataError(
            f"{path} cannot be written: {error.strerror or error}. It is a scratch file: choose a "
            "scratch folder with more room, or use fewer rules."
        ) from None
