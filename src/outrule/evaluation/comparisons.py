"""Comparisons that the paper does not have: one regime's tables enter, sentences leave."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

import polars as pl

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
    label,
    mean,
    number,
    parts,
    seeds,
    settled,
    spread,
    when,
)
from outrule.evaluation.settings import PROBLEMS
from outrule.evaluation.tables import UNIT


def rounds_and_bound(regime: Regime) -> Finding | None:
    """Rounds until the guarantee is met for good, beside the bound."""
    runs = at(regime.fixed, "batch_size", largest=True)
    epsilons = sorted(runs["epsilon"].unique())
    if not epsilons or regime.trace.is_empty():
        return None
    epsilon = EXAMPLE if EXAMPLE in epsilons else epsilons[len(epsilons) // 2]
    runs = runs.filter(epsilon=epsilon)
    words = []
    for (problem, n_items), part in parts(runs, *SETTING).items():
        worst, measured = bounds(
            regime.units.filter(problem=problem, n_items=n_items), tolerance=epsilon / 2
        )
        slowest = when(settled(regime, part, epsilon), regime.settings.rounds)
        words.append(f"{label(problem, n_items)}: {slowest} of {worst:,} ({measured:,})")
    return Finding(
        f"Rounds until the gap stays above -epsilon = -{fraction(epsilon)}, the slowest "
        f"{seeds(runs)}, of the bound for r = m (for the measured error): "
        f"{'; '.join(words)}."
    )


def line_search(regime: Regime) -> Finding | None:
    """The fixed step beside the line search, on the same batches."""
    line = regime.runs.filter(check="fresh batches", step="line search")
    pairs = _pair(regime.fixed, line, "epsilon", "batch_size")
    if pairs.is_empty():
        return None
    words = [
        f"{fraction(epsilon)}: {count(mean(part, 'n_patches'))} and "
        f"{count(mean(part, 'n_patches_2'))}, {_medians(part)}"
        for (epsilon,), part in parts(pairs, "epsilon").items()
    ]
    above, below = _compare(pairs)
    return Finding(
        f"Mean patches and median gap by epsilon, fixed step and line search, {seeds(pairs)}: "
        f"{'; '.join(words)}. The gap is larger with the fixed step in {above:,} and with the "
        f"line search in {below:,} of {len(pairs):,} pairs."
    )


def equal_samples(regime: Regime) -> Finding | None:
    """Fresh batches beside the CHECKs that see all samples in every round."""
    other = regime.runs.filter(pl.col("check").is_in(("reuse", "private reuse")))
    words = [
        f"{check} ({step}) {_against(pairs)}"
        for (check, step), runs in parts(other, "check", "step").items()
        if len(pairs := _pair(runs, regime.fixed, "epsilon", "n_samples"))
    ]
    if not words:
        return None
    return Finding(
        "Median gap, and that of fresh batches with the fixed step on as many samples, "
        f"{seeds(other)}: {'; '.join(words)}."
    )


def _against(pairs: pl.DataFrame) -> str:
    measured = pairs.filter(pl.col("gap").is_not_null())
    n_refused, words = len(pairs.filter(status="refused")), []
    if n_refused:
        words.append(f"refused {n_refused:,} of {len(pairs):,}")
    if len(measured):
        above, below = _compare(measured)
        differences = (measured["gap"] - measured["gap_2"]).to_list()
        words.append(
            f"{_medians(measured)} ({number(min(differences))} to {number(max(differences))} "
            f"apart), above in {above:,}, below in {below:,}"
        )
    return ", else ".join(words)


def commitment(regime: Regime) -> Finding | None:
    """Fresh batches beside the rule that is best on the same samples."""
    commit = regime.runs.filter(check="commit to the best rule")
    pairs = _pair(regime.fixed, commit.drop("epsilon"), "n_samples")
    if pairs.is_empty():
        return None
    above, below = _compare(pairs)
    words = [
        f"{fraction(epsilon)}: {_compare(part)[0]:,} of {len(part):,}"
        for (epsilon,), part in parts(pairs, "epsilon").items()
    ]
    gaps = pairs["gap_2"].to_list()
    return Finding(
        f"The committed rule has a gap of {number(min(gaps))} to {number(max(gaps))} "
        f"{seeds(pairs)}. Of {len(pairs):,} calibrated runs on as many samples, {above:,} are "
        f"above it and {below:,} below; above by epsilon: {'; '.join(words)}."
    )


def other_worlds(regime: Regime) -> Finding | None:
    """The problems that the paper treats in theory only."""
    others = [problem for problem in PROBLEMS if problem not in PAPER]
    runs = regime.fixed.filter(pl.col("problem").is_in(others))
    runs = at(runs, "batch_size", largest=True)
    words = []
    for (problem,), table in parts(runs, "problem").items():
        ranked = sorted(
            parts(table, "epsilon").items(), key=lambda item: mean(item[1], "gap"), reverse=True
        )
        best, worst = (_gap_and_improvement(ranked[i]) for i in (0, -1))
        words.append(f"{problem}: best {best}, worst {worst}")
    if not words:
        return None
    return Finding(
        f"Gap (min to max {seeds(runs)}) and mean improvement at batch "
        f"{runs['batch_size'][0]:,}, by epsilon: {'; '.join(words)}."
    )


def _gap_and_improvement(item: tuple[tuple[Any, ...], pl.DataFrame]) -> str:
    (epsilon,), runs = item
    gap, improvement = spread(runs["gap"]), number(mean(runs, "improvement"))
    return f"{fraction(epsilon)} {gap} and {improvement}"


def _pair(first: pl.DataFrame, second: pl.DataFrame, *also: str) -> pl.DataFrame:
    """Runs of the same unit side by side."""
    on = [*UNIT, *also]
    return first.join(second, on=on, suffix="_2", maintain_order="left_right")


def _medians(pairs: pl.DataFrame) -> str:
    """Of both gaps: a mean over all problems would be that of the largest decisions."""
    first, second = (median(pairs[name].to_list()) for name in ("gap", "gap_2"))
    return f"{number(first)} and {number(second)}"


def _compare(pairs: pl.DataFrame) -> tuple[int, int]:
    """How often the first gap is above the second, and how often below."""
    first, second = pairs["gap"], pairs["gap_2"]
    return int((first > second).sum()), int((first < second).sum())


COMPARISONS: tuple[tuple[str, Callable[[Regime], Finding | None]], ...] = (
    ("Rounds that the loop needs, beside the bound", rounds_and_bound),
    ("The fixed step beside the line search, on the same fresh batches", line_search),
    ("Fresh batches beside reuse and private reuse, on as many samples", equal_samples),
    ("Fresh batches beside committing to the best rule, on as many samples", commitment),
    ("Rejection, a partition matroid and a graphic matroid", other_worlds),
)
