"""Figures: which are drawn, what their lines and axes show, and that they are the same twice."""

from functools import cache

import made_up
import matplotlib
import numpy as np
import polars as pl
import pytest
from matplotlib.text import Text

from outrule.evaluation import figures, panels
from outrule.evaluation.grid import FULL

BOTH = [
    "gap-best-action",
    "gap-matching",
    "value-best-action",
    "value-matching",
    "squared-error",
    "error-best-action",
    "error-matching",
]
ALL = ["equal-samples", "steps"]
SMALL = {"items": (4,), "regimes": ("brief",)}


@cache
def planned(**changes):
    return {one.name: one for one in figures.plan_all(made_up.results(**changes))}


def state():
    """Without the backend, which is looked for when it is read."""
    return {name: matplotlib.rcParams[name] for name in matplotlib.rcParams if name != "backend"}


def of(panel, label):
    """The line of this label."""
    return next(table for look, table in panel.lines if look.label == label)


def sheet_of(figure):
    """A painted figure, laid out."""
    with matplotlib.style.context(["default", panels.STYLE]):
        sheet = panels.paint(figure.panels)
        sheet.draw_without_rendering()
    return sheet


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures")
    return folder, figures.draw(made_up.results(**SMALL, problems=("matching",)), folder)


def test_every_figure_is_two_files_and_nothing_else_remains(drawn):
    folder, found = drawn
    names = [f"{name}-brief" for name in BOTH + ALL if "best-action" not in name]
    assert [one.name for one in found] == names
    files = {path.name for path in folder.iterdir()}
    assert files == {f"{name}.{kind}" for name in names for kind in ("png", "svg")}
    for one in found:
        assert (folder / f"{one.name}.png").read_bytes().startswith(b"\x89PNG")
        svg = (folder / f"{one.name}.svg").read_text(encoding="utf-8")
        assert svg.rstrip().endswith("</svg>")


def test_the_same_results_give_the_same_bytes_whatever_the_style(drawn, tmp_path):
    folder, _ = drawn
    few = {"problems": ("matching",), "other_batches": (1,), "equal_epsilons": (1 / 2,)}
    with matplotlib.rc_context({"font.size": 20, "lines.linewidth": 5, "axes.facecolor": "red"}):
        before = state()
        figures.draw(made_up.results(**SMALL, **few), tmp_path)
        assert state() == before
    for name in ("gap-matching-brief", "error-matching-brief"):
        for kind in ("png", "svg"):
            again = (tmp_path / f"{name}.{kind}").read_bytes()
            assert again == (folder / f"{name}.{kind}").read_bytes()


def test_each_regime_has_its_figures():
    assert list(planned()) == [
        f"{name}-{regime}" for regime in ("brief", "converged") for name in BOTH + ALL
    ]


def test_problems_without_results_are_skipped():
    names = list(planned(problems=("rejection", "graphic"), regimes=("converged",)))
    assert names == [f"{name}-converged" for name in ("gap-other", *ALL)]
    assert "steps-brief" not in planned(other_batches=(512,))
    assert "equal-samples-brief" not in planned(equal_epsilons=(1 / 2,))
    assert not [name for name in planned(rounds=4) if name.startswith("error")]


def test_there_is_a_panel_for_each_number_of_items():
    panels = planned(items=(16, 4))["gap-best-action-brief"].panels
    assert [panel.setting for panel in panels] == [("best-action", 4), ("best-action", 16)]


def test_lines_are_the_means_of_the_table():
    results = made_up.results()
    (panel,) = planned()["gap-matching-converged"].panels
    assert [look.label for look, _ in panel.lines] == ["1/4", "1/16", "1/64"]
    runs = results.runs.filter(
        problem="matching", regime="converged", check="fresh batches", step="fixed", epsilon=1 / 16
    )
    axes = sheet_of(planned()["gap-matching-converged"]).axes[0]
    shown = {line.get_label(): line.get_ydata() for line in axes.get_lines()}["1/16"]
    for size, value in zip(results.grid.batch_sizes, shown, strict=True):
        gaps = runs.filter(batch_size=size)["gap"]
        assert len(gaps) == 2
        assert value == pytest.approx(gaps.mean(), rel=1e-12)


def test_bars_are_the_range_over_seeds_or_one_standard_error():
    (panel,) = planned()["gap-matching-brief"].panels
    line = of(panel, "1/16")
    gaps = made_up.results().runs.filter(
        problem="matching", regime="brief", check="fresh batches", step="fixed", epsilon=1 / 16
    )
    at_16 = gaps.filter(batch_size=16)["gap"]
    assert line.row(0)[2:] == (at_16.min(), at_16.max())
    alone = planned(seeds=(1,))["gap-matching-brief"]
    line = of(alone.panels[0], "1/16")
    error = gaps["gap_error"][0]
    assert line["mean"].to_list() == gaps.filter(seed=1).sort("batch_size")["gap"].to_list()
    assert np.allclose(line["high"] - line["mean"], error)
    assert np.allclose(line["mean"] - line["low"], error)
    assert "One world; bars are one standard error" in alone.caption


def test_the_right_axis_is_a_constant_apart():
    results, figure = made_up.results(), planned()["gap-best-action-brief"]
    for axes, panel in zip(sheet_of(figure).axes, figure.panels, strict=True):
        problem, n_items = panel.setting
        world = {"problem": problem, "n_items": n_items, "regime": "brief"}
        runs = results.runs.filter(check="fresh batches", step="fixed", **world)
        constant = (runs["improvement"] - runs["gap"]).mean()
        (right,) = axes.child_axes
        assert np.subtract(right.get_ylim(), axes.get_ylim()) == pytest.approx([constant] * 2)
        assert panel.shift == pytest.approx(constant)


def test_batch_sizes_are_powers_of_two_on_the_axis():
    changes = {"problems": ("matching",), "batch_sizes": FULL.batch_sizes, "regimes": ("brief",)}
    axes = sheet_of(planned(**changes)["gap-matching-brief"]).axes[0]
    low, high = axes.get_xlim()
    ticks = [tick for tick in axes.get_xticks() if low <= tick <= high]
    assert ticks == list(FULL.batch_sizes)
    texts = [label.get_text() for label in axes.get_xticklabels()]
    assert any("2^{10}" in text for text in texts)


def test_the_error_starts_before_the_first_round():
    results = made_up.results()
    first, last = planned()["error-matching-brief"], results.trace["round"].max()
    line = of(first.panels[0], "1/4")
    units = results.units.filter(problem="matching", regime="brief", seed=0)
    trace = results.trace.filter(
        problem="matching", regime="brief", seed=0, step="fixed", epsilon=1 / 4, batch_size=256
    )
    assert line["round"].to_list() == [0, *trace["round"]]
    assert line["mean"].to_list() == [*units["squared_error"], *trace["squared_error"]]
    assert line["round"][-1] == last
    assert "first world only" in first.caption


def test_the_error_of_best_action_is_the_mean_over_seeds():
    results, figure = made_up.results(), planned()["error-best-action-brief"]
    units = results.units.filter(problem="best-action", regime="brief", n_items=4)
    assert of(figure.panels[0], "1/64")["mean"][0] == pytest.approx(units["squared_error"].mean())
    assert "Means over 2 worlds" in figure.caption


def test_equal_samples_has_every_method_where_it_was_measured():
    figure = planned()["equal-samples-brief"]
    large, small = figure.panels[:2]
    assert [panel.also for panel in (large, small)] == [", ε = 1/4", ", ε = 1/16"]
    assert [look.label for look, _ in large.lines] == list(figures.METHODS)
    assert "private reuse" not in [look.label for look, _ in small.lines]
    assert "12 of 24 runs of private reuse are missing" in figure.caption
    lenient = planned(equal_epsilons=(1 / 4, 1 / 128))["equal-samples-brief"]
    assert [panel.also for panel in lenient.panels] == [", ε = 1/4"] * 3
    assert of(large, "reuse")["n_samples"].to_list() == [16 * 64, 64 * 64]
    assert of(large, "fresh batches")["n_samples"].to_list() == [16 * 64, 64 * 64, 256 * 64]


def test_steps_compares_the_same_worlds():
    results, figure = made_up.results(), planned()["steps-brief"]
    gap, patches = figure.panels[:2]
    assert [panel.y for panel in (gap, patches)] == ["gap", "n_patches"]
    world = {"problem": "best-action", "n_items": 4, "regime": "brief", "seed": 0}
    runs = results.runs.filter(check="fresh batches", batch_size=256, **world).sort("epsilon")
    both = runs.filter(pl.col("epsilon").is_in(results.grid.other_epsilons))
    for step in ("fixed", "line search", "alpha / 2"):
        line = of(patches, step)
        assert line["mean"].to_list() == both.filter(step=step)["n_patches"].to_list()
    assert "footnote" in [look.label for look, _ in figure.panels[-1].lines]


def test_value_and_squared_error_are_side_by_side_from_before_the_first_round():
    results, figure = made_up.results(), planned()["value-best-action-brief"]
    error, gap = figure.panels
    assert [panel.setting for panel in (error, gap)] == [("best-action", 16)] * 2
    world = {"problem": "best-action", "n_items": 16, "regime": "brief"}
    units = results.units.filter(**world)
    start = (units["plain"] - units["best_rule"]).mean()
    assert of(gap, "1/16")["mean"][0] == pytest.approx(start)
    assert of(error, "1/16")["mean"][0] == pytest.approx(units["squared_error"].mean())
    runs = results.runs.filter(**world, step="fixed", check="fresh batches", epsilon=1 / 16)
    end = runs.filter(batch_size=256)["gap"].mean()
    assert of(gap, "1/16")["mean"][-1] == pytest.approx(end)


def test_the_second_metric_is_the_change_of_the_squared_error():
    results = made_up.results()
    panel = planned()["squared-error-brief"].panels[0]
    world = {"problem": "best-action", "n_items": 4, "regime": "brief"}
    runs = results.runs.filter(**world, step="fixed", check="fresh batches", epsilon=1 / 4)
    before = results.units.filter(**world)["squared_error"].mean()
    after = runs.filter(batch_size=16)["squared_error"].mean()
    assert of(panel, "1/4")["mean"][0] == pytest.approx(after - before)


def test_captions_say_what_a_bar_is():
    drawn = planned(seeds=(3,))
    error = "One world; bars are one standard error over the test instances, up and down."
    assert error in drawn["gap-best-action-brief"].caption
    assert error in drawn["equal-samples-brief"].caption
    spans = "Means over 3 worlds; bars go from the smallest to the largest."
    assert spans in planned(seeds=(3, 1, 4))["gap-matching-brief"].caption
    assert "One world. " in drawn["error-best-action-brief"].caption
    assert "Means over 2 worlds, without bars. " in planned()["error-best-action-brief"].caption


def test_captions_say_how_much_was_run():
    for figure in planned(problems=("matching",)).values():
        assert "64 rounds, 64 rules, 1,000 test instances." in figure.caption
    results = made_up.results()
    few = pl.when(pl.col("problem") == "matching").then(8).otherwise("n_rules").alias("n_rules")
    mixed = made_up.Results(
        results.grid,
        results.provenance,
        results.units.with_columns(few),
        results.runs,
        results.trace,
    )
    captions = {one.name: one.caption for one in figures.plan_all(mixed)}
    assert "8 to 64 rules" in captions["equal-samples-brief"]


@pytest.mark.parametrize("name", ["gap-matching-brief", "gap-best-action-brief", "steps-brief"])
def test_nothing_is_clipped_or_too_small_to_read(name):
    changes = {**SMALL, "items": (4, 16), "epsilons": FULL.epsilons, "seeds": (0,)}
    sheet = sheet_of(planned(**changes)[name])
    (legend,) = sheet.legends
    inside = sheet.bbox.padded(1)
    for box in (legend.get_window_extent(), *(axes.get_tightbbox() for axes in sheet.axes)):
        assert inside.contains(box.x0, box.y0)
        assert inside.contains(box.x1, box.y1)
    texts = sheet.findobj(lambda one: isinstance(one, Text) and one.get_text())
    assert min(text.get_fontsize() for text in texts) >= 8


def test_lines_differ_in_more_than_colour_and_in_grey():
    looks = [look for look, _ in planned()["equal-samples-brief"].panels[0].lines]
    assert len({look.marker for look in looks}) == len(looks)
    light = [np.dot(look.colour[:3], (0.299, 0.587, 0.114)) for look in looks]
    assert np.all(np.diff(light) > 0.05)
    assert max(light) < 0.8
