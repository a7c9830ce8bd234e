"""Certify: compare a model with its rivals on held-out data, and state what they show."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from outrule import threads
from outrule.data.instances import Instances, is_partitioned
from outrule.data.segments import Segments
from outrule.errors import check_number, refuse_argument
from outrule.model.model import model_of
from outrule.problems.offers import check_choices, few_choices
from outrule.proof.continuation import continued
from outrule.proof.contrast import OutcomeEnds
from outrule.proof.evaluation import Evaluation
from outrule.proof.novelty import check_new
from outrule.proof.numbers import InMemory
from outrule.proof.segment_verdicts import asked_segments, cut_held_out
from outrule.proof.statement import LEAST_CONFIDENCE, Certificate as Certificate, Look
from outrule.rules.log_checks import check_chosen

if TYPE_CHECKING:
    from outrule.data.partitions import Partitions  # loads Polars, which arrays do not need


def certify(
    calibrator: Any,
    predictions: ArrayLike | Instances | Partitions,
    outcomes: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    max_weight: float | None = None,
    previous: Certificate | None = None,
    segments: Segments | Sequence[str | tuple[str, ...]] | None = None,
    available: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> Certificate:
    """Compare a model with every rule, plain and isotonic, on instances that ``fit`` never saw.

    Parameters
    ----------
    calibrator : a fitted DecisionCalibrator, or its Model
    predictions, outcomes : as in ``fit``; ``outrule.Partitions`` too
    confidence : float in (0, 1)
    max_weight : float, optional
        The largest total weight that a cluster can have (its size, without weights), or an instance
        that has a weight. Without it clusters and unequal weights give no verdict but inconclusive.
    previous : Certificate, optional
        An earlier one to continue. The data must be those that it covered, in their order, and
        after them new ones, whose number was fixed before anyone saw their outcomes. The bounds
        hold at all looks together, so one may look, and add data until the verdict is decided.
    segments : sequence of columns and of tuples of columns, or Segments, optional
        Judge inside every segment as well: see ``outrule.Segments``. The verdict is then the
        weakest, of the whole and of all segments. By default those that the model was fitted with;
        ``()`` for none.

    Notes
    -----
    Bounds hold at finite n, for independent observations: instances, or whole clusters. They are
    found by betting (Waudby-Smith and Ramdas 2024) in a fixed, shuffled order.
    Cost: one optimiser call and about 40 passes over the observations per rule.

    Examples
    --------
    >>> import outrule
    >>> rules = [outrule.Fixed(0), outrule.Fixed(1)]
    >>> calibrator = outrule.DecisionCalibrator(outrule.BestAction(), rules, epsilon=0.05)
    >>> calibrator = calibrator.fit(*outrule.worlds.two_arms(10_000, seed=0, epsilon=0.3))
    >>> certify(calibrator, *outrule.worlds.two_arms(10_000, seed=1, epsilon=0.3)).verdict
    'pass'
    """
    check_number(
        confidence, "confidence", "certify", LEAST_CONFIDENCE, 1, low_open=False, high_open=True
    )
    if max_weight is not None:
        max_weight = check_number(max_weight, "max_weight", "certify", 0)
    model = model_of(calibrator, "certify")
    if max_weight is None and previous is not None:
        max_weight = previous.max_weight
    by = asked_segments(segments, model, previous)
    given: Any = predictions
    n_jobs = getattr(calibrator, "n_jobs", None)
    threads.check_jobs(n_jobs, "DecisionCalibrator")
    if is_partitioned(given):
        from outrule.proof.partitioned import certify_partitions  # loads Polars

        extra = {"outcomes": outcomes, "available": available, "sample_weight": sample_weight}
        for name, value in extra.items():
            if value is not None:
                raise refuse_argument("given", name, "certify", "left out for Partitions")
        with threads.using(n_jobs):
            return certify_partitions(model, given, confidence, max_weight, by, previous)
    with threads.using(n_jobs):
        instances = model.instances(given, outcomes, available, sample_weight)
        extent = OutcomeEnds().including(instances.require_observed("certify"))
        check_choices(model.problem, instances)
        check_chosen(model.problem, model.rules, instances)
        if (words := few_choices(model.problem, instances)) is not None:
            warnings.warn(words, stacklevel=2)
        extent.check(model.problem)
        facts = check_new(model, instances)
        earlier: tuple[Look, ...] = ()
        if previous is not None:
            earlier = continued(previous, model, instances, confidence, max_weight)
        found = cut_held_out(instances, by, earlier)
        numbers = InMemory(model, instances)
        evaluation = Evaluation(model, instances, numbers, confidence, max_weight, earlier, found)
        stated = evaluation.certificate(facts)
    extent.check_differences(stated)
    return stated
