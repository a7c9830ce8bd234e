"""Matchings: general, bipartite, and greedy for graphs too large for the exact ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from outrule.data.instances import Instances
from outrule.errors import DataError, check_number, refuse_argument
from outrule.problems import sparse
from outrule.problems.contract import (
    Layout,
    Problem,
    by_item,
    item_numbers,
    local_codes,
    no_nulls,
)
from outrule.types import Booleans, Floats, Integers, Picks

Codes = NDArray[np.int32]


@dataclass(frozen=True)
class Graph(Problem):
    """A problem whose items are edges: fixed ones, or those that two columns of a table name.

    Parameters
    ----------
    edges : sequence of pairs of nodes 0, 1, ...
        Item ``e`` is edge ``edges[e]``. See :meth:`complete` and :meth:`between`.
    """

    edges: tuple[tuple[int, int], ...] | None
    columns: tuple[str, str] | None = None

    def __init__(
        self, edges: Sequence[Sequence[int]] | None, *, columns: tuple[str, str] | None = None
    ) -> None:
        owner = type(self).__name__
        if (edges is None) == (columns is None):
            raise refuse_argument(edges, "edges", owner, "pairs of nodes")
        if columns is not None and [type(name) for name in columns] != [str, str]:
            raise refuse_argument(columns, "columns", owner, "the names of two columns")
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "edges", None if edges is None else self._check_edges(edges))

    @classmethod
    def complete(cls, n_nodes: int) -> Self:
        """Every pair of ``n_nodes`` nodes, in the order (0, 1), (0, 2), ..., (n - 2, n - 1)."""
        n_nodes = int(
            check_number(n_nodes, "n_nodes", cls.__name__, 2, low_open=False, integer=True)
        )
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

    @cached_property
    def n_nodes(self) -> int:
        """Nodes of the fixed graph: those that an edge names."""
        return int(self._numbered.max()) + 1

    def _check_edges(self, edges: Sequence[Sequence[int]]) -> tuple[tuple[int, int], ...]:
        expected = "a non-empty sequence of pairs of two different nodes 0, 1, ..."
        try:
            pairs = np.asarray(edges)
            good = pairs.ndim == 2 and pairs.shape[1] == 2 and pairs.dtype.kind in "iu"
            good = (
                good and len(pairs) > 0 and pairs.min() >= 0 and (pairs[:, 0] != pairs[:, 1]).all()
            )
        except (TypeError, ValueError):
            good = False
        if not good:
            raise refuse_argument(edges, "edges", type(self).__name__, expected)
        return tuple((int(u), int(v)) for u, v in pairs)

    def lay(self, instances: Instances) -> Layout:
        if self.edges is None:
            u, v, nodes = self._ends_from_columns(instances)
            width = None
        else:
            items = item_numbers(instances, len(self.edges), type(self).__name__)
            u, v = self._numbered[items].T.copy()
            nodes = np.full(len(instances), self.n_nodes)
            width = instances.width
        k = max(1, int(nodes.max()) // 2)
        sizes = {"n_nodes": nodes}
        return Layout(instances.offsets, k, width, per_instance=sizes, **by_item(width, u=u, v=v))

    @cached_property
    def _numbered(self) -> NDArray[np.int32]:
        """The fixed edges, their nodes numbered without gaps."""
        codes = np.unique(self.edges or (), return_inverse=True)[1]
        return codes.reshape(-1, 2).astype(np.int32)

    def _ends_from_columns(self, instances: Instances) -> tuple[Codes, Codes, Integers]:
        assert self.columns is not None
        ends = [
            no_nulls(instances.origin.flat_column(name), name, instances) for name in self.columns
        ]
        (u, v), nodes = local_codes(ends, instances)
        loop = np.flatnonzero(u == v)
        if len(loop):
            raise DataError(
                f"columns {self.columns[0]!r} and {self.columns[1]!r} name the same node at "
                f"{instances.where_flat(int(loop[0]))}. An edge joins two different nodes."
            )
        return u, v, nodes


@dataclass(frozen=True, init=False, repr=False)
class Matching(Graph):
    """A matching in a general graph, of maximum weight, exactly (paper, section 3).

    Graphs of more than 1,000 nodes are matched one by one, by rustworkx (the extra ``sparse``).

    Examples
    --------
    >>> Matching.complete(4).solve([[0.9, 0.8, 0.0, 0.0, 0.7, 0.1]])
    array([[False,  True, False, False,  True, False]])
    """

    def pick(self, weights: Floats, layout: Layout, scale: Floats | None = None) -> Picks:
        from outrule.kernels import matching

        picks = layout.new_picks()
        nodes = layout.per_instance["n_nodes"]
        large = nodes > sparse.LARGEST_DENSE
        if large.any():
            return self._pick_sparse(layout.scaled(weights, scale), layout, large)
        if layout.width is None:
            u, v = layout.per_item["u"], layout.per_item["v"]
            matching.match_ragged(weights, layout.offsets, u, v, nodes, picks)
        else:
            u, v, m = layout.pattern["u"], layout.pattern["v"], layout.width
            scale = np.ones(m) if scale is None else scale
            matching.match_dense(weights.reshape(-1, m), scale, u, v, int(nodes[0]), picks)
        return picks

    def _pick_sparse(self, weights: Floats, layout: Layout, large: Booleans) -> Picks:
        """Large graphs by a library, the others, laid anew, by our own solvers."""
        picks = layout.new_picks()
        sparse.match_sparse(weights, layout, np.flatnonzero(large), picks)
        for i in np.flatnonzero(~large).tolist():
            one = layout.slice(i, i + 1)
            some = weights[layout.offsets[i] : layout.offsets[i + 1]]
            picks[i] = self.pick(some, one)[0]
        return picks


@dataclass(frozen=True, init=False, repr=False)
class GreedyMatching(Graph):
    """A matching by taking the heaviest edge that still fits: at least half of the optimum.

    For graphs too large for :class:`Matching`.
    """

    ratio = 0.5

    def pick(self, weights: Floats, layout: Layout, scale: Floats | None = None) -> Picks:
        from outrule.kernels import greedy

        picks = layout.new_picks()
        u, v, nodes = layout.column("u"), layout.column("v"), layout.per_instance["n_nodes"]
        weights = layout.scaled(weights, scale)
        greedy.greedy_matching_ragged(weights, layout.offsets, u, v, nodes, picks)
        return picks


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
            value = getattr(self, name)
            check_number(value, name, "Assignment", 1, low_open=False, integer=True)

    def lay(self, instances: Instances) -> Layout:
        if isinstance(self.rows, str) and isinstance(self.columns, str):
            names = (self.rows, self.columns)
            ends = [no_nulls(instances.origin.flat_column(name), name, instances) for name in names]
            (row,), n_rows = local_codes(ends[:1], instances)
            (column,), n_columns = local_codes(ends[1:], instances)
            width = None
        else:
            shape = (int(self.rows), int(self.columns))
            items = item_numbers(instances, shape[0] * shape[1], "Assignment")
            row, column = items // shape[1], items % shape[1]
            n_rows, n_columns = (np.full(len(instances), side) for side in shape)
            width = instances.width
        k = int(np.minimum(n_rows, n_columns).max())
        sizes = {"n_rows": n_rows, "n_columns": n_columns}
        pairs = by_item(width, row=row, column=column)
        return Layout(instances.offsets, k, width, per_instance=sizes, **pairs)

    def pick(self, weights: Floats, layout: Layout, scale: Floats | None = None) -> Picks:
        from outrule.kernels import assignment

        picks = layout.new_picks()
        if layout.width is None:
            assignment.assign_ragged(
                weights,
                layout.offsets,
                layout.per_item["row"],
                layout.per_item["column"],
                layout.per_instance["n_rows"],
                layout.per_instance["n_columns"],
                picks,
            )
        else:
            scale = np.ones(layout.width) if scale is None else scale
            rows = weights.reshape(-1, layout.width)
            assignment.assign_dense(rows, scale, int(self.rows), int(self.columns), picks)
        return picks
