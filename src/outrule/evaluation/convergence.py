"""What the paper says of how fast the loop converges, and of too large or too small epsilons."""

from __future__ import annotations

from itertools import pairwise
from math import inf
from statistics import median_high

import polars as pl

from outrule.evaluation import say
from outrule.evaluation.grid import PAPER_PROBLEMS
from outrule.evaluation.paper_examples import LATE
from outrule.evaluation.reading import SETTING, ClaimAnswer, at, example_epsilon, mean, parts
from outrule.evaluation.results import UNIT, Results

EARLY = 1 / 8  # share of the rounds: stopped early before


def too_large(results: Results) -> ClaimAnswer | None:
    """The largest epsilon stops early, and a smaller one reaches a higher value."""
    where, extreme, others, all_better = _extreme_epsilon(results, largest=True)
    if extreme.is_empty():
        return None
    words = [
        f"{say.setting(*setting)}: {say.count(mean(part, 'n_patches'))} and "
        f"{max(part['last_patch']):,}"
        for setting, part in parts(extreme, *SETTING).items()
    ]
    early = int((extreme["last_patch"] <= EARLY * results.grid.rounds).sum())
    return ClaimAnswer(
        f"{early} of {len(extreme)} runs stop in the first eighth",
        f"{where}, mean number of patches and the last round with one, {say.seeds(extreme)}: "
        f"{'; '.join(words)}. {others}",
        early == len(extreme) and all_better,
    )


def too_small(results: Results) -> ClaimAnswer | None:
    """The smallest epsilon has not converged in the end, and another one reaches a higher value."""
    where, extreme, others, all_better = _extreme_epsilon(results, largest=False)
    if extreme.is_empty():
        return None
    rounds, lasts = results.grid.rounds, extreme["last_patch"].to_list()
    late = sum(last > LATE * rounds for last in lasts)
    return ClaimAnswer(
        f"{late} of {len(lasts)} runs patch in the last eighth",
        f"{where}: {late} of {len(lasts)} runs made a patch in the last eighth of {rounds:,} "
        f"rounds, {lasts.count(rounds)} in the very last. {others}",
        late == len(lasts) and all_better,
    )


def _extreme_epsilon(results: Results, *, largest: bool) -> tuple[str, pl.DataFrame, str, bool]:
    """The runs of the largest or smallest epsilon at the largest batch, if there are others.

    Also what they are, how the others compare, and whether one of them is better in all settings.
    """
    runs = at(results.paper, "batch_size", largest=True)
    extreme, gains = at(runs, "epsilon", largest=largest), []
    rest = runs.join(extreme, on="epsilon", how="anti")
    if rest.is_empty():
        return "", rest, "", False
    for part in parts(extreme, *SETTING).values():
        others = parts(rest.join(part, on=SETTING, how="semi"), "epsilon").values()
        best = max((mean(other, "value") for other in others), default=-inf)
        gains.append(best - mean(part, "value"))
    where = f"Epsilon {say.fraction(extreme['epsilon'][0])} at batch {runs['batch_size'][0]:,}"
    better = sum(gain > 0 for gain in gains)
    words = (
        f"Another epsilon has a higher mean value {say.seeds(runs)} in {better} of {len(gains)} "
        f"settings; the best differs by {say.span(gains)}."
    )
    return where, extreme, words, better == len(gains)


def fewer_arms(results: Results) -> ClaimAnswer | None:
    """Rounds until half of the fall, at the epsilon of the example."""
    runs = _half_falls(results).filter(problem="best-action")
    epsilon = example_epsilon(runs)
    if epsilon is None:
        return None
    by_items = parts(runs.filter(epsilon=epsilon).sort("n_items"), "n_items")
    if len(by_items) < 2:
        return None
    rounds = [median_high(part["round"]) for part in by_items.values()]
    last = results.grid.rounds
    words = [
        f"m = {m}: {say.when([median], last)} ({say.when([min(part['round'])], last)} to "
        f"{say.when(part['round'], last)})"
        for ((m,), part), median in zip(by_items.items(), rounds, strict=True)
    ]
    return ClaimAnswer(
        f"{', '.join(say.when([one], last) for one in rounds)} rounds",
        "Rounds until the squared error has made half of the largest fall, median and range "
        f"{say.seeds(runs)}, epsilon {say.fraction(epsilon)}: {', '.join(words)}.",
        all(first < second for first, second in pairwise(rounds)),
    )


def faster(results: Results) -> ClaimAnswer | None:
    """Below the fastest epsilon, the smaller it is, the slower."""
    words, holds, last, falls = [], [], results.grid.rounds, _half_falls(results)
    for setting, runs in parts(falls, *SETTING).items():
        if runs["epsilon"].n_unique() < 2:
            continue
        by_epsilon = {
            e: median_high(part["round"]) for (e,), part in parts(runs, "epsilon").items()
        }
        epsilons, rounds = list(by_epsilon), list(by_epsilon.values())
        best = rounds.index(min(rounds))
        slower = rounds[best:]
        holds.append(slower == sorted(slower) and slower[-1] > slower[0])
        said = [f"{say.fraction(epsilons[i])} in {say.when([rounds[i]], last)}" for i in (best, -1)]
        words.append(f"{say.setting(*setting)}: {', '.join(said)}")
    if not words:
        return None
    return ClaimAnswer(
        f"in {sum(holds)} of {len(holds)} settings",
        "Rounds until the squared error has made half of the largest fall, median "
        f"{say.seeds(falls)}, for the fastest and the smallest epsilon: "
        f"{'; '.join(words)}.",
        all(holds),
    )


def _half_falls(results: Results) -> pl.DataFrame:
    """Rounds until the squared error has made half of the fall of the best run of its unit.

    By unit and epsilon, from the largest, where it falls at all; infinity if never.
    """
    unit = [*UNIT]
    start = results.units.select(*unit, pl.col("squared_error").alias("start"))
    trace = results.trace.filter(pl.col("problem").is_in(PAPER_PROBLEMS), step="fixed")
    trace = at(trace, "batch_size", largest=True).join(start, on=unit, maintain_order="left")
    middle = (pl.col("start") + pl.col("squared_error").min().over(unit)) / 2
    reached = pl.col("round").filter(pl.col("squared_error") <= pl.col("middle")).min()
    trace = trace.with_columns(middle=middle).filter(pl.col("middle") < pl.col("start"))
    runs = trace.group_by(*unit, "epsilon", maintain_order=True).agg(reached.fill_null(inf))
    return runs.sort("epsilon", descending=True, maintain_order=True)
