"""The command line: words enter, tables for people or JSON for machines leave."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

import outrule

if TYPE_CHECKING:
    from outrule.demos import DemoResult

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Predictions on which the plain optimiser beats hand-written rules, with a certificate.",
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
    """Predictions on which the plain optimiser beats hand-written rules, with a certificate."""


@app.command()
def demo(
    name: Annotated[str, typer.Argument(help="best-action, matching or two-arms.")] = "best-action",
    as_json: Annotated[bool, typer.Option("--json", help="Print the certificate as JSON.")] = False,
) -> None:
    """Calibrate a synthetic world and certify the result on data it has not seen."""
    from rich.console import Console

    from outrule import demos

    if name not in demos.DEMOS:
        raise typer.BadParameter(f"{name!r} is none of {', '.join(demos.DEMOS)}.")
    with Console(stderr=True).status(f"calibrating {name}"):  # shows nothing in a pipe
        result = demos.run(name)
    if as_json:
        typer.echo(json.dumps(json.loads(result.certificate.to_json()), indent=1))
    else:
        _show(result)


def _show(result: DemoResult) -> None:
    from rich.console import Console
    from rich.table import Table

    certificate, calibrator = result.certificate, result.calibrator
    console = Console()
    table = Table(title=result.demo.title, title_justify="left")
    table.add_column("decisions by")
    table.add_column("value on held-out data", justify="right")
    table.add_column("95 % interval", justify="right")
    rows = [
        ("plain optimiser on the predictions", certificate.plain),
        (f"best rule on training data ({certificate.best_rule_name})", certificate.best_rule),
        ("plain optimiser, isotonic regression", certificate.isotonic),
        ("plain optimiser, outrule", certificate.calibrated),
        ("plain optimiser, outrule from isotonic", result.from_isotonic.calibrated),
        ("oracle that knows the outcomes", certificate.oracle),
    ]
    for words, estimate in rows:
        if estimate is not None:
            interval = f"{estimate.lower:.4f} to {estimate.upper:.4f}"
            table.add_row(words, f"{estimate.mean:.4f}", interval)
    console.print(table)
    before, after = certificate.promise_before, certificate.promise_after
    console.print(
        f"promised and kept: {before.predicted:.4f} and {before.realised:.4f} before, "
        f"{after.predicted:.4f} and {after.realised:.4f} after"
    )
    console.print(f"{len(calibrator.patches_)} patches, {calibrator.status_.value}")
    console.print(f"certificate: {certificate}", highlight=False)
