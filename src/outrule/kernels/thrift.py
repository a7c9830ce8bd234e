"""Thrift's compact protocol, in which the metadata of Parquet files are written.

Readers such as Polars' know a field by its number and do not look at its type, so that a damaged
type makes them read other numbers than another reader. Here a known field of another type, or one
that is there twice, is a fault.

What is known are shapes: row s of a table has the shape of every field of structure s, by its
number. Structure 0 knows nothing. A shape is 0 (unknown, to be skipped), a plain one, STRUCT plus
the number of a structure, or LIST plus the shape of the elements; plus KEEP for what is wanted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from outrule.kernels.compiling import njit
from outrule.types import Bytes, Integers

N_FIELDS = 32  # with a higher number they are unknown
MOST_FIELDS = 1 << 15
DEEPEST = 64  # structures and lists in each other
BOOL, BYTE, INTEGER, TEXT = 1, 2, 3, 4
STRUCT, LIST, KEEP = 1 << 8, 1 << 16, 1 << 20
# What a value of each kind can be where a shape says what it must be; -1 is nothing.
WHOLE = (-1, BOOL, BOOL, BYTE, INTEGER, INTEGER, INTEGER, -1)
FAMILY = (*WHOLE, TEXT, LIST, LIST, -1, STRUCT, -1, -1, -1)
CUT_SHORT, DAMAGED = -1, -2
# Columns of the stack: elements of a list that are left (-1 in a structure), shape of its elements
# or number of the structure, type of the elements or last field, fields seen, number of the owner.
LEFT, SHAPE, LAST, SEEN, OWNER, STACK = 0, 1, 2, 3, 4, 5
PLACE, FROM, VALUE, KEPT = 0, 1, 2, 3  # columns of what is kept


@njit(nogil=True, cache=True)
def read_struct(
    data: Bytes, at: int, end: int, shapes: Integers, root: int, stack: Integers, kept: Integers
) -> tuple[int, int]:
    """Where a structure ends (or CUT_SHORT, DAMAGED), and how many of its values are wanted.

    A row of ``kept`` has a place (number of the structure's shape * N_FIELDS + field), the number
    of the structure in the order of the bytes, and the value: an integer, the length of a list, or
    start * 2**32 + length of a string. More than fit are counted, not written.
    """
    n, depth, n_structs = 0, 0, 1
    stack[0, LEFT], stack[0, SHAPE], stack[0, LAST] = -1, root, 0
    stack[0, SEEN], stack[0, OWNER] = 0, 0
    while depth >= 0:
        left, in_shape = stack[depth, LEFT], stack[depth, SHAPE]
        place = -1
        if left == 0:
            depth -= 1
            continue
        if left > 0:
            stack[depth, LEFT] = left - 1
            kind, shape = stack[depth, LAST], in_shape
        else:
            if at >= end:
                return CUT_SHORT, n
            head = np.int64(data[at])
            at += 1
            if head == 0:
                depth -= 1
                continue
            kind, number = head & 15, stack[depth, LAST] + (head >> 4)
            if head >> 4 == 0:
                number, at = _integer(data, at, end)
                if at < 0:
                    return at, n
            if number <= 0 or number >= MOST_FIELDS:
                return DAMAGED, n
            stack[depth, LAST] = number
            shape = np.int64(0)
            if number < N_FIELDS:
                if stack[depth, SEEN] >> number & 1:
                    return DAMAGED, n
                stack[depth, SEEN] |= np.int64(1) << number
                shape = shapes[in_shape, number]
                place = in_shape * N_FIELDS + number
        wanted, shape = shape & KEEP, shape & ~KEEP
        family = LIST if shape >= LIST else STRUCT if shape >= STRUCT else shape
        if shape != 0 and family != FAMILY[kind]:
            return DAMAGED, n
        value = np.int64(0)
        if kind == 1 or kind == 2:
            at += left > 0  # in a list it has a byte
        elif 4 <= kind <= 6:
            value, at = _integer(data, at, end)
        elif kind == 8:
            length, at = _varint(data, at, end)
            if at >= 0:
                if length < 0 or length > end - at:
                    return CUT_SHORT, n
                value = (np.int64(at) << 32) + length
                at += length
        elif kind == 12:
            depth += 1
            if depth == DEEPEST:
                return DAMAGED, n
            stack[depth, LEFT], stack[depth, LAST], stack[depth, SEEN] = -1, 0, 0
            stack[depth, SHAPE], stack[depth, OWNER] = max(shape - STRUCT, 0), n_structs
            n_structs += 1
            continue
        elif kind == 9 or kind == 10:
            if at >= end:
                return CUT_SHORT, n
            head = np.int64(data[at])
            at += 1
            value = head >> 4
            if value == 15:
                value, at = _varint(data, at, end)
            if at >= 0 and (value < 0 or value > end - at):
                return CUT_SHORT, n
            depth += 1
            if depth == DEEPEST:
                return DAMAGED, n
            stack[depth, LEFT], stack[depth, LAST] = value, head & 15
            stack[depth, SHAPE] = max(shape - LIST, 0)
        elif kind == 3:
            at += 1
        elif kind == 7:
            at += 8
        else:
            return DAMAGED, n
        if at < 0:
            return at, n
        if wanted and place >= 0:
            if n < len(kept):
                owner = stack[depth - 1 if kind == 9 or kind == 10 else depth, OWNER]
                kept[n, PLACE], kept[n, FROM], kept[n, VALUE] = place, owner, value
            n += 1
    return (at if at <= end else CUT_SHORT), n


@njit(nogil=True, cache=True)
def _integer(data: Bytes, at: int, end: int) -> tuple[Any, int]:
    """A signed number, and where it ends."""
    number, at = _varint(data, at, end)
    return (number >> 1 & np.int64((1 << 63) - 1)) ^ -(number & 1), at


@njit(nogil=True, cache=True)
def _varint(data: Bytes, at: int, end: int) -> tuple[Any, int]:
    """A number of 64 bits, and where it ends (or CUT_SHORT, DAMAGED)."""
    number = np.int64(0)
    for shift in range(0, 70, 7):
        if at >= end:
            return number, CUT_SHORT
        byte = np.int64(data[at])
        at += 1
        if shift == 63 and byte > 1:
            break
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    return number, DAMAGED
