"""Tables in many Parquet files: which files they are, whether they fit together, and their names.

A file is a partition: it is read by itself, so an instance must be whole in one of them.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from os import PathLike
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from outrule import threads
from outrule.data.addresses import Address, Place, list_addresses, place_of
from outrule.data.checks import check_range
from outrule.data.instances import Instances
from outrule.data.nesting import unnest
from outrule.data.origin import ColumnNames
from outrule.data.scratch import spill
from outrule.data.sketch import mix
from outrule.data.table_files import (
    EXTENSIONS,
    TableFormat,
    open_table,
    parquet_schema,
    read_columns,
)
from outrule.data.tables import read_frame
from outrule.errors import DataError, check_integer, check_number, refuse_argument
from outrule.files import has_wildcard, is_address, is_special, local_path, naming_errors
from outrule.types import Integers
from outrule.words import byte_size, count

BUCKETS = 64  # files of hashes, each small enough to sort

Stamp = tuple[Any, ...]


class File(NamedTuple):
    """A partition: where it is, and its name below the folder that was given."""

    path: Place
    name: str


@dataclass(frozen=True, eq=False)
class Partitions:
    """A table in many Parquet files, which need not fit into memory together.

    ``DecisionCalibrator.fit`` and ``outrule.certify`` accept it in place of Instances. The files
    are read one at a time, and what the loop needs of them is kept on disk. The result is that of
    ``Instances.from_table`` on all files together, with the same bits however the rows are split
    into files and for any number of threads, up to ``sample`` instances. With more, the start and
    isotonic regression are fitted on a sample of that size; the loop still uses all instances.

    Parameters
    ----------
    source : a folder, a pattern such as ``"logs/*.parquet"``, or a sequence of paths
        Each may be an address that fsspec knows, such as ``"s3://bucket/folder"``. A folder
        includes its subfolders; files are read in the order of their names. All must have the
        same columns, and all rows of an instance must be in one file.
    instance, prediction, ..., value_range : as for ``Instances.from_table``
    sample : int
        The most instances that the start and isotonic regression are fitted on, and on which the
        propensities of a log are checked.
    scratch : path, optional
        A folder with room for about 24 bytes per row and one per rule, instance and chosen item.
        By default the system's folder for temporary files.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, outrule, polars as pl
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> predictions, outcomes = outrule.worlds.two_arms(2_000, seed=0, epsilon=0.3)
    >>> for part in range(4):
    ...     rows = slice(500 * part, 500 * part + 500)
    ...     pl.DataFrame(
    ...         {
    ...             "visit": np.repeat(np.arange(2_000)[rows], 2),
    ...             "offer": np.tile([0, 1], 500),
    ...             "score": predictions[rows].ravel(),
    ...             "bought": outcomes[rows].ravel(),
    ...         }
    ...     ).write_parquet(folder / f"part-{part}.parquet")
    >>> data = outrule.Partitions(
    ...     folder, instance="visit", item="offer", prediction="score", outcome="bought"
    ... )
    >>> calibrator = outrule.DecisionCalibrator(outrule.BestAction(), [outrule.Fixed(1)])
    >>> calibrator.fit(data).status_
    <Status.CONVERGED: 'converged'>
    """

    files: tuple[File, ...]
    columns: ColumnNames
    value_range: tuple[float, float]
    sample: int
    scratch: Path | None

    def __init__(
        self,
        source: str | PathLike[str] | Sequence[str | PathLike[str]],
        *,
        instance: str,
        prediction: str,
        outcome: str | None = None,
        item: str | None = None,
        start: str | None = None,
        weight: str | None = None,
        cluster: str | None = None,
        propensity: str | float | None = None,
        observed: str | None = None,
        propensity_estimated: bool = False,
        value_range: tuple[float, float] = (0.0, 1.0),
        sample: int = 1_000_000,
        scratch: str | PathLike[str] | None = None,
    ) -> None:
        if isinstance(source, str | PathLike):
            files = find_files(source)
        else:
            files = [File(place_of(path), str(path)) for path in source]
            if not files:
                raise refuse_argument((), "source", "Partitions", "a folder, a pattern, or paths")
        if propensity is not None and not isinstance(propensity, str):
            propensity = check_number(propensity, "propensity", "Partitions", 0, 1)
        logged = (propensity, observed, propensity_estimated)
        names = ColumnNames(instance, prediction, outcome, item, start, weight, cluster, *logged)
        given: dict[str, Any] = {
            "files": tuple(files),
            "columns": names,
            "value_range": check_range(value_range),
            "sample": check_integer(sample, "sample", "Partitions", 2),
            "scratch": None if scratch is None else Path(scratch),
        }
        for name, value in given.items():
            object.__setattr__(self, name, value)

    def only(self, files: Sequence[File]) -> Partitions:
        """Some of the files."""
        some = copy(self)
        object.__setattr__(some, "files", tuple(files))
        return some

    def read(self, file: File, order: Sequence[str]) -> tuple[Instances, pl.DataFrame]:
        """The instances of one file, and its table by items with the columns in this order."""
        frame = open_table(str(file.path)).frame[list(order)]
        with naming(file):
            return self.instances(frame), unnest(frame, self.columns).frame

    @contextmanager
    def room(self, needed: float) -> Iterator[Path]:
        """A folder for so many bytes, which is removed at the end; DataError if they cannot fit."""
        place = self.scratch or Path(tempfile.gettempdir())
        if not place.is_dir():
            raise DataError(f"the scratch folder {place} does not exist: create it first.")
        free = shutil.disk_usage(place).free
        if needed > free:
            raise DataError(
                f"about {byte_size(needed)} are needed on disk, but {place} has only "
                f"{byte_size(free)} free: choose another scratch folder, or use fewer rules."
            )
        with tempfile.TemporaryDirectory(prefix="outrule-", dir=place) as folder:
            yield Path(folder)

    def instances(self, frame: pl.DataFrame) -> Instances:
        """The instances of a table with these columns, as a part of all of them."""
        found = Instances(**read_frame(frame, self.columns), value_range=self.value_range)
        found.check_values(is_part=True)
        return found


@contextmanager
def naming(file: File) -> Iterator[None]:
    """Errors about data name the file, and rows as they are counted from 1."""
    try:
        yield
    except DataError as error:
        where = f"of {file.path}, counting from 1"
        words = re.sub(
            r"row (\d+) of the table", lambda row: f"row {int(row[1]) + 1} {where}", str(error)
        )
        words = words if str(file.path) in words else f"{file.path}: {words}"
        raise DataError(words) from None


def choose_sample(n: int, most: int) -> Integers:
    """The numbers of at most so many of n instances, ascending, by the hashes of the numbers."""
    if n <= most:
        return np.arange(n)
    likely = np.uint64(min(1.0, (most + 10 * most**0.5 + 10) / n) * (2.0**64 - 2048))
    kept, hashes = [], []
    for first, last in threads.spans(1 << 24, n):
        found = mix(np.arange(first, last, dtype=np.uint64))
        chosen = np.flatnonzero(found <= likely)
        kept.append(chosen + first)
        hashes.append(found[chosen])
    numbers, order = np.concatenate(kept), np.argsort(np.concatenate(hashes), kind="stable")
    return np.sort(numbers[order[:most]])


def find_files(source: str | PathLike[str]) -> list[File]:
    """The Parquet files of a folder and its subfolders, or of a pattern, sorted by name.

    Files and folders whose names begin with ``.`` or ``_`` are not data, as for Spark and Dask.
    """
    found = []
    for place, name in sorted(_list_files(source), key=lambda one: str(one[1])):
        kind = EXTENSIONS.get(name.suffix.lower())
        if kind is None or any(part[0] in "._" for part in name.parts):
            continue
        if kind is not TableFormat.PARQUET:
            raise DataError(
                f"{place} is not Parquet: in folders and patterns only Parquet files are "
                "supported. Convert it, or move it elsewhere."
            )
        if isinstance(place, Path) and is_special(place):
            raise DataError(f"{place} is a pipe or a device, not a file: remove it.")
        found.append(File(place, str(name)))
    if not found:
        raise DataError(f"{source} has no Parquet files (*.parquet).")
    return found


def _list_files(source: str | PathLike[str]) -> Iterator[tuple[Place, PurePath]]:
    """All files of a folder or pattern, here or at an address, and their names below it."""
    if is_address(source):
        with naming_errors(source, "read"):
            address, names = list_addresses(str(source))
        yield from ((Address(f"{address}/{name}"), PurePosixPath(name)) for name in names)
        return
    path = Path(local_path(source))
    root, pattern = (path, "**/*") if path.is_dir() else (path.parent, path.name)
    depth = next((i for i, part in enumerate(path.parts) if has_wildcard(part)), None)
    if depth is not None and not path.is_dir():
        root, pattern = Path(*path.parts[:depth]), str(Path(*path.parts[depth:]))
    yield from ((one, one.relative_to(root)) for one in root.glob(pattern) if not one.is_dir())


def check_schemas(files: Sequence[File]) -> dict[str, Any]:
    """The columns that all files have, with their types; DataError naming one that differs."""
    first = parquet_schema(files[0].path)
    for file in files[1:]:
        found = parquet_schema(file.path)
        for name in (*first, *found):
            ours, theirs = first.get(name), found.get(name)
            if ours != theirs:
                words = f"holds {theirs}, but {ours} in {files[0].path}"
                if ours is None or theirs is None:
                    has, lacks = (file, files[0]) if ours is None else (files[0], file)
                    words = f"is in {has.path}, but not in {lacks.path}"
                raise DataError(
                    f"{file.path} has a different schema: column {name!r} {words}. "
                    "All files must have the same columns, with the same types."
                )
    return first


def count_instances(files: Sequence[File], column: str) -> Integers:
    """How many instances every file has; DataError where one is in two files.

    Only the column of their names is read. Memory: that of one file; what is compared between
    files are hashes on disk, and the names themselves where two hashes are equal.
    """
    counts = np.zeros(len(files), dtype=np.int64)
    with tempfile.TemporaryDirectory(prefix="outrule-") as folder:
        buckets = [Path(folder) / str(number) for number in range(BUCKETS)]
        for number, file in enumerate(files):
            hashes = np.sort(_names(file, column).hash().to_numpy())
            counts[number] = len(hashes)
            ends = np.searchsorted(hashes >> np.uint64(58), np.arange(1, BUCKETS))
            for bucket, part in zip(buckets, np.split(hashes, ends), strict=True):
                spill(bucket, part)
        twice = []
        for bucket in buckets:
            hashes = np.sort(np.fromfile(bucket, dtype=np.uint64))
            twice.append(np.unique(hashes[1:][hashes[1:] == hashes[:-1]]))
    suspects = np.concatenate(twice)
    if len(suspects):
        _check_names(files, column, suspects)
    if not counts.any():
        raise DataError(f"{files[0].path} and the other files have no rows.")
    return counts


def _names(file: File, column: str) -> pl.Series:
    """The names of a file's instances, each once."""
    names = read_columns(file.path, [column])[column].alias("").drop_nulls()
    if isinstance(names.dtype, pl.Categorical | pl.Enum):  # whose numbers differ between files
        names = names.cast(pl.String)
    return names.unique()


def _check_names(files: Sequence[File], column: str, suspects: Any) -> None:
    """Names whose hashes are in two files: the same name, or by chance."""
    owners: dict[Any, Place] = {}
    for file in files:
        names = _names(file, column)
        for name in names.filter(pl.Series(np.isin(names.hash().to_numpy(), suspects))).to_list():
            if name in owners:
                raise DataError(
                    f"{column} {name!r} is in {owners[name]} and in {file.path}. All rows of an "
                    "instance must be in the same file."
                )
            owners[name] = file.path


def stamp_of(file: File) -> Stamp:
    """By what a change of a file is noticed."""
    with naming_errors(file.path, "read"):
        if isinstance(file.path, Address):
            return file.path.stamp()
        found = file.path.stat()
        return found.st_size, found.st_mtime_ns


def fingerprint_file(path: Place) -> str:
    """SHA-256 of a file's content."""
    with naming_errors(path, "read"):
        if isinstance(path, Address):
            return hashlib.sha256(path.read_bytes()).hexdigest()
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def n_files(files: Sequence[Any]) -> str:
    return count(len(files), "file")
