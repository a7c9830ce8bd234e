"""What the paper says about its evaluation, sentence by sentence."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from math import inf
from statistics import median_high

import polars as pl

from outrule import theory
from outrule.evaluation import say
from outrule.evaluation.grid import PAPER_PROBLEMS
from outrule.evaluation.reading import (
    EXAMPLE,
    SETTING,
    Answer,
    Ask,
    at,
    below_zero,
    example_epsilon,
    mean,
    parts,
    rounds_needed,
)
from outrule.evaluation.results import UNIT, Results

RESULTS, FIGURE_2 = "section 5.3", "caption of figure 2"
FIGURE_3 = "appendix A, caption of figure 3"
ROUNDS = 1024  # of the paper's runs
EARLY, LATE = 1 / 8, 7 / 8  # shares of the rounds: stopped early before, not converged after
MATCHING = ((1 / 4, 2**8, 100), (1 / 8, 2**10, 1000))  # epsilon, batch size, "times higher"
N_NODES, N_RULES = 10, 1024  # of the paper's matchings
WITHIN = {  # meanings of converged
    "": pl.lit(True),
    ", where no patch falls into the last eighth of the rounds": (pl.col("n_patches") > 0)
    & (pl.col("late") <= LATE),
    ", where no held-out violation is above the tolerance in the end": (pl.col("n_patches") > 0)
    & (pl.col("largest_violation") <= pl.col("epsilon") / 2),
}

# Statement, source, the figure that shows it, judge; in the order of the paper.
CLAIMS: list[tuple[str, str, str, Ask]] = []


def _claim(statement: str, source: str, figure: str) -> Callable[[Ask], Ask]:
    def register(ask: Ask) -> Ask:
        CLAIMS.append((statement, source, figure, ask))
        return ask

    return register


@_claim('"we improve on the original [...] predictor [...] in mean square error sense"',
        "section 1.1", "squared-error")  # fmt: skip
def _error_falls(results: Results) -> Answer | None:
    """Judged in every setting that made a patch, whether it converged or not."""
    runs = _with_start(results, results.paper.filter(pl.col("n_patches") > 0))
    settings = parts(runs, *SETTING, "epsilon", "batch_size")
    if not settings:
        return None
    change = {key: mean(part, "change") for key, part in settings.items()}
    fell = sum(value < 0 for value in change.values())
    worst, best = (pick(change, key=change.__getitem__) for pick in (max, min))
    number = f"falls in {fell:,} of {len(change):,} settings"
    return Answer(
        number,
        f"Mean squared error {say.seeds(runs)} {number} with a patch; change per entry from "
        f"{say.number(change[best])} ({_where(*best)}) to {say.number(change[worst])} "
        f"({_where(*worst)}).",
        fell == len(change),
    )


def _with_start(results: Results, runs: pl.DataFrame) -> pl.DataFrame:
    """Runs with the change of their squared error."""
    start = results.units.select(*UNIT, pl.col("squared_error").alias("start"))
    joined = runs.join(start, on=list(UNIT), maintain_order="left")
    return joined.with_columns(change=pl.col("squared_error") - pl.col("start"))


def _where(problem: str, n_items: int, epsilon: float, size: int) -> str:
    return f"{say.setting(problem, n_items)}, epsilon {say.fraction(epsilon)}, batch {size:,}"


@_claim('"a smaller number of arms is associated with a lower initial mean squared error"',
        RESULTS, "error-best-action")  # fmt: skip
def _initial_error(results: Results) -> Answer | None:
    units = results.units.filter(problem="best-action").sort("n_items")
    by_items = parts(units, "n_items")
    if len(by_items) < 2:
        return None
    means = [mean(part, "squared_error") for part in by_items.values()]
    words = [f"m = {m}: {say.spread(part['squared_error'])}" for (m,), part in by_items.items()]
    return Answer(
        ", ".join(map(say.number, means)),
        f"Squared error per entry, mean and range {say.seeds(units)}: {', '.join(words)}.",
        all(first < second for first, second in pairwise(means)),
    )


def _improvement(results: Results, where: pl.Expr) -> Answer | None:
    late = pl.col("last_patch") / results.grid.rounds
    runs = results.paper.with_columns(late=late).filter(where)
    settings = parts(runs, *SETTING, "epsilon", "batch_size")
    if not settings:
        return None
    means = {key: mean(part, "improvement") for key, part in settings.items()}
    lowest = min(means, key=means.__getitem__)
    positive = sum(value > 0 for value in means.values())
    number = f"{positive:,} of {len(means):,} settings"
    return Answer(
        number,
        f"The mean improvement {say.seeds(runs)} is positive in {number}, lowest "
        f"{say.spread(settings[lowest]['improvement'])} ({_where(*lowest)}). {len(runs):,} of "
        f"{len(results.paper):,} runs, of which {len(runs.filter(n_patches=0)):,} made no patch.",
        positive == len(means),
    )


for _words, _expression in WITHIN.items():
    _claim(f'"Improvement is always positive"{_words}', FIGURE_2, "gap-best-action")(
        partial(_improvement, where=_expression)
    )


@_claim('"the gap shrinks to 0 or becomes positive when epsilon is not too low"',
        FIGURE_2, "gap-best-action")  # fmt: skip
def _gap(results: Results) -> Answer | None:
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
    return Answer(
        f"{good} of {len(judged)} settings",
        f"At batch {runs['batch_size'][0]:,}, the mean {say.seeds(runs)} is zero or above within "
        f"two standard errors in {good} of {len(judged)} settings with epsilon "
        f"{say.fraction(EXAMPLE)} or more. Below: {listed}. Lowest: {say.spread(lowest['gap'])}.",
        good == len(judged),
    )


@_claim('"when convergence is at least partially attained, the utility gap becomes positive"',
        RESULTS, "gap-best-action")  # fmt: skip
def _positive(results: Results) -> Answer | None:
    """Partially attained: no held-out violation is above twice the tolerance, after patches."""
    close = (pl.col("n_patches") > 0) & (pl.col("largest_violation") <= pl.col("epsilon"))
    settings = parts(results.paper.filter(close), *SETTING, "epsilon", "batch_size")
    if not settings:
        return None
    means = {key: mean(part, "gap") for key, part in settings.items()}
    positive, lowest = sum(g > 0 for g in means.values()), min(means, key=means.__getitem__)
    number = f"{positive:,} of {len(means):,} settings"
    return Answer(
        number,
        f"Where no held-out violation is above twice the tolerance in the end, the mean gap is "
        f"positive in {number}, lowest {say.spread(settings[lowest]['gap'])} ({_where(*lowest)}).",
        positive == len(means),
    )


@_claim("Best action, m = 256, epsilon = 1/16, batch 1,024: the loop meets its guarantee within "
        '1,024 rounds, and the bound "is approximately 260 times as much"',
        RESULTS, "value-best-action")  # fmt: skip
def _guarantee(results: Results) -> Answer | None:
    """The worked example, with a tolerance of epsilon / 2 and with one of epsilon."""
    example = {"problem": "best-action", "n_items": 256}
    runs = results.paper.filter(batch_size=1024, **example)
    units = results.units.filter(**example)
    if runs.filter(epsilon=EXAMPLE).is_empty() or results.grid.rounds != ROUNDS:
        return None
    before = units["plain"] - units["best_rule"]
    met = int((before >= -EXAMPLE).sum())
    words = [
        f"Gap before the first round {say.spread(before)}: -1/16 or above in {met} of {len(units)} "
        "worlds already."
    ]
    counts, holds = [], []
    for tolerance in (EXAMPLE / 2, EXAMPLE):
        part = runs.filter(epsilon=2 * tolerance)
        if part.is_empty():
            continue
        needed, worst, measured = rounds_needed(results, part, tolerance, EXAMPLE)
        good = int((part["gap"] >= -EXAMPLE).sum())
        still = int((part["largest_violation"] <= tolerance).sum())
        late = int((part["last_patch"] > LATE * ROUNDS).sum())
        counts.append(f"{good} of {len(part)} worlds (tolerance {say.fraction(tolerance)})")
        holds.append(good == len(part))
        words.append(
            f"Tolerance {say.fraction(tolerance)}: gap {say.spread(part['gap'])}, -1/16 or above "
            f"in {good} of {len(part)} worlds, for good after {needed} rounds in the slowest; no "
            f"held-out violation above the tolerance in {still}, still patching in the last "
            f"eighth in {late}; the bound is {worst:,} rounds, or {measured:,} with the measured "
            "error."
        )
    others = [
        f"{say.fraction(epsilon)}: {int((part['gap'] < -EXAMPLE).sum())}"
        for (epsilon,), part in parts(runs, "epsilon").items()
    ]
    words.append(f"Worlds that end below -1/16, by epsilon: {', '.join(others)}.")
    return Answer(", ".join(counts), " ".join(words), all(holds))


@_claim('Matching: epsilon 1/4 "reaches positive utility gap" at batch 2^8, and 1/8 at batch 2^10',
        RESULTS, "gap-matching")  # fmt: skip
def _matching_examples(results: Results) -> Answer | None:
    """Both examples, with a tolerance of epsilon / 2 and with one of epsilon."""
    runs = results.paper.filter(problem="matching")
    if results.grid.rounds != ROUNDS:
        return None
    words, holds, numbers = [], [], list[str]()
    for factor, tolerance in ((1, "epsilon / 2"), (2, "epsilon")):
        said = []
        for epsilon, size, _ in MATCHING:
            part = runs.filter(epsilon=factor * epsilon, batch_size=size)
            if len(part):
                holds.append(mean(part, "gap") > 0)
                numbers.append(say.number(mean(part, "gap")))
                said.append(
                    f"{say.spread(part['gap'])} at {say.fraction(epsilon)} and batch {size:,}"
                )
            elif factor == 1:
                return None
        if said:
            words.append(f"Tolerance {tolerance}: gap {', '.join(said)}.")
    sentence = f"{' '.join(words)} Mean and range {say.seeds(runs)}."
    return Answer(f"gaps {', '.join(numbers)}", sentence, all(holds))


@_claim('The theoretical number of samples is "hundreds of times higher" there, and "thousands of '
        'times higher"', RESULTS, "gap-matching")  # fmt: skip
def _samples(results: Results) -> Answer | None:
    """The order of the bound, with the constant one, over the samples that the runs consumed."""
    runs = results.paper.filter(problem="matching")
    if results.grid.rounds != ROUNDS:
        return None
    words, holds, numbers = [], [], []
    for epsilon, size, times in MATCHING:
        part = runs.filter(epsilon=epsilon)
        if part.filter(batch_size=size).is_empty():
            return None
        bound = theory.worst_case_samples_matching(N_NODES, epsilon, N_RULES)
        ratio = bound / (size * ROUNDS)
        sizes = parts(part.sort("batch_size"), "batch_size")
        good = [n for (n,), some in sizes.items() if mean(some, "gap") > 0]
        holds.append(size in good and times <= ratio < 10 * times)
        least = f"from batch {good[0]} on, {bound / (good[0] * ROUNDS):,.0f} times" if good else ""
        numbers.append(f"{ratio:,.0f}")
        gap = say.spread(part.filter(batch_size=size)["gap"])
        words.append(
            f"Epsilon {say.fraction(epsilon)}: {bound:,.0f} samples are {ratio:,.0f} times those "
            f"of batch {size:,}, with a gap of {gap}; it is positive {least or 'never'}."
        )
    return Answer(f"{' and '.join(numbers)} times", " ".join(words), all(holds))


@_claim('"if epsilon is too high, then the optimization stops very early"',
        FIGURE_3, "error-best-action")  # fmt: skip
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
    early = int((extreme["last_patch"] <= EARLY * results.grid.rounds).sum())
    return Answer(
        f"{early} of {len(extreme)} runs stop in the first eighth",
        f"{where}, mean number of patches and the last round with one, {say.seeds(extreme)}: "
        f"{'; '.join(words)}. {others}",
        early == len(extreme) and all_better,
    )


@_claim('"for low epsilon, [...] convergence takes longer", so that another epsilon is better',
        RESULTS, "error-best-action")  # fmt: skip
def _too_small(results: Results) -> Answer | None:
    """The smallest epsilon has not converged in the end, and another one reaches a higher value."""
    where, extreme, others, all_better = _extreme_epsilon(results, largest=False)
    if extreme.is_empty():
        return None
    rounds, lasts = results.grid.rounds, extreme["last_patch"].to_list()
    late = sum(last > LATE * rounds for last in lasts)
    return Answer(
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


@_claim('For low epsilon "a small sample size is often insufficient"',
        RESULTS, "gap-best-action")  # fmt: skip
def _small_samples(results: Results) -> Answer | None:
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
    return Answer(
        number,
        f"Epsilon below {say.fraction(EXAMPLE)}, mean values {say.seeds(low)}: batches of "
        f"{sizes[0]:,} end below those of {sizes[1]:,} in {number}, by {say.span(lost.values())}.",
        worse > len(lost) / 2,
    )


@_claim('Matching, small batches: "updates even when the real signal is weak" at a high epsilon',
        RESULTS, "gap-matching")  # fmt: skip
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
    counts = [say.count(mean(part, "n_patches")) for part in (small, large)]
    return Answer(
        f"{' and '.join(counts)} patches at batch {' and '.join(_sizes(small, large))}",
        f"Epsilon {say.fraction(runs['epsilon'][0])}, {say.seeds(runs)}: {', '.join(said)}; the "
        f"value at the small batch is {order}.",
        mean(small, "n_patches") > mean(large, "n_patches"),
    )


def _sizes(*tables: pl.DataFrame) -> list[str]:
    return [f"{table['batch_size'][0]:,}" for table in tables]


@_claim('"a smaller number of arms [...] facilitating faster convergence"',
        RESULTS, "error-best-action")  # fmt: skip
def _fewer_arms(results: Results) -> Answer | None:
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
    return Answer(
        f"{', '.join(say.when([one], last) for one in rounds)} rounds",
        "Rounds until the squared error has made half of the largest fall, median and range "
        f"{say.seeds(runs)}, epsilon {say.fraction(epsilon)}: {', '.join(words)}.",
        all(first < second for first, second in pairwise(rounds)),
    )


@_claim('"convergence is further accelerated by moderately high values of epsilon"',
        RESULTS, "error-matching")  # fmt: skip
def _faster(results: Results) -> Answer | None:
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
    return Answer(
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
