"""Parquet files of any honest writer are read, and damaged ones refused before Polars has them."""

import base64
import io
import re
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import slow_thrift
from hypothesis import given, settings, strategies as st
from polars.testing import assert_frame_equal

from outrule.data import parquet
from outrule.data.parquet import read_footer
from outrule.data.parquet_shapes import FILE, PAGE
from outrule.data.table_files import parquet_schema, read_columns, read_table
from outrule.data.table_sizes import array_widths
from outrule.errors import DataError

COMPRESSIONS = ("zstd", "snappy", "gzip", "lz4", "brotli", "none")
VALUES = {
    pl.Int64: st.integers(-(2**63), 2**63 - 1),
    pl.Float64: st.floats(),
    pl.Boolean: st.booleans(),
    pl.String: st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    pl.Binary: st.binary(max_size=20),
    pl.Date: st.dates(),
    pl.List(pl.Int8): st.lists(st.integers(-128, 127) | st.none(), max_size=4),
    pl.List(pl.List(pl.String)): st.lists(st.lists(st.sampled_from("ab"), max_size=3), max_size=3),
    pl.Array(pl.Float32, 2): st.lists(st.floats(width=32), min_size=2, max_size=2),
    pl.Struct({"a": pl.Int16, "b": pl.String}): st.fixed_dictionaries(
        {"a": st.integers(-9, 9) | st.none(), "b": st.sampled_from("xyz")}
    ),
    pl.Categorical: st.sampled_from(["red", "green", "blue"]),
}


@st.composite
def frames(draw):
    """Frames of 0 to 60 rows; the drawn values are repeated, since dictionaries like that."""
    n = draw(st.integers(0, 60))
    columns = {}
    for number, kind in enumerate(draw(st.lists(st.sampled_from(list(VALUES)), min_size=1))):
        some = draw(st.lists(VALUES[kind] | st.none(), min_size=1, max_size=6))
        columns[f"c{number}"] = pl.Series((some * n)[:n], dtype=kind)
    return pl.DataFrame(columns)


def write_polars(frame, path, compression, size):
    compression = compression.replace("none", "uncompressed")
    frame.write_parquet(path, compression=compression, row_group_size=size, data_page_size=size)


def write_pyarrow(frame, path, compression, size):
    options = {"data_page_size": size, "write_batch_size": size, "row_group_size": 3 * size}
    options |= {"use_dictionary": size % 2 == 0, "write_page_index": size % 3 == 0}
    options |= {"data_page_version": "2.0" if size % 5 else "1.0", "write_page_checksum": True}
    pq.write_table(frame.to_arrow(), path, compression=compression, **options)


def write_duckdb(frame, path, compression, size):
    arrays = [name for name, kind in frame.schema.items() if isinstance(kind, pl.Array)]
    table = frame.with_columns(pl.col(*arrays).arr.to_list() if arrays else []).to_arrow()
    compression = compression.replace("none", "uncompressed")
    version = "V2" if size % 2 else "V1"
    with duckdb.connect() as connection:
        connection.register("source", table)
        connection.execute(
            f"COPY source TO '{path}' (FORMAT parquet, COMPRESSION {compression}, "
            f"PARQUET_VERSION {version}, ROW_GROUP_SIZE {2048 * size})"
        )


@settings(max_examples=60, deadline=None)
@given(
    frames(),
    st.sampled_from([write_polars, write_pyarrow, write_duckdb]),
    st.sampled_from(COMPRESSIONS),
    st.integers(1, 50),
)
def test_every_honest_file_is_read(tmp_path_factory, frame, write, compression, size):
    path = tmp_path_factory.mktemp("honest") / "table.parquet"
    write(frame, path, compression, size)
    expected = pl.read_parquet(path, hive_partitioning=False)
    assert_frame_equal(read_table(path), expected)
    some = expected.columns[-2:]
    assert_frame_equal(read_columns(path, some), expected.select(some))
    assert parquet_schema(path) == dict(expected.schema)


FRAME = pl.DataFrame({"a": range(30), "b": ["x", "y", None] * 10, "c": [[1.0, 2.0]] * 30})
ENCODINGS = {"a": "DELTA_BINARY_PACKED", "b": "DELTA_LENGTH_BYTE_ARRAY"}
OLD = FRAME.to_arrow(compat_level=pl.CompatLevel.oldest())


@pytest.mark.parametrize(
    "write",
    [
        lambda path: pq.write_table(pa.table({}), path),
        lambda path: pq.ParquetWriter(path, OLD.schema).close(),
        lambda path: FRAME.head(0).write_parquet(path),
        lambda path: pl.DataFrame({"a": ["x" * 3_000_000, None]}).write_parquet(
            path, statistics="full"
        ),
        lambda path: pq.write_table(pa.table({"a": ["x" * 900_000, "y" * 900_000]}), path),
        lambda path: pq.write_table(
            pa.table({"a": pa.DictionaryArray.from_arrays([0], [str(k) for k in range(500)])}), path
        ),
        lambda path: pq.write_table(
            OLD.select(["a", "b"]), path, use_dictionary=False, column_encoding=ENCODINGS
        ),
        lambda path: pq.write_table(
            pa.table({"a": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32()))}), path
        ),
    ],
    ids=[
        *("no columns", "no row groups", "no rows", "long statistics", "a long header"),
        *("a dictionary that is not used", "delta encodings", "a map"),
    ],
)
def test_unusual_files_are_read(tmp_path, write):
    path = tmp_path / "table.parquet"
    write(path)
    assert_frame_equal(read_table(path), pl.read_parquet(path))


def written(frame=FRAME, **options):
    stream = io.BytesIO()
    pq.write_table(frame.to_arrow(), stream, row_group_size=10, compression="none", **options)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (lambda one: {"values": one.values - 1}, "a page has 10 values, but 9 are left"),
        (lambda one: {"values": one.values + 1}, "the header of a page is damaged"),
        (lambda one: {"ends": one.ends - 1}, r"a page has \d+ bytes, but \d+ are left"),
        (lambda one: {"starts": one.starts + 1}, "the header of a page is damaged"),
        (lambda one: {"ends": one.ends + 10**6}, "it is cut short"),
        (
            lambda one: {"unpacked": one.unpacked // 9},
            r"its pages unpack to \d+ bytes, but at most \d+ are",
        ),
        (
            lambda one: {"leaves": tuple(replace(leaf, stored=99) for leaf in one.leaves)},
            r"a page has \d+ values, but \d are left",
        ),
    ],
)
def test_pages_that_contradict_the_end_are_refused(changes, words, monkeypatch):
    data = np.frombuffer(written(), np.uint8)
    footer = read_footer(data)
    footer.check_pages(data)
    monkeypatch.setattr(parquet, "SPARE", 0)
    damaged = replace(footer, **changes(footer))
    with pytest.raises(ValueError, match=rf"^column 'a', row group 1: {words}"):
        damaged.check_pages(data)
    with pytest.raises(ValueError, match=r"^column 'c', row group 1: "):
        damaged.check_pages(data, ["c"])
    damaged.check_pages(data, [])


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        (1, -1, "a page has -1 values, but 10 are left"),
        (1, 2**31 - 1, "a page has 2,147,483,647 values, but 10 are left"),
        (1, 2**32 + 10, "a page has 4,294,967,306 values, but 10 are left"),
        (2, 11, "a page has 11 values, but 10 are left"),
        (2, -1, "a page has -1 values, but 10 are left"),
        (5, -1, "bytes of levels"),
        (5, 900, "a page has 900 bytes of levels"),
        (6, 2**31 - 1, "bytes of levels"),
    ],
)
def test_numbers_in_a_header_are_not_trusted(tmp_path, field, value, words):
    data = written(data_page_version="2.0", use_dictionary=False, write_statistics=False)
    footer = read_footer(np.frombuffer(data, np.uint8))
    start = int(footer.starts[0])
    reader = slow_thrift.Reader(data, start)
    head = reader.struct(PAGE)
    head[8][field] = value
    content = footer_of(data)
    column = content[4][0][1][0][3]
    body = encode(head, PAGE) + data[reader.at : int(footer.ends[0])]
    # The chunk with the changed header is put behind all others.
    column[9], column[7] = int(footer.ends.max()), len(body)
    column.pop(11, None)
    path = tmp_path / "table.parquet"
    path.write_bytes(with_footer(data[: column[9]] + body, content))
    with pytest.raises(DataError, match=rf"damaged or cut short \(column 'a', row .*{words}"):
        read_table(path)
    with pytest.raises(DataError, match="column 'a', row group 1: "):
        read_columns(path, ["a"])
    assert read_columns(path, ["c"]).height == 30


def footer_of(data):
    return slow_thrift.Reader(data[-8 - int.from_bytes(data[-8:-4], "little") : -8]).struct(FILE)


def with_footer(pages, content):
    footer = encode(content, FILE)
    return pages + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def encode(fields, shape):
    """A structure as the slow reader has it, in bytes again."""
    found, last = b"", 0
    for number, value in sorted(fields.items()):
        kind, body = encode_value(value, shape.get(number))
        found += bytes([(number - last) << 4 | kind]) + (b"" if kind in (1, 2) else body)
        last = number
    return found + b"\x00"


def encode_value(value, shape):
    if isinstance(value, bool):
        return (1 if value else 2), b""
    if isinstance(value, int):
        return 6, varint(2 * value if value >= 0 else -2 * value - 1)
    if isinstance(value, bytes):
        return (3, value) if shape == 2 else (8, varint(len(value)) + value)
    if isinstance(value, dict):
        return 12, encode(value, shape or {})
    parts = [encode_value(one, shape[0] if shape else None) for one in value]
    kind = parts[0][0] if parts else 12
    return 9, bytes([240 | kind]) + varint(len(value)) + b"".join(body for _, body in parts)


def varint(number):
    found = b""
    while number > 127:
        found, number = found + bytes([number % 128 | 128]), number // 128
    return found + bytes([number])


def change(place, value):
    """Change one entry of a footer, by the numbers of its fields."""

    def apply(content):
        for key in place[:-1]:
            content = content[key]
        if value is None:
            del content[place[-1]]
        else:
            content[place[-1]] = value

    return apply


def nest(content):
    """A schema as deep as a well."""
    leaf = content[2][1]
    chain = [{3: 0, 4: b"a", 5: 1} for _ in range(100_000)]
    content[2] = [{4: b"schema", 5: 1}, *chain, leaf]


VALUES_OF_A = (4, 0, 1, 0, 3, 5)
FOOTERS = {
    "the same": (change((1,), 2), None),
    "rows": (change((3,), 31), "row groups do not match the rows of the table"),
    "rows of a group": (change((4, 0, 3), -10), "row groups do not match the rows of the table"),
    "values": (
        change(VALUES_OF_A, 9),
        "column 'a', row group 1: its values do not match the rows",
    ),
    "negative": (change(VALUES_OF_A, -1), "column 'a', row group 1: its values do not match the"),
    "more values": (change(VALUES_OF_A, 2**60), "its values do not match the rows"),
    "no values": (change(VALUES_OF_A, None), "its footer lacks a field"),
    "size": (change((4, 0, 1, 0, 3, 6), -1), "it has an impossible size"),
    "place": (change((4, 0, 1, 0, 3, 7), 2**63 - 1), "it has an impossible size"),
    "columns": (lambda content: content[4][0][1].pop(), "do not match the columns of its schema"),
    "children": (change((2, 0, 5), 4), "its schema lacks columns"),
    "fewer children": (change((2, 0, 5), 2), "its schema is not a tree"),
    "negative children": (change((2, 0, 5), -3), "its schema is too deep, or not a tree"),
    "many children": (change((2, 0, 5), 2**31 - 1), "its schema is too deep, or not a tree"),
    "names": (change((2, 1, 4), None), "its schema lacks names"),
    "type": (change((2, 1, 1), 9), "column 'a' has a type that does not exist"),
    "length": (change((2, 1), {1: 7, 2: -4, 3: 0, 4: b"a"}), "has a type that does not exist"),
    "deep": (nest, "its schema is too deep, or not a tree"),
    "another type": (change((2, 1, 1), b"2"), "its footer is damaged"),
    "not a schema": (
        change((5,), [{1: b"ARROW:schema", 2: b"AAAA"}]),
        "its Arrow schema is cut sh",
    ),
    "not Base64": (change((5,), [{1: b"ARROW:schema", 2: b"?"}]), "damaged or cut short"),
}


@pytest.mark.parametrize("name", FOOTERS)
def test_an_end_that_contradicts_itself_is_refused(tmp_path, name):
    data, path = written(), tmp_path / "table.parquet"
    apply, words = FOOTERS[name]
    content = footer_of(data)
    apply(content)
    path.write_bytes(with_footer(data, content))
    if words is None:
        assert_frame_equal(read_table(path), FRAME)
        return
    uses = (read_table, parquet_schema, lambda path: read_columns(path, ["b"]))
    for use in uses:
        with pytest.raises(DataError, match=words):
            use(path)


def test_arrays_take_as_much_memory_as_their_schema_says(tmp_path, monkeypatch):
    """A missing array takes as much as any other, and its length is in no page."""
    path = tmp_path / "table.parquet"
    frame = pl.DataFrame({"a": pl.Series([None] * 5 + [[1, 2]], dtype=pl.Array(pl.Int64, 2))})
    frame.write_parquet(path, compression="uncompressed")
    assert_frame_equal(read_table(path), frame)
    data = path.read_bytes()
    encoded = pq.read_metadata(path).metadata[b"ARROW:schema"]
    schema = base64.b64decode(encoded)
    monkeypatch.setenv("OUTRULE_MEMORY", "4")
    for length, size in ((2**31 - 1, "103.1"), (2**27, "6.4")):
        place = schema.index((2).to_bytes(4, "little"), 100)
        hostile = schema[:place] + length.to_bytes(4, "little") + schema[place + 4 :]
        path.write_bytes(data.replace(encoded, base64.b64encode(hostile)))
        words = rf"^{re.escape(str(path))} unpacks to about {size} GB, more than half"
        with pytest.raises(DataError, match=words):
            read_table(path)
        with pytest.raises(DataError, match=words):
            read_columns(path, ["a"])


def test_arrays_of_arrays_have_no_length_that_overflows(tmp_path):
    path = tmp_path / "table.parquet"
    kind = pa.int64()
    for _ in range(3):
        kind = pa.list_(kind, 2**31 - 1)
    message = pa.schema({"a": kind}).serialize().to_pybytes()
    assert array_widths(message) == {"a": [1 << 40]}
    data = written()
    content = footer_of(data)
    content[5] = [{1: b"ARROW:schema", 2: base64.b64encode(message)}]
    path.write_bytes(with_footer(data, content))
    with pytest.raises(DataError, match=r"unpacks to about 263,\d+\.\d GB, more than half"):
        read_table(path)


def test_the_files_that_ended_the_process_are_refused():
    folder = Path(__file__).parent.parent / "fuzz" / "corpus" / "parquet"
    found = sorted(folder.glob("*@count*.parquet"))
    assert len(found) == 4
    for path in found:
        with pytest.raises(DataError, match=r"a page has -\d+ values, but \d+ are left\)\. Write"):
            read_table(path)
