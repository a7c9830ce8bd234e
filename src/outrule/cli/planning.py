"""`outrule plan`: what data of a size cost, before anyone starts."""

from __future__ import annotations

from typing import Annotated

import typer

from outrule.cli.options import number
from outrule.cli.talking import drawn, say
from outrule.words import count

SIZES = (10**7, 10**8, 10**9)


def plan(
    instances: Annotated[int, typer.Option(min=1, help="Instances (decisions).")],
    items: Annotated[int, typer.Option(min=1, help="Items on offer in an instance, on average.")],
    rules: Annotated[int, typer.Option(min=1, help="Rules, including those of [multipliers].")],
    epsilon: Annotated[
        float, typer.Option(parser=number, help="As in fit, but as a share of the value range.")
    ] = 0.01,
    k: Annotated[int, typer.Option("--k", min=1, help="Most items that a decision takes.")] = 1,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of the loop.")] = 100,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Workers of a Dask cluster, with one core each.")
    ] = None,
) -> None:
    """Say how many instances a fit needs, and what it costs.

    Time, memory and disk of `outrule fit` and `outrule predict` on folders, for your number of
    instances and for 10^7, 10^8 and 10^9: measured costs on two cores, times the sizes. Workers of
    a cluster share the decisions of rules and the rounds.

    \b
    outrule plan --instances 20000000 --items 10 --rules 100 --epsilon 0.01
    """
    from outrule.model.costs import COSTS  # the next two load Polars and Numba
    from outrule.model.planning import CORES, MESSAGE, instances_needed, plan as plan_for
    from outrule.model.recipes import PER_INSTANCE, PER_ROW

    needed = instances_needed(k=k, epsilon=epsilon, rules=rules)
    say(
        f"To know every rule's violation to within half the tolerance of epsilon = {epsilon:g}, "
        f"with 95 % confidence, {needed:,} instances are enough in the worst case."
    )
    if instances < needed:
        say("You have fewer, so less can be guaranteed.")
    if instances > needed:
        say(
            f"You have {instances / needed:,.1f} times as many: a sample of that size to fit on, "
            "and another one to certify on, will do."
        )
    say("Billions of rows are for predict and decide, and rarely for fit.")
    rows = []
    for n in sorted({instances, *SIZES}):
        one = plan_for(n, items=items, rules=rules, k=k, workers=workers)
        phases = (one.read, one.start, one.decide, one.round)
        times = [_time(seconds) for seconds in (*phases, one.fit(rounds), one.predict)]
        sizes = [f"{one.memory / 1e9:,.1f} GB", f"{one.disk / 1e9:,.0f} GB"]
        rows.append((f"{n:,}", f"{one.rows:,}", *times, *sizes))
    titles = ("instances", "rows", "read", "start", "decide", "a round")
    more = (f"fit, {count(rounds, 'round')}", "predict", "memory of fit", "disk of fit")
    say(drawn((*titles, *more), rows))
    cost = {name: f"{value:g}" for name, value in COSTS.items()}
    say(
        f"seconds: read = {cost['read']} rows; start = {cost['start']} rows of a sample of at most "
        f"1,000,000 instances; decide = ({cost['build']} + {cost['decide']} rules) rows; a round = "
        f"{cost['round']} rows; predict = {cost['predict']} rows\n"
        f"bytes: memory = {cost['memory']} + {cost['memory_row']} rows of the sample; disk = "
        f"{PER_ROW} rows + ({PER_INSTANCE} + rules k) instances"
    )
    if workers is not None:
        say(
            f"{count(workers, 'worker')}, as in the table: decide and a round take "
            f"{CORES}/{workers} of the time on {CORES} cores; decide at least as long as read, and "
            f"a round {MESSAGE:g} s more; they share the disk"
        )


def _time(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:,.1f} s"
