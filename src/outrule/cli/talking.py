"""What commands print, and how errors become messages and exit codes."""

import os
import re
import sys
import traceback
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import typer

import outrule

REFUSED, CRASHED, INTERRUPTED = 2, 70, 130
ARGUMENT = re.compile(r"The '(\w+)' argument of \S+ must be(?: (a float|an int)\b)?")
KINDS = {"a float": " a number", "an int": " a whole number"}


@contextmanager
def refusals(options: Collection[str] = ()) -> Iterator[None]:
    """Turn bad input, full disks and closed pipes into a message and exit code 2.

    Errors about Python arguments name one of the ``options`` instead, or a key of the spec. A bug
    keeps its traceback, and its exit code is not 1, which is a verdict of ``certify``.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except (outrule.ArgumentError, outrule.DataError, typer.BadParameter) as error:
        raise _refuse(str(error), options) from None
    except BrokenPipeError:  # the reader of our output has closed it
        _close_output()
        raise typer.Exit(REFUSED) from None
    except OSError as error:
        _close_output()
        place = "" if error.filename is None else f"{error.filename}: "
        raise _refuse(f"{place}{error.strerror or error}.") from None
    except MemoryError:
        raise _refuse("there is not enough memory for this.") from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except typer.Exit:
        raise
    except Exception:
        say(traceback.format_exc(), err=True)
        raise typer.Exit(CRASHED) from None


def _refuse(words: str, options: Collection[str] = ()) -> typer.Exit:
    def reword(found: re.Match[str]) -> str:
        name, kind = found.groups()
        shown = f"--{name.replace('_', '-')}" if name in options else f"'{name}'"
        return f"{shown} must be{KINDS.get(kind, '')}"

    say(f"Error: {printable(ARGUMENT.sub(reword, words))}", err=True)
    return typer.Exit(REFUSED)


def say(words: str, *, err: bool = False) -> None:
    """Print words; characters that the stream cannot encode are replaced."""
    stream = sys.stderr if err else sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    typer.echo(words.encode(encoding, "replace").decode(encoding), err=err)


def printable(words: str) -> str:
    """A string from a file, without the characters that could control a terminal."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in words)


def _close_output() -> None:
    """Discard what is left for standard output, or Python fails again when it exits."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def waiting(words: str) -> AbstractContextManager[Any]:
    """A spinner on a terminal, nothing in a pipe."""
    from rich.console import Console

    return Console(stderr=True).status(words)


def drawn(titles: Sequence[str], rows: Iterable[Sequence[str]], *, err: bool = False) -> str:
    """A table as wide as the terminal it goes to; in a pipe, as wide as it needs to be."""
    from rich.console import Console
    from rich.table import Table

    table = Table(titles[0])
    for title in titles[1:]:
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(*map(printable, row))
    console = Console(stderr=err)
    if not console.is_terminal:
        console.width = 500  # columns, so that nothing is wrapped
    with console.capture() as capture:
        console.print(table, markup=False, highlight=False)
    return capture.get().rstrip("\n")
