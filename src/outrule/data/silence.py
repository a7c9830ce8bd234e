"""Holds back what Rust prints on standard error when Polars panics, since an error says it."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import IO

from outrule.threads import any_thread

WORKERS = r"\d+ \((polars|async-executor|tokio).*\) [RD] "  # that run, or read a file
PATIENCE = 2.0  # seconds
PAUSE = 0.005


@contextmanager
def quiet_panics() -> Iterator[None]:
    """Show what is printed inside only if there is no error."""
    held = _silence.begin()
    try:
        yield
    except BaseException:
        if held:
            _wait_for_workers()
            _silence.forget()
        raise
    finally:
        if held:
            _silence.end()


class _Silence:
    """Standard error while Polars works; of several threads, the last one gives it back."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0

    def begin(self) -> bool:
        """Whether there is a standard error to hold back."""
        with self._lock:
            if not self._users:
                try:
                    self._stream = os.fdopen(os.dup(2), "wb")
                except OSError:
                    return False
                self._kept, self._start = _hidden_file(), 0
                os.dup2(self._kept.fileno(), 2)
            self._users += 1
            return True

    def forget(self) -> None:
        """Do not show what was printed so far."""
        with self._lock:
            self._start = self._kept.seek(0, os.SEEK_END)

    def end(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users:
                return
            os.dup2(self._stream.fileno(), 2)
            with suppress(OSError), self._kept as kept, self._stream as stream:
                kept.seek(self._start)
                stream.write(kept.read())


_silence = _Silence()


def _wait_for_workers() -> None:
    """Wait until no thread of Polars works: one that does may panic after the error of another."""
    end = time.monotonic() + PATIENCE
    time.sleep(PAUSE)
    while any_thread("stat", WORKERS) and time.monotonic() < end:
        time.sleep(PAUSE)


def _hidden_file() -> IO[bytes]:
    """A file without a name, in memory where the system can do that: all disks may be read-only."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("outrule"), "w+b")
    return tempfile.TemporaryFile()
