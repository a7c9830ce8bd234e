"""Table files: what was written is read again, and each fault of a file is one sentence."""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import given, strategies as st
from polars.testing import assert_frame_equal

from outrule.data.parquet import read_footer
from outrule.data.table_files import EXTENSIONS, read_table, table_kind, write_table
from outrule.data.table_sizes import arrow_bytes
from outrule.errors import DataError

FRAME = pl.DataFrame(
    {
        "trip": [1, 1, 2, 2],
        "driver": ["x", "y", "x", 'a,"b"\nc'],
        "score": [0.1, 1e-7, 1e22, None],
        "kept": [True, False, None, True],
        "note": ["", None, " s", "é"],
        "nothing": [None, None, None, None],
    }
)


def feed(monkeypatch, data):
    """Give these bytes as standard input."""
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))


def text_file(folder, content, name="table.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("suffix", [*EXTENSIONS, ".CSV", ".Parquet"])
def test_a_table_comes_back_as_it_was_written(tmp_path, suffix):
    path = tmp_path / f"table{suffix}"
    write_table(FRAME, path)
    assert_frame_equal(read_table(path), FRAME)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".arrow"])
def test_standard_input_is_known_by_its_first_bytes(tmp_path, monkeypatch, suffix):
    write_table(FRAME, tmp_path / f"table{suffix}")
    feed(monkeypatch, (tmp_path / f"table{suffix}").read_bytes())
    assert_frame_equal(read_table("-"), FRAME)


def test_an_arrow_stream_is_read_from_a_pipe_and_from_a_file(tmp_path, monkeypatch):
    stream = io.BytesIO()
    FRAME.write_ipc_stream(stream)
    feed(monkeypatch, stream.getvalue())
    assert_frame_equal(read_table("-"), FRAME)
    assert_frame_equal(read_table(text_file(tmp_path, stream.getvalue(), "t.arrow")), FRAME)


def test_standard_output_gets_csv(monkeypatch):
    output = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=output))
    write_table(FRAME, "-")
    feed(monkeypatch, output.getvalue())
    assert_frame_equal(read_table("-"), FRAME)


@pytest.mark.skipif(os.name != "posix", reason="named pipes of POSIX")
def test_a_named_pipe_is_read_and_written_and_never_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    copy = (
        "import sys; from outrule.data import table_files as files; "
        "files.write_table(files.read_table('-'), sys.argv[1])"
    )
    with subprocess.Popen([sys.executable, "-c", copy, str(pipe)], stdin=subprocess.PIPE) as writer:
        writer.stdin.write(FRAME.write_csv().encode())
        writer.stdin.close()
        assert_frame_equal(read_table(pipe), FRAME)
    assert writer.returncode == 0
    assert pipe.is_fifo()


def test_a_link_is_written_through(tmp_path):
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    write_table(FRAME, tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert_frame_equal(read_table(tmp_path / "real.csv"), FRAME)


@given(st.lists(st.floats(width=64), min_size=1), st.sampled_from([".csv", ".parquet", ".arrow"]))
def test_numbers_come_back_with_the_same_bits(tmp_path_factory, numbers, suffix):
    path = tmp_path_factory.mktemp("bits") / f"table{suffix}"
    column = np.where(np.isnan(numbers), np.nan, numbers)  # there is one NaN in a CSV
    write_table(pl.DataFrame({"x": column}), path)
    assert read_table(path)["x"].to_numpy().tobytes() == column.tobytes()


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["0", "-12", ""], [0, -12, None]),
        (["1", "2.5"], [1.0, 2.5]),
        ([".5", "1.", "-2E+3", "-inf"], [0.5, 1.0, -2000.0, -np.inf]),
        (["true", "False", "TRUE"], [True, False, True]),
        (["true", "1"], ["true", "1"]),
        (["7", "007"], ["7", "007"]),
        (["+4930123456"], ["+4930123456"]),
        (["12345678901234567890", "1"], ["12345678901234567890", "1"]),
        (["1", "A7"], ["1", "A7"]),
        ([" 1", "2"], [" 1", "2"]),
        (["2024-05-01"], ["2024-05-01"]),
    ],
)
def test_a_column_of_csv_is_what_all_its_fields_are(tmp_path, texts, values):
    path = text_file(tmp_path, "\n".join(["x,y", *(f"{text},0" for text in texts)]))
    assert read_table(path)["x"].to_list() == values


def test_a_type_that_changes_late_in_a_csv_is_noticed(tmp_path):
    path = text_file(tmp_path, "x\n" + "1\n" * 20_000 + "0.5\n")
    assert read_table(path)["x"][-1] == 0.5


def test_marks_of_windows_and_empty_lines_at_the_ends_are_no_data(tmp_path):
    path = text_file(tmp_path, b"\xef\xbb\xbf\r\na,b\r\n1,\r\n2,x\r\n\r\n\r\n")
    assert read_table(path).to_dict(as_series=False) == {"a": [1, 2], "b": [None, "x"]}


def test_a_csv_of_a_header_alone_has_no_rows(tmp_path):
    assert read_table(text_file(tmp_path, "a,b\n")).shape == (0, 2)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is empty: it must contain a table"),
        ("\n\n", "its first line must name the columns"),
        ("a,b\n1,2\n3\n", "line 3: 1 field, but the header has 2"),
        ("a,b\n1,2\n\n3,4\n", "line 3: no fields, but"),
        ("a,b\n1,2\n3,4,5\n", "line 3: 3 fields, but the header has 2"),
        ('a,b\n1,"x\ny"\n3,4,5\n', "line 4: 3 fields"),
        ("a;b\n1;2,5\n", "the only column is 'a;b'. Is the table separated by semicolons?"),
        ("a,b,a\n1,2,3\n", "has two columns 'a': rename or drop one"),
        (b"a,b\n1,x\n2,caf\xe9\n", "is not UTF-8 in line 3: save it as UTF-8"),
        (b"caf\xe9,b\n1,x\n", "is not UTF-8 in line 1"),
        ("a,b\n1,2\n".encode("utf-16"), "is not UTF-8 in line 1"),
        ('a,b\n1,x"y\n2,z\n', "cannot be read as CSV .*Check its quotes"),
        ('a,b\n1,"x\n2,z\n', "cannot be read as CSV .*Check its quotes"),
        (b"\x1f\x8b\x08rest", r"is compressed \(gzip\): unpack it, for example with gunzip -c"),
        (b"PK\x03\x04rest", "is a workbook or a zip archive: save the sheet as CSV"),
        (b"PAR1rest", "contains Parquet, not CSV: rename it"),
        (b"a" * 200_000, "its first line must name the columns"),
    ],
)
def test_each_fault_of_a_csv_is_named(tmp_path, content, words):
    with pytest.raises(DataError, match=rf"table\.csv.* {words}"):
        read_table(text_file(tmp_path, content))


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".feather"])
def test_a_cut_or_foreign_binary_file_is_refused(tmp_path, suffix):
    path = tmp_path / f"table{suffix}"
    write_table(FRAME, path)
    whole = path.read_bytes()
    for part in (whole[:-9], whole[: len(whole) // 2], whole[:20], whole[:3], b"a,b\n1,2\n"):
        path.write_bytes(part)
        with pytest.raises(DataError, match=r"is not a valid .* file, or it"):
            read_table(path)
    path.write_bytes(b"")
    with pytest.raises(DataError, match="is empty"):
        read_table(path)


def test_feather_of_the_first_version_is_named(tmp_path):
    with pytest.raises(DataError, match="is Feather version 1: write version 2"):
        read_table(text_file(tmp_path, b"FEA1\0\0\0\0rest", "t.feather"))


def test_two_columns_of_one_name_are_refused_in_binary_files_too(tmp_path):
    table = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    pa.feather.write_feather(table, tmp_path / "t.feather")
    for name in ("t.parquet", "t.feather"):
        with pytest.raises(DataError, match=f"{name}.* two columns of the same name"):
            read_table(tmp_path / name)


def test_a_damaged_binary_file_gives_a_frame_or_a_data_error(tmp_path, capfd):
    generator = np.random.default_rng(0)
    for suffix in (".parquet", ".arrow"):
        path = tmp_path / f"table{suffix}"
        write_table(FRAME, path)
        whole = path.read_bytes()
        for number in range(150):
            damaged = bytearray(whole)
            for place in generator.integers(len(whole), size=1 + number % 4):
                damaged[place] = int(generator.integers(256))
            path.write_bytes(damaged)
            with contextlib.suppress(DataError):
                read_table(path)
    assert capfd.readouterr().err == ""  # not even where Polars panics


def test_what_a_library_prints_while_a_good_file_is_read_is_kept(tmp_path, capfd, monkeypatch):
    path = tmp_path / "table.parquet"
    write_table(FRAME, path)
    read = pl.read_parquet

    def talk(*args, **options):
        os.write(2, b"a warning of Rust\n")
        return read(*args, **options)

    monkeypatch.setattr(pl, "read_parquet", talk)
    assert_frame_equal(read_table(path), FRAME)
    assert capfd.readouterr().err == "a warning of Rust\n"


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (95_100_000, pa.date32()),
        (-95_100_000, pa.date32()),
        (2**62, pa.timestamp("ms")),
        (2**63 - 1, pa.timestamp("us")),
    ],
)
def test_a_date_that_no_calendar_has_is_refused(tmp_path, capfd, suffix, number, kind):
    path, whole = tmp_path / f"table{suffix}", pa.int32() if kind == pa.date32() else pa.int64()
    write = pa.parquet.write_table if suffix == ".parquet" else pa.feather.write_feather
    for numbers in ([1, None, number], [1, None]):
        write(pa.table({"when": pa.array(numbers, whole).view(kind)}), path)
        if number in numbers:
            with pytest.raises(DataError, match="'when' has a date that is out of range"):
                read_table(path)
    assert read_table(path)["when"].null_count() == 1
    assert capfd.readouterr().err == ""


def test_a_panic_while_a_table_is_written_is_one_sentence(tmp_path, capfd):
    frame = pl.DataFrame({"day": pl.Series([2**31 - 1], dtype=pl.Int32).cast(pl.Date)})
    with pytest.raises(DataError, match=r"t\.csv cannot be written: Polars crashed"):
        write_table(frame, tmp_path / "t.csv")
    assert capfd.readouterr().err == ""
    assert list(tmp_path.iterdir()) == []


BOMB = pl.select(x=pl.repeat(0.5, 5_000_000), s=pl.repeat("a long string " * 3, 5_000_000))


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", " as a stream.arrow"])
def test_a_small_file_that_unpacks_to_a_large_table_is_refused(tmp_path, suffix, monkeypatch):
    path = tmp_path / f"table{suffix}"
    if suffix == ".parquet":
        BOMB.write_parquet(path)
    elif suffix == ".arrow":
        BOMB.write_ipc(path, compression="zstd")
    else:
        BOMB.write_ipc_stream(path, compression="zstd")
    assert path.stat().st_size < 200_000
    monkeypatch.setenv("OUTRULE_MEMORY", "0.2")
    with pytest.raises(
        DataError, match=r"unpacks to about \d+\.\d MB, more than half of the 200\.0 MB"
    ):
        read_table(path)
    for words in ("many", "nan", "inf", "0", "-1"):
        monkeypatch.setenv("OUTRULE_MEMORY", words)
        with pytest.raises(DataError, match=f"OUTRULE_MEMORY is '{words}': it must be a number of"):
            read_table(path)


def test_a_text_file_larger_than_the_memory_is_refused(tmp_path, monkeypatch):
    path = text_file(tmp_path, "a,b\n" + "1,2\n" * 1000)
    monkeypatch.setenv("OUTRULE_MEMORY", "0.000001")
    with pytest.raises(DataError, match="more than half of the"):
        read_table(path)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no endless device")  # noqa: PTH110
def test_an_endless_stream_is_refused(monkeypatch):
    monkeypatch.setenv("OUTRULE_MEMORY", "0.01")
    with pytest.raises(DataError, match=r"/dev/zero unpacks to about .* more than half of the"):
        read_table("/dev/zero")
    with open("/dev/zero") as endless:  # noqa: PTH123
        monkeypatch.setattr("sys.stdin", endless)
        with pytest.raises(DataError, match="standard input unpacks to about"):
            read_table("-")


WIDE = pl.DataFrame(
    {
        "whole": np.arange(2000),
        "text": ["x" * (k % 40) for k in range(2000)],
        "truth": [True, None] * 1000,
        "list": [[1, 2]] * 2000,
        "nested": [{"a": 1, "b": 2.0}] * 2000,
        "name": pl.Series(["u", "v"] * 1000, dtype=pl.Categorical),
        "day": pl.Series([1] * 2000).cast(pl.Datetime),
    }
)


def parquet_size(data):
    return read_footer(np.frombuffer(data, np.uint8)).size()


def test_the_size_in_memory_is_read_from_the_metadata():
    found = []
    for compression in ("zstd", "snappy", "uncompressed", "lz4", "gzip", "brotli"):
        stream = io.BytesIO()
        WIDE.write_parquet(stream, compression=compression, row_group_size=300)
        found.append(parquet_size(stream.getvalue()))
    stream = io.BytesIO()
    pa.parquet.write_table(WIDE.to_arrow(), stream, data_page_version="2.0")
    found.append(parquet_size(stream.getvalue()))
    for compression in ("uncompressed", "lz4", "zstd"):
        for write in (WIDE.write_ipc, WIDE.write_ipc_stream):
            stream = io.BytesIO()
            write(stream, compression=compression)
            found.append(arrow_bytes(stream.getvalue()))
    true = WIDE.estimated_size()
    assert all(0.6 * true < size < 1.6 * true for size in found), (true, found)


def test_a_million_rows_of_nothing_cost_something():
    stream = io.BytesIO()
    pl.DataFrame({"a": pl.Series([None] * 10**6)}).write_ipc_stream(stream)
    assert arrow_bytes(stream.getvalue()) >= 8 * 10**6


def test_what_is_not_there_and_what_is_a_folder_is_said(tmp_path):
    with pytest.raises(DataError, match=r"nothing\.csv cannot be read: No such file"):
        read_table(tmp_path / "nothing.csv")
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        read_table(tmp_path)


@pytest.mark.parametrize("name", ["table.xlsx", "table", "table.csv.gz"])
def test_an_unknown_suffix_lists_the_known_ones(tmp_path, name):
    path = text_file(tmp_path, "a\n1\n", name)
    known = rf"extension '{path.suffix}'; use \.parquet, \.csv, \.tsv, \.arrow, \.feather or \.ipc"
    for act in (read_table, table_kind, lambda path: write_table(FRAME, path)):
        with pytest.raises(DataError, match=known):
            act(path)
    assert path.read_bytes() == b"a\n1\n"


def test_a_star_in_a_name_is_a_star(tmp_path):
    write_table(FRAME, tmp_path / "a.parquet")
    with pytest.raises(DataError, match="cannot be read"):
        read_table(tmp_path / "*.parquet")


@pytest.mark.parametrize("column", [[[1, 2]], [{"a": 1}], [b"x"]])
def test_a_column_that_csv_cannot_hold_is_named(tmp_path, column):
    with pytest.raises(
        DataError, match=r"column 'tags' holds .*, which CSV cannot represent: write"
    ):
        write_table(pl.DataFrame({"tags": column}), tmp_path / "t.csv")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_not_made(tmp_path):
    with pytest.raises(DataError, match=r"t\.csv cannot be written: No such file or directory"):
        write_table(FRAME, tmp_path / "nowhere" / "t.csv")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_device_is_said():
    with pytest.raises(DataError, match="cannot be written: No space left on device"):
        write_table(FRAME, "/dev/full")


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="no files in memory")
@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".arrow"])
def test_no_temporary_folder_is_needed(tmp_path, monkeypatch, suffix):
    path = tmp_path / f"table{suffix}"
    with monkeypatch.context() as only_here:  # pytest needs one
        only_here.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
        write_table(FRAME, path)
        assert_frame_equal(read_table(path), FRAME)


FULL_DISK = """
import resource, sys
import numpy as np, polars as pl
from outrule.errors import DataError
from outrule.data.table_files import write_table
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    write_table(pl.DataFrame({"x": np.random.default_rng(0).random(200_000)}), sys.argv[1])
except DataError as error:
    print(error)
"""


@pytest.mark.skipif(os.name != "posix", reason="limits of POSIX")
@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".arrow"])
def test_a_disk_that_fills_up_leaves_the_old_file_and_no_other(tmp_path, suffix):
    path = tmp_path / f"table{suffix}"
    write_table(FRAME, path)
    words = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path)], capture_output=True, text=True, check=True
    ).stdout
    assert words == f"{path} cannot be written: File too large.\n"
    assert_frame_equal(read_table(path), FRAME)
    assert list(tmp_path.iterdir()) == [path]
