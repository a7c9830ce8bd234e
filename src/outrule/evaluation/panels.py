"""Drawing with matplotlib: panels of lines, readable in print and in grey, saved as PNG and SVG."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.style
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Sheet
from matplotlib.ticker import LogLocator

from outrule.evaluation.say import fraction
from outrule.files import whole_file

LABELS = {  # of axes and problems, where their names are not enough
    "n_samples": "number of samples",
    "epsilon": "ε",
    "gap": "utility gap",
    "n_patches": "patches",
    "squared_error": "squared error per entry",
    "change": "change of squared error",
    "partition": "partition matroid",
    "graphic": "graphic matroid",
}
MARKERS = "os^DvPX<>ph*d"
WIDTH, HEIGHT, LOW = 7.0, 2.6, 1.25  # inches: a printed page, a panel, and a panel among many
DODGE = 0.05  # octaves between the bars of two lines
STYLE = Path(__file__).with_name("panels.mplstyle")
Setting = tuple[str, int]  # problem, number of items


class LineStyle(NamedTuple):
    """How a line looks; no two lines differ by colour alone."""

    label: str
    colour: Any
    marker: str
    dashed: bool = False


class Panel(NamedTuple):
    """Lines over one pair of axes; a line has x, the mean of y, and its low and high end."""

    setting: Setting
    x: str
    y: str
    lines: list[tuple[LineStyle, pl.DataFrame]]
    also: str = ""  # the end of its title
    shift: float | None = None  # from gap to improvement


def label(name: str) -> str:
    """A column or a problem in words."""
    return LABELS.get(name, name.replace("_", " ").replace("-", " "))


def looks(labels: list[str]) -> list[LineStyle]:
    """Colours from dark to light, so that they differ in grey too, without the lightest."""
    colours, last = matplotlib.colormaps["viridis"], max(1, len(labels) - 1)
    return [
        LineStyle(one, colours(0.85 * i / last), MARKERS[i % len(MARKERS)])
        for i, one in enumerate(labels)
    ]


def save(panels: list[Panel], stem: Path, title: str) -> None:
    """Draw panels, and write them as ``stem.png`` and ``stem.svg``."""
    with matplotlib.style.context(["default", STYLE]):  # whatever the user's style is
        sheet = paint(panels)
        with whole_file(stem.with_name(f"{stem.name}.png")) as draft:
            sheet.savefig(draft, format="png", dpi=200, metadata={"Software": None})
        sheet.set_layout_engine("none")  # keep the layout that the PNG has
        with whole_file(stem.with_name(f"{stem.name}.svg")) as draft:
            sheet.savefig(draft, format="svg", metadata={"Date": None, "Title": title})


def paint(panels: list[Panel]) -> Sheet:
    """Lay panels out, two in a row; labels only where a row or a column ends."""
    n_columns = min(2, len(panels))
    n_rows = -(-len(panels) // n_columns)
    width = WIDTH if n_columns == 2 else 0.7 * WIDTH
    height = HEIGHT if len(panels) <= 4 else LOW
    sheet = Sheet(figsize=(width, height * n_rows + 0.7), layout="constrained")
    first: dict[tuple[Setting, str], Axes] = {}  # panels of a setting have the same scale
    for i, panel in enumerate(panels):
        key = (panel.setting, panel.y)
        axes = sheet.add_subplot(n_rows, n_columns, i + 1, sharey=first.get(key))
        first.setdefault(key, axes)
        _paint_panel(axes, panel)
        bottom = i + n_columns >= len(panels)
        axes.tick_params(labelbottom=bottom)
        if bottom:
            axes.set_xlabel(label(panel.x))
        if i % 2 == 0 or panel.y != panels[i - 1].y:
            axes.set_ylabel(label(panel.y))
        if panel.shift is not None:  # a second scale for the same lines
            to_and_from = (partial(np.add, panel.shift), partial(np.add, -panel.shift))
            right = axes.secondary_yaxis("right", functions=to_and_from)
            if i % 2 == 1 or i == len(panels) - 1:
                right.set_ylabel("utility improvement")
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
    problem, n_items = panel.setting
    axes.set_title(f"{label(problem).capitalize()}, m = {n_items}{panel.also}")


def _use_powers(axes: Axes, panel: Panel) -> None:
    axes.set_xscale("log", base=2)
    if panel.x == "epsilon":
        ticks = sorted({value for _, table in panel.lines for value in table["epsilon"]})
        axes.set_xticks(ticks, [fraction(value) for value in ticks])
    else:
        axes.xaxis.set_major_locator(LogLocator(base=2, numticks=12))
    axes.minorticks_off()


def _add_legend(sheet: Sheet, *, by_epsilon: bool) -> None:
    lines = [line for axes in sheet.axes for line in axes.get_lines()]
    shown = {str(line.get_label()): line for line in lines}
    handles = [line for name, line in shown.items() if not name.startswith("_")]
    wide = by_epsilon and len(sheet.axes) > 1 and len(handles) <= 7
    n_columns = len(handles) if wide else -(-len(handles) // 2)
    title = "ε with tolerance ε/2; read with tolerance ε, half of it" if by_epsilon else None
    sheet.legend(handles=handles, loc="outside lower center", ncols=n_columns, title=title)
