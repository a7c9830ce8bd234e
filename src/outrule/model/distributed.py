"""Pieces on the workers of a Dask cluster, which keep them but never own them; and the start.

A question about some files goes to the worker that made their pieces, with the whole log: a worker
that has them applies what is new, and one that has not says so. Then any worker makes them again
and replays the log. No task is bound to a worker, so the death of one only costs time. The members
of the start are tasks too, each a function of the sample's numbers and of what it leaves out.
"""

from __future__ import annotations

import importlib
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

import outrule
from outrule import progress, threads
from outrule.calibration.cross_fit import PROGRESS, Boost, Grown, Material, Way
from outrule.calibration.partitioned import Engine, Opened, add_tallies
from outrule.calibration.pieces import Piece, Question
from outrule.errors import DataError
from outrule.model.recipes import Common, Extents, Recipe
from outrule.problems.contract import Problem
from outrule.rules.rules import Rule
from outrule.types import Integers

LIBRARIES = ("numpy", "numba", "polars", "scipy")  # on which the last bits may depend
WAIT = "10s"  # for a scheduler to answer
SQL = "an expression, or as "  # what a rule can be instead of a function
IDLE = 3600.0  # seconds after which pieces that nobody asks for are dropped


class _Kept(NamedTuple):
    pieces: list[Piece]
    folder: tempfile.TemporaryDirectory[str]
    used: float  # when an answer was last given


class FitJob(NamedTuple):
    """Of which fit pieces are, and what workers need to make them as the driver would."""

    key: str
    versions: dict[str, str]


_kept: dict[tuple[str, int], _Kept] = {}  # of this process, by fit and file
_over: set[str] = set()  # fits that have ended
_lock = threading.Lock()
_reading = threading.Lock()  # what Polars prints is held back, for one thread at a time
_calling = threading.Lock()  # a function of the caller's is called by one thread at a time


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


def check_cluster(client: Any, problem: Problem, rules: Sequence[Rule]) -> None:
    """Raise, before any work, where the workers cannot do what this process would."""
    if not client.nthreads():
        raise DataError("the Dask scheduler has no workers: start some, and fit again.")
    from distributed.protocol.pickle import dumps  # Dask is there if there is a client

    sent = [("the problem", problem, ""), *((f"rule {rule.name!r}", rule, SQL) for rule in rules)]
    for name, one, instead in sent:
        try:
            dumps(one)
        except Exception as error:
            raise DataError(
                f"{name} cannot be sent to workers ({error}): write it as {instead}a function in "
                "a module."
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


def make(job: FitJob, number: int, common: Common, recipe: Recipe) -> tuple[str, Extents]:
    """Make the pieces of a file and keep them; where, and how far its outcomes go."""
    from distributed import get_worker  # only workers call this

    worker = get_worker()
    check_versions(worker.address, versions(), job.versions)  # it may have come later
    drop_stale()
    try:
        folder = tempfile.TemporaryDirectory(prefix="outrule-", dir=worker.local_directory)
        with _reading:
            instances = recipe.reader.read()
        pieces, extents = recipe.make(common, instances, Path(folder.name) / "pieces")
    except (OSError, DataError) as error:
        raise DataError(f"on the worker {worker.address}: {error}") from None
    with _lock:
        if job.key not in _over:  # else the fit has ended meanwhile, by an error elsewhere
            _kept[job.key, number] = _Kept(pieces, folder, time.monotonic())
    return worker.address, extents


def drop_stale() -> None:
    """Drop what no driver has asked for in a long time; one that lives has it made again."""
    oldest = time.monotonic() - IDLE
    with _lock:
        gone = [_kept.pop(name) for name, kept in list(_kept.items()) if kept.used < oldest]
    for one in gone:
        one.folder.cleanup()


def answer(
    key: str, numbers: Sequence[int], opened: Opened | None, question: Question
) -> tuple[list[Any], list[int]]:
    """The answers of the pieces of some files, and the files whose pieces are not here.

    ``opened`` is what pieces are opened with that were made anew.
    """
    found, missing = list[Any](), list[int]()
    for number in numbers:
        with _lock:  # nobody else may use them until they are put back
            kept = _kept.pop((key, number), None)
        if kept is None:
            missing.append(number)
            continue
        for piece in kept.pieces:
            if piece.whole is None and opened is not None and question.method != "open":
                piece.open(*opened[piece.cell])
        found += question.ask(kept.pieces)
        with _lock:  # after an error they stay away, for they may be half changed
            _kept[key, number] = kept._replace(used=time.monotonic())
    if question.method == "advance" and found:
        cells = sorted({cell for cell, _ in found})
        found = list(zip(cells, add_tallies(found), strict=True))
    return found, missing


def remake(
    job: FitJob,
    number: int,
    common: Common,
    recipe: Recipe,
    opened: Opened | None,
    question: Question,
) -> tuple[str, list[Any]]:
    """Make the pieces of a file that were lost, and answer."""
    address, _ = make(job, number, common, recipe)
    return address, answer(job.key, [number], opened, question)[0]


def forget(key: str) -> None:
    """Drop all that is kept of a fit."""
    with _lock:
        _over.add(key)
        gone = [_kept.pop(name) for name in list(_kept) if name[0] == key]
    for one in gone:
        one.folder.cleanup()


def boost_member(versions_there: dict[str, str], material: Material, way: Way) -> Grown:
    """A member of the start, on a worker, which has as many threads as Dask gives it."""
    from distributed import get_worker  # only workers call this

    check_versions(get_worker().address, versions(), versions_there)
    alone = nullcontext() if material.problem.threaded else _calling
    with alone, threads.using(1):
        return material.member(way)


def boost_on(client: Any) -> Boost:
    """What boosts the members of the start on the workers of a cluster."""
    from distributed import as_completed  # Dask is there

    def boost(material: Material, ways: Sequence[Way]) -> list[Grown]:
        done, ours = progress.counter(PROGRESS, len(ways)), versions()
        with _any_size():
            sent = client.submit(_same, material.packed(), pure=False)  # made again if it is lost
            futures = [client.submit(boost_member, ours, sent, way, pure=False) for way in ways]
        for _ in as_completed(futures, loop=client.loop):
            done()
        return gather(client, futures)

    return boost


def gather(client: Any, futures: list[Any]) -> list[Any]:
    """What tasks return; DataError where the cluster is gone, or cannot do them."""
    from distributed import CancelledError, KilledWorker  # Dask is there

    try:
        return list(client.gather(futures))
    except KilledWorker as error:
        raise DataError(
            f"several workers died on the same task ({error}): give them more memory, or "
            "write smaller files and use a smaller sample."
        ) from None
    except CancelledError:
        raise DataError(
            "the connection to the Dask scheduler was lost. With a checkpoint the next run "
            "continues from the last round."
        ) from None


def _any_size() -> Any:
    """Dask warns of messages of 10 MB and more, which those of large files have to be."""
    import dask  # is there

    return dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"})


class ClusterPieces(Engine):
    """Pieces on workers."""

    def __init__(self, client: Any, common: Common, recipes: Sequence[Recipe]):
        self.client, self.recipes = client, recipes
        self.job = FitJob(uuid4().hex, versions())
        self.common = client.submit(_same, common, pure=False)  # made again if it is lost
        self.owner: dict[int, str] = {}

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

    def build(self) -> Callable[[], list[Extents]]:
        """Start to make all pieces; returns what waits for them."""
        with _any_size():
            futures = [
                self.client.submit(make, self.job, number, self.common, recipe, pure=False)
                for number, recipe in enumerate(self.recipes)
            ]

        def wait() -> list[Extents]:
            found = gather(self.client, futures)
            self.owner = {number: address for number, (address, _) in enumerate(found)}
            return [extents for _, extents in found]

        return wait

    def cluster_sums(self, n_clusters: int, tests: range, cell: int) -> Integers:
        given: list[tuple[Any, ...] | None] = [None] * len(self.opened_with)
        given[cell] = (n_clusters, tests)
        return np.asarray(sum(one for _, one in self._ask(Question("cluster_sums", given))))

    def _ask(self, question: Question) -> list[tuple[int, Any]]:
        """One message to every worker that has pieces; then those that were lost, one by one."""
        files: dict[str, list[int]] = {}
        for number, address in self.owner.items():
            files.setdefault(address, []).append(number)
        given = (self.opened_with, question)
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
        for some, missing in gather(self.client, futures):
            found += some
            lost += missing
        with _any_size():
            again = [
                self.client.submit(
                    remake, self.job, number, self.common, self.recipes[number], *given, pure=False
                )
                for number in lost
            ]
        for number, (address, some) in zip(lost, gather(self.client, again), strict=True):
            self.owner[number] = address
            found += some
        return found


def _same(value: Any) -> Any:
    return value
