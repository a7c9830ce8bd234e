"""Which figures the results have, and what their lines and captions say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from outrule.evaluation import panels
from outrule.evaluation.grid import PROBLEMS
from outrule.evaluation.monotone import traces
from outrule.evaluation.panels import LineStyle, Panel, Setting, label, looks
from outrule.evaluation.reading import at, with_change
from outrule.evaluation.results import UNIT, Results
from outrule.evaluation.say import fraction

REGIMES = {"brief": "briefly trained predictor", "converged": "converged predictor"}
METHODS = {  # by label: check, step
    "fresh batches": ("fresh batches", "fixed"),
    "reuse": ("reuse", "fixed"),
    "reuse, line search": ("reuse", "line search"),
    "private reuse": ("private reuse", "fixed"),
    "default method": ("default method", None),
    "commit to the best rule": ("commit to the best rule", None),
}
STEPS = ("fixed", "line search", "alpha / 2", "footnote")
Kinds = list[tuple[LineStyle, pl.Expr]]  # of lines, and the rows that each shows


class Figure(NamedTuple):
    """A figure, ``name.svg`` and ``name.png`` when it is drawn."""

    name: str
    title: str
    caption: str
    panels: list[Panel]


def draw(results: Results, folder: Path) -> list[Figure]:
    """Draw into a folder all figures that the results have data for."""
    figures = list(plan_all(results))
    for figure in figures:
        panels.save(figure.panels, folder / figure.name, figure.title)
    return figures


def plan_all(results: Results) -> Iterator[Figure]:
    """What there is to draw, regime by regime."""
    for name, regime in results.by_regime().items():
        for figure in (
            _gap(regime, "best-action", "Best action", ["best-action"]),
            _gap(regime, "matching", "Matching", ["matching"]),
            _gap(regime, "other", "Other problems", ["rejection", "partition", "graphic"]),
            _value(regime, "best-action"),
            _value(regime, "matching"),
            _metric_2(regime),
            _error(regime, "best-action", regime.grid.seeds),
            _error(regime, "matching", regime.grid.seeds[:1]),
            _equal_samples(regime),
            _steps(regime),
        ):
            if figure.panels:
                title = f"{figure.title} ({REGIMES[name]})"
                yield figure._replace(name=f"{figure.name}-{name}", title=title)


def _gap(regime: Results, name: str, title: str, problems: list[str]) -> Figure:
    """Gap and improvement by batch size: the paper's main figure."""
    fresh = regime.fixed.filter(pl.col("problem").is_in(problems))
    drawn = []
    for setting in _settings(fresh):
        units = _of(regime.units, setting)
        shift = float((units["best_rule"] - units["plain"]).to_numpy().mean())
        panel = _panel(fresh, setting, "batch_size", "gap", _by_epsilon(regime))
        drawn.append(panel._replace(shift=shift))
    caption = (
        "Left axis: value of the optimiser on the patched predictions, minus that of the best "
        "rule (the gap). Right axis: the same value, minus that of the optimiser on the original "
        "predictions (the improvement); the two differ by a constant. "
        f"{_bars(fresh)} {_size(regime, fresh)}"
    )
    return Figure(f"gap-{name}", f"{title}: gap and improvement by batch size", caption, drawn)


def _error(regime: Results, problem: str, seeds: Sequence[int]) -> Figure:
    """Squared error by round at the largest batch size, as in the paper's appendix."""
    keep = (pl.col("problem") == problem) & pl.col("seed").is_in(seeds)
    table = _traced(regime, keep)
    kinds = _by_epsilon(regime)
    drawn = [_panel(table, one, "round", "squared_error", kinds) for one in _settings(table)]
    who = f"Means over {len(seeds)} worlds, without bars" if len(seeds) > 1 else "One world"
    if problem == "matching":
        who = "The first world only, as in the paper"
    size = f"{max(regime.grid.batch_sizes):,}"
    caption = f"On test instances; batches of {size}. {who}. {_size(regime, table)}"
    title = f"{label(problem).capitalize()}: squared error by round"
    return Figure(f"error-{problem}", title, caption, drawn)


def _value(regime: Results, problem: str) -> Figure:
    """Squared error and gap by round, side by side, of the largest m at the largest batch."""
    table = _traced(regime, pl.col("problem") == problem)
    drawn = [
        _panel(table, setting, "round", y, _by_epsilon(regime))
        for setting in _settings(table)[-1:]
        for y in ("squared_error", "gap")
    ]
    n_seeds = table["seed"].n_unique()
    who = f"Means over {n_seeds} worlds" if n_seeds > 1 else "One world"
    caption = (
        f"Batches of {max(regime.grid.batch_sizes):,}; both on test instances. The squared error "
        "falls from round to round; the gap, the value minus that of the best rule, does not have "
        "to rise with it. "
        f"{who}. {_size(regime, table)}"
    )
    title = f"{label(problem).capitalize()}: squared error and gap by round"
    return Figure(f"value-{problem}", title, caption, drawn)


def _traced(regime: Results, keep: pl.Expr) -> pl.DataFrame:
    """Traces at the largest batch size with gaps, from before the first round on."""
    table = traces(regime).filter(keep)
    table = table.join(regime.units.select(*UNIT, "best_rule"), on=list(UNIT))
    return table.with_columns(gap=pl.col("value") - pl.col("best_rule"), gap_error=pl.lit(0.0))


def _metric_2(regime: Results) -> Figure:
    """The change of the squared error by batch size: the paper's second metric."""
    fresh = with_change(regime.paper, regime)
    kinds = _by_epsilon(regime)
    drawn = [_panel(fresh, one, "batch_size", "change", kinds) for one in _settings(fresh)]
    caption = (
        "Squared error per entry of the patched predictions, minus that of the original ones; "
        f"below zero they are better. {_bars(fresh)} {_size(regime, fresh)}"
    )
    return Figure("squared-error", "Change of the squared error by batch size", caption, drawn)


def _equal_samples(regime: Results) -> Figure:
    """The CHECKs, and committing to a rule, on the same number of samples."""
    reused = regime.runs.filter(check="reuse")
    runs = regime.runs.join(reused, on=list(UNIT), how="semi", maintain_order="left")
    checks = {check for check, step in METHODS.values() if step is not None}
    known = [set(runs.filter(check=check)["epsilon"].drop_nulls()) for check in checks]
    kinds = [
        (look, (pl.col("check") == check) & pl.col("step").eq_missing(pl.lit(step, pl.String)))
        for look, (check, step) in zip(looks(list(METHODS)), METHODS.values(), strict=True)
    ]
    drawn = []
    for setting in _settings(runs):
        for epsilon in sorted(set.intersection(*known), reverse=True):
            panel = _panel(runs.filter(_at(epsilon)), setting, "n_samples", "gap", kinds)
            drawn.append(panel._replace(also=f", ε = {fraction(epsilon)}"))
    private = runs.filter(check="private reuse")
    refused = len(private.filter(status="refused"))
    missing = (
        f"{refused} of {len(private)} runs of private reuse are missing: the noise it needs would "
        "have been larger than the tolerance. "
    )
    caption = (
        "Fresh batches see every sample once; reuse, private reuse and the default method, which "
        "chooses its own tolerance, see all of them in every round. "
        f"{missing if refused else ''}{_bars(runs)} {_size(regime, runs)}"
    )
    return Figure("equal-samples", "All problems: gap by number of samples", caption, drawn)


def _steps(regime: Results) -> Figure:
    """The fixed step beside the other steps and readings, where they ran."""
    fresh = regime.runs.filter(check="fresh batches")
    both = fresh.filter(pl.col("step").n_unique().over(*UNIT, "epsilon", "batch_size") > 1)
    both = at(both, "batch_size", largest=True)
    names = [name for name in STEPS if name in set(both["step"])]
    kinds = [
        (look._replace(dashed=look.label != "fixed"), pl.col("step") == look.label)
        for look in looks(names)
    ]
    drawn = [
        _panel(both, setting, "epsilon", y, kinds)
        for setting in _settings(both)
        for y in ("gap", "n_patches")
    ]
    size = f"Batches of {both['batch_size'][0]:,}. " if len(both) else ""
    caption = (
        f"{size}fixed: the step tolerance / (2 k) of all other figures. line search: the step that "
        "lowers the squared error on the batch most. alpha / 2: the step of the paper's Algorithm "
        "1, tolerance / (2 √m). footnote: a tolerance of ε / k and a step of ε / (2 k), for "
        f"decisions of k > 1 items. {_bars(both)} {_size(regime, both)}"
    )
    return Figure("steps", "All problems: gap and patches by step", caption, drawn)


def _panel(table: pl.DataFrame, setting: Setting, x: str, y: str, kinds: Kinds) -> Panel:
    """A line for each kind of row: means of y, with their range over worlds.

    With one world, the range is one standard error up and down, if it is known.
    """
    lines = []
    for look, kind in kinds:
        rows = _of(table, setting).filter(kind)
        one = y == "gap" and rows["seed"].n_unique() == 1
        error = pl.col("gap_error").mean() if one else pl.lit(0.0)
        mean, low, high = pl.col(y).mean(), pl.col(y).min() - error, pl.col(y).max() + error
        line = rows.drop_nulls(y).group_by(x).agg(mean=mean, low=low, high=high).sort(x)
        if len(line):
            lines.append((look, line))
    return Panel(setting, x, y, lines)


def _settings(table: pl.DataFrame) -> list[Setting]:
    pairs = table.select("problem", "n_items").unique().rows()
    return sorted(pairs, key=lambda pair: (PROBLEMS.index(pair[0]), pair[1]))


def _of(table: pl.DataFrame, setting: Setting) -> pl.DataFrame:
    return table.filter(problem=setting[0], n_items=setting[1])


def _at(epsilon: float) -> pl.Expr:
    """Rows of an epsilon, and those that have none."""
    return (pl.col("epsilon") == epsilon).fill_null(True)


def _by_epsilon(regime: Results) -> Kinds:
    epsilons = sorted(regime.grid.epsilons, reverse=True)
    by_size = looks([fraction(epsilon) for epsilon in epsilons])
    return [(look, _at(epsilon)) for look, epsilon in zip(by_size, epsilons, strict=True)]


def _bars(runs: pl.DataFrame) -> str:
    n_seeds = runs["seed"].n_unique()
    if n_seeds == 1:
        return "One world; bars are one standard error over the test instances, up and down."
    return f"Means over {n_seeds} worlds; bars go from the smallest to the largest."


def _size(regime: Results, table: pl.DataFrame) -> str:
    """How much was run."""
    counts = regime.units.join(table, on=list(UNIT), how="semi")["n_rules"].unique().sort()
    rules = " to ".join(f"{count:,}" for count in sorted({*counts[:1], *counts[-1:]}))
    return f"{regime.grid.rounds:,} rounds, {rules} rules, {regime.grid.n_test:,} test instances."
