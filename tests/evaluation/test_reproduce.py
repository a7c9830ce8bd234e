"""The whole evaluation, quick: exact numbers for a fixed seed, and runs that were interrupted."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

import outrule
from outrule.cli import app
from outrule.evaluation import stream
from outrule.evaluation.grid import QUICK
from outrule.evaluation.reproduce import draw, evaluate
from outrule.evaluation.results import read_results

GOLDEN = Path(__file__).with_name("quick.json")
FIRST = replace(  # a part of the quick grid: worlds do not depend on each other
    QUICK, problems=("best-action", "matching", "rejection"), regimes=("brief",), seeds=(0,)
)
FEW = replace(FIRST, problems=("best-action", "rejection"), items=(4,))  # trained in a second
SMALL = replace(
    QUICK,
    seeds=(0,),
    problems=("best-action", "rejection"),
    items=(3,),
    regimes=("converged",),
    epsilons=(1 / 4, 1 / 32),
    batch_sizes=(8, 16),
    rounds=24,
    n_rules=12,
    n_test=100,
    equal_batches=(8,),
    equal_epsilons=(1 / 4,),
)


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """``outrule reproduce`` as a user runs it, on a part of the quick grid."""
    folder = tmp_path_factory.mktemp("command")
    options = "--quick --problem best-action --items 4 --regime brief --rounds 16 -o"
    arguments = [sys.executable, "-m", "outrule", "reproduce", *options.split(), str(folder)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # no progress bar in a pipe
    return folder, done.stdout


def digest(results):
    """What must not change, in the first worlds: counts exactly, measures to six digits."""
    keep = (
        pl.col("problem").is_in(FIRST.problems),
        pl.col("regime") == "brief",
        pl.col("seed") == 0,
    )
    tables = ("units", "runs", "trace")
    results = replace(results, **{name: getattr(results, name).filter(*keep) for name in tables})
    runs = results.runs.drop("seed").with_columns(pl.col(pl.Float64).round(6))
    return {
        "units": results.units.drop("seconds").with_columns(pl.col(pl.Float64).round(6)).rows(),
        "runs": runs.rows(),
        "trace": results.trace.group_by("problem", "n_items", "regime", maintain_order=True)
        .agg(pl.len(), pl.col("value").mean().round(6), pl.col("squared_error").mean().round(6))
        .rows(),
    }


@pytest.mark.parametrize(
    "grid", [pytest.param(FIRST, marks=pytest.mark.slow), FEW], ids=["first", "few"]
)
def test_the_numbers_of_the_quick_run_are_the_committed_ones(grid, tmp_path):
    found = json.loads(json.dumps(digest(evaluate(grid, tmp_path))))
    expected = json.loads(GOLDEN.read_text(encoding="utf-8"))
    worlds = {(unit.problem, unit.n_items) for unit in grid.units()}
    for table, every in expected.items():
        rows = [row for row in every if (row[0], row[1]) in worlds]
        assert {(row[0], row[1]) for row in rows} == worlds
        assert len(found[table]) == len(rows)
        for row, other in zip(found[table], rows, strict=True):
            assert row == pytest.approx(other, abs=2e-6)


def test_the_command_runs_its_options_and_writes_everything(command):
    folder, words = command
    changes = {"problems": ("best-action",), "items": (4,), "regimes": ("brief",), "rounds": 16}
    results = read_results(folder)
    assert results.grid == replace(QUICK, **changes)
    tables = ("units.parquet", "runs.parquet", "trace.parquet", "results.json")
    names = ("gap-best-action", "value-best-action", "squared-error", "error-best-action")
    figures = (*names, "equal-samples", "steps")
    drawn = [f"{name}-brief.{kind}" for name in figures for kind in ("svg", "png")]
    written = {path.name for path in folder.iterdir()}
    assert written == {*tables, *drawn, "claims.md", "index.html", "parts"}
    assert len(words.splitlines()) == 26 + 1
    assert words.count("measured  ") == 8
    assert f"{folder}/index.html" in words
    assert not list(folder.rglob(".*"))
    assert results.provenance["versions"]["outrule"] == outrule.__version__
    assert results.provenance["seconds"] > 0
    assert results.provenance["threads"] >= 1


def test_drawing_again_needs_the_tables_only(command, tmp_path):
    for name in ("units.parquet", "runs.parquet", "trace.parquet", "results.json"):
        (tmp_path / name).write_bytes((command[0] / name).read_bytes())
    draw(read_results(tmp_path), tmp_path)
    for path in (path for path in command[0].iterdir() if path.name != "parts"):
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


class Killed(BaseException):
    """As a kill, in the same process."""


def same(one, other):
    assert_frame_equal(one.units.drop("seconds"), other.units.drop("seconds"))
    assert_frame_equal(one.runs, other.runs)
    assert_frame_equal(one.trace, other.trace)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The folder of a small run, and its results."""
    folder = tmp_path_factory.mktemp("small")
    return folder, evaluate(SMALL, folder, n_jobs=1)


def test_an_interrupted_run_goes_on_where_it_stopped(small, tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "CHUNK", 8)
    told = []
    for after in (2, 3, 5):
        calls = []

        def tell(words, share, calls=calls, after=after):
            calls.append((words, share))
            if len(calls) == after:
                raise Killed

        with pytest.raises(Killed):
            evaluate(SMALL, tmp_path / "part", tell=tell)
        told.append(calls)
    again = evaluate(SMALL, tmp_path / "part")
    same(small[1], again)
    shares = [calls[-1][1] for calls in told]
    assert shares == sorted(shares)
    assert shares[0] < shares[-1]


def test_a_finished_run_is_not_run_again(small, monkeypatch):
    folder, first = small

    def never(*_):
        raise AssertionError("a finished unit was run again")

    monkeypatch.setattr("outrule.evaluation.reproduce.run_unit", never)
    same(first, evaluate(SMALL, folder))


def test_threads_change_nothing(small, tmp_path):
    same(small[1], evaluate(SMALL, tmp_path, n_jobs=3))


def test_a_killed_process_goes_on_where_it_stopped(tmp_path):
    options = "--quick --problem best-action --items 5 --regime converged --rounds 128 --seed 0"
    few = "--epsilon 1/4 --batch-size 16 -o"
    command = [sys.executable, "-m", "outrule", "reproduce", *options.split(), *few.split()]
    process = subprocess.Popen([*command, str(tmp_path / "part")], stdout=subprocess.DEVNULL)
    progress = tmp_path / "part" / "parts" / "best-action-5-converged-0.progress.json"
    deadline = time.monotonic() + 60
    while not progress.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL if os.name == "posix" else signal.SIGTERM)
    assert process.wait() != 0
    assert not (tmp_path / "part" / "results.json").exists()
    grid = replace(
        QUICK,
        problems=("best-action",),
        items=(5,),
        regimes=("converged",),
        seeds=(0,),
        rounds=128,
        epsilons=(1 / 4,),
        batch_sizes=(16,),
    )
    same(evaluate(grid, tmp_path / "part"), evaluate(grid, tmp_path / "whole"))


def test_bad_settings_are_rejected_before_anything_is_written(tmp_path):
    huge = replace(SMALL, batch_sizes=(2**20,), n_rules=10**6)
    with pytest.raises(outrule.ArgumentError, match="'--batch-size'"):
        evaluate(huge, tmp_path / "folder")
    with pytest.raises(outrule.ArgumentError, match="'n_jobs'"):
        evaluate(SMALL, tmp_path / "folder", n_jobs=0)
    assert not (tmp_path / "folder").exists()


def test_without_matplotlib_it_says_so_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = CliRunner().invoke(app, ["reproduce", "--quick", "-o", str(tmp_path / "folder")])
    sentence = "Plots need matplotlib, which is not installed. Run: pip install 'outrule[plots]'"
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"Error: {sentence}\n")
    assert not (tmp_path / "folder").exists()
