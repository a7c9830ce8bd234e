"""Matroids: the optimiser is the greedy algorithm, and a decision is an independent set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import index
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from outrule.data.instances import Instances
from outrule.errors import DataError, check_number, refuse_argument
from outrule.problems.contract import (
    Layout,
    Problem,
    by_item,
    finite,
    item_numbers,
    no_nulls,
    with_greedy_rank,
)
from outrule.problems.matchings import Codes, Graph
from outrule.types import Floats, Picks

SPARSE = 8  # pairs of nodes per edge from which on a graph is not worth a matrix


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
        check_number(self.k, "k", "TopK", 1, low_open=False, integer=True)

    def lay(self, instances: Instances) -> Layout:
        rank = min(self.k, int(np.diff(instances.offsets).max()))
        return Layout(instances.offsets, max(1, rank), instances.width)

    def pick(self, weights: Floats, layout: Layout, scale: Floats | None = None) -> Picks:
        from outrule.kernels import greedy

        picks = layout.new_picks()
        if layout.width is None:
            greedy.top_ragged(weights, layout.offsets, self.k, picks)
        else:
            scale = np.ones(layout.width) if scale is None else scale
            greedy.top_dense(weights.reshape(-1, layout.width), scale, self.k, picks)
        return picks


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
            object.__setattr__(self, "groups", _numbers(self.groups, "groups", "PartitionMatroid"))
        table = self.capacity if isinstance(self.capacity, Mapping) else {"": self.capacity}
        for value in table.values():
            check_number(value, "capacity", "PartitionMatroid", 0, low_open=False, integer=True)

    def lay(self, instances: Instances) -> Layout:
        if isinstance(self.groups, str):
            column = no_nulls(instances.origin.flat_column(self.groups), self.groups, instances)
            width = None
        else:
            items = item_numbers(instances, len(self.groups), "PartitionMatroid")
            column = np.asarray(self.groups)[items]
            width = instances.width
        names, code = np.unique(column, return_inverse=True)
        capacity = np.asarray([self._capacity_of(name) for name in names.tolist()], dtype=np.int64)
        layout = Layout(
            instances.offsets,
            int(np.diff(instances.offsets).max()),
            width,
            shared={"capacity": capacity},
            **by_item(width, group=code.astype(np.int32)),
        )
        return with_greedy_rank(self, layout)

    def _capacity_of(self, group: Any) -> int:
        if not isinstance(self.capacity, Mapping):
            return self.capacity
        if group not in self.capacity:
            raise DataError(
                f"PartitionMatroid has no capacity for group {group!r}. "
                "Give every group a capacity, or one capacity to all."
            )
        return self.capacity[group]

    def pick(self, weights: Floats, layout: Layout, scale: Floats | None = None) -> Picks:
        from outrule.kernels import greedy

        picks = layout.new_picks()
        weights = layout.scaled(weights, scale)
        group, capacity = layout.column("group"), layout.shared["capacity"]
        greedy.partition_ragged(weights, layout.offsets, group, capacity, picks)
        return picks


@dataclass(frozen=True, init=False, repr=False)
class GraphicMatroid(Graph):
    """Choose edges without a cycle: a forest of maximum weight.

    Examples
    --------
    >>> GraphicMatroid.complete(3).solve([[0.2, 0.7, 0.1]])
    array([[ True,  True, False]])
    """

    def lay(self, instances: Instances) -> Layout:
        ends = super().lay(instances)
        n_nodes = ends.per_instance["n_nodes"]
        most = max(1, int(n_nodes.max()) - 1)
        return with_greedy_rank(self, replace(ends, k=most))

    def pick(self, weights: Floats, layout: Layout, scale: Floats | None = None) -> Picks:
        from outrule.kernels import greedy

        picks = layout.new_picks()
        weights = layout.scaled(weights, scale)
        if layout.width is not None and self._edge_between is not None:
            greedy.forest_dense(weights.reshape(-1, layout.width), self._edge_between, picks)
            return picks
        u, v, nodes = layout.column("u"), layout.column("v"), layout.per_instance["n_nodes"]
        greedy.graphic_ragged(weights, layout.offsets, u, v, nodes, picks)
        return picks

    @cached_property
    def _edge_between(self) -> Codes | None:
        """The fixed edge between every two nodes, -1 where there is none.

        None where a pair has two edges, or so few have one that sorting them is faster.
        """
        u, v = self._numbered.T
        if self.n_nodes**2 > SPARSE * len(u):
            return None
        found = np.full((self.n_nodes, self.n_nodes), -1, dtype=np.int32)
        found[u, v] = found[v, u] = np.arange(len(u))
        return found if np.count_nonzero(found >= 0) == 2 * len(u) else None


@dataclass(frozen=True)
class LaminarMatroid(Problem):
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
        check_number(self.n_items, "n_items", owner, 1, low_open=False, integer=True)
        sets = _sets(self.sets, self.n_items, owner)
        capacity = _numbers(self.capacity, "capacity", owner)
        if len(capacity) != len(sets):
            raise refuse_argument(self.capacity, "capacity", owner, f"{len(sets)} ints, one a set")
        for one in sets:
            for other in sets:
                common = set(one) & set(other)
                if common and common != set(one) and common != set(other):
                    raise refuse_argument(
                        self.sets, "sets", owner, "sets that are pairwise nested or disjoint"
                    )
        object.__setattr__(self, "sets", sets)
        object.__setattr__(self, "capacity", capacity)

    def lay(self, instances: Instances) -> Layout:
        items = item_numbers(instances, self.n_items, "LaminarMatroid")
        innermost, parent = self._nesting()
        layout = Layout(
            instances.offsets,
            int(np.diff(instances.offsets).max()),
            instances.width,
            shared={"parent": parent, "capacity": np.asarray(self.capacity, dtype=np.int64)},
            **by_item(instances.width, innermost=innermost[items]),
        )
        return with_greedy_rank(self, layout)

    def _nesting(self) -> tuple[Any, Any]:
        """The innermost set of every item, and the set around every set; -1 for none."""
        order = sorted(range(len(self.sets)), key=lambda s: (len(self.sets[s]), s))
        innermost = np.full(self.n_items, -1, dtype=np.int32)
        parent = np.full(len(self.sets), -1, dtype=np.int32)
        outermost = np.full(self.n_items, -1, dtype=np.int32)
        for s in order:
            for item in self.sets[s]:
                if outermost[item] < 0:
                    innermost[item] = s
                elif outermost[item] != s:
                    parent[outermost[item]] = s
                outermost[item] = s
        return innermost, parent

    def pick(self, weights: Floats, layout: Layout, scale: Floats | None = None) -> Picks:
        from outrule.kernels import greedy

        picks = layout.new_picks()
        weights = layout.scaled(weights, scale)
        parent, capacity = layout.shared["parent"], layout.shared["capacity"]
        innermost = layout.column("innermost")
        greedy.laminar_ragged(weights, layout.offsets, innermost, parent, capacity, picks)
        return picks


@dataclass(frozen=True)
class TransversalMatroid(Problem):
    """Choose items that can be given distinct sets, each a set that holds the item.

    Examples
    --------
    >>> TransversalMatroid(3, sets=[[0, 1], [1, 2]]).solve([[0.5, 0.7, 0.6]])
    array([[False,  True,  True]])
    """

    n_items: int
    sets: Sequence[Sequence[int]]

    def __post_init__(self) -> None:
        owner = "TransversalMatroid"
        check_number(self.n_items, "n_items", owner, 1, low_open=False, integer=True)
        object.__setattr__(self, "sets", _sets(self.sets, self.n_items, owner))

    def lay(self, instances: Instances) -> Layout:
        items = item_numbers(instances, self.n_items, "TransversalMatroid")
        holding: list[list[int]] = [[] for _ in range(self.n_items)]
        for s, members in enumerate(self.sets):
            for item in members:
                holding[item].append(s)
        starts = np.concatenate(([0], np.cumsum([len(sets) for sets in holding])))
        sets = np.asarray([s for sets in holding for s in sets], dtype=np.int32)
        layout = Layout(
            instances.offsets,
            len(self.sets),
            instances.width,
            shared={"starts": starts, "sets": sets},
            **by_item(instances.width, item=items),
        )
        return with_greedy_rank(self, layout)

    def pick(self, weights: Floats, layout: Layout, scale: Floats | None = None) -> Picks:
        from outrule.kernels import independence

        picks = layout.new_picks()
        weights = layout.scaled(weights, scale)
        item, starts, sets = layout.column("item"), *layout.shared.values()
        n_sets = len(self.sets)
        independence.transversal_ragged(weights, layout.offsets, item, starts, sets, n_sets, picks)
        return picks


@dataclass(frozen=True, eq=False)
class LinearMatroid(Problem):
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
        vectors = finite(self.vectors, 2, "vectors", "LinearMatroid", "(m, d)")
        check_number(self.tolerance, "tolerance", "LinearMatroid", 0, 1, high_open=True)
        vectors.flags.writeable = False
        object.__setattr__(self, "vectors", vectors)

    def lay(self, instances: Instances) -> Layout:
        vectors = np.asarray(self.vectors)
        items = item_numbers(instances, len(vectors), "LinearMatroid")
        structure = by_item(instances.width, item=items)
        layout = Layout(instances.offsets, vectors.shape[1], instances.width, **structure)
        return with_greedy_rank(self, layout)

    def pick(self, weights: Floats, layout: Layout, scale: Floats | None = None) -> Picks:
        from outrule.kernels import independence

        picks = layout.new_picks()
        weights, item = layout.scaled(weights, scale), layout.column("item")
        vectors = np.array(self.vectors)
        independence.linear_ragged(weights, layout.offsets, item, vectors, self.tolerance, picks)
        return picks


def _numbers(values: Any, name: str, owner: str) -> tuple[int, ...]:
    """A non-empty sequence of whole numbers from 0, as a tuple."""
    try:
        array = np.asarray(values)
        good = array.ndim == 1 and len(array) > 0 and array.dtype.kind in "iu" and array.min() >= 0
    except (TypeError, ValueError):
        good = False
    if not good:
        raise refuse_argument(values, name, owner, "a non-empty sequence of ints from 0")
    return tuple(array.tolist())


def _sets(values: Any, n_items: int, owner: str) -> tuple[tuple[int, ...], ...]:
    try:
        sets = tuple(tuple(sorted({index(item) for item in members})) for members in values)
        good = len(sets) > 0 and all(s and s[0] >= 0 and s[-1] < n_items for s in sets)
    except (TypeError, ValueError):
        good = False
    if not good:
        expected = f"a non-empty sequence of non-empty sets of items 0 to {n_items - 1}"
        raise refuse_argument(values, "sets", owner, expected)
    return sets
