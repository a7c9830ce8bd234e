"""Whole fits on random small data, followed round by round by a slow twin, and audited exactly.

``OUTRULE_FUZZ=20000 pytest tests/calibration/test_fits.py`` draws as many cases, at random.
"""

from __future__ import annotations

import contextlib
import os
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, event, given, settings, strategies as st

import outrule
import reference
from letter import algorithm_one
from outrule import Instances, certify, verify
from outrule.errors import DataError

MORE = int(os.environ.get("OUTRULE_FUZZ", "0"))
often = settings(
    max_examples=MORE or 40,
    derandomize=not MORE,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
quiet = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore:.* instances offer nothing to choose between",
)

M = 6
EDGES = reference.complete_edges(4)
BOX = [
    outrule.BestAction(),
    outrule.TopK(1),
    outrule.TopK(3),
    outrule.PartitionMatroid([0, 0, 0, 1, 1, 2]),
    outrule.GraphicMatroid.complete(4),
    outrule.LaminarMatroid(M, [[0, 1, 2], list(range(M))], [2, 3]),
    outrule.TransversalMatroid(M, [[0, 1, 2], [2, 3], [4, 5]]),
    outrule.LinearMatroid(np.eye(M, 3, dtype=int).tolist()),
    outrule.Matching(EDGES),
    outrule.Assignment(2, 3),
    outrule.GreedyMatching(EDGES),
    outrule.Matroid(lambda positions: len(positions) <= 2),
    outrule.Oracle(lambda weights: np.arange(M) == np.argmax(weights), k=1),
]
RAGGED = (outrule.BestAction, outrule.TopK)  # that take items which are not on offer
SIMPLEX = [outrule.Classification(), outrule.Rejection(cost=0.3)]
RANGES = [(0.0, 1.0)] * 3 + [(999_999.0, 1e6), (-1e6, -999_999.0), (0.0, 1e-9), (-3e8, 7e8), (1, 3)]
UNIT = st.sampled_from([0.0, -0.0, 0.25, 1 / 3, 0.5, 0.75, 1.0]) | st.floats(0, 1)
CHECKS = [outrule.Reuse(), outrule.Reuse(), outrule.Reuse(alert=0.6), "fresh"]


class Drawn(NamedTuple):
    """A fit to run."""

    data: Instances
    problem: outrule.Problem
    rules: tuple[outrule.Rule, ...]
    options: dict


@st.composite
def drawn(draw):
    """Every problem, check, step and start, weights, clusters, masks, ranges and ties."""
    problem = draw(st.sampled_from(BOX * 2 + SIMPLEX))
    low, high = (0.0, 1.0) if problem in SIMPLEX else draw(st.sampled_from(RANGES))
    n = draw(st.integers(1, 9))
    arrays = [_simplex(draw, problem, n) if problem in SIMPLEX else _box(draw, n) for _ in "poss"]
    predictions, outcomes, start = (np.clip(low + (high - low) * x, low, high) for x in arrays[:3])
    if problem in SIMPLEX:
        outcomes = (outcomes == outcomes.max(axis=1, keepdims=True)) * 1.0
        outcomes = np.where(np.cumsum(outcomes, axis=1) == 1, outcomes, 0.0)
        parts = (predictions, outcomes, start)
        if isinstance(problem, outrule.Rejection):
            parts = tuple(problem.with_reject(part) for part in parts)
        predictions, outcomes, start = parts
    more = {"value_range": (low, high)}
    if draw(st.booleans()):
        weight = st.sampled_from([1.0, 1.0, 0.5, 3.0, 0.0, 1e-3, 1e50])
        more["weight"] = np.array([1.0, *draw(st.lists(weight, min_size=n - 1, max_size=n - 1))])
    if draw(st.booleans()):
        more["cluster"] = np.array(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    if type(problem) in RAGGED and draw(st.booleans()):
        mask = np.random.default_rng(draw(st.integers(0, 99))).random((n, M)) < 0.7
        more["available"] = mask | (np.arange(M) == 0)
    if draw(st.booleans()):
        more["start"] = start
    check = draw(st.sampled_from(CHECKS))
    size = draw(st.integers(1, n))
    fresh = check == "fresh" and "weight" not in more  # a batch could have no weight at all
    options = {
        "epsilon": (high - low) * draw(st.sampled_from([0.5, 0.1, 0.03, 1e-3, 1e-6])),
        "check": outrule.FreshBatches(size, alert=1.0) if fresh else outrule.Reuse(),
        "step": draw(st.sampled_from([outrule.LineSearch(), outrule.FixedStep()])),
        "max_rounds": 60,
    }
    if isinstance(check, outrule.Reuse):
        options["check"] = check
    m = predictions.shape[1]
    vectors = draw(st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=m, max_size=m),
                            min_size=1, max_size=3))  # fmt: skip
    rules = [outrule.Multiplier([1.0, *vector[1:]], f"{i}") for i, vector in enumerate(vectors)]
    return Drawn(Instances.from_arrays(predictions, outcomes, **more), problem, rules, options)


def _box(draw, n):
    rows = st.lists(UNIT, min_size=M, max_size=M)
    same = draw(st.booleans())
    array = np.array(draw(st.lists(rows, min_size=n, max_size=n)))
    return np.repeat(array[:1], n, axis=0) if same else array


def _simplex(draw, problem, n):
    classes = M - isinstance(problem, outrule.Rejection)
    generator = np.random.default_rng(draw(st.integers(0, 9999)))
    return generator.dirichlet(np.full(classes, 0.7), n)


class Twin:
    """The loop in plain Python: instances are lists of items on offer; weights have sum one."""

    def __init__(self, case, start):
        data, self.problem = case.data, case.problem
        self.data, self.layout = data, case.problem.lay(data)
        self.low, self.high = data.value_range
        self.span = self.high - self.low
        ends = data.offsets.tolist()
        self.places = [range(a, b) for a, b in pairwise(ends)]
        self.y = data.outcome.tolist()
        self.frozen = self.layout.per_item.get("frozen", np.zeros(len(self.y), bool)).tolist()
        self.p = [float(value) for value in start]
        if case.problem.simplex:
            self.project(range(len(data)))
        self.marks = [self.decide(rule.per_item(data)[data.item] * data.prediction)
                      for rule in case.rules]  # fmt: skip

    def decide(self, weights):
        """The chosen items of every instance; by the twin's own optimiser where ties are told."""
        found = []
        for place in self.places:
            row = [float(weights[j]) for j in place]
            if type(self.problem) is outrule.BestAction:
                found.append([place[j] for j in reference.best_action(row)])
            elif type(self.problem) is outrule.TopK:
                found.append([place[j] for j in reference.top_k(row, self.problem.k)])
        if found:
            return found
        chosen = self.data.mark(self.problem.pick(np.array(weights, float), self.layout))
        return [[j for j in place if chosen[j]] for place in self.places]

    def project(self, instances):
        for i in instances:
            place = self.places[i]
            row, frozen = [self.p[j] for j in place], [self.frozen[j] for j in place]
            for j, value in zip(place, reference.project_simplex(row, frozen), strict=True):
                self.p[j] = value

    def apply(self, test, step):
        chosen = self.decide(self.p) if test == -1 else self.marks[test]
        for i, items in enumerate(chosen):
            for j in items:
                if self.problem.simplex and not self.frozen[j]:
                    self.p[j] += step
                    self.project([i])
                elif not self.problem.simplex:
                    self.p[j] = min(max(self.p[j] + step, self.low), self.high)

    def weights(self, first, last):
        given = self.data.weight
        rows = [Fraction(1 if given is None else float(given[i])) for i in range(first, last)]
        return [row / sum(rows) for row in rows]

    def move(self, i, j):
        """By how much of a step item j of instance i moves: on the simplex the others share it."""
        free = sum(not self.frozen[other] for other in self.places[i])
        return 0 if self.frozen[j] else 1 - 1 / free if self.problem.simplex else 1

    def audit(self, first, last):
        """Violations and sizes of all tests on some instances, and the squared error."""
        weights, tests = self.weights(first, last), [*self.marks, self.decide(self.p)]
        gaps = [Fraction(y) - Fraction(p) for y, p in zip(self.y, self.p, strict=True)]
        found, sizes = [], []
        for chosen in tests:
            rows = list(zip(weights, chosen[first:last], strict=True))
            found.append(sum(w * sum(gaps[j] for j in items) for w, items in rows))
            movable = [sum(self.move(i, j) for j in items)
                       for i, (_, items) in enumerate(rows, first)]  # fmt: skip
            sizes.append(float(sum(w * n for (w, _), n in zip(rows, movable, strict=True))))
        places = zip(weights, self.places[first:last], strict=True)
        error = sum(w * sum(gaps[j] ** 2 for j in place) for w, place in places)
        return found, sizes, float(error)


def follow(case, fitted):
    """Check every round of the history; the slack is that of integer residuals and of floats."""
    data, check = case.data, case.options["check"]
    twin = Twin(case, data.prediction if data.start is None else data.start)
    k, n = twin.layout.k, len(data)
    slack = 1e-9 * twin.span + 100 * k * np.spacing(max(abs(twin.low), abs(twin.high)))
    names = [*(rule.name for rule in case.rules), "optimiser"]
    size = check.size if isinstance(check, outrule.FreshBatches) else None
    threshold, patches = check.alert * fitted.tolerance_, list(fitted.patches_)
    for row in fitted.history_:
        first, last = (0, n) if size is None else (row.round * size, (row.round + 1) * size)
        violations, sizes, error = twin.audit(first, last)
        assert row.squared_error == pytest.approx(error, rel=1e-6, abs=slack * twin.span)
        free = [abs(v) if s > 0 else 0 for v, s in zip(violations, sizes, strict=True)]
        worst = float(max(free))
        if row.test is None:
            assert worst <= threshold + slack
            continue
        test = names.index(row.test)
        assert float(violations[test]) == pytest.approx(row.violation, rel=1e-6, abs=slack)
        assert abs(row.violation) >= worst - slack
        assert abs(row.violation) > threshold
        step = fitted.tolerance_ / (2 * k)
        if isinstance(case.options["step"], outrule.LineSearch):
            step = abs(row.violation) / sizes[test]
        assert abs(row.step) == pytest.approx(step, rel=1e-6)
        assert row.step * row.violation > 0
        patch = patches.pop(0)
        assert (patch.test, patch.step) == (-1 if test == len(case.rules) else test, row.step)
        twin.apply(*patch)
    assert not patches
    return twin, threshold, slack


def fit(calibrator, data):
    """Fit, if some instance offers a choice."""
    try:
        return calibrator.fit(data)
    except DataError as error:
        assume("no instance offers a choice" not in str(error))
        raise


@quiet
@often
@given(drawn())
def test_every_round_of_a_fit_is_that_of_a_slow_twin(case):
    fitted = fit(algorithm_one(case.problem, case.rules, **case.options), case.data)
    twin, threshold, slack = follow(case, fitted)
    calibrated = fitted.model_.predict(case.data)
    np.testing.assert_allclose(calibrated, twin.p, rtol=0, atol=slack)
    if not case.problem.simplex:
        assert calibrated.tolist() == twin.p  # the same operations, so the same bits
    event(f"{fitted.status_}, {type(case.options['check']).__name__}")
    if fitted.status_ == "converged" and isinstance(case.options["check"], outrule.Reuse):
        twin.p = calibrated.tolist()  # the last word: an exact audit of what predict gives
        violations, sizes, _ = twin.audit(0, len(case.data))
        worst = max(abs(v) if s > 0 else 0 for v, s in zip(violations, sizes, strict=True))
        assert float(worst) <= threshold + twin.layout.k * twin.span * 2.0**-44


@quiet
@settings(often, max_examples=MORE // 4 or 12)
@given(drawn(), st.sampled_from(["cross fit", "isotonic"]), st.integers(0, 99))
def test_a_fit_from_any_start_ends_in_the_range_and_its_certificate_verifies(case, start, seed):
    data = case.data
    if isinstance(case.problem, outrule.Matroid | outrule.Oracle) or len(data) < 2:
        return  # calls of the caller's function are slow, and the regression needs two
    start = outrule.CrossFit() if start == "cross fit" else outrule.Isotonic()
    if isinstance(start, outrule.Isotonic) and (data.start is not None or data.cluster is not None):
        return
    options = case.options | {"check": outrule.Reuse(), "start": start}
    fitted = fit(outrule.DecisionCalibrator(case.problem, case.rules, **options), data)
    calibrated = fitted.model_.predict(data)
    low, high = data.value_range
    assert np.isfinite(calibrated).all()
    assert low <= calibrated.min() <= calibrated.max() <= high
    last = fitted.history_[-1]
    assert (last.test is None) == (fitted.status_ == "converged")
    assert last.test is not None or abs(last.violation) <= fitted.tolerance_
    order = np.random.default_rng(seed).permutation(len(data))
    other = data.take(order)
    mirrored = low + high - other.outcome
    if case.problem.simplex:
        mirrored = other.outcome  # labels must stay labels
    hold_out = Instances.from_arrays(
        *(other.origin.restore(part, low) for part in (other.prediction, mirrored)),
        value_range=(low, high),
        available=other.origin.available,
        weight=other.weight,
        start=None if other.start is None else other.origin.restore(other.start, low),
    )
    with contextlib.suppress(outrule.DataError):  # the mirror image of some data are themselves
        verify(certify(fitted, hold_out), fitted, hold_out)
