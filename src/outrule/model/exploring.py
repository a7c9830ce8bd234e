"""Decisions of which a known share is random, so that their log can be learnt from."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np

from outrule.calibration.rivals import RIVALS, rivals_of
from outrule.data.instances import Instances
from outrule.data.origin import TableOrigin
from outrule.errors import check_number, refuse_argument
from outrule.model.model import Model
from outrule.problems.contract import Layout
from outrule.rules.decisions import decide_all, expand
from outrule.types import Booleans, Floats, Integers

WAYS = ("uniform", "rules")
OWNER = "explore"


class Exploration(NamedTuple):
    """Decisions, the probability with which each item was to be chosen, and what that costs.

    ``cost`` is how much value per instance exploring is expected to lose, by the calibrated
    predictions.
    """

    chosen: Any
    propensity: Any
    cost: float


def explore(
    model: Model, instances: Instances, share: float, random_state: int, over: str
) -> Exploration:
    """Flat marks and propensities: see ``DecisionCalibrator.explore``."""
    check_number(share, "share", OWNER, 0, 1)
    check_number(random_state, "random_state", OWNER, 0, low_open=False, integer=True)
    if over not in WAYS:
        raise refuse_argument(over, "over", OWNER, "'uniform' or 'rules'")
    layout, calibrated = model.problem.lay(instances), model.predict(instances)
    best = instances.mark(model.problem.pick_on_threads(calibrated, layout))
    draws = _draws(instances, random_state)
    random = draws[:, 0] < share * 2.0**53
    alike = model.problem.uniform_odds(instances, layout) if over == "uniform" else None
    if alike is None:
        drawn, odds = _mixture(model, instances, layout, draws[:, 1], best, over)
    else:
        odds = alike[instances.instance]
        weights = _random_weights(instances, draws, random)
        drawn = instances.mark(model.problem.pick_on_threads(weights, layout))
    chosen = np.where(random[instances.instance], drawn, best)
    propensity = (1 - share) * best + share * odds
    cost = share * float(((best - odds) * calibrated).sum() / len(instances))
    return Exploration(chosen, propensity, cost)


def _draws(instances: Instances, seed: int) -> Integers:
    """Two random numbers below 2**53 for every instance, by its name and the seed alone."""
    origin = instances.origin
    if isinstance(origin, TableOrigin):
        names = origin.labels.to_list()
    else:
        numbers = getattr(origin, "numbers", None)
        names = list(range(len(instances))) if numbers is None else numbers.tolist()
    digests = b"".join(
        hashlib.blake2b(f"{seed}:{name}".encode(), digest_size=16).digest() for name in names
    )
    return (np.frombuffer(digests, dtype="<u8").reshape(-1, 2) >> np.uint64(11)).astype(np.int64)


def _random_weights(instances: Instances, draws: Integers, which: Booleans) -> Floats:
    """Independent weights in (0, 1] for the items of these instances; of the others all 1.

    The optimum of independent weights is uniform over the largest decisions wherever they can all
    be turned into each other by renaming: subsets of k items, assignments, complete matchings.
    """
    weights, starts = np.ones(len(instances.prediction)), instances.offsets
    for i in np.flatnonzero(which).tolist():
        generator = np.random.default_rng(draws[i])
        weights[starts[i] : starts[i + 1]] = 1.0 - generator.random(starts[i + 1] - starts[i])
    return weights


def _mixture(
    model: Model,
    instances: Instances,
    layout: Layout,
    draws: Integers,
    best: Booleans,
    over: str,
) -> tuple[Booleans, Floats]:
    """One of the rivals' decisions, and the probability of every item.

    Where no uniform draw is known, the optimiser's own decision is one of the list.
    """
    tests = (*model.rules, *rivals_of(RIVALS, model.isotonic))
    decisions = decide_all(tests, instances, model.problem, layout)
    n_ways = len(tests) + (over == "uniform")
    number = (draws.astype(object) * n_ways // 2**53).astype(np.int64)[instances.instance]
    drawn, counts = np.zeros(len(best), dtype=np.bool_), np.zeros(len(best), dtype=np.int64)
    for way in range(n_ways):
        marks = best if way == len(tests) else instances.mark(expand(decisions[way], layout))
        counts += marks
        drawn |= marks & (number == way)
    return drawn, counts / n_ways
