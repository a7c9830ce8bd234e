"""One process at a time: a lock that ends with its process, so that none is ever stale."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from outrule.errors import DataError

WAIT = 60.0  # seconds
PAUSE = 0.05

if sys.platform == "win32":
    import msvcrt

    def _take(number: int) -> None:
        msvcrt.locking(number, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _take(number: int) -> None:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file; wait for another process that holds it, then give up.

    The system frees it when its process ends, however it ends. The file with the lock is beside
    ``path``, because ``path`` itself is replaced; it is empty, and stays.
    """
    with path.with_name(f".{path.name}.lock").open("ab") as file:
        end = time.monotonic() + WAIT
        while True:
            try:
                _take(file.fileno())
                break
            except (BlockingIOError, PermissionError):  # as Linux and as Windows say it
                if time.monotonic() >= end:
                    raise DataError(
                        f"{path} is in use by another process: try again when it has ended."
                    ) from None
                time.sleep(PAUSE)
        yield
