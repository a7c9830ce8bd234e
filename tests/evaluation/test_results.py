"""The folder of a run: what it keeps, which files do not count, and which folders are rejected."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import made_up
import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import outrule
from outrule.evaluation import stream
from outrule.evaluation.cases import HeldOut, make_case
from outrule.evaluation.grid import Grid
from outrule.evaluation.results import Folder, read_results, write_results

SMALL = Grid(
    problems=("best-action",),
    items=(3,),
    regimes=("converged",),
    epsilons=(1 / 8,),
    batch_sizes=(8, 16),
    rounds=8,
    n_rules=10,
    n_test=50,
    seeds=(0,),
)
(UNIT,) = SMALL.units()
PART = f"parts/{UNIT.name}.json"
PROGRESS = f"parts/{UNIT.name}.progress.json"


@pytest.fixture(scope="module")
def case():
    return make_case(UNIT, SMALL.n_rules)


@pytest.fixture(scope="module")
def progress(case):
    held_out = HeldOut(case, SMALL.n_test)
    progress = stream.begin(SMALL, case, held_out)
    for _ in stream.advance(progress, SMALL, case, held_out):
        pass
    return progress


def test_progress_comes_back_as_it_was(tmp_path, case, progress):
    folder = Folder(tmp_path, SMALL)
    assert folder.read(UNIT, "progress") is None
    folder.write(UNIT, "progress", progress.as_json())
    again = stream.begin(
        SMALL, case, HeldOut(case, SMALL.n_test), Folder(tmp_path, SMALL).read(UNIT, "progress")
    )
    assert again.round == progress.round == 8
    assert again.tracks == progress.tracks
    assert any(track.tests for track in again.tracks)
    for size, sums in progress.rule_sums.items():
        assert np.array_equal(again.rule_sums[size], sums)
    assert (again.n_solved, again.seconds) == (progress.n_solved, progress.seconds)
    names = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert names == ["parts", PROGRESS]


def test_a_finished_unit_needs_its_progress_no_longer(tmp_path, progress):
    folder = Folder(tmp_path, SMALL)
    folder.write(UNIT, "progress", progress.as_json())
    assert folder.read(UNIT, "tables") is None
    folder.write(UNIT, "tables", {"units": {}})
    assert folder.read(UNIT, "tables") == {"units": {}}
    assert not (tmp_path / PROGRESS).exists()


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe", b"[1]", b"[" * 100_000])
def test_a_half_written_file_does_not_count(tmp_path, damage):
    Folder(tmp_path, SMALL)
    for name in (PART, PROGRESS):
        (tmp_path / name).write_bytes(damage)
    folder = Folder(tmp_path, SMALL)
    assert folder.read(UNIT, "tables") is None
    assert folder.read(UNIT, "progress") is None


def test_results_of_another_version_are_rejected(tmp_path, monkeypatch):
    Folder(tmp_path, SMALL).write(UNIT, "tables", {"units": {}})
    monkeypatch.setattr(outrule, "__version__", "0.0.1")
    with pytest.raises(outrule.DataError, match="or by another version of outrule"):
        Folder(tmp_path, SMALL)


@pytest.mark.parametrize("kind", ["tables", "progress"])
def test_results_of_other_settings_are_rejected(tmp_path, kind):
    Folder(tmp_path, SMALL).write(UNIT, kind, {"units": {}})
    with pytest.raises(outrule.DataError, match=r"converged-0\..* made with other settings"):
        Folder(tmp_path, replace(SMALL, rounds=16))


def test_units_can_be_added_to_a_folder(tmp_path):
    Folder(tmp_path, SMALL).write(UNIT, "tables", {"units": {}})
    more = Folder(tmp_path, replace(SMALL, items=(3, 4), regimes=("brief", "converged")))
    assert more.read(UNIT, "tables") == {"units": {}}


def test_a_folder_that_cannot_be_written_is_rejected(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(outrule.DataError, match=r"cannot be written to .*file.*: Not a dir"):
        Folder(tmp_path / "file", SMALL)


def test_results_come_back_as_they_were(tmp_path):
    results = made_up.results()
    write_results(results, tmp_path)
    again = read_results(tmp_path)
    assert again.grid == results.grid
    assert again.provenance == results.provenance
    for name in ("units", "runs", "trace"):
        assert_frame_equal(getattr(again, name), getattr(results, name))
    content = json.loads((tmp_path / "results.json").read_text())
    assert len(content["runs"]) == len(results.runs)


def test_damaged_results_are_rejected(tmp_path):
    with pytest.raises(outrule.DataError, match="holds no results"):
        read_results(tmp_path)
    write_results(made_up.results(), tmp_path)
    pl.DataFrame({"other": [1]}).write_parquet(tmp_path / "runs.parquet")
    with pytest.raises(outrule.DataError, match="are damaged"):
        read_results(tmp_path)
    (tmp_path / "runs.parquet").unlink()
    with pytest.raises(outrule.DataError, match="are damaged"):
        read_results(tmp_path)
    aborting = Path(__file__).parent.parent / "fuzz/corpus/parquet/trips@count.parquet"
    shutil.copyfile(aborting, tmp_path / "runs.parquet")
    with pytest.raises(outrule.DataError, match=r"are damaged: .* a page has -1 values"):
        read_results(tmp_path)
