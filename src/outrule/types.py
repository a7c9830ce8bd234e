"""Names for the kinds of array that the package uses, and its lazy property."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Picks = NDArray[np.int32]
"""(n, k): the positions of the chosen items in each instance, ascending, -1 behind the last."""
Booleans = NDArray[np.bool_]
Positions = NDArray[np.int32]
Small = NDArray[np.integer]
Bytes = NDArray[np.uint8]

Owner = TypeVar("Owner")
Value = TypeVar("Value")


class computed_once(Generic[Owner, Value]):  # noqa: N801 - used like a function
    """A property that is computed when it is first used, and then kept.

    Without the lock of ``functools.cached_property`` (until Python 3.11), which a process that
    forks while another thread holds it would wait for forever. Two threads may both compute the
    value: it must be the same.
    """

    def __init__(self, compute: Callable[[Owner], Value]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type[Owner], name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type[Owner]) -> Self: ...
    @overload
    def __get__(self, instance: Owner, owner: type[Owner]) -> Value: ...
    def __get__(self, instance: Owner | None, owner: type[Owner]) -> Self | Value:
        if instance is None:
            return self
        kept = vars(instance)  # found there before this is asked again; a frozen class has it too
        return kept.setdefault(self._name, self._compute(instance))  # type: ignore[no-any-return]
