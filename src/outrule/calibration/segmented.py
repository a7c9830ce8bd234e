"""Data cut into cells, the overlaps of segments, so that every test is also taken inside each.

A cell lies in or outside of every segment as a whole. So it is audited and patched by itself, as
any data are, and the violation of a test inside a segment is the sum over its cells, each by its
share of the weight. Every instance is in one cell: the audit of all reads the same memory as that
of uncut data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from outrule.calibration.audit import Audit, Part, part_of
from outrule.calibration.noise import supported_tolerance
from outrule.calibration.patches import AnyPatch, replay
from outrule.data.instances import Instances, rows_by
from outrule.data.segments import Segmentation
from outrule.errors import DataError
from outrule.problems.contract import Problem
from outrule.rules.rules import Rule
from outrule.types import Booleans, Floats, Integers

MOST_CELLS = 1_000


class Cell(NamedTuple):
    """Instances that are in the same segments."""

    rows: Integers
    flat: Integers  # their items
    inside: Booleans  # for every segment

    def own(self, patches: Sequence[AnyPatch]) -> list[AnyPatch]:
        """The patches that move its items: those of the whole, and of its segments."""
        return [p for p in patches if p.segment < 0 or self.inside[p.segment]]


def cells_of(instances: Instances, segmentation: Segmentation) -> list[Cell]:
    """The cells of these instances, in the order of their segments."""
    codes = segmentation.codes(instances)
    kinds, number = np.unique(codes, axis=1, return_inverse=True)
    number, n_cells = number.reshape(-1), kinds.shape[1]
    rows, items = (rows_by(of, n_cells) for of in (number, number[instances.instance]))
    numbers = np.arange(len(segmentation))
    parts = zip(rows, items, kinds.T, strict=True)
    return [Cell(some, flat, np.isin(numbers, kind)) for some, flat, kind in parts]


def check_overlaps(n_cells: int) -> None:
    """Raise for segments that would cut the data into too many cells."""
    if n_cells > MOST_CELLS:
        raise DataError(
            f"the segments overlap in {n_cells:,} ways, but at most {MOST_CELLS:,} are "
            "supported: use fewer columns, or a larger min_share."
        )


def cut_part(part: Part, rows: Integers) -> Part:
    """Some of the instances of a part, with the decisions that were made on them."""
    picks = np.ascontiguousarray(part.picks[:, :, rows])
    return part_of(part.instances.take(rows), part.layout.take(rows), picks, part.of_rule)


def segment_noises(
    found: Segmentation, part: Part, prediction: Floats, problem: Problem
) -> list[float]:
    """The tolerances that the data of the segments support."""
    noises = [0.0] * len(found)
    for number, inside in enumerate(found.inside(part.instances)):
        if part.weight[inside].any():  # else a batch has none of it
            some = cut_part(part, np.flatnonzero(inside))
            given = prediction[inside[part.instances.instance]]
            noises[number] = supported_tolerance(some, given, problem)
    return noises


@dataclass(frozen=True, eq=False)
class Blocks:
    """How the audits of cells become those of the whole and of every segment."""

    segmentation: Segmentation
    cells: list[Cell]
    weights: Floats  # the share of every cell

    @classmethod
    def of(cls, instances: Instances, segmentation: Segmentation) -> Blocks:
        cells = cells_of(instances, segmentation)
        check_overlaps(len(cells))
        weight = instances.normalised_weight()
        cells = [cell for cell in cells if weight[cell.rows].any()]
        shares = [instances.take(cell.rows).total_weight() for cell in cells]
        return cls(segmentation, cells, np.array(shares) / instances.total_weight())

    def mean(self, of_cells: Sequence[Any]) -> Any:
        """The mean of something over all instances."""
        return sum(share * one for share, one in zip(self.weights, of_cells, strict=True))

    def tolerating(self, tolerance: float, noises: Sequence[float]) -> Blocks:
        """With the tolerances of the segments: that of the whole, but not less than their noise."""
        pairs = zip(self.segmentation.segments, noises, strict=True)
        segments = tuple(s._replace(tolerance=max(tolerance, noise)) for s, noise in pairs)
        return replace(self, segmentation=replace(self.segmentation, segments=segments))

    def enough_rounds(self, for_whole: int) -> int:
        """Rounds after which the loop has stopped by itself, from those without segments.

        A violation of tau times the share of a segment takes so much less off the squared error.
        """
        least = min([1.0, *(segment.share for segment in self.segmentation.segments)])
        return 1 + math.ceil((for_whole - 1) / least)

    def join(self, audits: Sequence[Audit], tolerance: float) -> Audit:
        """One audit, in which the tests of the whole come first, then those of each segment."""
        inside = np.array([cell.inside for cell in self.cells], dtype=np.bool_)
        shares = np.vstack([self.weights, (inside * self.weights[:, None]).T])
        violations, sizes = (
            np.concatenate([self._rows(row, audits, name) for row in shares])
            for name in ("violations", "sizes")
        )
        segments = self.segmentation.segments
        scale = [1.0, *(s.share * (s.tolerance or tolerance) / tolerance for s in segments)]
        n_tests = len(audits[0].violations)
        return replace(
            audits[0],
            violations=violations,
            sizes=sizes,
            squared_error=float(self.mean([one.squared_error for one in audits])),
            n=sum(one.n for one in audits),
            scale=np.repeat(scale, n_tests),
            n_tests=n_tests,
        )

    def _rows(self, shares: Floats, audits: Sequence[Audit], name: str) -> Floats:
        total = np.zeros(len(audits[0].violations))
        for share, one in zip(shares, audits, strict=True):
            if share:
                total += share * getattr(one, name)
        return total


def replay_in_segments(
    patches: Sequence[AnyPatch],
    segmentation: Segmentation,
    rules: Sequence[Rule],
    problem: Problem,
    instances: Instances,
    start: Floats,
) -> Floats:
    """The calibrated predictions, cell by cell: see ``replay``."""
    result = np.empty_like(start)
    for cell in cells_of(instances, segmentation):
        some = instances.take(cell.rows)
        result[cell.flat] = replay(cell.own(patches), rules, problem, some, start[cell.flat])
    return result
