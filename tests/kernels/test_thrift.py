"""Metadata of Parquet files are read as by the slow reader, whatever the bytes are."""

import io

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
import slow_thrift
from hypothesis import given, strategies as st

from fuzz.mutations import damage_bytes
from outrule.data.parquet import read_footer
from outrule.data.parquet_shapes import FILE, FILE_ROOT, HEADER_PLACES, PAGE, PAGE_ROOT, SHAPES
from outrule.kernels import pages
from outrule.kernels.thrift import (
    DEEPEST,
    INTEGER,
    KEEP,
    KEPT,
    LIST,
    N_FIELDS,
    STACK,
    STRUCT,
    TEXT,
    read_struct,
)


def read(data, root, shapes=SHAPES, room=50):
    """Where the structure ends, and what is wanted; None if it is damaged."""
    stack, kept = np.empty((DEEPEST, STACK), np.int64), np.empty((room, KEPT), np.int64)
    data = np.frombuffer(data, np.uint8)
    at, n = read_struct(data, 0, len(data), shapes, root, stack, kept)
    return (at, kept[:n].tolist()) if at >= 0 else None


def files():
    frame = pl.DataFrame(
        {"a": range(40), "b": [None, "x", "a longer string"] * 13 + ["y"], "c": [[1.0, None]] * 40}
    )
    for compression in ("zstd", "uncompressed"):
        stream = io.BytesIO()
        frame.write_parquet(stream, compression=compression, row_group_size=15, data_page_size=64)
        yield stream.getvalue()
    for version in ("1.0", "2.0"):
        stream = io.BytesIO()
        pq.write_table(frame.to_arrow(), stream, data_page_version=version, data_page_size=64)
        yield stream.getvalue()


FILES = list(files())
FOOTERS = [data[-8 - int.from_bytes(data[-8:-4], "little") : -8] for data in FILES]
HEADERS = [
    data[start : start + 90]
    for data in FILES
    for start in read_footer(np.frombuffer(data, np.uint8)).starts.tolist()
]
damaged = st.tuples(st.sampled_from(HEADERS + FOOTERS), st.integers(0, 2**32)).map(
    lambda drawn: damage_bytes(drawn[0], np.random.default_rng(drawn[1]))
)


@given(st.binary(max_size=60) | damaged, st.sampled_from([(FILE_ROOT, FILE), (PAGE_ROOT, PAGE)]))
def test_a_structure_ends_where_the_slow_reader_says(data, root):
    number, shape = root
    reader, expected = slow_thrift.Reader(data), None
    try:
        reader.struct(shape)
        expected = reader.at
    except (ValueError, IndexError):
        pass
    found = read(data, number)
    assert (found and found[0]) == expected


@given(st.sampled_from(HEADERS), st.integers(0, 2**32))
def test_the_wanted_numbers_are_those_of_the_slow_reader(data, seed):
    if seed % 2:
        data = damage_bytes(data, np.random.default_rng(seed))
    if (found := read(data, PAGE_ROOT)) is None:
        return
    head = slow_thrift.Reader(data).struct(PAGE)
    expected = []
    for page, fields in ((None, (1, 2, 3)), (5, (1,)), (7, (1,)), (8, (1, 2, 5, 6))):
        part = head if page is None else head.get(page, {})
        expected += [part.get(field) for field in fields]
    values = {place: value for place, _, value in found[1]}
    assert [values.get(place) for place in HEADER_PLACES.tolist()] == expected


def test_lists_and_strings_are_kept_with_their_owners():
    shapes = np.zeros((3, N_FIELDS), np.int64)
    shapes[1, 1], shapes[2, 1] = KEEP + LIST + STRUCT + 2, KEEP + INTEGER
    shapes[2, 2] = KEEP + TEXT
    data = b"\x19\x3c" + b"\x16\x05\x00" + b"\x28\x02ab\x00" + b"\x16\x08\x18\x00\x00" + b"\x00"
    at, kept = read(data, 1, shapes)
    one, other = 2 * N_FIELDS + 1, 2 * N_FIELDS + 2
    assert at == len(data)
    assert kept == [
        [N_FIELDS + 1, 0, 3],
        [one, 1, -3],
        [other, 2, (7 << 32) + 2],
        [one, 3, 4],
        [other, 3, 14 << 32],
    ]
    assert read(data, 1, shapes, room=2)[0] == len(data)  # what does not fit is only counted
    assert all(read(data[:k], 1, shapes) is None for k in range(len(data)))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x15\x00\x05\x02\x00\x00", "the same field twice"),
        (b"\x18\x01a\x00", "a string instead of a number"),
        (b"\x11\x00", "a boolean instead of a number"),
        (b"\x13\x00\x00", "a byte instead of a number"),
        (b"\x17" + bytes(9), "a double instead of a number"),
        (b"\x55\x00\x00", "a number instead of a structure"),
        (b"\x15" + b"\xff" * 11 + b"\x00\x00", "a number of more than 64 bits"),
        (b"\x15" + b"\x80" * 9 + b"\x02\x00", "a number of 65 bits"),
        (b"\x05\x01\x00\x00", "a field with a negative number"),
        (b"\x1b\x00\x00", "a map"),
        (b"\xfc" * 70 + bytes(80), "too deep"),
        (b"\xf9\xf3\xff\xff\xff\xff\x0f\x00", "a list that is longer than the data"),
    ],
)
def test_what_another_reader_could_read_differently_is_damage(data, why):
    assert read(data, PAGE_ROOT) is None, why


@pytest.mark.parametrize("data", [b"\x00", b"\xf9\x00\x00", b"\xf7" + bytes(9), b"\xf3\x07\x00"])
def test_unknown_fields_are_skipped(data):
    assert read(data, PAGE_ROOT) == (len(data), [])


def faults(data, footer, unpacked):
    """The chunks with a fault, each looked at alone."""
    widths = np.array([leaf.stored for leaf in footer.leaves])
    rows = (footer.starts, footer.ends, footer.values, unpacked)
    for chunk in range(len(footer.starts)):
        one = [row[chunk : chunk + 1].copy() for row in rows]
        width = widths[chunk % len(widths) :][:1].copy()
        given = (np.frombuffer(data, np.uint8), *one, width, SHAPES, PAGE_ROOT, HEADER_PLACES)
        fault, *_ = pages.find_fault(*given)
        plain = [int(row[0]) for row in one]
        yield fault != pages.FINE, slow_thrift.is_sound(data, PAGE, *plain, int(width[0]))


@given(st.sampled_from(FILES), st.integers(0, 2**32), st.booleans())
def test_faults_of_pages_are_found_as_by_the_slow_reader(data, seed, is_tight):
    footer = read_footer(np.frombuffer(data, np.uint8))
    generator = np.random.default_rng(seed)
    end = int(footer.ends.max())
    hurt = data
    if seed % 5:
        while len(hurt := damage_bytes(data[:end], generator)) < end:
            pass
        hurt = hurt[:end]
    most = footer.unpacked // 2 if is_tight else 2 * footer.unpacked
    found = list(faults(hurt, footer, most))
    assert all(fault is not sound for fault, sound in found)
    if not seed % 5 and not is_tight:
        assert not any(fault for fault, _ in found)
