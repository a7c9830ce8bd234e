"""Slow, obvious curve patches: one item after the other, in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

SCALE = 2.0**100  # keeps slopes between the smallest numbers finite; exact


def value_at(x: Sequence[float], y: Sequence[float], p: float) -> float:
    """Linear between the points (x, y), constant beyond them: the sum of its pieces up to p."""
    value = float(y[0])
    for (left, low), (right, high) in pairwise(zip(x, y, strict=True)):
        width = SCALE * (right - left)
        value += (high - low) / width * min(max(SCALE * (p - left), 0.0), width)
    return min(value, float(y[-1]))


def project(values: list[float], frozen: Sequence[bool]) -> list[float]:
    """The nearest point of the simplex by bisection; frozen entries stay."""
    free = [value for value, stays in zip(values, frozen, strict=True) if not stays]
    low, high = max(free) - 1, max(free)
    for _ in range(200):
        shift = (low + high) / 2
        total = sum(max(value - shift, 0) for value in free)
        low, high = (shift, high) if total > 1 else (low, shift)
    moved = (max(value - low, 0.0) for value in values)
    return [v if stays else m for v, m, stays in zip(values, moved, frozen, strict=True)]


def patch(
    prediction: Sequence[float],
    offsets: Sequence[int],
    marks: Any,
    curves: Sequence[tuple[int, Sequence[float], Sequence[float]]],
    frozen: Sequence[bool],
    *,
    simplex: bool,
) -> list[float]:
    """Apply curves (test, x, y); ``marks[test]`` are flat booleans, test -1 is the largest item."""
    result = list(prediction)
    for test, x, y in curves:
        for start, stop in pairwise(offsets):
            items = range(start, stop)
            best = max(items, key=lambda j: (result[j], -j), default=None)
            chosen = [best] if test < 0 else [j for j in items if marks[test][j]]
            moved = [j for j in chosen if j is not None and not frozen[j]]
            for j in moved:
                result[j] = value_at(x, y, result[j])
            if simplex and moved:
                result[start:stop] = project(result[start:stop], frozen[start:stop])
    return result
