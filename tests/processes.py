"""What the system says of a process: a busy machine makes it slow, which is no hang."""

import os
from contextlib import suppress
from pathlib import Path


def is_asleep(process: int) -> bool:
    """Whether none of its threads wants the processor or waits for a disk.

    Where the system does not say, it is taken for asleep.
    """
    threads = Path(f"/proc/{process}/task").glob("*/stat")
    with suppress(OSError):  # one has just ended
        return all(path.read_text().rpartition(") ")[2].startswith("S") for path in threads)
    return False


def processor_time(process: int) -> float:
    """Seconds; 0 where the system does not say."""
    with suppress(OSError):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0
