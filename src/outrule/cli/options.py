"""What several commands share: their options, and what they write and print in the end."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from outrule.cli.talking import say
from outrule.errors import DataError
from outrule.files import (
    STANDARD,
    check_named,
    follow_links,
    is_address,
    is_special,
    open_output,
)
from outrule.words import listed


class Unseen(StrEnum):
    KEEP, ERROR = "keep", "error"


class OnError(StrEnum):
    STOP, ORIGINAL, SKIP = "stop", "original", "skip"


class Over(StrEnum):
    UNIFORM, RULES = "uniform", "rules"


def number(text: str) -> float:
    """The number that an option gives."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number, such as 0.05.") from None


UNSEEN = Annotated[
    Unseen,
    typer.Option(help="Items that were not in training: keep them with a warning, or stop."),
]
MODEL = Annotated[str, typer.Argument(help="A model file that `outrule fit` wrote.")]
KEY = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Secret key that the files read must be signed with."),
]
SCRATCH = Annotated[
    str | None, typer.Option(metavar="FOLDER", help="For a folder: where temporary files go.")
]
SPEC = Annotated[str, typer.Option(metavar="FILE", help="TOML file: problem, columns, rules.")]
MOST = Annotated[
    float | None,
    typer.Option(
        parser=number, help="Largest weight (or number of instances) that one cluster can have."
    ),
]
ON_ERROR = Annotated[
    OnError,
    typer.Option(
        help="Instances with errors: stop; use their original predictions where these are valid; "
        "or leave them out."
    ),
]
ERRORS = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Where to list the rows with errors.",
        show_default="OUTPUT.errors.csv",
    ),
]


def check_output(
    output: str | None,
    inputs: Sequence[str | None],
    *,
    as_json: bool = False,
    is_table: bool = False,
    option: str = "-o",
) -> None:
    """Raise an error for a path that cannot be written, or that is one of the inputs."""
    for given in (output, *inputs):
        check_named(given)
    if output == STANDARD and as_json:
        raise DataError("--json and '-o -' both write to standard output: choose one.")
    if output == STANDARD and sys.stdout is None:
        raise DataError("standard output is closed: name a file with -o.")
    if STANDARD in inputs and sys.stdin is None:
        raise DataError("standard input is closed: name a file.")
    if output is None or output == STANDARD or is_special(output):
        return
    if is_address(output):
        if not is_table:
            raise DataError(f"{output} is an address: only tables can be written there.")
        return
    path = Path(output)
    if path.is_dir():
        raise DataError(f"{output} is a folder: name a file inside it.")
    if not (folder := follow_links(path).parent).is_dir():
        raise DataError(f"the folder {folder} does not exist: create it first.")
    for given in inputs:
        if given in (None, STANDARD) or not (path.exists() and Path(given).exists()):
            continue
        if path.samefile(given):
            words = f"choose another name for {option}"
            raise DataError(f"{output} is an input of this command: {words}.")


def check_folder(folder: str | Path) -> None:
    """Raise an error for a folder that cannot be made, because the one it is in does not exist."""
    if not Path(folder).exists():
        check_output(str(folder), ())


def check_for_folder(**options: object) -> None:
    """Raise an error for options that were given although only a folder has a use for them."""
    if given := [f"--{name}" for name, value in options.items() if value is not None]:
        verb = "is" if len(given) == 1 else "are"
        raise DataError(f"{listed(given)} {verb} for a folder of Parquet files, not for one table.")


def check_side_files(files: dict[str, str | None], inputs: Sequence[str | None]) -> None:
    """What options name beside the output (-o) must be files, and all of them different."""
    for option, path in files.items():
        if option == "-o":
            continue
        if path == STANDARD:
            raise DataError(f"{option} must be a file, not '-'.")
        check_output(path, inputs, option=option)
    paths = [Path(path).resolve() for path in files.values() if path not in (None, STANDARD)]
    if len(set(paths)) < len(paths):
        *first, last = files
        raise DataError(f"{', '.join(first)} and {last} must be different files.")


def finish(text: str, output: str | None, shown: str, *, as_json: bool, then: str = "") -> None:
    """Write the result of a command, if there is an output, and print what it shows."""
    if output is not None:
        with open_output(output) as file:
            file.write(text.removesuffix("\n").encode() + b"\n")
    if shown:
        say(shown, err=output == STANDARD)
    if not as_json and output not in (None, STANDARD):
        say(f"wrote {output}{then}")
