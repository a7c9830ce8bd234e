"""A watch is continued or begun, and counts the batches of a table, or of a folder.

A table is one batch, or has as many as a column says; a folder has one in every file.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from outrule.cli.work.files import (
    columns_of,
    places_in,
    read_as_trained,
    warn_of_filled,
    with_propensity,
)
from outrule.data.filled import Flags, other_columns
from outrule.data.instances import Instances
from outrule.data.nesting import unnest
from outrule.data.origin import missing
from outrule.data.partitions import File, check_schemas, count_instances, find_files, naming
from outrule.data.table_files import TableFile, parquet_schema, read_columns, read_table
from outrule.data.tables import check_numbers, without
from outrule.errors import DataError
from outrule.model.documents import read_file
from outrule.model.model import Model
from outrule.watching.keys import as_key, in_order
from outrule.watching.state import NOUN
from outrule.watching.watch import CountedError, Watch
from outrule.words import count

# Key, instances, and outcomes in the order of the rows; None where the instances have them.
Batch = tuple[Any, Instances, Any]
Batches = Generator[Batch, None, None]


def open_watch(
    model: Model,
    state: str,
    run_length: int | None,
    usual_length: int,
    margin: float | None,
    max_weight: float | None,
    *,
    begin: bool,
) -> Watch:
    """Continue a watch, or begin one; what was set at its beginning cannot change."""
    path = Path(state)
    if not path.exists():
        if not begin:
            raise DataError(f"{state} does not exist: the first batch creates it.")
        length = usual_length if run_length is None else run_length
        return Watch(model, length, margin, max_weight)
    watcher = Watch.from_json(read_file(path, NOUN), model, name=state)
    given = {"run_length": run_length, "margin": margin, "max_weight": max_weight}
    for name, value in given.items():
        kept = getattr(watcher.state, name)
        if value is not None and value != kept:
            raise DataError(
                f"--{name.replace('_', '-')} was {kept} when {state} began, and is {value} now. It "
                "cannot change: leave it out, or begin a new state file."
            )
    return watcher


def count_batches(
    watcher: Watch, table: str, read: TableFile | None, key: str | None, column: str | None
) -> list[str]:
    """Count what is new in a folder, or in the table that was read; say what is not."""
    flags, model = Flags(), watcher.model
    if read is None:
        notes = _count(watcher, split_folder(model, table, key, column, flags))
    else:
        with places_in(read):
            notes = _count(watcher, split_table(model, read.frame, key, column, flags))
    warn_of_filled(flags)
    return notes


def _count(watcher: Watch, batches: Batches) -> list[str]:
    known, total = [], 0
    for key, instances, outcome in batches:
        total += 1
        try:
            watcher.update(instances, outcome, batch=key)
        except CountedError as error:
            known.append(str(error))
        except DataError as error:
            batches.throw(error)  # it knows the file
    if len(known) > 1:
        return [f"{len(known):,} of {count(total, 'batch')} are already counted."]
    return known


def split_folder(
    model: Model, folder: str, key: str | None, column: str | None, flags: Flags
) -> Batches:
    """A batch of every file, or those that a column says, of which each is whole in one file."""
    if key is not None:
        raise DataError("--batch-key is for one table: a folder has a batch in every file.")
    files, names = find_files(folder), columns_of(model)
    schema = check_schemas(files)
    if names.instance in schema:  # else the first file says what is missing
        counts = count_instances(files, names.instance)
        files = [file for file, n in zip(files, counts, strict=True) if n]
    if column is None:
        for name, file in _by_name(files):
            with naming(file):
                yield from split_table(model, read_table(str(file.path)), name, None, flags)
        return
    owners, opened, batches = _owners(files, column), None, dict[Any, Batch]()
    for one in in_order(owners):
        with naming(owners[one]):
            if owners[one] is not opened:
                opened = owners[one]
                found = split_table(model, read_table(str(opened.path)), None, column, flags)
                batches = {batch[0]: batch for batch in found}
            yield batches[one]


def _by_name(files: list[File]) -> list[tuple[Any, File]]:
    """Keys and files, in order, if all names are keys, such as 2026-11-16.parquet; else no keys."""
    try:
        keys = {as_key(Path(file.name).stem): file for file in files}
    except DataError:
        keys = {}
    if len(keys) < len(files):
        return [(None, file) for file in files]
    return [(key, keys[key]) for key in in_order(keys)]


def _owners(files: list[File], column: str) -> dict[Any, File]:
    """The file of every batch."""
    owners: dict[Any, File] = {}
    known = list(parquet_schema(files[0].path))
    if column not in known:
        raise DataError(f"the batch {missing(column, known)}")
    for file in files:
        for value in read_columns(file.path, [column])[column].alias("").drop_nulls().unique():
            other = owners.setdefault(key := as_key(value), file)
            if other is not file:
                raise DataError(
                    f"batch {key} is in {other.path} and in {file.path}: a batch must be whole in "
                    "one file."
                )
    return owners


def split_table(
    model: Model, frame: pl.DataFrame, key: int | str | None, column: str | None, flags: Flags
) -> Batches:
    """The batches of a table in the order of their keys; null outcomes are NaN.

    ``flags`` are those of the files so far.
    """
    names = columns_of(model)
    outcome = _outcome(unnest(frame, names).frame, names.outcome)
    names = with_propensity(names, frame)
    has_propensity = names.propensity in frame.columns or isinstance(names.propensity, float)
    logged = bool(np.isnan(outcome).any()) and has_propensity
    if logged:
        instances = read_as_trained(model, frame, names)
    else:
        kept = without(frame, *names.hidden)
        instances = read_as_trained(model, kept, names.before_decision())
        flags.add(other_columns(instances), instances.origin.flatten(outcome))
        flags.check()
    if column is None:
        yield key, instances, None if logged else outcome
        return
    for one, chosen in _split(instances, column):
        batch = instances.take(np.array(chosen))
        rows = np.sort(batch.origin.rows)  # type: ignore[union-attr] # a table
        yield one, batch, None if logged else outcome[rows]


def _outcome(frame: pl.DataFrame, name: str | None) -> Any:
    """The outcomes in the order of the rows, NaN where there are none."""
    if name is None:
        raise DataError("the model was fitted without an outcome column: use it from Python.")
    if name not in frame.columns:
        raise DataError(f"the outcome {missing(name, frame.columns)}")
    column = frame[name].alias("")  # a name like ^x$ would be taken for a pattern
    check_numbers(column, name)
    return column.cast(pl.Float64).fill_null(np.nan).to_numpy()


def _split(instances: Instances, name: str) -> Iterator[tuple[Any, list[int]]]:
    """The instances of every key, in the order of the keys."""
    frame: pl.DataFrame = instances.origin.frame  # type: ignore[union-attr] # a table
    if name not in frame.columns:
        raise DataError(f"the batch {missing(name, frame.columns)}")
    column = frame[name].alias("")  # a name like ^x$ would be taken for a pattern
    if column.null_count():
        where = instances.where_flat(int(column.is_null().arg_max() or 0))
        raise DataError(f"column {name!r} is null at {where}. Every row must name its batch.")
    first = instances.offsets[:-1]
    differs = column != column.gather(np.repeat(first, np.diff(instances.offsets)))
    if differs.any():
        where = instances.where_flat(int(differs.arg_max() or 0))
        raise DataError(f"column {name!r} differs within an instance, at {where}.")
    keys = {value: as_key(value) for value in column.unique().to_list()}
    groups: dict[Any, list[int]] = {}
    for number, value in enumerate(column.gather(first).to_list()):
        groups.setdefault(keys[value], []).append(number)
    for key in in_order(groups):
        yield key, groups[key]
