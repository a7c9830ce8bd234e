"""Boosted trees: corrections that depend on several tests at once, and on which item it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outrule import kernels, threads
from outrule.calibration.audit import Part
from outrule.calibration.piecewise import NOTHING, codes
from outrule.data.instances import Instances
from outrule.types import Booleans, Floats, Integers, computed_once

RATE = 0.5  # the part of a tree's correction that is made
EDGES = 32  # questions about the prediction, at quantiles of all items, and as many of marked ones
MOST_ITEMS = 64  # of more, trees do not ask which item it is
MOST_TESTS = 64  # of more tests, those that split best at first
MOST_INSTANCES = 1 << 15  # of more, trees are grown on a sample
MOST_TREES, MOST_DEPTH = 1000, 6
PATIENCE = 10  # trees without a fall of the error outside


@dataclass(frozen=True, eq=False)
class Trees:
    """Trees that are added up; what they ask is described in ``kernels/trees.py``.

    ``tests`` are the numbers of the tests that are asked about, and questions count these.
    """

    edges: Floats
    items: tuple[Any, ...]  # their names
    tests: tuple[int, ...]
    questions: NDArray[np.int16]  # (n_trees, depth)
    values: Floats  # (n_trees, 2**depth)


@dataclass(frozen=True, eq=False)
class Forest:
    """The trees of several members together, as the kernel reads them; some may have none."""

    edges: Floats
    items: tuple[Any, ...]
    tests: tuple[int, ...]
    ends: Integers  # where the trees of every member end
    questions: Integers
    values: Floats

    @computed_once
    def _padded(self) -> tuple[Integers, Floats]:
        """The trees as the kernel reads them."""
        n_questions = len(self.edges) + len(self.items) + len(self.tests)
        return kernels.trees.padded(self.questions, self.values, n_questions)

    @classmethod
    def of(cls, members: Sequence[Trees | None]) -> list[Forest]:
        """One for all members of a fit: their trees differ in the tests only."""
        kinds: dict[Any, list[Trees | None]] = {}
        for number, one in enumerate(members):
            if one is not None:
                key = (one.edges.tobytes(), one.items, one.values.shape[1])
                kinds.setdefault(key, [None] * len(members))[number] = one
        return [cls._joined(some) for some in kinds.values()]

    @classmethod
    def _joined(cls, members: Sequence[Trees | None]) -> Forest:
        found = [one for one in members if one is not None]
        edges, items = found[0].edges, found[0].items
        tests = sorted({test for one in found for test in one.tests})
        questions, first = [], len(edges) + len(items)
        for one in found:
            asked = first + np.searchsorted(tests, one.tests)
            # Behind all, since that is where -1 points to: a question of -1 stays one.
            place = np.concatenate([np.arange(first), asked, [-1]])
            questions.append(place[one.questions])
        ends = np.cumsum([0, *(0 if one is None else len(one.values) for one in members)])
        values = np.concatenate([one.values for one in found])
        return cls(edges, items, tuple(tests), ends, np.concatenate(questions), values)

    def add_to(
        self,
        starts: Floats,
        instances: Instances,
        offsets: Integers,
        picks: NDArray[Any],
        frozen: Booleans | None,
    ) -> None:
        """Add what the trees say to the start of every member; ``picks`` are of these tests."""
        before, item = starts if frozen is None else starts.copy(), _known(instances, self.items)
        about = (instances.prediction, offsets, item, picks, self.edges, len(self.items))
        kernels.trees.add_trees(*about, self.ends, self._padded, starts)
        np.clip(starts, *instances.value_range, out=starts)
        if frozen is not None:
            starts[:, frozen] = before[:, frozen]


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

    A leaf's correction is as if ``least`` more outcomes had found nothing to correct, or, where
    those of a cluster are alike, as many as say what ``least`` independent ones do. Cost: linear in
    instances times tests, but for a sample of many instances.
    """
    every = np.arange(len(part.layout))
    chosen = every[:: -(-len(every) // MOST_INSTANCES)]
    growth = _Growth(part, start, left_out, chosen, least)
    if not growth.can_split:
        return None
    grown, best, lowest = list[tuple[Integers, Floats]](), 0, growth.error
    while len(grown) < n_trees and len(grown) - best < PATIENCE:
        threads.check_stop()
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
        instances = part.instances.take(chosen)
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
        self.values = np.stack([own * self.residual, own], axis=1)
        self.inside = np.flatnonzero(own > 0).astype(np.int32)
        self.can_split = bool(len(self.inside) >= 2 * least and self.outside.any())
        # So much weight as `least` outcomes of equal weight would have (Kish's effective size).
        self.least = least * float((own**2).sum() / own.sum()) if own.any() else 0.0
        self.error = float((self.outside * self.residual**2).sum())
        self.groups = self._groups()
        self.ballast = self._ballast()
        self.items = self._items()
        self.item = _known(instances, self.items)
        self.edges = self._edges()
        self.level = np.searchsorted(self.edges, instances.prediction, "right").astype(np.uint8)
        self.tests = self._choose_tests()
        self.picks = np.ascontiguousarray(self.picks[self.tests])
        self.ends = np.empty(len(own) + 2, dtype=np.int64)
        self.marks = np.empty(self.picks.size, dtype=np.uint8)
        kernels.trees.list_marks(self.picks, self.offsets, self.ends, self.marks)

    def _groups(self) -> list[Integers]:
        """Which outcomes inside may depend on each other: of a cluster, or of an item in it."""
        cluster, code = self.instances.cluster, codes(self.instances)
        if cluster is None:
            return []
        group = np.unique(cluster, return_inverse=True)[1][self.instances.instance[self.inside]]
        if not len(code):
            return [group]
        by_item = group * (int(code.max()) + 1) + code[self.inside]
        return [group, np.unique(by_item, return_inverse=True)[1]]

    def _ballast(self) -> float:
        """The weight of outcomes that correct nothing, by how alike those of a group are."""
        residual, weight = self.values[self.inside].T
        alone = float((residual**2).sum())
        if not alone > 0:
            return self.least
        residual = residual - weight * residual.sum() / weight.sum()
        together = [float((np.bincount(group, residual) ** 2).sum()) for group in self.groups]
        return self.least * max([1.0, *(one / alone for one in together)])

    def _items(self) -> tuple[Any, ...]:
        names = tuple(self.instances.names_of_items or ())
        return names if 1 < len(names) <= MOST_ITEMS else ()

    def _edges(self) -> Floats:
        """Quantiles of the predictions of all items, and of those that tests mark.

        They are the same for all members, so that all are asked together.
        """
        p, used = self.instances.prediction, self.values[:, 1] + self.outside > 0
        position = self.picks.astype(np.int64)
        marked = np.zeros(len(p), dtype=np.bool_)
        inside = position < np.diff(self.offsets)
        marked[(self.offsets[:-1] + position)[inside]] = True
        shares = np.arange(1, EDGES) / EDGES
        found = [np.quantile(p[some], shares) for some in (used, used & marked) if some.any()]
        return np.unique(np.concatenate([np.empty(0), *found]))

    def _choose_tests(self) -> Integers:
        """All tests, or those that would split best."""
        if len(self.picks) <= MOST_TESTS:
            return np.arange(len(self.picks))
        sums, level = np.zeros((len(self.picks), 1, 2)), np.zeros(len(self.values), dtype=np.uint8)
        kernels.curves.sum_by_level(self.values, level, self.offsets, self.picks, 0, 1, sums)
        yes = sums[:, 0]
        gains = self._fall(yes) + self._fall(self.values.sum(axis=0) - yes)
        return np.sort(np.argsort(-gains, kind="stable")[:MOST_TESTS])

    def _fall(self, sums: Floats) -> Floats:
        """By how much a correction lowers the squared error, given residuals and weights."""
        residual, weight = sums[..., 0], sums[..., 1]
        return np.asarray(residual**2 / (weight + self.ballast))

    def add(self, depth: int) -> tuple[Integers, Floats]:
        """One more tree: its questions, and the values of its leaves."""
        self.ballast = self._ballast()
        node, asked = np.zeros(len(self.values), dtype=np.uint8), np.full(depth, -1)
        leaves, sums = self.values.sum(axis=0)[None], self._sums(node, 1, -1)
        n_levels = len(self.edges) + 1
        for turn in range(depth):
            # Of predictions: the sums of the levels that are not below the question's edge.
            at_least = np.cumsum(sums[:, n_levels - 1 : 0 : -1], axis=1)[:, ::-1]
            yes = np.concatenate([at_least, sums[:, n_levels:]], axis=1)
            no = leaves[:, None] - yes
            gains = (self._fall(yes) + self._fall(no)).sum(axis=0) - self._fall(leaves).sum()
            question = int(gains.argmax())
            if gains[question] > 0:
                asked[turn] = question
                leaves = np.stack([no[:, question], yes[:, question]], axis=1).reshape(-1, 2)
            else:
                leaves = np.stack([leaves, np.zeros_like(leaves)], axis=1).reshape(-1, 2)
            self._descend(node, asked[turn])
            if turn < depth - 1:
                lighter = int(leaves[1::2, 1].sum() < leaves[::2, 1].sum())
                above, sums = sums, self._sums(node, len(leaves), lighter)
                sums[1 - lighter :: 2] = above - sums[lighter::2]
        value = RATE * leaves[:, 0] / (leaves[:, 1] + self.ballast)
        value = np.clip(value, -self.part.span, self.part.span)  # estimated outcomes can be far off
        self.error = kernels.trees.settle(node, value, self.outside, self.values, self.residual)
        return asked, value

    def _descend(self, node: NDArray[np.uint8], question: int) -> None:
        """Move every item from its node to 2 node, or to 2 node + 1 if the answer is yes."""
        first_item, first_test = len(self.edges), len(self.edges) + len(self.items)
        node *= 2
        if question >= first_test:
            kernels.trees.answer_yes(node, self.picks[question - first_test], self.offsets)
        elif question >= first_item:
            node += self.item == question - first_item
        elif question >= 0:
            node += self.level > question

    def _sums(self, node: NDArray[np.uint8], n_nodes: int, last: int) -> Floats:
        """Residuals and weights by node and answer; only of nodes whose last answer is ``last``."""
        n_items, n_tests = len(self.items), len(self.picks)
        sums = np.zeros((n_nodes, len(self.edges) + 1 + n_items + n_tests, 2))
        places = (self.level, self.item, self.ends, self.marks, n_items, n_tests)
        kernels.trees.sum_by_answer(self.values, self.inside, node, *places, last, sums)
        return sums

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
