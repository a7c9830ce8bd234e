"""Verification: recomputes every number of a certificate through independent code.

Nothing here uses the audit, the patches, the kernels' sums or the confidence bounds of the rest of
the package: decisions are boolean masks, replay is one line of NumPy per patch, and every number of
the certificate is computed anew and compared.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from outrule.data.instances import Instances
from outrule.model.codec import fingerprint
from outrule.model.model import Model, model_of
from outrule.problems.contract import Layout
from outrule.proof.certificate import FORMAT, Certificate
from outrule.rules.rules import Rule
from outrule.types import Booleans, Floats


class CertificateError(ValueError):
    """A certificate says something that the data and the model do not."""


def verify(
    certificate: Certificate | str,
    calibrator: Any,
    predictions: ArrayLike | Instances,
    outcomes: ArrayLike | None = None,
    *,
    available: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> None:
    """Recompute every number of a certificate; raise CertificateError at the first that differs.

    Parameters
    ----------
    certificate : Certificate, or its JSON text
    calibrator, predictions, outcomes : what it was made from

    Numbers must agree to 1e-9, of their own size or of the value range; words exactly.
    """
    text = certificate if isinstance(certificate, str) else certificate.to_json()
    certificate = Certificate.from_json(text)
    model = model_of(calibrator, "verify")
    instances = model.instances(predictions, outcomes, available, sample_weight)
    if instances.fingerprint in model.fingerprints:
        raise CertificateError("data: fit has seen these instances, so they prove nothing.")
    claimed = json.loads(text)
    derived = json.loads(json.dumps(_derive(model, instances, certificate)))
    derived["model"] = fingerprint(model, certificate.library)  # of the version it names
    span = instances.value_range[1] - instances.value_range[0]
    units = {"epsilon": 0.0, "confidence": 0.0}
    units |= dict.fromkeys(("squared_error_before", "squared_error_after"), span**2)
    for name, value in derived.items():
        _compare(claimed[name], value, name, 1e-9 * units.get(name, span))


def _compare(claimed: Any, derived: Any, path: str, tolerance: float) -> None:
    if isinstance(derived, dict) and isinstance(claimed, dict) and set(claimed) == set(derived):
        for name in derived:
            _compare(claimed[name], derived[name], f"{path}.{name}", tolerance)
    elif isinstance(derived, list) and isinstance(claimed, list) and len(claimed) == len(derived):
        for number, pair in enumerate(zip(claimed, derived, strict=True)):
            _compare(*pair, f"{path}[{number}]", tolerance)
    elif isinstance(derived, float) and type(claimed) in (int, float):
        if not math.isclose(claimed, derived, rel_tol=1e-9, abs_tol=tolerance):
            raise CertificateError(f"{path}: the certificate says {claimed}, the data {derived}.")
    elif type(claimed) is not type(derived) or claimed != derived:
        raise CertificateError(f"{path}: the certificate says {claimed!r}, the data {derived!r}.")


def _derive(model: Model, instances: Instances, certificate: Certificate) -> dict[str, Any]:
    outcome = instances.require_outcome("verify")
    low, high = instances.value_range
    centre = min(max(low, 0.0), high) if model.problem.exactly_one else 0.0
    data = _Tally(instances, outcome, centre, certificate.confidence)
    margin = model.epsilon * (high - low)
    layout = model.problem.lay(instances)
    rules = [_decisions(model, rule, instances, layout) for rule in model.rules]
    before = instances.prediction
    after = _replayed(model, instances, rules, layout)
    plain, calibrated, oracle = (
        _optimum(model, instances, weights, layout) for weights in (before, after, outcome)
    )
    k = max(model.k, layout.k)
    ends = (low, high) if model.problem.exactly_one else (k * min(low, 0), k * max(high, 0))
    one, spread = ends[1] - ends[0], layout.k * (high - low)
    value = data.value(calibrated)
    n_rules, n_tests = len(rules), len(rules) + 1
    differences = [value - data.value(marks) for marks in rules]
    estimates = [data.estimate(d, -one, one, n_rules) for d in differences]
    lowest = min(range(n_rules), key=lambda c: estimates[c][1])
    names = [rule.name for rule in model.rules]
    best = int(np.argmax(model.rule_values))
    pairs = [(marks, marks) for marks in rules] + [(plain, calibrated)]
    violations = [
        {
            "test": name,
            "before": data.estimate(
                data.sums((outcome - before) * b), -spread, spread, 4 * n_tests
            ),
            "after": data.estimate(data.sums((outcome - after) * a), -spread, spread, 4 * n_tests),
        }
        for name, (b, a) in zip([*names, "optimiser"], pairs, strict=True)
    ]
    # Which of equally close rules is the closest, and a large count, hang on the last bits.
    closest, slack = certificate.closest_rule, 1e-9 * (high - low)
    if closest not in names or estimates[names.index(closest)][1] > estimates[lowest][1] + slack:
        closest = names[lowest]
    if min(e[1] for e in estimates) >= -margin:
        verdict = "pass"
    else:
        verdict = "fail" if min(e[2] for e in estimates) < -margin else "inconclusive"
    needed = data.needed(differences, 2 * one, margin) if verdict == "inconclusive" else None
    if needed and certificate.needed and math.isclose(needed, certificate.needed, rel_tol=1e-6):
        needed = certificate.needed
    smoothed = model.isotonic.apply(instances, layout.per_item.get("frozen"))
    isotonic = _optimum(model, instances, smoothed, layout)
    return {
        "verdict": verdict,
        "epsilon": model.epsilon,
        "confidence": certificate.confidence,
        "margin": float(margin),
        "gap": min(e[0] for e in estimates),
        "gap_lower": estimates[lowest][1],
        "closest_rule": closest,
        "needed": needed,
        "n_instances": len(instances),
        "n_observations": data.n,
        "improvement": data.estimate(value - data.value(plain), -one, one, 2),
        "plain": data.estimate(data.value(plain), *ends, 2),
        "calibrated": data.estimate(value, *ends, 2),
        "isotonic": data.estimate(data.value(isotonic), *ends, 2),
        "best_rule": data.estimate(data.value(rules[best]), *ends, 2),
        "best_rule_name": names[best],
        "oracle": data.estimate(data.value(oracle), *ends, 2),
        "squared_error_before": data.mean(data.sums((outcome - before) ** 2)),
        "squared_error_after": data.mean(data.sums((outcome - after) ** 2)),
        "promise_before": data.promise(before, plain),
        "promise_after": data.promise(after, calibrated),
        "rules": [
            {"name": name, "value": data.mean(data.value(marks)), "difference": estimate}
            for name, marks, estimate in zip(names, rules, estimates, strict=True)
        ],
        "violations": violations,
        "data": instances.fingerprint,
        "library": certificate.library,
        "format": FORMAT,
    }


def _decisions(model: Model, rule: Rule, instances: Instances, layout: Layout) -> Booleans:
    marks = instances.mark(rule.decide(instances, model.problem, layout))
    if not model.problem.feasible(marks, layout).all():
        raise CertificateError(f"rule {rule.name!r} takes an infeasible decision.")
    return marks


def _optimum(model: Model, instances: Instances, weights: Floats, layout: Layout) -> Booleans:
    return instances.mark(model.problem.pick(weights, layout))


def _replayed(model: Model, instances: Instances, rules: list[Booleans], layout: Layout) -> Floats:
    """All patches, one line of NumPy each."""
    low, high = instances.value_range
    p = model.start_of(instances).copy()
    frozen = layout.per_item.get("frozen")
    if frozen is not None:
        p = _on_simplex(p, instances, frozen)
    for test, step in model.patches:
        marks = _optimum(model, instances, p, layout) if test == -1 else rules[test]
        if frozen is None:
            p = np.clip(p + step * marks, low, high)
        else:
            p = _on_simplex(p + step * (marks & ~frozen), instances, frozen)
    return p


def _on_simplex(p: Floats, instances: Instances, frozen: Booleans) -> Floats:
    """The nearest point of the simplex, by bisection on the shift that makes the sum one."""
    of = instances.instance
    p = np.where(frozen, np.nan, p)
    shift_high = np.fmax.reduceat(p, instances.offsets[:-1])
    shift_low = shift_high - 1.0
    for _ in range(100):
        shift = (shift_low + shift_high) / 2
        total = np.bincount(of, weights=np.nan_to_num(np.maximum(p - shift[of], 0.0)))
        shift_low = np.where(total > 1, shift, shift_low)
        shift_high = np.where(total > 1, shift_high, shift)
    moved = np.clip(p - ((shift_low + shift_high) / 2)[of], 0.0, 1.0)
    return np.where(frozen, instances.prediction, moved)


class _Tally:
    """Sums and bounds, with one entry per observation."""

    def __init__(self, instances: Instances, outcome: Floats, centre: float, confidence: float):
        self.outcome, self.centre, self.delta = outcome, centre, 1 - confidence
        weight = np.ones(len(instances)) if instances.weight is None else instances.weight
        cluster = np.arange(len(instances)) if instances.cluster is None else instances.cluster
        counted = np.isin(cluster, cluster[weight > 0])
        self.of_instance = np.full(len(instances), -1)
        self.of_instance[counted] = np.unique(cluster[counted], return_inverse=True)[1]
        self.n = int(self.of_instance.max()) + 1
        self.share = weight / weight.sum() * self.n
        self.instance = instances.instance
        self.largest = float(self.per_observation(np.ones(len(instances))).max())

    def per_observation(self, per_instance: Floats) -> Floats:
        total = np.zeros(self.n + 1)
        np.add.at(total, self.of_instance, self.share * per_instance)
        return total[: self.n]

    def sums(self, per_item: Floats) -> Floats:
        per_instance = np.bincount(self.instance, weights=per_item)
        return self.per_observation(np.asarray(per_instance, dtype=np.float64))

    def value(self, marks: Booleans) -> Floats:
        return self.sums((self.outcome - self.centre) * marks) + self.centre

    def mean(self, observed: Floats) -> float:
        return float(observed.sum() / self.n)

    def promise(self, prediction: Floats, marks: Booleans) -> dict[str, float]:
        return {
            "predicted": self.mean(self.sums(prediction * marks)),
            "realised": self.mean(self.value(marks)),
        }

    def half(self, variance: float, width: float, shares: int, n: int) -> float:
        """Maurer and Pontil 2009, Theorem 11, for a range of this width."""
        log = math.log(2 * shares / self.delta)
        return math.sqrt(2 * variance * log / n) + 7 * width * self.largest * log / (3 * (n - 1))

    def estimate(self, observed: Floats, low: float, high: float, shares: int) -> list[float]:
        """Mean and bounds of observations whose true mean lies between low and high."""
        mean, half = self.mean(observed), (high - low) * self.largest
        if self.n > 1:
            variance = float(((observed - mean) ** 2).sum() / (self.n - 1))
            half = self.half(variance, high - low, shares, self.n)
        return [mean, max(mean - half, low), min(mean + half, high)]

    def needed(self, differences: list[Floats], width: float, margin: float) -> int | None:
        if self.n < 2:
            return None
        failing: list[int | None] = []
        passing: list[int | None] = []
        for observed in differences:
            distance = self.mean(observed) + margin
            variance = float(observed.var(ddof=1))
            count = self._count(abs(distance), variance, width, len(differences))
            (failing if distance < 0 else passing).append(count)
        settled = [count for count in failing if count is not None]
        if settled:
            return min(settled)
        counts = [count for count in failing + passing if count is not None]
        return max(counts) if len(counts) == len(differences) else None

    def _count(self, distance: float, variance: float, width: float, shares: int) -> int | None:
        """The smallest n whose half width is at most the distance, by powers of two."""
        if not distance > 0 or self.half(variance, width, shares, 2**61) > distance:
            return None
        n: int = 2**61
        for power in range(60, -1, -1):
            if n - 2**power >= 2 and self.half(variance, width, shares, n - 2**power) <= distance:
                n -= 2**power
        return n
