"""The command line: words enter, tables for people or JSON for machines leave."""

from __future__ import annotations

from typing import Annotated

import typer

import outrule
from outrule.cli.applying import decide, predict
from outrule.cli.demonstrating import demo, example
from outrule.cli.fitting import fit
from outrule.cli.judging import certify, report
from outrule.cli.reproducing import reproduce

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # square brackets of examples are square brackets
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"outrule {outrule.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="The version.")
    ] = False,
) -> None:
    """Predictions on which the plain optimiser beats hand-written rules, with a certificate.

    \b
    fit on a table of the past, certify on a later one, then predict and decide:
      outrule fit past.parquet --spec spec.toml -o model.json
      outrule certify model.json later.parquet -o certificate.json
      outrule decide model.json today.parquet -o decisions.parquet

    Tables are Parquet, CSV, TSV or Arrow files with one row per item; "-" is a pipe. Bad input is
    one sentence on standard error and exit code 2; a fault of outrule itself has code 70.
    """


for command in (fit, predict, decide, certify, report, example, demo, reproduce):
    app.command()(command)
