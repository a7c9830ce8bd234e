"""What the paper says about its figures, judged in every regime from the tables alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from math import inf, sqrt
from statistics import median_high

import polars as pl

from outrule.evaluation import say
from outrule.evaluation.comparisons import COMPARISONS
from outrule.evaluation.grid import PAPER_PROBLEMS
from outrule.evaluation.reading import EXAMPLE, SETTING, Answer, Ask, at, mean, parts, rounds_needed
from outrule.evaluation.results import UNIT, Results

FIGURE_2, FIGURE_3 = "caption of figure 2", "appendix A, caption of figure 3"
ROUNDS = 1024  # of the paper's runs
EARLY, LATE = 1 / 8, 7 / 8  # shares of the rounds: stopped early before, not converged after
CLAIMS: list[tuple[str, str, Ask]] = []  # statement, source, judge; in the order of the paper


class Verdict(StrEnum):
    """Whether a claim holds in the regimes that were run."""

    CONFIRMED = "confirmed"
    NOT_CONFIRMED = "not confirmed"
    DEPENDS = "depends on the regime"
    MEASURED = "measured"  # the paper claims nothing
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, and what was measured."""

    statement: str
    source: str
    measured: dict[str, str]  # by regime
    verdict: Verdict


def judge(results: Results) -> list[Claim]:
    """Judge every claim, and make every comparison."""
    claims, regimes = [], results.by_regime()
    ours = [(statement, "not in the paper", ask) for statement, ask in COMPARISONS.items()]
    for statement, source, ask in (*CLAIMS, *ours):
        answers = {name: ask(regime) for name, regime in regimes.items()}
        measured = {name: one.sentence if one else "Not run." for name, one in answers.items()}
        verdict = _verdict([one.holds for one in answers.values() if one])
        claims.append(Claim(statement, source, measured, verdict))
    return claims


def _verdict(holds: list[bool | None]) -> Verdict:
    if not holds:
        return Verdict.NOT_RUN
    if None in holds:
        return Verdict.MEASURED
    if len(set(holds)) > 1:
        return Verdict.DEPENDS
    return Verdict.CONFIRMED if holds[0] else Verdict.NOT_CONFIRMED


def to_markdown(claims: Sequence[Claim]) -> str:
    """The claims as a table."""
    regimes = list(dict.fromkeys(name for claim in claims for name in claim.measured))
    head = ["claim", "source", *regimes, "verdict"]
    rows = [
        [one.statement, one.source, *(one.measured.get(name, "") for name in regimes), one.verdict]
        for one in claims
    ]
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _claim(statement: str, source: str = "section 5.3") -> Callable[[Ask], Ask]:
    def register(ask: Ask) -> Ask:
        CLAIMS.append((statement, source, ask))
        return ask

    return register


@_claim('"a smaller number of arms is associated with a lower initial mean squared error"')
def _initial_error(results: Results) -> Answer | None:
    units = results.units.filter(problem="best-action").sort("n_items")
    by_items = parts(units, "n_items")
    if len(by_items) < 2:
        return None
    means = [mean(part, "squared_error") for part in by_items.values()]
    words = [f"m = {m}: {say.spread(part['squared_error'])}" for (m,), part in by_items.items()]
    return Answer(
        f"Squared error per entry, mean and range {say.seeds(units)}: {', '.join(words)}.",
        all(first < second for first, second in pairwise(means)),
    )


@_claim('"Improvement is always positive", where the loop converges', FIGURE_2)
def _improvement(results: Results) -> Answer | None:
    """Converged runs have patches, but none in the last eighth of the rounds."""
    runs, late = results.paper, LATE * results.grid.rounds
    converged = runs.filter(pl.col("n_patches") > 0, pl.col("last_patch") <= late)
    if converged.is_empty():
        return None
    words, holds = [], []
    for judged, which in ((converged, "that converged"), (runs, "in all")):
        settings = parts(judged, *SETTING, "epsilon", "batch_size")
        means = {key: mean(part, "improvement") for key, part in settings.items()}
        *setting, epsilon, size = lowest = min(means, key=means.__getitem__)
        n_positive = sum(value > 0 for value in means.values())
        holds.append(n_positive == len(means))
        words.append(
            f"{n_positive:,} of {len(means):,} {which}, lowest "
            f"{say.spread(settings[lowest]['improvement'])} ({say.setting(*setting)}, epsilon "
            f"{say.fraction(epsilon)}, batch {size:,})"
        )
    return Answer(
        f"Settings with a positive mean improvement {say.seeds(runs)}: {'; '.join(words)}. "
        f"{len(runs.filter(n_patches=0)):,} of {len(runs):,} runs made no patch.",
        holds[0],
    )


@_claim('"the gap shrinks to 0 or becomes positive when epsilon is not too low"', FIGURE_2)
def _gap(results: Results) -> Answer | None:
    """Judged for epsilon of 1/16 and more, as far as the held-out instances can tell."""
    runs = at(results.paper, "batch_size", largest=True)
    settings = parts(runs, *SETTING, "epsilon")
    judged = [key for key in settings if key[-1] >= EXAMPLE]
    if not judged:
        return None
    below = [key for key, part in settings.items() if mean(part, "gap") < -2 * _error(part)]
    idle = sum(settings[key]["n_patches"].sum() == 0 for key in below)
    named: dict[str, list[str]] = {}
    for *setting, epsilon in below:
        named.setdefault(say.setting(*setting), []).append(say.fraction(epsilon))
    listed = "; ".join(f"{name}: {', '.join(words)}" for name, words in named.items())
    listed = f"{listed} ({idle} of these without a patch)" if below else "none"
    failed = len(set(judged) & set(below))
    lowest = min(settings.values(), key=lambda part: mean(part, "gap"))
    return Answer(
        f"At batch {runs['batch_size'][0]:,}, zero or above within two standard errors in "
        f"{len(judged) - failed} of {len(judged)} settings with epsilon {say.fraction(EXAMPLE)} or "
        f"more. Below: {listed}. Lowest {say.seeds(runs)}: {say.spread(lowest['gap'])}.",
        failed == 0,
    )


def _error(runs: pl.DataFrame) -> float:
    """Standard error of the mean gap over some seeds, on held-out instances."""
    return sqrt(sum(error**2 for error in runs["gap_error"])) / len(runs)


@_claim(
    "Best action, m = 256, epsilon = 1/16, batch 1,024: the loop meets its guarantee within 1,024 "
    'rounds, and the bound "is approximately 260 times as much"'
)
def _guarantee(results: Results) -> Answer | None:
    """The worked example, with a tolerance of epsilon / 2 and with one of epsilon."""
    example = {"problem": "best-action", "n_items": 256}
    runs = results.paper.filter(batch_size=1024, **example)
    units = results.units.filter(**example)
    if runs.filter(epsilon=EXAMPLE).is_empty() or results.grid.rounds != ROUNDS:
        return None
    before = say.number(mean(units, "plain") - mean(units, "best_rule"))
    words, holds = [f"Gap before the first round {before}, {say.seeds(runs)}."], []
    for tolerance in (EXAMPLE / 2, EXAMPLE):
        part = runs.filter(epsilon=2 * tolerance)
        if part.is_empty():
            continue
        needed, worst, measured = rounds_needed(results, part, tolerance, EXAMPLE)
        last = max(part["last_patch"])
        holds.append(min(part["gap"]) >= -EXAMPLE)
        words.append(
            f"Tolerance {say.fraction(tolerance)}: gap {say.spread(part['gap'])}, stays above "
            f"-1/16 after {needed} rounds, "
            f"{f'last patch in round {last:,}' if last else 'no patch'}; the bound is {worst:,} "
            f"rounds, or {measured:,} with the measured error."
        )
    return Answer(" ".join(words), all(holds))


@_claim('Matching: epsilon 1/4 "reaches positive utility gap" at batch 2^8, and 1/8 at batch 2^10')
def _matching_examples(results: Results) -> Answer | None:
    """Both examples, with a tolerance of epsilon / 2 and with one of epsilon."""
    runs = results.paper.filter(problem="matching")
    if results.grid.rounds != ROUNDS:
        return None
    words, holds = [], []
    for factor, tolerance in ((1, "epsilon / 2"), (2, "epsilon")):
        said = []
        for epsilon, size in ((1 / 4, 2**8), (1 / 8, 2**10)):
            part = runs.filter(epsilon=factor * epsilon, batch_size=size)
            if len(part):
                holds.append(mean(part, "gap") > 0)
                gap = say.spread(part["gap"])
                said.append(f"{gap} at {say.fraction(epsilon)} and batch {size:,}")
            elif factor == 1:
                return None
        if said:
            words.append(f"Tolerance {tolerance}: gap {', '.join(said)}.")
    return Answer(f"{' '.join(words)} Mean and range {say.seeds(runs)}.", all(holds))


@_claim('"if epsilon is too high, then the optimization stops very early"', FIGURE_3)
def _too_large(results: Results) -> Answer | None:
    """The largest epsilon stops early, and a smaller one reaches a higher value."""
    where, extreme, others, all_better = _extreme_epsilon(results, largest=True)
    if extreme.is_empty():
        return None
    words = [
        f"{say.setting(*setting)}: {say.count(mean(part, 'n_patches'))} and "
        f"{max(part['last_patch']):,}"
        for setting, part in parts(extreme, *SETTING).items()
    ]
    return Answer(
        f"{where}, mean number of patches and the last round with one, {say.seeds(extreme)}: "
        f"{'; '.join(words)}. {others}",
        max(extreme["last_patch"]) <= EARLY * results.grid.rounds and all_better,
    )


@_claim('"for low epsilon, [...] convergence takes longer", so that another epsilon is better')
def _too_small(results: Results) -> Answer | None:
    """The smallest epsilon has not converged in the end, and another one reaches a higher value."""
    where, extreme, others, all_better = _extreme_epsilon(results, largest=False)
    if extreme.is_empty():
        return None
    rounds, lasts = results.grid.rounds, extreme["last_patch"].to_list()
    late = sum(last > LATE * rounds for last in lasts)
    return Answer(
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


@_claim('Matching, small batches: "updates even when the real signal is weak" at a high epsilon')
def _noise(results: Results) -> Answer | None:
    runs = at(results.paper.filter(problem="matching"), "epsilon", largest=True)
    if runs["batch_size"].n_unique() < 2:
        return None
    small, large = (at(runs, "batch_size", largest=largest) for largest in (False, True))
    said = [
        f"{say.count(mean(part, 'n_patches'))} patches and a value of {say.spread(part['value'])} "
        f"at batch {part['batch_size'][0]:,}"
        for part in (small, large)
    ]
    order = "lower" if mean(small, "value") < mean(large, "value") else "not lower"
    return Answer(
        f"Epsilon {say.fraction(runs['epsilon'][0])}, {say.seeds(runs)}: {', '.join(said)}; the "
        f"value at the small batch is {order}.",
        mean(small, "n_patches") > mean(large, "n_patches"),
    )


@_claim('"convergence is further accelerated by moderately high values of epsilon"')
def _faster(results: Results) -> Answer | None:
    """Below the fastest epsilon, the smaller it is, the slower."""
    words, holds, last = [], [], results.grid.rounds
    for setting, runs in parts(_half_falls(results), *SETTING).items():
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
    return Answer(
        "Rounds until the squared error has made half of the largest fall, median "
        f"{say.seeds(results.paper)}, for the fastest and the smallest epsilon: "
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
