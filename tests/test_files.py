"""Files are whole or not there."""

import pytest

from outrule.files import whole_file, write_text


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


def test_a_folder_that_is_not_there_is_an_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_text(tmp_path / "nowhere" / "text", "words")
