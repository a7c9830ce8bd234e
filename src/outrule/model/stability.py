"""How much decisions change when the same model is fitted again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from outrule import metrics, threads
from outrule.data.instances import Instances
from outrule.errors import DataError, check_number
from outrule.model.fitting import fit_model
from outrule.model.model import Model, model_of
from outrule.model.settings import OWNER
from outrule.types import Booleans
from outrule.words import count, round_up


@dataclass(frozen=True)
class Stability:
    """How much decisions, and their value, change from fit to fit.

    Attributes
    ----------
    share_changed : the share of instances that two fits decide differently, mean over all pairs
    value_spread : the largest value of a fit minus the smallest, per instance
    n_refits : how many fits there were besides the given one
    """

    share_changed: float
    value_spread: float
    n_refits: int

    def __str__(self) -> str:
        return (
            f"{count(self.n_refits, 'refit')}: two fits differ in {100 * self.share_changed:.2g} % "
            f"of the decisions, and in their value by at most {round_up(self.value_spread):g}"
        )


def stability(
    calibrator: Any,
    predictions: ArrayLike | Instances,
    outcomes: ArrayLike | None = None,
    *,
    held_out: Instances | None = None,
    n_refits: int = 3,
    resample: bool = False,
    available: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> Stability:
    """Fit again with other seeds, and compare the decisions.

    Where many decisions change and their value does not, the items were nearly equal: what is
    unstable is the choice between them, not the result.

    Parameters
    ----------
    calibrator : a fitted DecisionCalibrator, or its Model
    predictions, outcomes, available, sample_weight : those of its ``fit``
    held_out : Instances with outcomes, optional
        Where decisions and values are compared; by default on the data of ``fit``.
    n_refits : int
        The seeds are ``random_state`` + 1, 2, ... They draw folds, validation parts and noise.
        Without any of these a refit changes nothing.
    resample : bool
        Draw the observations (instances, or clusters) with replacement for every refit, as if the
        data had been collected again.

    Notes
    -----
    Cost: ``n_refits`` times that of ``fit``.

    Examples
    --------
    >>> import outrule
    >>> data = outrule.worlds.two_arms(1_000, seed=0, epsilon=0.3)
    >>> calibrator = outrule.DecisionCalibrator(outrule.BestAction(), [outrule.Fixed(1)])
    >>> stability(calibrator.fit(*data), *data, n_refits=2)
    Stability(share_changed=0.0, value_spread=0.0, n_refits=2)
    """
    check_number(n_refits, "n_refits", "stability", 1, low_open=False, integer=True)
    model = model_of(calibrator, "stability")
    training = model.instances(predictions, outcomes, available, sample_weight)
    if model.fingerprints != (training.fingerprint,):
        raise DataError("these are not the instances that fit has seen. Give those, all of them.")
    compared = training if held_out is None else model.instances(held_out)
    if compared.propensity is not None:
        compared = compared.filled(model.predict(compared))
    compared.require_outcome("stability")
    n_jobs = getattr(calibrator, "n_jobs", None)
    threads.check_jobs(n_jobs, OWNER)
    with threads.using(n_jobs):
        models = [model, *(_refit(model, training, n + 1, resample) for n in range(n_refits))]
        marks = [compared.mark(one.pick(compared)) for one in models]
    values = [
        metrics.value(compared, decisions=compared.origin.restore(one, False)) for one in marks
    ]
    shares = [_share_changed(compared, *pair) for pair in combinations(marks, 2)]
    return Stability(float(np.mean(shares)), max(values) - min(values), int(n_refits))


def _refit(model: Model, training: Instances, number: int, resample: bool) -> Model:
    seed = (model.settings.random_state or 0) + number
    data = _resampled(training, np.random.default_rng(seed)) if resample else training
    return fit_model(replace(model.settings, random_state=seed), data, model.feature_names)


def _resampled(instances: Instances, generator: np.random.Generator) -> Instances:
    """A bootstrap sample; what is drawn twice has twice the weight, and stays in one fold."""
    n, group = len(instances), instances.observation
    n_groups = int(group.max()) + 1
    times = np.bincount(generator.integers(n_groups, size=n_groups), minlength=n_groups)[group]
    chosen = np.flatnonzero(times)
    weight = np.ones(n) if instances.weight is None else instances.weight
    return replace(instances.take(chosen), weight=(times * weight)[chosen])


def _share_changed(instances: Instances, one: Booleans, other: Booleans) -> float:
    changed = np.logical_or.reduceat(one != other, instances.offsets[:-1])
    return float(np.average(changed, weights=instances.weight))
