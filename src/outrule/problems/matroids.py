"""Matroids: a decision is an independent set, and the optimiser is the greedy algorithm."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outrule import kernels
from outrule.data.instances import Instances
from outrule.errors import DataError, check_integer, check_number, refuse_argument
from outrule.problems.contract import Layout, Problem, Scale, check_size, largest_offer, read_column
from outrule.problems.matchings import Graph
from outrule.types import Floats, Integers, Picks, computed_once

SPARSE_PAIRS = 8  # from so many pairs of nodes per edge on, a graph is not worth a matrix


@dataclass(frozen=True)
class TopK(Problem):
    """Choose up to ``k`` items: the heaviest ones of positive weight.

    Examples
    --------
    >>> TopK(1).solve([[0.2, 0.7], [0.0, 0.0]])
    array([[False,  True],
           [False, False]])
    """

    k: int

    def __post_init__(self) -> None:
        check_integer(self.k, "k", "TopK")

    def lay(self, instances: Instances) -> Layout:
        return Layout(instances.offsets, min(self.k, largest_offer(instances)), instances.width)

    def fill_picks(self, picks: Picks, weights: Floats, layout: Layout, scale: Scale) -> None:
        if layout.width is None:
            kernels.greedy.top_ragged(weights, layout.offsets, layout.k, picks)
        else:
            kernels.greedy.top_dense(*layout.rows(weights, scale), layout.k, picks)

    def uniform_odds(self, instances: Instances, layout: Layout) -> NDArray[Any] | None:
        sizes = np.diff(layout.offsets)
        return np.asarray(np.minimum(self.k, sizes) / sizes)


@dataclass(frozen=True)
class PartitionMatroid(Problem):
    """Choose at most ``capacity`` items of each group.

    Parameters
    ----------
    groups : sequence of ints, or str
        The group of every item, or the column of a table that names it.
    capacity : int, or mapping from group to int

    Examples
    --------
    >>> PartitionMatroid([0, 0, 1], capacity=1).solve([[0.2, 0.7, 0.1]])
    array([[False,  True,  True]])
    """

    groups: Sequence[int] | str
    capacity: int | Mapping[Any, int] = 1

    def __post_init__(self) -> None:
        if not isinstance(self.groups, str):
            object.__setattr__(self, "groups", _numbers(self, "groups"))
        table = self.capacity if isinstance(self.capacity, Mapping) else {"": self.capacity}
        for value in table.values():
            check_integer(value, "capacity", "PartitionMatroid", 0)

    @property
    def column_names(self) -> list[str]:
        return [self.groups] if isinstance(self.groups, str) else []

    def lay(self, instances: Instances) -> Layout:
        if isinstance(self.groups, str):
            column, width = read_column(self.groups, instances), None
        else:
            items = self._item_numbers(instances, len(self.groups))
            column, width = np.asarray(self.groups)[items], instances.width
        names, code = np.unique(column, return_inverse=True)
        capacity = np.asarray([self._capacity_of(name) for name in names.tolist()], dtype=np.int64)
        group, shared = {"group": code.astype(np.int32)}, {"capacity": capacity}
        return self._with_rank(Layout.of(instances, 0, group, width=width, shared=shared))

    def _capacity_of(self, group: Any) -> int:
        if not isinstance(self.capacity, Mapping):
            return self.capacity
        if group not in self.capacity:
            raise DataError(
                f"PartitionMatroid has no capacity for group {group!r}. "
                "Give every group a capacity, or one capacity for all."
            )
        return self.capacity[group]

    def fill_picks(self, picks: Picks, weights: Floats, layout: Layout, scale: Scale) -> None:
        weights, capacity = layout.scaled(weights, scale), layout.shared["capacity"]
        group = layout.column("group")
        kernels.greedy.partition_ragged(weights, layout.offsets, group, capacity, picks)


@dataclass(frozen=True, repr=False)
class GraphicMatroid(Graph):
    """Choose edges without a cycle: a forest of maximum weight.

    Examples
    --------
    >>> GraphicMatroid.complete(3).solve([[0.2, 0.7, 0.1]])
    array([[ True,  True, False]])
    """

    def lay(self, instances: Instances) -> Layout:
        return self._with_rank(self.lay_edges(instances))

    def fill_picks(self, picks: Picks, weights: Floats, layout: Layout, scale: Scale) -> None:
        weights = layout.scaled(weights, scale)
        if layout.width is not None and self._edge_between is not None:
            rows, _ = layout.rows(weights, None)
            kernels.greedy.forest_dense(rows, self._edge_between, picks)
            return
        u, v, nodes = layout.column("u"), layout.column("v"), layout.per_instance["n_nodes"]
        kernels.greedy.graphic_ragged(weights, layout.offsets, u, v, nodes, picks)

    @computed_once
    def _edge_between(self) -> NDArray[np.int32] | None:
        """The fixed edge between every two nodes, -1 where there is none.

        None where a pair has two edges, or so few have one that sorting them is faster.
        """
        u, v = self._numbered.T
        if self.n_nodes**2 > SPARSE_PAIRS * len(u):
            return None
        found = np.full((self.n_nodes, self.n_nodes), -1, dtype=np.int32)
        found[u, v] = found[v, u] = np.arange(len(u))
        return found if np.count_nonzero(found >= 0) == 2 * len(u) else None


class FixedMatroid(Problem):
    """A matroid on fixed items that a kernel knows by one number per item and some arguments."""

    @abstractmethod
    def _kernel(self) -> tuple[Callable[..., None], NDArray[np.int32], tuple[Any, ...]]:
        """The kernel, the number of every item, and the kernel's other arguments."""

    def lay(self, instances: Instances) -> Layout:
        _, numbers, _ = self._kernel()
        number = numbers[self._item_numbers(instances, len(numbers))]
        return self._with_rank(Layout.of(instances, 0, {"number": number}, width=instances.width))

    def fill_picks(self, picks: Picks, weights: Floats, layout: Layout, scale: Scale) -> None:
        pick, _, arguments = self._kernel()
        weights = layout.scaled(weights, scale)
        pick(weights, layout.offsets, layout.column("number"), *arguments, picks)


@dataclass(frozen=True)
class LaminarMatroid(FixedMatroid):
    """Choose at most ``capacity[s]`` items of every set s; two sets are nested or disjoint.

    Parameters
    ----------
    n_items : int
    sets : sequence of sequences of items
    capacity : sequence of ints, one per set

    Examples
    --------
    >>> LaminarMatroid(3, sets=[[0, 1], [0, 1, 2]], capacity=[1, 2]).solve([[0.5, 0.7, 0.1]])
    array([[False,  True,  True]])
    """

    n_items: int
    sets: Sequence[Sequence[int]]
    capacity: Sequence[int]

    def __post_init__(self) -> None:
        owner = "LaminarMatroid"
        sets = _check_sets(self.sets, self.n_items, owner)
        capacity = _numbers(self, "capacity")
        if len(capacity) != len(sets):
            raise refuse_argument(
                self.capacity, "capacity", owner, f"{len(sets)} ints, one per set"
            )
        if not _is_laminar(sets):
            expected = "sets that are pairwise nested or disjoint"
            raise refuse_argument(self.sets, "sets", owner, expected)
        object.__setattr__(self, "sets", sets)
        object.__setattr__(self, "capacity", capacity)

    def _kernel(self) -> Any:
        innermost, parent = self._nesting
        capacity = np.asarray(self.capacity, dtype=np.int64)
        return kernels.greedy.laminar_ragged, innermost, (parent, capacity)

    @computed_once
    def _nesting(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The innermost set of every item, and the set around every set; -1 for none."""
        innermost, outermost = np.full((2, self.n_items), -1, dtype=np.int32)
        parent = np.full(len(self.sets), -1, dtype=np.int32)
        for s in sorted(range(len(self.sets)), key=lambda s: (len(self.sets[s]), s)):
            for item in self.sets[s]:
                if outermost[item] < 0:
                    innermost[item] = s
                elif outermost[item] != s:
                    parent[outermost[item]] = s
                outermost[item] = s
        return innermost, parent


@dataclass(frozen=True)
class TransversalMatroid(FixedMatroid):
    """Choose items that can be given distinct sets, each a set that holds the item.

    Examples
    --------
    >>> TransversalMatroid(3, sets=[[0, 1], [1, 2]]).solve([[0.5, 0.7, 0.6]])
    array([[False,  True,  True]])
    """

    n_items: int
    sets: Sequence[Sequence[int]]

    def __post_init__(self) -> None:
        sets = _check_sets(self.sets, self.n_items, "TransversalMatroid")
        object.__setattr__(self, "sets", sets)

    def _kernel(self) -> Any:
        items = np.arange(self.n_items, dtype=np.int32)
        return kernels.greedy.transversal_ragged, items, (*self._sets_of, len(self.sets))

    @computed_once
    def _sets_of(self) -> tuple[Integers, NDArray[np.int32]]:
        """Where the sets that hold each item start in the second array."""
        pairs = sorted((item, s) for s, members in enumerate(self.sets) for item in members)
        holders, sets = np.array(pairs, dtype=np.int32).T
        return np.searchsorted(holders, np.arange(self.n_items + 1)), np.ascontiguousarray(sets)


@dataclass(frozen=True, eq=False)
class LinearMatroid(FixedMatroid):
    """Choose items whose vectors are linearly independent over the reals.

    Parameters
    ----------
    vectors : array-like of shape (m, d)
    tolerance : float
        What is left of a vector after elimination counts as zero below this fraction of it.

    Examples
    --------
    >>> LinearMatroid([[1, 0], [2, 0], [0, 1]]).solve([[0.5, 0.7, 0.6]])
    array([[False,  True,  True]])
    """

    vectors: ArrayLike
    tolerance: float = 1e-9

    def __post_init__(self) -> None:
        vectors = self._check_finite("vectors", 2, "(m, d)")
        check_number(self.tolerance, "tolerance", "LinearMatroid", 0, 1, high_open=True)
        vectors.flags.writeable = False
        object.__setattr__(self, "vectors", vectors)

    def _kernel(self) -> Any:
        vectors = np.array(self.vectors)
        items = np.arange(len(vectors), dtype=np.int32)
        return kernels.greedy.linear_ragged, items, (vectors, self.tolerance)


def _is_laminar(sets: tuple[tuple[int, ...], ...]) -> bool:
    """Whether any two sets are nested or disjoint, in time linear in their sizes."""
    outermost: dict[int, int] = {}  # of every item, among the smaller sets
    for s in sorted(range(len(sets)), key=lambda s: len(sets[s])):
        inside = Counter(outermost[item] for item in sets[s] if item in outermost)
        if any(n_common != len(sets[other]) for other, n_common in inside.items()):
            return False
        outermost.update(dict.fromkeys(sets[s], s))
    return True


def _numbers(problem: Problem, name: str) -> tuple[int, ...]:
    def good(array: NDArray[Any]) -> Any:
        whole = array.ndim == 1 and array.dtype.kind in "iu"
        return whole and array.min() >= 0 and array.max() < 2**63

    expected = "a non-empty sequence of non-negative ints"
    return tuple(problem._check_array(name, expected, good).tolist())


def _check_sets(values: Any, n_items: int, owner: str) -> tuple[tuple[int, ...], ...]:
    """The sets as sorted tuples."""
    check_size(n_items, "n_items", owner)
    try:
        sets = tuple(tuple(sorted({index(item) for item in members})) for members in values)
        if sets and all(s and s[0] >= 0 and s[-1] < n_items for s in sets):
            return sets
    except (TypeError, ValueError):
        pass
    expected = f"a non-empty sequence of non-empty sets of items 0 to {n_items - 1}"
    raise refuse_argument(values, "sets", owner, expected)
