"""Problems that the caller describes: by constraints A z <= b, or by a Python function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outrule.data.instances import Instances
from outrule.errors import DataError, check_number, refuse_argument
from outrule.problems.contract import (
    Layout,
    Problem,
    Scale,
    by_item,
    check_finite,
    count_marks,
    item_numbers,
    with_rank,
)
from outrule.types import Booleans, Floats, Picks

TINIEST = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class LinearProblem(Problem):
    """Choose a 0/1 vector z with A z <= b that maximises the weight of its items (HiGHS).

    Parameters
    ----------
    A : array-like of shape (c, m)
    b : array-like of shape (c,)
    k : int, optional
        The size of the largest decision; found by HiGHS where not given.

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

    threaded = False  # HiGHS has its own threads

    def __post_init__(self) -> None:
        A = check_finite(self.A, 2, "A", "LinearProblem", "(c, m)")
        shape = f"({A.shape[0]},)"
        b = check_finite(self.b, 1, "b", "LinearProblem", shape)
        if len(b) != len(A):
            raise refuse_argument(self.b, "b", "LinearProblem", f"a finite array of shape {shape}")
        object.__setattr__(self, "A", A)
        object.__setattr__(self, "b", b)
        if self.k is not None:
            check_number(self.k, "k", "LinearProblem", 1, low_open=False, integer=True)
        else:
            largest = self._solve_one(np.ones(A.shape[1]), np.arange(A.shape[1]), "the whole")
            object.__setattr__(self, "k", max(1, int(largest.sum())))

    def lay(self, instances: Instances) -> Layout:
        items = item_numbers(instances, np.shape(self.A)[1], "LinearProblem")
        structure = by_item(instances.width, item=items)
        first = instances.first_number
        return Layout(instances.offsets, self.k or 1, instances.width, first=first, **structure)

    def fill_picks(self, picks: Picks, weights: Floats, layout: Layout, scale: Scale) -> None:
        weights, every = layout.scaled(weights, scale), layout.column("item")
        for i, part, _ in _each_instance(layout):
            where = f"instance {layout.first + i} of"
            positions = np.flatnonzero(self._solve_one(weights[part], every[part], where))
            if len(positions) > layout.k:
                raise DataError(
                    f"a decision of LinearProblem has {len(positions)} items, more than k = "
                    f"{layout.k}: give a larger k, or none."
                )
            picks[i, : len(positions)] = positions

    def _solve_one(self, weights: Floats, items: NDArray[Any], where: str) -> Booleans:
        from scipy.optimize import Bounds, LinearConstraint, milp  # heavy, and only needed here

        A, b = np.asarray(self.A)[:, items], np.asarray(self.b)
        failure = DataError(f"no 0/1 vector satisfies A z <= b for {where} LinearProblem.")
        if not len(items):
            if (b < 0).any():
                raise failure
            return np.zeros(0, dtype=np.bool_)
        # An item that only uses up capacity and is worth nothing is left out.
        useless = (weights <= 0) & (A >= 0).all(axis=0)
        answer = milp(
            -weights / max(np.abs(weights).max(), TINIEST),  # its tolerances are absolute
            integrality=np.ones(len(items), dtype=np.int64),
            bounds=Bounds(0, np.where(useless, 0.0, 1.0)),
            constraints=LinearConstraint(A, -np.inf, b),
            options={"mip_rel_gap": 0.0},
        )
        if answer.x is None:
            raise failure
        return np.asarray(answer.x > 0.5)

    def feasible(self, marks: Booleans, layout: Layout) -> Booleans:
        A, b = np.asarray(self.A), np.asarray(self.b)[:, None]
        use = A[:, layout.column("item")] * marks
        totals = np.zeros((len(b), len(layout)))
        offers = np.diff(layout.offsets) > 0
        totals[:, offers] = np.add.reduceat(use, layout.offsets[:-1][offers], axis=1)
        within = (totals <= b + 1e-6 * (1 + np.abs(b))).all(axis=0)
        return np.asarray(within & (count_marks(marks, layout.offsets) <= layout.k))


@dataclass(frozen=True, eq=False)
class Matroid(Problem):
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

    threaded = False

    def __post_init__(self) -> None:
        _check_function(self.independent, "independent", "Matroid")
        _check_columns(self.columns, "Matroid")

    def lay(self, instances: Instances) -> Layout:
        columns = {name: instances.origin.flat_column(name) for name in self.columns}
        width = instances.width if set(columns) <= {"item"} else None
        return with_rank(self, Layout(instances.offsets, 0, width, columns))

    def fill_picks(self, picks: Picks, weights: Floats, layout: Layout, scale: Scale) -> None:
        weights = layout.scaled(weights, scale)
        for i, part, columns in _each_instance(layout):
            chosen: list[int] = []
            for position in np.argsort(-weights[part], kind="stable").tolist():
                if weights[part][position] <= 0 or len(chosen) == layout.k:
                    break
                trial = sorted([*chosen, position])
                if self.independent(np.asarray(trial), **columns):
                    chosen = trial
            picks[i, : len(chosen)] = chosen


@dataclass(frozen=True, eq=False)
class Oracle(Problem):
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

    threaded = False

    def __post_init__(self) -> None:
        _check_function(self.function, "function", "Oracle")
        check_number(self.k, "k", "Oracle", 1, low_open=False, integer=True)
        check_number(self.ratio, "ratio", "Oracle", 0, 1)
        _check_columns(self.columns, "Oracle")
        if self.feasible_set is not None:
            _check_function(self.feasible_set, "feasible_set", "Oracle")

    def lay(self, instances: Instances) -> Layout:
        columns = {name: instances.origin.flat_column(name) for name in self.columns}
        first = instances.first_number
        return Layout(instances.offsets, self.k, instances.width, columns, first=first)

    def fill_picks(self, picks: Picks, weights: Floats, layout: Layout, scale: Scale) -> None:
        weights = layout.scaled(weights, scale)
        for i, part, columns in _each_instance(layout):
            size = part.stop - part.start
            if size == 0:
                continue
            marks = np.asarray(self.function(weights[part].copy(), **columns))
            if marks.dtype != np.bool_ or marks.shape != (size,):
                raise DataError(
                    f"the function of Oracle returned {marks.dtype} of shape {marks.shape} for "
                    f"instance {layout.first + i}. It must return booleans of shape ({size},)."
                )
            positions = np.flatnonzero(marks)
            if len(positions) > self.k:
                raise DataError(
                    f"the function of Oracle chose {len(positions)} items for instance "
                    f"{layout.first + i}, more than k = {self.k}."
                )
            picks[i, : len(positions)] = positions

    def feasible(self, marks: Booleans, layout: Layout) -> Booleans:
        good = np.asarray(count_marks(marks, layout.offsets) <= self.k)
        if self.feasible_set is not None:
            for i, part, columns in _each_instance(layout):
                good[i] &= bool(self.feasible_set(marks[part], **columns))
        return good


def _check_function(value: Any, name: str, owner: str) -> None:
    if not callable(value):
        raise refuse_argument(value, name, owner, "a function")


def _check_columns(value: Any, owner: str) -> None:
    if isinstance(value, str) or not all(isinstance(name, str) for name in value):
        raise refuse_argument(value, "columns", owner, "a sequence of names of columns")


def _each_instance(layout: Layout) -> Iterator[tuple[int, slice, dict[str, NDArray[Any]]]]:
    """The number of every instance, where its items are, and its part of the columns."""
    for i, (start, stop) in enumerate(pairwise(layout.offsets.tolist())):
        part = slice(start, stop)
        yield i, part, {name: array[part] for name, array in layout.per_item.items()}
