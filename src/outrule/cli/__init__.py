"""The command line: tables for people, JSON for machines."""

# Only typer is imported here and at the top of the commands' modules: numpy, polars, numba and
# scikit-learn take seconds, and `outrule --help` should not wait for them.
import inspect
import os
import signal
import sys
from contextlib import suppress
from typing import Annotated, Any

import typer

import outrule
from outrule.cli.applying import decide, predict
from outrule.cli.checking import check, verify
from outrule.cli.demonstrating import demo, example
from outrule.cli.doctoring import doctor
from outrule.cli.fitting import fit
from outrule.cli.judging import certify, report
from outrule.cli.planning import plan
from outrule.cli.reproducing import reproduce
from outrule.cli.talking import CRASHED, PIPE_CLOSED, REFUSED, refusals
from outrule.cli.watching import watch

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # square brackets of examples are square brackets
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"outrule {outrule.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Make the plain optimiser at least as good as hand-written rules, with a certificate.

    \b
    Examine the data, fit on past data, certify on later data, then decide, and keep watching:
      outrule doctor past.parquet --spec spec.toml
      outrule fit past.parquet --spec spec.toml -o model.json
      outrule certify model.json later.parquet -o certificate.json
      outrule decide model.json today.parquet -o decisions.parquet
      outrule watch model.json yesterday.parquet --state watch.json

    Tables are Parquet, CSV, TSV or Arrow files with one row per item; "-" reads or writes a pipe.
    Bad input gives a message on standard error and exit code 2; a bug in outrule gives code 70.
    """


def _open_closed_streams() -> None:
    """Files opened later must not take the numbers of closed standard streams."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free


def _stop(number: int, frame: Any) -> None:
    """Answer Ctrl-C at once: threads first finish their piece, or the kernel they compile."""
    with suppress(OSError):
        os.write(2, b"Stopping, which can take a few seconds.\n")
    signal.default_int_handler(number, frame)


def run() -> None:
    """The command from the shell; what typer itself prints can meet a full disk as well."""
    _open_closed_streams()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored
        signal.signal(signal.SIGINT, _stop)
    os.environ.setdefault("RUST_BACKTRACE", "0")  # a panic of Polars is said in a sentence
    try:
        with refusals():
            app(prog_name="outrule")
    except typer.Exit as stop:
        sys.exit(stop.exit_code)
    except SystemExit as stop:
        sys.exit(_code(stop))


def _code(stop: SystemExit) -> Any:
    """The exit code of typer, where 1 can also be a closed pipe: only commands give verdicts."""
    if isinstance(stop.__context__, typer.Exit) or stop.code in (0, REFUSED):
        return stop.code
    return PIPE_CLOSED if isinstance(stop.__context__, BrokenPipeError) else CRASHED


COMMANDS = (
    *(check, doctor, fit, certify, verify, report, predict, decide, watch),
    *(plan, example, demo, reproduce),
)
for command in COMMANDS:
    app.command()(refusals(inspect.signature(command).parameters)(command))
