"""Whether the instances offer a choice at all: tables of chosen rows alone do not."""

from __future__ import annotations

import numpy as np

from outrule.data.instances import Instances
from outrule.data.propensities import check_log
from outrule.errors import DataError
from outrule.problems.contract import Problem

USUALLY = (
    "Usually this means that the table has only the rows that were chosen, or that the problem may "
    "take as many items as there are. To compare with other choices, keep every item that was on "
    "offer, with its outcome or, where that is not known, with an empty outcome and its "
    "propensity: see docs/logs.md."
)


def check_choices(problem: Problem, instances: Instances) -> None:
    """Raise DataError where nothing can be learnt about choices from these instances."""
    check_log(instances, exactly_one=problem.exactly_one)
    if count_without(problem, instances) == len(instances):
        raise no_choices(len(instances))


def no_choices(n: int) -> DataError:
    """The error where all of n instances are without a choice."""
    return DataError(
        f"no instance offers a choice: each of the {n:,} has a single item, or items that can all "
        f"be taken. {USUALLY}"
    )


def few_choices(problem: Problem, instances: Instances) -> str | None:
    """A warning, where most instances offer no choice."""
    return few_choices_in(count_without(problem, instances), len(instances))


def count_without(problem: Problem, instances: Instances) -> int:
    """In how many instances the best decision is all items, whatever they are worth."""
    sizes = np.diff(instances.offsets)
    if instances.width is not None:  # whole arrays: nothing was left out
        return 0
    if problem.exactly_one:
        return int((sizes == 1).sum())
    # To leave an item out may be better; and a function of the caller's may do anything.
    if instances.value_range[0] < 0 or not problem.threaded:
        return 0
    layout = problem.lay(instances)
    few = np.flatnonzero(sizes <= layout.k)
    if 2 * len(few) <= len(instances):
        return 0
    part = layout.take(few)
    picks = problem.pick_on_threads(np.ones(part.offsets[-1]), part)
    return int(((picks >= 0).sum(axis=1) == sizes[few]).sum())


def few_choices_in(without: int, n: int) -> str | None:
    """A warning, where most of n instances are without a choice."""
    if 2 * without <= n:
        return None
    return (
        f"{without:,} of {n:,} instances offer nothing to choose between: a single "
        f"item, or items that can all be taken. {USUALLY}"
    )
