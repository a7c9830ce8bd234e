"""Pieces on the workers of a Dask cluster, which keep them but never own them.

A question about some files goes to the worker that made their pieces, with the whole log: a worker
that has them applies what is new, and one that has not says so. Then any worker makes them again
and replays the log. No task is bound to a worker, so the death of one only costs time.
"""

from __future__ import annotations

import importlib
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

import outrule
from outrule.calibration.audit import Tally, Whole
from outrule.calibration.pieces import Log, Opening, Piece
from outrule.errors import DataError
from outrule.model.recipes import Common, Extent, Recipe
from outrule.rules.rules import Rule
from outrule.types import Floats, Integers

LIBRARIES = ("numpy", "numba", "polars", "scipy")  # on which the last bits may depend
WAIT = "10s"  # for a scheduler to answer
IDLE = 3600.0  # seconds after which pieces that nobody asks for are dropped


class Question(NamedTuple):
    """What is asked of pieces: the name of a method, and what it is given."""

    method: str
    given: tuple[Any, ...]

    def ask(self, piece: Piece) -> Any:
        return getattr(piece, self.method)(*self.given)


class _Kept(NamedTuple):
    pieces: list[Piece]
    folder: tempfile.TemporaryDirectory[str]
    used: float  # when an answer was last given


class Job(NamedTuple):
    """Of which fit pieces are, and what workers need to make them as the driver would."""

    key: str
    versions: dict[str, str]


_kept: dict[tuple[str, int], _Kept] = {}  # of this process, by fit and file
_over: set[str] = set()  # fits that have ended
_lock = threading.Lock()
_reading = threading.Lock()  # what Polars prints is held back, for one thread at a time


def connect(address: str) -> Any:
    """A client of the scheduler at an address; DataError where there is none."""
    try:
        from distributed import Client  # an extra, and heavy
    except ImportError:
        raise DataError(
            "a scheduler needs Dask, which is not installed: pip install 'outrule[dask]'."
        ) from None
    try:
        return Client(address, timeout=WAIT, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise DataError(f"no Dask scheduler answers at {address} ({reason}).") from None


def versions() -> dict[str, str]:
    """Of what the last bits of a fit may depend on."""
    found = {name: str(importlib.import_module(name).__version__) for name in LIBRARIES}
    return {"outrule": outrule.__version__, **found}


def check_cluster(client: Any, rules: Sequence[Rule]) -> None:
    """Raise, before any work, where the workers cannot do what this process would."""
    if not client.nthreads():
        raise DataError("the Dask scheduler has no workers: start some, and fit again.")
    from distributed.protocol.pickle import dumps  # Dask is there if there is a client

    for rule in rules:
        try:
            dumps(rule)
        except Exception as error:
            raise DataError(
                f"rule {rule.name!r} cannot be sent to workers ({error}): write it as an "
                "expression, or as a function of a module."
            ) from None
    for address, found in client.run(versions, on_error="return").items():
        if isinstance(found, ModuleNotFoundError):
            raise DataError(
                f"the worker {address} lacks {found.name!r}: install outrule there too."
            )
        if not isinstance(found, OSError):  # of a worker that has just died
            check_versions(address, found, versions())


def check_versions(address: str, theirs: dict[str, str], ours: dict[str, str]) -> None:
    """Raise where a worker does not have the versions of the driver."""
    for name, version in theirs.items():
        if version != ours[name]:
            raise DataError(
                f"the worker {address} has {name} {version}, and this process {ours[name]}: "
                "install the same versions, or results could differ."
            )


def make(job: Job, number: int, common: Common, recipe: Recipe) -> tuple[str, Extent]:
    """Make the pieces of a file and keep them; where, and how far its outcomes go."""
    from distributed import get_worker  # only workers call this

    worker = get_worker()
    check_versions(worker.address, versions(), job.versions)  # it may have come later
    drop_stale()
    try:
        folder = tempfile.TemporaryDirectory(prefix="outrule-", dir=worker.local_directory)
        with _reading:
            instances = recipe.reader.read()
        pieces, extent = recipe.make(common, instances, Path(folder.name) / "pieces")
    except (OSError, DataError) as error:
        raise DataError(f"on the worker {worker.address}: {error}") from None
    with _lock:
        if job.key not in _over:  # else the fit has ended meanwhile, by an error elsewhere
            _kept[job.key, number] = _Kept(pieces, folder, time.monotonic())
    return worker.address, extent


def drop_stale() -> None:
    """Drop what no driver has asked for in a long time; one that lives has it made again."""
    oldest = time.monotonic() - IDLE
    with _lock:
        gone = [_kept.pop(name) for name, kept in list(_kept.items()) if kept.used < oldest]
    for one in gone:
        one.folder.cleanup()


def answer(
    key: str, numbers: Sequence[int], whole: Whole | None, question: Question
) -> tuple[list[Any], list[int]]:
    """The answers of the pieces of some files, and the files whose pieces are not here."""
    found, missing = list[Any](), list[int]()
    for number in numbers:
        with _lock:  # nobody else may use them until they are put back
            kept = _kept.pop((key, number), None)
        if kept is None:
            missing.append(number)
            continue
        for piece in kept.pieces:
            if piece.whole is None and whole is not None and question.method != "open":
                piece.open(whole)
        found += [question.ask(piece) for piece in kept.pieces]
        with _lock:  # after an error they stay away, for they may be half changed
            _kept[key, number] = kept._replace(used=time.monotonic())
    if question.method == "advance" and found:
        found = [reduce(Tally.plus, found)]
    return found, missing


def remake(
    job: Job,
    number: int,
    common: Common,
    recipe: Recipe,
    whole: Whole | None,
    question: Question,
) -> tuple[str, list[Any]]:
    """Make the pieces of a file that were lost, and answer."""
    address, _ = make(job, number, common, recipe)
    return address, answer(job.key, [number], whole, question)[0]


def forget(key: str) -> None:
    """Drop all that is kept of a fit."""
    with _lock:
        _over.add(key)
        gone = [_kept.pop(name) for name in list(_kept) if name[0] == key]
    for one in gone:
        one.folder.cleanup()


class ClusterPieces:
    """Pieces on workers: see ``outrule.calibration.partitioned.Engine``."""

    def __init__(self, client: Any, common: Common, recipes: Sequence[Recipe]):
        self.client, self.recipes = client, recipes
        self.job = Job(uuid4().hex, versions())
        self.common = client.submit(_same, common, pure=False)  # made again if it is lost
        self.owner: dict[int, str] = {}
        self.whole: Whole | None = None

    @classmethod
    @contextmanager
    def opened(
        cls, client: Any, common: Common, recipes: Sequence[Recipe]
    ) -> Iterator[ClusterPieces]:
        """Workers forget the pieces at the end."""
        engine = cls(client, common, recipes)
        try:
            yield engine
        finally:
            with suppress(Exception):  # the cluster may be gone, which is said elsewhere
                engine.common.release()
                client.run(forget, engine.job.key, on_error="ignore")

    def build(self) -> Callable[[], list[Extent]]:
        """Start to make all pieces; returns what waits for them."""
        futures = [
            self.client.submit(make, self.job, number, self.common, recipe, pure=False)
            for number, recipe in enumerate(self.recipes)
        ]

        def wait() -> list[Extent]:
            found = self._gather(futures)
            self.owner = {number: address for number, (address, _) in enumerate(found)}
            return [extent for _, extent in found]

        return wait

    def open(self, whole: Whole) -> list[Opening]:
        self.whole = whole
        return self._ask(Question("open", (whole,)))

    def advance(self, log: Log) -> Tally:
        tallies: list[Tally] = self._ask(Question("advance", (list(log),)))
        return reduce(Tally.plus, tallies)

    def squares(self, means: Floats) -> list[Floats]:
        return self._ask(Question("squares", (means,)))

    def cluster_sums(self, n_clusters: int, tests: range) -> Integers:
        parts = self._ask(Question("cluster_sums", (n_clusters, tests)))
        return np.asarray(sum(parts[1:], start=parts[0]))

    def _ask(self, question: Question) -> list[Any]:
        """One message to every worker that has pieces; then those that were lost, one by one."""
        files: dict[str, list[int]] = {}
        for number, address in self.owner.items():
            files.setdefault(address, []).append(number)
        given = (self.whole, question)
        futures = [
            self.client.submit(
                answer,
                self.job.key,
                numbers,
                *given,
                workers=[address],
                allow_other_workers=True,  # a task that is bound to a dead worker waits forever
                pure=False,
            )
            for address, numbers in files.items()
        ]
        found, lost = list[Any](), list[int]()
        for some, missing in self._gather(futures):
            found += some
            lost += missing
        again = [
            self.client.submit(
                remake, self.job, number, self.common, self.recipes[number], *given, pure=False
            )
            for number in lost
        ]
        for number, (address, some) in zip(lost, self._gather(again), strict=True):
            self.owner[number] = address
            found += some
        return found

    def _gather(self, futures: list[Any]) -> list[Any]:
        from distributed import CancelledError, KilledWorker  # Dask is there

        try:
            return list(self.client.gather(futures))
        except KilledWorker as error:
            raise DataError(
                f"several workers died at the same work ({error}): give them more memory, or "
                "write smaller files."
            ) from None
        except CancelledError:
            raise DataError(
                "the connection to the Dask scheduler is lost. With a checkpoint the next run "
                "goes on from the last round."
            ) from None


def _same(value: Any) -> Any:
    return value
