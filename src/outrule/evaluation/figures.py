"""Figures: results enter; PNG and SVG files leave, each pair with a title and a caption."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import matplotlib
import polars as pl

from outrule.evaluation.panels import STYLE, WORLDS, Look, Panel, World, looks, paint
from outrule.evaluation.reading import Regime, fraction, regimes_of
from outrule.evaluation.tables import UNIT, Results
from outrule.files import whole_file

REGIMES = {"brief": "briefly trained predictor", "converged": "converged predictor"}
METHODS = {  # by label: check, step
    "fresh batches": ("fresh batches", "fixed"),
    "reuse": ("reuse", "fixed"),
    "reuse, line search": ("reuse", "line search"),
    "private reuse": ("private reuse", "fixed"),
    "commit to the best rule": ("commit to the best rule", None),
}


@dataclass(frozen=True)
class Figure:
    """A figure on disk, and what to say of it."""

    name: str
    title: str
    caption: str
    png: Path
    svg: Path


Kinds = list[tuple[Look, pl.Expr]]


class Sketch(NamedTuple):
    """A figure before it is painted."""

    name: str
    title: str
    caption: str
    panels: list[Panel]


def draw(results: Results, folder: Path) -> list[Figure]:
    """Draw into a folder all figures that the results have data for."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # the same figures whatever the user's own style
        matplotlib.rcParams.update(STYLE)
        return [_save(sketch, folder) for sketch in sketch_all(results)]


def _save(sketch: Sketch, folder: Path) -> Figure:
    png, svg = folder / f"{sketch.name}.png", folder / f"{sketch.name}.svg"
    sheet = paint(sketch.panels)
    with whole_file(png) as draft:
        sheet.savefig(draft, format="png", dpi=200, metadata={"Software": None})
    sheet.set_layout_engine("none")  # it stays as it has just been laid out
    with whole_file(svg) as draft:
        sheet.savefig(draft, format="svg", metadata={"Date": None, "Title": sketch.title})
    return Figure(sketch.name, sketch.title, sketch.caption, png, svg)


def sketch_all(results: Results) -> Iterator[Sketch]:
    """What there is to draw, regime by regime."""
    for name, regime in regimes_of(results).items():
        for sketch in (
            _gap(regime, "best-action", "Best action", ["best-action"]),
            _gap(regime, "matching", "Matching", ["matching"]),
            _gap(regime, "other", "Other problems", ["rejection", "partition", "graphic"]),
            _error(regime, "best-action", regime.settings.seeds),
            _error(regime, "matching", regime.settings.matching_seeds[:1]),
            _equal_samples(regime),
            _steps(regime),
        ):
            if sketch.panels:
                title = f"{sketch.title} ({REGIMES[name]})"
                yield sketch._replace(name=f"{sketch.name}-{name}", title=title)


def _gap(regime: Regime, name: str, title: str, problems: list[str]) -> Sketch:
    """Gap and improvement by batch size: the paper's main figure."""
    fresh = regime.fixed.filter(pl.col("problem").is_in(problems))
    panels = []
    for world in _worlds(fresh):
        units = _of(regime.units, world)
        shift = float((units["best_rule"] - units["plain"]).to_numpy().mean())
        panel = _panel(fresh, world, "batch_size", "gap", _by_epsilon(regime))
        panels.append(panel._replace(shift=shift))
    caption = (
        "Left axis: value of the optimiser on the patched predictions, minus that of the best "
        "rule (the gap). Right axis: the same value, minus that of the optimiser on the original "
        f"predictions (the improvement), a constant apart. {_bars(fresh)} {_size(regime, fresh)}"
    )
    return Sketch(f"gap-{name}", f"{title}: gap and improvement by batch size", caption, panels)


def _error(regime: Regime, problem: str, seeds: Sequence[int]) -> Sketch:
    """Squared error by round at the largest batch size, as in the paper's appendix."""
    size = max(regime.settings.batch_sizes)
    keep = (pl.col("problem") == problem) & pl.col("seed").is_in(seeds)
    trace = regime.trace.filter(keep, step="fixed", batch_size=size)
    start = regime.units.filter(keep).select(*UNIT, "squared_error", round=pl.lit(0, pl.Int64))
    table, kinds = pl.concat([start, trace], how="diagonal"), _by_epsilon(regime)
    panels = [_panel(table, world, "round", "squared_error", kinds) for world in _worlds(trace)]
    who = f"Means over {len(seeds)} seeds, without bars" if len(seeds) > 1 else "One seed"
    if problem == "matching":
        who = "The first seed only, as in the paper"
    caption = f"On test instances; batches of {size:,}. {who}. {_size(regime, trace)}"
    return Sketch(f"error-{problem}", f"{WORLDS[problem]}: squared error by round", caption, panels)


def _equal_samples(regime: Regime) -> Sketch:
    """The ways to check, and committing to a rule, on as many samples of the same worlds."""
    reused = regime.runs.filter(check="reuse")
    runs = regime.runs.join(reused, on=list(UNIT), how="semi", maintain_order="left")
    checks = {check for check, step in METHODS.values() if step is not None}
    known = [set(runs.filter(check=check)["epsilon"]) for check in checks]
    kinds = [(look, _method(*METHODS[look.label])) for look in looks(list(METHODS))]
    panels = []
    for world in _worlds(runs):
        for epsilon in sorted(set.intersection(*known), reverse=True):
            panel = _panel(runs.filter(_at(epsilon)), world, "n_samples", "gap", kinds)
            panels.append(panel._replace(also=f", ε = {fraction(epsilon)}"))
    private = runs.filter(check="private reuse")
    n_refused = len(private.filter(status="refused"))
    refused = f"{n_refused} of its {len(private)} runs, where noise would have decided; not drawn"
    caption = (
        "Fresh batches see every sample once; reuse and private reuse see all of them in every "
        f"round. Private reuse refused {refused if n_refused else 'no run'}. {_bars(runs)} "
        f"{_size(regime, runs)}"
    )
    return Sketch("equal-samples", "All problems: gap by number of samples", caption, panels)


def _steps(regime: Regime) -> Sketch:
    """The fixed step beside the line search, where both ran."""
    fresh = regime.runs.filter(check="fresh batches")
    both = fresh.filter(pl.col("step").n_unique().over(*UNIT, "epsilon", "batch_size") == 2)
    sizes, kinds = sorted(set(both["batch_size"])), []
    for size, look in zip(sizes, looks([f"batches of {size:,}" for size in sizes]), strict=True):
        for step in ("fixed", "line search"):
            look = look._replace(label=f"{step}, batches of {size:,}", dashed=step != "fixed")
            kinds.append((look, (pl.col("batch_size") == size) & (pl.col("step") == step)))
    panels = [
        _panel(both, world, "epsilon", y, kinds)
        for world in _worlds(both)
        for y in ("gap", "n_patches")
    ]
    caption = (
        "Full lines: the paper's fixed step. Broken lines: the line search, which takes the step "
        "that lowers the squared error on the batch most, and whose length does not depend on ε. "
        f"{_bars(both)} {_size(regime, both)}"
    )
    return Sketch("steps", "All problems: gap and patches by step", caption, panels)


def _panel(table: pl.DataFrame, world: World, x: str, y: str, kinds: Kinds) -> Panel:
    """A line for each kind of row: means of y, with their range over seeds.

    Of one seed the range is a standard error up and down, if it is known.
    """
    lines = []
    for look, kind in kinds:
        rows = _of(table, world).filter(kind)
        one = y == "gap" and rows["seed"].n_unique() == 1
        error = pl.col("gap_error").mean() if one else pl.lit(0.0)
        mean, low, high = pl.col(y).mean(), pl.col(y).min() - error, pl.col(y).max() + error
        line = rows.drop_nulls(y).group_by(x).agg(mean=mean, low=low, high=high).sort(x)
        if len(line):
            lines.append((look, line))
    return Panel(world, x, y, lines)


def _method(check: str, step: str | None) -> pl.Expr:
    return (pl.col("check") == check) & pl.col("step").eq_missing(pl.lit(step, pl.String))


def _worlds(table: pl.DataFrame) -> list[World]:
    order = list(WORLDS)
    pairs = set(zip(table["problem"], table["n_items"], strict=True))
    return sorted(pairs, key=lambda pair: (order.index(pair[0]), pair[1]))


def _of(table: pl.DataFrame, world: World) -> pl.DataFrame:
    return table.filter(problem=world[0], n_items=world[1])


def _at(epsilon: float) -> pl.Expr:
    """Rows of an epsilon, and those that have none."""
    return (pl.col("epsilon") == epsilon).fill_null(True)


def _by_epsilon(regime: Regime) -> Kinds:
    epsilons = sorted(regime.settings.epsilons, reverse=True)
    by_size = looks([fraction(epsilon) for epsilon in epsilons])
    return [(look, _at(epsilon)) for look, epsilon in zip(by_size, epsilons, strict=True)]


def _bars(runs: pl.DataFrame) -> str:
    n_seeds = runs["seed"].n_unique()
    if n_seeds == 1:
        return "One seed; a bar is one standard error over the test instances, up and down."
    return f"Means over {n_seeds} seeds; a bar spans the smallest to the largest."


def _size(regime: Regime, table: pl.DataFrame) -> str:
    settings, units = regime.settings, regime.units.join(table, on=list(UNIT), how="semi")
    rules, rounds, n_test = _range(units["n_rules"]), settings.rounds, settings.n_test
    return f"{rounds:,} rounds, {rules} rules, {n_test:,} test instances."


def _range(counts: Iterable[int]) -> str:
    """The smallest to the largest, or the only one."""
    ordered = sorted(set(counts))
    return " to ".join(f"{count:,}" for count in ordered[:1] + ordered[1:][-1:])
