"""What the paper says about its evaluation, sentence by sentence."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import polars as pl

from outrule.evaluation import convergence, paper_examples, say
from outrule.evaluation.paper_examples import LATE
from outrule.evaluation.reading import (
    EXAMPLE,
    SETTING,
    Ask,
    ClaimAnswer,
    at,
    below_zero,
    mean,
    parts,
    with_change,
)
from outrule.evaluation.results import Results

RESULTS, FIGURE_2 = "section 5.3", "caption of figure 2"
FIGURE_3 = "appendix A, caption of figure 3"
WITHIN = {  # meanings of converged
    "": pl.lit(True),
    ", where no patch falls into the last eighth of the rounds": (pl.col("n_patches") > 0)
    & (pl.col("late") <= LATE),
    ", where no held-out violation is above the tolerance in the end": (pl.col("n_patches") > 0)
    & (pl.col("largest_violation") <= pl.col("epsilon") / 2),
}


def _error_falls(results: Results) -> ClaimAnswer | None:
    """Judged in every setting that made a patch, whether it converged or not."""
    runs = with_change(results.paper.filter(pl.col("n_patches") > 0), results)
    _, change = _by_setting(runs, "change")
    if not change:
        return None
    fell = sum(value < 0 for value in change.values())
    worst, best = (pick(change, key=change.__getitem__) for pick in (max, min))
    number = f"falls in {fell:,} of {len(change):,} settings"
    return ClaimAnswer(
        number,
        f"Mean squared error {say.seeds(runs)} {number} with a patch; change per entry from "
        f"{say.number(change[best])} ({_where(*best)}) to {say.number(change[worst])} "
        f"({_where(*worst)}).",
        fell == len(change),
    )


def _by_setting(
    runs: pl.DataFrame, column: str
) -> tuple[dict[tuple[Any, ...], pl.DataFrame], dict[tuple[Any, ...], float]]:
    """The runs of every setting, and their means of a column."""
    settings = parts(runs, *SETTING, "epsilon", "batch_size")
    return settings, {key: mean(part, column) for key, part in settings.items()}


def _where(problem: str, n_items: int, epsilon: float, size: int) -> str:
    return f"{say.setting(problem, n_items)}, epsilon {say.fraction(epsilon)}, batch {size:,}"


def _initial_error(results: Results) -> ClaimAnswer | None:
    units = results.units.filter(problem="best-action").sort("n_items")
    by_items = parts(units, "n_items")
    if len(by_items) < 2:
        return None
    means = [mean(part, "squared_error") for part in by_items.values()]
    words = [f"m = {m}: {say.spread(part['squared_error'])}" for (m,), part in by_items.items()]
    return ClaimAnswer(
        ", ".join(map(say.number, means)),
        f"Squared error per entry, mean and range {say.seeds(units)}: {', '.join(words)}.",
        all(first < second for first, second in pairwise(means)),
    )


def _improvement(results: Results, where: pl.Expr) -> ClaimAnswer | None:
    late = pl.col("last_patch") / results.grid.rounds
    runs = results.paper.with_columns(late=late).filter(where)
    settings, means = _by_setting(runs, "improvement")
    if not means:
        return None
    lowest = min(means, key=means.__getitem__)
    positive = sum(value > 0 for value in means.values())
    number = f"{positive:,} of {len(means):,} settings"
    return ClaimAnswer(
        number,
        f"The mean improvement {say.seeds(runs)} is positive in {number}, lowest "
        f"{say.spread(settings[lowest]['improvement'])} ({_where(*lowest)}). {len(runs):,} of "
        f"{len(results.paper):,} runs, of which {len(runs.filter(n_patches=0)):,} made no patch.",
        positive == len(means),
    )


def _gap(results: Results) -> ClaimAnswer | None:
    """Judged for epsilon of 1/16 and more, as far as the test instances can tell."""
    runs = at(results.paper, "batch_size", largest=True)
    settings = parts(runs, *SETTING, "epsilon")
    judged = [key for key in settings if key[-1] >= EXAMPLE]
    if not judged:
        return None
    below = [key for key, part in settings.items() if below_zero(part)]
    idle = sum(settings[key]["n_patches"].sum() == 0 for key in below)
    named: dict[str, list[str]] = {}
    for *setting, epsilon in below:
        named.setdefault(say.setting(*setting), []).append(say.fraction(epsilon))
    listed = "; ".join(f"{name}: {', '.join(words)}" for name, words in named.items())
    listed = f"{listed} ({idle} of these without a patch)" if below else "none"
    good = len(set(judged) - set(below))
    lowest = min(settings.values(), key=lambda part: mean(part, "gap"))
    return ClaimAnswer(
        f"{good} of {len(judged)} settings",
        f"At batch {runs['batch_size'][0]:,}, the mean {say.seeds(runs)} is zero or above within "
        f"two standard errors in {good} of {len(judged)} settings with epsilon "
        f"{say.fraction(EXAMPLE)} or more. Below: {listed}. Lowest: {say.spread(lowest['gap'])}.",
        good == len(judged),
    )


def _positive(results: Results) -> ClaimAnswer | None:
    """Partially attained: no held-out violation is above twice the tolerance, after patches."""
    close = (pl.col("n_patches") > 0) & (pl.col("largest_violation") <= pl.col("epsilon"))
    settings, means = _by_setting(results.paper.filter(close), "gap")
    if not means:
        return None
    positive, lowest = sum(g > 0 for g in means.values()), min(means, key=means.__getitem__)
    number = f"{positive:,} of {len(means):,} settings"
    return ClaimAnswer(
        number,
        f"Where no held-out violation is above twice the tolerance in the end, the mean gap is "
        f"positive in {number}, lowest {say.spread(settings[lowest]['gap'])} ({_where(*lowest)}).",
        positive == len(means),
    )


def _small_samples(results: Results) -> ClaimAnswer | None:
    """Below 1/16, the smallest batch ends below the largest one in more than half of settings."""
    low = results.paper.filter(pl.col("epsilon") < EXAMPLE)
    if low["batch_size"].n_unique() < 2:
        return None
    key = [*SETTING, "epsilon"]
    small, large = (parts(at(low, "batch_size", largest=one), *key) for one in (False, True))
    lost = {one: mean(large[one], "value") - mean(small[one], "value") for one in small}
    worse = sum(value > 0 for value in lost.values())
    sizes = (min(low["batch_size"]), max(low["batch_size"]))
    number = f"{worse} of {len(lost)} settings"
    return ClaimAnswer(
        number,
        f"Epsilon below {say.fraction(EXAMPLE)}, mean values {say.seeds(low)}: batches of "
        f"{sizes[0]:,} end below those of {sizes[1]:,} in {number}, by {say.span(lost.values())}.",
        worse > len(lost) / 2,
    )


def _noise(results: Results) -> ClaimAnswer | None:
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
    counts = [say.count(mean(part, "n_patches")) for part in (small, large)]
    sizes = [f"{part['batch_size'][0]:,}" for part in (small, large)]
    return ClaimAnswer(
        f"{' and '.join(counts)} patches at batch {' and '.join(sizes)}",
        f"Epsilon {say.fraction(runs['epsilon'][0])}, {say.seeds(runs)}: {', '.join(said)}; the "
        f"value at the small batch is {order}.",
        mean(small, "n_patches") > mean(large, "n_patches"),
    )


# Statement, source, the figure that shows it, judge; in the order of the paper.
# fmt: off
CLAIMS: list[tuple[str, str, str, Ask]] = [
    ('"we improve on the original [...] predictor [...] in mean square error sense"',
     "section 1.1", "squared-error", _error_falls),
    ('"a smaller number of arms is associated with a lower initial mean squared error"',
     RESULTS, "error-best-action", _initial_error),
    *((f'"Improvement is always positive"{words}',
       FIGURE_2, "gap-best-action", partial(_improvement, where=where))
      for words, where in WITHIN.items()),
    ('"the gap shrinks to 0 or becomes positive when epsilon is not too low"',
     FIGURE_2, "gap-best-action", _gap),
    ('"when convergence is at least partially attained, the utility gap becomes positive"',
     RESULTS, "gap-best-action", _positive),
    ("Best action, m = 256, epsilon = 1/16, batch 1,024: the loop meets its guarantee within "
     '1,024 rounds, and the bound "is approximately 260 times as much"',
     RESULTS, "value-best-action", paper_examples.guarantee),
    ('Matching: epsilon 1/4 "reaches positive utility gap" at batch 2^8, and 1/8 at batch 2^10',
     RESULTS, "gap-matching", paper_examples.matching_gaps),
    ('The theoretical number of samples is "hundreds of times higher" there, and "thousands of '
     'times higher"', RESULTS, "gap-matching", paper_examples.matching_samples),
    ('"if epsilon is too high, then the optimization stops very early"',
     FIGURE_3, "error-best-action", convergence.too_large),
    ('"for low epsilon, [...] convergence takes longer", so that another epsilon is better',
     RESULTS, "error-best-action", convergence.too_small),
    ('For low epsilon "a small sample size is often insufficient"',
     RESULTS, "gap-best-action", _small_samples),
    ('Matching, small batches: "updates even when the real signal is weak" at a high epsilon',
     RESULTS, "gap-matching", _noise),
    ('"a smaller number of arms [...] facilitating faster convergence"',
     RESULTS, "error-best-action", convergence.fewer_arms),
    ('"convergence is further accelerated by moderately high values of epsilon"',
     RESULTS, "error-matching", convergence.faster),
]
# fmt: on
