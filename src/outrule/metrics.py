"""Measures of decisions and predictions; all are means per instance, in the caller's units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from outrule.calibration.audit import OPTIMISER, audit, prepare, rule_values
from outrule.data.instances import Instances
from outrule.errors import DataError
from outrule.problems.contract import Problem
from outrule.rules.rules import Rule, check_rules
from outrule.types import Booleans, Floats

Data = ArrayLike | Instances


def value(data: Data, outcomes: ArrayLike | None = None, *, decisions: Any) -> float:
    """The value of decisions: the sum of the outcomes of the chosen items.

    Parameters
    ----------
    data, outcomes : predictions and outcomes of shape (n, m), or Instances
    decisions : booleans as ``decide`` and ``solve`` return them

    Examples
    --------
    >>> value([[0.5, 0.2]], [[0.0, 1.0]], decisions=[[False, True]])
    1.0
    """
    instances = _enter(data, outcomes)
    return _mean(instances, instances.require_outcome("value") * _marks(instances, decisions))


def predicted_value(data: Data, *, decisions: Any) -> float:
    """What decisions would be worth if the predictions were right."""
    instances = _enter(data, None)
    return _mean(instances, instances.prediction * _marks(instances, decisions))


def violation(data: Data, outcomes: ArrayLike | None = None, *, decisions: Any) -> float:
    """``E<w, y - p>`` for the test w that marks these decisions (paper, Definition 2.1).

    Examples
    --------
    >>> violation([[0.5, 0.2]], [[0.0, 1.0]], decisions=[[True, False]])
    -0.5
    """
    instances = _enter(data, outcomes)
    difference = instances.require_outcome("violation") - instances.prediction
    return _mean(instances, difference * _marks(instances, decisions))


def squared_error(
    data: Data, outcomes: ArrayLike | None = None, *, per_entry: bool = False
) -> float:
    """``E||p - y||^2``, or the same per item on offer.

    Examples
    --------
    >>> squared_error([[0.5, 1.0]], [[0.0, 1.0]])
    0.25
    """
    instances = _enter(data, outcomes)
    squares = (instances.require_outcome("squared_error") - instances.prediction) ** 2
    error = _mean(instances, squares)
    return error / _mean(instances, np.ones_like(squares)) if per_entry else error


def values_of_rules(
    problem: Problem, rules: Sequence[Rule], data: Data, outcomes: ArrayLike | None = None
) -> dict[str, float]:
    """The value of every rule's decisions.

    Examples
    --------
    >>> import outrule
    >>> values_of_rules(outrule.BestAction(), [outrule.Fixed(1)], [[0.5, 0.2]], [[0.0, 1.0]])
    {'always 1': 1.0}
    """
    rules = check_rules(rules, "values_of_rules")
    part = prepare(_enter(data, outcomes), problem, rules)
    values = rule_values(part).tolist()
    return dict(zip([rule.name for rule in rules], values, strict=True))


def violations(
    problem: Problem,
    rules: Sequence[Rule],
    data: Data,
    outcomes: ArrayLike | None = None,
    *,
    calibrated: Any = None,
) -> dict[str, float]:
    """The violation of every test on calibrated predictions (the original ones where not given).

    The optimiser's own test is under ``"optimiser"``.
    """
    rules = check_rules(rules, "violations")
    instances = _enter(data, outcomes)
    part = prepare(instances, problem, rules)
    found = audit(part, _calibrated(instances, calibrated), problem).violations.tolist()
    named = dict(zip([rule.name for rule in rules], found[:OPTIMISER], strict=True))
    return named | {"optimiser": found[OPTIMISER]}


def utility_gap(
    problem: Problem,
    rules: Sequence[Rule],
    data: Data,
    outcomes: ArrayLike | None = None,
    *,
    calibrated: Any,
) -> float:
    """Value of the optimiser on calibrated predictions, less that of the best rule (section 5)."""
    instances = _enter(data, outcomes)
    best = max(values_of_rules(problem, rules, instances).values())
    return _optimum(problem, instances, calibrated) - best


def improvement(
    problem: Problem, data: Data, outcomes: ArrayLike | None = None, *, calibrated: Any
) -> float:
    """Value of the optimiser on calibrated predictions, less that on the original (section 5)."""
    instances = _enter(data, outcomes)
    return _optimum(problem, instances, calibrated) - _optimum(problem, instances, None)


def _enter(data: Data, outcomes: ArrayLike | None) -> Instances:
    if isinstance(data, Instances):
        if outcomes is not None:
            raise DataError("outcomes was given beside Instances: it must be a part of them.")
        return data
    return Instances.from_arrays(data, outcomes)


def _marks(instances: Instances, decisions: Any) -> Booleans:
    marks = instances.origin.flatten(decisions)
    if marks.dtype != np.bool_:
        raise DataError(f"decisions hold {marks.dtype}. They must hold booleans.")
    return marks


def _calibrated(instances: Instances, calibrated: Any) -> Floats:
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
    prediction = _calibrated(instances, calibrated)
    marks = instances.mark(problem.pick_on_threads(prediction, problem.lay(instances)))
    return _mean(instances, instances.require_outcome("the value") * marks)
