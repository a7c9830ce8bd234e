"""The certificate: what held-out data say of a model, as a frozen verdict."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

import outrule
from outrule import threads
from outrule.data.instances import Instances
from outrule.errors import DataError, check_number
from outrule.model.codec import fingerprint
from outrule.model.documents import STRICT, damaged, read_document
from outrule.model.model import Model, model_of
from outrule.problems.contract import Layout, Problem
from outrule.proof.confidence import Estimate, Observations, bernstein, observations_needed
from outrule.rules.decisions import RULES, decide_all, expand
from outrule.rules.rules import Rule
from outrule.types import Floats, Picks

FORMAT = 1


@dataclass(frozen=True)
class RuleResult:
    """A rule against the calibrated optimiser: its value, and how much more the optimiser has."""

    __pydantic_config__: ClassVar = STRICT

    name: str
    value: float
    difference: Estimate


@dataclass(frozen=True)
class ViolationResult:
    """The violation of one test, on the original predictions and on the calibrated ones."""

    __pydantic_config__: ClassVar = STRICT

    test: str
    before: Estimate
    after: Estimate


@dataclass(frozen=True)
class Promise:
    """What the optimiser's decisions were predicted to be worth, and what they were worth."""

    __pydantic_config__: ClassVar = STRICT

    predicted: float
    realised: float


@dataclass(frozen=True)
class Certificate:
    """What held-out data say of a calibrator; all values per instance, in the caller's units.

    Attributes
    ----------
    verdict : "pass", "inconclusive" or "fail"
        ``pass``: with the given confidence the calibrated optimiser is worth at least as much as
        every rule, less ``margin``. ``fail``: with the same confidence it is not.
    gap, gap_lower : the smallest difference to a rule, and the smallest lower bound of one
    needed : observations that would settle an inconclusive verdict, at the variances seen here
    margin : epsilon times the width of the value range
    improvement : value over that of the plain optimiser on the original predictions
    plain, calibrated, oracle, isotonic, best_rule : values; ``best_rule`` was picked in training
    rules, violations : one entry for every rule; the optimiser's own test is the last violation
    promise_before, promise_after : predicted and realised value of the optimiser (winner's curse)
    """

    __pydantic_config__: ClassVar = STRICT

    verdict: Literal["pass", "inconclusive", "fail"]
    epsilon: float
    confidence: float
    margin: float
    gap: float
    gap_lower: float
    closest_rule: str
    needed: int | None
    n_instances: int
    n_observations: int
    improvement: Estimate
    plain: Estimate
    calibrated: Estimate
    isotonic: Estimate
    best_rule: Estimate
    best_rule_name: str
    oracle: Estimate
    squared_error_before: float
    squared_error_after: float
    promise_before: Promise
    promise_after: Promise
    rules: tuple[RuleResult, ...]
    violations: tuple[ViolationResult, ...]
    data: str
    model: str
    library: str
    format: int

    def __str__(self) -> str:
        words = {
            "pass": "worth at least as much as every rule",
            "fail": "worth less than some rule",
            "inconclusive": "not settled",
        }
        text = (
            f"{self.verdict}: {words[self.verdict]}, up to {self.margin:g}, with confidence "
            f"{self.confidence:g} on {self.n_observations} observations.\n"
            f"gap {self.gap:+.4f} (at least {self.gap_lower:+.4f}); "
            f"closest rule: {self.closest_rule}"
        )
        if self.needed is not None:
            text += f"\nabout {self.needed} observations would settle it"
        return text

    def to_json(self) -> str:
        """The certificate as JSON text."""
        return json.dumps(asdict(self), indent=1, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """Read what :meth:`to_json` wrote; DataError if it is anything else."""
        certificate = read_document(cls, text, FORMAT, name="this", noun="certificate")
        if not 0 < certificate.confidence < 1:
            raise damaged("this", "certificate", ValueError("confidence: not in (0, 1)"))
        return certificate


def certify(
    calibrator: Any,
    predictions: ArrayLike | Instances,
    outcomes: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    available: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> Certificate:
    """Judge a model on instances that ``fit`` never saw.

    Parameters
    ----------
    calibrator : a fitted DecisionCalibrator, or its Model
    predictions, outcomes : as in ``fit``
    confidence : float in (0, 1)
        Shared over the rules: all lower bounds hold at once with this probability.

    Cost: one optimiser call per rule and instance. Instances of one cluster are one observation.

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
    model = model_of(calibrator, "certify")
    instances = model.instances(predictions, outcomes, available, sample_weight)
    instances.require_outcome("certify")
    if instances.fingerprint in model.fingerprints:
        raise DataError(
            "these are the instances that fit has seen. A certificate needs held-out ones."
        )
    n_jobs = getattr(calibrator, "n_jobs", None)
    threads.check_jobs(n_jobs, "DecisionCalibrator")
    with threads.using(n_jobs):
        return _Evaluation(model, instances, confidence).certificate()


class _Evaluation:
    """The values that a certificate is made of."""

    def __init__(self, model: Model, instances: Instances, confidence: float):
        self.model, self.instances, self.confidence = model, instances, confidence
        self.problem: Problem = self.model.problem
        self.layout: Layout = self.problem.lay(instances)
        self.outcome = instances.require_outcome("certify")
        self.before = instances.prediction
        self.after = self.model.predict(instances)
        self.plain = self.problem.pick_on_threads(self.before, self.layout)
        self.calibrated = self.problem.pick_on_threads(self.after, self.layout)
        self.observations = Observations.from_instances(instances)
        low, high = instances.value_range
        k = max(self.layout.k, self.model.k)
        self.ends = (low, high) if self.problem.exactly_one else (k * min(low, 0), k * max(high, 0))
        self.value_width = (self.ends[1] - self.ends[0]) * self.observations.largest
        self.centre = min(max(low, 0.0), high) if self.problem.exactly_one else 0.0
        self.delta = 1.0 - confidence

    def total(self, flat: Floats, picks: Picks) -> Floats:
        """The sum of a flat column over each instance's decision, shape (n,)."""
        positions = self.layout.offsets[:-1, None] + np.maximum(picks, 0)
        return np.asarray(np.where(picks >= 0, flat[positions], 0.0).sum(axis=1))

    def mean(self, flat: Floats, picks: Picks) -> float:
        return float(self.observations.of(self.total(flat, picks)).mean())

    def value(self, picks: Picks) -> Estimate:
        # A share of the weight moves a value away from 0, and so out of a range that 0 is not in.
        values = self.total(self.outcome, picks) - self.centre
        observed = self.observations.of(values) + self.centre
        return bernstein(observed, self.value_width, self.delta / 2).within(*self.ends)

    def difference(self, rule: Picks, shares: int) -> tuple[Estimate, float]:
        """How much more the calibrated optimiser has, and the variance of that."""
        more = self.total(self.outcome, self.calibrated) - self.total(self.outcome, rule)
        observed = self.observations.of(more)
        variance = float(observed.var(ddof=1)) if len(observed) > 1 else np.inf
        estimate = bernstein(observed, 2 * self.value_width, self.delta / shares)
        most = self.ends[1] - self.ends[0]
        return estimate.within(-most, most), variance

    def violation(self, test: str, before: Picks, after: Picks, shares: int) -> ViolationResult:
        low, high = self.instances.value_range
        most = self.layout.k * (high - low)
        width = 2 * most * self.observations.largest
        estimates = []
        for prediction, picks in ((self.before, before), (self.after, after)):
            observed = self.observations.of(self.total(self.outcome - prediction, picks))
            estimates.append(bernstein(observed, width, self.delta / shares).within(-most, most))
        return ViolationResult(test, *estimates)

    def squared_error(self, prediction: Floats) -> float:
        squares = (self.outcome - prediction) ** 2
        per_instance = np.add.reduceat(squares, self.layout.offsets[:-1])
        return float(self.observations.of(per_instance).mean())

    def isotonic(self) -> Estimate:
        frozen = self.layout.per_item.get("frozen")
        smoothed = self.model.isotonic.apply(self.instances, frozen)
        return self.value(self.problem.pick_on_threads(smoothed, self.layout))

    def decisions(self) -> Iterator[tuple[Rule, Picks]]:
        """Every rule with its decisions; those of a few rules are held at a time."""
        for first, last in threads.spans(RULES, len(self.model.rules)):
            rules = self.model.rules[first:last]
            some = decide_all(rules, self.instances, self.problem, self.layout)
            for rule, compacted in zip(rules, some, strict=True):
                yield rule, expand(compacted, self.layout)

    def certificate(self) -> Certificate:
        rules = self.model.rules
        results, variances, violations = [], [], []
        best = None
        for number, (rule, picks) in enumerate(self.decisions()):
            difference, variance = self.difference(picks, len(rules))
            results.append(RuleResult(rule.name, self.mean(self.outcome, picks), difference))
            variances.append(variance)
            violations.append(self.violation(rule.name, picks, picks, 4 * (len(rules) + 1)))
            if number == self.model.best_rule:
                best = self.value(picks)
        shares = 4 * (len(rules) + 1)
        violations.append(self.violation("optimiser", self.plain, self.calibrated, shares))
        margin = self.model.margin
        closest = min(results, key=lambda result: result.difference.lower)
        assert best is not None
        return Certificate(
            verdict=verdict([result.difference for result in results], margin),
            epsilon=self.model.epsilon,
            confidence=float(self.confidence),
            margin=float(margin),
            gap=min(result.difference.mean for result in results),
            gap_lower=closest.difference.lower,
            closest_rule=closest.name,
            needed=self._needed(results, variances, margin),
            n_instances=len(self.instances),
            n_observations=self.observations.n,
            improvement=self.difference(self.plain, 2)[0],
            plain=self.value(self.plain),
            calibrated=self.value(self.calibrated),
            isotonic=self.isotonic(),
            best_rule=best,
            best_rule_name=rules[self.model.best_rule].name,
            oracle=self.value(self.problem.pick_on_threads(self.outcome, self.layout)),
            squared_error_before=self.squared_error(self.before),
            squared_error_after=self.squared_error(self.after),
            promise_before=Promise(
                self.mean(self.before, self.plain), self.mean(self.outcome, self.plain)
            ),
            promise_after=Promise(
                self.mean(self.after, self.calibrated), self.mean(self.outcome, self.calibrated)
            ),
            rules=tuple(results),
            violations=tuple(violations),
            data=self.instances.fingerprint,
            model=fingerprint(self.model),
            library=outrule.__version__,
            format=FORMAT,
        )

    def _needed(
        self, results: list[RuleResult], variances: list[float], margin: float
    ) -> int | None:
        """Observations after which, at these means and variances, the verdict would be settled."""
        differences = [result.difference for result in results]
        if verdict(differences, margin) != "inconclusive" or self.observations.n < 2:
            return None
        width, delta = 2 * self.value_width, self.delta / len(results)
        needed = [
            (
                difference.mean + margin,
                observations_needed(abs(difference.mean + margin), variance, width, delta),
            )
            for difference, variance in zip(differences, variances, strict=True)
        ]
        failing = [count for distance, count in needed if distance < 0 and count is not None]
        if failing:
            return min(failing)
        counts = [count for _, count in needed]
        return None if None in counts else max(count for count in counts if count is not None)


def verdict(differences: list[Estimate], margin: float) -> Literal["pass", "inconclusive", "fail"]:
    """Pass if every lower bound is above -margin, fail if some upper bound is below it."""
    if all(difference.lower >= -margin for difference in differences):
        return "pass"
    if any(difference.upper < -margin for difference in differences):
        return "fail"
    return "inconclusive"
