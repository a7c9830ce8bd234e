"""Checks of values at the entrance: each says what is wrong, where first, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outrule import threads
from outrule.data.origin import Origin, TableOrigin, fault
from outrule.data.propensities import no_outcome
from outrule.errors import DataError, refuse_argument
from outrule.types import Floats, Integers

FARTHEST = 1e6  # a range farther from zero, in its own widths, loses digits to the offset
SMALLEST, LARGEST = 1e-100, 1e100  # between them no square or product vanishes or overflows


def check_range(value_range: Any) -> tuple[float, float]:
    """Return (low, high) as floats, or raise ArgumentError."""
    expected = "a pair (low, high) of finite numbers with low < high"
    try:
        low, high = value_range
        numbers = all(isinstance(end, Real) and not isinstance(end, bool) for end in (low, high))
        low, high = float(low), float(high)
    except (TypeError, ValueError, OverflowError):
        raise refuse_argument(value_range, "value_range", "Instances", expected) from None
    if not (numbers and np.isfinite(low) and np.isfinite(high) and low < high):
        raise refuse_argument(value_range, "value_range", "Instances", expected)
    if not SMALLEST <= high - low <= LARGEST:
        expected = f"a pair (low, high) with high - low in [{SMALLEST:g}, {LARGEST:g}]"
        raise refuse_argument(value_range, "value_range", "Instances", expected)
    if max(abs(low), abs(high)) > FARTHEST * (high - low):
        expected = f"closer to zero, within {FARTHEST:g} times its width: subtract a constant"
        raise refuse_argument(value_range, "value_range", "Instances", expected)
    return low, high


def check_offers(origin: Origin, offsets: Integers) -> None:
    """Every instance must offer an item."""
    empty = np.flatnonzero(np.diff(offsets) == 0)
    if len(empty):
        first = int(empty[0])
        raise DataError(
            f"{origin.where(first, None, int(offsets[first]))} has no items on offer. "
            "Every instance must offer at least one: drop the instance."
        )


def check_inside(
    values: Floats, name: str, origin: Origin, offsets: Integers, ends: tuple[float, float]
) -> None:
    """Values must be finite and in their range."""
    low, high = ends
    if _all_inside(values, low, high):
        return
    bad = np.flatnonzero(~(np.isfinite(values) & (values >= low) & (values <= high)))
    if not len(bad):
        return

    def what(flat: int) -> str:
        value = values[flat]
        word = "NaN" if np.isnan(value) else "infinite" if np.isinf(value) else f"{value:g}"
        if np.isfinite(value) and float(word) != value:
            word = repr(float(value))  # 1.0000001 is outside [0, 1], and 1 is not
        return f"{name} is {word}"

    is_table = isinstance(origin, TableOrigin)
    rest = must_be_finite(name, "the row" if is_table else "mark the item as unavailable")
    if name == "outcome" and np.isnan(values[bad[0]]):
        n_nan = int(np.isnan(values).sum())
        rest = no_outcome(n_nan, len(values), "rows" if is_table else "entries")
    if np.isfinite(values[bad[0]]):
        rest = (
            f", outside [{low:g}, {high:g}]. "
            "Give Instances (or [data] of the spec) the range of the values: value_range."
        )
    raise fault(what, rest, bad, origin, offsets)


def must_be_finite(name: str, other: str) -> str:
    """What follows the place of a value that is null, NaN or infinite."""
    plural = "Start predictions" if name == "start" else f"{name.capitalize()}s"
    return f". {plural} must be finite: drop the instance, or {other}."


def check_weight(weight: Floats, origin: Origin) -> None:
    """Weights must be finite and not negative."""
    good = np.isfinite(weight) & (weight >= 0)
    usual = (weight == 0) | ((weight >= SMALLEST) & (weight <= LARGEST))
    remedy = f"be zero or in [{SMALLEST:g}, {LARGEST:g}]: multiply all of them by the same number."
    for valid, words in ((good, "be finite and not negative."), (usual, remedy)):
        if not valid.all():
            first = int(np.argmin(valid))
            where = origin.where(first, None, 0)
            raise DataError(f"weight is {weight[first]:g} at {where}. Weights must {words}")


def check_counts(weight: Floats) -> None:
    """Weights must not all be zero."""
    if not weight.any():
        raise DataError("all weights are zero: at least one instance must count.")


def check_repeats(
    codes: NDArray[np.int32], names: Sequence[Any], origin: Origin, offsets: Integers
) -> None:
    """An instance may offer an item once; the items of an instance are in order."""
    same = np.diff(codes) == 0
    same[offsets[1:-1] - 1] = False  # from the last item of an instance to the first of the next
    if same.any():
        raise fault(
            lambda flat: f"item {names[codes[flat]]!r} is offered twice, again",
            ". An instance can offer an item only once: drop the row; or, where a row is a pair, "
            "use a column that names both, such as 'ann / monday', as the item.",
            np.flatnonzero(same) + 1,
            origin,
            offsets,
        )


def _all_inside(values: Floats, low: float, high: float) -> bool:
    """Whether all values are finite and in the range, without a copy; may say no for huge ones."""
    pieces = threads.spans(1 << 18, len(values))

    def inside(piece: int) -> bool:
        some = values[slice(*pieces[piece])]
        if low == -np.inf and high == np.inf:
            with np.errstate(all="ignore"):
                return bool(np.isfinite(some.sum()))
        return bool(some.min() >= low and some.max() <= high)  # NaN is neither

    return all(threads.run(inside, len(pieces)))
