"""Where results go: a path is checked before the work, and written whole after it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from outrule.cli.talking import say
from outrule.errors import DataError

STANDARD = "-"  # standard output


def check_output(output: str, inputs: Sequence[str], *, is_table: bool = False) -> None:
    """Refuse a place that cannot be written, or that is one of the inputs."""
    from outrule.data.table_files import is_special, table_kind

    if output == STANDARD or is_special(output):
        return
    path = Path(output)
    if path.is_dir():
        raise DataError(f"{output} is a folder: name a file in it.")
    if not path.resolve().parent.is_dir():
        raise DataError(f"{path.parent} is not there: make the folder first.")
    if is_table:
        table_kind(output)
    for given in inputs:
        if given != STANDARD and path.exists() and Path(given).exists() and path.samefile(given):
            raise DataError(f"{output} is read by this command: give -o another name.")


def check_json(as_json: bool, output: str | None) -> None:
    """Refuse two things on standard output at once."""
    if as_json and output == STANDARD:
        raise DataError("--json and '-o -' both write to standard output: choose one.")


def write_out(text: str, output: str) -> None:
    """Write a text: to standard output, into a pipe or device, or as a whole file."""
    from outrule.data.table_files import is_special
    from outrule.files import write_text

    if output == STANDARD:
        say(text.removesuffix("\n"))
        return
    try:
        if is_special(output):
            Path(output).write_text(text, encoding="utf-8")
        else:
            write_text(Path(output).resolve(), text)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise DataError(f"{output} cannot be written: {error.strerror or error}.") from None
