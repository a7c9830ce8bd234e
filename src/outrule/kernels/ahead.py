"""Compiles the kernels of a first fit in other processes, while this one compiles its own.

Numba compiles one kernel at a time in a process, so other cores would be idle. A helper writes to
the folder from which this process reads; whatever goes wrong there, this one compiles itself.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from outrule import memory, threads
from outrule.errors import DataError

COMPILERS = "OUTRULE_COMPILERS"  # the variable that sets how many helpers there are at most
MOST = 3
NEEDED = 1e9  # bytes of free memory for each, which uses a quarter of it
# The first of these that is missing starts the helpers: kernels of fits and predictions, and those
# that read Parquet, which comes before.
EARLY = ("curves.", "trees.", "thrift.", "pages.")
LONGEST = 60.0  # seconds to wait for a helper that is busy with the kernel that is needed
ROOT = Path(__file__).parents[2]

# Kernel and types of its arguments, as in :func:`signature`. Helpers begin with those that take
# longest, then come from behind: this process needs the last ones of a first fit last. The
# certificate's are behind all others.
KERNELS: Sequence[str] = """
trees.add_blocks f1! i1 c1 u3 f1 i i1 (i2 f2) (w2 u2 c2 w2 u2 f1) (c1 i1) f2 f2
curves.add_members f2 i1 u3 (i1 i1 i1 f2 i1 f2) b1 - (f1 i1 c3 i1 f1) f1
patching.patch_ledger f1 i1 f1! i1 u2 f i (f f) i (i i) i2
tally.shrink_margins f1 c2 u2 f f i1
overlap.overlap_single u3 u2 i1
overlap.add_at_items u3 i2 i1
tally.best_with_margin f1 i1 i1 c2 f1
tally.squares_over_picks i1 i1 u3 i1 f1 f1 f1
tally.compact_and_sum c2 i1 i1 i1 i u2 (i i)
tally.residuals f1 f1! i1 f1 f i i1
tally.mark_picks c2 i1 b1
curves.move_along f1 f1! i1 u2 f2 f1 f1 f1 b1 f1 f2 u1 -
curves.sum_by_bin i1 f1 f1! f2 f1 f2
curves.sum_by_level f2 u1 i1 u3 i i f3
curves.weigh f1 f1! i1 f1 f1 b1 f1 f2 u1
trees.settle u1 f1 f1 f2 f1
trees.answer_yes u1 u2 i1
trees.sum_by_answer f2 c1 u1 u1 c1 i1 u1 i i i f3
trees.list_marks u3 i1 i1 u1
betting.lower_bound (f1 f1 f1 s1 f1 b) f
betting.evidence (f1 f1 f1 s1 f1 b) f f
betting.stakes f1 f1 i1
""".strip().splitlines()


class Helper:
    """A process that compiles its share, and says which kernel it is compiling."""

    def __init__(self, command: Sequence[str]):
        self.doing = ""
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {COMPILERS: "0"},
        )
        atexit.register(self.stop)
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with self.process:  # which closes the pipe, and waits for its end
            for line in self.process.stdout or ():
                self.doing = line.strip()

    def is_compiling(self, kernel: str) -> bool:
        return self.doing == kernel and self.process.poll() is None

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


_helpers: list[Helper] | None = None  # not asked for yet


def wait_for_helpers(kernel: str) -> bool:
    """Return when no helper is compiling this kernel, and whether one was.

    The first of the early kernels that is missing starts them.
    """
    global _helpers
    if _helpers is None:
        if not kernel.startswith(EARLY):
            return False
        _helpers = []
        number = n_helpers()
        with suppress(OSError, RuntimeError):  # this process may not start others
            _helpers.extend(Helper(command(share, number, kernel)) for share in range(number))
    last, waited = time.monotonic() + LONGEST, False
    while any(one.is_compiling(kernel) for one in _helpers) and time.monotonic() < last:
        time.sleep(0.01)
        waited = True
    return waited


def give_up() -> None:
    """Stop the helpers: what they compile cannot be read here, or is for other arguments."""
    while _helpers:
        _helpers.pop().stop()


def n_helpers() -> int:
    """One for every other thread that may run, if there is memory for it.

    Other programs that have Python inside are not started again, and a process of a pool has
    siblings on the other cores.
    """
    text = os.environ.get(COMPILERS) or str(MOST)
    if not text.isdecimal():
        raise DataError(
            f"{COMPILERS} is {text!r}: it must be a number of processes, or 0 for none."
        )
    is_python = Path(sys.executable or "").name.startswith("python")
    if not is_python or multiprocessing.parent_process() is not None:
        return 0
    free = memory.free_memory()
    enough = MOST if free is None else int(free // NEEDED)
    return min(int(text), MOST, threads.n_allowed() - 1, enough)


def command(*share: Any) -> list[str]:
    """A process that runs :func:`compile_share` of this very package."""
    # Only the package comes first from where it is: beside it may be modules with names of others.
    first = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import outrule"
    then = f"sys.path.append(sys.path.pop(0)); from {__name__} import compile_share"
    # Not from the current folder (-P), which may have a numba.py of its own.
    return [sys.executable, "-P", "-c", f"{first}; {then}; compile_share{share}"]


def compile_share(share: int, n_shares: int, known: str) -> None:
    """Compile every n_shares-th kernel that is not on disk, without the known one."""
    for line in KERNELS[share::n_shares]:
        name, types = line.split(" ", 1)
        if name != known:
            print(name, flush=True)
            module, function = name.split(".")
            getattr(import_module(f"outrule.kernels.{module}"), function).compile(signature(types))


def signature(text: str) -> tuple[Any, ...]:
    """Numba's types of arguments.

    A letter is a type of numbers, a digit behind it makes it an array of so many dimensions, ! an
    array that cannot be written to; - is None, and brackets make a tuple.
    """
    from numba.core import types

    numbers = {
        "f": types.float64,
        "i": types.int64,
        "c": types.int32,
        "s": types.int8,
        "u": types.uint8,
        "w": types.uint64,
        "b": types.boolean,
        "-": types.none,
    }
    tuples: Any = types.Tuple  # it has no types
    words = iter(text.replace("(", "( ").replace(")", " )").split())

    def read() -> Iterator[Any]:
        for word in words:
            if word == ")":
                return
            if word == "(":
                yield tuples(tuple(read()))
            elif word[1:]:
                readonly = word.endswith("!")
                yield types.Array(numbers[word[0]], int(word[1]), "C", readonly=readonly)
            else:
                yield numbers[word]

    return tuple(read())
