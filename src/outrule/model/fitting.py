"""Fits a model: all rounds on the training data, or one round on one fresh batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from outrule import theory
from outrule.calibration.audit import Part, part_of, reach_and_sensitivity
from outrule.calibration.check import Reuse
from outrule.calibration.cross_fit import Boost, CrossFit
from outrule.calibration.curves import Member, given_start
from outrule.calibration.isotonic import Isotonic, draw_folds
from outrule.calibration.log_bases import Coefficients, estimate, fit_base
from outrule.calibration.loop import LoopSettings, Status, boost
from outrule.calibration.partitioned import PartitionedCells
from outrule.calibration.rivals import ISOTONIC, training_rivals
from outrule.calibration.sources import CellData, FreshData, Source, Validation, open_source
from outrule.data.instances import Instances
from outrule.data.segments import cut
from outrule.errors import DataError, refuse_argument
from outrule.model.model import Model, n_items
from outrule.model.settings import OWNER, Settings, epsilon_fault
from outrule.problems.offers import check_choices
from outrule.rules.decisions import decide_all, distinct
from outrule.rules.log_checks import check_chosen
from outrule.rules.rules import Rule
from outrule.types import Floats

Names = tuple[str, ...] | None
MOST_KAPPA, KAPPA_QUANTILE = 8.0, 0.99


def fit_model(settings: Settings, instances: Instances, feature_names: Names = None) -> Model:
    """Run the loop on these instances."""
    check_training(settings, instances)
    generator = settings.generator
    blank = blank_model(settings, instances, feature_names)
    found = None if settings.segments is None else cut(instances, settings.segments)
    ready = from_isotonic(prepare(blank, instances, generator), settings, instances, generator)
    blank = start_from(blank, ready, instances)
    ready = ready.estimated(blank.log_base)
    how = (settings.problem, ready.tests, settings.check, generator)
    source, validation = open_source(ready.instances, ready.start, *how, ready.part, found)
    return run_loop(blank, source, ready.tests, generator, validation).remember(instances)


def from_isotonic(
    ready: Ready, settings: Settings, instances: Instances, generator: np.random.Generator
) -> Ready:
    """With the cross-fitted isotonic regression as its start, where that was asked for."""
    if not isinstance(settings.start, Isotonic):
        return ready
    frozen = settings.problem.lay(instances).per_item.get("frozen")
    return replace(ready, start=settings.start.cross_fit(instances, generator, frozen))


def start_from(blank: Model, ready: Ready, instances: Instances) -> Model:
    """The model with all that is known before the first round but its tolerance."""
    kappa, log_base = _choose_kappa(instances, ready.start), fit_base(instances, ready.start)
    return replace(blank, members=ready.members, kappa=kappa, log_base=log_base)


def run_loop(
    blank: Model,
    source: Source,
    tests: Sequence[Rule],
    generator: np.random.Generator,
    validation: Validation | None = None,
) -> Model:
    """The model after all rounds."""
    blank = _tolerate(blank, source)
    boosted = boost(source, tests, plan_of(blank), generator, validation)
    return replace(
        blank,
        patches=tuple(boosted.patches),
        history=tuple(boosted.history),
        status=boosted.status,
        rule_values=source.values()[: len(blank.rules)],
        weight_seen=source.weight,
    )


def first_batch(settings: Settings, instances: Instances, feature_names: Names = None) -> Model:
    """A model after one round on its first batch, which also fits the isotonic curves."""
    check_training(settings, instances)
    blank = blank_model(settings, instances, feature_names)
    ready = prepare(blank, instances, settings.generator)
    blank = start_from(blank, ready, instances)
    ready = ready.estimated(blank.log_base)
    if settings.segments is not None:
        blank = replace(blank, segmentation=cut(instances, settings.segments))
    return _one_round(_tolerate(blank, _fresh(blank, ready)), settings, instances, ready)


def next_batch(model: Model, settings: Settings, instances: Instances) -> Model:
    """The model after one more round; check, step and seed are those of these settings."""
    instances.require_observed(OWNER)
    check_choices(settings.problem, instances)
    estimated = instances
    if instances.propensity is not None:
        estimated = estimate(model.log_base, model.predict(instances), instances)
    ready = Ready(estimated, model.tests, model.start_of(instances), model.members)
    return _one_round(model, settings, instances, ready)


def _one_round(model: Model, settings: Settings, instances: Instances, ready: Ready) -> Model:
    kept = replace(
        model.settings,
        check=settings.check,
        step=settings.step,
        random_state=settings.random_state,
    )
    source = _fresh(model, ready)
    plan = replace(plan_of(replace(model, settings=kept)), max_rounds=1)
    generator = kept.generator
    boosted = boost(source, model.tests, plan, generator, None, model.patches)
    number = len(model.history)
    rows = tuple(row._replace(round=number + row.round) for row in boosted.history)
    total, sums = model.weight_seen + source.weight, source.sums[: len(model.rules)]
    return replace(
        model,
        settings=kept,
        patches=tuple(boosted.patches),
        history=model.history + rows,
        status=Status.CONVERGED if rows[-1].test is None else Status.MAX_ROUNDS,
        rule_values=(model.weight_seen * model.rule_values + sums) / total,
        weight_seen=total,
    ).remember(instances)


def _fresh(model: Model, ready: Ready) -> FreshData:
    """The data of one round, all in one batch."""
    given, n = ready.instances, len(ready.instances)
    cuts = (model.segmentation, model.tolerance)
    return FreshData(given, ready.start, model.problem, ready.tests, n, *cuts)


def _tolerate(model: Model, source: Source) -> Model:
    """The model with what is tolerated: by the noise of the data, if no epsilon is given."""
    noisy = model.settings.epsilon is None
    if noisy:
        model = replace(model, tolerance=source.supported_tolerance())
    if model.settings.segments is None:
        return model
    assert isinstance(source, CellData | FreshData | PartitionedCells)
    return replace(model, segmentation=source.tolerate(model.tolerance, noisy=noisy))


def check_batchwise(settings: Settings) -> None:
    """Raise for a check that needs all the data at once."""
    check = settings.check
    if not check.exact or (isinstance(check, Reuse) and check.validation):
        expected = "FreshBatches(...), or Reuse() without validation, for partial_fit"
        raise refuse_argument(check, "check", OWNER, expected)


def check_training(settings: Settings, instances: Instances, k: int | None = None) -> None:
    """Raise for data that these settings cannot be fitted on.

    ``k`` is the size of the largest decision in all the data, if the instances are a part.
    """
    instances.require_observed(OWNER)
    if instances.propensity is not None and not settings.check.exact:
        expected = "Reuse(...) or FreshBatches(...) for outcomes of chosen items only"
        raise refuse_argument(settings.check, "check", OWNER, expected)
    if isinstance(settings.start, Isotonic) and instances.start is not None:
        raise DataError("the instances have start predictions, and start= is given: choose one.")
    settings.problem.check_data(instances)
    check_choices(settings.problem, instances)
    k = k or settings.problem.lay(instances).k
    fault = epsilon_fault(settings.epsilon, k, instances.value_range)
    if fault is not None:
        raise refuse_argument(settings.epsilon, "epsilon", OWNER, fault)
    for rule in settings.rules:
        rule.check_training(instances)
    check_chosen(settings.problem, settings.rules, instances)
    _check_private(settings, instances)


def _check_private(settings: Settings, instances: Instances) -> None:
    """Raise where the data are too few for a CHECK through noise, before any work is done."""
    if settings.check.exact:
        return
    assert settings.max_rounds is not None
    assert settings.epsilon is not None
    size = reach_and_sensitivity(instances, settings.problem.lay(instances))
    tolerance = theory.tolerance(settings.epsilon, settings.problem.ratio)
    n_tests = len(settings.rules) + len(settings.rivals) + 1
    settings.check.check_data(*size, tolerance, n_tests, settings.max_rounds)


@dataclass(frozen=True, eq=False)
class Ready:
    """Training data with the tests on them, where the loop starts, and the members behind that."""

    instances: Instances
    tests: tuple[Rule, ...]
    start: Floats
    members: tuple[Member, ...] = ()
    part: Part | None = None

    def estimated(self, log_base: Coefficients | None) -> Ready:
        """With estimates of the outcomes that were not observed, by the start of the loop."""
        if self.instances.propensity is None:
            return self
        filled, part = estimate(log_base, self.start, self.instances), self.part
        if part is not None:
            part = part_of(filled, part.layout, part.picks, part.of_rule)
        return replace(self, instances=filled, part=part)


def prepare(
    blank: Model, instances: Instances, generator: np.random.Generator, boost: Boost | None = None
) -> Ready:
    """Cross-fit all that is fitted on the same data as it is used for.

    ``boost`` makes the members of the start, by default on threads of this process.
    """
    settings, start = blank.settings, blank.settings.start
    if not isinstance(start, CrossFit) and ISOTONIC not in settings.rivals:
        return Ready(instances, blank.tests, blank.start_of(instances))
    frozen = settings.problem.lay(instances).per_item.get("frozen")
    fold = draw_folds(instances, (start or Isotonic()).folds, generator)
    isotonic = Isotonic().fit_folds(instances, fold, frozen)
    rivals, carrier = training_rivals(settings.rivals, isotonic, instances, frozen)
    ready = Ready(carrier, settings.rules + rivals, blank.start_of(instances))
    if not isinstance(start, CrossFit):
        return ready
    layout = settings.problem.lay(carrier)
    decisions = distinct(decide_all(ready.tests, carrier, settings.problem, layout))
    part = part_of(carrier, layout, *decisions)
    given = given_start(instances)
    members, first = start.fit(part, settings.problem, given, fold, generator, boost)
    return replace(ready, start=first, members=members, part=part)


def _choose_kappa(instances: Instances, start: Floats) -> float | None:
    """How far predictions may reduce the noise of a watch on logs; None for full outcomes.

    It trusts them up to ``kappa * propensity``: enough for nearly all items, and the less the
    smaller its declared range.
    """
    if instances.propensity is None:
        return None
    low, high = instances.value_range
    known = instances.propensity > 0
    ratios = (start[known] - low) / (high - low) / instances.propensity[known]
    return min(float(np.quantile(ratios, KAPPA_QUANTILE)), MOST_KAPPA)


def plan_of(model: Model) -> LoopSettings:
    settings, found = model.settings, model.segmentation
    names = () if found is None else tuple(segment.name for segment in found.segments)
    return LoopSettings(
        settings.check, settings.step, model.tolerance, model.k, settings.max_rounds, names
    )


def blank_model(
    settings: Settings, instances: Instances, feature_names: Names, k: int | None = None
) -> Model:
    """The model before its first round; it has seen nothing but the isotonic curves' data."""
    layout = settings.problem.lay(instances)
    k = k or layout.k
    tolerance = math.nan  # until the data are known
    if settings.epsilon is not None:
        tolerance = theory.tolerance(settings.epsilon, settings.problem.ratio)
        _check_tolerance(tolerance, k, settings.epsilon, instances)
    # The curves are kept in any case: the certificate compares with isotonic regression.
    isotonic = settings.start if isinstance(settings.start, Isotonic) else Isotonic()
    return Model(
        settings=settings,
        tolerance=tolerance,
        k=k,
        value_range=instances.value_range,
        n_items=n_items(instances),
        feature_names=feature_names,
        columns=instances.origin.names,
        has_start=instances.start is not None,
        isotonic=isotonic.fit(instances, layout.per_item.get("frozen")),
        rule_values=np.zeros(len(settings.rules)),
    )


def _check_tolerance(tolerance: float, k: int, epsilon: float, instances: Instances) -> None:
    """Raise where the paper's step, tolerance / (2 k), would be lost in the rounding of values."""
    ends = instances.value_range
    least = 4 * k * float(np.spacing(max(map(abs, ends))))
    if tolerance < least:
        words = f"at least {epsilon * least / tolerance:.2g} for values as far from zero"
        expected = f"{words} as ({ends[0]:g}, {ends[1]:g}): subtract a constant from them"
        raise refuse_argument(epsilon, "epsilon", OWNER, expected)
