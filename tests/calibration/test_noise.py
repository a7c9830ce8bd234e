"""The noise of violations, and the tolerance that follows from it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import outrule
import reference
import strategies
from letter import algorithm_one
from outrule.calibration.audit import prepare
from outrule.calibration.noise import NOISE, standard_errors
from outrule.words import round_up

any_case = st.one_of(strategies.cases(), strategies.simplex_cases())


def draw(n, seed=0, m=4, noise=0.1):
    generator = np.random.default_rng(seed)
    predictions = generator.random((n, m))
    spread = generator.normal(0, noise, (n, m))
    return predictions, np.clip(predictions * np.linspace(0.3, 1, m) + spread, 0, 1)


def errors(case, **columns):
    instances = outrule.Instances.from_arrays(case.predictions, case.outcomes, **columns)
    part = prepare(instances, case.problem, case.rules)
    return standard_errors(part, instances.prediction, case.problem)


def by_hand(case, weight=None, cluster=None):
    """From the marks of every test, one instance at a time."""
    instances = outrule.Instances.from_arrays(case.predictions, case.outcomes)
    layout = case.problem.lay(instances)
    tests = [rule.decide(instances, case.problem, layout) for rule in case.rules]
    tests.append(case.problem.pick(instances.prediction, layout))
    difference = (case.outcomes - case.predictions).tolist()
    sums = [
        [sum(difference[i][j] for j in row if j >= 0) for i, row in enumerate(picks.tolist())]
        for picks in tests
    ]
    return [reference.standard_error(one, weight, cluster) for one in sums]


@given(any_case, st.data())
@settings(max_examples=60)
def test_the_noise_of_every_test_is_that_of_its_sums_over_observations(case, data):
    n = len(case.outcomes)
    some = st.lists(strategies.weight, min_size=n, max_size=n)
    weight = data.draw(st.one_of(st.none(), some))
    codes = st.lists(st.integers(0, 4), min_size=n, max_size=n)
    cluster = data.draw(st.one_of(st.none(), codes.filter(lambda found: len(set(found)) > 1)))
    found = errors(case, weight=weight, cluster=cluster)
    np.testing.assert_allclose(found, by_hand(case, weight, cluster), rtol=1e-6, atol=1e-9)


def test_the_noise_is_the_same_for_any_number_of_threads():
    predictions, outcomes = draw(3_000, m=6)
    rules = outrule.multipliers(6, limit=300)
    case = strategies.Case(outrule.TopK(2), rules, predictions, outcomes)
    found = []
    for n_jobs in (1, 2, 5):
        with outrule.threads.using(n_jobs):
            found.append(errors(case).tolist())
    assert found[0] == found[1] == found[2]


def test_half_the_noise_needs_four_times_the_data():
    rules = outrule.multipliers(4, limit=20)
    cases = [strategies.Case(outrule.BestAction(), rules, *draw(n)) for n in (1_000, 4_000)]
    few, many = (errors(case).max() for case in cases)
    assert many == pytest.approx(few / 2, rel=0.1)


def test_clusters_that_repeat_an_instance_are_one_observation():
    predictions, outcomes = draw(100)
    case = strategies.Case(outrule.BestAction(), (outrule.Fixed(0),), predictions, outcomes)
    again = case._replace(
        predictions=np.repeat(predictions, 7, axis=0), outcomes=np.repeat(outcomes, 7, axis=0)
    )
    rows = np.repeat(np.arange(100), 7)
    np.testing.assert_allclose(errors(again, cluster=rows), errors(case), rtol=1e-9)
    assert errors(again).max() < 0.5 * errors(case).max()


def test_instances_of_weight_zero_are_no_observations():
    predictions, outcomes = draw(200)
    weight = np.arange(200) % 2
    rules = [outrule.Fixed(0), outrule.Fixed(1)]
    for noise in (outcomes, predictions):  # of the second there is none
        whole = outrule.Instances.from_arrays(predictions, noise, weight=weight)
        half = outrule.Instances.from_arrays(predictions[1::2], noise[1::2])
        found, expected = (
            algorithm_one(outrule.BestAction(), rules).fit(data).tolerance_
            for data in (whole, half)
        )
        assert found == expected


# --- the tolerance -------------------------------------------------------------------------------


def test_the_tolerance_is_the_noise_of_the_noisiest_test_to_two_digits():
    predictions, outcomes = draw(500)
    fitted = algorithm_one(outrule.BestAction(), outrule.multipliers(4, limit=20))
    fitted.fit(predictions, outcomes)
    case = strategies.Case(outrule.BestAction(), fitted.rules, predictions, outcomes)
    largest = NOISE * errors(case).max()
    assert fitted.tolerance_ == round_up(largest)
    assert largest <= fitted.tolerance_ < 1.1 * largest
    assert (fitted.epsilon, fitted.model_.settings.epsilon) == (None, None)
    assert fitted.model_.epsilon == fitted.model_.margin == 2 * fitted.tolerance_
    assert fitted.model_.reached == (
        f"reached: within {2 * fitted.tolerance_:g} of the best rule on the training data "
        f"(tolerance {fitted.tolerance_:g}: at least {NOISE:g} standard error of the noisiest test)"
    )


def test_the_guarantee_of_an_approximate_optimiser_follows_from_its_ratio():
    problem = outrule.GreedyMatching([(0, 1), (2, 3), (0, 2), (1, 3)])
    fitted = algorithm_one(problem, outrule.multipliers(4, limit=20)).fit(*draw(500))
    assert fitted.model_.epsilon == pytest.approx(1.5 * fitted.tolerance_)
    assert " of 0.5 times the best rule on " in fitted.model_.reached


def test_a_single_observation_supports_nothing():
    for cluster in ([3], [3, 3]):
        instances = outrule.Instances.from_arrays(*draw(len(cluster)), cluster=cluster)
        fitted = algorithm_one(outrule.TopK(2), [outrule.Fixed(0)]).fit(instances)
        assert (fitted.tolerance_, fitted.patches_) == (2.0, [])


def test_outcomes_without_noise_are_known_to_what_one_instance_can_change():
    predictions = np.random.default_rng(0).random((50, 3)) / 2
    fitted = algorithm_one(outrule.BestAction(), [outrule.Fixed(j) for j in range(3)])
    fitted.fit(predictions, predictions + 0.25)
    assert fitted.tolerance_ == 2 / 50
    np.testing.assert_allclose(fitted.predict(predictions), predictions + 0.25, atol=1e-7)


def test_fresh_batches_have_the_noise_of_the_first_batch():
    predictions, outcomes = draw(1_000)
    rules = outrule.multipliers(4, limit=20)
    case = strategies.Case(outrule.BestAction(), rules, predictions[:250], outcomes[:250])
    expected = round_up(NOISE * errors(case).max())
    fresh = algorithm_one(*case[:2], check=outrule.FreshBatches(250), max_rounds=1)
    batchwise = algorithm_one(*case[:2])
    with pytest.warns(match="the loop stopped"):
        fresh.fit(predictions, outcomes)
    for first in (0, 250):
        batch = slice(first, first + 250)
        batchwise.partial_fit(predictions[batch], outcomes[batch] * (0.5 if first else 1.0))
    assert fresh.tolerance_ == batchwise.tolerance_ == expected
    assert fresh.model_.reached.startswith(f"not reached: within {2 * expected:g} of the best rule")
    assert fresh.model_.reached.endswith(", stopped with status 'max_rounds'")


def test_with_a_validation_part_only_the_rest_counts():
    predictions, outcomes = draw(1_000)
    halved = outrule.Reuse(validation=0.75)
    one, other = (
        algorithm_one(outrule.BestAction(), outrule.multipliers(4, limit=20), check=check)
        for check in (outrule.Reuse(), halved)
    )
    ratio = other.fit(predictions, outcomes).tolerance_ / one.fit(predictions, outcomes).tolerance_
    assert ratio == pytest.approx(2, rel=0.25)


def test_the_default_goes_on_until_the_violations_are_noise():
    predictions, outcomes = draw(4_000)
    rules = outrule.multipliers(4, limit=20)
    fitted = outrule.DecisionCalibrator(outrule.BestAction(), rules).fit(predictions, outcomes)
    assert fitted.status_ == "converged"
    assert fitted.model_.epsilon < 0.02
    assert abs(fitted.history_[-1].violation) <= fitted.tolerance_
