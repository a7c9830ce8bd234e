"""Folders at addresses that fsspec knows: the bits of the same files on this machine."""

import sys

import fsspec
import partition_tables as tables
import pytest
from partition_tables import COLUMNS, RULES, cut

import outrule
from outrule.model.codec import to_text
from test_cli import SPEC, run, trips


def upload(folder, address):
    """Copy a folder into memory, where nothing of it is a path of this machine."""
    system = fsspec.filesystem("memory")
    for path in folder.rglob("*.parquet"):
        system.pipe_file(f"/{address}/{path.relative_to(folder)}", path.read_bytes())
    return f"memory://{address}"


@pytest.fixture
def folder(tmp_path):
    return cut(tables.offers(n=120), tmp_path / "in", 3)


@pytest.fixture
def address(folder):
    yield upload(folder, "data")
    fsspec.filesystem("memory").rm("/data", recursive=True)


def fitted(source):
    calibrator = outrule.DecisionCalibrator(outrule.BestAction(), RULES, start=None)
    return calibrator.fit(outrule.Partitions(source, **COLUMNS))


def test_a_folder_or_a_pattern_at_an_address_gives_the_same_model(folder, address):
    expected = to_text(fitted(folder).model_)
    for source in (address, f"{address}/b*.parquet", f"file://{folder}"):
        assert to_text(fitted(source).model_) == expected
    listed = [f"{address}/b{number:02}.parquet" for number in range(3)]
    assert to_text(fitted(listed).model_) == expected


def test_faults_name_the_address(address):
    system, path = fsspec.filesystem("memory"), "/data/b01.parquet"
    whole = system.cat_file(path)
    system.pipe_file(path, whole[:-30])
    with pytest.raises(outrule.DataError, match=f"^{address}/b01.parquet is not a valid Parquet"):
        fitted(address)
    with pytest.raises(outrule.DataError, match=f"^{address}/gone.parquet cannot be read: No such"):
        fitted([f"{address}/b00.parquet", f"{address}/gone.parquet"])
    with pytest.raises(outrule.DataError, match="memory://nothing has no Parquet files"):
        fitted("memory://nothing")
    with pytest.raises(outrule.DataError, match=r"^nonsense://x cannot be read: Protocol"):
        fitted("nonsense://x")


def test_a_file_that_changes_at_its_address_is_noticed(address, monkeypatch):
    from outrule.model import partitioned

    prepare, system = partitioned.prepare, fsspec.filesystem("memory")

    def change(*args):
        system.pipe_file("/data/b01.parquet", system.cat_file("/data/b01.parquet"))
        return prepare(*args)

    monkeypatch.setattr(partitioned, "prepare", change)
    with pytest.raises(outrule.DataError, match=r"b01.parquet has changed since it was first"):
        fitted(address)


def test_without_fsspec_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(outrule.DataError, match=r"pip install 'outrule\[remote\]'"):
        fitted("memory://data")


def test_commands_read_addresses_and_write_here(tmp_path):
    for number, name in enumerate(("in/a", "in/b", "later/a")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        trips(number, n=300).write_parquet(tmp_path / f"{name}.parquet")
    (tmp_path / "spec.toml").write_text(SPEC)
    address, later = (upload(tmp_path / name, f"trips/{name}") for name in ("in", "later"))
    texts = []
    both = (tmp_path / "in", tmp_path / "later"), (address, later)
    for number, (source, unseen) in enumerate(both):
        model = tmp_path / f"{number}.json"
        result = run("fit", source, "--spec", tmp_path / "spec.toml", "-o", model)
        assert result.exit_code == 0, result.stderr
        texts.append(model.read_bytes())
        for verb in ("predict", "decide"):
            output = tmp_path / f"{verb}{number}"
            result = run(verb, model, source, "-o", output)
            assert result.exit_code == 0, result.stderr
            texts += [path.read_bytes() for path in sorted(output.iterdir())]
        certificate = tmp_path / f"{number}.certificate"
        run("certify", model, unseen, "-o", certificate)
        texts.append(certificate.read_bytes())
    assert texts[: len(texts) // 2] == texts[len(texts) // 2 :]
    report = run("report", tmp_path / "0.json", f"{later}/a.parquet", "--json")
    assert report.exit_code == 0, report.stderr
    result = run("fit", address, "--spec", tmp_path / "spec.toml", "-o", "memory://model.json")
    assert result.exit_code == 2
    assert "memory://model.json is an address: only tables can be written there" in result.stderr


def test_results_are_written_to_addresses_and_kept_there(tmp_path):
    system, here = fsspec.filesystem("memory"), tmp_path / "in"
    for number, name in enumerate(("a", "day=2/b")):
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        trips(number, n=90).write_parquet(here / f"{name}.parquet")
    (tmp_path / "spec.toml").write_text(SPEC)
    model, source = tmp_path / "model.json", upload(here, "source")
    run("fit", here, "--spec", tmp_path / "spec.toml", "-o", model)
    run("predict", model, here, "-o", tmp_path / "out")
    first = run("predict", model, source, "-o", "memory://out")
    assert first.exit_code == 0, first.stderr
    assert sorted(system.find("/out")) == ["/out/a.parquet", "/out/day=2/b.parquet"]
    for name in ("a", "day=2/b"):
        expected = (tmp_path / "out" / f"{name}.parquet").read_bytes()
        assert system.cat_file(f"/out/{name}.parquet") == expected
    again = run("predict", model, source, "-o", "memory://out/")
    assert "2 files (2 of them done before), 900 rows" in again.stdout
    local = run("predict", model, f"file://{here}", "-o", f"file://{tmp_path / 'out'}")
    assert "2 files (2 of them done before), 900 rows" in local.stdout
    whole = run("predict", model, here / "a.parquet", "-o", "memory://one/table.parquet")
    assert whole.exit_code == 0, whole.stderr
    inside = run("predict", model, source, "-o", f"{source}/out")
    assert f"{source}/out is inside {source}" in inside.stderr
    system.pipe_file("/out/other.parquet", system.cat_file("/source/a.parquet"))
    strange = run("predict", model, source, "-o", "memory://out")
    assert "memory://out/other.parquet belongs to no file" in strange.stderr
