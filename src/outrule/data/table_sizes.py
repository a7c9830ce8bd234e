"""How much memory a Parquet or Arrow file needs, read from its metadata before it is unpacked."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from typing import IO, Any

from outrule.errors import DataError
from outrule.memory import LIMIT, free_memory

ROW = 8  # bytes that a row costs at least
# By the physical types of Parquet; strings cost 16 bytes wherever their letters are.
WIDTHS = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8, 6: 16}
CHUNK = 1 << 20  # bytes of a stream that are read at once
DEEPEST = 32  # structures in each other
FAULTS = (LookupError, ValueError, TypeError, struct.error)


def check_memory(needed: int, name: str, free: float | None = None) -> None:
    """Raise DataError for a table that needs more than half of the memory there is."""
    free = free_memory() if free is None else free
    if free is not None and needed > free / 2:
        raise DataError(
            f"{name} unpacks to about {needed / 1e9:,.1f} GB, more than half of the "
            f"{free / 1e9:,.1f} GB of memory there is: split it, drop columns, or set {LIMIT} to "
            "the number of gigabytes that may be used."
        )


def read_stream(stream: IO[bytes], name: str) -> bytes:
    """All that a pipe or device has to say, which may be endless; DataError if it is too much."""
    free, kept = free_memory(), io.BytesIO()
    while chunk := stream.read(CHUNK):
        kept.write(chunk)
        check_memory(kept.tell(), name, free)
    return kept.getvalue()


def parquet_bytes(footer: bytes) -> int:
    """The size in memory of a table with this footer (thrift, without length and magic)."""
    content = _Thrift(footer).struct()
    widths = [
        one.get(2, 0) if one[1] == 7 else WIDTHS[one[1]] for one in content[2] if 1 in one
    ]  # of the leaves of the schema, in the order of the columns of a row group
    total = 0
    for group in content[4]:
        for width, column in zip(widths, group[1], strict=True):
            values = column[3]
            total += max(values[6], values[5] * width)
    return max(int(total), int(content[3]) * ROW)


class _Thrift:
    """Thrift's compact protocol as plain values: structures by field number, lists, numbers."""

    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        number = shift = 0
        while True:
            byte = self.byte()
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number
            if shift > 63:
                raise ValueError("a number is too long")

    def integer(self) -> int:
        number = self.varint()
        return (number >> 1) ^ -(number & 1)

    def text(self) -> bytes:
        length = self.varint()
        self.at += length
        if self.at > len(self.data):
            raise ValueError("a string is cut short")
        return self.data[self.at - length : self.at]

    def struct(self, depth: int = 0) -> dict[int, Any]:
        if depth > DEEPEST:
            raise ValueError("it is nested too deeply")
        found: dict[int, Any] = {}
        number = 0
        while head := self.byte():
            number = number + (head >> 4) if head >> 4 else self.integer()
            kind = head & 15
            found[number] = kind == 1 if kind in (1, 2) else self.value(kind, depth)
        return found

    def value(self, kind: int, depth: int) -> Any:
        if kind in (1, 2, 3):
            return self.byte()
        if kind in (4, 5, 6):
            return self.integer()
        if kind == 7:
            self.at += 8
            return None
        if kind == 8:
            return self.text()
        if kind in (9, 10):
            head = self.byte()
            length = head >> 4 if head >> 4 < 15 else self.varint()
            if length > len(self.data) - self.at:
                raise ValueError("a list is cut short")
            return [self.value(head & 15, depth + 1) for _ in range(length)]
        if kind == 12:
            return self.struct(depth + 1)
        raise ValueError(f"the type {kind} does not belong here")


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


def _unpacked(data: bytes, start: int, length: int) -> int:
    """The size of a compressed buffer, which begins with it; -1 says that it is not compressed."""
    if length == 0:
        return 0
    size = _number(data, start, "q")
    return length if size == -1 else int(size)


def _messages(data: bytes) -> Iterator[int]:
    """Where the messages of a stream start."""
    at = 0
    while at + 8 <= len(data) and _number(data, at + 4, "i") > 0:
        yield at
        message, body = _message(data, at)
        at = body + max(message.number(3, "q"), 0)


def _blocks(data: bytes) -> Iterator[int]:
    """Where the messages of a file start, as its footer has it."""
    length = _number(data, len(data) - 10, "i")
    footer = _Flat.root(data, len(data) - 10 - length)
    for field in (2, 3):
        yield from (offset for offset, _, _ in footer.structs(field, "qi4xq"))


def _message(data: bytes, start: int) -> tuple[_Flat, int]:
    """A message, and where its body starts."""
    head = 8 if _number(data, start, "I") == 0xFFFFFFFF else 4
    return _Flat.root(data, start + head), start + head + _number(data, start + head - 4, "i")


class _Flat:
    """A table of a flatbuffer."""

    def __init__(self, data: bytes, at: int):
        self.data, self.at = data, at

    @classmethod
    def root(cls, data: bytes, at: int) -> _Flat:
        return cls(data, at + _number(data, at, "I"))

    def place(self, field: int) -> int | None:
        """Where a field is; None if it has its default."""
        index = self.at - _number(self.data, self.at, "i")
        if 4 + 2 * field >= _number(self.data, index, "H"):
            return None
        offset = _number(self.data, index + 4 + 2 * field, "H")
        return self.at + offset if offset else None

    def number(self, field: int, kind: str) -> int:
        place = self.place(field)
        return 0 if place is None else _number(self.data, place, kind)

    def table(self, field: int) -> _Flat | None:
        place = self.place(field)
        return None if place is None else _Flat.root(self.data, place)

    def structs(self, field: int, kind: str) -> Iterator[tuple[int, ...]]:
        place = self.place(field)
        if place is not None:
            place += _number(self.data, place, "I")
            size = struct.calcsize(f"<{kind}")
            for k in range(_number(self.data, place, "I")):
                yield _numbers(self.data, place + 4 + k * size, kind)


def _numbers(data: bytes, at: int, kind: str) -> tuple[int, ...]:
    if at < 0:  # would count from the end
        raise ValueError("a place is before the start")
    return struct.unpack_from(f"<{kind}", data, at)


def _number(data: bytes, at: int, kind: str) -> int:
    return _numbers(data, at, kind)[0]
