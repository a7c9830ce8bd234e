"""Figures: results enter; PNG and SVG files leave, each pair with a title and a caption."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Sheet
from matplotlib.ticker import LogLocator

from outrule.evaluation.reading import Regime, fraction, regimes_of
from outrule.evaluation.tables import UNIT, Results
from outrule.files import whole_file

REGIMES = {"brief": "briefly trained predictor", "converged": "converged predictor"}
WORLDS = {
    "best-action": "Best action",
    "matching": "Matching",
    "rejection": "Rejection",
    "partition": "Partition matroid",
    "graphic": "Graphic matroid",
}
METHODS = {  # by label: check, step
    "fresh batches": ("fresh batches", "fixed"),
    "reuse": ("reuse", "fixed"),
    "reuse, line search": ("reuse", "line search"),
    "private reuse": ("private reuse", "fixed"),
    "commit to the best rule": ("commit to the best rule", None),
}
LABELS = {
    "batch_size": "batch size",
    "n_samples": "number of samples",
    "epsilon": "ε",
    "round": "round",
    "gap": "utility gap",
    "n_patches": "patches",
    "squared_error": "squared error per entry",
}
MARKERS = "os^DvPX<>ph*d"
WIDTH, HEIGHT, LOW = 7.0, 2.6, 1.25  # inches: a printed page, a panel, and a panel among many
DODGE = 0.05  # octaves between the bars of two lines
STYLE: dict[Any, Any] = {
    "font.size": 8.5,
    "axes.titlesize": "medium",
    "axes.edgecolor": "0.4",
    "axes.grid": True,
    "axes.ymargin": 0.08,
    "axes.axisbelow": True,
    "grid.color": "0.9",
    "lines.linewidth": 1.1,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "svg.hashsalt": "outrule",  # the same drawing has the same bytes
}
World = tuple[str, int]


@dataclass(frozen=True)
class Figure:
    """A figure on disk, and what to say of it."""

    name: str
    title: str
    caption: str
    png: Path
    svg: Path


class Look(NamedTuple):
    """How a line looks; no two lines differ by colour alone."""

    label: str
    colour: Any
    marker: str
    dashed: bool = False


class Panel(NamedTuple):
    """Lines over one pair of axes; a line has x, the mean of y, and its low and high end."""

    world: World
    x: str
    y: str
    lines: list[tuple[Look, pl.DataFrame]]
    also: str = ""  # to be said in its title
    shift: float | None = None  # from gap to improvement


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
    """The ways to check, and committing to a rule, on as many samples."""
    runs = regime.runs
    checks = {check for check, step in METHODS.values() if step is not None}
    known = [set(runs.filter(check=check)["epsilon"]) for check in checks]
    kinds = [(look, _method(*METHODS[look.label])) for look in _looks(list(METHODS))]
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
    for size, look in zip(sizes, _looks([f"batches of {size:,}" for size in sizes]), strict=True):
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


def paint(panels: list[Panel]) -> Sheet:
    """Lay panels out, two in a row; labels only where a row or a column ends."""
    n_columns = min(2, len(panels))
    n_rows = -(-len(panels) // n_columns)
    width = WIDTH if n_columns == 2 else 0.7 * WIDTH
    height = HEIGHT if len(panels) <= 4 else LOW
    sheet = Sheet(figsize=(width, height * n_rows + 0.7), layout="constrained")
    first: dict[tuple[World, str], Axes] = {}  # panels of a world have the same scale
    for i, panel in enumerate(panels):
        key = (panel.world, panel.y)
        axes = sheet.add_subplot(n_rows, n_columns, i + 1, sharey=first.get(key))
        first.setdefault(key, axes)
        _paint_panel(axes, panel)
        bottom = i + n_columns >= len(panels)
        axes.tick_params(labelbottom=bottom)
        if bottom:
            axes.set_xlabel(LABELS[panel.x])
        if i % 2 == 0 or panel.y != panels[i - 1].y:
            axes.set_ylabel(LABELS[panel.y])
        if panel.shift is not None:
            _add_improvement(axes, panel.shift, named=i % 2 == 1 or i == len(panels) - 1)
    _add_legend(sheet, by_epsilon=panels[0].x in ("batch_size", "round"))
    return sheet


def _paint_panel(axes: Axes, panel: Panel) -> None:
    bars, n_lines = panel.x != "round", len(panel.lines)
    for i, (look, table) in enumerate(panel.lines):
        every = max(1, len(table) // 8)
        x = table[panel.x] * (2.0 ** (DODGE * (i - (n_lines - 1) / 2)) if bars else 1)
        axes.plot(
            x,
            table["mean"],
            label=look.label,
            color=look.colour,
            marker=look.marker,
            linestyle="--" if look.dashed else "-",
            markerfacecolor="white" if look.dashed else look.colour,
            markevery=(i * every // n_lines, every),
        )
        if bars:
            low, high = table["low"], table["high"]
            axes.vlines(x, low, high, color=look.colour, linewidth=0.7, zorder=1.5)
    if panel.y != "squared_error":
        axes.axhline(0, color="0.2", linewidth=0.8, zorder=1)
    if panel.x != "round":
        _use_powers(axes, panel)
    problem, n_items = panel.world
    axes.set_title(f"{WORLDS[problem]}, m = {n_items}{panel.also}")


def _use_powers(axes: Axes, panel: Panel) -> None:
    axes.set_xscale("log", base=2)
    if panel.x == "epsilon":
        ticks = sorted({value for _, table in panel.lines for value in table["epsilon"]})
        axes.set_xticks(ticks, [fraction(value) for value in ticks])
    else:
        axes.xaxis.set_major_locator(LogLocator(base=2, numticks=12))
    axes.minorticks_off()


def _add_improvement(axes: Axes, shift: float, *, named: bool) -> None:
    """A second scale for the same lines."""
    to_and_from = (partial(np.add, shift), partial(np.add, -shift))
    right = axes.secondary_yaxis("right", functions=to_and_from)
    if named:
        right.set_ylabel("utility improvement")


def _add_legend(sheet: Sheet, *, by_epsilon: bool) -> None:
    lines = [line for axes in sheet.axes for line in axes.get_lines()]
    shown = {str(line.get_label()): line for line in lines}
    handles = [line for label, line in shown.items() if not label.startswith("_")]
    wide = by_epsilon and len(sheet.axes) > 1 and len(handles) <= 7
    n_columns = len(handles) if wide else -(-len(handles) // 2)
    title = "ε (tolerance ε/2)" if by_epsilon else None
    sheet.legend(handles=handles, loc="outside lower center", ncols=n_columns, title=title)


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
    looks = _looks([fraction(epsilon) for epsilon in epsilons])
    return [(look, _at(epsilon)) for look, epsilon in zip(looks, epsilons, strict=True)]


def _looks(labels: list[str]) -> list[Look]:
    """Colours from dark to light, so that they differ in grey too, without the lightest."""
    colours, last = matplotlib.colormaps["viridis"], max(1, len(labels) - 1)
    return [
        Look(label, colours(0.85 * i / last), MARKERS[i % len(MARKERS)])
        for i, label in enumerate(labels)
    ]


def _bars(runs: pl.DataFrame) -> str:
    counts = {_of(runs, world)["seed"].n_unique() for world in _worlds(runs)}
    error = "one standard error over the test instances, up and down"
    if counts == {1}:
        return f"One seed; a bar is {error}."
    one = f", or, of one seed, {error}" if 1 in counts else ""
    return f"Means over {_range(counts)} seeds; a bar spans the smallest to the largest{one}."


def _size(regime: Regime, table: pl.DataFrame) -> str:
    settings, units = regime.settings, regime.units.join(table, on=list(UNIT), how="semi")
    rules, rounds, n_test = _range(units["n_rules"]), settings.rounds, settings.n_test
    return f"{rounds:,} rounds, {rules} rules, {n_test:,} test instances."


def _range(counts: Iterable[int]) -> str:
    """The smallest to the largest, or the only one."""
    ordered = sorted(set(counts))
    return " to ".join(f"{count:,}" for count in ordered[:1] + ordered[1:][-1:])
