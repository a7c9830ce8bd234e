"""The three CHECKs and the two steps, on audits made by hand and through the calibrator."""

from __future__ import annotations

import contextlib
import math

import numpy as np
import pytest

import outrule
from letter import algorithm_one
from outrule import theory
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


def test_leaving_early_is_true_or_false():
    with pytest.raises(
        outrule.ArgumentError, match="'early_exit' argument of FreshBatches must be a bool"
    ):
        outrule.FreshBatches(8, early_exit="no")


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
    e, looks = theory.budget_per_look(privacy, 0.01, rounds), 2 * rounds
    with contextlib.suppress(OverflowError):
        advanced = e * math.sqrt(2 * looks * math.log(1 / 0.01)) + looks * e * math.expm1(e)
        if advanced == pytest.approx(privacy, rel=1e-9):
            assert e * looks >= privacy  # the better of the two
            return
    assert e * looks == pytest.approx(privacy, rel=1e-9)


def test_the_budget_of_a_look_never_exceeds_the_total():
    assert theory.budget_per_look(0.5, 0.99, 1) <= 0.5


def test_a_test_is_drawn_by_the_exponential_mechanism():
    violations = np.array([0.02, -0.03, 0.0, 0.01])
    found = audit_of(violations, sensitivity=0.004)
    check = outrule.PrivateReuse(privacy=20.0)
    generator, n = np.random.default_rng(0), 4000
    drawn = [check.flag(found, 1e-300, 1, 5, generator).test for _ in range(n)]
    counts = np.array([drawn.count(test) for test in (0, 1, 2, -1)])
    scale = theory.budget_per_look(check.privacy, check.delta, 5) / (2 * found.sensitivity)
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
    scale = found.sensitivity / theory.budget_per_look(check.privacy, check.delta, 5)
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


def test_a_budget_that_follows_from_epsilon_keeps_the_guarantee_on_new_data():
    """Two arms of known value; the data are as few as the theory allows."""
    settings = {"start": None, "rivals": ("plain",), "max_rounds": 3}
    rules, epsilon = [outrule.Fixed(1)], 1.0
    n = theory.private_samples(k=1, tolerance=epsilon / 2, n_tests=3, rounds=3, delta=0.05)
    assert 300_000 < n < 500_000
    generator = np.random.default_rng(0)
    predictions = np.tile([0.9, 0.1], (n, 1))
    outcomes = (generator.random((n, 2)) < [0.1, 0.9]).astype(float)
    calibrator = outrule.DecisionCalibrator(
        outrule.BestAction(), rules, epsilon, check=outrule.PrivateReuse(), **settings
    )
    calibrator.fit(predictions, outcomes)
    assert calibrator.status_ == "converged"
    assert calibrator.model_.caution is None
    found = calibrator.history_[0]
    assert abs(abs(found.violation) - 0.8) < epsilon / 8  # within a quarter of the tolerance
    calibrated = calibrator.predict([[0.9, 0.1]])[0]
    for test in (0, 1, int(calibrated.argmax())):  # plain, the rule, and the optimiser's own
        assert abs(calibrated[test] - (0.1, 0.9)[test]) <= epsilon / 2
    assert (0.1, 0.9)[int(calibrated.argmax())] >= 0.9 - epsilon
    words = f"needs {n:,} instances of equal weight with max_rounds=3 and this epsilon, but these"
    with pytest.raises(outrule.DataError, match=words):
        calibrator.fit(predictions[1:], outcomes[1:])


def test_too_few_data_for_the_guarantee_are_refused_before_any_work(monkeypatch):
    monkeypatch.setattr("outrule.model.fitting.blank_model", None)  # nothing is fitted
    with pytest.raises(outrule.DataError, match=r"needs .* instances .* these count as 500\. Use"):
        private(0).fit(*draw(500, 0))
    heavy = np.ones(500)
    heavy[0] = 500.0
    with pytest.raises(outrule.DataError, match="but these count as 2"):
        private(0).fit(*draw(500, 0), sample_weight=heavy)


def test_a_margin_above_all_that_is_at_stake_is_said():
    few = outrule.DecisionCalibrator(outrule.BestAction(), [outrule.Fixed(1)]).fit(*draw(5, 0))
    model = few.model_
    assert model.epsilon > max(abs(model.rule_values))
    assert "With such a margin a pass proves nothing: fit on more data" in model.caution
    assert few.fit(*draw(500, 0)).model_.caution is None
    asked = outrule.DecisionCalibrator(outrule.BestAction(), [outrule.Fixed(1)], epsilon=1.0)
    assert asked.fit(*draw(5, 0)).model_.vacuous is None


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_privacy_of_the_users_own_is_called_a_heuristic():
    model = private(0, privacy=1e5).fit(*draw(500, 0)).model_
    assert "PrivateReuse with privacy=100000 is a heuristic" in model.heuristic
    assert model.caution == f"{model.unfinished} {model.heuristic}"
    page = outrule.report(outrule.summarise(model, outrule.Instances.from_arrays(*draw(50, 1))))
    assert model.heuristic in page


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_rounds": None}, "'max_rounds' .* must be given for PrivateReuse: its noise depends"),
        ({"start": outrule.CrossFit}, "'start' .* must be None for PrivateReuse: any other has s"),
        ({"start": outrule.Isotonic()}, "'start' argument of DecisionCalibrator must be None"),
        ({"rivals": ("plain", "isotonic")}, r"'rivals' .* must be \('plain',\) or \(\) for Priva"),
    ],
)
def test_private_reuse_refuses_what_has_seen_the_data_without_noise(settings, message):
    given = {"check": outrule.PrivateReuse(privacy=5.0), "max_rounds": 5} | settings
    with pytest.raises(outrule.ArgumentError, match=message):
        algorithm_one(outrule.BestAction(), [outrule.Fixed(0)], 0.1, **given).fit(*draw(50, 0))


# --- the size of fresh batches -------------------------------------------------------------------


def test_the_batch_of_a_guarantee_is_that_of_the_theory():
    check = outrule.FreshBatches.for_guarantee(outrule.TopK(2), 7, 0.3, n_items=5, delta=0.1)
    tau, n_tests = 0.15, 7 + 2 + 1
    rounds = 1 + math.ceil(16 / 3 * 2 * 5 / tau**2)
    size = {"k": 2, "tolerance": tau, "n_tests": n_tests, "rounds": rounds, "delta": 0.1}
    assert check == outrule.FreshBatches(theory.batch_size(**size, margin=0.25), alert=0.75)
    assert check.size == math.ceil(32 * 2**2 * math.log(2 * rounds * n_tests / 0.1) / tau**2)


@pytest.mark.parametrize("step", [outrule.FixedStep(), outrule.LineSearch()])
def test_batches_of_that_size_keep_the_guarantee_on_the_population(step):
    """Two contexts and three arms of known value: all true violations are computed exactly."""
    predictions = np.array([[0.8, 0.3, 0.2], [0.6, 0.5, 0.4]])
    truth = np.array([[0.2, 0.5, 0.6], [0.4, 0.6, 0.1]])
    rules, epsilon = [outrule.Fixed(j) for j in range(3)], 0.5
    check = outrule.FreshBatches.for_guarantee(outrule.BestAction(), 3, epsilon, n_items=3)
    settings = {"check": check, "step": step, "start": None, "rivals": ("plain",)}
    for seed in range(5):
        generator = np.random.default_rng(seed)
        context = generator.integers(0, 2, 12 * check.size)
        outcomes = (generator.random((len(context), 3)) < truth[context]).astype(float)
        fitted = outrule.DecisionCalibrator(outrule.BestAction(), rules, epsilon, **settings)
        fitted.fit(predictions[context], outcomes)
        assert fitted.status_ == "converged"
        calibrated = fitted.predict(predictions)
        best, rows = calibrated.argmax(axis=1), np.arange(2)
        excess = truth - calibrated
        violations = [*excess.mean(axis=0), excess[:, 0].mean(), excess[rows, best].mean()]
        assert np.abs(violations).max() <= fitted.tolerance_
        for row in fitted.history_[:-1]:  # only true violations are corrected
            assert abs(row.violation) > 0.75 * fitted.tolerance_
        assert truth[rows, best].mean() >= truth.mean(axis=0).max() - epsilon


def test_a_guarantee_in_other_units_needs_the_same_batch():
    made = outrule.FreshBatches.for_guarantee
    one = made(outrule.TopK(2), 7, 0.3, n_items=5)
    assert made(2, 7, 0.3, n_items=5) == one
    assert made(2, 7, 30.0, n_items=5, value_range=(-50, 50)) == one
    assert made(outrule.Matching.complete(4), 7, 0.3, n_items=6).size > one.size


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
        *(
            (
                lambda change=change: outrule.FreshBatches.for_guarantee(
                    **{"problem": 1, "n_rules": 3, "epsilon": 0.5, "n_items": 3} | change
                ),
                f"'{name}' argument of FreshBatches.for_guarantee must be {words}",
            )
            for name, words, change in (
                ("epsilon", r"a float in \(0, 1\]", {"epsilon": 2}),
                ("epsilon", r"a float in \(0, 8\]", {"epsilon": 9, "value_range": (-4, 4)}),
                ("problem", "an int of at least 1", {"problem": 0}),
                ("problem", "an int of at least 1", {"problem": "best action"}),
                ("n_rules", "an int of at least 1", {"n_rules": 0}),
                ("n_items", "an int of at least 1", {"n_items": 2.5}),
                ("delta", r"a float in \(0, 1\)", {"delta": 0}),
            )
        ),
        (
            lambda: outrule.PrivateReuse(alert=1.0),
            r"must be a float in \(0.5, 1\). Got 1.0 instead",
        ),
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
