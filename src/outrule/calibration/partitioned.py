"""The data of a loop in pieces: every round maps over them, and adds up what they answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Protocol, TypeVar

import numpy as np

from outrule import threads
from outrule.calibration.audit import (
    Audit,
    Tally,
    Whole,
    read_tally,
    read_values,
)
from outrule.calibration.check import Check, Step
from outrule.calibration.checkpoints import Checkpoint
from outrule.calibration.noise import errors_for, tolerance_for
from outrule.calibration.patches import AnyPatch
from outrule.calibration.pieces import REFRESH, Log, Opening, Piece
from outrule.calibration.sources import rounds_for
from outrule.types import Floats, Integers

CLUSTER_SUMS = 1 << 23  # numbers that are held at a time, tests times clusters

Result = TypeVar("Result")


class Engine(Protocol):
    """Where the pieces are: each method is one pass over all of them."""

    def open(self, whole: Whole) -> list[Opening]: ...
    def advance(self, log: Log) -> Tally: ...
    def squares(self, means: Floats) -> list[Floats]: ...
    def cluster_sums(self, n_clusters: int, tests: range) -> Integers: ...


class LocalPieces:
    """Pieces of this process, on threads; memory: one piece per thread."""

    def __init__(self, pieces: Sequence[Piece]):
        self.pieces = pieces

    def open(self, whole: Whole) -> list[Opening]:
        return self._map(lambda piece: piece.open(whole))

    def advance(self, log: Log) -> Tally:
        return reduce(Tally.plus, self._map(lambda piece: piece.advance(log)))

    def squares(self, means: Floats) -> list[Floats]:
        return self._map(lambda piece: piece.squares(means))

    def cluster_sums(self, n_clusters: int, tests: range) -> Integers:
        total = np.zeros((len(tests), n_clusters), dtype=np.int64)
        for piece in self.pieces:  # one at a time: the sums are large
            total += piece.cluster_sums(n_clusters, tests)
        return total

    def _map(self, work: Callable[[Piece], Result]) -> list[Result]:
        # A function of the caller's is not called from other threads.
        many = threads.n_threads() if self.pieces[0].problem.threaded else 1
        with threads.using(many):
            return threads.run(lambda number: work(self.pieces[number]), len(self.pieces))


class PartitionedData:
    """The same instances every round, in pieces; the methods are those of SameData.

    A patch is not applied when it is found but before the next audit, in the same pass.
    """

    def __init__(
        self,
        engine: Engine,
        whole: Whole,
        k: int,
        value_range: tuple[float, float],
        n_counted: int,
        cluster_weight: Floats | None = None,
        checkpoint: Checkpoint | None = None,
    ):
        self.checkpoint = checkpoint
        self.engine, self.whole, self.k, self.value_range = engine, whole, k, value_range
        self.n_counted, self.cluster_weight = n_counted, cluster_weight
        self.span, self.weight = value_range[1] - value_range[0], whole.total_weight
        self.log: list[AnyPatch | None] = []
        openings = engine.open(whole)
        self.marked = sum((one.marked for one in openings[1:]), start=openings[0].marked)
        self.value_sums = sum((one.values for one in openings[1:]), start=openings[0].values)
        unit = 2.0**whole.bits * whole.n
        error = sum(one.squares for one in openings) * self.span**2 / unit / self.span**2
        self.error = min(error, sum(one.offers for one in openings) / unit)

    def next_audit(self, patches: Sequence[AnyPatch]) -> Audit | None:
        return self._audit()

    def audit_afresh(self) -> Audit | None:
        if not self.log or self.log[-1] is REFRESH:
            return None
        self.log.append(REFRESH)
        return self._audit()

    def apply(self, patch: AnyPatch, found: Audit) -> None:
        self.log.append(patch)

    def _audit(self) -> Audit:
        tally = None if self.checkpoint is None else self.checkpoint.take()
        if tally is None:
            tally = self.engine.advance(self.log)
            if self.checkpoint is not None:
                self.checkpoint.add(tally)
        decisions = np.empty((0, 0), dtype=np.uint8)  # they stay where they were made
        return read_tally(tally, self.marked, self.whole, self.k, self.span, decisions)

    def values(self) -> Floats:
        return read_values(self.value_sums, self.whole, self.value_range)

    def supported_tolerance(self) -> float:
        return tolerance_for(self._standard_errors(), self.n_counted, self.k, self.span)

    def _standard_errors(self) -> Floats:
        """As in noise.py, of the start; the last bits of float sums are rounded off there."""
        violations = self._audit().violations
        unit, weight = self.span / 2.0**self.whole.bits, self.cluster_weight
        if weight is None:
            n = self.n_counted
            parts = [] if n == 1 else self.engine.squares(violations)
        else:
            n = int(np.count_nonzero(weight))
            parts = [] if n == 1 else [self._cluster_squares(violations / unit, weight)]
        if n == 1:
            return np.full(len(violations), np.inf)
        squares = np.array([math.fsum(column) for column in zip(*parts, strict=True)])
        return errors_for(squares, n, unit / self.whole.n)

    def _cluster_squares(self, means: Floats, weight: Floats) -> Floats:
        size = max(1, CLUSTER_SUMS // len(weight))
        found = []
        for first, last in threads.spans(size, len(means)):
            sums = self.engine.cluster_sums(len(weight), range(first, last))
            found.append(((sums - weight * means[first:last, None]) ** 2).sum(axis=1))
        return np.concatenate(found)

    def enough_rounds(self, check: Check, step: Step, tolerance: float) -> int:
        return rounds_for(check, step, tolerance / self.span, self.error, self.k)
