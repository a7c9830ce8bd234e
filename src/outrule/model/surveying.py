"""The first look at partitioned data: every value is checked, and what all files share is found."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from outrule.data.checks import check_counts
from outrule.data.fingerprints import Fingerprint
from outrule.data.instances import Instances
from outrule.data.origin import TableOrigin
from outrule.data.partitions import (
    File,
    Partitions,
    Stamp,
    check_schemas,
    choose_sample,
    count_instances,
    naming,
    stamp_of,
)
from outrule.data.segments import Segments, Value, values_of
from outrule.data.tables import number_items
from outrule.errors import DataError
from outrule.problems.contract import Problem
from outrule.types import Booleans, Floats, Integers


def check_unchanged(file: File, stamp: Stamp, whole: bool) -> None:
    """Raise for a file that is not what it was when it was first read."""
    if not whole or stamp_of(file) != stamp:
        raise DataError(f"{file.path} has changed since it was first read: start again.")


@dataclass(frozen=True, eq=False)
class FileReader:
    """Reads a file as a part of all the data; small, so that it can be sent to a worker."""

    data: Partitions
    file: File
    stamp: Stamp
    order: tuple[str, ...]
    count: int
    item_names: tuple[Any, ...] | None
    cluster: Integers | None

    def read(self) -> Instances:
        """The file's instances, with items and clusters numbered as in all the data."""
        instances, _ = self.data.read(self.file, self.order)
        check_unchanged(self.file, self.stamp, len(instances) == self.count)
        changes: dict[str, Any] = {}
        if self.item_names is not None and instances.codes is not None:
            index = {name: code for code, name in enumerate(self.item_names)}
            codes = np.array([index[name] for name in instances.item_names or ()], dtype=np.int32)
            changes = {"codes": codes[instances.codes], "item_names": self.item_names}
        if self.cluster is not None:
            changes["cluster"] = self.cluster
        return replace(instances, **changes)


@dataclass(frozen=True, eq=False)
class Survey:
    """What is known of all the data after every file was read once."""

    data: Partitions
    readers: tuple[FileReader, ...]  # of the files that have rows
    counts: Integers  # instances of every file
    n_rows: int
    k: int
    item_names: tuple[Any, ...] | None
    weight: list[Floats] | None  # of every file's instances
    cluster: list[Integers] | None
    nullable: frozenset[str]  # columns with nulls in some file
    unknown: bool  # whether some propensities are
    numbers: list[NDArray[Any]] | None  # of segments' values, (n_by, n) per file
    values: tuple[list[Value], ...]  # what they stand for, of every entry
    sampled: tuple[Integers, ...]  # which instances of every file are in the sample
    sample: Instances
    checked: Instances  # the sample, and instances with the items that it lacks

    @property
    def n(self) -> int:
        return int(self.counts.sum())

    @property
    def total_weight(self) -> float:
        """As that of Instances, the same for any cut."""
        if self.weight is None:
            return float(self.n)
        return math.fsum(chain.from_iterable(part.tolist() for part in self.weight))

    @property
    def n_counted(self) -> int:
        """How many instances have a weight."""
        if self.weight is None:
            return self.n
        return int(sum(np.count_nonzero(part) for part in self.weight))

    def weight_of(self, number: int) -> Floats:
        """Of every instance of a file."""
        return np.ones(int(self.counts[number])) if self.weight is None else self.weight[number]

    def cluster_weight(self, scale: float, inside: Sequence[Booleans] | None = None) -> Any:
        """The weight of every cluster times ``scale``, of all instances or of some; None for none.

        ``inside`` says of each file which of its instances count.
        """
        if self.cluster is None:
            return None
        total = np.zeros(1 + max(int(codes.max()) for codes in self.cluster))
        for number, codes in enumerate(self.cluster):
            weight = self.weight_of(number) * scale
            some = slice(None) if inside is None else inside[number]
            np.add.at(total, codes[some], weight[some])
        return total

    def digest(self) -> Fingerprint:
        """What the fingerprint of all instances is made with, file by file: see ``add_to``."""
        estimated = self.data.columns.propensity_estimated
        return Fingerprint((self.data.value_range, self.item_names, estimated))

    def add_to(self, digest: Fingerprint, instances: Instances) -> None:
        """The instances of the next file."""
        digest.add(instances.fields())
        digest.add((f"column {name!r}", column) for name, column in self.columns(instances))

    def columns(self, instances: Instances) -> Iterator[tuple[str, NDArray[Any]]]:
        """A file's columns that rules may look at, of the types that they have in all the data."""
        origin = instances.origin
        assert isinstance(origin, TableOrigin)
        for name in origin.frame.columns:
            series = origin.frame[name]
            if name not in self.nullable or series.null_count():
                yield name, origin.column(name)
                continue
            null = pl.Series(name, [None], dtype=series.dtype)  # integers become floats with it
            longer = pl.DataFrame([pl.concat([series, null])])
            yield name, replace(origin, frame=longer).column(name)[:-1]


def survey(
    data: Partitions,
    problem: Problem,
    sample: int | None = None,
    segments: Segments | None = None,
) -> Survey:
    """Read every file, check its values, and take a sample of all of them.

    Of the columns by which segments are cut, the values of all instances are kept.
    """
    schema = check_schemas(data.files)
    if data.columns.instance not in schema:
        data.read(data.files[0], list(schema))  # which says what is missing
    counts = count_instances(data.files, str(data.columns.instance))
    chosen = choose_sample(int(counts.sum()), data.sample if sample is None else sample)
    look = _Look(data, problem, tuple(schema), chosen, segments)
    for file, count in zip(data.files, counts.tolist(), strict=True):
        if count:
            look.at(file, count)
    return look.survey(counts[counts > 0])


class _Look:
    """What the files seen so far have in common."""

    def __init__(
        self,
        data: Partitions,
        problem: Problem,
        order: Sequence[str],
        chosen: Integers,
        segments: Segments | None,
    ):
        self.data, self.problem, self.order, self.chosen = data, problem, tuple(order), chosen
        self.by = () if segments is None else segments.by
        self.numbers: list[NDArray[Any]] = []
        self.values: list[dict[Value, int]] = [{} for _ in self.by]
        self.first, self.n_rows, self.k = 0, 0, 1
        self.unknown = False
        self.items: pl.Series | None = None
        self.weight: list[Floats] = []
        self.cluster: list[Integers] = []
        self.cluster_codes: dict[Any, int] = {}
        self.nullable: set[str] = set()
        self.frames: list[pl.DataFrame] = []
        self.witnesses: list[pl.DataFrame] = []
        self.n_witnesses = 0  # instances, which are no more than the sample may have
        self.readers: list[FileReader] = []
        self.sampled: list[Integers] = []

    def at(self, file: File, count: int) -> None:
        stamp, cluster = stamp_of(file), None
        instances, frame = self.data.read(file, self.order)
        with naming(file):
            instances.require_observed("fit")
            self.problem.check_data(instances)
            self.k = max(self.k, self.problem.lay(instances).k)
            if self.by:
                self.numbers.append(self._number_values(instances))
        check_unchanged(file, stamp, len(instances) == count)
        self.n_rows += frame.height
        if instances.weight is not None:
            self.weight.append(instances.weight)
        if instances.cluster is not None:
            cluster = self._clusters(instances)
            self.cluster.append(cluster)
        self.readers.append(FileReader(self.data, file, stamp, self.order, count, None, cluster))
        if instances.propensity is not None:
            self.unknown |= bool(np.isnan(instances.propensity).any())
        nulls = frame.null_count().row(0)
        self.nullable |= {name for name, number in zip(self.order, nulls, strict=True) if number}
        begin, end = np.searchsorted(self.chosen, (self.first, self.first + count))
        self.sampled.append(self.chosen[begin:end] - self.first)
        self._take(instances, frame, self.sampled[-1])
        self.first += count

    def _take(self, instances: Instances, frame: pl.DataFrame, sampled: Integers) -> None:
        """Keep the rows of the sample, and an instance for each item that is new."""
        kept = frame
        if len(sampled) < len(instances):
            kept = frame[_rows(instances, sampled)]
        self.frames.append(kept)
        name = self.data.columns.item
        if name is None:
            return
        labels = frame[name].unique()
        known = self.items
        new = labels if known is None else labels.filter(~labels.is_in(known.implode()))
        self.items = labels if known is None else pl.concat([known, new])
        if len(sampled) < len(instances) and self.n_witnesses < self.data.sample:
            self._witness(instances, frame, sampled, set(new.to_list()))

    def _witness(
        self, instances: Instances, frame: pl.DataFrame, sampled: Integers, new: set[Any]
    ) -> None:
        """Keep the first instance of each new item that the sample lacks."""
        codes, names = instances.codes, instances.item_names
        assert codes is not None
        assert names is not None
        found, first = np.unique(codes, return_index=True)
        inside = np.isin(found, codes[np.isin(instances.instance, sampled)])
        wanted = [name in new for name in names]
        owners = np.unique(instances.instance[first[~inside & np.array(wanted)[found]]])
        if len(owners):
            self.witnesses.append(frame[_rows(instances, owners)])
            self.n_witnesses += len(owners)

    def _number_values(self, instances: Instances) -> NDArray[Any]:
        """The values of the columns of segments, numbered as in all files; (n_by, n)."""
        found = np.empty((len(self.by), len(instances)), dtype=np.int32)
        for row, columns, known in zip(found, self.by, self.values, strict=True):
            number, values = values_of(instances, columns)
            row[:] = np.array([known.setdefault(one, len(known)) for one in values])[number]
        return found

    def _clusters(self, instances: Instances) -> Integers:
        """Their numbers, in the order in which the rows of all files name them."""
        origin: Any = instances.origin
        names = origin.frame[origin.names.cluster]
        in_rows = names.gather(np.argsort(origin.rows)).unique(maintain_order=True)
        for name in in_rows.to_list():
            self.cluster_codes.setdefault(name, len(self.cluster_codes))
        own = names.gather(instances.offsets[:-1]).to_list()
        return np.array([self.cluster_codes[name] for name in own], dtype=np.int64)

    def survey(self, counts: Integers) -> Survey:
        data = self.data
        if self.weight:
            check_counts(np.concatenate(self.weight))
        frame = pl.concat(self.frames)
        self.frames.clear()
        sample = checked = data.instances(frame)
        n_items = 0 if self.items is None else len(self.items)
        if self.witnesses and len(sample.item_names or ()) < n_items:
            checked = data.instances(pl.concat([frame, *self.witnesses]))
        names = None
        if data.columns.item is not None and self.items is not None:
            names = number_items(self.items.to_frame(), self.items.name)[1]
        return Survey(
            data,
            tuple(replace(one, item_names=names) for one in self.readers),
            counts,
            self.n_rows,
            self.k,
            names,
            self.weight or None,
            self.cluster or None,
            frozenset(self.nullable),
            self.unknown,
            self.numbers or None,
            tuple(list(known) for known in self.values),
            tuple(self.sampled),
            sample,
            checked,
        )


def _rows(instances: Instances, chosen: Integers) -> Integers:
    """The rows of some instances in their table, ascending."""
    some: Any = instances.take(chosen).origin
    return np.sort(some.rows)
