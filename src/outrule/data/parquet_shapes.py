"""The structures of parquet.thrift, by the numbers of their fields, and which fields we want.

What is not here is skipped, by Polars too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from outrule.kernels.thrift import BOOL, BYTE, INTEGER, KEEP, LIST, N_FIELDS, STRUCT, TEXT

Shape = Any  # a plain one, a list with the shape of its elements, or shapes by field number

STATISTICS = {1: TEXT, 2: TEXT, 3: INTEGER, 4: INTEGER, 5: TEXT, 6: TEXT, 7: BOOL, 8: BOOL}
PAIR = {1: TEXT, 2: TEXT}
EMPTY: dict[int, Shape] = {}
TIME = {1: BOOL, 2: {1: EMPTY, 2: EMPTY, 3: EMPTY}}
LOGICAL_TYPE: dict[int, Shape] = dict.fromkeys((1, 2, 3, 4, 6, *range(11, 16)), EMPTY) | {
    5: {1: INTEGER, 2: INTEGER},
    7: TIME,
    8: TIME,
    10: {1: BYTE, 2: BOOL},
}
ELEMENT = dict.fromkeys(range(1, 10), INTEGER) | {4: TEXT, 10: LOGICAL_TYPE}
COLUMN = dict.fromkeys((1, 4, 5, 6, 7, 9, 10, 11, 14, 15), INTEGER) | {
    2: [INTEGER],
    3: [TEXT],
    8: [PAIR],
    12: STATISTICS,
}
CHUNK = dict.fromkeys((2, 4, 5, 6, 7), INTEGER) | {1: TEXT, 3: COLUMN}
SORTING = {1: INTEGER, 2: BOOL, 3: BOOL}
GROUP = dict.fromkeys((2, 3, 5, 6, 7), INTEGER) | {1: [CHUNK], 4: [SORTING]}
ORDER = {1: EMPTY, 2: EMPTY}
NOTE = {1: TEXT, 2: TEXT}
FILE = {1: INTEGER, 2: [ELEMENT], 3: INTEGER, 4: [GROUP], 5: [NOTE], 6: TEXT, 7: [ORDER]}
HEADER = dict.fromkeys((1, 2, 3, 4), INTEGER)
DATA_PAGE = {1: INTEGER, 2: INTEGER, 3: INTEGER, 4: INTEGER, 5: STATISTICS}
DICTIONARY_PAGE = {1: INTEGER, 2: INTEGER, 3: BOOL}
DATA_PAGE_2 = dict.fromkeys(range(1, 7), INTEGER) | {7: BOOL, 8: STATISTICS}
PAGE = HEADER | {5: DATA_PAGE, 6: EMPTY, 7: DICTIONARY_PAGE, 8: DATA_PAGE_2}

ROOTS: tuple[Shape, ...] = (FILE, PAGE)
WANTED: dict[str, tuple[Shape, int]] = {
    "n_elements": (FILE, 2),
    "n_rows": (FILE, 3),
    "type": (ELEMENT, 1),
    "length": (ELEMENT, 2),
    "repetition": (ELEMENT, 3),
    "name": (ELEMENT, 4),
    "children": (ELEMENT, 5),
    "group_chunks": (GROUP, 1),
    "group_rows": (GROUP, 3),
    "values": (COLUMN, 5),
    "unpacked": (COLUMN, 6),
    "packed": (COLUMN, 7),
    "start": (COLUMN, 9),
    "dictionary": (COLUMN, 11),
    "note": (NOTE, 1),
    "content": (NOTE, 2),
}
WANTED_OF_PAGE: tuple[tuple[Shape, int], ...] = (  # in the order of kernels.pages
    *((PAGE, 1), (PAGE, 2), (PAGE, 3), (DATA_PAGE, 1), (DICTIONARY_PAGE, 1)),
    *((DATA_PAGE_2, 1), (DATA_PAGE_2, 2), (DATA_PAGE_2, 5), (DATA_PAGE_2, 6)),
)


def _numbered(shape: Shape, found: list[Shape]) -> list[Shape]:
    """The structures in a shape, each once, behind those that are found."""
    if isinstance(shape, list):
        return _numbered(shape[0], found)
    if isinstance(shape, dict) and not any(shape is one for one in found):
        found.append(shape)
        for part in shape.values():
            _numbered(part, found)
    return found


_STRUCTURES: list[Shape] = [EMPTY]  # structure 0 knows nothing
for _root in ROOTS:
    _numbered(_root, _STRUCTURES)


def _number(shape: Shape) -> int:
    return next(k for k, one in enumerate(_STRUCTURES) if one is shape)


def _code(shape: Shape) -> int:
    if isinstance(shape, list):
        return LIST + _code(shape[0])
    return STRUCT + _number(shape) if isinstance(shape, dict) else int(shape)


def _place(structure: Shape, field: int) -> int:
    return _number(structure) * N_FIELDS + field


SHAPES: NDArray[np.int64] = np.zeros((len(_STRUCTURES), N_FIELDS), np.int64)
for _structure in _STRUCTURES:
    for _field, _part in _structure.items():
        SHAPES[_number(_structure), _field] = _code(_part)
for _structure, _field in (*WANTED.values(), *WANTED_OF_PAGE):
    SHAPES[_number(_structure), _field] += KEEP
SHAPES.setflags(write=False)
FILE_ROOT, PAGE_ROOT = map(_number, ROOTS)
FOOTER_PLACES = {name: _place(*where) for name, where in WANTED.items()}
ELEMENT_FIELDS = {
    FOOTER_PLACES[name]: name for name in ("type", "length", "repetition", "name", "children")
}
HEADER_PLACES = np.array([_place(*where) for where in WANTED_OF_PAGE], np.int64)
