"""Comparisons that the paper does not have, as one sentence per regime."""

from __future__ import annotations

from statistics import median

import polars as pl

from outrule.evaluation import say
from outrule.evaluation.grid import PAPER_PROBLEMS
from outrule.evaluation.reading import EXAMPLE, SETTING, Answer, Ask, at, mean, parts, rounds_needed
from outrule.evaluation.results import UNIT, Results


def _rounds_and_bound(results: Results) -> Answer | None:
    """Rounds until the guarantee is met and stays so."""
    runs = at(results.fixed, "batch_size", largest=True)
    epsilons = sorted(runs["epsilon"].unique())
    if not epsilons or results.trace.is_empty():
        return None
    epsilon = EXAMPLE if EXAMPLE in epsilons else epsilons[len(epsilons) // 2]
    runs = runs.filter(epsilon=epsilon)
    words = []
    for setting, part in parts(runs, *SETTING).items():
        slowest, worst, measured = rounds_needed(results, part, epsilon / 2, epsilon)
        words.append(f"{say.setting(*setting)}: {slowest} of {worst:,} ({measured:,})")
    return Answer(
        f"Rounds until the gap stays above -epsilon = -{say.fraction(epsilon)}, the slowest "
        f"{say.seeds(runs)}, of the bound for r = m (for the measured error): "
        f"{'; '.join(words)}."
    )


def _line_search(results: Results) -> Answer | None:
    line = results.runs.filter(check="fresh batches", step="line search")
    pairs = _pair(results.fixed, line, "epsilon", "batch_size")
    if pairs.is_empty():
        return None
    words = [
        f"{say.fraction(epsilon)}: {say.count(mean(part, 'n_patches'))} and "
        f"{say.count(mean(part, 'n_patches_2'))}, {_medians(part)}"
        for (epsilon,), part in parts(pairs, "epsilon").items()
    ]
    above, below = _compare(pairs)
    return Answer(
        f"Mean patches and median gap by epsilon, fixed step and line search, {say.seeds(pairs)}: "
        f"{'; '.join(words)}. The gap is larger with the fixed step in {above:,} and with the "
        f"line search in {below:,} of {len(pairs):,} pairs."
    )


def _equal_samples(results: Results) -> Answer | None:
    """The CHECKs that see all samples in every round."""
    other = results.runs.filter(pl.col("check").is_in(("reuse", "private reuse")))
    words = [
        f"{check} ({step}) {_against(pairs)}"
        for (check, step), runs in parts(other, "check", "step").items()
        if len(pairs := _pair(runs, results.fixed, "epsilon", "n_samples"))
    ]
    if not words:
        return None
    return Answer(
        "Median gap, and that of fresh batches with the fixed step on the same number of samples, "
        f"{say.seeds(other)}: {'; '.join(words)}."
    )


def _against(pairs: pl.DataFrame) -> str:
    measured = pairs.filter(pl.col("gap").is_not_null())
    n_refused, words = len(pairs.filter(status="refused")), []
    if n_refused:
        words.append(f"too noisy to run in {n_refused:,} of {len(pairs):,}")
    if len(measured):
        above, below = _compare(measured)
        words.append(
            f"{_medians(measured)} (differences {say.span(measured['gap'] - measured['gap_2'])}), "
            f"higher in {above:,}, lower in {below:,}"
        )
    return ", otherwise ".join(words)


def _commitment(results: Results) -> Answer | None:
    """The rule that is best on the same samples."""
    commit = results.runs.filter(check="commit to the best rule")
    pairs = _pair(results.fixed, commit.drop("epsilon"), "n_samples")
    if pairs.is_empty():
        return None
    above, below = _compare(pairs)
    words = [
        f"{say.fraction(epsilon)}: {_compare(part)[0]:,} of {len(part):,}"
        for (epsilon,), part in parts(pairs, "epsilon").items()
    ]
    return Answer(
        f"The committed rule has a gap of {say.span(pairs['gap_2'])} {say.seeds(pairs)}. Of "
        f"{len(pairs):,} calibrated runs on the same number of samples, {above:,} are above it and "
        f"{below:,} below; above by epsilon: {'; '.join(words)}."
    )


def _other_problems(results: Results) -> Answer | None:
    """The problems that the paper treats in theory only."""
    runs = results.fixed.filter(~pl.col("problem").is_in(PAPER_PROBLEMS))
    runs = at(runs, "batch_size", largest=True)
    words = []
    for (problem,), table in parts(runs, "problem").items():
        ranked = sorted(parts(table, "epsilon").values(), key=lambda part: -mean(part, "gap"))
        best, worst = (
            f"{say.fraction(part['epsilon'][0])} {say.spread(part['gap'])} and "
            f"{say.number(mean(part, 'improvement'))}"
            for part in (ranked[0], ranked[-1])
        )
        words.append(f"{problem}: best {best}, worst {worst}")
    if not words:
        return None
    return Answer(
        f"Gap (mean and range {say.seeds(runs)}) and mean improvement at batch "
        f"{runs['batch_size'][0]:,}, for the best and the worst epsilon: {'; '.join(words)}."
    )


def _pair(first: pl.DataFrame, second: pl.DataFrame, *also: str) -> pl.DataFrame:
    """Runs of the same unit side by side."""
    return first.join(second, on=[*UNIT, *also], suffix="_2", maintain_order="left_right")


def _medians(pairs: pl.DataFrame) -> str:
    """Of both gaps: problems with large decisions would dominate a mean."""
    return " and ".join(say.number(median(pairs[name].to_list())) for name in ("gap", "gap_2"))


def _compare(pairs: pl.DataFrame) -> tuple[int, int]:
    """How often the first gap is above the second, and how often below."""
    first, second = pairs["gap"], pairs["gap_2"]
    return int((first > second).sum()), int((first < second).sum())


COMPARISONS: dict[str, Ask] = {
    "Rounds needed, compared with the bound": _rounds_and_bound,
    "Fixed step compared with line search, on the same fresh batches": _line_search,
    "Fresh batches compared with reuse, on the same number of samples": _equal_samples,
    "Fresh batches compared with committing to the best rule": _commitment,
    "Rejection, a partition matroid and a graphic matroid": _other_problems,
}
