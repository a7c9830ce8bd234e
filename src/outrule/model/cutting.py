"""How segments cut partitioned data into cells, from the first look at all files."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from outrule.calibration.partitioned import CellGroup
from outrule.calibration.segmented import Blocks, Cell, check_overlaps
from outrule.data.segments import Segmentation, Segments, cut_values, split_weights
from outrule.model.surveying import Survey
from outrule.types import Booleans, Integers

NO_CELL = -1  # of instances that have no weight in any


class Area(NamedTuple):
    """How many instances a cell has, and what they weigh."""

    n: int
    total_weight: float


@dataclass(frozen=True, eq=False)
class CutFiles:
    """The segments of all files, the cells that they overlap in, and those of the instances."""

    found: Survey
    segmentation: Segmentation
    inside: Booleans  # whether a cell is in a segment, (n_cells, n_segments)
    cell: list[Integers]  # of every instance of a file
    areas: tuple[Area, ...]

    @property
    def blocks(self) -> Blocks:
        """How audits of cells become those of segments."""
        nothing = np.empty(0, dtype=np.int64)
        cells = [Cell(nothing, nothing, inside) for inside in self.inside]
        weights = np.array([area.total_weight for area in self.areas])
        return Blocks(self.segmentation, cells, weights / self.found.total_weight)

    def groups(self) -> list[list[CellGroup]]:
        """The cells of every segment, by the entries of ``by``."""
        segments = self.segmentation.segments
        return [
            [self._group(i) for i, segment in enumerate(segments) if segment.columns == columns]
            for columns in self.segmentation.by.by
        ]

    def _group(self, segment: int) -> CellGroup:
        cells = np.flatnonzero(self.inside[:, segment])
        inside, found = [np.isin(codes, cells) for codes in self.cell], self.found
        counted = [
            int(np.count_nonzero(found.weight_of(number)[some]))
            for number, some in enumerate(inside)
        ]
        areas = [self.areas[cell] for cell in cells.tolist()]
        scale = sum(area.n for area in areas) / sum(area.total_weight for area in areas)
        return CellGroup(cells.tolist(), sum(counted), found.cluster_weight(scale, inside))


def cut_files(found: Survey, by: Segments) -> CutFiles:
    """As ``outrule.data.segments.cut`` and ``cells_of`` on all instances."""
    assert found.numbers is not None
    weight = np.concatenate([found.weight_of(number) for number in range(len(found.counts))])
    rows = [np.concatenate(row) for row in zip(*found.numbers, strict=True)]
    read = list(zip(rows, found.values, strict=True))
    segmentation = cut_values(by, read, weight)
    codes = [
        segmentation.codes_of(columns, values)[row]
        for columns, values, row in zip(by.by, found.values, rows, strict=True)
    ]
    kinds, number = np.unique(np.array(codes), axis=1, return_inverse=True)
    check_overlaps(kinds.shape[1])
    number = number.reshape(-1)
    kept = np.bincount(number, weight > 0, kinds.shape[1]) > 0
    renumbered = np.where(kept, np.cumsum(kept) - 1, NO_CELL)[number].astype(np.int32)
    ends = np.cumsum(found.counts)[:-1]
    inside = np.array([np.isin(np.arange(len(segmentation)), kind) for kind in kinds.T[kept]])
    some = renumbered != NO_CELL
    parts = split_weights(weight[some], renumbered[some], int(kept.sum()))
    areas = tuple(Area(len(part), math.fsum(part)) for part in parts)
    return CutFiles(found, segmentation, inside, np.split(renumbered, ends), areas)
