"""One SHA-256 for all that numbers depend on; data that come in parts get that of the whole."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Fingerprint:
    """Every array has its own digest, so that the parts of all of them can be added in turn."""

    def __init__(self, about: Any) -> None:
        self.about = about
        self.digests: dict[str, Any] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}

    def add(self, arrays: Iterable[tuple[str, NDArray[Any] | None]]) -> None:
        """The next part of every array; None for one that the data do not have."""
        for name, array in arrays:
            if array is None:
                continue
            key = f"{name} {array.dtype}"
            digest = self.digests.setdefault(key, hashlib.sha256())
            before = self.shapes.get(key, (0,))[0]
            self.shapes[key] = (before + len(array), *array.shape[1:])
            if array.dtype.kind == "O":
                digest.update("".join(f"{value!r}\n" for value in array.tolist()).encode())
            else:
                digest.update(np.ascontiguousarray(array).view(np.uint8).data)

    def hexdigest(self) -> str:
        whole = hashlib.sha256(repr(self.about).encode())
        for key, digest in self.digests.items():
            whole.update(repr((key, self.shapes[key])).encode() + digest.digest())
        return whole.hexdigest()
