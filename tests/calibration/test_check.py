"""The three CHECKs and the two steps, on audits made by hand and through the calibrator."""

from __future__ import annotations

import contextlib
import math

import numpy as np
import pytest

import outrule
from letter import algorithm_one
from outrule.calibration.audit import Audit
from outrule.calibration.check import Flagged

NO_NOISE = np.random.default_rng(0)


def audit_of(violations, sizes=None, sensitivity=0.01):
    violations = np.asarray(violations, dtype=np.float64)
    sizes = np.ones_like(violations) if sizes is None else np.asarray(sizes, dtype=np.float64)
    return Audit(violations, sizes, 0.5, np.zeros((1, 1), np.int32), 100, sensitivity)


def draw(n, seed, m=4):
    generator = np.random.default_rng(seed)
    predictions = generator.random((n, m))
    outcomes = np.clip(
        predictions * np.linspace(0.3, 1, m) + generator.normal(0, 0.1, (n, m)), 0, 1
    )
    return predictions, outcomes


@pytest.mark.parametrize("check", [outrule.FreshBatches(10, alert=1), outrule.Reuse()])
def test_the_largest_violation_is_flagged_whatever_its_sign(check):
    found = audit_of([0.1, -0.3, 0.2, 0.05], sizes=[1, 0.5, 1, 1])
    assert check.flag(found, 0.05, 1, 10, NO_NOISE) == Flagged(1, -0.3, 0.5)


def test_the_first_of_equal_violations_is_flagged():
    found = audit_of([0.1, 0.3, -0.3, 0.3])
    assert outrule.Reuse().flag(found, 0.05, 1, 10, NO_NOISE).test == 1


def test_the_last_violation_is_the_optimisers():
    assert outrule.Reuse().flag(audit_of([0.1, 0.3]), 0.05, 1, 10, NO_NOISE).test == -1


@pytest.mark.parametrize("kind", [outrule.Reuse, lambda **alert: outrule.FreshBatches(9, **alert)])
def test_a_violation_must_be_above_alert_times_tolerance(kind):
    found = audit_of([0.25, 0.0])
    assert kind(alert=1.0).flag(found, 0.25, 1, 10, NO_NOISE) is None
    assert kind(alert=1.0).flag(found, 0.2499, 1, 10, NO_NOISE) is not None
    assert kind(alert=0.5).flag(found, 0.5, 1, 10, NO_NOISE) is None
    assert kind(alert=0.5).flag(found, 0.4999, 1, 10, NO_NOISE) is not None


def test_the_defaults_are_the_sound_ones_and_that_of_the_experiments():
    assert outrule.FreshBatches(8).alert == 0.75
    assert outrule.PrivateReuse().alert == 0.75
    assert outrule.Reuse().alert == 1.0
    assert outrule.FreshBatches(8).early_exit


def test_the_fixed_step_is_the_papers():
    assert outrule.FixedStep().size(Flagged(0, -0.3, 0.5), 0.1, 4) == 0.1 / 8


def test_the_line_search_step_is_the_violation_per_marked_item():
    assert outrule.LineSearch().size(Flagged(0, -0.3, 0.5), 0.1, 4) == 0.6


# --- private reuse -------------------------------------------------------------------------------


@pytest.mark.parametrize("rounds", [1, 10, 1000])
@pytest.mark.parametrize("privacy", [0.01, 1.0, 50.0, 1e6])
def test_the_budgets_of_all_looks_compose_to_the_total(privacy, rounds):
    check = outrule.PrivateReuse(privacy=privacy, delta=0.01)
    e, looks = check.budget_per_look(rounds), 2 * rounds
    with contextlib.suppress(OverflowError):
        advanced = e * math.sqrt(2 * looks * math.log(1 / 0.01)) + looks * e * math.expm1(e)
        if advanced == pytest.approx(privacy, rel=1e-9):
            assert e * looks >= privacy  # the better of the two
            return
    assert e * looks == pytest.approx(privacy, rel=1e-9)


def test_the_budget_of_a_look_never_exceeds_the_total():
    assert outrule.PrivateReuse(privacy=0.5, delta=0.99).budget_per_look(1) <= 0.5


def test_a_test_is_drawn_by_the_exponential_mechanism():
    violations = np.array([0.02, -0.03, 0.0, 0.01])
    found = audit_of(violations, sensitivity=0.004)
    check = outrule.PrivateReuse(privacy=20.0)
    generator, n = np.random.default_rng(0), 4000
    drawn = [check.flag(found, 1e-300, 1, 5, generator).test for _ in range(n)]
    counts = np.array([drawn.count(test) for test in (0, 1, 2, -1)])
    scale = check.budget_per_look(5) / (2 * found.sensitivity)
    odds = np.exp(scale * violations) + np.exp(-scale * violations)
    expected = n * odds / odds.sum()
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert chi_square < 16.3  # 99.9 % of chi-square with three degrees of freedom
    assert expected.max() > 2 * expected.min()  # the mechanism is far from uniform here


def test_the_drawn_violation_has_laplace_noise_of_the_right_scale():
    found = audit_of([0.5], sensitivity=0.01)
    check = outrule.PrivateReuse(privacy=2.0)
    generator = np.random.default_rng(1)
    noise = [check.flag(found, 1e-300, 1, 5, generator).violation - 0.5 for _ in range(4000)]
    scale = found.sensitivity / check.budget_per_look(5)
    assert np.mean(np.abs(noise)) == pytest.approx(scale, rel=0.05)
    assert abs(np.mean(noise)) < 0.1 * scale


def test_whether_anything_is_flagged_is_decided_with_noise():
    found = audit_of([0.05], sensitivity=0.01)
    check = outrule.PrivateReuse(privacy=2.0, alert=0.5)
    generator = np.random.default_rng(2)
    flagged = [check.flag(found, 0.1, 1, 5, generator) is not None for _ in range(200)]
    assert 50 < sum(flagged) < 200


def test_the_size_of_the_mark_is_not_one_more_look_at_the_data():
    found = audit_of([0.5], sizes=[0.123])
    flagged = outrule.PrivateReuse(privacy=9.0).flag(found, 0.01, 3, 5, np.random.default_rng(0))
    assert flagged.size == 3.0


def private(seed, **kinds):
    rules = outrule.multipliers(4, limit=20)
    check = outrule.PrivateReuse(**kinds)
    return algorithm_one(
        outrule.BestAction(), rules, 0.1, check=check, max_rounds=6, random_state=seed
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_private_reuse_is_reproducible_and_its_seeds_differ():
    data = draw(500, 0)
    one, same, other = (private(seed, privacy=5.0).fit(*data).patches_ for seed in (1, 1, 2))
    assert one == same
    assert one != other


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_noise_shrinks_as_the_privacy_budget_grows():
    data = draw(4000, 0)
    largest = algorithm_one(
        outrule.BestAction(), outrule.multipliers(4, limit=20), 0.1, max_rounds=1
    )
    largest.fit(*data)
    exact = largest.patches_[0]
    errors = []
    for privacy in (0.5, 5.0, 1e6):
        steps = [private(seed, privacy=privacy).fit(*data).history_[0] for seed in range(10)]
        errors.append(np.mean([abs(abs(row.violation) - abs(exact.step)) for row in steps]))
    assert errors[0] > 2 * errors[1] > 4 * errors[2]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_private_reuse_with_a_huge_budget_picks_the_largest_violations():
    predictions, outcomes = draw(4000, 0)
    rules = [outrule.Fixed(i) for i in range(4)]
    settings = {"epsilon": 0.1, "max_rounds": 5, "random_state": 0}
    checks = (outrule.PrivateReuse(privacy=1e6), outrule.Reuse(alert=0.5))
    noisy, exact = (
        algorithm_one(outrule.BestAction(), rules, check=check, **settings)
        .fit(predictions, outcomes)
        .patches_
        for check in checks
    )
    assert [patch.test for patch in noisy] == [patch.test for patch in exact]
    np.testing.assert_allclose(
        [patch.step for patch in noisy], [patch.step for patch in exact], atol=2e-3
    )


# --- refused arguments ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: outrule.FreshBatches(0), "'size' argument of FreshBatches must be an int of at"),
        (lambda: outrule.FreshBatches(2.5), "'size' argument of FreshBatches"),
        (lambda: outrule.FreshBatches(8, alert=0), r"must be a float in \(0, 1\]. Got 0 instead"),
        (lambda: outrule.FreshBatches(8, alert=1.5), "'alert' argument of FreshBatches"),
        (lambda: outrule.PrivateReuse(privacy=0), "'privacy' argument of PrivateReuse must be a"),
        (lambda: outrule.PrivateReuse(privacy=math.inf), "'privacy' argument of PrivateReuse"),
        (lambda: outrule.PrivateReuse(delta=1), r"must be a float in \(0, 1\). Got 1 instead"),
        (lambda: outrule.PrivateReuse(alert="x"), "'alert' argument of PrivateReuse"),
        (lambda: outrule.Reuse(alert=True), "'alert' argument of Reuse"),
        (lambda: outrule.Reuse(validation=1.0), "'validation' argument of Reuse"),
        (lambda: outrule.Reuse(patience=0), "'patience' argument of Reuse"),
    ],
)
def test_arguments_outside_their_range_are_refused(make, message):
    with pytest.raises(outrule.ArgumentError, match=message):
        make()


def test_checks_and_steps_are_values():
    assert outrule.FreshBatches(8) == outrule.FreshBatches(8, alert=0.75)
    assert outrule.Reuse() != outrule.Reuse(validation=0.2)
    assert len({outrule.LineSearch(), outrule.LineSearch(), outrule.FixedStep()}) == 2
