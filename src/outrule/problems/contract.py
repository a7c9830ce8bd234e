"""The contract of a problem: laid over instances it becomes plain arrays, then it picks items."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outrule import threads
from outrule.data.instances import Instances
from outrule.errors import DataError, refuse_argument
from outrule.types import Booleans, Floats, Integers, Picks

SMALL = 1 << 15  # weights that are not worth a second thread, nor a second call
LANES = 32  # kernels decide so many instances side by side
CHEAP = 64  # items up to which an instance is decided about as fast as it is read


@dataclass(frozen=True, eq=False)
class Layout:
    """A problem laid over some instances.

    Attributes
    ----------
    offsets : array of shape (n + 1,)
    k : size of the largest decision
    width : m if every instance offers the same items, else None
    per_item, per_instance : arrays with one entry per item on offer, or per instance
    pattern : in place of ``per_item`` where it would be the same m entries again and again
    shared : arrays that are the same for every instance
    """

    offsets: Integers
    k: int
    width: int | None = None
    per_item: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    per_instance: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    shared: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    first: int = 0  # number of the first instance, for messages
    pattern: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def slice(self, start: int, stop: int) -> Layout:
        """The layout of the instances from ``start`` to ``stop``."""
        if start == 0 and stop == len(self):
            return self
        first, last = self.offsets[start], self.offsets[stop]
        return Layout(
            self.offsets[start : stop + 1] - first,
            self.k,
            self.width,
            {name: array[first:last] for name, array in self.per_item.items()},
            {name: array[start:stop] for name, array in self.per_instance.items()},
            self.shared,
            self.first + start,
            self.pattern,
        )

    @property
    def small_type(self) -> Any:
        """The smallest type for positions of these instances; its largest number means no pick."""
        most = self.width or int(np.diff(self.offsets).max())
        return np.uint8 if most <= 0xFF else np.uint16 if most <= 0xFFFF else np.uint32

    def column(self, name: str) -> NDArray[Any]:
        """An array with one entry per item on offer."""
        if name in self.pattern:
            return np.tile(self.pattern[name], len(self))
        return self.per_item[name]

    def repeat(self, times: int) -> Layout:
        """The same instances again and again, where all offer the same items."""
        assert self.width is not None
        return replace(
            self,
            offsets=np.arange(times * len(self) + 1) * self.width,
            per_item={name: np.tile(array, times) for name, array in self.per_item.items()},
            per_instance={name: np.tile(array, times) for name, array in self.per_instance.items()},
        )

    def new_picks(self) -> Picks:
        """An empty table of decisions."""
        return np.full((len(self), self.k), -1, dtype=np.int32)

    def scaled(self, weights: Floats, scale: Floats | None) -> Floats:
        """Flat weights, every item times its multiplier."""
        if scale is None:
            return weights
        return (weights.reshape(-1, len(scale)) * scale).ravel()


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
        """Lay the problem over instances; refuses those it cannot be laid over."""

    def check_data(self, instances: Instances) -> None:  # noqa: B027 - few problems need it
        """Refuse predictions and outcomes that the problem cannot be about."""

    @abstractmethod
    def pick(self, weights: Floats, layout: Layout, scale: Floats | None = None) -> Picks:
        """The feasible set of largest total weight in every instance.

        ``weights`` is flat; ``scale``, of shape (width,), multiplies each item's weight.
        """

    def pick_on_threads(self, weights: Floats, layout: Layout) -> Picks:
        """As :meth:`pick`, chunks of instances on all threads; an instance is decided alike."""
        spans, picks = self._spans(weights, layout), layout.new_picks()

        def pick(chunk: int) -> None:
            first, last = spans[chunk]
            some = weights[layout.offsets[first] : layout.offsets[last]]
            picks[first:last] = self.pick(some, layout.slice(first, last))

        threads.run(pick, len(spans))
        return picks

    def _spans(self, weights: Floats, layout: Layout) -> list[tuple[int, int]]:
        """Chunks of instances for threads: few, and none where there is nothing to share."""
        n, most = len(layout), threads.n_threads()
        if most == 1 or not self.threaded or len(weights) < SMALL:
            return [(0, n)]
        return threads.spans(-(-n // (2 * most * LANES)) * LANES, n)

    def pick_many(self, weights: Floats, layout: Layout, scales: Floats) -> NDArray[Any]:
        """:meth:`pick` for every row of ``scales`` (n_rules, width), shape (n_rules, k, n).

        In the small type of the layout, whose largest number is no pick.
        """
        n_rules, n = len(scales), len(layout)
        if n_rules * len(weights) <= SMALL:  # few instances: one call for all the rules
            every = (weights.reshape(1, n, -1) * scales[:, None, :]).ravel()
            found = self.pick(every, layout.repeat(n_rules)).reshape(n_rules, n, layout.k)
            return found.transpose(0, 2, 1).astype(layout.small_type)
        picks = np.empty((n_rules, layout.k, n), dtype=layout.small_type)
        for r, scale in enumerate(scales):
            picks[r] = self.pick(weights, layout, scale).T
        return picks

    def feasible(self, marks: Booleans, layout: Layout) -> Booleans:
        """Whether the marked items of each instance are a feasible set, shape (n,).

        Subsets of feasible sets are feasible (but for problems that override this), so a set is
        feasible exactly if the optimiser takes all of it when nothing else has any weight.
        """
        picks = self.pick(marks.astype(np.float64), layout)
        return np.asarray((picks >= 0).sum(axis=1) == count_marks(marks, layout.offsets))

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
        if isinstance(weights, Instances):
            instances = weights
            if available is not None:
                expected = "left out: Instances know what is on offer"
                raise refuse_argument(available, "available", "solve", expected)
        else:
            instances = Instances.from_weights(weights, available)
        layout = self.lay(instances)
        if self.exactly_one and (np.diff(layout.offsets) == 0).any():
            first = int(np.argmax(np.diff(layout.offsets) == 0))
            raise DataError(
                f"{instances.where(first)} has no items on offer, and {type(self).__name__} "
                "must choose one: drop the instance."
            )
        quick = self.threaded and (layout.width or CHEAP + 1) <= CHEAP
        if not (quick or isinstance(weights, Instances)):
            instances.check_finite()
        marks, finite = self._mark_on_threads(instances.prediction, layout)
        if not finite:
            instances.check_finite()
        return instances.origin.restore(marks, False)

    def _mark_on_threads(self, weights: Floats, layout: Layout) -> tuple[Booleans, bool]:
        """Decisions as flat marks, and whether all weights are finite, in one pass over memory.

        Where they are not, nothing is marked.
        """
        from outrule.kernels import tally

        offsets, marks = layout.offsets, np.zeros(len(weights), dtype=np.bool_)
        spans = self._spans(weights, layout)

        def decide(chunk: int) -> bool:
            first, last = spans[chunk]
            some = weights[offsets[first] : offsets[last]]
            with np.errstate(all="ignore"):  # a finite sum has finite terms, and is one quick pass
                finite = bool(np.isfinite(some.sum()) or np.isfinite(some).all())
            if finite:
                picks = self.pick(some, layout.slice(first, last))
                tally.mark_picks(picks, offsets[first : last + 1], marks)
            return finite

        return marks, all(threads.run(decide, len(spans)))


def count_marks(marks: Booleans, offsets: Integers) -> Integers:
    """The number of marked items of every instance; of an empty one too, unlike ``reduceat``."""
    return np.diff(np.concatenate(([0], np.cumsum(marks, dtype=np.int64)))[offsets])


def with_greedy_rank(problem: Problem, layout: Layout) -> Layout:
    """The layout with k set to the rank: what greedy finds when all items weigh the same."""
    sample = layout if layout.width is None else layout.slice(0, 1)
    sizes = (problem.pick(np.ones(sample.offsets[-1]), sample) >= 0).sum(axis=1)
    return replace(layout, k=max(1, int(sizes.max())))


def by_item(width: int | None, **arrays: NDArray[Any]) -> dict[str, Any]:
    """Arguments of a Layout: arrays per item on offer, or per item where all offer the same."""
    return {"per_item" if width is None else "pattern": arrays}


def item_numbers(instances: Instances, n_items: int, owner: str) -> NDArray[np.int32]:
    """Which of the problem's fixed items each item on offer is.

    Shape (n_items,) where every instance offers all of them, else one entry per item on offer.
    """
    if instances.width == n_items:
        return np.arange(n_items, dtype=np.int32)
    names = instances.names_of_items
    if instances.item is None or names is None:
        raise DataError(f"{owner} has {n_items} fixed items: name the item column with item=.")
    if instances.item_names is None:
        if len(names) != n_items:
            raise DataError(f"{owner} has {n_items} items, but the predictions have {len(names)}.")
        return instances.item
    numbers = np.asarray(instances.item_names)
    if numbers.dtype.kind not in "iu" or numbers.min() < 0 or numbers.max() >= n_items:
        raise DataError(
            f"{owner} has {n_items} items, so the item column must hold "
            f"whole numbers from 0 to {n_items - 1}."
        )
    return numbers.astype(np.int32)[instances.item]


def local_codes(
    columns: list[NDArray[Any]], instances: Instances
) -> tuple[list[NDArray[np.int32]], Integers]:
    """Number the values of the columns from 0 within each instance, in sorted order.

    Returns one array of codes per column, and the number of distinct values per instance. The codes
    of an instance depend on nothing but its own rows.
    """
    values, everywhere = np.concatenate(columns), np.tile(instances.instance, len(columns))
    code = np.unique(values, return_inverse=True)[1]
    key = everywhere * (int(code.max(initial=0)) + 1) + code
    distinct, inverse = np.unique(key, return_inverse=True)
    owner = distinct // (int(code.max(initial=0)) + 1)
    first = np.searchsorted(owner, np.arange(len(instances)))
    local = (inverse - first[everywhere]).astype(np.int32)
    counts = np.bincount(owner, minlength=len(instances))
    return np.split(local, len(columns)), counts


def finite(values: ArrayLike, ndim: int, name: str, owner: str, shape: str) -> Floats:
    """A copy of the numbers as an array of so many dimensions, or the error of the argument."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.ndim != ndim or array.size == 0 or not np.isfinite(array).all():
        raise refuse_argument(values, name, owner, f"a finite array of shape {shape}")
    return array


def no_nulls(column: NDArray[Any], name: str, instances: Instances) -> NDArray[Any]:
    """Refuse a structural column with nulls."""
    if column.dtype.kind == "f":
        null = np.isnan(column)
    elif column.dtype.kind in "mM":
        null = np.isnat(column)
    elif column.dtype.kind == "O":
        null = np.array([value is None for value in column])
        column = column.astype(str) if not null.any() else column
    else:
        return column
    if null.any():
        raise DataError(
            f"column {name!r} is null at {instances.where_flat(int(np.argmax(null)))}. "
            "Every item must have a value: fill it, or drop the row."
        )
    return column
