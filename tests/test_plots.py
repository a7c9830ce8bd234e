"""The plots: the figures of the summary stand on the axes, and nothing else changes."""

import subprocess
import sys
import warnings
from functools import cache

import matplotlib
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import outrule
from outrule import (
    ArgumentError,
    BestAction,
    DataError,
    DecisionCalibrator,
    Fixed,
    Instances,
    plots,
)
from outrule.reporting.summary import summarise

matplotlib.use("agg")

ALL = [
    plots.values,
    plots.forest,
    plots.violations,
    plots.predicted_vs_realised,
    plots.rounds,
    plots.ledger,
]
LIMITED = [plots.forest, plots.violations, plots.ledger]


trained = cache(outrule.worlds.brief_predictor)


def make(rules, epsilon):
    world = outrule.worlds.Quadratic(4, seed=0)
    predictor = trained(world)
    training, held_out = (outrule.worlds.draw(world, predictor, 500, seed=seed) for seed in (1, 2))
    calibrator = DecisionCalibrator(BestAction(), rules, epsilon).fit(*training)
    return summarise(calibrator, Instances.from_arrays(*held_out))


@pytest.fixture(scope="module")
def summary():
    return make([Fixed(0, "costs $1 or $2"), *outrule.multipliers(4, limit=20)], 0.02)


@pytest.fixture
def ax():
    return Figure(figsize=(6, 4)).add_subplot()


def names(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def marks(ax):
    """The places of single marks, from left to right in every row, row by row."""
    return [
        (float(line.get_xdata()[0]), float(line.get_ydata()[0]))
        for line in ax.get_lines()
        if len(line.get_xdata()) == 1
    ]


@pytest.mark.parametrize("plot", ALL)
def test_a_plot_draws_on_the_axes_it_is_given_and_returns_them(plot, summary, ax):
    assert plot(summary, ax) is ax
    assert ax.get_xlabel()
    ax.figure.canvas.draw()


@pytest.mark.parametrize("plot", ALL)
def test_a_plot_makes_axes_where_it_is_given_none(plot, summary):
    from matplotlib import pyplot

    made = plot(summary)
    assert isinstance(made, Axes)
    made.figure.canvas.draw()
    pyplot.close(made.figure)


@pytest.mark.parametrize("plot", ALL)
def test_a_plot_changes_no_setting_of_matplotlib(plot, summary, ax):
    before = dict(matplotlib.rcParams)
    plot(summary, ax)
    assert dict(matplotlib.rcParams) == before


def test_values_have_their_marks(summary, ax):
    plots.values(summary, ax)
    expected = [(row["mean"], float(place)) for place, row in enumerate(summary["values"])]
    assert marks(ax) == expected
    assert names(ax) == [row["label"] for row in summary["values"]]


def test_the_forest_has_the_closest_rules_first(summary, ax):
    plots.forest(summary, ax, limit=5)
    means = sorted(row["difference"]["mean"] for row in summary["rules"])[:5]
    assert [x for x, _ in marks(ax)] == means
    assert "the closest 5 of 21" in ax.get_xlabel()


def test_the_forest_tells_verdicts_apart_by_shape_and_fill(summary, ax):
    rules = [
        row | {"verdict": word}
        for row, word in zip(summary["rules"], ("pass", "inconclusive", "fail"), strict=False)
    ]
    plots.forest(summary | {"rules": rules}, ax)
    looks = {
        (line.get_marker(), str(line.get_markerfacecolor()))
        for line in ax.get_lines()
        if len(line.get_xdata()) == 1
    }
    assert len(looks) == 3


def test_violations_are_drawn_before_and_after(summary, ax):
    plots.violations(summary, ax, limit=4)
    rows = sorted(summary["violations"], key=lambda row: -abs(row["before"]["mean"]))[:4]
    expected = [row[when]["mean"] for row in rows for when in ("before", "after")]
    assert [x for x, _ in marks(ax)] == expected


def test_predicted_and_realised_are_two_pairs(summary, ax):
    plots.predicted_vs_realised(summary, ax)
    rows = summary["promises"]
    expected = [rows[when][what] for when in rows for what in ("predicted", "realised")]
    assert [x for x, _ in marks(ax)] == expected


def test_rounds_are_lines_on_two_scales(summary, ax):
    plots.rounds(summary, ax)
    (line,) = ax.get_lines()
    np.testing.assert_array_equal(
        line.get_ydata(), [row["squared_error"] for row in summary["rounds"]]
    )
    (other,) = (each for each in ax.figure.axes if each is not ax)
    found = [abs(row["violation"]) for row in summary["rounds"]]
    np.testing.assert_array_equal(other.get_lines()[0].get_ydata(), found)


def test_the_ledger_has_a_bar_for_every_test(summary, ax):
    plots.ledger(summary, ax)
    widths = [bar.get_width() for bar in ax.patches]
    assert widths == [row["fall"] for row in summary["ledger"]["tests"]]


def test_a_dollar_sign_in_a_name_is_no_formula(summary, ax):
    plots.forest(summary, ax)
    assert r"costs \$1 or \$2" in names(ax)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ax.figure.canvas.draw()


def test_a_long_name_is_shortened(summary, ax):
    rows = [summary["rules"][0] | {"name": "x" * 100}]
    plots.forest(summary | {"rules": rows}, ax)
    assert names(ax) == ["x" * 39 + "…"]


@pytest.fixture(scope="module")
def without_patches():
    return make([Fixed(0)], 1.0)


@pytest.mark.parametrize("plot", ALL)
def test_a_model_without_patches_can_be_drawn(plot, ax, without_patches):
    plot(without_patches, ax)
    ax.figure.canvas.draw()


@pytest.mark.parametrize("plot", ALL)
def test_what_is_no_summary_is_refused(plot, ax):
    with pytest.raises(DataError, match="not a summary"):
        plot({}, ax)


@pytest.mark.parametrize("plot", LIMITED)
def test_a_limit_below_one_is_refused(plot, summary, ax):
    with pytest.raises(ArgumentError, match=r"'limit' argument of .* must be an int of at least 1"):
        plot(summary, ax, limit=0)


WITHOUT_MATPLOTLIB = """
import sys

sys.modules["matplotlib"] = None
import outrule

training, held_out = (outrule.worlds.two_arms(500, seed) for seed in (0, 1))
calibrator = outrule.DecisionCalibrator(outrule.BestAction(), [outrule.Fixed(1)]).fit(*training)
outrule.certify(calibrator, *held_out)
summary = outrule.summarise(calibrator, outrule.Instances.from_arrays(*held_out))
assert outrule.report(summary).startswith("<!doctype html>")
for use in (
    lambda: outrule.plots.values(summary),
    lambda: outrule.plots.rounds(summary),
):
    try:
        use()
    except outrule.ArgumentError as error:
        print(error)
"""


def test_only_plots_need_matplotlib_and_they_say_how_to_install_it():
    run = [sys.executable, "-c", WITHOUT_MATPLOTLIB]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    message = "Plots need matplotlib, which is not installed. Run: pip install 'outrule[plots]'"
    assert done.stdout.splitlines() == 2 * [message]


@pytest.mark.parametrize("plot", [plots.values, plots.predicted_vs_realised])
def test_axes_of_values_show_zero_and_their_unit(plot, summary, ax):
    value = {"name": "sales", "unit": "$", "observation": None}
    named = summary | {"verdict": summary["verdict"] | {"value": value}}
    left, right = plot(named, ax).get_xlim()
    assert left == 0
    marks = max(float(max(line.get_xdata())) for line in ax.get_lines())
    assert right - marks > 0.015 * right  # no mark is cut at the edge
    assert ax.get_xlabel() == r"sales, \$ per instance"


def test_the_squared_error_starts_at_zero(summary, ax):
    assert plots.rounds(summary, ax).get_ylim()[0] == 0
