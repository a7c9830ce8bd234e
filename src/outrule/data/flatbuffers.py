"""Flatbuffers, in which the metadata of Arrow are written, read without trust in what they say."""

from __future__ import annotations

import struct
from collections.abc import Iterator


class Flat:
    """A table of a flatbuffer."""

    def __init__(self, data: bytes, at: int):
        self.data, self.at = data, at

    @classmethod
    def root(cls, data: bytes, at: int) -> Flat:
        return cls(data, at + number_at(data, at, "I"))

    def place(self, field: int) -> int | None:
        """Where a field is; None if it has its default."""
        index = self.at - number_at(self.data, self.at, "i")
        if 4 + 2 * field >= number_at(self.data, index, "H"):
            return None
        offset = number_at(self.data, index + 4 + 2 * field, "H")
        return self.at + offset if offset else None

    def number(self, field: int, kind: str) -> int:
        place = self.place(field)
        return 0 if place is None else number_at(self.data, place, kind)

    def table(self, field: int) -> Flat | None:
        place = self.place(field)
        return None if place is None else Flat.root(self.data, place)

    def tables(self, field: int) -> Iterator[Flat]:
        place = self.place(field)
        if place is not None:
            place += number_at(self.data, place, "I")
            for k in range(number_at(self.data, place, "I")):
                yield Flat.root(self.data, place + 4 + 4 * k)

    def text(self, field: int) -> str:
        place = self.place(field)
        if place is None:
            return ""
        place += number_at(self.data, place, "I")
        return self.data[place + 4 : place + 4 + number_at(self.data, place, "I")].decode()

    def structs(self, field: int, kind: str) -> Iterator[tuple[int, ...]]:
        place = self.place(field)
        if place is not None:
            place += number_at(self.data, place, "I")
            size = struct.calcsize(f"<{kind}")
            for k in range(number_at(self.data, place, "I")):
                yield numbers(self.data, place + 4 + k * size, kind)


def numbers(data: bytes, at: int, kind: str) -> tuple[int, ...]:
    if at < 0:  # would count from the end
        raise ValueError("a place is before the start")
    return struct.unpack_from(f"<{kind}", data, at)


def number_at(data: bytes, at: int, kind: str) -> int:
    return numbers(data, at, kind)[0]
