"""What a Parquet file says about itself, checked before Polars reads it.

Polars reserves memory for as many values as the header of a page says, and ends the whole process
if there is not that much. So the headers of all pages must agree with the end of the file, and that
with itself. Only headers are read, not what is in the pages.
"""

from __future__ import annotations

import struct
from base64 import b64decode
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outrule.data.parquet_shapes import (
    ELEMENT_FIELDS,
    FILE_ROOT,
    FOOTER_PLACES,
    HEADER_PLACES,
    PAGE_ROOT,
    SHAPES,
)
from outrule.data.table_sizes import ROW, array_widths
from outrule.kernels import pages
from outrule.kernels.thrift import DEEPEST, FROM, KEPT, PLACE, STACK, VALUE, read_struct

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]

MAGIC = b"PAR1"
ARROW_SCHEMA = b"ARROW:schema"
# Bytes of a value by physical type, in memory; strings cost 16 wherever their letters are.
WIDTHS = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8, 6: 16}
STORED = WIDTHS | {6: 4}  # and in a dictionary, where a string has its length before it
FIXED_LENGTH, REPEATED = 7, 2
MOST_DEPTH = 100  # of a schema, which Polars reads by recursion
SPARE = 1 << 20  # bytes; writers differ in what they count as the size of a column
WORDS = {
    pages.HEADER: "the header of a page is damaged",
    pages.SIZE: "a page has {0:,} bytes, but {1:,} are left",
    pages.SUM: "its pages unpack to {0:,} bytes, but at most {1:,} are expected",
    pages.COUNT: "a page has {0:,} values, but {1:,} are left",
    pages.KIND: "a page has type {0}, which is not allowed there",
    pages.LEVELS: "a page has {0:,} bytes of levels, but only {1:,} bytes in all",
}


@dataclass(frozen=True)
class Leaf:
    """A column of numbers or strings; a nested column has several."""

    name: str  # of the whole column
    width: int  # bytes of a value in memory
    stored: int  # and at least in a dictionary
    is_repeated: bool
    array: int = 1  # values in a row, if it has arrays of a fixed length


@dataclass(frozen=True)
class Footer:
    """The end of a Parquet file: its leaves, and what it says of their chunks.

    Chunk c has the values of leaf c % len(leaves) in row group c // len(leaves).
    """

    leaves: tuple[Leaf, ...]
    group_rows: Integers
    starts: Integers  # of the chunks, in bytes of the file
    ends: Integers
    values: Integers
    unpacked: Integers  # bytes

    def size(self, columns: Collection[str] | None = None) -> int:
        """The bytes in memory of some columns, or of all."""
        values = np.maximum(self.values.astype(float), 1.0 * self._rows * self._by_leaf("array"))
        needed = np.maximum(self.unpacked, values * self._by_leaf("width"))
        n_rows = sum(self.group_rows.tolist())
        return max(int(needed[self._chunks(columns)].sum()), int(n_rows * ROW))

    def check_pages(self, data: Bytes, columns: Collection[str] | None = None) -> None:
        """Raise ValueError for a page of some columns, or of all, that contradicts the footer."""
        chosen = self._chunks(columns)
        for chunk in chosen[self.ends[chosen] > len(data)][:1].tolist():
            raise ValueError(f"{self._place(chunk)}: it is cut short")
        fault, number, *numbers = pages.find_fault(
            data,
            self.starts[chosen],
            self.ends[chosen],
            self.values[chosen],
            2 * self.unpacked[chosen] + SPARE,
            self._by_leaf("stored")[chosen],
            SHAPES,
            PAGE_ROOT,
            HEADER_PLACES,
        )
        if fault != pages.FINE:
            words = WORDS[fault].format(*numbers)
            raise ValueError(f"{self._place(int(chosen[number]))}: {words}")

    def check_counts(self) -> None:
        """Raise ValueError where rows, values and sizes do not fit together."""
        is_short = self.values < self._rows
        is_long = (self.values > self._rows) & ~self._by_leaf("is_repeated").astype(bool)
        is_odd = (self.starts < 0) | (self.ends < self.starts) | (self.unpacked < 0)
        for fault, words in (
            (is_short | is_long, "its values do not match the rows"),
            (is_odd | (self.unpacked >> 60 > 0), "it has an impossible size"),
        ):
            if fault.any():
                raise ValueError(f"{self._place(int(fault.argmax()))}: {words}")

    @property
    def _rows(self) -> Integers:
        return np.repeat(self.group_rows, len(self.leaves))

    def _by_leaf(self, name: str) -> Integers:
        one = np.array([getattr(leaf, name) for leaf in self.leaves], dtype=np.int64)
        return np.resize(one, len(self.starts))

    def _chunks(self, columns: Collection[str] | None) -> Integers:
        chosen = [columns is None or leaf.name in columns for leaf in self.leaves]
        return np.flatnonzero(np.resize(np.array(chosen, dtype=bool), len(self.starts)))

    def _place(self, chunk: int) -> str:
        group, leaf = divmod(chunk, len(self.leaves))
        return f"column {self.leaves[leaf].name!r}, row group {group + 1}"


def read_footer(data: Bytes) -> Footer:
    """The end of a file; ValueError if it is damaged or contradicts itself."""
    length = int.from_bytes(data[-8:-4].tobytes(), "little")
    if data[-4:].tobytes() != MAGIC or length > len(data) - 12:
        raise ValueError("its footer is missing")
    found = _Found(data[len(data) - 8 - length : len(data) - 8])
    leaves = _leaves(found, _arrays(found))
    n_rows, group_rows = found.column("n_rows"), found.column("group_rows")
    n_chunks = found.column("group_chunks")
    if len(n_rows) != 1 or len(n_chunks) != len(group_rows) or (n_chunks != len(leaves)).any():
        raise ValueError("its row groups do not match the columns of its schema")
    if (group_rows < 0).any() or sum(group_rows.tolist()) != n_rows[0]:
        raise ValueError("its row groups do not match the rows of the table")
    total = len(leaves) * len(group_rows)
    values, unpacked, packed, starts = (
        found.column(name, total) for name in ("values", "unpacked", "packed", "start")
    )
    # A dictionary, if there is one, comes first.
    has, first = np.searchsorted(found.owners("values"), found.owners("dictionary")), starts.copy()
    first[has] = found.column("dictionary")
    starts = np.where(first > 0, first, starts)
    footer = Footer(leaves, group_rows, starts, starts + packed, values, unpacked)
    footer.check_counts()
    return footer


class _Found:
    """What is wanted of a footer."""

    def __init__(self, footer: Bytes):
        stack = np.empty((DEEPEST, STACK), np.int64)
        kept = np.empty((len(footer) // 8 + 64, KEPT), np.int64)
        for _ in range(2):
            at, n = read_struct(footer, 0, len(footer), SHAPES, FILE_ROOT, stack, kept)
            if at < 0:
                raise ValueError("its footer is damaged")
            if n <= len(kept):
                break
            kept = np.empty((n, KEPT), np.int64)
        self.footer, self.rows = footer, kept[:n]

    def column(self, name: str, length: int | None = None) -> Integers:
        """The values of a field in all structures that have it, which must be as many as said."""
        found: Integers = self._of(name)[:, VALUE]
        if length is not None and len(found) != length:
            raise ValueError("its footer lacks a field")
        return found

    def owners(self, name: str) -> Integers:
        found: Integers = self._of(name)[:, FROM]
        return found

    def _of(self, name: str) -> Integers:
        found: Integers = self.rows[self.rows[:, PLACE] == FOOTER_PLACES[name]]
        return found

    def elements(self) -> list[dict[str, Any]]:
        """The nodes of the schema."""
        found: dict[int, dict[str, Any]] = {}
        for place, owner, value in self.rows[
            np.isin(self.rows[:, PLACE], list(ELEMENT_FIELDS))
        ].tolist():
            name = ELEMENT_FIELDS[place]
            one = self._text(value).decode() if name == "name" else value
            found.setdefault(owner, {})[name] = one
        return list(found.values())

    def notes(self) -> dict[bytes, bytes]:
        """What is written beside the table."""
        content = {owner: value for _, owner, value in self._of("content").tolist()}
        return {
            self._text(name): self._text(content[owner])
            for _, owner, name in self._of("note").tolist()
            if owner in content
        }

    def _text(self, value: int) -> bytes:
        start, length = divmod(value, 1 << 32)
        return self.footer[start : start + length].tobytes()


def _arrays(found: _Found) -> dict[str, list[int]]:
    """The lengths of arrays, which only the schema of Arrow knows."""
    encoded = found.notes().get(ARROW_SCHEMA)
    try:
        return {} if encoded is None else array_widths(b64decode(encoded, validate=True))
    except (IndexError, struct.error):
        raise ValueError("its Arrow schema is cut short") from None


def _leaves(found: _Found, arrays: dict[str, list[int]]) -> tuple[Leaf, ...]:
    """The leaves of the schema, which is a tree with parents before their children."""
    elements, leaves = found.elements(), []
    n_elements = found.column("n_elements", 1)[0]
    if len(elements) != n_elements or not all("name" in element for element in elements):
        raise ValueError("its schema lacks names")
    pending: list[tuple[int, int, str | None, bool]] = [(1, 0, None, False)]
    for number, element in enumerate(elements):
        if not pending:
            raise ValueError("its schema is not a tree")
        n, depth, column, is_repeated = pending.pop()  # siblings to come, with what they share
        if n > 1:
            pending.append((n - 1, depth, column, is_repeated))
        if column is None and depth:
            column = str(element["name"])
        is_repeated |= element.get("repetition") == REPEATED
        children = element.get("children", 0)
        if depth > MOST_DEPTH or not 0 <= children < len(elements):
            raise ValueError("its schema is too deep, or not a tree")
        if children:
            pending.append((children, depth + 1, column, is_repeated))
        elif number:
            leaves.append(_leaf(column or "", element, is_repeated))
    if pending:
        raise ValueError("its schema lacks columns")
    counts = Counter(leaf.name for leaf in leaves)
    left = {
        name: iter(some if len(some) == counts[name] else counts[name] * [max(some, default=1)])
        for name, some in arrays.items()
    }
    return tuple(replace(leaf, array=next(left.get(leaf.name, iter(())), 1)) for leaf in leaves)


def _leaf(name: str, element: dict[str, Any], is_repeated: bool) -> Leaf:
    kind, length = element.get("type"), element.get("length", 0)
    if kind == FIXED_LENGTH and 0 <= length < 1 << 31:
        return Leaf(name, length, max(length, 1), is_repeated)
    if kind not in WIDTHS:
        raise ValueError(f"column {name!r} has a type that does not exist")
    return Leaf(name, WIDTHS[kind], STORED[kind], is_repeated)
