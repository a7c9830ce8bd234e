"""Reading and writing of Parquet, CSV, TSV and Arrow files as Polars frames."""

from __future__ import annotations

import csv
import io
import os
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from mmap import ACCESS_READ, mmap
from os import PathLike
from pathlib import Path
from typing import IO

import numpy as np
import polars as pl
from numpy.typing import NDArray

from outrule.data.addresses import Address, Place
from outrule.data.origin import semicolons
from outrule.data.silence import quiet_panics
from outrule.data.table_sizes import FAULTS, arrow_bytes, check_memory, read_stream
from outrule.errors import DataError
from outrule.files import STANDARD, is_address, is_special, is_utf8, local_path, open_output
from outrule.threads import check_forks
from outrule.words import count


class TableFormat(Enum):
    PARQUET = "Parquet"
    ARROW = "Arrow"
    CSV = "CSV"
    TSV = "TSV"


EXTENSIONS = {
    ".parquet": TableFormat.PARQUET,
    ".csv": TableFormat.CSV,
    ".tsv": TableFormat.TSV,
    ".arrow": TableFormat.ARROW,
    ".feather": TableFormat.ARROW,
    ".ipc": TableFormat.ARROW,
}
SEPARATORS = {TableFormat.CSV: ",", TableFormat.TSV: "\t"}
MAGIC = {
    b"PAR1": TableFormat.PARQUET,
    b"ARRO": TableFormat.ARROW,
    b"\xff\xff\xff\xff": TableFormat.ARROW,
}
STRANGERS = {
    b"FEA1": "Feather version 1: write version 2, or Parquet",
    b"PK\x03\x04": "a workbook or a zip archive: save the sheet as CSV",
    b"\x1f\x8b": "compressed (gzip): unpack it, for example with gunzip -c FILE | outrule ... -",
    b"BZh": "compressed (bzip2): unpack it first",
    b"\xfd7zX": "compressed (xz): unpack it first",
    b"\x28\xb5\x2f\xfd": "compressed (zstd): unpack it first",
}
# A number that is written as no program would write it (007, +49) is a name, and stays a string.
WHOLE = r"^(0|-?[1-9][0-9]*)$"
NUMBER = r"^-?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$|^(NaN|nan|-?(inf|Infinity))$"
BOOLEAN = r"^([Tt]rue|TRUE|[Ff]alse|FALSE)$"
DAY = {"day": 1, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
MOST_DAYS = 95_000_000  # from 1970, either way: the years that Polars knows
OS_ERROR = re.compile(r"\(os error (\d+)\)")  # as Polars quotes it
POLARS_ERRORS = (pl.exceptions.PolarsError, pl.exceptions.PanicException)


@dataclass(frozen=True)
class TableFile:
    """A table that was read, and what messages and a copy of it need of the file."""

    name: str
    frame: pl.DataFrame
    text: pl.DataFrame | None = None  # the fields of a text file as they were
    lines: Sequence[int] | None = None  # where the rows of a text file begin, if in many lines

    parts: Sequence[TableFile] = ()  # tables that are one below the other

    def where(self, row: int) -> str:
        """A row as an editor shows it: the header is line 1."""
        for part in self.parts:
            if row < part.frame.height:
                return part.where(row)
            row -= part.frame.height
        if self.text is None:
            return f"row {self.number(row)} of {self.name}, counting from 1"
        return f"line {self.number(row)} of {self.name}"

    def number(self, row: int) -> int:
        """The line of a text file, or the row counted from 1."""
        if self.text is None:
            return row + 1
        return row + 2 if self.lines is None else self.lines[row]


def read_table(path: str | PathLike[str]) -> pl.DataFrame:
    """Read a whole table.

    The extension says the format; for standard input (``"-"``), and for pipes and devices without
    one, the first bytes do. The type of a CSV column is found from all its fields: integers,
    numbers, booleans, else strings. Numbers with leading zeros or a plus sign are strings.
    """
    return open_table(path).frame


def open_table(path: str | PathLike[str], identifiers: Collection[str] = ()) -> TableFile:
    """Read a whole table; in CSV, columns that name things are whole numbers or strings.

    The months 2024.1 and 2024.10 are two, though they are one number.
    """
    name = "standard input" if str(path) == STANDARD else str(path)
    check_forks()
    try:
        if str(path) == STANDARD:
            return _parse(read_stream(sys.stdin.buffer, name), None, name, identifiers)
        if is_special(path):
            kind = EXTENSIONS.get(_extension(path))
            with Path(path).open("rb") as file:
                return _parse(read_stream(file, name), kind, name, identifiers)
        if is_address(path):
            return _parse(Address(str(path)).read_bytes(), table_kind(path), name, identifiers)
        path = local_path(path)
        with Path(path).open("rb") as file:
            kind = table_kind(path)
            if kind is not TableFormat.PARQUET:
                check_memory(os.fstat(file.fileno()).st_size, name)
                return _parse(file.read(), kind, name, identifiers)
            _check_start(file.read(8), kind, name)
        _check_name(name)
        return TableFile(name, _parse_binary(Path(path), kind, name))  # not in memory twice
    except OSError as error:
        raise DataError(f"{name} cannot be read: {_reason(error)}.") from None


def stack(tables: Sequence[TableFile], instance: str) -> TableFile:
    """Tables with the same columns and different instances, one below the other."""
    if len(tables) == 1:
        return tables[0]
    frame = tables[0].frame
    for before, table in pairwise(tables):
        more = table.frame
        if instance in frame.columns and instance in more.columns:
            names = set(frame[instance].to_list())
            both = next((name for name in more[instance].to_list() if name in names), None)
            if both is not None:
                raise DataError(f"{instance} {both!r} is in {table.name} and in an earlier table.")
        try:
            frame = pl.concat([frame, more.select(frame.columns)], how="vertical_relaxed")
        except POLARS_ERRORS:
            raise DataError(
                f"{table.name} must have the columns of {before.name}, with the same types."
            ) from None
    return TableFile(" and ".join(table.name for table in tables), frame, parts=tables)


def parquet_schema(path: Place) -> dict[str, pl.DataType]:
    """The columns of a Parquet file and their types, from its end alone."""
    with _source(path) as source:
        return dict(pl.read_parquet_schema(source))


def parquet_notes(path: Place) -> dict[str, str]:
    """What was written into a Parquet file beside its table."""
    with _source(path) as source:
        return pl.read_parquet_metadata(source)


def read_columns(path: Place, columns: Sequence[str]) -> pl.DataFrame:
    """Some columns of a Parquet file."""
    with _source(path, columns) as source:
        return pl.read_parquet(source, columns=list(columns), glob=False, hive_partitioning=False)


@contextmanager
def _source(path: Place, columns: Collection[str] = ()) -> Iterator[Path | bytes]:
    """What Polars reads; errors about a Parquet file that is missing or damaged have its name.

    Without columns, what the end of the file says is enough.
    """
    name = str(path)
    check_forks()
    try:
        source: Path | bytes
        if isinstance(path, Path):
            source = path
            with path.open("rb") as file:
                start = file.read(8)
        else:
            source = path.read_bytes() if columns else path.read_end()
            start = source[:8]
        _check_start(start, TableFormat.PARQUET, name)
        _check_name(name)
        try:
            _check_parquet(source, name, columns)
        except DataError:  # there is not enough memory for it
            raise
        except FAULTS as error:
            raise _damaged(name, TableFormat.PARQUET, error) from None
        with quiet_panics():
            yield source
    except OSError as error:
        raise DataError(f"{name} cannot be read: {_reason(error)}.") from None
    except POLARS_ERRORS as error:
        raise _damaged(name, TableFormat.PARQUET, error) from None


def _damaged(name: str, kind: TableFormat, error: BaseException) -> DataError:
    return DataError(
        f"{name} is not a valid {kind.value} file, or it is damaged or cut short "
        f"({_reason(error)}). Write it again."
    )


def write_table(
    frame: pl.DataFrame, path: str | PathLike[str], notes: dict[str, str] | None = None
) -> None:
    """Write a table, complete or not at all; the extension says the format.

    Standard output (``"-"``), pipes and devices without an extension get CSV. ``notes`` are
    written into a Parquet file beside the table.
    """
    kind = output_kind(path)
    check_forks()
    with _open_address(str(path)) if is_address(path) else open_output(path) as file:
        try:
            with quiet_panics():
                _write(frame, file, kind, notes)
        except (OSError, *POLARS_ERRORS) as error:
            number = OS_ERROR.search(str(error))
            code = int(number[1]) if number else getattr(error, "errno", None) or 0
            raise OSError(code, _reason(error)) from None


@contextmanager
def _open_address(url: str) -> Iterator[IO[bytes]]:
    """What is written to it is written to the address at the end."""
    file = io.BytesIO()
    try:
        yield file
        Address(url).write_bytes(file.getvalue())
    except OSError as error:
        raise DataError(f"{url} cannot be written: {_reason(error)}.") from None


def output_kind(path: str | PathLike[str]) -> TableFormat:
    """The format in which a table is written to a path."""
    free = str(path) == STANDARD or is_special(path)
    return EXTENSIONS.get(_extension(path), TableFormat.CSV) if free else table_kind(path)


def table_kind(path: str | PathLike[str]) -> TableFormat:
    """The format of a path by its extension; DataError if it is not supported."""
    if (extension := _extension(path)) not in EXTENSIONS:
        known = ", ".join(EXTENSIONS).replace(", .ipc", " or .ipc")
        raise DataError(f"{path}: unsupported file extension {extension!r}; use {known}.")
    return EXTENSIONS[extension]


def _extension(path: str | PathLike[str]) -> str:
    return Path(path).suffix.lower()


def _parse(
    data: bytes, kind: TableFormat | None, name: str, identifiers: Collection[str] = ()
) -> TableFile:
    kind = kind or MAGIC.get(data[:4], TableFormat.CSV)
    _check_start(data[:8], kind, name)
    if kind not in SEPARATORS:
        return TableFile(name, _parse_binary(data, kind, name))
    text = _parse_csv(data, kind, name)
    typed = pl.DataFrame(
        [
            # Methods of a Series that is called ^x$ go wrong, so it has no name for a moment.
            _typed(column.alias(""), is_name=column.name in identifiers).alias(column.name)
            for column in text.get_columns()
        ]
    )
    return TableFile(name, typed, text, _lines(data, SEPARATORS[kind], text.height))


def _check_name(name: str) -> None:
    """Raise for the name of a file that Polars cannot open."""
    if not is_utf8(name):
        raise DataError(f"{name}: the name of this file is not UTF-8: rename it.")


def _check_start(start: bytes, kind: TableFormat, name: str) -> None:
    if not start:
        raise DataError(f"{name} is empty: it must contain a table.")
    for magic, words in STRANGERS.items():
        if start.startswith(magic):
            raise DataError(f"{name} is {words}.")
    found = MAGIC.get(start[:4])
    if kind in SEPARATORS and found is not None:
        raise DataError(f"{name} contains {found.value}, not {kind.value}: rename it.")
    if kind not in SEPARATORS and found is not kind:
        raise DataError(f"{name} is not a valid {kind.value} file, or its start is damaged.")


def _parse_binary(source: Path | bytes, kind: TableFormat, name: str) -> pl.DataFrame:
    """Parquet or Arrow; whatever Polars says about a damaged file becomes one DataError."""
    try:
        if kind is TableFormat.PARQUET:
            _check_parquet(source, name)
            with quiet_panics():
                frame = pl.read_parquet(source, glob=False, hive_partitioning=False)
        else:
            assert isinstance(source, bytes)
            check_memory(arrow_bytes(source), name)
            read = pl.read_ipc if source.startswith(b"ARROW1") else pl.read_ipc_stream
            with quiet_panics():
                frame = read(source)
        _check_dates(frame, name)
        return frame
    except DataError:
        raise
    except pl.exceptions.DuplicateError:
        raise DataError(f"{name} has two columns of the same name: rename or drop one.") from None
    except (OSError, MemoryError, *FAULTS, *POLARS_ERRORS) as error:
        raise _damaged(name, kind, error) from None


def _check_parquet(source: Path | bytes, name: str, columns: Collection[str] | None = None) -> None:
    """Raise before Polars believes a damaged file, or unpacks more than there is memory for."""
    from outrule.data.parquet import read_footer  # loads Numba, which other files do not need

    data = np.frombuffer(source, np.uint8) if isinstance(source, bytes) else _mapped(source)
    footer = read_footer(data)
    if columns is None or columns:
        check_memory(footer.size(columns), name)
        footer.check_pages(data, columns)


def _mapped(path: Path) -> NDArray[np.uint8]:
    """The bytes of a file, of which only those are read that are looked at."""
    with path.open("rb") as file:
        return np.frombuffer(mmap(file.fileno(), 0, access=ACCESS_READ), np.uint8)


def _check_dates(frame: pl.DataFrame, name: str) -> None:
    """Raise for a date that Polars reads, and would panic at later."""
    for column in frame:
        if isinstance(column.dtype, pl.Date | pl.Datetime):
            day = DAY[getattr(column.dtype, "time_unit", "day")]
            most = min(MOST_DAYS * day, 2**63 - 1)
            if not column.to_physical().drop_nulls().is_between(-most, most).all():
                raise DataError(
                    f"{name}: column {column.name!r} has a date that is out of range: correct it, "
                    "or drop the column."
                )


def _parse_csv(data: bytes, kind: TableFormat, name: str) -> pl.DataFrame:
    separator = SEPARATORS[kind]
    header = _check_header(data, separator, name)
    if data.endswith((b"\n\n", b"\n\r\n")):
        data = data.rstrip(b"\r\n")
    try:
        text = pl.read_csv(data, separator=separator, infer_schema=False)
    except (OSError, *POLARS_ERRORS) as error:
        _check_encoding(data, name)
        _check_rows(data, separator, name)
        raise DataError(
            f"{name} cannot be read as {kind.value} ({_reason(error)}). "
            "Check its quotes, or write Parquet."
        ) from None
    if len(header) > 1 and text.to_series(-1).has_nulls():  # perhaps of rows that ended early
        _check_rows(data, separator, name)
    return text


def _check_header(data: bytes, separator: str, name: str) -> list[str]:
    try:
        header = next((row for row, _ in _rows(data, separator) if row), [])
    except (UnicodeDecodeError, csv.Error):
        header = []
    if not header:
        _check_encoding(data, name)
        raise DataError(f"{name} is not a table: its first line must name the columns.")
    for column in header:
        if header.count(column) > 1:
            raise DataError(f"{name} has two columns {column!r}: rename or drop one.")
    return header


def _check_encoding(data: bytes, name: str) -> None:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(f"{name} is not UTF-8 in line {line}: save it as UTF-8.") from None


def _check_rows(data: bytes, separator: str, name: str) -> None:
    """Find the first row with another number of fields than the header; slow, so only in doubt."""
    header: list[str] = []
    with suppress(csv.Error):  # where Python cannot read it either, the error of Polars is reported
        for row, line in _rows(data, separator):
            header = header or row
            if len(row) != len(header):
                if (hint := semicolons(header)) is not None:
                    raise DataError(f"{name} is not a table: {hint}")
                raise DataError(
                    f"{name}, line {line}: {count(len(row), 'field')}, but the header has "
                    f"{len(header)}. Look for a missing separator or an unclosed quotation mark."
                )


def _rows(data: bytes, separator: str) -> Iterator[tuple[list[str], int]]:
    """The rows of a CSV, as Python reads them, with the numbers of their last lines."""
    lines = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8-sig", newline="")
    reader = csv.reader(lines, delimiter=separator)
    for row in reader:
        yield row, reader.line_num


def _lines(data: bytes, separator: str, height: int) -> list[int] | None:
    """The line in which each row begins; None where every row is one line."""
    if data.rstrip(b"\r\n").count(b"\n") == height:
        return None
    starts, end = [], 0
    with suppress(csv.Error):
        for row, line in _rows(data, separator):
            starts += [end + 1] if row else []
            end = line
    return starts[1:] if len(starts) == height + 1 else None


def _typed(column: pl.Series, *, is_name: bool = False) -> pl.Series:
    """A column of strings, converted if all of them are of one type."""
    known = column.drop_nulls()
    if known.is_empty():
        return column.cast(pl.Null)
    if known.str.contains(WHOLE).all():
        whole = column.cast(pl.Int64, strict=False)
        return whole if whole.null_count() == column.null_count() else column
    if is_name:
        return column
    if known.str.contains(NUMBER).all():
        return column.cast(pl.Float64)
    return column.str.to_lowercase() == "true" if known.str.contains(BOOLEAN).all() else column


def _write(
    frame: pl.DataFrame, file: IO[bytes], kind: TableFormat, notes: dict[str, str] | None
) -> None:
    if kind is TableFormat.PARQUET:
        frame.write_parquet(file, metadata=notes)
    elif kind is TableFormat.ARROW:
        frame.write_ipc(file)
    else:
        for name, dtype in frame.schema.items():
            if dtype.is_nested() or dtype == pl.Binary:
                raise DataError(
                    f"column {name!r} holds {dtype}, which {kind.value} cannot represent: "
                    "write Parquet or Arrow, or drop the column."
                )
        frame.write_csv(file, separator=SEPARATORS[kind])
    file.flush()


def _reason(error: BaseException) -> str:
    if number := OS_ERROR.search(str(error)):
        return os.strerror(int(number[1]))
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, pl.exceptions.PanicException):
        return "Polars crashed on damage, or on two columns of the same name"
    return str(error).strip().partition("\n")[0].rstrip(".:") or type(error).__name__
