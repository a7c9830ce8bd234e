"""Headers of the pages of Parquet files, compared with what the end of the file says of them."""

from __future__ import annotations

import numpy as np

from outrule.kernels.compiling import njit
from outrule.kernels.thrift import DEEPEST, KEPT, PLACE, STACK, VALUE, read_struct
from outrule.types import Bytes, Integers

# What is read of a header, in the order of ``places``.
TYPE, UNPACKED, PACKED, N_VALUES, N_WORDS, N_VALUES_2, N_NULLS, DEFINITIONS, REPETITIONS = range(9)
N_PLACES = 9
DATA, DICTIONARY, DATA_2 = 0, 2, 3  # types of pages
FINE, HEADER, SIZE, SUM, COUNT, KIND, LEVELS = range(7)  # what is wrong
MOST = (1 << 31) - 1  # what readers keep of a number in a header
MISSING = -(1 << 62)


@njit(nogil=True, cache=True)
def find_fault(
    data: Bytes,
    starts: Integers,
    ends: Integers,
    values: Integers,
    most_unpacked: Integers,
    widths: Integers,
    shapes: Integers,
    root: int,
    places: Integers,
) -> tuple[int, int, int, int]:
    """The first fault in the pages of many chunks, the chunk, and two numbers to say about it.

    Chunk c has the bytes from starts[c] to ends[c], which are in the data, as many values and
    unpacked bytes as said there, and a dictionary whose words have at least widths[c] bytes. Reads
    only the headers. Cost: O(their bytes).
    """
    stack, kept = np.empty((DEEPEST, STACK), np.int64), np.empty((4 * N_PLACES, KEPT), np.int64)
    head = np.empty(N_PLACES, np.int64)
    for chunk in range(len(starts)):
        at, end, left, unpacked = starts[chunk], ends[chunk], values[chunk], np.int64(0)
        is_first = True
        while left > 0 or (is_first and at < end):
            at, n = read_struct(data, at, end, shapes, root, stack, kept)
            if at < 0 or n > len(kept):
                return HEADER, chunk, 0, 0
            head[:] = MISSING
            for row in range(n):
                for k in range(N_PLACES):
                    if kept[row, PLACE] == places[k]:
                        head[k] = kept[row, VALUE]
            packed, full = head[PACKED], head[UNPACKED]
            if packed == MISSING or full == MISSING:
                return HEADER, chunk, 0, 0
            if min(packed, full) < 0 or max(packed, full) > MOST or packed > end - at:
                return SIZE, chunk, packed, end - at
            at += packed
            unpacked += full
            if unpacked > most_unpacked[chunk]:
                return SUM, chunk, unpacked, most_unpacked[chunk]
            kind = head[TYPE]
            if kind == DICTIONARY and is_first:
                count, most = head[N_WORDS], full // widths[chunk]
            elif kind == DATA:
                count, most = head[N_VALUES], left
            elif kind == DATA_2:
                count, most = head[N_VALUES_2], left
            else:
                return KIND, chunk, kind, 0
            if count == MISSING:
                return HEADER, chunk, 0, 0
            if count < 0 or count > most:
                return COUNT, chunk, count, most
            if kind != DICTIONARY:
                left -= count
            if kind == DATA_2:
                levels = (head[DEFINITIONS], head[REPETITIONS])
                if min(levels) < 0 or sum(levels) > min(packed, full):
                    return LEVELS, chunk, max(levels), packed
                if head[N_NULLS] < 0 or head[N_NULLS] > count:
                    return COUNT, chunk, head[N_NULLS], count
            is_first = False
    return FINE, 0, 0, 0
