"""Files are whole or not there."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from outrule.errors import DataError
from outrule.files import open_output, read_limited, whole_file, write_text


def test_a_file_appears_when_it_is_whole(tmp_path):
    target = tmp_path / "table.csv"
    target.write_text("old")
    with whole_file(target) as draft:
        assert draft.parent == tmp_path
        assert draft.suffix == ".csv"
        draft.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_what_was_there(tmp_path, error):
    target = tmp_path / "table.csv"
    target.write_text("old")

    def fail():
        with whole_file(target) as draft:
            draft.write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_text_is_written_as_utf_8(tmp_path):
    write_text(tmp_path / "text", "größer\n")
    assert (tmp_path / "text").read_bytes() == "größer\n".encode()


def test_errors_name_the_file_and_not_its_draft(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere/a\.json'$"):
        write_text(tmp_path / "nowhere" / "a.json", "text")


def test_a_folder_that_is_not_there_is_an_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_text(tmp_path / "nowhere" / "text", "words")


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path, mode):
    target = tmp_path / "model.json"
    target.write_text("old")
    target.chmod(mode)
    with whole_file(target) as draft:
        draft.write_text("new")
        assert mode_of(draft) == 0o600  # nobody else reads it before it is in its place
    assert (target.read_text(), mode_of(target)) == ("new", mode)


def outputs(path):
    """The two ways in which files are written."""
    yield lambda text: write_text(path, text)

    def write(text):
        with open_output(path) as file:
            file.write(text.encode())

    yield write


def test_a_link_stays_and_its_target_is_replaced(tmp_path):
    (tmp_path / "there").mkdir()
    target, link, chain = tmp_path / "there" / "real", tmp_path / "link", tmp_path / "chain"
    link.symlink_to(target)
    chain.symlink_to("link")
    for number, write in enumerate(outputs(chain)):
        write(f"text {number}")
        assert target.read_text() == f"text {number}"
        assert link.is_symlink()
        assert chain.is_symlink()
        assert [path.name for path in target.parent.iterdir()] == ["real"]


def test_links_in_a_circle_are_an_error(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    one.symlink_to(other)
    other.symlink_to(one)
    by_path, by_stream = outputs(one)
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        by_path("text")
    with pytest.raises(DataError, match=r"one cannot be written: Too many levels of symbolic"):
        by_stream("text")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "other"]


KILLED = """
import os, sys
from pathlib import Path
from outrule.files import whole_file
with whole_file(Path(sys.argv[1])) as draft:
    draft.write_text("half")
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_the_draft_of_a_killed_process_is_removed_and_no_other(tmp_path):
    target, other = tmp_path / "model.json", tmp_path / "other.json"
    writers = []
    for path in (target, target, other):
        pipe = subprocess.PIPE
        command = [sys.executable, "-c", KILLED, str(path)]
        writers.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True))
        assert writers[-1].stdout.readline() == "ready\n"
    writers[0].kill()
    writers[0].communicate()
    assert len(list(tmp_path.iterdir())) == 3
    write_text(target, "whole")
    assert len(list(tmp_path.iterdir())) == 3  # the target, and two drafts at work
    for writer in writers[1:]:
        writer.communicate("")
        assert writer.returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.json", "other.json"]
    assert target.read_text() == other.read_text() == "half"


def test_a_draft_that_is_taken_for_stale_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    import fcntl

    lock, taken = fcntl.flock, []

    def late(file, how):
        if not taken:
            taken.extend(tmp_path.iterdir())
            taken[0].unlink()
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    write_text(tmp_path / "text", "words")
    assert len(taken) == 1
    assert [path.read_text() for path in tmp_path.iterdir()] == ["words"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_named():
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        write_text(Path("/dev/full"), "text")


def test_a_device_is_written_into_and_never_replaced():
    write_text(Path("/dev/null"), "words")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_no_more_is_read_than_allowed(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_limited(path, 5) == b"12345"
    with pytest.raises(DataError, match="file is too large: it has more than 4 bytes"):
        read_limited(path, 4)
