"""`outrule predict` and `outrule decide` on folders: one Parquet file out for each one in.

A file is done when its output is there whole. The output carries what it was made from (model,
input and options), so a run that was stopped goes on where it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from outrule.cli.options import OnError, check_folder
from outrule.cli.talking import say
from outrule.cli.work.files import (
    PROPENSITY,
    Opened,
    columns_of,
    open_key,
    open_model,
    open_tables,
    warn_of_items,
)
from outrule.cli.work.screening import Answers, write_errors
from outrule.data.addresses import Address, Place, list_addresses, place_of
from outrule.data.nesting import is_nested
from outrule.data.partitions import (
    File,
    check_schemas,
    count_instances,
    find_files,
    fingerprint_file,
    n_files,
    stamp_of,
)
from outrule.data.table_files import parquet_notes, write_table
from outrule.errors import DataError
from outrule.files import STANDARD, follow_links, is_address, is_utf8
from outrule.model.codec import fingerprint
from outrule.model.model import Model

MADE_FROM, COUNTS = "outrule", "outrule.counts"  # of the notes in a Parquet file


class Done(NamedTuple):
    """How much was answered."""

    rows: int
    chosen: int
    instances: int
    files: str = ""  # how many, in words

    def plus(self, more: Done) -> Done:
        rows, chosen = self.rows + more.rows, self.chosen + more.chosen
        return Done(rows, chosen, self.instances + more.instances)


class Filled(NamedTuple):
    """A table to write, and the answers in it."""

    frame: pl.DataFrame
    found: Answers
    rows: int | None = None  # if not those of the frame
    chosen: int = 0

    @property
    def done(self) -> Done:
        rows = self.frame.height if self.rows is None else self.rows
        return Done(rows, self.chosen, sum(map(len, self.found.instances)))


Fill = Callable[[Opened], Filled]


class FolderJob(NamedTuple):
    """What a command was asked for."""

    model: str
    source: str
    output: str
    columns: tuple[str, ...]  # to add; the first has the name of --column
    overwrite: bool
    how: dict[str, Any]  # what the answers depend on besides the model and the table
    on_error: OnError
    errors: str | None
    key: str | None

    def check_column(self) -> None:
        own, *others = self.columns
        if not own:
            raise DataError("--column is empty: give the column a name.")
        if not is_utf8(own):
            raise DataError("--column is not UTF-8: give the column another name.")
        if own in others:
            raise DataError(f"--explore adds a column {own!r}: choose another name for --column.")

    def check_free(self, known: Sequence[str]) -> None:
        """Raise for a column that the table has already."""
        for name in () if self.overwrite else self.columns:
            if name in known:
                own = name == self.columns[0]
                words = "choose another with --column" if own else "drop it"
                raise DataError(
                    f"the table already has a column {name!r}: {words}, or use --overwrite."
                )


def fill_folder(job: FolderJob, fill: Fill) -> Done:
    """Fill every file of a folder that is not done, after all of them were looked at."""
    if job.errors is not None:
        words = "they are listed beside every output that has any, as NAME.errors.csv"
        raise DataError(f"--errors is not supported for a folder: {words}.")
    job.check_column()
    files, fitted = find_files(job.source), open_model(job.model, open_key(job.key))
    _check_target(files, job.source, job.output)
    columns = check_schemas(files)
    job.check_free(list(columns))
    instance = columns_of(fitted).instance
    if instance in columns:  # else the first file says what is missing
        count_instances(files, instance)
    label = {"model": fingerprint(fitted), "on_error": job.on_error.value, **job.how}
    total, kept, unseen = Done(0, 0, 0), 0, dict[Any, None]()
    for number, file in enumerate(files):
        target = place_of(f"{job.output.rstrip('/')}/{file.name}")
        done, new = _fill_file(file, target, fitted, fill, label, job.on_error)
        unseen |= dict.fromkeys(new or ())
        kept += new is None
        total = total.plus(done)
        if new is not None:
            say(f"{number + 1} of {n_files(files)}: {target}", err=True)
    warn_of_items(unseen)
    before = f" ({kept:,} of them done before)" if kept else ""
    return total._replace(files=n_files(files) + before)


def _fill_file(
    file: File, target: Place, model: Model, fill: Fill, label: dict[str, Any], on_error: OnError
) -> tuple[Done, list[Any] | None]:
    """What was answered, and the items training did not have; None for those: it was done."""
    made_from = json.dumps({**label, "input": fingerprint_file(file.path)}, sort_keys=True)
    if target.exists():
        done = _done_before(parquet_notes(target), made_from)
        if done is not None:
            return done, None
    before = stamp_of(file)
    try:
        opened = open_tables(model, str(file.path), outcome=False)
        filled = fill(opened) if opened.frame.height else _empty(opened, label)
    except DataError as error:
        words = str(error)
        raise DataError(words if str(file.path) in words else f"{file.path}: {words}") from None
    if stamp_of(file) != before:
        raise DataError(f"{file.path} has changed while it was read: run the command again.")
    if isinstance(target, Path):
        target.parent.mkdir(parents=True, exist_ok=True)
    listed = place_of(f"{target}.errors.csv")
    listed.unlink(missing_ok=True)
    if on_error is not OnError.STOP and filled.found.faults:
        write_errors(filled.found, opened, str(listed))
    notes = {MADE_FROM: made_from, COUNTS: json.dumps(filled.done[:3])}
    write_table(filled.frame, str(target), notes)
    return filled.done, [name for one in filled.found.instances for name in model.unseen_items(one)]


def _done_before(notes: dict[str, str], made_from: str) -> Done | None:
    """What an output says of itself; None if it was made from something else, or is damaged."""
    if notes.get(MADE_FROM) != made_from:
        return None
    try:
        rows, chosen, instances = map(int, json.loads(notes[COUNTS]))
    except (KeyError, TypeError, ValueError):
        return None
    return Done(rows, chosen, instances)


def _empty(opened: Opened, label: dict[str, Any]) -> Filled:
    """A partition without rows stays one, with the columns that the others get."""
    names = {label["column"]: pl.Float64 if label["command"] == "predict" else pl.Boolean}
    if "explore" in label:
        names[PROPENSITY] = pl.Float64
    prediction = opened.names.prediction
    nested = prediction in opened.frame.columns and is_nested(opened.frame[prediction])
    added = [pl.Series(n, [], pl.List(dtype) if nested else dtype) for n, dtype in names.items()]
    return Filled(opened.table.frame.with_columns(added), Answers())


def _check_target(files: Sequence[File], source: str, output: str) -> None:
    """Raise for an output that is no folder, holds other tables, or is among the inputs."""
    if is_address(output):
        _check_address(files, source, output)
        return
    folder = Path(output)
    if output == STANDARD or (folder.exists() and not folder.is_dir()):
        raise DataError(f"{source} is a folder of files, so -o must name a folder. Got {output}.")
    check_folder(folder)
    wanted = {folder / file.name for file in files}
    local = {file.path: file.name for file in files if isinstance(file.path, Path)}
    inputs = {follow_links(path) for path in local}
    roots = {follow_links(str(path).removesuffix(name)) for path, name in local.items()}
    target = follow_links(folder)
    if inputs & {follow_links(path) for path in wanted} or target in roots:
        raise DataError(f"{output} is an input of this command: choose another folder for -o.")
    if any(root in target.parents for root in roots) and Path(source).is_dir():
        raise DataError(f"{output} is inside {source}, whose files are read: choose another one.")
    for path in sorted(folder.rglob("*.parquet")) if folder.exists() else ():
        if not any(part[0] in "._" for part in path.relative_to(folder).parts):
            _check_result(path, wanted, source, output)


def _check_address(files: Sequence[File], source: str, output: str) -> None:
    """The same for an output at an address."""
    folder = f"{output.rstrip('/')}/"
    if any(folder.startswith(str(one.path).removesuffix(one.name)) for one in files):
        raise DataError(f"{output} is inside {source}, whose files are read: choose another one.")
    wanted = {Address(f"{folder}{file.name}") for file in files}
    for name in list_addresses(output)[1]:
        hidden = any(part[0] in "._" for part in name.split("/"))
        if name.endswith(".parquet") and not hidden:
            _check_result(Address(f"{folder}{name}"), wanted, source, output)


def _check_result(path: Place, wanted: Collection[Place], source: str, output: str) -> None:
    """Raise for a file in the output folder that is not a result of this command."""
    if path not in wanted:
        raise DataError(
            f"{path} belongs to no file of {source}: whoever reads {output} would take it for "
            "a result. Remove it, or choose another folder."
        )
    if MADE_FROM not in parquet_notes(path):
        raise DataError(
            f"{path} was not written by this command: remove it, or choose another folder."
        )
