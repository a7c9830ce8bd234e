"""How much memory this process may take, as the shell, the container and the user have it."""

from __future__ import annotations

import os
from math import inf, nan
from pathlib import Path

from outrule.errors import DataError

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

LIMIT = "OUTRULE_MEMORY"  # the variable that sets the memory to use, in gigabytes
NEARLY = 300 << 20  # bytes; libraries ask for as much at once


def free_memory() -> float | None:
    """The memory to use, in bytes: what the user says, or what is free; None if nobody knows."""
    if text := os.environ.get(LIMIT):
        try:
            gigabytes = float(text)
        except ValueError:
            gigabytes = nan
        if not 0 < gigabytes < inf:
            raise DataError(f"{LIMIT} is {text!r}: it must be a number of gigabytes.")
        return 1e9 * gigabytes
    found = []
    if (limit := address_limit()) is not None:
        found.append(float(limit - _address_space("VmSize")))
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        found += [1024.0 * int(line.split()[1]) for line in lines if "MemAvailable" in line]
        group = Path("/sys/fs/cgroup")  # of a container
        most, used = ((group / f"memory.{name}").read_text() for name in ("max", "current"))
        found += [float(most) - float(used)] if most.strip() != "max" else []
    except (OSError, ValueError, IndexError):
        pass
    return min(found, default=None)


def address_limit() -> int | None:
    """The bytes of address space that the shell allows (``ulimit -v``); None without a limit."""
    limit = -1 if resource is None else resource.getrlimit(resource.RLIMIT_AS)[0]
    return limit if limit > 0 else None


def is_exhausted() -> bool:
    """Whether the limit of address space was nearly reached at any time."""
    limit = address_limit()
    return limit is not None and _address_space("VmPeak") > limit - NEARLY


def _address_space(name: str) -> int:
    """Bytes of address space, now (VmSize) or at most (VmPeak); 0 where the system does not say."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))
    except (OSError, StopIteration):
        return 0
