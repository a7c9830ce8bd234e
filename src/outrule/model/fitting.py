"""Fits a model: all rounds on the training data, or one round on one fresh batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from outrule import theory
from outrule.calibration.check import PrivateReuse, Reuse
from outrule.calibration.isotonic import FittedIsotonic, Isotonic
from outrule.calibration.loop import Boosted, LoopSettings, Status, boost
from outrule.calibration.sources import FreshData, Source, open_source
from outrule.data.instances import Instances
from outrule.errors import DataError, refuse_argument
from outrule.model.model import Model, column_names, n_items, start_of
from outrule.model.settings import OWNER, Settings
from outrule.types import Floats

Names = tuple[str, ...] | None


def fit_model(settings: Settings, instances: Instances, feature_names: Names = None) -> Model:
    """Run the loop on these instances."""
    check_training(settings, instances)
    generator = np.random.default_rng(settings.random_state)
    isotonic, start = _start(settings, instances, generator)
    source, validation = open_source(
        instances, start, settings.problem, settings.rules, settings.check, generator
    )
    plan = _plan(settings, instances)
    boosted = boost(source, settings.rules, plan, generator, validation)
    return _model(settings, instances, feature_names, plan, isotonic, boosted, source)


def first_batch(settings: Settings, instances: Instances, feature_names: Names = None) -> Model:
    """A model after one round on its first batch, which also fits the isotonic curves."""
    check_training(settings, instances)
    frozen = settings.problem.lay(instances).per_item.get("frozen")
    isotonic = (settings.start or Isotonic()).fit(instances, frozen)
    plan, empty = _plan(settings, instances), Boosted([], [], Status.MAX_ROUNDS)
    blank = _model(settings, instances, feature_names, plan, isotonic, empty, None)
    return next_batch(blank, settings, instances)


def next_batch(model: Model, settings: Settings, instances: Instances) -> Model:
    """The model after one more round; check, step and seed are those of these settings."""
    instances.require_outcome(OWNER)
    kept = replace(
        model.settings,
        check=settings.check,
        step=settings.step,
        random_state=settings.random_state,
    )
    source = FreshData(
        instances, model.start_of(instances), model.problem, model.rules, len(instances)
    )
    plan = LoopSettings(kept.check, kept.step, model.tolerance, model.k, 1)
    generator = np.random.default_rng(kept.random_state)
    boosted = boost(source, model.rules, plan, generator, None, model.patches)
    number = len(model.history)
    rows = tuple(row._replace(round=number + row.round) for row in boosted.history)
    total = model.weight_seen + source.weight
    return replace(
        model,
        settings=kept,
        patches=tuple(boosted.patches),
        history=model.history + rows,
        status=Status.CONVERGED if rows[-1].test is None else Status.MAX_ROUNDS,
        rule_values=(model.weight_seen * model.rule_values + source.sums) / total,
        weight_seen=total,
        fingerprints=(*model.fingerprints, instances.fingerprint),
    )


def check_batchwise(settings: Settings) -> None:
    """Raise for a check that needs all the data at once."""
    check = settings.check
    if isinstance(check, PrivateReuse) or (isinstance(check, Reuse) and check.validation):
        expected = "FreshBatches(...), or Reuse() without validation, for partial_fit"
        raise refuse_argument(check, "check", OWNER, expected)


def check_training(settings: Settings, instances: Instances) -> None:
    """Raise for data that these settings cannot be fitted on."""
    instances.require_outcome(OWNER)
    if settings.start is not None and instances.start is not None:
        raise DataError("the instances have start predictions, and start= is given: choose one.")
    settings.problem.check_data(instances)
    for rule in settings.rules:
        rule.check_training(instances)


def _start(
    settings: Settings, instances: Instances, generator: np.random.Generator
) -> tuple[FittedIsotonic, Floats]:
    """Isotonic curves on all the data, and where the loop starts."""
    frozen = settings.problem.lay(instances).per_item.get("frozen")
    # The curves are kept in any case: the certificate compares with isotonic regression.
    isotonic = (settings.start or Isotonic()).fit(instances, frozen)
    if settings.start is not None:
        return isotonic, settings.start.cross_fit(instances, generator, frozen)
    return isotonic, start_of(settings, isotonic, instances)


def _plan(settings: Settings, instances: Instances) -> LoopSettings:
    low, high = instances.value_range
    tolerance = theory.tolerance(settings.epsilon, settings.problem.ratio) * (high - low)
    k = settings.problem.lay(instances).k
    return LoopSettings(settings.check, settings.step, tolerance, k, settings.max_rounds)


def _model(
    settings: Settings,
    instances: Instances,
    feature_names: Names,
    plan: LoopSettings,
    isotonic: FittedIsotonic,
    boosted: Boosted,
    source: Source | None,
) -> Model:
    """What is kept; without a source nothing has been seen yet."""
    return Model(
        settings=settings,
        tolerance=plan.tolerance,
        k=plan.k,
        value_range=instances.value_range,
        n_items=n_items(instances),
        feature_names=feature_names,
        columns=column_names(instances),
        has_start=instances.start is not None,
        isotonic=isotonic,
        patches=tuple(boosted.patches),
        history=tuple(boosted.history),
        status=boosted.status,
        rule_values=np.zeros(len(settings.rules)) if source is None else source.values(),
        weight_seen=0.0 if source is None else source.weight,
        fingerprints=() if source is None else (instances.fingerprint,),
    )
