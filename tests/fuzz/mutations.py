"""Seeded damage to bytes, to text and to JSON values."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

Generator = np.random.Generator

NUMBERS = (
    *("0", "-1", "1", "2", "7", "255", "256", "65536", "2147483648", "4294967296", "-2147483649"),
    *("9223372036854775807", "9223372036854775808", "1180591620717411303424", "1e999", "-1e308"),
    *("1e308", "5e-324", "0.5", "NaN", "Infinity", "-0.0", "1" + "0" * 400, "9" * 5000),
    "0x" + "f" * 4000,
)
WORDS = (
    *("", "zone", "score", "item", "kind", "__class__", "*", "\x00", "\\u0000", "'", '"', "(", "["),
    *("None", "null", "true", "nan", "é\u202e", "\ud83d\ude00", "a" * 300, "%n%s", "../../etc"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 7, 255, 2**31, 2**53, 2**63, 2**70, 10**400, -(2**70)),
    *(0.5, -0.5, 1e-300, -1e300, 1e300, 1e308, -1e308, "", "zone", [], {}, [[]], [{}]),
    *([0, 1], [[0, 1], [1, 2]], [0.0] * 300, ["a", "b"], {"function": "len"}, {"pairs": []}),
    *({"pairs": [["a", 1], ["a", 2]]}, {"pairs": [[[], 1]]}, {"kind": "LineSearch"}),
    {"kind": "TopK", "k": 10**30},
    {"kind": "TopK", "k": 2**63 - 1},
    {"kind": "PartitionMatroid", "groups": [0, 0, 1, 1, 2, 2], "capacity": 2**70},
    {"kind": "LaminarMatroid", "n_items": 10**12, "sets": [[0, 1]], "capacity": [1]},
    {"kind": "LaminarMatroid", "n_items": 6, "sets": [[0, 1], [1, 2]], "capacity": [1, 1]},
    {"kind": "TransversalMatroid", "n_items": 6, "sets": [[5], [0]]},
    {"kind": "LinearMatroid", "vectors": [[1e308, -1e308]] * 6, "tolerance": 0.5},
    {"kind": "LinearMatroid", "vectors": [[0.0] * 5000] * 6, "tolerance": 0.5},
    {"kind": "LinearProblem", "A": [[1.0] * 6], "b": [3.0], "k": None},
    {"kind": "LinearProblem", "A": [[1.0] * 6], "b": [-3.0], "k": 10**15},
    {"kind": "Oracle", "function": {"function": "f"}, "k": 10**18},
    {"kind": "Matching", "edges": [[0, 1]] * 6, "columns": None},
    {"kind": "GraphicMatroid", "edges": [[k, 2**62 + k] for k in range(6)], "columns": None},
    {"kind": "Assignment", "rows": 2**40, "columns": 2**40},
    {"kind": "Assignment", "rows": 6, "columns": 1},
    {"kind": "Rejection", "cost": 0.5, "reject": 2**63},
)
BINARY = (b"\x00" * 4, b"\xff" * 4, b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f", b"\xff" * 8, b"\x01")
NUMBER = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
WORD = re.compile(rb"[A-Za-z_]{2,}")


def one_of(generator: Generator, choices: Any) -> Any:
    return choices[int(generator.integers(len(choices)))]


def damage_bytes(data: bytes, generator: Generator) -> bytes:
    """A few bytes changed, lost, doubled or moved; or the end cut off."""
    for _ in range(int(generator.choice([1, 1, 1, 2, 4]))):
        at, to = sorted(generator.integers(0, len(data) + 1, 2).tolist())
        to = min(to, at + int(generator.integers(1, 40)))
        act = int(generator.integers(7))
        if act == 0 and at < len(data):
            data = data[:at] + bytes([data[at] ^ 1 << int(generator.integers(8))]) + data[at + 1 :]
        elif act == 1:
            data = data[:at] + generator.bytes(to - at) + data[to:]
        elif act == 2:
            data = data[:at] + data[to:]
        elif act == 3:
            data = data[:to] + data[at:]
        elif act == 4:
            some = one_of(generator, BINARY)
            data = data[:at] + some + data[at + len(some) :]
        elif act == 5 and generator.random() < 0.3:
            data = data[:at]
        else:
            other = int(generator.integers(0, len(data) + 1))
            data = data[:at] + data[other : other + to - at] + data[at:]
    return data


def damage_text(data: bytes, generator: Generator) -> bytes:
    """Numbers and words replaced or swapped, lines lost, doubled or swapped; bytes changed."""
    for _ in range(int(generator.integers(1, 4))):
        act = int(generator.integers(6))
        if act < 3:
            pattern, words = (NUMBER, NUMBERS) if act < 2 else (WORD, WORDS)
            found = list(pattern.finditer(data))
            if not found:
                continue
            place = one_of(generator, found)
            new = one_of(generator, found).group() if generator.random() < 0.5 else None
            new = one_of(generator, words).encode("utf-8", "surrogatepass") if new is None else new
            data = data[: place.start()] + new + data[place.end() :]
        elif act < 5:
            lines = data.split(b"\n")
            at, other = generator.integers(0, len(lines), 2).tolist()
            if act == 3:
                lines[at], lines[other] = lines[other], lines[at]
            elif generator.random() < 0.5:
                del lines[at]
            else:
                lines.insert(other, lines[at])
            data = b"\n".join(lines)
        else:
            data = damage_bytes(data, generator)
    return data


def damage_values(value: Any, generator: Generator) -> Any:
    """JSON values with something else at one place: another value, one less, one more, a swap."""
    if not isinstance(value, dict | list) or not value or generator.random() < 0.08:
        return one_of(generator, VALUES)
    copied = dict(value) if isinstance(value, dict) else list(value)
    names = list(copied) if isinstance(copied, dict) else range(len(copied))
    name = one_of(generator, names)
    act = generator.random()
    if act < 0.05:
        del copied[name]
    elif act < 0.1:
        other = one_of(generator, names)
        copied[name], copied[other] = copied[other], copied[name]
    elif act < 0.13 and isinstance(copied, list):
        copied.extend([copied[name]] * int(generator.integers(1, 2000)))
    elif act < 0.15 and isinstance(copied, dict):
        copied[str(one_of(generator, WORDS))] = copied[name]
    else:
        copied[name] = damage_values(copied[name], generator)
    return copied
