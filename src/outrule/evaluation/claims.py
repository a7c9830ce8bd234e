"""Claims: results enter; what the paper says of its figures leaves, judged in every regime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from statistics import median_high
from typing import NamedTuple

import polars as pl

from outrule.evaluation.comparisons import COMPARISONS
from outrule.evaluation.reading import (
    EXAMPLE,
    PAPER,
    SETTING,
    Finding,
    Regime,
    at,
    bounds,
    count,
    fraction,
    half_falls,
    label,
    mean,
    number,
    parts,
    regimes_of,
    seeds,
    settled,
    spread,
    when,
)
from outrule.evaluation.tables import Results

CONFIRMED = "confirmed"
NOT_CONFIRMED = "not confirmed"
DEPENDS = "depends on the regime"
MEASURED = "measured"  # the paper claims nothing
NOT_RUN = "not run"

ROUNDS = 1024  # of the paper's runs
EARLY, LATE = 1 / 8, 7 / 8  # shares of the rounds: stopped early before, still at work after


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, and what was measured of it."""

    statement: str
    source: str
    measured: dict[str, str]  # by regime
    verdict: str


class _Entry(NamedTuple):
    statement: str
    source: str
    find: Callable[[Regime], Finding | None]


def judge(results: Results) -> list[Claim]:
    """Judge every claim from the tables alone; where they do not hold what it needs, say so."""
    regimes = regimes_of(results)
    claims = []
    for entry in _CLAIMS:
        found = {name: entry.find(regime) for name, regime in regimes.items()}
        measured = {name: one.sentence if one else "Not run." for name, one in found.items()}
        verdict = _verdict([one.holds for one in found.values() if one])
        claims.append(Claim(entry.statement, entry.source, measured, verdict))
    return claims


def table(claims: Sequence[Claim]) -> str:
    """The claims as a table in Markdown."""
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


def _verdict(holds: list[bool | None]) -> str:
    if not holds:
        return NOT_RUN
    if None in holds:
        return MEASURED
    if len(set(holds)) > 1:
        return DEPENDS
    return CONFIRMED if holds[0] else NOT_CONFIRMED


# The claims of the paper, in its order.


def _initial_error(regime: Regime) -> Finding | None:
    units = regime.units.filter(problem="best-action").sort("n_items")
    by_items = parts(units, "n_items")
    if len(by_items) < 2:
        return None
    means = [mean(part, "squared_error") for part in by_items.values()]
    words = [f"m = {m}: {spread(part['squared_error'])}" for (m,), part in by_items.items()]
    return Finding(
        f"Squared error per entry, mean and range {seeds(units)}: {', '.join(words)}.",
        all(first < second for first, second in pairwise(means)),
    )


def _improvement(regime: Regime) -> Finding | None:
    """Of runs that patched, and found nothing more in the last eighth of the rounds."""
    runs = regime.paper
    converged = runs.filter(
        pl.col("n_patches") > 0, pl.col("last_patch") <= LATE * regime.settings.rounds
    )
    if converged.is_empty():
        return None
    words, holds = [], []
    for judged in (converged, runs):
        settings = parts(judged, *SETTING, "epsilon", "batch_size")
        means = {key: mean(part, "improvement") for key, part in settings.items()}
        problem, n_items, epsilon, size = lowest = min(means, key=means.__getitem__)
        n_positive = sum(value > 0 for value in means.values())
        holds.append(n_positive == len(means))
        words.append(
            f"{n_positive:,} of {len(means):,}, lowest {spread(settings[lowest]['improvement'])} "
            f"({label(problem, n_items)}, epsilon {fraction(epsilon)}, batch {size:,})"
        )
    idle = len(runs.filter(n_patches=0))
    return Finding(
        f"Settings with a positive mean {seeds(runs)}: of the converged, {words[0]}; of all, "
        f"{words[1]}. No patch in {idle:,} of {len(runs):,} runs.",
        holds[0],
    )


def _gap(regime: Regime) -> Finding | None:
    """Not below zero, as far as the held-out instances tell, for epsilon of 1/16 and more."""
    runs = at(regime.paper, "batch_size", largest=True)
    settings = parts(runs, *SETTING, "epsilon")
    judged = [key for key in settings if key[-1] >= EXAMPLE]
    if not judged:
        return None
    below = [key for key, part in settings.items() if mean(part, "gap") < -2 * _error(part)]
    idle = sum(settings[key]["n_patches"].sum() == 0 for key in below)
    named: dict[str, list[str]] = {}
    for problem, n_items, epsilon in below:
        named.setdefault(label(problem, n_items), []).append(fraction(epsilon))
    listed = "; ".join(f"{name}: {', '.join(words)}" for name, words in named.items())
    listed = f"{listed} ({idle} of these without a patch)" if below else "none"
    failed = len(set(judged) & set(below))
    lowest = min(settings.values(), key=lambda part: mean(part, "gap"))
    return Finding(
        f"At batch {runs['batch_size'][0]:,}, zero or above within two standard errors in "
        f"{len(judged) - failed} of {len(judged)} settings with epsilon {fraction(EXAMPLE)} or "
        f"more. Below: {listed}. Lowest {seeds(runs)}: {spread(lowest['gap'])}.",
        failed == 0,
    )


def _error(runs: pl.DataFrame) -> float:
    """Standard error of the mean gap of some worlds, over held-out instances."""
    errors = runs["gap_error"].to_list()
    return sqrt(sum(error**2 for error in errors)) / len(errors)


def _guarantee(regime: Regime) -> Finding | None:
    """The worked example, with a tolerance of epsilon / 2 and with one of epsilon."""
    example = {"problem": "best-action", "n_items": 256}
    runs = regime.paper.filter(batch_size=1024, **example)
    units = regime.units.filter(**example)
    if runs.filter(epsilon=EXAMPLE).is_empty() or regime.settings.rounds != ROUNDS:
        return None
    words, holds = [], []
    for tolerance in (EXAMPLE / 2, EXAMPLE):
        part = runs.filter(epsilon=2 * tolerance)
        if part.is_empty():
            continue
        worst, measured = bounds(units, tolerance)
        holds.append(min(part["gap"]) >= -EXAMPLE)
        words.append(
            f"Tolerance {fraction(tolerance)}: gap {spread(part['gap'])}, above -1/16 for good "
            f"after {when(settled(regime, part, EXAMPLE), ROUNDS)} rounds, last patch in "
            f"{max(part['last_patch']):,}; bound {worst:,}, {measured:,} from the measured error."
        )
    before = number(mean(units, "plain") - mean(units, "best_rule"))
    return Finding(
        f"Gap before the first round {before}, {seeds(runs)}. " + " ".join(words), all(holds)
    )


def _matching_examples(regime: Regime) -> Finding | None:
    """Both examples, with a tolerance of epsilon / 2 and with one of epsilon."""
    runs = regime.paper.filter(problem="matching")
    if regime.settings.rounds != ROUNDS:
        return None
    words, holds = [], []
    for factor, reading in ((1, "epsilon / 2"), (2, "epsilon")):
        said = []
        for epsilon, size in ((1 / 4, 2**8), (1 / 8, 2**10)):
            part = runs.filter(epsilon=factor * epsilon, batch_size=size)
            if len(part):
                holds.append(mean(part, "gap") > 0)
                said.append(f"{spread(part['gap'])} at {fraction(epsilon)} and batch {size:,}")
            elif factor == 1:
                return None
        if said:
            words.append(f"Tolerance {reading}: gap {', '.join(said)}.")
    return Finding(f"{' '.join(words)} Mean and range {seeds(runs)}.", all(holds))


def _too_large(regime: Regime) -> Finding | None:
    """The largest epsilon stops early, and a smaller one reaches more."""
    words, early, gains = [], [], []
    runs = at(regime.paper, "batch_size", largest=True)
    for setting, part in parts(runs, *SETTING).items():
        largest, others = _against_others(part, largest=True)
        if others:
            patches, last = mean(largest, "n_patches"), max(largest["last_patch"])
            early.append(last <= EARLY * regime.settings.rounds)
            gains.append(max(others) - mean(largest, "value"))
            words.append(f"{label(*setting)}: {count(patches)} and {last:,}")
    if not words:
        return None
    better = sum(gain > 0 for gain in gains)
    return Finding(
        f"Epsilon {fraction(max(runs['epsilon']))} at batch {runs['batch_size'][0]:,}: patches on "
        f"average, and the latest round of one {seeds(runs)}, {'; '.join(words)}. A smaller "
        f"epsilon reaches a larger mean value in {better} of {len(gains)} settings, by "
        f"{number(min(gains))} to {number(max(gains))}.",
        all(early) and better == len(gains),
    )


def _too_small(regime: Regime) -> Finding | None:
    """The smallest epsilon is still at work in the end, and another one has reached more."""
    late, last, losses, rounds = [], [], [], regime.settings.rounds
    runs = at(regime.paper, "batch_size", largest=True)
    for part in parts(runs, *SETTING).values():
        smallest, others = _against_others(part, largest=False)
        if others:
            late += [patch > LATE * rounds for patch in smallest["last_patch"]]
            last += [patch == rounds for patch in smallest["last_patch"]]
            losses.append(max(others) - mean(smallest, "value"))
    if not late:
        return None
    below = sum(loss > 0 for loss in losses)
    return Finding(
        f"Epsilon {fraction(min(runs['epsilon']))} at batch {runs['batch_size'][0]:,}: {sum(late)} "
        f"of {len(late)} runs were flagged in the last eighth of {rounds:,} rounds, {sum(last)} in "
        f"the very last. Mean value {seeds(runs)} below the best epsilon's in {below} of "
        f"{len(losses)} settings, by {number(min(losses))} to {number(max(losses))}.",
        all(late) and below == len(losses),
    )


def _against_others(runs: pl.DataFrame, *, largest: bool) -> tuple[pl.DataFrame, list[float]]:
    """The runs of an extreme epsilon, and the mean values of the others."""
    extreme = at(runs, "epsilon", largest=largest)
    others = runs.join(extreme, on="epsilon", how="anti")
    return extreme, [mean(part, "value") for part in parts(others, "epsilon").values()]


def _noise(regime: Regime) -> Finding | None:
    runs = at(regime.paper.filter(problem="matching"), "epsilon", largest=True)
    if runs["batch_size"].n_unique() < 2:
        return None
    small, large = (at(runs, "batch_size", largest=largest) for largest in (False, True))
    patches = [mean(part, "n_patches") for part in (small, large)]
    values = [mean(part, "value") for part in (small, large)]
    said = [
        f"{count(patch)} patches and a value of {spread(part['value'])} at batch "
        f"{part['batch_size'][0]:,}"
        for patch, part in zip(patches, (small, large), strict=True)
    ]
    order = "lower" if values[0] < values[1] else "not lower"
    return Finding(
        f"Epsilon {fraction(runs['epsilon'][0])}, {seeds(runs)}: {said[0]}, {said[1]}; the value "
        f"at the small batch is {order}.",
        patches[0] > patches[1],
    )


def _faster(regime: Regime) -> Finding | None:
    """Faster, the larger epsilon is, from the fastest one downwards."""
    words, holds = [], []
    for setting, by_epsilon in half_falls(regime).items():
        if setting[0] not in PAPER or len(by_epsilon) < 2:
            continue
        epsilons = sorted(by_epsilon, reverse=True)
        rounds = [median_high(by_epsilon[epsilon]) for epsilon in epsilons]
        best = rounds.index(min(rounds))
        slower = rounds[best:]
        holds.append(slower == sorted(slower) and slower[-1] > slower[0])
        said = [when([rounds[i]], regime.settings.rounds) for i in (best, -1)]
        words.append(
            f"{label(*setting)}: {fraction(epsilons[best])} in {said[0]}, "
            f"{fraction(epsilons[-1])} in {said[1]}"
        )
    if not words:
        return None
    return Finding(
        "Rounds until the squared error has made half of the largest fall, median "
        f"{seeds(regime.paper)}, for the fastest and the smallest epsilon: {'; '.join(words)}.",
        all(holds),
    )


_CLAIMS: tuple[_Entry, ...] = (
    _Entry(
        'Best action: "a smaller number of arms is associated with a lower initial mean squared '
        'error"',
        "section 5.3",
        _initial_error,
    ),
    _Entry(
        '"Improvement is always positive", where the loop converges',
        "caption of figure 2",
        _improvement,
    ),
    _Entry(
        '"the gap shrinks to 0 or becomes positive when epsilon is not too low"',
        "caption of figure 2",
        _gap,
    ),
    _Entry(
        "Best action, m = 256, epsilon = 1/16, batch 1,024: the loop meets its guarantee within "
        '1,024 rounds, and the bound "is approximately 260 times as much"',
        "section 5.3",
        _guarantee,
    ),
    _Entry(
        'Matching: epsilon = 1/4 "reaches positive utility gap" at batch 2^8, and epsilon = 1/8 '
        "at batch 2^10",
        "section 5.3",
        _matching_examples,
    ),
    _Entry(
        '"if epsilon is too high, then the optimization stops very early"',
        "appendix A, caption of figure 3",
        _too_large,
    ),
    _Entry(
        '"for low epsilon, [...] convergence takes longer": at the smallest, the rounds do not '
        "suffice, and another epsilon reaches more",
        "section 5.3",
        _too_small,
    ),
    _Entry(
        'Matching at the highest epsilon: small batches trigger "updates even when the real '
        'signal is weak"',
        "section 5.3",
        _noise,
    ),
    _Entry(
        '"convergence is further accelerated by moderately high values of epsilon"',
        "section 5.3",
        _faster,
    ),
    *(_Entry(statement, "not in the paper", find) for statement, find in COMPARISONS),
)
