"""Slow, obvious assignment: try every way to match."""

from __future__ import annotations

from collections.abc import Sequence

Item = tuple[float, int, int]


def is_matching(items: Sequence[Item], chosen: Sequence[int]) -> bool:
    """Say whether no row and no column is used twice."""
    rows = [items[k][1] for k in chosen]
    columns = [items[k][2] for k in chosen]
    return len(set(rows)) == len(rows) and len(set(columns)) == len(columns)


def heaviest_matching(items: Sequence[Item]) -> float:
    """Return the greatest weight of a matching of the items (weight, row, column)."""
    best = 0.0

    def extend(position: int, weight: float, rows: frozenset[int], columns: frozenset[int]) -> None:
        nonlocal best
        best = max(best, weight)
        for k in range(position, len(items)):
            gain, row, column = items[k]
            if gain > 0 and row not in rows and column not in columns:
                extend(k + 1, weight + gain, rows | {row}, columns | {column})

    extend(0, 0.0, frozenset(), frozenset())
    return best
