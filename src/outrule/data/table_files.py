"""Table files: Parquet, CSV and Arrow enter as Polars frames, and frames leave as such files."""

from __future__ import annotations

import csv
import errno
import io
import os
import re
import stat
import sys
from collections.abc import Iterator
from enum import Enum
from os import PathLike
from pathlib import Path
from typing import IO

import polars as pl

from outrule.errors import DataError
from outrule.files import whole_file

STANDARD = "-"  # standard input or output


class Kind(Enum):
    """The kinds of table files; CSV is also what pipes carry where nothing says otherwise."""

    PARQUET = "Parquet"
    ARROW = "Arrow"
    CSV = "CSV"
    TSV = "TSV"


SUFFIXES = {
    ".parquet": Kind.PARQUET,
    ".csv": Kind.CSV,
    ".tsv": Kind.TSV,
    ".arrow": Kind.ARROW,
    ".feather": Kind.ARROW,
    ".ipc": Kind.ARROW,
}
MAGIC = {b"PAR1": Kind.PARQUET, b"ARRO": Kind.ARROW, b"\xff\xff\xff\xff": Kind.ARROW}
STRANGERS = {
    b"FEA1": "Feather of version 1: write version 2, or Parquet",
    b"PK\x03\x04": "a workbook or a zip archive: save the sheet as CSV",
    b"\x1f\x8b": "compressed (gzip): unpack it, as in gunzip -c FILE | outrule ... -",
    b"BZh": "compressed (bzip2): unpack it first",
    b"\xfd7zX": "compressed (xz): unpack it first",
    b"\x28\xb5\x2f\xfd": "compressed (zstd): unpack it first",
}
# A number that is written as no program would (007, +49) is a name, and stays text.
WHOLE = r"^(0|-?[1-9][0-9]*)$"
NUMBER = r"^-?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$|^(NaN|nan|-?(inf|Infinity))$"
BOOLEAN = r"^([Tt]rue|TRUE|[Ff]alse|FALSE)$"


def read_table(path: str | PathLike[str]) -> pl.DataFrame:
    """Read a table, whole.

    The suffix says what it is: ``.parquet``, ``.csv``, ``.tsv``, ``.arrow``, ``.feather`` or
    ``.ipc``. ``"-"`` is standard input; there, and in pipes and devices without a suffix, the first
    bytes say it.

    The types of CSV are found from whole columns: whole numbers, numbers, true and false, else
    text. Numbers with leading zeros or a plus sign are text. An empty field is null.
    """
    name = "standard input" if str(path) == STANDARD else str(path)
    try:
        if str(path) == STANDARD:
            return _parse(sys.stdin.buffer.read(), None, name)
        mode = Path(path).stat().st_mode
        if stat.S_ISDIR(mode):
            raise DataError(f"{name} is a folder: name one file in it.")
        if not stat.S_ISREG(mode):
            return _parse(Path(path).read_bytes(), SUFFIXES.get(_suffix(path)), name)
        kind = table_kind(path)
        if kind is Kind.PARQUET:  # by its path: it need not be in memory twice
            with Path(path).open("rb") as file:
                _check_start(file.read(8), kind, name)
            return _parsed(Path(path), kind, name)
        return _parse(Path(path).read_bytes(), kind, name)
    except OSError as error:
        raise DataError(f"{name} cannot be read: {_reason(error)}.") from None


def write_table(frame: pl.DataFrame, path: str | PathLike[str]) -> None:
    """Write a table, whole or not at all; the suffix says what it becomes.

    ``"-"`` is standard output, and gets CSV, as pipes and devices without a suffix do.
    """
    name = "standard output" if str(path) == STANDARD else str(path)
    try:
        if str(path) == STANDARD:
            _write(frame, sys.stdout.buffer, Kind.CSV)
        elif is_special(path):
            with Path(path).open("wb") as file:
                _write(frame, file, SUFFIXES.get(_suffix(path), Kind.CSV))
        else:
            kind = table_kind(path)
            with whole_file(Path(path).resolve()) as draft, draft.open("wb") as file:
                _write(frame, file, kind)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        if _is_broken_pipe(error):
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)) from None
        raise DataError(f"{name} cannot be written: {_reason(error)}.") from None


def table_kind(path: str | PathLike[str]) -> Kind:
    """What the suffix of a path says; DataError if it is none of ours."""
    kind = SUFFIXES.get(_suffix(path))
    if kind is None:
        raise DataError(
            f"{path} has no suffix of a table. The known ones are: {', '.join(SUFFIXES)}."
        )
    return kind


def is_special(path: str | PathLike[str]) -> bool:
    """Whether a path is a pipe or a device: written into, never replaced."""
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _suffix(path: str | PathLike[str]) -> str:
    return Path(path).suffix.lower()


def _parse(data: bytes, kind: Kind | None, name: str) -> pl.DataFrame:
    """The frame in these bytes; without a kind, their beginning says it."""
    if kind is None:
        kind = MAGIC.get(data[:4], Kind.CSV)
    _check_start(data[:8], kind, name)
    if kind in (Kind.CSV, Kind.TSV):
        return _parse_csv(data, kind, name)
    return _parsed(data, kind, name)


def _check_start(start: bytes, kind: Kind, name: str) -> None:
    """Refuse by its first bytes what cannot be of this kind."""
    if not start:
        raise DataError(f"{name} is empty: there must be a table in it.")
    for magic, words in STRANGERS.items():
        if start.startswith(magic):
            raise DataError(f"{name} is {words}.")
    found = MAGIC.get(start[:4])
    if kind in (Kind.CSV, Kind.TSV) and found is not None:
        raise DataError(f"{name} holds {found.value}, not {kind.value}: give it that suffix.")
    if kind not in (Kind.CSV, Kind.TSV) and found is not kind:
        raise DataError(f"{name} is not a file of {kind.value}, or its beginning is damaged.")


def _parsed(source: Path | bytes, kind: Kind, name: str) -> pl.DataFrame:
    """Parquet or Arrow, with all that Polars may say to a damaged file as one DataError."""
    try:
        if kind is Kind.PARQUET:
            return pl.read_parquet(source, glob=False, hive_partitioning=False)
        assert isinstance(source, bytes)
        is_file = source.startswith(b"ARROW1")
        return pl.read_ipc(source) if is_file else pl.read_ipc_stream(source)
    except pl.exceptions.DuplicateError:
        raise DataError(f"{name} has two columns of one name: rename or drop one.") from None
    except (OSError, ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise DataError(
            f"{name} is not a file of {kind.value}, or it is damaged or cut short "
            f"({_reason(error)}). Write it again."
        ) from None


def _parse_csv(data: bytes, kind: Kind, name: str) -> pl.DataFrame:
    separator = _separator(kind)
    header = _check_header(data, separator, name)
    if data.endswith((b"\n\n", b"\n\r\n")):
        data = data.rstrip(b"\r\n")
    try:
        text = pl.read_csv(data, separator=separator, infer_schema=False)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        _check_encoding(data, name)
        _check_rows(data, separator, name)
        raise DataError(
            f"{name} cannot be read as {kind.value} ({_reason(error)}). "
            "Check its quotes, or write Parquet."
        ) from None
    if len(header) > 1 and text.to_series(-1).has_nulls():  # perhaps of rows that ended early
        _check_rows(data, separator, name)
    return text.select(_typed(column) for column in text)


def _check_header(data: bytes, separator: str, name: str) -> list[str]:
    """The names of the columns, each once."""
    try:
        header = next((row for row, _ in _rows(data, separator) if row), [])
    except (UnicodeDecodeError, csv.Error):
        header = []
    if not header:
        _check_encoding(data, name)
        raise DataError(f"{name} is no table: its first line must name the columns.")
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
    """Refuse the first row that has not as many fields as the header; slow, so only in doubt."""
    expected = 0
    try:
        for row, line in _rows(data, separator):
            expected = expected or len(row)
            if len(row) != expected:
                raise DataError(
                    f"{name} has {len(row)} fields in line {line}, and {expected} in its header. "
                    "Every row needs as many: look for a lost or an unquoted separator."
                )
    except csv.Error:
        return  # which Python cannot read; what Polars said stands


def _rows(data: bytes, separator: str) -> Iterator[tuple[list[str], int]]:
    """The rows of a CSV with the number of the line in which they end, as Python reads them."""
    lines = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8-sig", newline="")
    reader = csv.reader(lines, delimiter=separator)
    for row in reader:
        yield row, reader.line_num


def _typed(column: pl.Series) -> pl.Series:
    """A column of texts as what all of them are; text if they are not alike."""
    known = column.drop_nulls()
    if known.is_empty():
        return column.cast(pl.Null)
    if known.str.contains(WHOLE).all():
        whole = column.cast(pl.Int64, strict=False)
        return whole if whole.null_count() == column.null_count() else column
    if known.str.contains(NUMBER).all():
        return column.cast(pl.Float64)
    if known.str.contains(BOOLEAN).all():
        return column.str.to_lowercase() == "true"
    return column


def _write(frame: pl.DataFrame, file: IO[bytes], kind: Kind) -> None:
    if kind is Kind.PARQUET:
        frame.write_parquet(file)
    elif kind is Kind.ARROW:
        frame.write_ipc(file)
    else:
        for name, dtype in frame.schema.items():
            if dtype.is_nested() or dtype == pl.Binary:
                raise DataError(
                    f"column {name!r} holds {dtype}, which {kind.value} cannot hold: "
                    "write Parquet or Arrow, or drop the column."
                )
        frame.write_csv(file, separator=_separator(kind))
    file.flush()


def _separator(kind: Kind) -> str:
    return "\t" if kind is Kind.TSV else ","


def _is_broken_pipe(error: BaseException) -> bool:
    return isinstance(error, BrokenPipeError) or f"(os error {errno.EPIPE})" in str(error)


def _reason(error: BaseException) -> str:
    """What happened, in the words of the system where it was asked, else the first line."""
    number = re.search(r"\(os error (\d+)\)", str(error))
    if number:
        return os.strerror(int(number[1]))
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, pl.exceptions.PanicException):
        return "Polars broke off: damage, or two columns of one name"
    first = str(error).strip().partition("\n")[0].rstrip(".:")
    return first or type(error).__name__
