"""Says how far long work has come, to whoever listens; nobody does unless asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count

Listener = Callable[[str, int, int | None, float], None]
"""Called with a noun, how many are done, how many there are (at most), and the seconds so far."""

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Tell this listener of the work inside."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def counter(noun: str, total: int | None = None) -> Callable[[], None]:
    """A function to call when one more is done, from any thread."""
    listener, start, numbers = _listener.get(), time.monotonic(), count(1)
    if listener is None:
        return lambda: None
    return lambda: listener(noun, next(numbers), total, time.monotonic() - start)


_kernels = count(1)


def compiling() -> None:
    """Another kernel is being compiled, as in the first call on a machine."""
    if listener := _listener.get():
        listener("compiling, once on this machine: kernel", next(_kernels), None, 0.0)
