"""The decisions of all rules, computed once and kept compactly: (n_rules, k, n) small numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outrule import threads
from outrule.data.instances import Instances
from outrule.problems.contract import Layout, Problem
from outrule.rules.rules import Multiplier, Rule
from outrule.types import Integers, Picks

BLOCK = 65_536  # instances whose decisions are computed at a time
RULES = 64  # multipliers that are decided in one pass over the predictions


def compact(picks: Picks, layout: Layout) -> NDArray[Any]:
    """Decisions (n, k) as (k, n) small numbers; -1 becomes the largest of the type."""
    return np.ascontiguousarray(picks.T.astype(layout.small_type))


def expand(decisions: NDArray[Any], layout: Layout) -> Picks:
    """The inverse of :func:`compact`: (k, n) small numbers as (n, k), -1 where there is no pick."""
    picks = decisions.T.astype(np.int64)
    return np.where(picks < np.diff(layout.offsets)[:, None], picks, -1).astype(np.int32)


def distinct(decisions: NDArray[Any]) -> tuple[NDArray[Any], Integers]:
    """The decisions without repetitions, and which of them every rule's are.

    Rules of one class often decide alike on all the data; what is kept and summed then shrinks.
    """
    keys = threads.run(lambda r: hashlib.sha256(decisions[r]).digest(), len(decisions))
    first: dict[bytes, int] = {}
    for r, key in enumerate(keys):
        first.setdefault(key, r)
    rows = list(first.values())
    number = {key: i for i, key in enumerate(first)}
    of_rule = np.asarray([number[key] for key in keys], dtype=np.int64)
    return (decisions if len(rows) == len(decisions) else decisions[rows]), of_rule


def decide_all(
    rules: Sequence[Rule], instances: Instances, problem: Problem, layout: Layout
) -> NDArray[Any]:
    """The decisions of all rules, shape (n_rules, k, n): a byte or two per chosen item.

    Cost: one call of the optimiser per rule and instance. Memory beyond the result: one block.
    Multipliers are decided on threads; functions of the caller one after the other.
    """
    decisions = np.empty((len(rules), layout.k, len(layout)), dtype=layout.small_type)
    quick = {
        r: rule for r, rule in enumerate(rules) if problem.threaded and type(rule) is Multiplier
    }
    slow = [r for r in range(len(rules)) if r not in quick]
    for start, stop in threads.spans(BLOCK, len(layout)):
        block, part = instances.slice(start, stop), layout.slice(start, stop)
        for r in slow:
            decisions[r, :, start:stop] = rules[r].decide(block, problem, part).T
        if quick:
            _decide_multipliers(quick, block, problem, part, decisions[:, :, start:stop])
    return decisions


def _decide_multipliers(
    rules: Mapping[int, Multiplier],
    block: Instances,
    problem: Problem,
    layout: Layout,
    decisions: NDArray[Any],
) -> None:
    numbers = list(rules)
    groups = [numbers[first:last] for first, last in threads.spans(RULES, len(numbers))]
    pieces = threads.spans(max(1024, len(block) // 4), len(block)) if len(groups) < 4 else None
    parts = pieces or [(0, len(block))]

    def decide(task: int) -> None:
        group = groups[task // len(parts)]
        start, stop = parts[task % len(parts)]
        some, part = block.slice(start, stop), layout.slice(start, stop)
        if part.width is None:
            for r in group:
                decisions[r, :, start:stop] = rules[r].decide(some, problem, part).T
        else:
            scales = np.array([rules[r].per_item(some) for r in group])
            decisions[group, :, start:stop] = problem.pick_many(some.prediction, part, scales)

    threads.run(decide, len(groups) * len(parts))
