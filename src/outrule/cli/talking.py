"""How commands talk: words go to people, refusals to standard error with an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import typer

import outrule

REFUSED, CRASHED, INTERRUPTED = 2, 70, 130
IN_A_PIPE = 500  # columns, so that nothing is folded


@contextmanager
def refusals() -> Iterator[None]:
    """Bad input, full disks and closed pipes are a sentence and exit code 2, not a traceback.

    A fault of ours keeps its traceback, and a code of its own: 1 is a verdict of ``certify``.
    """
    try:
        yield
        sys.stdout.flush()
    except (outrule.ArgumentError, outrule.DataError, typer.BadParameter) as error:
        raise _refuse(str(error)) from None
    except BrokenPipeError:  # whoever read us has heard enough
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


def _refuse(words: str) -> typer.Exit:
    say(f"Error: {printable(words)}", err=True)
    return typer.Exit(REFUSED)


def say(words: str, *, err: bool = False) -> None:
    """Print words; what the stream cannot encode is replaced."""
    stream = sys.stderr if err else sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    typer.echo(words.encode(encoding, "replace").decode(encoding), err=err)


def printable(words: str) -> str:
    """Text from a file without the characters that could steer a terminal."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in words)


def _close_output() -> None:
    """Send what is left for standard output nowhere, or Python fails again when it ends."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def waiting(words: str) -> AbstractContextManager[Any]:
    """A spinner on a terminal, nothing in a pipe."""
    from rich.console import Console

    return Console(stderr=True).status(words)


def drawn(*things: Any, err: bool = False) -> str:
    """Tables as text: as wide as the terminal they go to, and in a pipe as wide as they are."""
    from rich.console import Console

    console = Console(stderr=err)
    if not console.is_terminal:
        console.width = IN_A_PIPE
    with console.capture() as capture:
        for thing in things:
            console.print(thing, markup=False, highlight=False)
    return capture.get().rstrip("\n")
