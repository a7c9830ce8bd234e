"""Comparisons that the paper does not have, as one sentence per regime."""

from __future__ import annotations

from statistics import median

import polars as pl

from outrule.evaluation import monotone, say
from outrule.evaluation.grid import PAPER_PROBLEMS
from outrule.evaluation.reading import (
    SETTING,
    Ask,
    ClaimAnswer,
    at,
    example_epsilon,
    mean,
    parts,
    rounds_needed,
)
from outrule.evaluation.results import UNIT, Results


def _rounds_and_bound(results: Results) -> ClaimAnswer | None:
    """Rounds until the guarantee is met and stays so."""
    runs = at(results.fixed, "batch_size", largest=True)
    epsilon = example_epsilon(runs)
    if epsilon is None or results.trace.is_empty():
        return None
    runs = runs.filter(epsilon=epsilon)
    words: list[str] = []
    for setting, part in parts(runs, *SETTING).items():
        slowest, worst, measured = rounds_needed(results, part, epsilon / 2, epsilon)
        words.append(f"{say.setting(*setting)}: {slowest} of {worst:,} ({measured:,})")
    return ClaimAnswer(
        f"{words[-1]} rounds",
        f"Rounds until the gap stays above -epsilon = -{say.fraction(epsilon)}, the slowest "
        f"{say.seeds(runs)}, of the bound for r = m (for the measured error): "
        f"{'; '.join(words)}.",
    )


def _steps(results: Results) -> ClaimAnswer | None:
    """The other steps and readings beside the fixed step, at the same epsilon and batch size."""
    words, numbers = [], []
    for name, what in STEPS.items():
        other = results.runs.filter(check="fresh batches", step=name)
        pairs = _pair(results.fixed, other, "epsilon", "batch_size")
        if pairs.is_empty():
            continue
        above, below = _compare(pairs)
        numbers.append(f"{name} {below} of {len(pairs)}")
        said = [
            f"{say.fraction(epsilon)}: {say.count(mean(part, 'n_patches_2'))} patches, "
            f"{_medians(part)}"
            for (epsilon,), part in parts(pairs, "epsilon").items()
        ]
        words.append(
            f"{what}, higher in {below:,} and lower in {above:,} of {len(pairs):,} pairs "
            f"{say.seeds(pairs)}; by epsilon, with the median gap of the fixed step and its own: "
            f"{'; '.join(said)}."
        )
    return ClaimAnswer(f"higher gap: {', '.join(numbers)}", " ".join(words)) if words else None


def _readings(results: Results) -> ClaimAnswer | None:
    """The gap at the largest batch in all readings of epsilon = 1/4 and 1/16."""
    fresh = at(results.runs.filter(check="fresh batches"), "batch_size", largest=True)
    fresh = fresh.filter(pl.col("problem").is_in(PAPER_PROBLEMS))
    words, numbers = [], []
    for setting, runs in parts(fresh, *SETTING).items():
        for epsilon in sorted(set(results.grid.other_epsilons), reverse=True):
            tables = {
                "epsilon / 2": runs.filter(step="fixed", epsilon=epsilon),
                "epsilon": runs.filter(step="fixed", epsilon=2 * epsilon),
                "the footnote's": runs.filter(step="footnote", epsilon=epsilon),
            }
            known = {name: table for name, table in tables.items() if len(table)}
            if len(known) < 2:
                continue
            gaps = [f"{name} {say.spread(table['gap'])}" for name, table in known.items()]
            place = f"{say.setting(*setting)}, epsilon {say.fraction(epsilon)}"
            words.append(f"{place}: {', '.join(gaps)}")
            means = [mean(table, "gap") for table in known.values()]
            numbers.append(max(means) - min(means))
    if not words:
        return None
    return ClaimAnswer(
        f"gaps differ by {say.span(numbers)}",
        f"Gap at batch {fresh['batch_size'][0]:,} by tolerance, mean and range {say.seeds(fresh)}: "
        f"{'; '.join(words)}.",
    )


def _equal_samples(results: Results) -> ClaimAnswer | None:
    """The CHECKs that see all samples in every round."""
    checks = ("reuse", "private reuse", "default method")
    other, words, numbers = results.runs.filter(pl.col("check").is_in(checks)), [], []
    best = results.fixed.filter(pl.col("gap") == pl.col("gap").max().over(*UNIT, "n_samples"))
    best = best.unique([*UNIT, "n_samples"], keep="first", maintain_order=True)
    for (check, step), runs in parts(other, "check", "step").items():
        if step is None:  # our method, which chooses its tolerance
            pairs = _pair(runs.drop("epsilon"), best, "n_samples")
        else:
            pairs = _pair(runs, results.fixed, "epsilon", "n_samples")
        if len(pairs):
            words.append(f"{check} ({step or 'best epsilon of fresh batches'}) {_against(pairs)}")
            above, below = _compare(pairs.drop_nulls("gap"))
            numbers.append(f"{check}{f' ({step})' if step else ''} {above}:{below}")
    if not words:
        return None
    return ClaimAnswer(
        f"higher:lower: {', '.join(numbers)}",
        "Median gap, and that of fresh batches with the fixed step on the same number of samples, "
        f"{say.seeds(other)}: {'; '.join(words)}.",
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


def _commitment(results: Results) -> ClaimAnswer | None:
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
    return ClaimAnswer(
        f"{above:,} of {len(pairs):,} runs above it",
        f"The committed rule has a gap of {say.span(pairs['gap_2'])} {say.seeds(pairs)}. Of "
        f"{len(pairs):,} calibrated runs on the same number of samples, {above:,} are above it and "
        f"{below:,} below; above by epsilon: {'; '.join(words)}.",
    )


def _other_problems(results: Results) -> ClaimAnswer | None:
    """The problems that the paper treats in theory only."""
    runs = results.fixed.filter(~pl.col("problem").is_in(PAPER_PROBLEMS))
    runs = at(runs, "batch_size", largest=True)
    words, numbers = [], []
    for (problem,), table in parts(runs, "problem").items():
        ranked = sorted(parts(table, "epsilon").values(), key=lambda part: -mean(part, "gap"))
        best, worst = (
            f"{say.fraction(part['epsilon'][0])} {say.spread(part['gap'])} and "
            f"{say.number(mean(part, 'improvement'))}"
            for part in (ranked[0], ranked[-1])
        )
        words.append(f"{problem}: best {best}, worst {worst}")
        numbers.append(f"{problem} {say.number(mean(ranked[0], 'gap'))}")
    if not words:
        return None
    return ClaimAnswer(
        f"best gap: {', '.join(numbers)}",
        f"Gap (mean and range {say.seeds(runs)}) and mean improvement at batch "
        f"{runs['batch_size'][0]:,}, for the best and the worst epsilon: {'; '.join(words)}.",
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


STEPS = {
    "line search": "Line search",
    "alpha / 2": "The step alpha / 2 = tolerance / (2 sqrt m) of Algorithm 1",
    "footnote": "The footnote's tolerance epsilon / k with a step of epsilon / (2 k)",
}
OURS = "not in the paper"
COMPARISONS: list[tuple[str, str, str, Ask]] = [
    ("Value against squared error, by round", OURS, "value-best-action", monotone.not_monotone),
    ("Patches of rules, and of the optimiser's own test", OURS, "value-best-action", monotone.why),
    ("Remedies", OURS, "value-best-action", monotone.cures),
    ("Three readings of epsilon", OURS, "steps", _readings),
    ("Other steps, on the same fresh batches", OURS, "steps", _steps),
    ("Other methods on the same number of samples", OURS, "equal-samples", _equal_samples),
    ("Reuse after the same number of rounds", OURS, "equal-samples", monotone.equal_rounds),
    ("Committing to the best rule on as many samples", OURS, "equal-samples", _commitment),
    ("Rounds needed, compared with the bound", OURS, "error-best-action", _rounds_and_bound),
    ("Rejection, a partition matroid and a graphic matroid", OURS, "gap-other", _other_problems),
]
