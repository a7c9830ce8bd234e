"""Fits on a Dask cluster: the bits of one process, whatever happens to the workers."""

import os
import signal
import tempfile
import time
from pathlib import Path

import numpy as np
import partition_tables as tables
import pytest
from partition_tables import COLUMNS, RULES, cut

import outrule
from outrule import progress
from outrule.calibration import pieces
from outrule.calibration.cross_fit import Material
from outrule.model import distributed as ours
from outrule.model.codec import to_text
from test_cli import run

dask = pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings("default")  # of Dask and its web server


@pytest.fixture(scope="module")
def cluster():
    with dask.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with dask.Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(2)
        yield client


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = cut(tables.offers(), tmp_path_factory.mktemp("data") / "in", 5)
    return outrule.Partitions(folder, **COLUMNS)


def calibrator(**settings):
    chosen = {"epsilon": 0.004, "start": None, **settings}
    return outrule.DecisionCalibrator(outrule.BestAction(), RULES, **chosen)


@pytest.fixture(scope="module")
def expected(data):
    return to_text(calibrator().fit(data).model_)


def kept(client):
    return sum(client.run(_count_kept).values())


def _count_kept():
    return len(ours._kept)


def _lose():
    ours._kept.clear()


def test_workers_find_the_model_of_one_process(client, data, expected):
    assert to_text(calibrator().fit(data, client=client).model_) == expected
    assert kept(client) == 0  # and they forget what they had


def test_the_default_method_and_clusters_too(client, data):
    columns = COLUMNS | {"cluster": "day"}
    clustered = outrule.Partitions([file.path for file in data.files], **columns, sample=150)
    default = outrule.DecisionCalibrator(outrule.BestAction(), RULES)
    expected = to_text(default.fit(clustered).model_)
    assert to_text(default.fit(clustered, client=client).model_) == expected


@pytest.mark.parametrize("more", [{}, {"propensity": "propensity", "weight": "weight"}])
def test_workers_boost_the_members_of_the_start(client, more, tmp_path, monkeypatch):
    frame = tables.logged(tables.offers()) if more else tables.offers()
    data = outrule.Partitions(cut(frame, tmp_path / "in", 3), **COLUMNS, **more)
    default = outrule.DecisionCalibrator(outrule.BestAction(), RULES)
    whole = outrule.Instances.from_table(tables.stacked(tmp_path / "in"), **COLUMNS, **more)
    expected, said = to_text(default.fit(whole).model_), []
    monkeypatch.setattr(Material, "member", None)  # of this process: it boosts nothing
    with progress.heard_by(lambda noun, *numbers: said.append((noun, *numbers[:2]))):
        assert to_text(default.fit(data, client=client).model_) == expected
    members = [said for said in said if said[0] == "part of the start"]
    every = [("part of the start", number, 12) for number in range(1, 13)]
    assert members == (2 * every if more else every)  # once more for a log


@pytest.mark.parametrize("more", [{}, {"cluster": "day"}])
def test_workers_fit_inside_segments_too(client, data, more, monkeypatch):
    clustered = outrule.Partitions([file.path for file in data.files], **COLUMNS, **more)
    by = outrule.Segments(["city", "rank"], 0.03, 15)
    default = outrule.DecisionCalibrator(outrule.BestAction(), RULES, segments=by)
    expected, advance, rounds = to_text(default.fit(clustered).model_), [], []
    advance = ours.ClusterPieces.advance

    def lose(self, logs):
        rounds.append(logs)
        if len(rounds) in (2, 4):
            client.run(_lose)
        return advance(self, logs)

    monkeypatch.setattr(ours.ClusterPieces, "advance", lose)
    assert to_text(default.fit(clustered, client=client).model_) == expected
    assert len(rounds) > 4


def test_members_that_were_lost_are_boosted_again(client, data, monkeypatch):
    default = outrule.DecisionCalibrator(outrule.BestAction(), RULES)
    expected, killed, gather = to_text(default.fit(data).model_), [], ours.gather

    def kill(client, futures):
        if not killed:
            owner = next(iter(client.who_has(futures[:1]).values()))[0]
            killed.append(client.run(os.getpid, workers=[owner])[owner])
            os.kill(killed[0], signal.SIGKILL)
        return gather(client, futures)

    monkeypatch.setattr(ours, "gather", kill)
    assert to_text(default.fit(data, client=client).model_) == expected
    assert killed
    client.wait_for_workers(2)


def test_functions_of_the_caller_decide_on_workers_too(client, data):
    problem = outrule.Oracle(best_of, k=1)
    default = outrule.DecisionCalibrator(problem, RULES[:2], start=outrule.CrossFit(max_patches=4))
    expected = to_text(default.fit(data).model_)
    assert to_text(default.fit(data, client=client).model_) == expected


def best_of(weights):
    return np.arange(len(weights)) == weights.argmax()


def test_pieces_that_were_lost_are_made_again(client, data, expected, monkeypatch):
    advance, rounds = ours.ClusterPieces.advance, []

    def lose(self, logs):
        rounds.append(len(logs[0]))
        if len(logs[0]) in (2, 5):
            client.run(_lose)
        return advance(self, logs)

    monkeypatch.setattr(ours.ClusterPieces, "advance", lose)
    assert to_text(calibrator().fit(data, client=client).model_) == expected
    assert max(rounds) > 5


def test_the_death_of_a_worker_costs_only_time(client, data, expected, monkeypatch):
    advance, killed = ours.ClusterPieces.advance, []

    def kill(self, logs):
        if len(logs[0]) == 3 and not killed:
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)
        return advance(self, logs)

    monkeypatch.setattr(ours.ClusterPieces, "advance", kill)
    assert to_text(calibrator().fit(data, client=client).model_) == expected
    assert killed
    client.wait_for_workers(2)


def test_workers_may_leave_and_come(cluster, client, data, expected, monkeypatch):
    advance, seen = ours.ClusterPieces.advance, set()

    def change(self, logs):
        if len(logs[0]) in (2, 5):
            n_workers = 1 if len(logs[0]) == 2 else 2
            cluster.scale(n_workers)
            while len(client.nthreads()) != n_workers:
                time.sleep(0.05)
        seen.update(client.nthreads())
        return advance(self, logs)

    monkeypatch.setattr(ours.ClusterPieces, "advance", change)
    try:
        assert to_text(calibrator().fit(data, client=client).model_) == expected
    finally:
        cluster.scale(2)
        client.wait_for_workers(2)
    assert len(seen) == 3


def test_an_unreachable_scheduler_is_said(monkeypatch):
    monkeypatch.setattr(ours, "WAIT", "1s")
    with pytest.raises(
        outrule.DataError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9"
    ):
        ours.connect("tcp://127.0.0.1:9")
    with pytest.raises(outrule.DataError, match="no Dask scheduler answers at nonsense"):
        ours.connect("nonsense://x")


def test_other_versions_and_no_workers_are_refused_before_any_file_is_read(client, tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"not Parquet at all")
    data = outrule.Partitions(tmp_path, **COLUMNS)
    client.run(_set_version, "0.0.1")
    try:
        with pytest.raises(outrule.DataError, match=r"has outrule 0.0.1, and this process"):
            calibrator().fit(data, client=client)
    finally:
        client.run(_set_version, outrule.__version__)
    lock = outrule.Choose("locked", Locked())
    with pytest.raises(outrule.DataError, match="rule 'locked' cannot be sent to workers"):
        outrule.DecisionCalibrator(outrule.BestAction(), [lock]).fit(data, client=client)
    with pytest.raises(outrule.DataError, match="the problem cannot be sent to workers"):
        outrule.DecisionCalibrator(outrule.Oracle(Locked(), k=1), RULES).fit(data, client=client)
    with (
        dask.LocalCluster(n_workers=0, dashboard_address=":0") as empty,
        dask.Client(empty, set_as_default=False) as lonely,
        pytest.raises(outrule.DataError, match="has no workers"),
    ):
        calibrator().fit(data, client=lonely)


def test_a_worker_that_comes_later_with_another_version_is_named(client, data, monkeypatch):
    build = ours.ClusterPieces.build

    def change(self):
        client.run(_set_version, "0.0.1")
        return build(self)

    monkeypatch.setattr(ours.ClusterPieces, "build", change)
    try:
        with pytest.raises(
            outrule.DataError, match=r"worker tcp://\S+ has outrule 0.0.1, and this"
        ):
            calibrator().fit(data, client=client)
    finally:
        client.run(_set_version, outrule.__version__)


def test_a_worker_without_room_is_named(client, data):
    client.run(_limit_files, 1000, 0)
    try:
        words = r"on the worker tcp://\S+: .* cannot be written: "
        with pytest.raises(outrule.DataError, match=words):
            calibrator().fit(data, client=client)
    finally:
        client.run(_limit_files, -1, pieces.SMALL)
    while any(client.processing().values()):
        time.sleep(0.05)
    assert kept(client) == 0  # neither what was made before nor what was made later


def _limit_files(most, small):
    import resource

    pieces.SMALL = small
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, -1))


def test_pieces_of_a_driver_that_is_gone_are_dropped(tmp_path):
    folders = [tempfile.TemporaryDirectory(dir=tmp_path) for _ in range(2)]
    for name, folder, age in (("gone", folders[0], 2), ("here", folders[1], 0)):
        ours._kept[name, 0] = ours._Kept([], folder, time.monotonic() - age * ours.IDLE)
    ours.drop_stale()
    assert list(ours._kept) == [("here", 0)]
    assert [path.name for path in tmp_path.iterdir()] == [Path(folders[1].name).name]
    ours.forget("here")


class Locked:
    """A rule that holds what no other process can have."""

    def __call__(self, view):
        return view.predictions > 0

    def __reduce__(self):
        raise TypeError("it has a lock")


def _set_version(version):
    outrule.__version__ = version


def test_errors_of_workers_name_the_file(client, tmp_path, monkeypatch):
    folder = cut(tables.offers(), tmp_path / "in", 2)
    build = ours.ClusterPieces.build

    def spoil(self):
        (folder / "b01.parquet").write_bytes(b"PAR1 no more")
        return build(self)

    monkeypatch.setattr(ours.ClusterPieces, "build", spoil)
    with pytest.raises(outrule.DataError, match=r"b01.parquet is not a valid Parquet file"):
        calibrator().fit(outrule.Partitions(folder, **COLUMNS), client=client)


def test_the_command_line_fits_on_a_cluster(cluster, data, tmp_path):
    (tmp_path / "spec.toml").write_text(
        """
        epsilon = 0.004
        problem = {kind = "best action"}
        data = {instance = "visit", item = "item", prediction = "score", outcome = "outcome"}
        rules = [{name = "the nearest", weight = "1 / (1 + km)"}]
        """
    )
    folder = data.files[0].path.parent
    texts = []
    for name, more in (("here", ()), ("there", ("--scheduler", cluster.scheduler_address))):
        output = tmp_path / f"{name}.json"
        result = run("fit", folder, "--spec", tmp_path / "spec.toml", "-o", output, *more)
        assert result.exit_code == 0, result.stderr
        texts.append(output.read_text())
    assert texts[0] == texts[1]
