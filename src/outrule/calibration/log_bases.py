"""What to expect of an outcome, given its prediction and the probability that a log shows it.

Whoever chose what to show may have known more than the predictions: then what was unlikely to be
shown was also worth less. Fits and certificates on such a log are the less noisy the better they
know that.
"""

from __future__ import annotations

import numpy as np

from outrule.data.instances import Instances
from outrule.types import Booleans, Floats

Coefficients = tuple[float, float, float, float]
"""Of 1, the prediction p, log q and p log q; outcomes and predictions from 0 to 1."""
UNCHANGED = (0.0, 1.0, 0.0, 0.0)  # the prediction itself
RIDGE = 20  # mean observations that speak for it
LEAST = 1e-9  # what smaller propensities count as
TRUST = 0.7  # how much an outcome counts at most, times what it would if all were equally likely


def fit_base(instances: Instances, start: Floats) -> Coefficients | None:
    """Least squares on the observed outcomes of a log, by what their noise weighs in estimates.

    ``start`` are predictions of models that have not seen these outcomes. None where all outcomes
    are known, or certain to be, or where some propensities are unknown.
    """
    if instances.propensity is None or instances.outcome is None:
        return None
    if np.isnan(instances.propensity).any():  # expectations would hang on what was observed
        return None
    low, high = instances.value_range
    seen = np.flatnonzero(instances.observed & (instances.propensity < 1))
    if not len(seen):
        return None
    q, y = instances.propensity[seen], (instances.outcome[seen] - low) / (high - low)
    weight = (1 / q - 1) * instances.normalised_weight()[instances.instance[seen]]
    if not weight.any():
        return None
    columns = _columns((start[seen] - low) / (high - low), q)
    ridge = RIDGE * float(weight.mean())
    # Sums and no products of matrices: those of BLAS differ by threads.
    matrix = [[float((weight * a * b).sum()) for b in columns] for a in columns]
    target = [float((weight * a * y).sum()) for a in columns]
    solved = np.linalg.solve(
        np.array(matrix) + ridge * np.eye(len(columns)),
        np.array(target) + ridge * np.array(UNCHANGED),
    )
    return tuple(solved.tolist()) if np.isfinite(solved).all() else None


def expected(
    coefficients: Coefficients,
    prediction: Floats,
    propensity: Floats,
    value_range: tuple[float, float],
) -> Floats:
    """The outcomes to expect, inside the range."""
    low, high = value_range
    columns = _columns((prediction - low) / (high - low), propensity)
    share = sum(number * column for number, column in zip(coefficients, columns, strict=True))
    return np.asarray(low + (high - low) * np.clip(share, 0.0, 1.0))


def estimate(
    coefficients: Coefficients | None,
    prediction: Floats,
    instances: Instances,
    most: float = np.inf,
) -> Instances:
    """Estimates in place of the outcomes of a log, by what is expected of them.

    They are unbiased, unless an outcome would count more than ``most`` times.
    """
    base, q = prediction, instances.propensity
    if coefficients is not None and q is not None and not np.isnan(q).any():
        base = expected(coefficients, prediction, q, instances.value_range)
    return instances.filled(base, most)


def complete(
    instances: Instances, start: Floats, frozen: Booleans | None
) -> tuple[Instances, float]:
    """Estimates of all outcomes of a log for a start to learn from, and how noisy they are.

    An unbiased estimate that rests on an outcome with a small propensity is mostly noise. So no
    outcome counts more than TRUST times what each would if all were equally likely to be observed.
    As many estimates as the second number say about as much as one outcome of a table without gaps.
    """
    assert instances.upweight is not None  # of a log
    free = slice(None) if frozen is None else ~frozen
    most = max(TRUST / float(instances.observed[free].mean()), 1.0)
    noise = float((np.minimum(instances.upweight[free], most) ** 2).mean())
    return estimate(fit_base(instances, start), start, instances, most), max(noise, 1.0)


def _columns(share: Floats, propensity: Floats) -> tuple[Floats, ...]:
    rare = np.log(np.maximum(np.nan_to_num(propensity), LEAST))
    return np.ones(len(share)), share, rare, share * rare
