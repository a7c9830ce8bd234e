"""Plots: a summary enters, the pictures of the report leave on matplotlib's axes.

Every function draws on the axes it is given, or on new ones, and returns them; nothing is shown and
no setting of matplotlib is changed. Marks differ by shape and fill as well as by colour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from outrule.errors import check_number
from outrule.reporting.summary import check_summary

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

OURS, OTHER, SOFT = "#0072B2", "#222222", "#8A8A8A"  # a blue, and greys, apart in grey too
OPTIMISER = "the optimiser's own choices"
DOTS = 60  # rounds up to which every one has a mark
LONGEST = 40  # characters of a label

Summary = Mapping[str, Any]


def values(summary: Summary, ax: Axes | None = None) -> Axes:
    """The values of plain optimiser, best rule, isotonic, calibrated and oracle, with intervals.

    Parameters
    ----------
    summary : what :func:`outrule.summarise` returned
    ax : matplotlib axes, optional

    Examples
    --------
    >>> import matplotlib, outrule
    >>> matplotlib.use("agg")
    >>> calibrator = outrule.DecisionCalibrator(outrule.BestAction(), [outrule.Fixed(1)])
    >>> calibrator = calibrator.fit(*outrule.worlds.two_arms(1_000, seed=0))
    >>> held_out = outrule.Instances.from_arrays(*outrule.worlds.two_arms(1_000, seed=1))
    >>> from outrule.reporting.summary import summarise
    >>> values(summarise(calibrator, held_out)).get_xlabel()
    'value per held-out instance'
    """
    rows = check_summary(summary, "values")["values"]
    ax = _axes(ax, len(rows))
    for place, row in enumerate(rows):
        ours = row["name"] == "calibrated"
        _interval(ax, place, row, OURS if ours else OTHER, "D" if ours else "o")
    _name_rows(ax, [row["label"] for row in rows])
    ax.set_xlabel("value per held-out instance")
    return ax


def forest(summary: Summary, ax: Axes | None = None, limit: int = 50) -> Axes:
    """The difference of the calibrated optimiser to the closest rules, with intervals.

    Filled: at least as good, less the margin. Hollow: not settled. Square: the rule is better.

    Parameters
    ----------
    summary, ax : as in :func:`values`
    limit : int; how many rules at most
    """
    summary = check_summary(summary, "forest")
    most = int(check_number(limit, "limit", "forest", 1, low_open=False, integer=True))
    every = sorted(summary["rules"], key=lambda row: row["difference"]["mean"])
    rows, margin = every[:most], summary["verdict"]["margin"]
    ax = _axes(ax, len(rows))
    marks = {"pass": ("o", True), "inconclusive": ("o", False), "fail": ("s", True)}
    for place, row in enumerate(rows):
        marker, filled = marks[row["verdict"]]
        _interval(ax, place, row["difference"], OTHER, marker, filled=filled)
    ax.axvline(0.0, color=SOFT, linewidth=1, zorder=0)
    ax.axvline(-margin, color=SOFT, linewidth=1, linestyle="--", zorder=0, label="margin")
    _name_rows(ax, [row["name"] for row in rows])
    left_out = "" if len(rows) == len(every) else f", the closest {len(rows)} of {len(every):,}"
    ax.set_xlabel(f"calibrated optimiser less rule{left_out}")
    _legend_above(ax)
    return ax


def violations(summary: Summary, ax: Axes | None = None, limit: int = 50) -> Axes:
    """The largest violations before calibration (hollow) and after it (filled), with intervals.

    Parameters
    ----------
    summary, ax : as in :func:`values`
    limit : int; how many tests at most
    """
    summary = check_summary(summary, "violations")
    most = int(check_number(limit, "limit", "violations", 1, low_open=False, integer=True))
    every = sorted(summary["violations"], key=lambda row: -abs(row["before"]["mean"]))
    rows, tolerance = every[:most], summary["model"]["tolerance"]
    ax = _axes(ax, len(rows))
    for place, row in enumerate(rows):
        first = place == 0
        before = "before" if first else ""
        _interval(ax, place - 0.15, row["before"], SOFT, "o", filled=False, label=before)
        _interval(ax, place + 0.15, row["after"], OURS, "D", label="after" if first else "")
    ax.axvline(0.0, color=SOFT, linewidth=1, zorder=0)
    for sign in (-1, 1):
        ax.axvline(
            sign * tolerance,
            color=SOFT,
            linewidth=1,
            linestyle="--",
            zorder=0,
            label="tolerance" if sign > 0 else "",
        )
    _name_rows(ax, [_test(row) for row in rows])
    left_out = "" if len(rows) == len(every) else f", the largest {len(rows)} of {len(every):,}"
    ax.set_xlabel(f"outcome less prediction on what is chosen{left_out}")
    _legend_above(ax)
    return ax


def promises(summary: Summary, ax: Axes | None = None) -> Axes:
    """What the optimiser's choices were predicted to be worth (hollow), and were worth (filled)."""
    rows = check_summary(summary, "promises")["promises"]
    ax = _axes(ax, len(rows))
    for place, (when, row) in enumerate(rows.items()):
        colour = OURS if when == "after" else OTHER
        ends, first = [row["predicted"], row["realised"]], place == 0
        ax.plot(ends, [place, place], color=colour, linewidth=2, alpha=0.4, zorder=1)
        for x, face, label in ((ends[0], "white", "promised"), (ends[1], colour, "kept")):
            ax.plot(
                [x],
                [place],
                marker="o",
                linestyle="none",
                color=colour,
                markerfacecolor=face,
                label=label if first else "",
            )
    _name_rows(ax, [f"{when} calibration" for when in rows])
    ax.set_xlabel("value per held-out instance")
    _legend_above(ax)
    return ax


def rounds(summary: Summary, ax: Axes | None = None) -> Axes:
    """Squared error (solid, left) and violation (dotted, right) by round of training.

    The axes that are returned are those of the squared error; the violation's share their rounds.
    """
    from matplotlib.ticker import MaxNLocator

    summary = check_summary(summary, "rounds")
    rows, threshold = summary["rounds"], summary["model"]["threshold"]
    ax = _axes(ax, 8)
    numbers, few = [row["round"] for row in rows], len(rows) <= DOTS
    errors = [row["squared_error"] for row in rows]
    found = [abs(row["violation"]) for row in rows]
    other = ax.twinx()
    ax.plot(numbers, errors, "o-" if few else "-", color=OURS, markersize=4, label="squared error")
    (line,) = other.plot(
        numbers, found, "s:" if few else ":", color=OTHER, markersize=4, markerfacecolor="white"
    )
    line.set_label("violation")
    other.axhline(threshold, color=SOFT, linewidth=1, linestyle="--", zorder=0, label="threshold")
    other.set_ylim(bottom=0)
    ax.set(xlabel="round of training", ylabel="squared error")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    other.set_ylabel("violation, without its sign")
    _legend_above(ax, [*ax.get_lines(), *other.get_lines()])
    return ax


def ledger(summary: Summary, ax: Axes | None = None, limit: int = 50) -> Axes:
    """What the patches of each test took off the squared error in training, the most first.

    Parameters
    ----------
    summary, ax : as in :func:`values`
    limit : int; how many tests at most
    """
    every = check_summary(summary, "ledger")["ledger"]["tests"]
    most = int(check_number(limit, "limit", "ledger", 1, low_open=False, integer=True))
    rows = every[:most]
    ax = _axes(ax, len(rows))
    falls = [row["fall"] or 0.0 for row in rows]
    bars = ax.barh(range(len(rows)), falls, height=0.6, color=OURS)
    counts = [f"{row['n_patches']:,}" for row in rows]
    ax.bar_label(bars, counts, padding=3, fontsize="small")
    _name_rows(ax, [_test(row) for row in rows])
    left_out = "" if len(rows) == len(every) else f", the first {len(rows)} of {len(every):,}"
    ax.set_xlabel(f"fall of squared error in training (with the number of patches){left_out}")
    return ax


def _legend_above(ax: Axes, lines: Sequence[Artist] | None = None) -> None:
    """A legend where it hides nothing."""
    drawn = ax.get_legend_handles_labels()[0] if lines is None else list(lines)
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0)}
    ax.legend(handles=drawn, frameon=False, ncols=max(len(drawn), 1), **place)


def _axes(ax: Axes | None, n_rows: int) -> Axes:
    """The axes that were given, or new ones as high as so many rows need."""
    if ax is not None:
        return ax
    from matplotlib import pyplot

    _, made = pyplot.subplots(figsize=(8.0, 1.4 + 0.3 * max(n_rows, 2)), layout="constrained")
    return made


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
    ax.plot(
        [row["mean"]],
        [place],
        marker=marker,
        linestyle="none",
        color=colour,
        markerfacecolor=colour if filled else "white",
        markersize=6,
        label=label,
    )


def _name_rows(ax: Axes, names: Sequence[str]) -> None:
    """Names from top to bottom, as they are: a dollar sign in them is no formula."""
    short = [name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…" for name in names]
    ax.set_yticks(range(len(names)))
    ax.set_yticklabels([name.replace("$", r"\$") for name in short])
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)


def _test(row: Mapping[str, Any]) -> str:
    return OPTIMISER if row["kind"] == "optimiser" else str(row["test"])
