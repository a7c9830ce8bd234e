"""What commands print, and how errors become messages and exit codes."""

import errno
import os
import re
import sys
import traceback
import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO

import typer

import outrule
from outrule import progress
from outrule.memory import address_limit, is_exhausted
from outrule.words import harmless

REFUSED, CRASHED, INTERRUPTED, PIPE_CLOSED = 2, 70, 130, 141
NO_MEMORY = "there is not enough memory for this"
LEAST = 1_700  # megabytes of address space: with less, libraries abort or hang when they start
ARGUMENT = re.compile(
    r"The '(?:--)?([\w-]+)' argument of (?:outrule )?\S+ must be(?: (a float|an int)\b)?"
)
NAMES = {"n_refits": "refits", "share": "explore", "random_state": "seed"}  # of our options
KINDS = {"a float": " a number", "an int": " a whole number"}
RANGE = "Set value_range = [low, high] in [data] of the spec."
FITTED_RANGE = (
    "The model was fitted for this range: correct the value, or set another value_range in [data] "
    "of its spec and fit again."
)
# What errors say to users of Python, and what it is on the command line.
WORDS = {
    "Give Instances (or [data] of the spec) the range of the values: value_range.": RANGE,
    "name the column of the 'item'.": "name the item column in [data] of the spec.",
    "give start= for both or for neither.": "the start column of [data] is missing, or new.",
    ", and start= is given: choose one.": (
        ", and [fit] of the spec has a start as well: choose one."
    ),
    ", in pandas with .astype(str).": ".",
    ": see Rejection.with_reject.": ".",
    ": max_weight must be": ": --max-weight must be",
    ", more than max_weight=": ", more than --max-weight ",
}


@contextmanager
def refusals(options: Collection[str] = ()) -> Iterator[None]:
    """Turn bad input, full disks and closed pipes into a message and an exit code.

    Errors about Python arguments name one of the ``options`` instead, or a key of the spec. A bug
    keeps its traceback. No exit code is 1 or 3, which are verdicts of ``certify`` and ``watch``.
    """
    try:
        if options:  # it is a command, and no text of help
            _check_address_space()
        with warnings.catch_warnings():
            # Said once, by the commands themselves.
            for words in ("not seen in training", "offer nothing to choose between"):
                warnings.filterwarnings("ignore", f".* {words}")
            try:
                yield
            finally:
                if sys.stdout is not None:  # it is None where it was closed
                    sys.stdout.flush()
    except typer.Exit:
        raise
    except BrokenPipeError:  # the reader of our output has seen enough
        _discard(sys.stdout)
        raise typer.Exit(PIPE_CLOSED) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except BaseException as error:
        raise _ended_by(error, options) from None


def _ended_by(error: BaseException, options: Collection[str]) -> BaseException:
    """Say what went wrong; the exit code, or what is not ours to handle."""
    if _lacks_memory(error):
        _discard(sys.stdout)
        limit = address_limit()
        shell = "" if limit is None else f": the shell allows {limit >> 20:,} MB (ulimit -v)"
        least = f", and at least {LEAST:,} MB are needed" if limit and limit < LEAST << 20 else ""
        return _refuse(f"{NO_MEMORY}{shell}{least}.")
    if isinstance(error, (outrule.ArgumentError, outrule.DataError, typer.BadParameter)):
        return _refuse(str(error), options)
    if isinstance(error, OSError):
        _discard(sys.stdout)
        place = "" if error.filename is None else f"{error.filename}: "
        return _refuse(f"{place}{error.strerror or error}.")
    if _is_panic(error):
        reason = str(error).partition("\n")[0]
        return _refuse(f"Polars stopped ({reason}). This is a bug: please report it.")
    if not options and isinstance(error, SystemExit):  # of typer, which has said why
        return error
    _complain(traceback.format_exc())
    return typer.Exit(CRASHED)


def _is_panic(error: BaseException | None) -> bool:
    """Whether it is a panic of Polars, which is no Exception; by its name, for Polars is heavy."""
    return type(error).__name__ == "PanicException"


def _lacks_memory(error: BaseException) -> bool:
    """Whether there was too little memory, whatever libraries and we have made of it."""
    number = getattr(error, "errno", None)
    if isinstance(error, MemoryError) or number is not None:
        return number in (None, errno.ENOMEM)
    if isinstance(error, (outrule.ArgumentError, outrule.DataError)):
        cause = error.__context__
        while cause and not (isinstance(cause, MemoryError) or _is_panic(cause)):
            cause = cause.__context__
        return cause is not None and is_exhausted()
    if _is_panic(error) or isinstance(error, Exception):
        signs = ("failed to map segment", "can't start new thread")
        return is_exhausted() or any(sign in str(error) for sign in signs)
    return False


def _check_address_space() -> None:
    """Raise before anything is loaded, if it could not even start."""
    limit = address_limit()
    if limit is not None and limit < LEAST << 20:
        raise MemoryError
    if limit is not None:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # each takes memory, and none is used


def _refuse(words: str, options: Collection[str] = ()) -> typer.Exit:
    _complain(f"Error: {printable(in_our_words(words, options))}")
    return typer.Exit(REFUSED)


def _complain(words: str) -> None:
    """Say why a command ends; it ends with the same code where nobody can hear it."""
    try:
        say(words, err=True)
    except OSError:  # full or closed
        _discard(sys.stderr)


def in_our_words(words: str, options: Collection[str] = ()) -> str:
    """An error as the command line says it: it names options and keys, no Python arguments."""

    def reword(found: re.Match[str]) -> str:
        name, kind = found.groups()
        name = name.replace("-", "_")
        known = next((one for one in (name, NAMES.get(name)) if one in options), None)
        shown = f"'{name}'" if known is None else f"--{known.replace('_', '-')}"
        return f"{shown} must be{KINDS.get(kind, '')}"

    for python, ours in WORDS.items():
        words = words.replace(python, ours)
    if options and "spec" not in options:
        words = words.replace(RANGE, FITTED_RANGE)
    return ARGUMENT.sub(reword, words)


def say(words: str, *, err: bool = False) -> None:
    """Print words; characters that the stream cannot encode are replaced."""
    stream = sys.stderr if err else sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    typer.echo(words.encode(encoding, "replace").decode(encoding), err=err)


def printable(words: str) -> str:
    """Lines with names from a file, without the characters that could control a terminal."""
    return harmless(words, "\n")


def _discard(stream: IO[str]) -> None:
    """Discard what is left for a standard stream, or Python fails again when it exits."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


@contextmanager
def waiting(words: str) -> Iterator[None]:
    """A spinner on a terminal that says how far the work has come, nothing in a pipe."""
    from rich.console import Console  # slow to import, and not for help

    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(words) as status:

        def tell(noun: str, done: int, total: int | None, seconds: float) -> None:
            status.update(f"{words}: {how_far(noun, done, total, seconds)}")

        with progress.heard_by(tell):
            yield


def how_far(noun: str, done: int, total: int | None, seconds: float) -> str:
    """How many are done, and about how long the rest takes at the same speed.

    >>> how_far("round", 20, 50, 40.0)
    'round 20 of 50, about 1:00 left'
    """
    if total is None:
        return f"{noun} {done:,}"
    minutes, rest = divmod(round(seconds / done * (total - done)), 60)
    return f"{noun} {done:,} of {total:,}, about {minutes}:{rest:02} left"


def drawn(titles: Sequence[str], rows: Iterable[Sequence[str]], *, err: bool = False) -> str:
    """A table as wide as the terminal it goes to; in a pipe, as wide as it needs to be."""
    from rich.console import Console  # slow to import, and not for help
    from rich.table import Table
    from rich.text import Text

    table = Table(titles[0])
    for title in titles[1:]:
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(*(Text(harmless(cell)) for cell in row))  # [b] is no markup in a Text
    console = Console(stderr=err)
    if not console.is_terminal:
        console.width = 500  # columns, so that nothing is wrapped
    with console.capture() as capture:
        console.print(table, highlight=False)
    return capture.get().rstrip("\n")
