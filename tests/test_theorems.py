"""The theorems of the paper as tests, for every kind of problem, and its two worlds."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import outrule
import reference
import strategies
from letter import algorithm_one
from outrule import theory
from outrule.calibration.audit import audit, prepare, squared_error
from outrule.calibration.check import Flagged
from outrule.calibration.patches import Patch, replay

STEPS = [outrule.FixedStep(), outrule.LineSearch()]


def heaviest_alone(weights):
    """An approximate optimiser where two items may be chosen: the heaviest alone has ratio 1/2."""
    marks = np.zeros(len(weights), dtype=bool)
    marks[np.argmax(weights)] = weights.max() > 0
    return marks


PROBLEMS = {
    "best action": outrule.BestAction(),
    "top k": outrule.TopK(2),
    "partition": outrule.PartitionMatroid([0, 0, 0, 1, 1, 2]),
    "graphic": outrule.GraphicMatroid.complete(4),
    "laminar": outrule.LaminarMatroid(6, sets=[[0, 1], [0, 1, 2, 3]], capacity=[1, 2]),
    "transversal": outrule.TransversalMatroid(6, sets=[[0, 1, 2], [2, 3, 4, 5]]),
    "linear matroid": outrule.LinearMatroid([[1, 0], [2, 0], [0, 1], [1, 1], [3, 3], [1, -1]]),
    "matroid": outrule.Matroid(lambda positions: len(positions) <= 2),
    "matching": outrule.Matching.complete(4),
    "assignment": outrule.Assignment(2, 3),
    "linear": outrule.LinearProblem([[2, 1, 1, 2, 3, 1]], [3]),
    "oracle": outrule.Oracle(heaviest_alone, k=2, ratio=0.5),
    "greedy matching": outrule.GreedyMatching.complete(4),
}
SLOW = {"linear"}


def the_two_heaviest(view):
    ranks = np.argsort(np.argsort(-view.predictions, axis=1), axis=1)
    return ranks < 2


def draw(name, seed):
    """Predictions with a different bias for each item, which rules can exploit."""
    generator = np.random.default_rng(seed)
    n = 6 if name in SLOW else 80
    predictions = generator.random((n, 6))
    slope = generator.uniform(0.3, 1, 6)
    outcomes = np.clip(predictions * slope + generator.normal(0, 0.15, (n, 6)), 0, 1)
    rules = outrule.multipliers(6, limit=3 if name in SLOW else 12, seed=seed)
    if name == "oracle":  # whose own rules would never choose two
        rules = (*rules, outrule.Choose("the two heaviest", the_two_heaviest))
    return rules, predictions, outcomes


def classes(cost, seed):
    """Over-confident class probabilities, perhaps with a reject item."""
    predictions, outcomes = outrule.worlds.rejection(300, seed=seed)
    if cost is None:
        return outrule.Classification(), outrule.multipliers(2), predictions, outcomes
    problem = outrule.Rejection(cost)
    rules = outrule.multipliers(3, levels=(0.5, 0.75, 1.0))
    return problem, rules, problem.with_reject(predictions), problem.with_reject(outcomes)


def check_the_guarantee(problem, rules, predictions, outcomes, epsilon, step):
    fitted = algorithm_one(problem, rules, epsilon, step=step)
    fitted.fit(predictions, outcomes)
    assert fitted.status_ == "converged"
    best = max(outrule.metrics.values_of_rules(problem, rules, predictions, outcomes).values())
    value = reference.value(outcomes, fitted.decide(predictions))
    assert problem.ratio * best <= epsilon + value + 1e-9
    # Every test is calibrated, and the tolerance is the theorem's.
    left = outrule.metrics.violations(
        problem, rules, predictions, outcomes, calibrated=fitted.predict(predictions)
    )
    assert max(map(abs, left.values())) <= epsilon / (1 + problem.ratio) + 1e-12
    return fitted


# --- the inequality behind Theorem 3.1, for any predictions at all -------------------------------


@given(strategies.cases(), st.integers(0, 10_000))
def test_a_rule_beats_the_optimiser_by_no_more_than_their_difference_in_excess(case, seed):
    any_prediction = np.random.default_rng(seed).random(case.predictions.shape)
    check_the_inequality(case.problem, case.rules, case.predictions, case.outcomes, any_prediction)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_inequality_holds_for_every_problem(name):
    rules, predictions, outcomes = draw(name, 5)
    generator = np.random.default_rng(0)
    for any_prediction in (predictions, outcomes, generator.random(predictions.shape)):
        check_the_inequality(PROBLEMS[name], rules, predictions, outcomes, any_prediction)


@pytest.mark.parametrize("cost", [None, 0.2])
def test_the_inequality_holds_on_the_simplex(cost):
    problem, rules, predictions, outcomes = classes(cost, 0)
    check_the_inequality(problem, rules, predictions, outcomes, predictions)


def check_the_inequality(problem, rules, original, outcomes, p):
    decisions = problem.solve(p)
    values = outrule.metrics.values_of_rules(problem, rules, original, outcomes)
    violations = outrule.metrics.violations(problem, rules, original, outcomes, calibrated=p)
    ratio = problem.ratio
    for name, value in values.items():
        # The excess, predicted minus realised value, is minus the violation.
        bound = ratio * violations[name] - violations["optimiser"]
        assert ratio * value - reference.value(outcomes, decisions) <= bound + 1e-9


# --- Theorem 3.1: the guarantee after convergence, on the data of the loop -----------------------


@pytest.mark.parametrize("step", STEPS, ids=["fixed step", "line search"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_optimiser_is_as_good_as_the_best_rule(name, step):
    rules, predictions, outcomes = draw(name, 1)
    epsilon = 0.3 if name in SLOW else 0.06
    fitted = check_the_guarantee(PROBLEMS[name], rules, predictions, outcomes, epsilon, step)
    assert fitted.patches_


@pytest.mark.parametrize("step", STEPS, ids=["fixed step", "line search"])
@pytest.mark.parametrize("cost", [None, 0.1, 0.3])
def test_the_optimiser_is_as_good_as_the_best_rule_on_the_simplex(cost, step):
    problem, rules, predictions, outcomes = classes(cost, 1)
    fitted = check_the_guarantee(problem, rules, predictions, outcomes, 0.02, step)
    assert fitted.patches_


@given(strategies.cases(), st.sampled_from(STEPS), st.sampled_from([0.05, 0.2, 1.0]))
@settings(max_examples=40)
def test_the_guarantee_holds_on_any_data(case, step, epsilon):
    check_the_guarantee(*case, epsilon, step)


@given(strategies.simplex_cases(), st.sampled_from(STEPS), st.sampled_from([0.05, 0.2, 1.0]))
@settings(max_examples=40)
def test_the_guarantee_holds_on_any_data_on_the_simplex(case, step, epsilon):
    check_the_guarantee(*case, epsilon, step)


def test_the_guarantee_holds_from_any_start():
    rules, predictions, outcomes = draw("top k", 3)
    problem, generator = PROBLEMS["top k"], np.random.default_rng(0)
    start = generator.random(predictions.shape)
    instances = outrule.Instances.from_arrays(predictions, outcomes, start=start)
    fitted = algorithm_one(problem, rules, 0.05).fit(instances)
    best = max(outrule.metrics.values_of_rules(problem, rules, instances).values())
    assert best <= 0.05 + reference.value(outcomes, fitted.decide(instances)) + 1e-9


# --- Theorem 3.3: rounds and potential -----------------------------------------------------------


@given(
    st.one_of(strategies.cases(), strategies.simplex_cases()),
    st.sampled_from([0.05, 0.2]),
    st.sampled_from([0.5, 1.0]),
)
@settings(max_examples=40)
def test_rounds_and_drops_keep_to_the_theory(case, epsilon, alert):
    for step in STEPS:
        fitted = algorithm_one(
            case.problem, case.rules, epsilon, step=step, check=outrule.Reuse(alert=alert)
        ).fit(case.predictions, case.outcomes)
        check_the_drops(fitted, fixed=step == outrule.FixedStep())
        bound = theory.rounds if step == outrule.FixedStep() else theory.rounds_line_search
        r, tau = fitted.history_[0].squared_error, fitted.tolerance_
        most = bound(squared_error=r, k=fitted.k_, tolerance=tau, alert=alert)
        assert len(fitted.patches_) <= most


def check_the_drops(fitted, *, fixed):
    """Every round lowers the squared error by at least what the proof says."""
    tau, k = fitted.tolerance_, fitted.k_
    for row, after in pairwise(fitted.history_):
        drop, step, v = row.squared_error - after.squared_error, abs(row.step), abs(row.violation)
        assert np.sign(row.step) == np.sign(row.violation)
        if fixed:
            assert step == tau / (2 * k)
            assert drop >= theory.potential_drop(violation=v, step=step, mean_size=k) - 1e-9
        else:
            mean_size = v / step
            assert mean_size <= k + 1e-9
            assert drop >= v**2 / mean_size - 1e-9


def test_the_line_search_drop_is_exact_where_nothing_is_clipped():
    generator = np.random.default_rng(0)
    predictions = generator.uniform(0.45, 0.55, (200, 6))
    outcomes = np.clip(predictions + np.linspace(-0.1, 0.1, 6), 0, 1)
    problem, rules = outrule.TopK(2), outrule.multipliers(6, limit=20)
    fitted = algorithm_one(problem, rules, 0.05).fit(predictions, outcomes)
    assert len(fitted.patches_) > 3
    for row, after in pairwise(fitted.history_):
        drop = row.squared_error - after.squared_error
        assert drop == pytest.approx(abs(row.violation * row.step), abs=1e-10)


def inner_classes(seed, *, reject, n=60, c=5):
    """Class probabilities far from the faces of the simplex, of 2 to 5 classes per instance."""
    generator = np.random.default_rng(seed)
    available = np.arange(c) < generator.integers(2, c + 1, (n, 1))
    parts = []
    for tilt in (0.0, 0.5):
        raw = available * (1 + 0.3 * generator.random((n, c)) + tilt * np.linspace(1, 0, c))
        parts.append(raw / raw.sum(axis=1, keepdims=True))
    problem = outrule.Rejection(0.7) if reject else outrule.Classification()
    if reject:
        parts, available = (
            [problem.with_reject(part) for part in parts],
            np.pad(available, ((0, 0), (0, 1)), constant_values=True),
        )
    weight = generator.random(n)
    data = outrule.Instances.from_arrays(*parts, available=available, weight=weight)
    return problem, [outrule.Fixed(0), outrule.Fixed(1)], data


@pytest.mark.parametrize("reject", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_line_search_step_is_the_exact_minimiser_inside_the_simplex(seed, reject):
    problem, rules, data = inner_classes(seed, reject=reject)
    part = prepare(data, problem, rules)
    found = audit(part, data.prediction, problem)
    for test, violation, size in zip((0, 1, -1), found.violations, found.sizes, strict=True):
        step = outrule.LineSearch().size(Flagged(test, violation, size), 0.1, 1)
        signed = np.copysign(step, violation)

        def error(step, test=test):
            patched = replay([Patch(test, step)], rules, problem, data, data.prediction)
            return squared_error(part, patched)

        fall = error(0.0) - error(signed)
        assert fall == pytest.approx(violation**2 / size, rel=1e-6)
        others = [0.99 * signed, 1.01 * signed]
        others += [violation] if test >= 0 else []  # |v| / E|w|, the step on the box
        assert all(error(other) > error(signed) for other in others)


def test_the_line_search_needs_fewer_rounds_on_the_simplex_than_one_that_ignores_it(monkeypatch):
    generator = np.random.default_rng(0)
    truth = generator.dirichlet(np.ones(3), 2_000)
    outcomes = np.eye(3)[(generator.random((2_000, 1)) < truth.cumsum(axis=1)).argmax(axis=1)]
    tilted = truth**0.4 * [2.0, 1.0, 0.5]
    predictions = tilted / tilted.sum(axis=1, keepdims=True)
    rules = [*map(outrule.Fixed, range(3)), *outrule.multipliers(3, limit=30)]

    def rounds():
        fitted = algorithm_one(outrule.Classification(), rules, 0.01)
        return len(fitted.fit(predictions, outcomes).history_)

    ours = rounds()
    whole = outrule.LineSearch.size
    monkeypatch.setattr(outrule.LineSearch, "size", lambda *args: whole(*args) * (1 - 1 / 3))
    assert ours < rounds()


# --- the examples of the paper -------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS, ids=["fixed step", "line search"])
def test_two_arms_where_the_second_beats_the_argmax_of_an_unbiased_predictor(step):
    predictions, outcomes = outrule.worlds.two_arms(4000, seed=0, epsilon=0.1)
    problem, rules = outrule.BestAction(), [outrule.Fixed(1, name="always the second")]
    before = reference.value(outcomes, problem.solve(predictions))
    always_second = outcomes[:, 1].mean()
    assert always_second > 4 * before
    fitted = algorithm_one(problem, rules, 0.004, step=step).fit(predictions, outcomes)
    assert fitted.status_ == "converged"
    assert fitted.history_[0].test == "optimiser"
    after = reference.value(outcomes, fitted.decide(predictions))
    assert after >= always_second - 0.004
    new, truth = outrule.worlds.two_arms(4000, seed=1, epsilon=0.1)
    assert reference.value(truth, fitted.decide(new)) == pytest.approx(0.1, abs=0.005)


def test_two_arms_are_left_alone_where_the_violation_is_tolerated():
    predictions, outcomes = outrule.worlds.two_arms(4000, seed=0, epsilon=0.1)
    rules = [outrule.Fixed(1)]
    share = predictions[:, 1].mean()  # the argmax's violation is -(1 - epsilon) times this share
    threshold = 2 * 0.9 * share
    for epsilon, flagged in ((threshold * 1.01, False), (threshold * 0.99, True)):
        fitted = algorithm_one(outrule.BestAction(), rules, epsilon)
        assert bool(fitted.fit(predictions, outcomes).patches_) == flagged


@pytest.mark.parametrize("name", ["best action", "top k", "matching", "assignment"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_bayes_optimal_predictor_is_never_patched(name, seed):
    world = outrule.worlds.Quadratic(6, seed=seed)
    features, outcomes = world.sample(5000, seed=seed)
    predictions = world.bayes(features)
    # A residual's standard deviation is below 0.01, that of a mean over 5,000 below 0.0003.
    rules = outrule.multipliers(6, limit=50)
    fitted = algorithm_one(PROBLEMS[name], rules, 0.01).fit(predictions, outcomes)
    assert fitted.status_ == "converged"
    assert fitted.patches_ == []
    assert (fitted.predict(predictions) == predictions).all()
