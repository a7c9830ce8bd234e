"""Whether a log shows what rules choose as often as its propensities say."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from outrule.data.instances import Instances
from outrule.data.propensities import CONTRADICTION, check_marked
from outrule.problems.contract import Problem
from outrule.rules.decisions import compact, decide_all
from outrule.rules.rules import Rule

MOST = 100_000  # instances that are looked at


def check_chosen(problem: Problem, rules: Sequence[Rule], instances: Instances) -> None:
    """Raise DataError where the choices of a log contradict its propensities.

    A log that followed a rule, with propensities that deny it, would make everything else look
    worse or better than it is. So what each rule and the plain optimiser choose must have been
    observed about as often as propensities say; the bar is higher for many rules.
    """
    if instances.propensity is None:
        return
    some = instances.slice(0, min(MOST, len(instances)))
    layout = problem.lay(some)
    plain = compact(problem.pick_on_threads(some.prediction, layout), layout)
    chosen = [("the plain optimiser", plain)]
    for rule, decisions in zip(rules, decide_all(rules, some, problem, layout), strict=True):
        chosen.append((f"rule {rule.name!r}", decisions))
    bar = math.hypot(CONTRADICTION, math.sqrt(2 * math.log(len(chosen))))
    for who, decisions in chosen:
        picks = decisions.astype(np.int64)
        marked = (layout.offsets[:-1] + picks)[picks < np.diff(layout.offsets)]
        check_marked(some, marked, f"the items that {who} chooses", bar)
