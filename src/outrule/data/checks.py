"""Checks of values at the entrance: each says what is wrong, where first, and what to do."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from outrule import threads
from outrule.data.origin import TableOrigin
from outrule.data.propensities import no_outcome
from outrule.errors import DataError, refuse_argument
from outrule.types import Floats

if TYPE_CHECKING:
    from outrule.data.instances import Instances

FARTHEST = 1e6  # a range farther from zero, in its own widths, loses digits to the offset
SMALLEST, LARGEST = 1e-100, 1e100  # between them no square or product vanishes or overflows


def check_range(value_range: Any) -> tuple[float, float]:
    """Return (low, high) as floats, or raise ArgumentError."""
    try:
        low, high = value_range
        numbers = all(isinstance(end, Real) and not isinstance(end, bool) for end in (low, high))
        low, high = float(low), float(high)
    except (TypeError, ValueError, OverflowError):
        low, high, numbers = 0.0, 0.0, False
    if not (numbers and np.isfinite(low) and np.isfinite(high) and low < high):
        expected = "a pair (low, high) of finite numbers with low < high"
    elif not SMALLEST <= high - low <= LARGEST:
        expected = f"a pair (low, high) with high - low in [{SMALLEST:g}, {LARGEST:g}]"
    elif max(abs(low), abs(high)) > FARTHEST * (high - low):
        expected = f"closer to zero, within {FARTHEST:g} times its width: subtract a constant"
    else:
        return low, high
    raise refuse_argument(value_range, "value_range", "Instances", expected)


def check_offers(instances: Instances) -> None:
    """Every instance must offer an item."""
    empty = np.flatnonzero(np.diff(instances.offsets) == 0)
    if len(empty):
        raise DataError(
            f"{instances.where(int(empty[0]))} has no items on offer. "
            "Every instance must offer at least one: drop the instance."
        )


def check_inside(
    instances: Instances, values: Floats, name: str, ends: tuple[float, float]
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

    is_table = isinstance(instances.origin, TableOrigin)
    rest = must_be_finite(name, "the row" if is_table else "mark the item as unavailable")
    if name == "outcome" and np.isnan(values[bad[0]]):
        n_nan = int(np.isnan(values).sum())
        rest = no_outcome(n_nan, len(values), "rows" if is_table else "entries")
    if np.isfinite(values[bad[0]]):
        rest = (
            f", outside [{low:g}, {high:g}]. "
            "Give Instances (or [data] of the spec) the range of the values: value_range."
        )
    raise instances.fault(what, rest, bad)


def must_be_finite(name: str, other: str) -> str:
    """What follows the place of a value that is null, NaN or infinite."""
    plural = "Start predictions" if name == "start" else f"{name.capitalize()}s"
    return f". {plural} must be finite: drop the instance, or {other}."


def check_weight(instances: Instances, weight: Floats) -> None:
    """Weights must be finite and not negative."""
    good = np.isfinite(weight) & (weight >= 0)
    usual = (weight == 0) | ((weight >= SMALLEST) & (weight <= LARGEST))
    remedy = f"be zero or in [{SMALLEST:g}, {LARGEST:g}]: multiply all of them by the same number."
    for valid, words in ((good, "be finite and not negative."), (usual, remedy)):
        if not valid.all():
            first = int(np.argmin(valid))
            where = instances.where(first)
            raise DataError(f"weight is {weight[first]:g} at {where}. Weights must {words}")


def check_counts(weight: Floats) -> None:
    """Weights must not all be zero."""
    if not weight.any():
        raise DataError("all weights are zero: at least one instance must count.")


def check_repeats(instances: Instances, codes: NDArray[np.int32]) -> None:
    """An instance may offer an item once; the items of an instance are in order."""
    same, names = np.diff(codes) == 0, instances.item_names or ()
    same[instances.offsets[1:-1] - 1] = False  # from an instance's last item to the next's first
    if same.any():
        raise instances.fault(
            lambda flat: f"item {names[codes[flat]]!r} is offered twice, again",
            ". An instance can offer an item only once: drop the row; or, where a row is a pair, "
            "use a column that names both, such as 'ann / monday', as the item.",
            np.flatnonzero(same) + 1,
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
