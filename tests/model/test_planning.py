"""`outrule plan`: measured costs times sizes, and what the theory asks for."""

import json
from pathlib import Path

import pytest

import outrule
from outrule import theory
from outrule.model.costs import COSTS
from outrule.model.planning import MESSAGE, instances_needed, plan
from test_cli import run

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "scale.json"


def test_costs_are_those_of_the_committed_benchmark():
    result = json.loads(RESULTS.read_text())
    large, items = result["runs"][-1], result["items"]
    rows = large["instances"] * items
    sampled = min(large["instances"], result["sample"]) * items
    expected = {
        "read": large["survey"] / rows,
        "start": large["start"] / sampled,
        "decide": large["decide_per_row_and_rule"],
        "round": large["loop"] / large["rounds"] / rows,
        "predict": large["predict_per_row"],
    }
    for name, cost in expected.items():
        assert COSTS[name] == float(f"{cost:.2g}"), name
    kills = json.loads(RESULTS.with_name("kills.json").read_text())
    assert float(f"{kills['overhead_ms'] / 1000:.1g}") == MESSAGE


def test_a_fit_costs_what_its_phases_cost():
    one = plan(10**6, items=8, rules=50, k=3, sample=10**5)
    assert one.rows == 8 * 10**6
    assert one.start == pytest.approx(COSTS["start"] * 8 * 10**5)
    assert one.decide == pytest.approx((COSTS["build"] + 50 * COSTS["decide"]) * one.rows)
    assert one.disk == 24 * one.rows + (40 + 150) * 10**6
    assert one.fit(7) == pytest.approx(one.read + one.start + one.decide + 7 * one.round)
    with pytest.raises(outrule.ArgumentError, match="'items' argument of plan"):
        plan(10, items=0, rules=1)


def test_the_theory_is_that_of_one_look():
    found = instances_needed(k=5, epsilon=0.02, rules=100)
    given = {"k": 5, "tolerance": 0.01, "n_tests": 103, "rounds": 1, "delta": 0.05}
    assert found == theory.batch_size(**given)
    with pytest.raises(outrule.ArgumentError, match="'epsilon' argument of plan"):
        instances_needed(k=1, epsilon=2.0, rules=1)


def test_the_command_projects_and_says_what_a_fit_needs():
    result = run("plan", "--instances", 20_000_000, "--items", 10, "--rules", 100)
    assert result.exit_code == 0, result.stderr
    assert "2,663,555 instances are enough" in result.stdout
    assert "7.5 times as many" in result.stdout
    assert "rarely for fit" in result.stdout
    for size in ("10,000,000", "20,000,000", "100,000,000", "1,000,000,000"):
        assert f" {size} " in result.stdout
    assert "380 GB" in result.stdout
    few = run("plan", "--instances", 1_000, "--items", 10, "--rules", 100, "--epsilon", 0.5)
    assert "times as many" not in few.stdout
    assert (
        "You have fewer, so less can be guaranteed."
        in run("plan", "--instances", 10, "--items", 10, "--rules", 100).stdout
    )
    bad = run("plan", "--instances", 10, "--items", 10, "--rules", 1, "--k", 11)
    assert "--k must be at most 10, the number of items" in bad.stderr
    bad = run("plan", "--instances", 10, "--items", 10, "--rules", 1, "--epsilon", 7)
    assert bad.exit_code == 2
    assert "--epsilon must be a number" in bad.stderr


def test_workers_share_decisions_and_rounds_and_the_driver_reads():
    here, some, many = (plan(10**8, items=10, rules=100, workers=w) for w in (None, 4, 1000))
    assert some.decide == pytest.approx(here.decide / 2)
    assert some.round == pytest.approx(here.round / 2 + MESSAGE)
    assert (many.read, many.start, many.decide) == (here.read, here.start, here.read)
    result = run("plan", "--instances", 10**8, "--items", 10, "--rules", 100, "--workers", 4)
    assert "4 workers, as in the table: decide and a round take 2/4 of the time" in result.stdout
