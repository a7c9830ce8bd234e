"""Runs chunks of work on threads; results come in order, whatever the number of threads."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache, wraps
from itertools import count
from numbers import Integral
from pathlib import Path
from threading import Event
from typing import Any, Concatenate, ParamSpec, TypeVar

from threadpoolctl import ThreadpoolController

from outrule.errors import refuse_argument

LOOK = 0.1  # seconds after which a thread that waits for others hears Ctrl-C
STOPPED = -1  # in the place of a chunk, where the caller's thread has met an error
Given = ParamSpec("Given")
Result = TypeVar("Result")

_jobs: ContextVar[int | None] = ContextVar("jobs", default=None)
_width: ContextVar[int] = ContextVar("width", default=0)  # of the pool that this thread is in
_stopped: ContextVar[Event] = ContextVar("stopped")  # whether the caller of this thread has stopped


def check_jobs(n_jobs: Any, owner: str) -> None:
    """Raise ArgumentError for a number of threads that scikit-learn would not take."""
    good = n_jobs is None or (isinstance(n_jobs, Integral) and not isinstance(n_jobs, bool))
    if not good or n_jobs == 0:
        raise refuse_argument(n_jobs, "n_jobs", owner, "None, a positive int, or -1 for all cores")


@contextmanager
def using(n_jobs: int | None) -> Iterator[None]:
    """Use this many threads inside: None or -1 for all cores, -2 for all but one, ..."""
    token = _jobs.set(n_jobs)
    try:
        yield
    finally:
        _jobs.reset(token)


def as_asked(method: Callable[Concatenate[Any, Given], Result]) -> Callable[..., Result]:
    """Run a method of an object that has ``n_jobs`` with as many threads as it says."""

    @wraps(method)
    def limited(self: Any, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        check_jobs(self.n_jobs, type(self).__name__)
        with using(self.n_jobs):
            return method(self, *args, **kwargs)

    return limited


def n_threads() -> int:
    """How many threads may run now; in a thread of the pool, which may not wait for it, one."""
    if _width.get():
        return 1
    jobs = _jobs.get()
    if jobs is None:
        return n_cores()
    return jobs if jobs > 0 else max(1, n_cores() + 1 + jobs)


def n_allowed() -> int:
    """How many threads may run in all, this one and those beside it."""
    return _width.get() or n_threads()


def run(work: Callable[[int], Result], n_chunks: int) -> list[Result]:
    """``[work(0), work(1), ...]``, on threads; inside of one, whatever it starts runs alone."""
    width = min(n_threads(), n_chunks)
    if width <= 1:
        return [work(chunk) for chunk in range(n_chunks)]
    results: list[Any] = [None] * n_chunks
    errors: dict[int, BaseException] = {}
    numbers, stopped = count(), Event()

    def take_chunks() -> None:
        _width.set(width)
        _stopped.set(stopped)
        while not errors and (chunk := next(numbers)) < n_chunks:
            try:
                results[chunk] = work(chunk)
            except BaseException as error:
                errors[chunk] = error

    tasks: list[Future[None]] = []
    try:
        tasks.extend(_pool().submit(take_chunks) for _ in range(width))
        # With the signal handler of Polars, Ctrl-C does not end a wait.
        while wait(tasks, LOOK).not_done:
            pass
    except BaseException as error:  # Ctrl-C, or there is no memory for a thread
        errors[STOPPED] = error
        stopped.set()
        wait(tasks)  # they take no more chunks, and nothing runs behind the caller's back
    if errors:  # chunks are taken in order, so the first that fails is always among them
        raise errors[min(errors)]
    for task in tasks:
        task.result()  # raises what has ended a thread outside of the work
    return results


def check_stop() -> None:
    """Raise in a thread whose caller has stopped; for chunks of work that take seconds."""
    stopped = _stopped.get(None)
    if stopped is not None and stopped.is_set():
        raise KeyboardInterrupt  # nobody sees it: the caller raises its own


@contextmanager
def lone_blas() -> Iterator[None]:
    """Matrix products on one thread inside: the same bits for any number, and no idle spinning."""
    with _blas().limit(limits=1, user_api="blas"):
        yield


def spans(size: int, length: int) -> list[tuple[int, int]]:
    """Cut ``range(length)`` into pieces of ``size``."""
    return [(first, min(first + size, length)) for first in range(0, length, size)]


def n_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=n_cores(), thread_name_prefix="outrule")


class _Forks:
    """Whether this process was forked from one in which Polars had threads."""

    seen = lost = False

    def look(self) -> None:
        # Importing Polars starts none of its threads.
        self.seen = "polars" in sys.modules and any_thread("comm", r"polars-\d")

    def remember(self) -> None:
        """In the child process, which has none of its parent's threads."""
        self.lost |= self.seen
        _pool.cache_clear()


def check_forks() -> None:
    """Raise where Polars would wait forever for threads that this process does not have."""
    if _forks.lost:
        raise RuntimeError(
            "this process was forked after Polars had started its threads, and Polars would wait "
            "for them forever: use the start method 'spawn' or 'forkserver' of multiprocessing, or "
            "use tables and rules as text only after the fork."
        )


def any_thread(file: str, pattern: str) -> bool:
    """Whether what the system says in this file of any thread of this process matches."""
    for path in Path("/proc/self/task").glob(f"*/{file}"):
        with suppress(OSError):  # it has ended
            if re.match(pattern, path.read_text(errors="replace")):
                return True
    return False


_forks = _Forks()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_forks.look, after_in_child=_forks.remember)
