"""Certify: compare a model with its rivals on held-out data, and state what they show."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import outrule
from outrule import progress, threads
from outrule.data.instances import Instances
from outrule.data.segments import Segmentation, Segments
from outrule.errors import check_number
from outrule.model.codec import fingerprint
from outrule.model.model import Model, column_names, model_of
from outrule.problems.contract import Layout, Problem
from outrule.problems.offers import check_choices, few_choices
from outrule.proof.answer import RIVALS
from outrule.proof.confidence import Estimate, Observations, Range, Sides, student
from outrule.proof.continuation import continued
from outrule.proof.judging import Judge, Versus
from outrule.proof.logged import Log
from outrule.proof.novelty import check_new, find_groups, notes_of
from outrule.proof.segment_verdicts import (
    asked_segments,
    cut_held_out,
    needed,
    on_the_whole,
    said,
    segment_judges,
    segment_results,
)
from outrule.proof.statement import (
    FORMAT,
    Certificate as Certificate,
    Look,
    Promise,
    ViolationResult,
    weakest,
)
from outrule.rules.decisions import RULES, decide_all, expand
from outrule.rules.rules import Rule
from outrule.types import Floats, Picks

TOGETHER = 8  # rules whose decisions are held expanded


def certify(
    calibrator: Any,
    predictions: ArrayLike | Instances,
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
    predictions, outcomes : as in ``fit``
    confidence : float in (0, 1)
    max_weight : float, optional
        The largest total weight that a cluster can have (its size, without weights), or an instance
        that has a weight. Without it clusters and unequal weights give no verdict but inconclusive.
    previous : Certificate, optional
        An earlier one to continue. The data must be those that it covered, in their order, and
        after them new ones, whose number was fixed before anyone saw their outcomes. The bounds
        hold at all looks together, so one may look, and add data until the verdict is decided.
    segments : sequence of columns and of tuples of columns, or Segments, optional
        Judge inside every segment as well: see :class:`outrule.Segments`. The verdict is then the
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
    check_number(confidence, "confidence", "certify", 0, 1, high_open=True)
    if max_weight is not None:
        max_weight = check_number(max_weight, "max_weight", "certify", 0)
    model = model_of(calibrator, "certify")
    instances = model.instances(predictions, outcomes, available, sample_weight)
    instances.require_observed("certify")
    check_choices(model.problem, instances)
    if (words := few_choices(model.problem, instances)) is not None:
        warnings.warn(words, stacklevel=2)
    facts = check_new(model, instances)
    n_jobs = getattr(calibrator, "n_jobs", None)
    threads.check_jobs(n_jobs, "DecisionCalibrator")
    earlier: tuple[Look, ...] = ()
    if previous is not None:
        max_weight = previous.max_weight if max_weight is None else max_weight
        earlier = continued(previous, model, instances, confidence, max_weight)
    found = cut_held_out(instances, asked_segments(segments, model, previous), earlier)
    with threads.using(n_jobs):
        evaluation = _Evaluation(model, instances, confidence, max_weight, earlier, found)
        groups = find_groups(instances, evaluation.ours - evaluation.worth_of_plain)
        stated = evaluation.certificate()
        return replace(stated, notes=notes_of(facts, groups, stated.unit))


class _Evaluation:
    """The values that a certificate is made of."""

    def __init__(
        self,
        model: Model,
        instances: Instances,
        confidence: float,
        max_weight: float | None,
        earlier: tuple[Look, ...],
        found: Segmentation | None,
    ):
        self.found = found
        self.model, self.instances, self.earlier = model, instances, earlier
        self.confidence, self.max_weight = float(confidence), max_weight
        self.problem: Problem = model.problem
        self.layout: Layout = self.problem.lay(instances)
        self.before = instances.prediction
        self.after = model.predict(instances)
        self.log = Log.of(model, instances, self.layout, self.after)
        self.outcome = instances.filled(self.after).require_outcome("certify")
        self.residuals = self.outcome - self.before, self.outcome - self.after
        self.plain, self.calibrated = self.picks(self.before), self.picks(self.after)
        self.isotonic = self.picks(
            model.isotonic.apply(instances, self.layout.per_item.get("frozen"))
        )
        self.ours = self.total(self.outcome, self.calibrated)
        self.worth_of_plain = self.total(self.outcome, self.plain)
        looks = [look.n_instances for look in earlier]
        self.observations = Observations.from_instances(instances, max_weight, looks)
        low, high = instances.value_range
        k = max(self.layout.k, model.k)
        self.ends = Range(low, high)
        if not self.problem.exactly_one:
            self.ends = Range(k * min(low, 0.0), k * max(high, 0.0))
        apart = Range(-self.ends.width, self.ends.width)
        bet_apart = apart if self.log is None else self.log.apart
        self.margin = float(model.margin)
        self.delta = 1.0 - confidence
        # Any rival can fail it, on the whole or in a segment.
        shared = self.delta / ((len(model.rules) + 2) * (1 + (len(found) if found else 0)))
        levels = (self.margin, self.delta, shared)
        self.whole = Judge(self.observations, apart, bet_apart, *levels)
        self.segments = segment_judges(found, instances, self.whole, max_weight, earlier)

    def picks(self, weights: Floats) -> Picks:
        return self.problem.pick_on_threads(weights, self.layout)

    def total(self, flat: Floats, picks: Picks) -> Floats:
        """The sum of a flat column over each instance's decision, shape (n,)."""
        positions = self.layout.offsets[:-1, None] + np.maximum(picks, 0)
        return np.asarray(np.where(picks >= 0, flat[positions], 0.0).sum(axis=1))

    def value(self, picks: Picks) -> tuple[Estimate, Estimate]:
        """Valid and approximate intervals of the value of decisions."""
        worth: Floats | Sides = self.total(self.outcome, picks)
        ends = self.ends
        if self.log is not None:
            worth, ends = self.log.worth(self.instances.mark(picks)), self.log.ends
        bets = self.observations.bets(worth, ends)
        return bets.interval(self.delta / 2), bets.approximate(self.delta, self.ends)

    def gain(self, picks: Picks) -> Floats | Sides:
        """How much more our decisions are worth than these, per instance."""
        if self.log is None:
            return self.ours - self.total(self.outcome, picks)
        return self.log.difference(self.instances.mark(self.calibrated), self.instances.mark(picks))

    def versus(self, name: str, picks: Picks, tolerated: float) -> list[Versus]:
        """Judge a rival: on all data, and in every segment."""
        theirs = self.total(self.outcome, picks)
        gain = self.gain(picks)
        whole = self.whole.versus(name, theirs, gain, tolerated)
        if self.log is not None:
            ours, marks = self.instances.mark(self.calibrated), self.instances.mark(picks)
            support = self.log.support(shown_name(name), ours, marks, self.observations)
            whole = whole._replace(unsupported=support)
        inside = [judge.versus(name, theirs, gain, tolerated) for judge in self.segments]
        return [whole, *inside]

    def violation(self, test: str, before: Picks, after: Picks) -> ViolationResult:
        low, high = self.instances.value_range
        ends = Range(-self.layout.k * (high - low), self.layout.k * (high - low))
        delta = self.delta / (2 * len(self.model.rules) + 2)
        estimates = []
        for residual, picks in zip(self.residuals, (before, after), strict=True):
            sums = self.observations.of(self.total(residual, picks))
            estimates.append(student(sums, self.observations.total, ends, delta))
        return ViolationResult(test, *estimates)

    def squared_error(self, prediction: Floats) -> float:
        squares = (self.outcome - prediction) ** 2
        if self.log is not None:
            squares = self.log.squares(prediction)
        return self.observations.mean(np.add.reduceat(squares, self.layout.offsets[:-1]))

    def promise(self, prediction: Floats, picks: Picks) -> Promise:
        return Promise(
            self.observations.mean(self.total(prediction, picks)),
            self.observations.mean(self.total(self.outcome, picks)),
        )

    def judged_rules(self) -> Iterator[tuple[list[Versus], ViolationResult, Picks]]:
        """Every rule in turn; the decisions of a few rules are held at a time."""
        done = progress.counter("rule", len(self.model.rules))
        for first, last in threads.spans(RULES, len(self.model.rules)):
            rules = self.model.rules[first:last]
            some = decide_all(rules, self.instances, self.problem, self.layout)
            for start, stop in threads.spans(TOGETHER, len(rules)):
                judge = partial(self.judge_rule, rules[start:stop], some[start:stop])
                for judged in threads.run(judge, stop - start):
                    done()
                    yield judged

    def judge_rule(
        self, rules: Sequence[Rule], decisions: NDArray[Any], number: int
    ) -> tuple[list[Versus], ViolationResult, Picks]:
        name, picks = rules[number].name, expand(decisions[number], self.layout)
        versus = self.versus(name, picks, self.margin)
        return versus, self.violation(name, picks, picks), picks

    def certificate(self) -> Certificate:
        model, observations = self.model, self.observations
        table, violations = [], []
        best = (Estimate(0, 0, 0), Estimate(0, 0, 0))
        for number, (rows, violation, picks) in enumerate(self.judged_rules()):
            table.append(rows)
            violations.append(violation)
            if number == model.best_rule:
                best = self.value(picks)
        violations.append(self.violation("optimiser", self.plain, self.calibrated))
        table.append(self.versus("plain", self.plain, 0.0))
        table.append(self.versus("isotonic", self.isotonic, 0.0))
        every, *inside = ([rows[i] for rows in table] for i in range(1 + len(self.segments)))
        judged, others = every[:-2], every[-2:]
        groups = {"rules": judged, "plain": others[:1], "isotonic": others[1:]}
        verdicts = {kind: self.whole.verdict(rivals) for kind, rivals in groups.items()}
        names = [name_of_rival(number, model) for number in range(len(every))]
        segments, in_segments = segment_results(
            self.segments, inside, names, declared=observations.declared
        )
        if segments:
            verdicts["segments"] = weakest(in_segments)
        if_declared = None
        if not observations.declared:
            if_declared = weakest(verdicts.values())
            verdicts = dict.fromkeys(verdicts, "inconclusive")
        wanting = list(every)
        for one, rows in zip(self.segments, inside, strict=True):
            wanting += on_the_whole(rows, one.judge.observations.n, observations.n)
        rules = [row.result for row in judged]
        results = [row.result for row in every]
        closest = min(results, key=lambda result: result.lower)
        near = min(every, key=lambda row: row.result.difference.mean)
        values = {
            "plain": self.value(self.plain),
            "calibrated": self.value(self.calibrated),
            "isotonic": self.value(self.isotonic),
            "best_rule": best,
        }
        oracle = self.value(self.picks(self.outcome)) if self.log is None else None
        shown = values if oracle is None else values | {"oracle": oracle}
        bounds: dict[str, Any] = {"oracle": None} | {name: one[0] for name, one in shown.items()}
        gain = observations.bets(self.gain(self.plain), self.whole.bet_apart)
        lowest = min(row.approximate.lower for row in every)
        headline = weakest(verdicts.values())
        return Certificate(
            verdict=headline,
            verdicts=verdicts,
            if_declared=if_declared,
            epsilon=model.epsilon,
            confidence=self.confidence,
            margin=self.margin,
            gap=near.result.difference.mean,
            gap_lower=closest.lower,
            closest_rival=names[results.index(closest)],
            closest_rule=min(rules, key=lambda result: result.lower).name,
            needed=None if if_declared is not None else needed(wanting, headline),
            n_instances=len(self.instances),
            n_observations=observations.n,
            unit=unit_of(model, self.instances),
            value=model.settings.value,
            max_weight=self.max_weight,
            heaviest=float(observations.total.max()),
            improvement=gain.interval(self.delta / 2),
            **bounds,
            best_rule_name=model.rules[model.best_rule].name,
            approximate={
                "gap": near.approximate._replace(lower=lowest),
                "improvement": others[0].approximate,
                **{name: approximate for name, (_, approximate) in shown.items()},
            },
            squared_error_before=self.squared_error(self.before),
            squared_error_after=self.squared_error(self.after),
            promise_before=self.promise(self.before, self.plain),
            promise_after=self.promise(self.after, self.calibrated),
            rules=tuple(rules),
            rivals=tuple(row.result for row in others),
            violations=tuple(violations),
            earlier=self.earlier,
            notes=(),
            data=self.instances.fingerprint,
            model=fingerprint(model),
            library=outrule.__version__,
            format=FORMAT,
            **self.feedback(every),
            segmented=said(self.found),
            segments=segments,
        )

    def feedback(self, rivals: list[Versus]) -> dict[str, Any]:
        """What a log of chosen items could show."""
        if self.log is None:
            sizes = dict.fromkeys(("effective_n", "largest_weight", "unsupported"))
            return {"feedback": "full", "propensity_estimated": False, **sizes}
        theirs = [row.unsupported for row in rivals if row.unsupported is not None]
        ours = self.instances.mark(self.calibrated)
        return {
            "feedback": "logged",
            "propensity_estimated": self.instances.propensity_estimated,
            **self.log.sizes(ours, self.observations),
            "unsupported": max(theirs, key=lambda support: support.share),
        }


def unit_of(model: Model, instances: Instances) -> str:
    """What to call one observation: the name of the cluster column where it is a plain word."""
    if model.settings.value.observation:
        return model.settings.value.observation
    if instances.cluster is None:
        return "instance"
    names = column_names(instances)
    word = "" if names is None or names.cluster is None else str(names.cluster)
    return word if word.isalpha() and word.islower() else "cluster"


def shown_name(rival: str) -> str:
    """The name of a rule, or what plain and isotonic are called."""
    return RIVALS.get(rival, rival)


def name_of_rival(number: int, model: Model) -> str:
    """The name of a rule, or what plain and isotonic are called."""
    names = [rule.name for rule in model.rules]
    return [*names, RIVALS["plain"], RIVALS["isotonic"]][number]
