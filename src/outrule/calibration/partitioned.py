"""The data of a loop in pieces: every round maps over them, and adds up what they answer.

Segments cut the data into cells, each of which is audited and patched as any data are: see
``outrule.calibration.segmented``. Without segments there is one.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from outrule import threads
from outrule.calibration.audit import Audit, Tally, Whole, read_tally, read_values
from outrule.calibration.check import Check, Step
from outrule.calibration.checkpoints import Checkpoint
from outrule.calibration.noise import errors_for, tolerance_for
from outrule.calibration.patches import AnyPatch
from outrule.calibration.pieces import REFRESH, Log, Opening, Piece, Question
from outrule.calibration.segmented import Blocks
from outrule.calibration.sources import rounds_for
from outrule.data.segments import Segmentation
from outrule.types import Floats, Integers

CLUSTER_SUMS = 1 << 23  # numbers that are held at a time, tests times clusters
Opened = Sequence[tuple[Whole, ...]]  # what pieces of every cell are opened with


class Engine(ABC):
    """Where the pieces are: each method is one pass over them; answers come with their cells."""

    opened_with: Opened = ()

    def open(self, wholes: Sequence[Whole], every: Whole) -> list[tuple[int, Opening]]:
        alone = len(wholes) == 1 and wholes[0] is every
        self.opened_with = [(every,)] if alone else [(one, every) for one in wholes]
        return self._ask(Question("open", self.opened_with))

    def advance(self, logs: Sequence[Log]) -> list[Tally]:
        return add_tallies(self._ask(Question("advance", [(list(log),) for log in logs])))

    def squares(self, means: Sequence[Floats | None]) -> list[tuple[int, Floats]]:
        return self._ask(Question("squares", [None if one is None else (one,) for one in means]))

    @abstractmethod
    def cluster_sums(self, n_clusters: int, tests: range, cell: int) -> Integers: ...

    @abstractmethod
    def _ask(self, question: Question) -> list[tuple[int, Any]]: ...


class LocalPieces(Engine):
    """Pieces of this process, on threads; memory: one piece per thread."""

    def __init__(self, pieces: Sequence[Piece]):
        self.pieces = pieces

    def cluster_sums(self, n_clusters: int, tests: range, cell: int) -> Integers:
        total = np.zeros((len(tests), n_clusters), dtype=np.int64)
        for piece in self.pieces:  # one at a time: the sums are large
            if piece.cell == cell:
                total += piece.cluster_sums(n_clusters, tests)
        return total

    def _ask(self, question: Question) -> list[tuple[int, Any]]:
        # A function of the caller's is not called from other threads.
        many = threads.n_threads() if self.pieces[0].problem.threaded else 1
        with threads.using(many):
            found = threads.run(lambda n: question.ask(self.pieces[n : n + 1]), len(self.pieces))
        return [one for some in found for one in some]


def add_tallies(found: Sequence[tuple[int, Tally]]) -> list[Tally]:
    """The sums of every cell, from those of pieces."""
    return [reduce(Tally.plus, some) for some in by_cell(found).values()]


def by_cell(found: Sequence[tuple[int, Any]]) -> dict[int, list[Any]]:
    """Answers by the cells of the pieces that gave them, which are in order."""
    parts: dict[int, list[Any]] = {cell: [] for cell in sorted({cell for cell, _ in found})}
    for cell, one in found:
        parts[cell].append(one)
    return parts


class CellGroup(NamedTuple):
    """Cells that are judged together: all of them, or those of a segment."""

    cells: Sequence[int]
    n_counted: int  # instances with a weight
    cluster_weight: Floats | None  # normalised, where observations are clusters


class PartitionedData:
    """The same instances every round, in pieces; the methods are those of SameData.

    A patch is not applied when it is found but before the next audit, in the same pass.
    """

    def __init__(
        self,
        engine: Engine,
        every: Whole,
        wholes: Sequence[Whole],
        k: int,
        value_range: tuple[float, float],
        group: CellGroup,
        checkpoint: Checkpoint | None = None,
    ):
        self.checkpoint, self.engine = checkpoint, engine
        self.every, self.wholes, self.k, self.value_range = every, wholes, k, value_range
        self.group = group
        self.span, self.weight = value_range[1] - value_range[0], every.total_weight
        self.logs: list[list[AnyPatch | None]] = [[] for _ in wholes]
        self.violations: list[Floats] = []  # of the start, in every cell
        openings = list(by_cell(engine.open(wholes, every)).values())
        all_of_them = [one for some in openings for one in some]
        self.marked = [sum(one.marked for one in some) for some in openings]
        self.value_sums = np.asarray(sum(one.values for one in all_of_them))
        squares = [sum(one.squares for one in some) for some in openings]
        self.errors = [
            total * self.span**2 / (2.0**whole.bits * whole.n)
            for total, whole in zip(squares, wholes, strict=True)
        ]
        self.offers = sum(one.offers for one in all_of_them) / (2.0**every.bits * every.n)

    def next_audit(self, patches: Sequence[AnyPatch]) -> Audit | None:
        return self._join(self._audits())

    def audit_afresh(self) -> Audit | None:
        moved = [log for log in self.logs if log and log[-1] is not REFRESH]
        for log in moved:
            log.append(REFRESH)
        return self._join(self._audits()) if moved else None

    def apply(self, patch: AnyPatch, found: Audit) -> None:
        self.logs[0].append(patch)

    def _join(self, audits: list[Audit]) -> Audit:
        return audits[0]

    def _audits(self) -> list[Audit]:
        """One of every cell."""
        tallies = None if self.checkpoint is None else self.checkpoint.take()
        if tallies is None:
            tallies = self.engine.advance(self.logs)
            if self.checkpoint is not None:
                self.checkpoint.add(tallies)
        decisions = np.empty((0, 0), dtype=np.uint8)  # they stay where they were made
        return [
            read_tally(tally, marked, whole, self.k, self.span, decisions)
            for tally, marked, whole in zip(tallies, self.marked, self.wholes, strict=True)
        ]

    def values(self) -> Floats:
        return read_values(self.value_sums, self.every, self.value_range)

    def squared_error(self) -> float:
        """That of the start."""
        return float(self.errors[0])

    def supported_tolerance(self) -> float:
        self.violations = [audit.violations for audit in self._audits()]
        return self._noise([self.group])[0]

    def _noise(self, groups: Sequence[CellGroup]) -> list[float]:
        """The tolerance that the data of groups support, which have no cell in common.

        As in noise.py, of the start; the last bits of float sums are rounded off there.
        """
        means = [self._mean(group) for group in groups]
        if self.group.cluster_weight is not None:
            errors = list(map(self._cluster_errors, groups, means))
        else:
            errors = self._errors(groups, means)
        return [
            tolerance_for(found, group.n_counted, self.k, self.span)
            for found, group in zip(errors, groups, strict=True)
        ]

    def _errors(self, groups: Sequence[CellGroup], means: Sequence[Floats]) -> list[Floats]:
        """The standard errors of groups, from the sums of squares of the pieces of their cells."""
        asked: list[Floats | None] = [None] * len(self.wholes)
        for group, mean in zip(groups, means, strict=True):
            for cell in group.cells:
                asked[cell] = mean
        parts, errors = by_cell(self.engine.squares(asked)), []
        for group in groups:
            units = [(self._unit(group, cell) ** 2, cell) for cell in group.cells]
            rows = [row * unit for unit, cell in units for row in parts[cell]]
            squares = np.array([math.fsum(column) for column in zip(*rows, strict=True)])
            errors.append(errors_for(squares, group.n_counted, 1 / self._size(group)[0]))
        return errors

    def _cluster_errors(self, group: CellGroup, mean: Floats) -> Floats:
        weight = group.cluster_weight
        assert weight is not None
        found = []
        for first, last in threads.spans(max(1, CLUSTER_SUMS // len(weight)), len(mean)):
            total = np.zeros((last - first, len(weight)))
            for cell in group.cells:
                sums = self.engine.cluster_sums(len(weight), range(first, last), cell)
                total += sums * self._unit(group, cell)
            found.append(((total - weight * mean[first:last, None]) ** 2).sum(axis=1))
        squares = np.concatenate(found)
        return errors_for(squares, int(np.count_nonzero(weight)), 1 / self._size(group)[0])

    def _size(self, group: CellGroup) -> tuple[int, float]:
        """The number of a group's instances, and their weight."""
        wholes = [self.wholes[cell] for cell in group.cells]
        return sum(whole.n for whole in wholes), sum(whole.total_weight for whole in wholes)

    def _mean(self, group: CellGroup) -> Floats:
        """The violations in all cells of a group together."""
        _, total = self._size(group)
        shares = ((self.wholes[cell].total_weight / total, cell) for cell in group.cells)
        return np.asarray(sum(share * self.violations[cell] for share, cell in shares))

    def _unit(self, group: CellGroup, cell: int) -> float:
        """What one of the integers of a cell is, where weights have mean one in the group."""
        whole = self.wholes[cell]
        n, total = self._size(group)
        return self.span / 2.0**whole.bits * (n / total) * (whole.total_weight / whole.n)

    def enough_rounds(self, check: Check, step: Step, tolerance: float) -> int:
        error = min(self.squared_error() / self.span**2, self.offers)
        return rounds_for(check, step, tolerance / self.span, error, self.k)


class PartitionedCells(PartitionedData):
    """The same for data that segments cut into cells; the methods are those of CellData."""

    def __init__(self, blocks: Blocks, groups: Sequence[Sequence[CellGroup]], *given: Any):
        super().__init__(*given)
        self.blocks, self.tolerance = blocks, math.nan
        self.groups = groups  # of every entry of the segments, in their order

    def apply(self, patch: AnyPatch, found: Audit) -> None:
        for cell, log in zip(self.blocks.cells, self.logs, strict=True):
            log.extend(cell.own([patch]))

    def _join(self, audits: list[Audit]) -> Audit:
        return self.blocks.join(audits, self.tolerance)

    def squared_error(self) -> float:
        return float(self.blocks.mean(self.errors))

    def tolerate(self, tolerance: float, *, noisy: bool) -> Segmentation:
        """Set what is tolerated, in segments not less than their noise if that is asked for."""
        noises = [0.0] * len(self.blocks.segmentation)
        if noisy:
            noises = [noise for groups in self.groups for noise in self._noise(groups)]
        self.blocks, self.tolerance = self.blocks.tolerating(tolerance, noises), tolerance
        return self.blocks.segmentation

    def enough_rounds(self, check: Check, step: Step, tolerance: float) -> int:
        return self.blocks.enough_rounds(super().enough_rounds(check, step, tolerance))
