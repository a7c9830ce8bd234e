"""How the pieces of a file are made: from the file and a few small values, by any process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outrule import threads
from outrule.calibration.audit import farthest_sum, is_outside
from outrule.calibration.log_bases import estimate
from outrule.calibration.pieces import Piece, Store
from outrule.calibration.rivals import ISOTONIC
from outrule.data.instances import Instances
from outrule.model.cutting import NO_CELL, Area, CutFiles
from outrule.model.fitting import Ready
from outrule.model.model import Model
from outrule.model.surveying import FileReader, Survey
from outrule.problems.contract import Layout, Problem
from outrule.rules.decisions import decide_all, distinct
from outrule.rules.rules import Rule
from outrule.types import Floats, Integers

PIECE_BYTES = 1 << 26  # of a piece, one of which every thread has in memory
LEAST_PIECE = 1024  # instances
PER_ROW, PER_INSTANCE = 24, 40  # bytes, besides the decisions of the rules


class Common(NamedTuple):
    """What is the same for all files."""

    blank: Model  # with the start of instances that are not in the sample
    tests: tuple[Rule, ...]
    every: Area  # all the data
    areas: tuple[Area, ...] | None = None  # the cells, where segments cut them


class Extent(NamedTuple):
    """By what the sums of a part of the data are limited, in one file."""

    most_items: int  # that an instance offers
    farthest: float  # estimates of outcomes may be outside of the value range
    outside: bool

    def plus(self, more: Extent) -> Extent:
        return Extent(
            max(self.most_items, more.most_items),
            self.farthest + more.farthest,
            self.outside or more.outside,
        )


Extents = dict[int | None, Extent]
"""By cell; None is all of a file."""


@dataclass(frozen=True, eq=False)
class Recipe:
    """What makes the pieces of a file, besides what is common."""

    reader: FileReader
    sampled: Integers  # the instances that are in the sample, and of their items
    start: Floats  # where the loop starts
    rival: Floats | None  # what the isotonic rival looks at
    cell: Integers | None = None  # of every instance, where segments cut the data

    def starts(self, model: Model, instances: Instances) -> tuple[Floats, Floats | None]:
        """Where the loop starts, and what the isotonic rival looks at.

        For instances of the sample they were cross-fitted; others were not seen by any of it.
        """
        if len(self.sampled) == len(instances):
            return self.start, self.rival
        inside = np.zeros(len(instances), dtype=np.bool_)
        inside[self.sampled] = True
        flat, rest = inside[instances.instance], instances.take(np.flatnonzero(~inside))
        start = np.empty(len(flat))
        start[flat], start[~flat] = self.start, model.start_of(rest)
        if self.rival is None:
            return start, None
        isotonic = np.empty(len(flat))
        frozen = model.problem.lay(rest).per_item.get("frozen")
        isotonic[flat], isotonic[~flat] = self.rival, model.isotonic.apply(rest, frozen)
        return start, isotonic

    def make(
        self, common: Common, instances: Instances, folder: Path
    ) -> tuple[list[Piece], Extents]:
        """The pieces of the file, whose instances are these."""
        model, tests = common.blank, common.tests
        start, rival = self.starts(model, instances)
        carrier = instances if rival is None else replace(instances, start=rival)
        filled, problem = estimate(model.log_base, start, carrier), model.problem
        pieces = list[Piece]()
        items = len(instances.prediction) / len(instances)
        size = int(PIECE_BYTES / (items * PER_ROW + PER_INSTANCE + len(tests) * model.k))
        size = max(LEAST_PIECE, size)
        for number, (first, last) in enumerate(threads.spans(size, len(instances))):
            some = carrier.slice(first, last)
            layout = problem.lay(some)
            decisions = distinct(decide_all(tests, some, problem, layout))
            known = filled.slice(first, last)
            begin = start[instances.offsets[first] : instances.offsets[last]]
            store = folder / str(number)
            if self.cell is None:
                pieces.append(Piece.of(Store(store), known, layout, *decisions, begin, problem))
            else:
                cell, fixed = self.cell[first:last], (layout, *decisions, begin, problem)
                pieces += _cut_piece(store, cell, known.without_origin(), *fixed)
        return pieces, self._extents(common, filled.without_origin())

    def _extents(self, common: Common, filled: Instances) -> Extents:
        found: Extents = {None: _extent(filled, common.every)}
        if self.cell is not None and common.areas is not None:
            for cell in np.unique(self.cell[self.cell != NO_CELL]).tolist():
                some = filled.take(np.flatnonzero(self.cell == cell))
                found[cell] = _extent(some, common.areas[cell])
        return found


def _cut_piece(
    folder: Path,
    cell: Integers,
    known: Instances,
    layout: Layout,
    picks: NDArray[Any],
    of_rule: Integers,
    start: Floats,
    problem: Problem,
) -> Iterator[Piece]:
    """One piece for each cell that some instances are in; those that are in none are left out."""
    for number in np.unique(cell[cell != NO_CELL]).tolist():
        rows = np.flatnonzero(cell == number)
        decided = (np.ascontiguousarray(picks[:, :, rows]), of_rule)
        begin = start[(cell == number)[known.instance]]
        store = Store(folder / str(number))
        fixed = (known.take(rows), layout.take(rows), *decided, begin, problem)
        yield Piece.of(store, *fixed, number)


def _extent(filled: Instances, area: Area) -> Extent:
    assert filled.outcome is not None
    return Extent(
        int(np.diff(filled.offsets).max()),
        farthest_sum(filled, filled.outcome, *area),
        is_outside(filled.outcome, filled.value_range),
    )


def recipes_of(
    found: Survey, ready: Ready, rivals: tuple[str, ...], cut: CutFiles | None = None
) -> Iterator[Recipe]:
    """Those of all files."""
    offsets, first = found.sample.offsets, 0
    rival = ready.instances.start if ISOTONIC in rivals else None
    pairs = zip(found.readers, found.sampled, strict=True)
    for number, (reader, sampled) in enumerate(pairs):
        last = first + len(sampled)
        items = slice(int(offsets[first]), int(offsets[last]))
        first = last
        own = None if rival is None else rival[items]
        cell = None if cut is None else cut.cell[number]
        yield Recipe(reader, sampled, ready.start[items], own, cell)
