"""Boosted trees: corrections that depend on several tests at once, and on which item it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outrule import kernels
from outrule.calibration.audit import Part
from outrule.calibration.piecewise import NOTHING, codes
from outrule.data.instances import Instances
from outrule.types import Booleans, Floats, Integers

RATE = 0.2  # the part of a tree's correction that is made
EDGES = 32  # questions about the prediction, at quantiles of all items, and as many of marked ones
MOST_ITEMS = 64  # of more, trees do not ask which item it is
MOST_TESTS = 64  # of more tests, those that split best at first
MOST_INSTANCES = 1 << 15  # of more, trees are grown on a sample
MOST_TREES, MOST_DEPTH = 1000, 8
PATIENCE = 10  # trees without a fall of the error outside


@dataclass(frozen=True, eq=False)
class Trees:
    """Trees that are added up; what they ask is described in ``kernels/trees.py``.

    ``tests`` are the numbers of the tests that are asked about, and questions count these.
    """

    edges: Floats
    items: tuple[Any, ...]  # their names
    tests: tuple[int, ...]
    questions: NDArray[np.int16]  # (n_trees, 2**depth - 1)
    values: Floats  # (n_trees, 2**depth)

    def apply(
        self,
        start: Floats,
        instances: Instances,
        offsets: Integers,
        picks: NDArray[Any],
        rows: Mapping[int, int],
        frozen: Booleans | None,
    ) -> Floats:
        """The start plus what the trees add; ``rows`` says where in picks a test is."""
        n_fixed, result = len(self.edges) + len(self.items), start.copy()
        place = np.arange(n_fixed + len(self.tests), dtype=np.int16)
        place[n_fixed:] = [n_fixed + rows[test] for test in self.tests]
        asked = np.where(self.questions < 0, self.questions, place[self.questions])
        item = _known(instances, self.items)
        fixed = (picks, self.edges, len(self.items), asked, self.values)
        kernels.trees.add_trees(instances.prediction, offsets, item, *fixed, result)
        result = np.clip(result, *instances.value_range)
        return result if frozen is None else np.where(frozen, start, result)


def _known(instances: Instances, items: tuple[Any, ...]) -> NDArray[np.int32]:
    """For every item its place among these names, or -1; empty if no question is about items."""
    code = codes(instances)
    if not items or not len(code):
        return np.empty(0, dtype=np.int32)
    place = {name: number for number, name in enumerate(items)}
    names: Any = instances.names_of_items or ()
    return np.array([place.get(name, -1) for name in names], dtype=np.int32)[code]


def grow(
    part: Part, start: Floats, left_out: Booleans, n_trees: int, depth: int, least: int
) -> Trees | None:
    """Trees for the residuals of the start, stopped on the instances left out; None if none helps.

    Every leaf has at least ``least`` outcomes. Cost: linear in instances times tests, but for a
    sample of many instances.
    """
    every = np.arange(len(part.layout))
    chosen = every[:: -(-len(every) // MOST_INSTANCES)]
    growth = _Growth(part, start, left_out, chosen, least)
    if not growth.can_split:
        return None
    grown, best, lowest = list[tuple[Integers, Floats]](), 0, growth.error
    while len(grown) < n_trees and len(grown) - best < PATIENCE:
        grown.append(growth.add(depth))
        if growth.error < lowest:
            best, lowest = len(grown), growth.error
    if not best:
        return None
    questions = np.array([one for one, _ in grown[:best]], dtype=np.int16)
    return growth.trees(questions, np.array([value for _, value in grown[:best]]))


class _Growth:
    """The state of trees while they grow."""

    def __init__(self, part: Part, start: Floats, left_out: Booleans, chosen: Integers, least: int):
        instances, self.least = part.instances.take(chosen), least
        inside = np.zeros(len(part.layout), dtype=np.bool_)
        inside[chosen] = True
        flat = inside[part.instances.instance]
        self.part, self.instances, self.offsets = part, instances, instances.offsets
        self.picks = np.ascontiguousarray(part.picks[:, :, chosen])
        frozen = part.layout.per_item.get("frozen", NOTHING)
        weight = np.repeat(part.weight[chosen], np.diff(self.offsets))
        if part.instances.upweight is not None:
            weight = weight * part.instances.upweight[flat]
        if len(frozen):
            weight = np.where(frozen[flat], 0.0, weight)
        out = left_out[chosen][instances.instance]
        self.outside = np.where(out, weight, 0.0)
        self.residual = np.where(weight > 0, part.outcome[flat] - start[flat], 0.0)
        own = np.where(out, 0.0, weight)
        self.values = np.stack([own * self.residual, own, own > 0], axis=1)
        self.error = float((self.outside * self.residual**2).sum())
        self.items = self._items()
        self.item = _known(instances, self.items)
        self.edges = self._edges()
        self.level = np.searchsorted(self.edges, instances.prediction, "right").astype(np.uint8)
        self.tests = np.arange(len(self.picks))
        self._limit_tests()

    @property
    def can_split(self) -> bool:
        return bool((self.values[:, 1] > 0).sum() >= 2 * self.least and self.outside.any())

    def _items(self) -> tuple[Any, ...]:
        names = tuple(self.instances.names_of_items or ())
        return names if 1 < len(names) <= MOST_ITEMS else ()

    def _edges(self) -> Floats:
        """Quantiles of the predictions of all items, and of those that tests mark."""
        p, used = self.instances.prediction, self.values[:, 1] > 0
        position = self.picks.astype(np.int64)
        marked = np.zeros(len(p), dtype=np.bool_)
        inside = position < np.diff(self.offsets)
        marked[(self.offsets[:-1] + position)[inside]] = True
        shares = np.arange(1, EDGES) / EDGES
        found = [np.quantile(p[some], shares) for some in (used, used & marked) if some.any()]
        return np.unique(np.concatenate([np.empty(0), *found]))

    def _limit_tests(self) -> None:
        if len(self.picks) > MOST_TESTS:
            gains = self._gains(np.zeros(len(self.values), dtype=np.uint8), 1)
            best = np.argsort(-gains[0, len(self.edges) + len(self.items) :], kind="stable")
            self.tests = np.sort(best[:MOST_TESTS])
            self.picks = np.ascontiguousarray(self.picks[self.tests])

    def _gains(self, node: NDArray[np.uint8], n_nodes: int) -> Floats:
        """By how much each question would lower the squared error of every node."""
        n_levels, n_tests = len(self.edges) + 1, len(self.picks)
        sums = np.zeros((n_nodes, n_levels + len(self.items) + n_tests, 3))
        kernels.trees.sum_by_answer(
            *(self.values, node, self.level, self.item, self.offsets, self.picks),
            *(len(self.items), sums),
        )
        levels = sums[:, :n_levels]
        total = levels.sum(axis=1, keepdims=True)
        above = np.cumsum(levels[:, ::-1], axis=1)[:, -2::-1]  # at least every edge
        yes = np.concatenate([above, sums[:, n_levels:]], axis=1)
        no = total - yes
        gain = _fall(yes) + _fall(no) - _fall(total)
        enough = np.minimum(yes[..., 2], no[..., 2]) >= self.least
        return np.where(enough, gain, 0.0)

    def add(self, depth: int) -> tuple[Integers, Floats]:
        """One more tree: its questions, and the values of its leaves."""
        node, asked = np.zeros(len(self.values), dtype=np.uint8), []
        for level in range(depth):
            gains = self._gains(node, 2**level)
            best = gains.argmax(axis=1)
            question = np.where(gains.max(axis=1) > 0, best, -1)
            asked.append(question)
            kernels.trees.descend(
                *(node, question, self.level, self.item, self.offsets, self.picks),
                *(len(self.edges), len(self.items)),
            )
        total, weight = (np.bincount(node, self.values[:, column], 2**depth) for column in (0, 1))
        value = RATE * np.divide(total, weight, out=np.zeros(2**depth), where=weight > 0)
        state = (self.outside, self.values, self.residual)
        self.error = kernels.trees.settle(node, value, *state)
        return np.concatenate(asked), value

    def trees(self, questions: NDArray[np.int16], values: Floats) -> Trees:
        """The trees with the numbers of their tests; those that no question is about left out."""
        first = len(self.edges) + len(self.items)
        used = np.unique(questions[questions >= first])
        number = np.full(first + len(self.tests), -1, dtype=np.int16)
        number[:first] = np.arange(first)
        number[used] = first + np.arange(len(used))
        # Rules that decide the same are one test: the first of them.
        names = np.unique(self.part.of_rule, return_index=True)[1]
        tests = tuple(names[self.tests[used - first]].tolist())
        asked = np.where(questions < 0, questions, number[questions])
        return Trees(self.edges, self.items, tests, asked, values)


def _fall(sums: Floats) -> Floats:
    """By how much the mean residual lowers the squared error."""
    residual, weight = sums[..., 0], sums[..., 1]
    return np.divide(residual**2, weight, out=np.zeros_like(weight), where=weight > 0)
