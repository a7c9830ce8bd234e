"""What every problem provides: its structure as plain arrays, and an optimiser that picks items."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outrule import kernels, threads
from outrule.data.instances import Instances, take_items
from outrule.data.origin import Rows
from outrule.errors import DataError, check_integer, refuse_argument
from outrule.types import Booleans, Floats, Integers, Picks
from outrule.words import count

SMALL_BATCH = 1 << 15  # weights that are not worth a second thread, nor a second call
LANES = 32  # kernels decide so many instances side by side
MOST_ITEMS = 1 << 24  # that a problem can have of its own

Scale = Floats | None  # multipliers of the items, (m,)
Arrays = dict[str, NDArray[Any]]  # by name


@dataclass(frozen=True, eq=False)
class Layout:
    """The structure of a problem on some instances, as arrays."""

    offsets: Integers  # (n + 1,)
    k: int  # size of the largest decision
    width: int | None = None  # m if every instance offers the same m items
    per_item: Arrays = field(default_factory=dict)  # one entry per item on offer
    per_instance: Arrays = field(default_factory=dict)
    shared: Arrays = field(default_factory=dict)  # the same for all instances

    @classmethod
    def of(
        cls,
        instances: Instances,
        k: int,
        per_item: Arrays,
        *,
        width: int | None,
        per_instance: Arrays | None = None,
        shared: Arrays | None = None,
    ) -> Layout:
        """A layout of these instances; where ``width`` is m, arrays per item have m entries."""
        own, pattern = (per_item, {}) if width is None else ({}, per_item)
        common = pattern | (shared or {})
        return cls(instances.offsets, k, width, own, per_instance or {}, common)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def slice(self, start: int, stop: int) -> Layout:
        """The layout of the instances from ``start`` to ``stop``."""
        if start == 0 and stop == len(self):
            return self
        offsets = self.offsets[start : stop + 1]
        return self._part(slice(start, stop), slice(offsets[0], offsets[-1]), offsets - offsets[0])

    def take(self, chosen: Integers) -> Layout:
        """The layout of some of the instances, in the given order."""
        offsets, flat = take_items(self.offsets, chosen)
        return self._part(chosen, flat, offsets)

    def _part(self, chosen: Rows, flat: Rows, offsets: Integers) -> Layout:
        """The layout of some of the instances, whose items are at these flat positions."""
        return replace(
            self,
            offsets=offsets,
            per_item={name: array[flat] for name, array in self.per_item.items()},
            per_instance={name: array[chosen] for name, array in self.per_instance.items()},
        )

    def repeat(self, times: int) -> Layout:
        """The same instances several times over, where all offer the same items."""
        assert self.width is not None
        return replace(
            self,
            offsets=np.arange(times * len(self) + 1) * self.width,
            per_item={name: np.tile(array, times) for name, array in self.per_item.items()},
            per_instance={name: np.tile(array, times) for name, array in self.per_instance.items()},
        )

    @property
    def small_type(self) -> Any:
        """The smallest type for positions of these instances; its largest number means no pick."""
        most = self.width or int(np.diff(self.offsets).max())
        return np.uint8 if most <= 0xFF else np.uint16 if most <= 0xFFFF else np.uint32

    def column(self, name: str) -> NDArray[Any]:
        """An array with one entry per item on offer."""
        if name in self.per_item:
            return self.per_item[name]
        return np.tile(self.shared[name], len(self))

    def new_picks(self) -> Picks:
        """An empty table of decisions."""
        return np.full((len(self), self.k), -1, dtype=np.int32)

    def scaled(self, weights: Floats, scale: Scale) -> Floats:
        """Flat weights, each times its item's multiplier."""
        return weights if scale is None else (weights.reshape(-1, len(scale)) * scale).ravel()

    def rows(self, weights: Floats, scale: Scale) -> tuple[Floats, Floats]:
        """Weights of shape (n, m), and the multipliers of the m items."""
        assert self.width is not None
        return weights.reshape(-1, self.width), np.ones(self.width) if scale is None else scale


class Problem(ABC):
    """Which sets of items are feasible, and the optimiser over them.

    ``ratio`` is the fraction of the optimum that the optimiser guarantees. Problems with
    ``exactly_one`` always choose one item; the others never choose one of weight zero or less.
    """

    exactly_one: ClassVar[bool] = False
    simplex: ClassVar[bool] = False
    threaded: ClassVar[bool] = True  # False where a function of the caller decides
    ratio: float = 1.0

    @abstractmethod
    def lay(self, instances: Instances) -> Layout:
        """The structure of the problem on these instances; DataError if they do not fit it."""

    @abstractmethod
    def fill_picks(self, picks: Picks, weights: Floats, layout: Layout, scale: Scale) -> None:
        """Write the decisions of ``pick`` into ``picks``, which holds -1 everywhere."""

    @property
    def column_names(self) -> list[str]:
        """The columns of a table that the problem reads."""
        return []

    def check_data(self, instances: Instances) -> None:  # noqa: B027 - few problems need it
        """Raise DataError for predictions and outcomes that do not fit the problem."""

    def pick(self, weights: Floats, layout: Layout, scale: Scale = None) -> Picks:
        """The feasible set of largest total weight in every instance.

        ``weights`` is flat; ``scale``, of shape (width,), multiplies each item's weight.
        """
        picks = layout.new_picks()
        self.fill_picks(picks, weights, layout, scale)
        return picks

    def pick_on_threads(self, weights: Floats, layout: Layout) -> Picks:
        """The same as ``pick``, with chunks of instances on all threads."""
        picks, spans = layout.new_picks(), self._spans(len(weights), len(layout))

        def pick(chunk: int) -> None:
            first, last = spans[chunk]
            some = weights[layout.offsets[first] : layout.offsets[last]]
            self.fill_picks(picks[first:last], some, layout.slice(first, last), None)

        threads.run(pick, len(spans))
        return picks

    def _spans(self, n_items: int, n: int) -> list[tuple[int, int]]:
        """Chunks of instances for threads; one, where there is little to share."""
        most = threads.n_threads()
        if most == 1 or not self.threaded or n_items < SMALL_BATCH:
            return [(0, n)]
        return threads.spans(-(-n // (2 * most * LANES)) * LANES, n)

    def pick_many(self, weights: Floats, layout: Layout, scales: Floats) -> NDArray[Any]:
        """``pick`` for every row of ``scales`` (n_rules, width), shape (n_rules, k, n).

        In the small type of the layout, whose largest number is no pick.
        """
        n_rules, n = len(scales), len(layout)
        if n_rules * len(weights) <= SMALL_BATCH:  # few instances: one call for all the rules
            every = (weights.reshape(1, n, -1) * scales[:, None, :]).ravel()
            found = self.pick(every, layout.repeat(n_rules)).reshape(n_rules, n, layout.k)
            return found.transpose(0, 2, 1).astype(layout.small_type)
        picks = np.empty((n_rules, layout.k, n), dtype=layout.small_type)
        for r, scale in enumerate(scales):
            picks[r] = self.pick(weights, layout, scale).T
        return picks

    def feasible(self, marks: Booleans, layout: Layout) -> Booleans:
        """Whether the marked items of each instance are a feasible set, shape (n,).

        Subsets of feasible sets are feasible (problems without this property override the method),
        so a set is feasible exactly if the optimiser takes all of it when only it has any weight.
        """
        picks = self.pick(marks.astype(np.float64), layout)
        return np.asarray((picks >= 0).sum(axis=1) == count_marks(marks, layout.offsets))

    def uniform_odds(self, instances: Instances, layout: Layout) -> NDArray[Any] | None:
        """The probability of each item of an instance in the optimum of random weights, shape (n,).

        Weights are independent and alike. None if the probabilities are not known, or not equal.
        """
        return None

    def solve(self, weights: ArrayLike | Instances, available: ArrayLike | None = None) -> Any:
        """The optimiser, in batch.

        Parameters
        ----------
        weights : array-like of shape (n, m), or Instances (their predictions are the weights)
        available : boolean array-like of shape (n, m), optional

        Returns
        -------
        boolean array of shape (n, m), True where an item is chosen; a column for a table

        Examples
        --------
        >>> import outrule
        >>> outrule.TopK(2).solve([[0.3, 0.9, 0.4], [0.0, 0.0, 0.5]])
        array([[False,  True,  True],
               [False, False,  True]])
        """
        if not isinstance(weights, Instances):
            instances = Instances.from_weights(weights, available)
        elif available is None:
            instances = weights
        else:
            expected = "left out: Instances know what is on offer"
            raise refuse_argument(available, "available", "solve", expected)
        layout = self.lay(instances)
        if self.exactly_one and (empty := np.diff(layout.offsets) == 0).any():
            raise DataError(
                f"{instances.where(int(np.argmax(empty)))} has no items on offer, but "
                f"{type(self).__name__} must choose one: drop the instance."
            )
        return instances.origin.restore(self._mark(instances, layout), False)

    def _mark(self, instances: Instances, layout: Layout) -> Booleans:
        """Decisions as flat marks; a chunk is checked, solved and marked while it is in cache."""
        weights, offsets = instances.prediction, layout.offsets
        marks, spans = np.zeros(len(weights), np.bool_), self._spans(len(weights), len(layout))

        def mark(chunk: int) -> None:
            first, last = spans[chunk]
            flat, part = slice(offsets[first], offsets[last]), layout.slice(first, last)
            with np.errstate(all="ignore"):
                finite = np.isfinite(weights[flat].sum())
            if not finite:  # or the sum alone is too large
                instances.check_finite()
            picks = self.pick(weights[flat], part)
            kernels.tally.mark_picks(picks, part.offsets, marks[flat])

        threads.run(mark, len(spans))
        return marks

    def _with_rank(self, layout: Layout) -> Layout:
        """The layout of a matroid, with k set to the rank: what greedy finds on equal weights."""
        sample = layout if layout.width is None else layout.slice(0, 1)
        probe = replace(sample, k=max(1, int(np.diff(sample.offsets).max())))
        sizes = (self.pick(np.ones(sample.offsets[-1]), probe) >= 0).sum(axis=1)
        return replace(layout, k=max(1, int(sizes.max())))

    def _largest_decision(self, layout: Layout, most: Integers) -> int:
        """The size of the largest decision, by solving with unit weights.

        No instance has one larger than ``most``; those whose bound is largest are solved first,
        until no other can have a larger one: mostly, these are few.
        """
        order, largest, first, size = np.argsort(-most, kind="stable"), 1, 0, LANES
        while first < len(order) and most[order[first]] > largest:
            some = order[first : first + size]
            part = replace(layout.take(some[most[some] > largest]), k=int(most[some[0]]))
            sizes = (self.pick_on_threads(np.ones(part.offsets[-1]), part) >= 0).sum(axis=1)
            largest, first, size = max(largest, int(sizes.max())), first + size, 2 * size
        return largest

    def _item_numbers(self, instances: Instances, n_items: int) -> NDArray[np.int32]:
        """Which of the problem's fixed items each item on offer is.

        Shape (n_items,) where every instance offers all of them, else one entry per item on offer.
        """
        if instances.width == n_items:
            return np.arange(n_items, dtype=np.int32)
        has = f"{type(self).__name__} has {count(n_items, 'item')}"
        names = instances.names_of_items
        if instances.item is None or names is None:
            raise DataError(f"{has}: name the column of the 'item'.")
        if instances.item_names is None:
            if len(names) != n_items:
                raise DataError(f"{has}, but the predictions have {len(names)}.")
            return instances.item
        numbers = np.asarray(instances.item_names)
        if numbers.dtype.kind not in "iu" or numbers.min() < 0 or numbers.max() >= n_items:
            allowed = f"whole numbers from 0 to {n_items - 1}"
            raise DataError(f"{has}, so the item column must hold {allowed}.")
        return numbers.astype(np.int32)[instances.item]

    def _check_array(
        self, name: str, expected: str, good: Callable[[NDArray[Any]], Any], dtype: Any = None
    ) -> NDArray[Any]:
        """A copy of an array argument; ArgumentError if it is empty or not ``good``."""
        try:
            array = np.array(getattr(self, name), dtype=dtype)
            if array.size and good(array):
                return array
        except (TypeError, ValueError, OverflowError):
            pass
        raise refuse_argument(getattr(self, name), name, type(self).__name__, expected)

    def _check_finite(self, name: str, ndim: int, shape: str, length: int | None = None) -> Floats:
        def good(array: Floats) -> Any:
            right = array.ndim == ndim and length in (None, len(array))
            return right and np.isfinite(array).all()

        return self._check_array(name, f"a finite array of shape {shape}", good, np.float64)


def check_size(value: Any, name: str, owner: str, low: int = 1, most: int = MOST_ITEMS) -> None:
    """Raise for a number of items, or of what makes items, that nobody can have."""
    check_integer(value, name, owner, low)
    if value > most:
        raise refuse_argument(value, name, owner, f"at most {most:,}")


def largest_offer(instances: Instances) -> int:
    """The most items that an instance offers, at least 1: no decision has more."""
    return max(1, int(np.diff(instances.offsets).max(initial=0)))


def count_marks(marks: Booleans, offsets: Integers) -> Integers:
    """The number of marked items of every instance; of an empty one too, unlike ``reduceat``."""
    return np.diff(np.concatenate(([0], np.cumsum(marks, dtype=np.int64)))[offsets])


def number_values(
    columns: list[NDArray[Any]], instances: Instances
) -> tuple[list[NDArray[np.int32]], Integers]:
    """Number the values of the columns from 0 within each instance, in sorted order.

    Returns one array of numbers per column, and how many distinct values each instance has.
    """
    everywhere = np.tile(instances.instance, len(columns))
    code = np.unique(np.concatenate(columns), return_inverse=True)[1]
    n_codes = int(code.max(initial=0)) + 1
    distinct, inverse = np.unique(everywhere * n_codes + code, return_inverse=True)
    owner = distinct // n_codes
    first = np.searchsorted(owner, np.arange(len(instances)))
    numbers = (inverse - first[everywhere]).astype(np.int32)
    return np.split(numbers, len(columns)), np.bincount(owner, minlength=len(instances))


def read_column(name: str, instances: Instances) -> NDArray[Any]:
    """A column that is part of the problem's structure, so it must have no nulls."""
    column = instances.origin.flat_column(name)
    null = np.zeros(0, dtype=np.bool_)
    if column.dtype.kind in "fmM":
        null = np.isnan(column)
    elif column.dtype.kind == "O":
        null, column = np.array([value is None for value in column]), column.astype(str)
    if null.any():
        rest = ". Every item must have a value: fill it, or drop the row."
        raise instances.fault(f"column {name!r} is null", rest, np.flatnonzero(null))
    return column
