"""A piece of data that are too large for memory: its arrays in files, read when it is its turn.

A piece is audited and patched by itself. What leaves it are integer sums, so the sums over all
pieces have the same bits however the data are cut. Its state depends only on the data and on the
log, the list of what happened to it: a piece that was lost is made again, and the log replayed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outrule.calibration.audit import (
    OPTIMISER,
    Part,
    Tally,
    Whole,
    part_of,
    residuals,
    tally,
    value_sums,
)
from outrule.calibration.incremental import IncrementalAudit, Ledger
from outrule.calibration.noise import squares_of
from outrule.calibration.patches import AnyPatch, first_point, patch_part
from outrule.data.instances import Instances
from outrule.data.scratch import spill
from outrule.problems.contract import Layout, Problem
from outrule.rules.decisions import compact
from outrule.types import Floats, Integers

REFRESH = None  # in a log: compute anew what steps have moved by rounded amounts
SMALL = 1 << 12  # bytes of an array that is not worth a file

Log = Sequence[AnyPatch | None]


class Store:
    """Arrays by name, in files of a folder that are mapped into memory while they are used."""

    def __init__(self, folder: Path):
        self.folder, self.small = folder, dict[str, NDArray[Any]]()
        # Here and not in the files: NumPy reads what it has written there by Python's parser, which
        # fails at random on threads of Python 3.11.
        self.kinds = dict[str, tuple[np.dtype[Any], tuple[int, ...]]]()
        folder.mkdir(parents=True)

    def __setitem__(self, name: str, array: NDArray[Any]) -> None:
        if array.nbytes <= SMALL:
            self.small[name] = array
        elif name in self.kinds:  # it is never cut short, for it may be mapped
            self[name][...] = array
        else:  # written, not mapped: a full disk is then an error and no crash
            spill(self.folder / name, array)
            self.kinds[name] = array.dtype, array.shape

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name in self.small:
            return self.small[name]
        dtype, shape = self.kinds[name]
        return np.asarray(np.memmap(self.folder / name, dtype, "r+", shape=shape))


class Question(NamedTuple):
    """What is asked of pieces: the name of a method, and what it is given in every cell.

    Where data are not cut by segments, all are one cell. None: pieces of this cell are not asked.
    """

    method: str
    given: Sequence[tuple[Any, ...] | None]

    def ask(self, pieces: Sequence[Piece]) -> list[tuple[int, Any]]:
        """The answers of those that are asked, with their cells."""
        pairs = ((piece, self.given[piece.cell]) for piece in pieces)
        return [
            (piece.cell, getattr(piece, self.method)(*given))
            for piece, given in pairs
            if given is not None
        ]


class Opening(NamedTuple):
    """The sums of a piece that are needed once, before the first round."""

    marked: Integers
    values: Integers  # of every rule
    squares: int  # the squared error of the start
    offers: int  # items on offer, by weight; as the values in the units of all the data


@dataclass
class Piece:
    """Instances with the decisions of all rules on them, and the state of the loop there."""

    store: Store
    problem: Problem
    value_range: tuple[float, float]
    k: int
    of_rule: Integers
    layout_arrays: tuple[tuple[str, str], ...]  # kind and name of those of the problem
    weighted: bool
    cell: int = 0  # of those that segments cut the data into
    whole: Whole | None = None  # of its cell
    version: int = 0  # how much of the log has been applied
    ledger: Ledger | None = None  # its large arrays are in the store

    @classmethod
    def of(
        cls,
        store: Store,
        instances: Instances,
        layout: Layout,
        picks: NDArray[Any],
        of_rule: Integers,
        start: Floats,
        problem: Problem,
        cell: int = 0,
    ) -> Piece:
        """Keep what the loop needs of these instances; their outcomes are known or estimated."""
        assert instances.outcome is not None
        store["prediction"] = first_point(start, problem, layout)
        store["outcome"], store["offsets"] = instances.outcome, layout.offsets
        store["picks"] = picks
        for name in ("weight", "cluster"):
            if getattr(instances, name) is not None:
                store[name] = getattr(instances, name)
        names = []
        for kind in ("per_item", "per_instance", "shared"):
            for name, array in getattr(layout, kind).items():
                store[f"{kind}.{name}"] = array
                names.append((kind, name))
        weighted = instances.weight is not None
        fixed = (problem, instances.value_range, layout.k, of_rule, tuple(names), weighted, cell)
        return cls(store, *fixed)

    def open(self, whole: Whole, every: Whole | None = None) -> Opening:
        """Learn what the data of its cell are like, and all of them if there are more."""
        self.whole = whole
        layout = self._layout()
        fixed = (self._instances(layout), layout, self.store["picks"], self.of_rule)
        part = part_of(*fixed, whole)
        self.store["movable"], self.store["marked"] = part.movable, part.marked
        squares = residuals(part, self.store["prediction"])[1]
        marked, sizes = part.marked, np.diff(layout.offsets)
        if every is not None:
            part = part_of(*fixed, every)
        unit = 2.0**part.bits
        offers = int((np.rint(part.weight * unit).astype(np.int64) * sizes).sum())
        return Opening(marked, value_sums(part), squares, offers)

    def advance(self, log: Log) -> Tally:
        """Apply what is new in the log, and audit."""
        part, prediction = self._part(), self.store["prediction"]
        if self.problem.simplex or self.weighted:  # as in SameData
            new = [entry for entry in log[self.version :] if entry is not REFRESH]
            patch_part(part, prediction, new, self.problem)
            self.version = len(log)
            return tally(part, prediction, self.problem)[0]
        kept = self.ledger
        if kept is not None:
            kept = replace(kept, arrays={name: self.store[name] for name in kept.arrays})
        state = IncrementalAudit(part, prediction, self.problem, kept)
        known = None if kept is None else self.store["optimiser"]  # of the predictions as they are
        for entry in log[self.version :]:
            if entry is REFRESH:
                state.refresh()
            elif entry.test == OPTIMISER:
                state.apply(entry, state.tally()[1] if known is None else known)
            else:
                state.apply(entry, part.picks[:0])
            known = None
        self.version = len(log)
        sums, optimiser = state.tally()
        self._keep(state, kept, optimiser)
        return sums

    def squares(self, means: Floats) -> Floats:
        """How the residual sums of every test vary over the instances, before any patch."""
        part, residual, own = self._start()
        return squares_of(part, residual, own, means, np.arange(len(part.layout)), part.weight)

    def cluster_sums(self, n_clusters: int, tests: range) -> Integers:
        """The residual sums of some tests by cluster, before any patch; (n_tests, n_clusters)."""
        group = self.store["cluster"]
        part, residual, own = self._start()
        first, sizes = part.layout.offsets[:-1], np.diff(part.layout.offsets)
        result = np.zeros((len(tests), n_clusters), dtype=np.int64)
        rows = [own if t == len(self.of_rule) else part.picks[self.of_rule[t]] for t in tests]
        for total, picks in zip(result, rows, strict=True):
            for positions in picks:
                chosen = np.flatnonzero(positions < sizes)
                values = residual[first[chosen] + positions[chosen].astype(np.int64)]
                np.add.at(total, group[chosen], values)
        return result

    def _start(self) -> tuple[Part, Integers, NDArray[Any]]:
        """The instances before any patch: their residuals, and the optimiser's decisions."""
        part, prediction = self._part(), self.store["prediction"]
        own = compact(self.problem.pick_on_threads(prediction, part.layout), part.layout)
        return part, residuals(part, prediction)[0], own

    def _keep(self, state: IncrementalAudit, before: Ledger | None, optimiser: Any) -> None:
        """Write the arrays that are new; those of the files were changed in place."""
        now, old = state.ledger, {} if before is None else before.arrays
        for name, array in now.arrays.items():
            if array is not old.get(name):
                self.store[name] = array
        # After the decisions that were counted last, which may be those that it had before.
        self.store["optimiser"] = optimiser
        self.ledger = replace(now, arrays=dict.fromkeys(now.arrays, np.empty(0)))

    def _layout(self) -> Layout:
        arrays: dict[str, Any] = {"per_item": {}, "per_instance": {}, "shared": {}}
        for kind, name in self.layout_arrays:
            arrays[kind][name] = self.store[f"{kind}.{name}"]
        return Layout(self.store["offsets"], self.k, None, **arrays)

    def _instances(self, layout: Layout) -> Instances:
        """The numbers of the instances; rules and names are not needed any more."""
        origin: Any = None
        weight = self.store["weight"] if self.weighted else None
        return Instances(
            self.store["prediction"],
            layout.offsets,
            origin,
            outcome=self.store["outcome"],
            weight=weight,
            value_range=self.value_range,
        )

    def _part(self) -> Part:
        assert self.whole is not None
        layout = self._layout()
        instances = self._instances(layout)
        weight = instances.normalised_weight(self.whole.n, self.whole.total_weight)
        fixed = (instances, self.store["outcome"], layout, self.store["picks"], self.of_rule)
        rest = (self.store["movable"], self.store["marked"])
        return Part(*fixed, weight, self.whole, *rest)
