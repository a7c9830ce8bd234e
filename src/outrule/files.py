"""Safe writing: a file is replaced in one step, by a complete one, or left as it was."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import IO
from uuid import uuid4

from outrule.errors import DataError

STANDARD = "-"  # standard input or output


@contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """A draft to write to; it replaces the target at the end, or is removed after an error."""
    draft = target.with_name(f".{uuid4().hex}{target.suffix}")
    try:
        yield draft
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def write_text(target: Path, text: str) -> None:
    """Write a text file, complete or not at all."""
    with whole_file(target) as draft:
        draft.write_text(text, encoding="utf-8")


@contextmanager
def open_output(path: str | PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file to write to: standard output for "-", a pipe or device, or a whole file.

    Errors of the system become a DataError that names the path; a broken pipe stays what it is.
    """
    try:
        if str(path) == STANDARD:
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        elif is_special(path):
            with Path(path).open("wb") as file:
                yield file
        else:
            with whole_file(Path(path).resolve()) as draft, draft.open("wb") as file:
                yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        name = "standard output" if str(path) == STANDARD else path
        raise DataError(f"{name} cannot be written: {error.strerror or error}.") from None


def is_special(path: str | PathLike[str]) -> bool:
    """Whether a path is a pipe or a device, which is written into and never replaced."""
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
