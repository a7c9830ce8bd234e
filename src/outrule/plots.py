"""Plots of a summary with matplotlib, which comes with ``pip install 'outrule[plots]'``.

Every function draws on the axes it is given, or on new ones, and returns them; nothing is shown and
no setting of matplotlib is changed. Marks differ by shape and fill as well as by colour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from outrule.errors import ArgumentError, check_number
from outrule.reporting.markup import value_title
from outrule.reporting.summary import check_summary

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

OURS, OTHER, SOFT = "#0072B2", "#222222", "#8A8A8A"  # a blue and greys that also differ in grey
OPTIMISER = "the optimiser's own choices"
DOTS = 60  # rounds up to which every one has a mark
LONGEST = 40  # characters of a label

Summary = Mapping[str, Any]
Rows = Sequence[Mapping[str, Any]]


def require_matplotlib() -> None:
    """Raise ArgumentError, naming the command to run, if matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        raise ArgumentError(
            "Plots need matplotlib, which is not installed. Run: pip install 'outrule[plots]'"
        )


def values(summary: Summary, ax: Axes | None = None) -> Axes:
    """The value of plain optimiser, best rule, isotonic, calibrated and oracle, with intervals.

    Parameters
    ----------
    summary : what ``outrule.summarise`` returned
    ax : matplotlib axes, optional

    Examples
    --------
    >>> import matplotlib, outrule
    >>> matplotlib.use("agg")
    >>> calibrator = outrule.DecisionCalibrator(outrule.BestAction(), [outrule.Fixed(1)])
    >>> calibrator = calibrator.fit(*outrule.worlds.two_arms(1_000, seed=0))
    >>> held_out = outrule.Instances.from_arrays(*outrule.worlds.two_arms(1_000, seed=1))
    >>> values(outrule.summarise(calibrator, held_out)).get_xlabel()
    'value per instance'
    """
    rows = check_summary(summary, "values")["values"]
    ax = _axes(ax, len(rows))
    for place, row in enumerate(rows):
        ours = row["name"] == "calibrated"
        _interval(ax, place, row, OURS if ours else OTHER, "D" if ours else "o")
    _name_rows(ax, [row["label"] for row in rows])
    _from_zero(ax, value_title(summary))
    return ax


def forest(summary: Summary, ax: Axes | None = None, limit: int = 50) -> Axes:
    """The calibrated optimiser minus each of the closest `limit` rules, with intervals.

    Filled: at least as good, minus at most the margin. Hollow: too little data to tell. Square: the
    rule is better.
    """
    summary = check_summary(summary, "forest")
    every = sorted(summary["rules"], key=lambda row: row["difference"]["mean"])
    rows, note = _first(every, limit, "forest", "closest")
    ax = _axes(ax, len(rows))
    marks = {"pass": ("o", True), "inconclusive": ("o", False), "fail": ("s", True)}
    for place, row in enumerate(rows):
        marker, filled = marks[row["verdict"]]
        _interval(ax, place, row["difference"], OTHER, marker, filled=filled)
    _line(ax, 0.0)
    _line(ax, -summary["verdict"]["margin"], "margin")
    _name_rows(ax, [row["name"] for row in rows])
    ax.set_xlabel(_literal(f"calibrated optimiser minus rule, {value_title(summary)}{note}"))
    _legend_above(ax)
    return ax


def violations(summary: Summary, ax: Axes | None = None, limit: int = 50) -> Axes:
    """The largest `limit` violations before (hollow) and after (filled), with intervals."""
    summary = check_summary(summary, "violations")
    every = sorted(summary["violations"], key=lambda row: -abs(row["before"]["mean"]))
    rows, note = _first(every, limit, "violations", "largest")
    ax = _axes(ax, len(rows))
    for place, row in enumerate(rows):
        before, after = ("before", "after") if place == 0 else ("", "")
        _interval(ax, place - 0.15, row["before"], SOFT, "o", filled=False, label=before)
        _interval(ax, place + 0.15, row["after"], OURS, "D", label=after)
    tolerance = summary["model"]["tolerance"]
    _line(ax, 0.0)
    _line(ax, -tolerance, "tolerance")
    _line(ax, tolerance, "tolerance", named=False)
    _name_rows(ax, [_test(row) for row in rows])
    ax.set_xlabel(f"outcome minus prediction on the chosen items{note}")
    _legend_above(ax)
    return ax


def predicted_vs_realised(summary: Summary, ax: Axes | None = None) -> Axes:
    """What the optimiser's choices were predicted to be worth (hollow), and were worth (filled)."""
    rows = check_summary(summary, "predicted_vs_realised")["promises"]
    ax = _axes(ax, len(rows))
    for place, (when, row) in enumerate(rows.items()):
        colour = OURS if when == "after" else OTHER
        ends = [row["predicted"], row["realised"]]
        ax.plot(ends, [place, place], color=colour, linewidth=2, alpha=0.4, zorder=1)
        labels = ("predicted", "realised") if place == 0 else ("", "")
        for x, filled, label in zip(ends, (False, True), labels, strict=True):
            _mark(ax, x, place, colour, "o", filled=filled, label=label)
    _name_rows(ax, [f"{when} calibration" for when in rows])
    _from_zero(ax, value_title(summary))
    _legend_above(ax)
    return ax


def rounds(summary: Summary, ax: Axes | None = None) -> Axes:
    """Squared error (solid, left) and violation (dotted, right) by round of training.

    Returns the axes of the squared error; those of the violation are their twin.
    """
    summary = check_summary(summary, "rounds")
    rows = summary["rounds"]
    ax = _axes(ax, 8)
    from matplotlib.ticker import MaxNLocator  # optional; the axes are there, so it is installed

    other = ax.twinx()
    numbers, dots = [row["round"] for row in rows], len(rows) <= DOTS
    errors = [row["squared_error"] for row in rows]
    found = [abs(row["violation"]) for row in rows]
    ax.plot(numbers, errors, "o-" if dots else "-", color=OURS, markersize=4, label="squared error")
    style: dict[str, Any] = {"color": OTHER, "markersize": 4, "markerfacecolor": "white"}
    other.plot(numbers, found, "s:" if dots else ":", label="violation", **style)
    limit = summary["model"]["threshold"]
    other.axhline(limit, color=SOFT, linewidth=1, linestyle="--", zorder=0, label="threshold")
    for axes in (ax, other):
        axes.set_ylim(bottom=0)
    ax.set(xlabel="round of training", ylabel="squared error")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    other.set_ylabel("absolute violation")
    _legend_above(ax, [*ax.get_lines(), *other.get_lines()])
    return ax


def ledger(summary: Summary, ax: Axes | None = None, limit: int = 50) -> Axes:
    """How far the patches of each test lowered the squared error in training, largest first."""
    every = check_summary(summary, "ledger")["ledger"]["tests"]
    rows, note = _first(every, limit, "ledger", "first")
    ax = _axes(ax, len(rows))
    bars = ax.barh(range(len(rows)), [row["fall"] or 0.0 for row in rows], height=0.6, color=OURS)
    ax.bar_label(bars, [f"{row['n_patches']:,}" for row in rows], padding=3, fontsize="small")
    _name_rows(ax, [_test(row) for row in rows])
    ax.set_xlabel(f"decrease of squared error in training (and number of patches){note}")
    return ax


def _first(every: Rows, limit: int, owner: str, word: str) -> tuple[Rows, str]:
    """The first rows, and a note if there are more."""
    most = int(check_number(limit, "limit", owner, 1, low_open=False, integer=True))
    return every[:most], f", the {word} {most} of {len(every):,}" if len(every) > most else ""


def _axes(ax: Axes | None, n_rows: int) -> Axes:
    """The axes that were given, or new ones as high as so many rows need."""
    if ax is not None:
        return ax
    require_matplotlib()
    from matplotlib import pyplot  # optional

    _, made = pyplot.subplots(figsize=(8.0, 1.4 + 0.3 * max(n_rows, 2)), layout="constrained")
    return made


def _mark(
    ax: Axes, x: float, y: float, colour: str, marker: str, *, filled: bool, label: str
) -> None:
    face = colour if filled else "white"
    style: dict[str, Any] = {"linestyle": "none", "markersize": 6, "markerfacecolor": face}
    ax.plot([x], [y], marker=marker, color=colour, label=label, **style)


def _interval(
    ax: Axes,
    place: float,
    row: Mapping[str, float],
    colour: str,
    marker: str,
    *,
    filled: bool = True,
    label: str = "",
) -> None:
    """A mean with its bounds, in one row."""
    ax.hlines(place, row["lower"], row["upper"], color=colour, linewidth=1.5, zorder=1)
    _mark(ax, row["mean"], place, colour, marker, filled=filled, label=label)


def _line(ax: Axes, x: float, name: str = "", *, named: bool = True) -> None:
    """A vertical line: solid, or dashed if it has a name."""
    style, label = "--" if name else "-", name if named else ""
    ax.axvline(x, color=SOFT, linewidth=1, linestyle=style, zorder=0, label=label)


def _from_zero(ax: Axes, name: str) -> None:
    """An axis of values with its title; it shows zero, so that lengths are in proportion."""
    low, high = min(ax.get_xlim()[0], 0.0), max(ax.get_xlim()[1], 0.0)
    room = 0.02 * (high - low)  # no mark is cut at the edge
    ax.set_xlim(low - room * (low < 0), high + room * (high > 0))
    ax.set_xlabel(_literal(name))


def _literal(words: str) -> str:
    """A dollar sign does not start a formula."""
    return words.replace("$", r"\$")


def _legend_above(ax: Axes, lines: Sequence[Artist] | None = None) -> None:
    """A legend where it hides nothing."""
    drawn = ax.get_legend_handles_labels()[0] if lines is None else list(lines)
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0)}
    ax.legend(handles=drawn, frameon=False, ncols=max(len(drawn), 1), **place)


def _name_rows(ax: Axes, names: Sequence[str]) -> None:
    """Names from top to bottom, as they are."""
    short = [name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…" for name in names]
    ax.set_yticks(range(len(names)))
    ax.set_yticklabels([_literal(name) for name in short])
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)


def _test(row: Mapping[str, Any]) -> str:
    name = str(row["test"])
    return OPTIMISER + name.removeprefix("optimiser") if row["kind"] == "optimiser" else name
