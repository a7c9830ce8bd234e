"""The command line: words enter, tables for people or JSON for machines leave."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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


@app.command()
def reproduce(
    folder: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for tables, claims, figures and a page.")
    ] = Path("evaluation"),
    quick: Annotated[bool, typer.Option("--quick", help="The same code, fewer points.")] = False,
    problem: Annotated[
        list[str] | None,
        typer.Option(help="best-action, matching, rejection, partition, graphic; repeat for more."),
    ] = None,
    items: Annotated[
        list[int] | None, typer.Option(help="Number of actions m of best-action; repeat for more.")
    ] = None,
    regime: Annotated[
        list[str] | None, typer.Option(help="How the base predictor was trained: brief, converged.")
    ] = None,
    seed: Annotated[list[int] | None, typer.Option(help="World; repeat for more.")] = None,
    epsilon: Annotated[
        list[str] | None, typer.Option(help="As 0.0625 or 1/16; repeat for more.")
    ] = None,
    batch_size: Annotated[
        list[int] | None, typer.Option(help="Instances per CHECK; repeat for more.")
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds of every run.")] = None,
    threads: Annotated[int | None, typer.Option(help="All cores if not given.")] = None,
    redraw: Annotated[
        bool, typer.Option("--redraw", help="Only judge and draw again what the folder holds.")
    ] = False,
) -> None:
    """Run the evaluation of the paper, and judge what it claims.

    Killed in the middle, the same command goes on where it stopped. The whole of it takes about
    an hour on two cores; --quick less than a minute.
    """
    with _refusals():
        from outrule.evaluation.folder import read_results
        from outrule.evaluation.reproduce import draw, evaluate
        from outrule.evaluation.settings import FULL, QUICK

        if redraw:
            results = read_results(folder)
        else:
            given = {
                "problems": problem,
                "items": items,
                "regimes": regime,
                "seeds": seed,
                "matching_seeds": seed,
                "epsilons": [_fraction(text) for text in epsilon or ()],
                "batch_sizes": batch_size,
            }
            chosen: dict[str, Any] = {name: tuple(value) for name, value in given.items() if value}
            if rounds is not None:
                chosen["rounds"] = rounds
            settings = replace(QUICK if quick else FULL, **chosen)
            with _progress() as hear:
                results = evaluate(settings, folder, n_jobs=threads, hear=hear)
        draw(results, folder)
        seconds = results.provenance["seconds"]
        typer.echo((folder / "claims.md").read_text(encoding="utf-8"))
        typer.echo(f"{len(results.runs)} runs in {seconds:.0f} s of work; see {folder}/index.html")


def _fraction(text: str) -> float:
    try:
        return float(Fraction(text))
    except (ValueError, ZeroDivisionError):
        raise typer.BadParameter(f"{text!r} is no number such as 0.0625 or 1/16.") from None


@contextmanager
def _refusals() -> Iterator[None]:
    """Bad input is a sentence and exit code 2, not a traceback."""
    try:
        yield
    except (outrule.ArgumentError, outrule.DataError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from None


@contextmanager
def _progress() -> Iterator[Callable[[str, float], None]]:
    """A bar with the time left on a terminal, nothing in a pipe."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda words, share: bar.update(task, description=words, completed=share)


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
