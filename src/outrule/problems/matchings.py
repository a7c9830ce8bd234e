"""Matchings: general, bipartite, and greedy for graphs too large for the exact ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isqrt
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from outrule import kernels
from outrule.data.instances import Instances
from outrule.errors import refuse_argument
from outrule.problems import large_graphs
from outrule.problems.contract import (
    MOST_ITEMS,
    Layout,
    Problem,
    Scale,
    check_size,
    number_values,
    read_column,
)
from outrule.types import Floats, Integers, Picks, computed_once


@dataclass(frozen=True)
class Graph(Problem):
    """A problem whose items are edges: fixed ones, or those that two columns of a table name.

    Parameters
    ----------
    edges : sequence of pairs of nodes 0, 1, ...
        Item ``e`` is edge ``edges[e]``. See ``complete`` and ``between``.
    """

    edges: Sequence[Sequence[int]] | None
    columns: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        owner = type(self).__name__
        if (self.edges is None) == (self.columns is None):
            raise refuse_argument(self.edges, "edges", owner, "pairs of nodes")
        if self.edges is not None:
            expected = "a non-empty sequence of pairs of two different nodes 0, 1, ..."
            pairs = self._check_array("edges", expected, _are_edges)
            object.__setattr__(self, "edges", tuple((int(u), int(v)) for u, v in pairs))
        elif [type(name) for name in self.columns or ()] != [str, str]:
            raise refuse_argument(self.columns, "columns", owner, "the names of two columns")

    @classmethod
    def complete(cls, n_nodes: int) -> Self:
        """Every pair of ``n_nodes`` nodes, in the order (0, 1), (0, 2), ..., (n - 2, n - 1)."""
        check_size(n_nodes, "n_nodes", cls.__name__, 2, isqrt(2 * MOST_ITEMS))
        return cls([(i, j) for i in range(n_nodes) for j in range(i + 1, n_nodes)])

    @classmethod
    def between(cls, first: str, second: str) -> Self:
        """Every row of a table is an edge between what these two columns name."""
        return cls(None, columns=(first, second))

    def __repr__(self) -> str:
        name = type(self).__name__
        if self.edges is None:
            return f"{name}.between{self.columns!r}"
        return f"{name}(<{len(self.edges)} edges on {self.n_nodes} nodes>)"

    @computed_once
    def n_nodes(self) -> int:
        """Nodes of the fixed graph: those that an edge names."""
        return int(self._numbered.max()) + 1

    @computed_once
    def _numbered(self) -> NDArray[np.int32]:
        """The fixed edges, their nodes numbered without gaps."""
        codes = np.unique(self.edges or (), return_inverse=True)[1]
        return codes.reshape(-1, 2).astype(np.int32)

    @property
    def column_names(self) -> list[str]:
        return list(self.columns or ())

    def lay_edges(self, instances: Instances) -> Layout:
        """The ends of every edge; k is still to be set."""
        if self.columns is not None:
            ends, nodes = number_values(
                [read_column(c, instances) for c in self.columns], instances
            )
            loop = np.flatnonzero(ends[0] == ends[1])
            if len(loop):
                words = f"columns {self.columns[0]!r} and {self.columns[1]!r} name the same node"
                rest = ". An edge joins two different nodes."
                raise instances.fault(words, rest, loop)
            width, u, v = None, *ends
        else:
            items = self._item_numbers(instances, len(self._numbered))
            nodes = np.full(len(instances), self.n_nodes)
            width, u, v = instances.width, *self._numbered[items].T.copy()
        edges, sizes = {"u": u, "v": v}, {"n_nodes": nodes}
        return Layout.of(instances, 0, edges, width=width, per_instance=sizes)


def _are_edges(pairs: NDArray[Any]) -> Any:
    whole = pairs.ndim == 2 and pairs.shape[1] == 2 and pairs.dtype.kind in "iu"
    return whole and pairs.min() >= 0 and (pairs[:, 0] != pairs[:, 1]).all()


@dataclass(frozen=True, repr=False)
class Matching(Graph):
    """A matching in a general graph, of maximum weight, exactly (paper, section 3).

    Graphs of more than 1,000 nodes are matched one by one, by rustworkx (the extra ``sparse``).
    ``k`` is the size of the largest matching of any instance; for a graph of more than 1,000 nodes,
    an upper bound on it: half the largest matching of its double cover.

    Examples
    --------
    >>> Matching.complete(4).solve([[0.9, 0.8, 0.0, 0.0, 0.7, 0.1]])
    array([[False,  True, False, False,  True, False]])
    """

    def lay(self, instances: Instances) -> Layout:
        layout = self.lay_edges(instances)
        if layout.width is not None:
            return replace(layout, k=self._largest_matching)
        most = _bound_matchings(layout)
        if self.columns is None:
            most = np.minimum(most, self._largest_matching)
        large = layout.per_instance["n_nodes"] > large_graphs.LARGEST_DENSE
        rest = self._exact._largest_decision(layout, np.where(large, 0, most))
        return replace(layout, k=max(rest, int(most[large].max(initial=1))))

    @computed_once
    def _exact(self) -> Matching:
        """The problem with its exact optimiser."""
        return self

    @computed_once
    def _largest_matching(self) -> int:
        """The size of the largest matching of the fixed graph."""
        (u, v), n_nodes = self._numbered.T, self.n_nodes
        if n_nodes > large_graphs.LARGEST_DENSE:
            return large_graphs.bound_matching(u, v, n_nodes)
        ones, picks = np.ones(len(u)), np.empty((1, n_nodes // 2), dtype=np.int32)
        kernels.matching.match_dense(ones[None], ones, u, v, n_nodes, picks)
        return int((picks >= 0).sum())

    def fill_picks(self, picks: Picks, weights: Floats, layout: Layout, scale: Scale) -> None:
        nodes = layout.per_instance["n_nodes"]
        large = nodes > large_graphs.LARGEST_DENSE
        if large.any():
            weights = layout.scaled(weights, scale)
            large_graphs.match_sparse(weights, layout, np.flatnonzero(large), picks)
            for i in np.flatnonzero(~large).tolist():
                some = weights[layout.offsets[i] : layout.offsets[i + 1]]
                self.fill_picks(picks[i : i + 1], some, layout.slice(i, i + 1), None)
        elif layout.width is None:
            u, v = layout.per_item["u"], layout.per_item["v"]
            kernels.matching.match_ragged(weights, layout.offsets, u, v, nodes, picks)
        else:
            rows, scales = layout.rows(weights, scale)
            u, v = layout.shared["u"], layout.shared["v"]
            kernels.matching.match_dense(rows, scales, u, v, int(nodes[0]), picks)

    def uniform_odds(self, instances: Instances, layout: Layout) -> NDArray[Any] | None:
        nodes, ends = layout.per_instance["n_nodes"], [layout.column("u"), layout.column("v")]
        # An edge has no direction.
        if not _all_pairs(np.sort(ends, axis=0), instances, nodes * (nodes - 1) // 2):
            return None
        return np.asarray(1 / np.where(nodes % 2, nodes, nodes - 1))


def _all_pairs(pairs: Any, instances: Instances, sizes: Integers) -> bool:
    """Whether every instance offers so many items, and no pair twice: then it offers all."""
    if (np.diff(instances.offsets) != sizes).any():
        return False
    keys = np.stack((instances.instance, *pairs))
    return bool(np.unique(keys, axis=1).shape[1] == keys.shape[1])


def _bound_matchings(layout: Layout) -> Integers:
    """Sizes that no matching of an instance exceeds.

    It has two nodes per edge, different in each column; of a large graph see its double cover.
    """
    nodes, u, v = layout.per_instance["n_nodes"], layout.per_item["u"], layout.per_item["v"]
    most, first = nodes // 2, np.cumsum(nodes) - nodes
    for end in (u, v):
        named = np.zeros(nodes.sum() + 1, dtype=np.int64)
        named[np.repeat(first, np.diff(layout.offsets)) + end] = 1
        most = np.minimum(most, np.add.reduceat(named, first) * (nodes > 0))
    for i in np.flatnonzero(nodes > large_graphs.LARGEST_DENSE).tolist():
        span = slice(int(layout.offsets[i]), int(layout.offsets[i + 1]))
        most[i] = large_graphs.bound_matching(u[span], v[span], int(nodes[i]))
    return most


@dataclass(frozen=True, repr=False)
class GreedyMatching(Matching):
    """A matching by taking the heaviest edge that still fits: at least half of the optimum.

    For graphs too large for ``Matching``.
    """

    ratio = 0.5

    @computed_once
    def _exact(self) -> Matching:
        return Matching(self.edges, self.columns)

    def fill_picks(self, picks: Picks, weights: Floats, layout: Layout, scale: Scale) -> None:
        graph = layout.column("u"), layout.column("v"), layout.per_instance["n_nodes"]
        weights = layout.scaled(weights, scale)
        kernels.greedy.greedy_matching_ragged(weights, layout.offsets, *graph, picks)

    def uniform_odds(self, instances: Instances, layout: Layout) -> NDArray[Any] | None:
        return None


@dataclass(frozen=True)
class Assignment(Problem):
    """A matching of rows with columns, of maximum weight, exactly.

    Parameters
    ----------
    rows, columns : int, or str
        The two numbers: item ``r * columns + c`` pairs row r with column c. Or the names of two
        columns of a table, every row of which is a pair; instances may have different sizes.

    Examples
    --------
    >>> Assignment(2, 2).solve([[0.9, 0.8, 0.7, 0.1]])
    array([[False,  True,  True, False]])
    """

    rows: int | str
    columns: int | str

    def __post_init__(self) -> None:
        if isinstance(self.rows, str) and isinstance(self.columns, str):
            return
        for name in ("rows", "columns"):
            check_size(getattr(self, name), name, "Assignment")
        if int(self.rows) * int(self.columns) > MOST_ITEMS:
            expected = f"at most {MOST_ITEMS:,} divided by the number of rows"
            raise refuse_argument(self.columns, "columns", "Assignment", expected)

    @property
    def column_names(self) -> list[str]:
        return [name for name in (self.rows, self.columns) if isinstance(name, str)]

    def lay(self, instances: Instances) -> Layout:
        if isinstance(self.rows, str) and isinstance(self.columns, str):
            (row,), n_rows = number_values([read_column(self.rows, instances)], instances)
            (column,), n_columns = number_values([read_column(self.columns, instances)], instances)
            width = None
        else:
            shape = (int(self.rows), int(self.columns))
            items = self._item_numbers(instances, shape[0] * shape[1])
            row, column = items // shape[1], items % shape[1]
            n_rows, n_columns = (np.full(len(instances), side) for side in shape)
            width = instances.width
        most = np.minimum(n_rows, n_columns)
        sizes = {"n_rows": n_rows, "n_columns": n_columns}
        pairs = {"row": row, "column": column}
        layout = Layout.of(
            instances, int(most.max(initial=1)), pairs, width=width, per_instance=sizes
        )
        return layout if width else replace(layout, k=self._largest_decision(layout, most))

    def fill_picks(self, picks: Picks, weights: Floats, layout: Layout, scale: Scale) -> None:
        if layout.width is None:
            pairs = layout.per_item["row"], layout.per_item["column"]
            sizes = layout.per_instance["n_rows"], layout.per_instance["n_columns"]
            kernels.assignment.assign_ragged(weights, layout.offsets, *pairs, *sizes, picks)
        else:
            shape = int(self.rows), int(self.columns)
            kernels.assignment.assign_dense(*layout.rows(weights, scale), *shape, picks)

    def uniform_odds(self, instances: Instances, layout: Layout) -> NDArray[Any] | None:
        rows, columns = layout.per_instance["n_rows"], layout.per_instance["n_columns"]
        pairs = layout.column("row"), layout.column("column")
        if not _all_pairs(pairs, instances, rows * columns):
            return None
        return np.asarray(1 / np.maximum(rows, columns))
