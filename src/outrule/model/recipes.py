"""How the pieces of a file are made: from the file and a few small values, by any process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from outrule import threads
from outrule.calibration.audit import farthest_sum, is_outside
from outrule.calibration.pieces import Piece, Store
from outrule.calibration.rivals import ISOTONIC
from outrule.data.instances import Instances
from outrule.model.fitting import Ready
from outrule.model.log_bases import estimate
from outrule.model.model import Model
from outrule.model.surveying import Reader, Survey
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
    n: int
    total_weight: float


class Extent(NamedTuple):
    """How far estimates of outcomes are outside of the value range, by which sums are limited."""

    farthest: float
    outside: bool


@dataclass(frozen=True, eq=False)
class Recipe:
    """What makes the pieces of a file, besides what is common."""

    reader: Reader
    sampled: Integers  # the instances that are in the sample, and of their items
    start: Floats  # where the loop starts
    rival: Floats | None  # what the isotonic rival looks at

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
    ) -> tuple[list[Piece], Extent]:
        """The pieces of the file, whose instances are these."""
        model, tests = common.blank, common.tests
        start, rival = self.starts(model, instances)
        carrier = instances if rival is None else replace(instances, start=rival)
        filled, problem, pieces = (
            estimate(model.log_base, start, carrier),
            model.problem,
            list[Piece](),
        )
        size = piece_size(len(instances.prediction) / len(instances), len(tests), model.k)
        for number, (first, last) in enumerate(threads.spans(size, len(instances))):
            some = carrier.slice(first, last)
            layout = problem.lay(some)
            decisions = distinct(decide_all(tests, some, problem, layout))
            known = filled.slice(first, last)
            begin = start[instances.offsets[first] : instances.offsets[last]]
            store = Store(folder / str(number))
            pieces.append(Piece.of(store, known, layout, *decisions, begin, problem))
        assert filled.outcome is not None
        farthest = farthest_sum(filled, filled.outcome, common.n, common.total_weight)
        return pieces, Extent(farthest, is_outside(filled.outcome, filled.value_range))


def piece_size(items: float, n_tests: int, k: int) -> int:
    """How many instances a piece has."""
    per_instance = items * PER_ROW + PER_INSTANCE + n_tests * k
    return max(LEAST_PIECE, int(PIECE_BYTES / per_instance))


def recipes_of(found: Survey, ready: Ready, rivals: tuple[str, ...]) -> Iterator[Recipe]:
    """Those of all files."""
    offsets, first = found.sample.offsets, 0
    rival = ready.instances.start if ISOTONIC in rivals else None
    for number in range(len(found.files)):
        sampled = found.sampled(number)
        last = first + len(sampled)
        items = slice(int(offsets[first]), int(offsets[last]))
        first = last
        own = None if rival is None else rival[items]
        yield Recipe(found.reader(number), sampled, ready.start[items], own)
