"""Problems that the caller describes: by constraints A z <= b, or by a Python function."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outrule.data.instances import Instances
from outrule.data.origin import TableOrigin
from outrule.errors import DataError, check_integer, check_number, refuse_argument
from outrule.problems.contract import Layout, Problem, Scale, count_marks, largest_offer
from outrule.types import Booleans, Floats, Picks

TINIEST = float(np.finfo(np.float64).tiny)
Columns = dict[str, NDArray[Any]]


class OneByOne(Problem):
    """A problem whose instances are decided one after the other, in Python."""

    threaded = False

    @abstractmethod
    def _choose(self, weights: Floats, columns: Columns, k: int, where: str) -> Any:
        """The positions of the chosen items of one instance."""

    def fill_picks(self, picks: Picks, weights: Floats, layout: Layout, scale: Scale) -> None:
        weights = layout.scaled(weights, scale)
        for i, part, columns in _each_instance(layout):
            where = _place(layout, i)
            positions = self._choose(weights[part], columns, layout.k, where)
            if len(positions) > layout.k:
                raise DataError(
                    f"{type(self).__name__} chose {len(positions)} items for {where}, more than "
                    f"k = {layout.k}: give a larger k."
                )
            picks[i, : len(positions)] = positions

    def _check_functions(self, columns: Any, **functions: Any) -> None:
        owner = type(self).__name__
        for name, value in functions.items():
            if not callable(value):
                raise refuse_argument(value, name, owner, "a function")
        listed = isinstance(columns, Sequence) and not isinstance(columns, str)
        if not listed or not all(isinstance(name, str) for name in columns):
            raise refuse_argument(columns, "columns", owner, "a sequence of column names")


def _places(instances: Instances) -> Columns:
    """Where the instances are among all: the first rows of a table, or the numbers of an array."""
    if isinstance(instances.origin, TableOrigin):
        return {"row": instances.origin.given_rows[instances.offsets[:-1]]}
    numbers = getattr(instances.origin, "numbers", None)
    return {"number": np.arange(len(instances)) if numbers is None else numbers}


def _place(layout: Layout, i: int) -> str:
    """The same in words, for messages."""
    if "row" in layout.per_instance:
        return f"the instance in row {layout.per_instance['row'][i]} of the table"
    return f"instance {layout.per_instance['number'][i]}"


def _each_instance(layout: Layout) -> Iterator[tuple[int, slice, Columns]]:
    """The number of every instance, where its items are, and its part of the columns."""
    columns = {name: layout.column(name) for name in (*layout.per_item, *layout.shared)}
    for i, (start, stop) in enumerate(pairwise(layout.offsets.tolist())):
        yield i, slice(start, stop), {name: array[start:stop] for name, array in columns.items()}


@dataclass(frozen=True, eq=False)
class LinearProblem(OneByOne):
    """Choose a 0/1 vector z with A z <= b that maximises the weight of its items (HiGHS).

    Parameters
    ----------
    A : array-like of shape (c, m)
    b : array-like of shape (c,)
    k : int, optional
        The size of the largest decision; found by HiGHS if not given.

    Notes
    -----
    Exact up to the tolerances of HiGHS, 1e-6 in constraints and in value relative to the largest
    weight. An item of weight zero or less is chosen only where a negative entry of A makes room.

    Examples
    --------
    >>> LinearProblem(A=[[2, 1, 1]], b=[2]).solve([[0.9, 0.5, 0.6]])
    array([[False,  True,  True]])
    """

    A: ArrayLike
    b: ArrayLike
    k: int | None = None

    def __post_init__(self) -> None:
        A = self._check_finite("A", 2, "(c, m)")
        b = self._check_finite("b", 1, f"({len(A)},)", len(A))
        object.__setattr__(self, "A", A)
        object.__setattr__(self, "b", b)
        if self.k is not None:
            check_integer(self.k, "k", "LinearProblem")
        else:
            m = A.shape[1]
            largest = self._choose(np.ones(m), {"item": np.arange(m)}, m, "any instance")
            object.__setattr__(self, "k", max(1, len(largest)))

    def lay(self, instances: Instances) -> Layout:
        item = {"item": self._item_numbers(instances, np.shape(self.A)[1])}
        k, places = min(self.k or 1, largest_offer(instances)), _places(instances)
        return Layout.of(instances, k, item, width=instances.width, per_instance=places)

    def _choose(self, weights: Floats, columns: Columns, k: int, where: str) -> Any:
        from scipy.optimize import Bounds, LinearConstraint, milp  # heavy, and only needed here

        A, b, chosen = np.asarray(self.A)[:, columns["item"]], np.asarray(self.b), None
        if not len(weights):
            chosen = np.zeros(0) if (b >= 0).all() else None
        else:
            # An item that only uses up capacity and is worth nothing is left out.
            useless = (weights <= 0) & (A >= 0).all(axis=0)
            chosen = milp(
                -weights / max(np.abs(weights).max(), TINIEST),  # its tolerances are absolute
                integrality=np.ones(len(weights), dtype=np.int64),
                bounds=Bounds(0, np.where(useless, 0.0, 1.0)),
                constraints=LinearConstraint(A, -np.inf, b),
                options={"mip_rel_gap": 0.0},
            ).x
        if chosen is None:
            raise DataError(f"no 0/1 vector satisfies A z <= b of LinearProblem for {where}.")
        return np.flatnonzero(chosen > 0.5)

    def feasible(self, marks: Booleans, layout: Layout) -> Booleans:
        A, b = np.asarray(self.A), np.asarray(self.b)[:, None]
        use = A[:, layout.column("item")] * marks
        totals = np.zeros((len(b), len(layout)))
        offers = np.diff(layout.offsets) > 0
        totals[:, offers] = np.add.reduceat(use, layout.offsets[:-1][offers], axis=1)
        within = (totals <= b + 1e-6 * (1 + np.abs(b))).all(axis=0)
        return np.asarray(within & (count_marks(marks, layout.offsets) <= layout.k))


@dataclass(frozen=True, eq=False)
class Matroid(OneByOne):
    """Choose an independent set of any matroid, given as a function; the optimiser is greedy.

    Parameters
    ----------
    independent : function
        ``independent(positions, **columns) -> bool``: whether these items of one instance, an array
        of positions among those on offer, are independent.
    columns : names of the columns that the function needs, passed as arrays with one entry per
        item on offer. For arrays, ``"item"`` is the number of the item.

    Examples
    --------
    >>> two_at_most = Matroid(lambda positions: len(positions) <= 2)
    >>> two_at_most.solve([[0.3, 0.9, 0.4]])
    array([[False,  True,  True]])
    """

    independent: Callable[..., bool]
    columns: Sequence[str] = ()

    def __post_init__(self) -> None:
        self._check_functions(self.columns, independent=self.independent)

    def lay(self, instances: Instances) -> Layout:
        columns = {name: instances.origin.flat_column(name) for name in self.columns}
        width = instances.width if set(columns) <= {"item"} else None
        places = _places(instances)
        return self._with_rank(Layout(instances.offsets, 0, width, columns, places))

    def _choose(self, weights: Floats, columns: Columns, k: int, where: str) -> Any:
        chosen: list[int] = []
        for position in np.argsort(-weights, kind="stable").tolist():
            if weights[position] <= 0 or len(chosen) == k:
                break
            trial = sorted([*chosen, position])
            if self.independent(np.asarray(trial), **columns):
                chosen = trial
        return chosen


@dataclass(frozen=True, eq=False)
class Oracle(OneByOne):
    """Choose whatever the caller's own optimiser chooses.

    Parameters
    ----------
    function : function
        ``function(weights, **columns) -> boolean array``: the decision for one instance, from the
        weights of the items on offer. It must be deterministic.
    k : int
        The size of the largest decision.
    ratio : float in (0, 1]
        The fraction of the optimum it guarantees.
    columns : names of the columns that the functions need, passed as arrays with one entry per
        item on offer
    feasible_set : function, optional
        ``feasible_set(marks, **columns) -> bool``, to check the decisions of ``Choose`` rules.
        Without it, only their size is checked.

    Examples
    --------
    >>> above_half = Oracle(lambda weights: weights > 0.5, k=3)
    >>> above_half.solve([[0.3, 0.9, 0.6]])
    array([[False,  True,  True]])
    """

    function: Callable[..., ArrayLike]
    k: int
    ratio: float = 1.0
    columns: Sequence[str] = ()
    feasible_set: Callable[..., bool] | None = None

    def __post_init__(self) -> None:
        check_integer(self.k, "k", "Oracle")
        check_number(self.ratio, "ratio", "Oracle", 0, 1)
        given = {} if self.feasible_set is None else {"feasible_set": self.feasible_set}
        self._check_functions(self.columns, function=self.function, **given)

    def lay(self, instances: Instances) -> Layout:
        columns = {name: instances.origin.flat_column(name) for name in self.columns}
        k, places = min(self.k, largest_offer(instances)), _places(instances)
        return Layout(instances.offsets, k, instances.width, columns, places)

    def _choose(self, weights: Floats, columns: Columns, k: int, where: str) -> Any:
        if not len(weights):
            return ()
        marks = np.asarray(self.function(weights.copy(), **columns))
        if marks.dtype != np.bool_ or marks.shape != weights.shape:
            raise DataError(
                f"the function of Oracle returned {marks.dtype} of shape {marks.shape} for "
                f"{where}. It must return booleans of shape {weights.shape}."
            )
        return np.flatnonzero(marks)

    def feasible(self, marks: Booleans, layout: Layout) -> Booleans:
        good = np.asarray(count_marks(marks, layout.offsets) <= self.k)
        if self.feasible_set is not None:
            for i, part, columns in _each_instance(layout):
                good[i] &= bool(self.feasible_set(marks[part], **columns))
        return good
