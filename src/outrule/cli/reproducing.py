"""`outrule reproduce`: run the paper's evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from outrule.cli.options import check_folder
from outrule.cli.talking import say


def reproduce(
    folder: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for tables, claims, figures and a page.")
    ] = Path("evaluation"),
    quick: Annotated[
        bool, typer.Option("--quick", help="A small grid: the same code in less than a minute.")
    ] = False,
    paper: Annotated[
        bool, typer.Option("--paper", help="Only what the paper itself ran: half an hour.")
    ] = False,
    problem: Annotated[
        list[str] | None,
        typer.Option(help="best-action, matching, rejection, partition or graphic; repeatable."),
    ] = None,
    items: Annotated[
        list[int] | None, typer.Option(help="Number of actions m of best-action; repeatable.")
    ] = None,
    regime: Annotated[
        list[str] | None,
        typer.Option(help="Training of the base predictor: brief or converged; repeatable."),
    ] = None,
    seed: Annotated[list[int] | None, typer.Option(help="Seed of the data; repeatable.")] = None,
    epsilon: Annotated[
        list[str] | None, typer.Option(help="Such as 0.0625 or 1/16; repeatable.")
    ] = None,
    batch_size: Annotated[
        list[int] | None, typer.Option(help="Instances in each round; repeatable.")
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds of every run.")] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Number of threads.", show_default="all cores")
    ] = None,
    redraw: Annotated[
        bool, typer.Option("--redraw", help="Only judge and draw the results in the folder again.")
    ] = False,
) -> None:
    """Run the paper's evaluation, and judge its claims.

    \b
    outrule reproduce --quick -o evaluation

    The full grid takes two hours on two cores. If it is killed, the same command continues
    where it stopped. Needs matplotlib: pip install 'outrule[plots]'.
    """
    check_folder(folder)
    # Polars and the kernels would slow `outrule --help`.
    from outrule.evaluation.grid import FULL, PAPER_ONLY, QUICK
    from outrule.evaluation.reproduce import draw, evaluate
    from outrule.evaluation.results import read_results
    from outrule.plots import require_matplotlib

    require_matplotlib()
    if redraw:
        results = read_results(folder)
    else:
        given = {
            "problems": problem,
            "items": items,
            "regimes": regime,
            "seeds": seed,
            "other_seeds": seed,
            "epsilons": [_fraction(text) for text in epsilon or ()],
            "batch_sizes": batch_size,
        }
        chosen: dict[str, Any] = {name: tuple(value) for name, value in given.items() if value}
        if rounds is not None:
            chosen["rounds"] = rounds
        grid = replace(QUICK if quick else FULL, **(PAPER_ONLY if paper else {}) | chosen)
        with _progress() as tell:
            results = evaluate(grid, folder, n_jobs=threads, tell=tell)
    for claim in draw(results, folder):
        say(f"{claim.verdict:>21}  {claim.statement}")
    seconds = results.provenance["seconds"]
    say(f"{len(results.runs):,} runs in {seconds:,.0f} s; see {folder}/index.html")


def _fraction(text: str) -> float:
    above, _, below = text.partition("/")
    try:
        return float(above) / float(below or 1)
    except (ValueError, ZeroDivisionError):
        raise typer.BadParameter(f"{text!r} is not a number such as 0.0625 or 1/16.") from None


@contextmanager
def _progress() -> Iterator[Callable[[str, float], None]]:
    """A bar with the time left on a terminal, nothing in a pipe."""
    from rich import progress
    from rich.console import Console

    console = Console(stderr=True)
    bars = (progress.BarColumn(), progress.TaskProgressColumn())
    times = (progress.TimeElapsedColumn(), "left", progress.TimeRemainingColumn())
    columns = ("{task.description}", *bars, *times)
    with progress.Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda words, share: bar.update(task, description=words, completed=share)
