"""Value against squared error, round by round: the value is not monotone, why, and what cures it.

A run on fresh batches lowers the squared error, and its guarantee is about the end of the loop;
between start and end the value may fall.
"""

from __future__ import annotations

from statistics import fmean, median
from typing import Any

import polars as pl

from outrule.evaluation import say
from outrule.evaluation.grid import PAPER_PROBLEMS
from outrule.evaluation.reading import SETTING, ClaimAnswer, at, mean, parts
from outrule.evaluation.results import UNIT, Results

RUN = (*UNIT, "step", "epsilon", "batch_size")
RISE, DROP = 1e-4, 0.02  # of the squared error per entry, and of the value per chosen item


def traces(results: Results) -> pl.DataFrame:
    """Traces of the paper's problems at the largest batch, from before the first round on."""
    keep = pl.col("problem").is_in(PAPER_PROBLEMS)
    trace = at(results.trace.filter(keep, step="fixed"), "batch_size", largest=True)
    zero = pl.lit(0, pl.Int64)
    start = (
        trace.select(*RUN)
        .unique(maintain_order=True)
        .join(results.units.select(*UNIT, "squared_error", "plain", "half_plain"), on=list(UNIT))
        .select(*RUN, "squared_error", round=zero, value="plain", half_value="half_plain")
    )
    return pl.concat([start, trace.select(start.columns)]).sort(*RUN, "round")


def drops(results: Results) -> pl.DataFrame:
    """How far each run ends below its highest value, and how much its error ever rises."""
    rises = pl.col("squared_error") - pl.col("squared_error").cum_min()
    falls = pl.col("value").max() - pl.col("value").last()
    ends = traces(results).group_by(*RUN, maintain_order=True).agg(drop=falls, rise=rises.max())
    return ends.join(results.units.select(*UNIT, "k"), on=list(UNIT), maintain_order="left")


def not_monotone(results: Results) -> ClaimAnswer | None:
    """Runs whose squared error does not rise, and whose value ends clearly below its peak."""
    if results.trace.is_empty() or (runs := drops(results)).is_empty():
        return None
    falls = (pl.col("rise") <= RISE) & (pl.col("drop") > DROP * pl.col("k"))
    fell, words = runs.filter(falls), []
    for setting, part in parts(runs, *SETTING).items():
        worst = max(parts(part, "epsilon").values(), key=lambda some: mean(some, "drop"))
        n_fell = len(part.filter(falls))
        words.append(
            f"{say.setting(*setting)} {n_fell} of {len(part)}, most at epsilon "
            f"{say.fraction(worst['epsilon'][0])}: {say.spread(worst['drop'])} below the peak"
        )
    number = f"{len(fell)} of {len(runs)} runs"
    return ClaimAnswer(
        number,
        f"At batch {runs['batch_size'][0]:,} the squared error never rises by more than {RISE:g} "
        f"and yet the value ends more than {DROP:g} per chosen item below its peak in {number} "
        f"{say.seeds(runs)}: {'; '.join(words)}.",
    )


def why(results: Results) -> ClaimAnswer | None:
    """What the patches of rules reach alone, those of the optimiser's own test, and both."""
    runs = results.paper.drop_nulls("value_rules").filter(pl.col("n_own") > 0)
    words, lost = [], []
    for setting, part in parts(runs, *SETTING).items():
        before = mean(results.units.join(part, on=list(UNIT), how="semi"), "plain")
        rules, own, both = (mean(part, name) for name in ("value_rules", "value_own", "value"))
        down = 100 * mean(part, "n_own_down") / mean(part, "n_own")
        most = f"{say.setting(*setting)} {say.number(rules)}, {say.number(both)}"
        lost.append((rules - both, most))
        words.append(
            f"{say.setting(*setting)}: {say.number(before)} before, {say.number(rules)} with the "
            f"patches of rules alone, {say.number(own)} with the optimiser's own alone ("
            f"{down:.0f} % of them downwards), {say.number(both)} with all; in the end "
            f"{say.count(round(mean(part, 'n_level'), 1))} of {setting[1]} items are within a step "
            "of the highest prediction"
        )
    if not words:
        return None
    return ClaimAnswer(
        f"rules' patches alone, and all: {max(lost)[1]}",
        f"Mean values {say.seeds(runs)} at batch {runs['batch_size'][0]:,}, all epsilons whose "
        f"runs patch both: {'; '.join(words)}. The optimiser picks what is predicted too high, so "
        "its own test lowers the items it picks, whichever they are, until many are equally high; "
        "the squared error falls, but which of these is best is forgotten.",
    )


def cures(results: Results) -> ClaimAnswer | None:
    """The end of the run, the same stopped on held-out value, the line search, our method."""
    methods = _methods(results)
    if not methods:
        return None
    words, gains = [], []
    for setting in parts(methods["at the end"], *SETTING):
        gaps = {name: _by_world(table, setting) for name, table in methods.items()}
        known = {name: values for name, values in gaps.items() if values}
        if "stopped on held-out value" not in known:
            continue
        said = [f"{name} {say.spread(values)}" for name, values in known.items()]
        words.append(f"{say.setting(*setting)}: {', '.join(said)}")
        short = [f"{name} {say.number(fmean(values))}" for name, values in known.items()]
        gain = fmean(known["stopped on held-out value"]) - fmean(known["at the end"])
        gains.append((gain, f"{say.setting(*setting)} {', '.join(short)}"))
    if not gains:
        return None
    runs = methods["at the end"]
    epsilons = ", ".join(say.fraction(e) for e in runs["epsilon"].unique(maintain_order=True))
    return ClaimAnswer(
        max(gains)[1],
        f"Gap at batch {runs['batch_size'][0]:,}, mean over epsilon {epsilons}, mean and range "
        f"{say.seeds(runs)}: {'; '.join(words)}. Stopped: in the traced round of highest value on "
        "one half of the test instances, measured on the other half.",
    )


def _methods(results: Results) -> dict[str, pl.DataFrame]:
    """Runs with a gap, by method; those that have an epsilon, at the same ones."""
    ends = at(results.paper, "batch_size", largest=True)
    if ends.is_empty() or results.trace.is_empty() or (stopped := _stopped(results)).is_empty():
        return {}
    line = results.runs.filter(step="line search", check="fresh batches")
    line = line.join(ends, on=[*UNIT, "epsilon", "batch_size"], how="semi")
    if len(line):
        ends, stopped = (t.join(line, on="epsilon", how="semi") for t in (ends, stopped))
    methods = {"at the end": ends, "stopped on held-out value": stopped, "line search": line}
    default = results.runs.filter(check="default method")
    if len(default):
        methods[f"default method on {default['n_samples'][0]:,} samples"] = default
    return methods


def _by_world(table: pl.DataFrame, setting: tuple[Any, ...]) -> list[float]:
    """Mean gaps."""
    rows = table.filter(problem=setting[0], n_items=setting[1])
    return [fmean(one["gap"]) for one in parts(rows, "seed").values()]


def _stopped(results: Results) -> pl.DataFrame:
    """Runs stopped where one half of the test instances has the highest value.

    The value is that of the other half, averaged over both ways.
    """
    first, n = pl.col("half_value"), results.grid.n_test
    size = (n + 1) // 2
    second = (n * pl.col("value") - size * first) / max(1, n - size)
    table = traces(results).with_columns(first=first, second=second)
    value = (
        pl.col("second").get(pl.col("first").arg_max())
        + pl.col("first").get(pl.col("second").arg_max())
    ) / 2
    ends = table.group_by(*RUN, maintain_order=True).agg(value=value)
    rules = results.units.select(*UNIT, "best_rule")
    ends = ends.join(rules, on=list(UNIT), maintain_order="left")
    return ends.with_columns(gap=pl.col("value") - pl.col("best_rule"))


def equal_rounds(results: Results) -> ClaimAnswer | None:
    """Fresh batches after as many rounds as Reuse took, on the same number of samples in all."""
    reuse = results.runs.filter(check="reuse", step="fixed").drop_nulls("gap")
    on = [*UNIT, "step", "epsilon"]
    sized = reuse.with_columns(
        batch_size=(pl.col("n_samples") // results.grid.rounds), until=pl.col("last_patch")
    ).select(*on, "batch_size", "until", reuse="gap")
    trace = results.trace.join(sized, on=[*on, "batch_size"], how="inner", suffix="_reuse")
    reached = trace.filter(pl.col("round") >= pl.col("until")).sort("round")
    reached = reached.unique([*on, "batch_size"], keep="first", maintain_order=True)
    if reached.is_empty():
        return None
    reached = reached.join(results.units.select(*UNIT, "best_rule"), on=list(UNIT))
    fresh = reached["value"] - reached["best_rule"]
    above, below = int((reached["reuse"] > fresh).sum()), int((reached["reuse"] < fresh).sum())
    number = f"reuse higher in {above}, lower in {below} of {len(reached)}"
    return ClaimAnswer(
        number,
        f"Reuse stops after a median of {median(reached['until'].to_list()):.0f} rounds. After as "
        f"many, fresh batches (of 1/{results.grid.rounds:,} of the samples each) have a median gap "
        f"of {say.number(median(fresh.to_list()))}, and reuse of "
        f"{say.number(median(reached['reuse'].to_list()))}: {number} pairs {say.seeds(reached)}.",
    )
