"""Thrift's compact protocol and the pages of Parquet files, slow and obvious.

Shapes are nested: 1 for a boolean, 2 a byte, 3 an integer, 4 a string, a list with the shape of its
elements, or shapes by the numbers of fields.
"""

TYPES = {1: {1, 2}, 2: {3}, 3: {4, 5, 6}, 4: {8}}
DEEPEST = 63


class Reader:
    """Any fault is a ValueError, or an IndexError where the bytes end."""

    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def varint(self):
        number = 0
        for k in range(10):
            byte = self.byte()
            number += (byte % 128) << 7 * k
            if byte < 128:
                break
        else:
            raise ValueError("endless")
        if number >= 2**64:
            raise ValueError("too large")
        return number

    def integer(self):
        number = self.varint()
        return -(number // 2) - 1 if number % 2 else number // 2

    def struct(self, shape, depth=0):
        found, number, seen = {}, 0, set()
        while head := self.byte():
            number = number + head // 16 if head // 16 else self.integer()
            if not 0 < number < 2**15 or (number in seen and number < 32):
                raise ValueError("field")
            seen.add(number)
            kind, known = head % 16, shape.get(number)
            if kind in (1, 2):
                if known not in (None, 1):
                    raise ValueError("type")
                found[number] = kind == 1
            else:
                found[number] = self.value(kind, known, depth + 1)
        return found

    def value(self, kind, shape, depth):
        fits = {dict: {12}, list: {9, 10}}.get(type(shape)) or TYPES.get(shape, set(range(16)))
        if kind not in fits or kind not in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12):
            raise ValueError("type")
        if kind in (9, 10, 12) and depth > DEEPEST:
            raise ValueError("deep")
        if kind in (4, 5, 6):
            return self.integer()
        if kind == 12:
            return self.struct(shape or {}, depth)
        if kind in (9, 10):
            head = self.byte()
            length = head // 16 if head < 240 else self.varint()
            if length > len(self.data) - self.at:
                raise IndexError("list")
            part = shape[0] if shape else None
            return [self.value(head % 16, part, depth + 1) for _ in range(length)]
        length = self.varint() if kind == 8 else 8 if kind == 7 else 1
        if length > len(self.data) - self.at:
            raise IndexError("end")
        self.at += length
        return self.data[self.at - length : self.at]


def is_sound(data, shape, start, end, values, most_unpacked, width):
    """Whether the pages of a chunk are as said."""
    at, left, unpacked, number = start, values, 0, 0
    while left or (number == 0 and at < end):
        reader = Reader(data[:end], at)
        try:
            head = reader.struct(shape)
            kind, full, packed = head[1], head[2], head[3]
            if kind == 2 and number == 0:
                count, most = head[7][1], full // width
            elif kind in (0, 3):
                count, most = head[5 if kind == 0 else 8][1], left
                left -= count
            else:
                return False
            levels = (head[8][5], head[8][6], head[8][2]) if kind == 3 else (0, 0, 0)
        except (KeyError, IndexError, ValueError):
            return False
        at, unpacked, number = reader.at + packed, unpacked + full, number + 1
        if not (0 <= packed < 2**31 and 0 <= full < 2**31 and at <= end):
            return False
        if unpacked > most_unpacked or not 0 <= count <= most:
            return False
        if min(levels) < 0 or sum(levels[:2]) > min(full, packed) or levels[2] > count:
            return False
    return True
