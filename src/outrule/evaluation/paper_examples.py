"""The worked examples of the paper's evaluation: best action with 256 items, and matching."""

from __future__ import annotations

from outrule import theory
from outrule.evaluation import say
from outrule.evaluation.reading import EXAMPLE, ClaimAnswer, mean, parts, rounds_needed
from outrule.evaluation.results import Results

ROUNDS = 1024  # of the paper's runs
LATE = 7 / 8  # share of the rounds: not converged after
MATCHING = ((1 / 4, 2**8, 100), (1 / 8, 2**10, 1000))  # epsilon, batch size, "times higher"
N_NODES, N_RULES = 10, 1024  # of the paper's matchings


def guarantee(results: Results) -> ClaimAnswer | None:
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
    return ClaimAnswer(", ".join(counts), " ".join(words), all(holds))


def matching_gaps(results: Results) -> ClaimAnswer | None:
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
    return ClaimAnswer(f"gaps {', '.join(numbers)}", sentence, all(holds))


def matching_samples(results: Results) -> ClaimAnswer | None:
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
    return ClaimAnswer(f"{' and '.join(numbers)} times", " ".join(words), all(holds))
