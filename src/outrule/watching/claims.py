"""What a batch says about each claim: better than every rival, and worth what was predicted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import NamedTuple

import numpy as np

from outrule import threads
from outrule.calibration.rivals import RIVALS, rivals_of
from outrule.data.checks import check_inside
from outrule.data.instances import Instances
from outrule.data.origin import CHOSEN, TableOrigin
from outrule.errors import DataError
from outrule.kernels.growth import log_growth
from outrule.model.model import Model
from outrule.problems.contract import Layout
from outrule.problems.offers import count_without, no_choices
from outrule.proof.confidence import Observations, Sides
from outrule.proof.logged import Log, kappa_of, kind_of
from outrule.proof.numbers import total
from outrule.rules.decisions import RULES, decide_all, expand
from outrule.types import Booleans, Floats, Picks
from outrule.watching.detectors import STAKES
from outrule.watching.state import State

SEVERAL = 10  # instances, of which some offer a choice; a batch of fewer may be without any
SIDES = ("worth less than predicted", "worth more than predicted")


@dataclass(frozen=True, eq=False)
class Batch:
    """A batch, added up: one row per claim, those about rivals before the two of ``SIDES``."""

    growth: Floats  # (claims, 2, stakes)
    sums: Floats  # of what each claim says is not below minus the margin
    n: int  # observations
    weight: float
    predicted: float  # sums, as the next
    realised: float


def begun(state: State, model: Model, instances: Instances, outcome: Floats) -> State:
    """The state with what is fixed when a watch begins, so that no batch can change its bets."""
    if state.full is not None:
        return state
    k, kappa = max(model.problem.lay(instances).k, model.k), None
    if instances.propensity is not None:
        kappa = kappa_of(model, instances)
    return replace(state, k=k, full=kappa is None and not np.isnan(outcome).any(), kappa=kappa)


def add_up(model: Model, instances: Instances, outcome: Floats, state: State) -> Batch:
    """Decide a batch by the model and by its rivals, and add up the differences.

    ``outcome`` is flat, and NaN where it is not known. Cost: as that of ``certify`` without its
    bounds.
    """
    layout = model.problem.lay(instances)
    _check_size(layout, state)
    observations = _observations(instances, state)
    calibrated = model.predict(instances)
    ours = model.problem.pick_on_threads(calibrated, layout)
    decided = _Decided(model, instances, layout, state, calibrated, ours)
    values = decided.logged() if state.kappa is not None else decided.known(outcome)
    realised, predicted = values.realised, values.predicted
    sides = (
        Sides(*(one - predicted for one in realised)),
        Sides(*(predicted - one for one in reversed(realised))),
    )
    growth, sums, largest = [], [], state.max_weight or 1.0
    claims = chain(zip(values.gaps, repeat(values.apart)), zip(sides, repeat(values.off)))
    for claim, width in claims:
        low, middle, high = map(observations.of, claim)
        shift, scale = state.margin * observations.total, (width + state.margin) * largest
        growth.append(log_growth((high + shift) / scale, (low + shift) / scale, STAKES))
        sums.append(float(middle.sum()))
    return Batch(
        np.array(growth),
        np.array(sums),
        observations.n,
        float(observations.total.sum()),
        float(observations.of(predicted).sum()),
        float(observations.of(realised.middle).sum()),
    )


class _Values(NamedTuple):
    """What decisions were worth, per instance, and how far differences can be from zero."""

    predicted: Floats
    realised: Sides
    gaps: Iterable[Sides]  # what ours are worth more than every rival's
    apart: float
    off: float  # of realised and predicted


@dataclass(frozen=True, eq=False)
class _Decided:
    """A batch, and what the model decides in it."""

    model: Model
    instances: Instances
    layout: Layout
    state: State
    calibrated: Floats
    ours: Picks

    def known(self, outcome: Floats) -> _Values:
        """From the outcomes of all items; or without gaps, from those of the chosen ones."""
        model, state, layout = self.model, self.state, self.layout
        chosen = self._chosen()
        _check_outcome(self.instances, outcome, chosen, state)
        realised, predicted = (
            np.add.reduceat(np.where(chosen, flat, 0.0), layout.offsets[:-1])
            for flat in (outcome, self.calibrated)
        )
        low, high = model.value_range
        apart = high - low
        if not model.problem.exactly_one:
            apart = state.size * (max(high, 0.0) - min(low, 0.0))
        gaps: Iterable[Sides] = ()
        if state.full:
            n = len(self.instances)
            if n >= SEVERAL and count_without(model.problem, self.instances) == n:
                raise no_choices(n)  # no rival can be better, which would look like a proof
            value = total(outcome, self.ours, layout)
            rivals = (total(outcome, one, layout) for one in self._rivals())
            gaps = (Sides(*[value - theirs] * 3) for theirs in rivals)
        return _Values(predicted, Sides(*[realised] * 3), gaps, apart, state.size * (high - low))

    def logged(self) -> _Values:
        """Of what the model decides, estimated from a log of whatever was chosen."""
        model, instances, state = self.model, self.instances, self.state
        assert state.kappa is not None
        kind = kind_of(model, instances, state.size, state.kappa)
        trusted = min(state.kappa, kappa_of(model, instances))  # less, if propensities are unknown
        log = Log(instances, self.calibrated, (replace(kind, kappa=trusted),))
        marks = instances.mark(self.ours)
        low, high = model.value_range
        rivals = map(instances.mark, self._rivals())
        return _Values(
            total(self.calibrated, self.ours, self.layout),
            log.worth(marks).kinds[0],
            (log.difference(marks, theirs).kinds[0] for theirs in rivals),
            kind.apart.high,
            state.size * (1 + state.kappa) * (high - low),
        )

    def _rivals(self) -> Iterator[Picks]:
        """The decisions of every rival: rules, plain, isotonic."""
        model, instances, layout = self.model, self.instances, self.layout
        every = (*model.rules, *rivals_of(RIVALS, model.isotonic))
        for first, last in threads.spans(RULES, len(every)):
            for decisions in decide_all(every[first:last], instances, model.problem, layout):
                yield expand(decisions, layout)

    def _chosen(self) -> Booleans:
        """What was done: the column ``chosen`` if there is one, else what the model decides."""
        origin = self.instances.origin
        names = origin.frame.columns if isinstance(origin, TableOrigin) else origin.columns
        if CHOSEN not in names:
            return self.instances.mark(self.ours)
        marks = np.asarray(origin.flat_column(CHOSEN))
        if marks.dtype != np.bool_:
            raise DataError(
                f"column {CHOSEN!r} must hold true or false in every row, as `outrule decide` "
                "writes it: convert it, or rename it if it is something else."
            )
        feasible = self.model.problem.feasible(marks, self.layout)
        if not feasible.all():
            where = self.instances.where(int(np.argmin(feasible)))
            raise DataError(
                f"column {CHOSEN!r} marks a decision at {where} that is not feasible in this "
                "problem: correct it, or drop the instance."
            )
        return marks


def _observations(instances: Instances, state: State) -> Observations:
    """Instances or clusters; weights that vary need a declared largest one, as in a certificate."""
    vary = instances.cluster is not None or instances.weight is not None
    if vary and state.max_weight is None:
        what = "cluster" if instances.cluster is not None else "instance"
        raise DataError(
            f"the instances have {'clusters' if what == 'cluster' else 'weights'}: max_weight must "
            f"be the largest total weight (or size) that one {what} can have, because rare heavy "
            "ones could change everything."
        )
    if instances.weight is not None and not instances.weight.any():
        raise DataError("all instances of the batch have weight zero: drop the batch.")
    return Observations.from_instances(instances, state.max_weight)


def _check_size(layout: Layout, state: State) -> None:
    """No bet may lose more than it has: stakes of at most 1/2 leave room for half as many again."""
    if 2 * layout.k > 3 * state.size:
        raise DataError(
            f"decisions of this batch can have {layout.k} items, and those of fit and of the first "
            f"batch at most {state.size}. That is too many for the bets of this watch: begin a new "
            "one with such instances."
        )


def _check_outcome(instances: Instances, outcome: Floats, chosen: Booleans, state: State) -> None:
    """Outcomes are inside their range; known for what was chosen, or for everything."""
    low, _ = instances.value_range
    unknown = np.isnan(outcome)
    known = np.where(unknown, low, outcome)
    check_inside(instances, known, "outcome", instances.value_range)
    missing = unknown if state.full else unknown & chosen
    if not missing.any():
        return
    where = instances.where_flat(int(np.argmax(missing)))
    if state.full:
        raise DataError(
            f"outcome is missing at {where}. This watch compares with rivals by the outcome of "
            "every item: pass instances whose outcomes are all known, or begin a new watch on a "
            "log with propensities, or on the outcomes of chosen items."
        )
    raise DataError(
        f"outcome is missing at {where}, an item that the model chooses. Pass instances once their "
        "outcomes are known. If something else was chosen there, the table is a log of other "
        "decisions, which needs propensities."
    )
