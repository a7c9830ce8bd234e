"""How much memory there is for a table, and how much an Arrow file needs when it is unpacked."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from typing import IO

from outrule.data.flatbuffers import Flat, number_at
from outrule.errors import DataError
from outrule.memory import LIMIT, free_memory
from outrule.words import byte_size

ROW = 8  # bytes that a row costs at least
CHUNK = 1 << 20  # bytes of a stream that are read at once
DEEPEST = 100  # fields in each other
LONGEST = 1 << 40  # values of an array, which is more than any memory
FIXED_SIZE_LIST = 16  # a type of Arrow
FAULTS = (LookupError, ValueError, TypeError, struct.error)


def check_memory(needed: int, name: str, free: float | None = None) -> None:
    """Raise DataError for a table that needs more than half of the memory there is."""
    free = free_memory() if free is None else free
    if free is not None and needed > free / 2:
        raise DataError(
            f"{name} unpacks to about {byte_size(needed)}, more than half of the "
            f"{byte_size(free)} of available memory: split it, drop columns, or set {LIMIT} to the "
            "number of gigabytes that may be used."
        )


def read_stream(stream: IO[bytes], name: str) -> bytes:
    """All that a pipe or device has to say, which may be endless; DataError if it is too much."""
    free, kept = free_memory(), io.BytesIO()
    while chunk := stream.read(CHUNK):
        kept.write(chunk)
        check_memory(kept.tell(), name, free)
    return kept.getvalue()


def arrow_bytes(data: bytes) -> int:
    """The size in memory of the table in an Arrow file or stream."""
    total = rows = 0
    for start in _blocks(data) if data.startswith(b"ARROW1") else _messages(data):
        message, body = _message(data, start)
        kind, header = message.number(1, "B"), message.table(2)
        if kind not in (2, 3) or header is None:
            continue
        batch = header if kind == 3 else header.table(1)
        if batch is None:
            continue
        rows += batch.number(0, "q")
        packed = batch.table(3) is not None
        for offset, length in batch.structs(2, "qq"):
            total += _unpacked(data, body + offset, length) if packed else length
    return max(total, rows * ROW)


def array_widths(message: bytes) -> dict[str, list[int]]:
    """The values that a row of every column has where arrays have a fixed length, by leaf.

    A missing array takes as much memory as any other. ``message`` has an Arrow schema.
    """
    schema = Flat.root(message, 8 if message.startswith(b"\xff\xff\xff\xff") else 0).table(2)
    if schema is None:
        raise ValueError("its Arrow schema is missing")
    room = iter(range(len(message) // 8))  # a field has more bytes, and belongs to one place
    return {field.text(0): list(_widths(field, 1, 0, room)) for field in schema.tables(1)}


def _widths(field: Flat, width: int, depth: int, room: Iterator[int]) -> Iterator[int]:
    if depth > DEEPEST or next(room, None) is None:
        raise ValueError("its Arrow schema is not a tree, or too deep")
    kind = field.table(3) if field.number(2, "B") == FIXED_SIZE_LIST else None
    if kind is not None:
        width = min(width * max(kind.number(0, "i"), 1), LONGEST)
    is_leaf = True
    for child in field.tables(5):
        is_leaf = False
        yield from _widths(child, width, depth + 1, room)
    if is_leaf:
        yield width


def _unpacked(data: bytes, start: int, length: int) -> int:
    """The size of a compressed buffer, which begins with it; -1 says that it is not compressed."""
    if length == 0:
        return 0
    size = number_at(data, start, "q")
    return length if size == -1 else int(size)


def _messages(data: bytes) -> Iterator[int]:
    """Where the messages of a stream start."""
    at = 0
    while at + 8 <= len(data) and number_at(data, at + 4, "i") > 0:
        yield at
        message, body = _message(data, at)
        at = body + max(message.number(3, "q"), 0)


def _blocks(data: bytes) -> Iterator[int]:
    """Where the messages of a file start, as its footer has it."""
    length = number_at(data, len(data) - 10, "i")
    footer = Flat.root(data, len(data) - 10 - length)
    for field in (2, 3):
        yield from (offset for offset, _, _ in footer.structs(field, "qi4xq"))


def _message(data: bytes, start: int) -> tuple[Flat, int]:
    """A message, and where its body starts."""
    head = 8 if number_at(data, start, "I") == 0xFFFFFFFF else 4
    return Flat.root(data, start + head), start + head + number_at(data, start + head - 4, "i")
