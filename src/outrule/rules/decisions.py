"""The decisions of all rules, computed once and kept compactly: (n_rules, k, n) small numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outrule import threads
from outrule.data.instances import Instances
from outrule.problems.contract import Layout, Problem
from outrule.rules.rules import Multiplier, Rule
from outrule.types import Integers, Picks

INSTANCES_AT_A_TIME = 65_536  # instances whose decisions are computed at a time
RULES = 64  # multipliers that are decided in one pass over the predictions
ALONE = 1 << 16  # weights: fewer are multiplied before a thread has started


def compact(picks: Picks, layout: Layout) -> NDArray[Any]:
    """Decisions (n, k) as (k, n) small numbers; -1 becomes the largest of the type."""
    return np.ascontiguousarray(picks.T.astype(layout.small_type))


def expand(decisions: NDArray[Any], layout: Layout) -> Picks:
    """The inverse of ``compact``: (k, n) small numbers as (n, k), -1 where there is no pick."""
    picks = decisions.T.astype(np.int64)
    return np.where(picks < np.diff(layout.offsets)[:, None], picks, -1).astype(np.int32)


def distinct(decisions: NDArray[Any]) -> tuple[NDArray[Any], Integers]:
    """The decisions without repetitions, and for every rule which of them is its own.

    Rules of one class often decide the same on all the data; less is then kept and summed.
    """
    keys = threads.run(lambda r: hashlib.sha256(decisions[r]).digest(), len(decisions))
    numbers: dict[bytes, int] = {}
    of_rule = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
    if len(numbers) == len(decisions):
        return decisions, of_rule
    return decisions[np.unique(of_rule, return_index=True)[1]], of_rule


def decide_all(
    rules: Sequence[Rule], instances: Instances, problem: Problem, layout: Layout
) -> NDArray[Any]:
    """The decisions of all rules, shape (n_rules, k, n): a byte or two per chosen item.

    Cost: one call of the optimiser per rule and instance. Memory beyond the result: one block.
    Multipliers are decided on threads; functions of the caller one after the other.
    """
    decisions = np.empty((len(rules), layout.k, len(layout)), dtype=layout.small_type)
    quick = [r for r, rule in enumerate(rules) if problem.threaded and type(rule) is Multiplier]
    slow = sorted(set(range(len(rules))) - set(quick))
    for start, stop in threads.spans(INSTANCES_AT_A_TIME, len(layout)):
        block, part = instances.slice(start, stop), layout.slice(start, stop)
        for r in slow:
            decisions[r, :, start:stop] = rules[r].decide(block, problem, part).T
        if quick:
            _decide_multipliers(rules, quick, block, problem, part, decisions[:, :, start:stop])
    return decisions


def _decide_multipliers(
    rules: Sequence[Any],
    quick: list[int],
    block: Instances,
    problem: Problem,
    layout: Layout,
    decisions: NDArray[Any],
) -> None:
    groups = [quick[first:last] for first, last in threads.spans(RULES, len(quick))]
    size = max(1024, len(block) // 4) if len(groups) < 4 else len(block)
    parts = threads.spans(size, len(block))

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

    tasks = range(len(groups) * len(parts))
    if len(quick) * len(block.prediction) <= ALONE:
        for task in tasks:
            decide(task)
    else:
        threads.run(decide, len(tasks))
