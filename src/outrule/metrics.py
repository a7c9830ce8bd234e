"""Measures of decisions and predictions: means per instance, in your units.

``data`` and ``outcomes`` are predictions and outcomes of shape (n, m), or ``data`` is `Instances`.
``decisions`` are booleans as ``decide`` returns them, ``calibrated`` is what ``predict`` returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from outrule.calibration.audit import OPTIMISER, audit, prepare, rule_values
from outrule.data.instances import Instances, as_instances
from outrule.errors import DataError
from outrule.problems.contract import Problem
from outrule.rules.rules import Rule, check_rules
from outrule.types import Booleans, Floats

Data = ArrayLike | Instances
Outcomes = ArrayLike | None


def value(data: Data, outcomes: Outcomes = None, *, decisions: Any) -> float:
    """The sum of the outcomes of the chosen items.

    >>> value([[0.5, 0.2]], [[0.0, 1.0]], decisions=[[False, True]])
    1.0
    """
    instances = as_instances(data, outcomes)
    return _mean(instances, instances.require_outcome("value") * _marks(instances, decisions))


def predicted_value(data: Data, *, decisions: Any) -> float:
    """What decisions would be worth if the predictions were right."""
    instances = as_instances(data)
    return _mean(instances, instances.prediction * _marks(instances, decisions))


def violation(data: Data, outcomes: Outcomes = None, *, decisions: Any) -> float:
    """Outcome minus prediction, summed over the chosen items (paper, Definition 2.1).

    >>> violation([[0.5, 0.2]], [[0.0, 1.0]], decisions=[[True, False]])
    -0.5
    """
    instances = as_instances(data, outcomes)
    difference = instances.require_outcome("violation") - instances.prediction
    return _mean(instances, difference * _marks(instances, decisions))


def squared_error(data: Data, outcomes: Outcomes = None, *, per_entry: bool = False) -> float:
    """``E||p - y||^2``, summed over the items of an instance, or the mean per item on offer.

    >>> squared_error([[0.5, 1.0]], [[0.0, 1.0]])
    0.25
    """
    instances = as_instances(data, outcomes)
    squares = (instances.require_outcome("squared_error") - instances.prediction) ** 2
    error = _mean(instances, squares)
    return error / _mean(instances, np.ones_like(squares)) if per_entry else error


def values_of_rules(
    problem: Problem, rules: Sequence[Rule], data: Data, outcomes: Outcomes = None
) -> dict[str, float]:
    """The value of every rule's decisions.

    >>> import outrule
    >>> values_of_rules(outrule.BestAction(), [outrule.Fixed(1)], [[0.5, 0.2]], [[0.0, 1.0]])
    {'always 1': 1.0}
    """
    rules = check_rules(rules, "values_of_rules")
    instances = as_instances(data, outcomes)
    instances.require_outcome("values_of_rules")
    found = rule_values(prepare(instances, problem, rules))
    return dict(zip([rule.name for rule in rules], found.tolist(), strict=True))


def violations(
    problem: Problem,
    rules: Sequence[Rule],
    data: Data,
    outcomes: Outcomes = None,
    *,
    calibrated: Any = None,
) -> dict[str, float]:
    """The violation of every rule's test, and of the optimiser's under ``"optimiser"``.

    On calibrated predictions, or on the original ones if none are given.
    """
    rules = check_rules(rules, "violations")
    instances = as_instances(data, outcomes)
    instances.require_outcome("violations")
    part = prepare(instances, problem, rules)
    found = audit(part, _predictions(instances, calibrated), problem).violations.tolist()
    named = dict(zip([rule.name for rule in rules], found[:OPTIMISER], strict=True))
    return named | {"optimiser": found[OPTIMISER]}


def utility_gap(
    problem: Problem,
    rules: Sequence[Rule],
    data: Data,
    outcomes: Outcomes = None,
    *,
    calibrated: Any,
) -> float:
    """Value of the optimiser on calibrated predictions minus that of the best rule (section 5)."""
    instances = as_instances(data, outcomes)
    instances.require_outcome("utility_gap")
    best = max(values_of_rules(problem, rules, instances).values())
    return _optimum(problem, instances, calibrated) - best


def improvement(
    problem: Problem, data: Data, outcomes: Outcomes = None, *, calibrated: Any
) -> float:
    """Value of the optimiser on calibrated predictions minus that on the original (section 5)."""
    instances = as_instances(data, outcomes)
    return _optimum(problem, instances, calibrated) - _optimum(problem, instances, None)


def _marks(instances: Instances, decisions: Any) -> Booleans:
    marks = instances.origin.flatten(decisions)
    if marks.dtype != np.bool_:
        raise DataError(f"decisions must be booleans. Got {marks.dtype} instead.")
    return marks


def _predictions(instances: Instances, calibrated: Any) -> Floats:
    if calibrated is None:
        return instances.prediction
    flat = np.ascontiguousarray(instances.origin.flatten(calibrated), dtype=np.float64)
    if not np.isfinite(flat).all():
        raise DataError("calibrated predictions must be finite.")
    return flat


def _mean(instances: Instances, per_item: Floats) -> float:
    values = np.add.reduceat(per_item, instances.offsets[:-1])
    return float(np.average(values, weights=instances.weight))


def _optimum(problem: Problem, instances: Instances, calibrated: Any) -> float:
    prediction = _predictions(instances, calibrated)
    marks = instances.mark(problem.pick_on_threads(prediction, problem.lay(instances)))
    return _mean(instances, instances.require_outcome("improvement") * marks)
