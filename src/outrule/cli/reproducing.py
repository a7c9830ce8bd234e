"""`outrule reproduce`: settings of the evaluation enter, tables, claims and a page leave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from outrule.cli.talking import refusals, say


def reproduce(
    folder: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for tables, claims, figures and a page.")
    ] = Path("evaluation"),
    quick: Annotated[bool, typer.Option("--quick", help="The same code, fewer points.")] = False,
    paper: Annotated[
        bool,
        typer.Option("--paper", help="Its two problems, its regime and its runs only."),
    ] = False,
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

    \b
    outrule reproduce --quick -o evaluation

    Killed in the middle, the same command goes on where it stopped. The whole of it takes
    an hour and a half on two cores, --paper half an hour, --quick less than a minute.
    """
    with refusals():
        from outrule.evaluation.folder import read_results
        from outrule.evaluation.reproduce import draw, evaluate
        from outrule.evaluation.settings import FULL, PAPER, QUICK

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
            settings = replace(QUICK if quick else FULL, **(PAPER if paper else {}) | chosen)
            with _progress() as hear:
                results = evaluate(settings, folder, n_jobs=threads, hear=hear)
        for claim in draw(results, folder):
            say(f"{claim.verdict:>21}  {claim.statement}")
        seconds = results.provenance["seconds"]
        say(f"{len(results.runs):,} runs, {seconds:,.0f} s of work; see {folder}/index.html")


def _fraction(text: str) -> float:
    try:
        return float(Fraction(text))
    except (ValueError, ZeroDivisionError):
        raise typer.BadParameter(f"{text!r} is no number such as 0.0625 or 1/16.") from None


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
