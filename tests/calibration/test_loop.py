"""The loop: what it records, when it stops, and what must not change it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.exceptions import ConvergenceWarning

import outrule
import strategies
from letter import algorithm_one
from outrule.calibration.audit import audit, prepare, squared_error
from outrule.calibration.patches import replay
from outrule.calibration.sources import SameData

STEPS = [outrule.FixedStep(), outrule.LineSearch()]
any_case = st.one_of(strategies.cases(), strategies.simplex_cases())
quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def draw(n, seed, m=4):
    generator = np.random.default_rng(seed)
    predictions = generator.random((n, m))
    outcomes = np.clip(
        predictions * np.linspace(0.3, 1, m) + generator.normal(0, 0.1, (n, m)), 0, 1
    )
    return predictions, outcomes


def calibrator(epsilon=0.05, **settings):
    rules = outrule.multipliers(4, limit=20)
    return algorithm_one(outrule.BestAction(), rules, epsilon, **settings)


def fit(case, step, epsilon=0.1, **kinds):
    return algorithm_one(case.problem, case.rules, epsilon, step=step, **kinds).fit(
        case.predictions, case.outcomes
    )


@given(any_case, st.sampled_from(STEPS))
@settings(max_examples=60)
def test_history_is_the_audit_of_the_replayed_patches(case, step):
    fitted = fit(case, step)
    instances = outrule.Instances.from_arrays(case.predictions, case.outcomes)
    part = prepare(instances, case.problem, case.rules)
    names = [*(rule.name for rule in case.rules), "optimiser"]
    # The loop's own state: on a box its integer residuals are moved, not rounded anew.
    source = SameData(
        prepare(instances, case.problem, case.rules), instances.prediction, case.problem
    )
    for done, row in enumerate(fitted.history_[:5]):
        current = replay(
            fitted.patches_[:done], case.rules, case.problem, instances, instances.prediction
        )
        found = source.next_audit(fitted.patches_[:done])
        assert source.prediction.tolist() == current.tolist()
        plain = audit(part, current, case.problem)
        drift = 0 if case.problem.simplex else 1e-9
        np.testing.assert_allclose(found.violations, plain.violations, rtol=0, atol=drift)
        assert found.sizes.tolist() == plain.sizes.tolist()
        assert found.optimiser.tolist() == plain.optimiser.tolist()
        # That nothing is flagged is said of the predictions themselves.
        seen = found if done < len(fitted.patches_) else plain
        worst = int(np.argmax(np.abs(seen.violations)))
        assert row.round == done
        assert row.violation == seen.violations[worst]
        assert row.squared_error == found.squared_error == plain.squared_error
        assert row.n == len(case.predictions)
        if done < len(fitted.patches_):
            assert (row.test, row.step) == (names[worst], fitted.patches_[done].step)
            source.apply(fitted.patches_[done], found)
        else:
            assert (row.test, row.step) == (None, 0.0)
    assert len(fitted.history_) == len(fitted.patches_) + 1
    assert fitted.status_ == "converged"


@given(any_case, st.sampled_from(STEPS))
@settings(max_examples=60)
def test_the_squared_error_never_rises_on_the_data_of_the_loop(case, step):
    errors = [row.squared_error for row in fit(case, step).history_]
    assert all(after < before for before, after in pairwise(errors))


@given(any_case, st.sampled_from(STEPS), st.data())
@settings(max_examples=60)
def test_the_order_of_instances_changes_no_patch(case, step, data):
    order = np.array(data.draw(st.permutations(range(len(case.predictions)))))
    shuffled = case._replace(predictions=case.predictions[order], outcomes=case.outcomes[order])
    one, other = fit(case, step), fit(shuffled, step)
    assert one.patches_ == other.patches_
    assert one.history_ == other.history_
    np.testing.assert_array_equal(one.rule_values_, other.rule_values_)


@quiet
def test_the_loop_stops_at_max_rounds_and_says_so():
    fitted = calibrator(max_rounds=2).fit(*draw(200, 0))
    assert fitted.status_ == outrule.Status.MAX_ROUNDS
    assert len(fitted.patches_) == len(fitted.history_) == 2


def test_running_out_of_rounds_is_a_warning():
    with pytest.warns(ConvergenceWarning, match=r"status 'max_rounds' after 1 round.*Try a larger"):
        calibrator(max_rounds=1).fit(*draw(200, 0))


# --- fresh batches -------------------------------------------------------------------------------


def test_fresh_batches_stop_at_the_first_batch_without_a_flag():
    fitted = calibrator(0.2, check=outrule.FreshBatches(200, alert=1)).fit(*draw(6000, 0))
    assert fitted.status_ == "converged"
    assert [row.test is None for row in fitted.history_] == [False] * len(fitted.patches_) + [True]
    assert {row.n for row in fitted.history_} == {200}


def test_fresh_batches_go_on_to_the_end_without_early_exit_and_do_not_warn():
    check = outrule.FreshBatches(200, alert=1, early_exit=False)
    fitted = calibrator(0.2, check=check).fit(*draw(6100, 0))
    assert fitted.status_ == "out_of_data"
    assert len(fitted.history_) == 30  # the last 100 instances are no whole batch
    flagged = [row for row in fitted.history_ if row.test is not None]
    assert len(flagged) == len(fitted.patches_) < 30
    early = calibrator(0.2, check=outrule.FreshBatches(200, alert=1)).fit(*draw(6100, 0))
    assert fitted.patches_[: len(early.patches_)] == early.patches_


def test_running_out_of_fresh_data_is_a_warning():
    with pytest.warns(ConvergenceWarning, match="status 'out_of_data' after 3 rounds"):
        fitted = calibrator(0.01, check=outrule.FreshBatches(30)).fit(*draw(100, 0))
    assert fitted.status_ == "out_of_data"


def test_a_batch_larger_than_the_data_is_refused():
    with pytest.raises(outrule.ArgumentError, match=r"'size' .* at most 50, the number.* Got 51"):
        calibrator(check=outrule.FreshBatches(51)).fit(*draw(50, 0))


@quiet
def test_one_batch_of_all_data_is_one_round_on_them():
    predictions, outcomes = draw(80, 0)
    fresh = calibrator(check=outrule.FreshBatches(80, alert=1)).fit(predictions, outcomes)
    reuse = calibrator(max_rounds=1).fit(predictions, outcomes)
    assert fresh.history_ == reuse.history_


@quiet
def test_the_values_of_rules_are_means_over_the_batches_seen():
    predictions, outcomes = draw(100, 0)
    weights = np.linspace(0.5, 2, 100)
    check = outrule.FreshBatches(30, early_exit=False)
    fitted = calibrator(check=check).fit(predictions, outcomes, sample_weight=weights)
    seen = outrule.Instances.from_arrays(predictions[:90], outcomes[:90], weight=weights[:90])
    expected = outrule.metrics.values_of_rules(fitted.problem, fitted.rules, seen)
    np.testing.assert_allclose(fitted.rule_values_, list(expected.values()), atol=1e-9)
    assert fitted.best_rule_ == np.argmax(list(expected.values()))


def test_a_batch_without_any_weight_is_refused():
    weights = np.r_[np.zeros(20), np.ones(80)]
    check = outrule.FreshBatches(20)
    with pytest.raises(outrule.DataError, match=r"all 20 instances of a batch.* have weight zero"):
        calibrator(check=check).fit(*draw(100, 0), sample_weight=weights)


# --- partial_fit ---------------------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS, ids=repr)
@pytest.mark.parametrize("alert", [0.5, 1.0])
def test_partial_fit_is_one_round_on_one_fresh_batch(step, alert):
    predictions, outcomes = draw(600, 3)
    check = outrule.FreshBatches(50, alert=alert, early_exit=False)
    whole = calibrator(0.1, check=check, step=step).fit(predictions, outcomes)
    parts = calibrator(0.1, check=check, step=step)
    for first in range(0, 600, 50):
        parts.partial_fit(predictions[first : first + 50], outcomes[first : first + 50])
    assert parts.patches_ == whole.patches_
    assert parts.history_ == whole.history_
    np.testing.assert_allclose(parts.rule_values_, whole.rule_values_, rtol=1e-12)
    assert parts.best_rule_ == whole.best_rule_
    assert (parts.predict(predictions) == whole.predict(predictions)).all()


def test_partial_fit_says_whether_its_batch_was_flagged():
    predictions, outcomes = draw(600, 3)
    fitted = calibrator(1.0).partial_fit(predictions, outcomes)
    assert fitted.status_ == "converged"
    fitted = calibrator(0.01).partial_fit(predictions, outcomes)
    assert fitted.status_ == "max_rounds"
    assert len(fitted.patches_) == 1


def test_partial_fit_goes_on_from_fit():
    predictions, outcomes = draw(400, 1)
    fitted = calibrator(0.1).fit(predictions[:300], outcomes[:300])
    patches, values = list(fitted.patches_), fitted.rule_values_
    rounds = len(fitted.history_)
    fitted.partial_fit(predictions[300:], outcomes[300:])
    assert fitted.patches_[: len(patches)] == patches
    assert fitted.history_[-1].round == rounds
    assert fitted.history_[-1].n == 100
    later = outrule.metrics.values_of_rules(
        fitted.problem, fitted.rules, predictions[300:], outcomes[300:]
    )
    expected = 0.75 * values + 0.25 * np.array(list(later.values()))
    np.testing.assert_allclose(fitted.rule_values_, expected, atol=1e-12)


def test_partial_fit_goes_on_from_a_saved_model(tmp_path):
    predictions, outcomes = draw(400, 1)
    fitted = calibrator(0.1).fit(predictions[:300], outcomes[:300])
    fitted.save(tmp_path / "model.json")
    loaded = outrule.load(tmp_path / "model.json")
    for one in (fitted, loaded):
        one.partial_fit(predictions[300:], outcomes[300:])
    assert fitted.patches_ == loaded.patches_
    np.testing.assert_array_equal(fitted.rule_values_, loaded.rule_values_)


def test_fit_forgets_what_partial_fit_learned():
    predictions, outcomes = draw(300, 1)
    fresh = calibrator(0.1).fit(predictions, outcomes)
    again = calibrator(0.1).partial_fit(predictions[::-1], outcomes[::-1])
    again.fit(predictions, outcomes)
    assert again.patches_ == fresh.patches_
    assert again.history_ == fresh.history_


@pytest.mark.parametrize("check", [outrule.PrivateReuse(), outrule.Reuse(validation=0.2)])
def test_partial_fit_refuses_checks_that_need_all_data_at_once(check):
    with pytest.raises(outrule.ArgumentError, match=r"'check' argument .* for partial_fit"):
        calibrator(check=check, max_rounds=3).partial_fit(*draw(50, 0))


# --- the validation part -------------------------------------------------------------------------


def noisy(n, seed, m=4):
    """Nothing to learn: predictions are the means, outcomes are coin flips."""
    generator = np.random.default_rng(seed)
    predictions = generator.uniform(0.3, 0.7, (n, m))
    return predictions, (generator.random((n, m)) < predictions).astype(float)


@pytest.mark.parametrize("seed", range(5))
def test_validation_stops_a_loop_that_only_learns_noise(seed):
    check = outrule.Reuse(alert=0.1, validation=0.3, patience=3)
    fitted = calibrator(0.02, check=check, random_state=seed).fit(*noisy(200, seed))
    assert fitted.status_ in ("validation", "converged")
    assert len(fitted.patches_) <= len(fitted.history_)
    if fitted.status_ == "validation":
        assert len(fitted.history_) - len(fitted.patches_) == 3
    plain = calibrator(0.02, check=outrule.Reuse(alert=0.1)).fit(*noisy(200, seed))
    assert len(fitted.patches_) < len(plain.patches_)


def test_validation_goes_back_to_the_round_of_lowest_error():
    predictions, outcomes = noisy(300, 7)
    outcomes[:, 0] *= 0.5  # something real to learn, then noise
    check = outrule.Reuse(alert=0.05, validation=0.4, patience=4)
    fitted = calibrator(0.02, check=check, random_state=1).fit(predictions, outcomes)
    assert fitted.status_ == "validation"
    instances = outrule.Instances.from_arrays(predictions, outcomes)
    # The part that was set aside is the one whose instances the loop did not see: 120 of 300.
    assert {row.n for row in fitted.history_} == {180}
    aside = np.isin(np.arange(300), np.random.default_rng(1).permutation(300)[:120])
    part = prepare(instances.take(np.flatnonzero(aside)), fitted.problem, fitted.rules)
    start = part.instances.prediction
    errors = [
        squared_error(
            part, replay(fitted.patches_[:t], fitted.rules, fitted.problem, part.instances, start)
        )
        for t in range(len(fitted.patches_) + 1)
    ]
    assert 0 < len(fitted.patches_) == int(np.argmin(errors))


def test_validation_keeps_every_instance_with_its_own_start():
    predictions, outcomes = draw(100, 0)
    start = np.clip(outcomes + 0.01, 0, 1)  # so near that no instance has another's start
    instances = outrule.Instances.from_arrays(predictions, outcomes, start=start)
    check = outrule.Reuse(validation=0.4)
    fitted = calibrator(0.5, check=check, random_state=2).fit(instances)
    assert fitted.patches_ == []
    assert fitted.history_[0].squared_error <= 4 * 0.01**2 + 1e-9
    assert fitted.history_[0].n == 60


def test_validation_sets_whole_clusters_aside():
    predictions, outcomes = draw(100, 0)
    clusters = np.repeat(np.arange(5), [60, 10, 10, 10, 10])
    instances = outrule.Instances.from_arrays(predictions, outcomes, cluster=clusters)
    sizes = set()
    for seed in range(20):
        check = outrule.Reuse(validation=0.2)
        fitted = calibrator(0.1, check=check, random_state=seed).fit(instances)
        sizes.add(fitted.history_[0].n)
    assert sizes == {40, 90}


def test_validation_that_leaves_nothing_to_fit_on_is_refused():
    with pytest.raises(outrule.DataError, match=r"leaves nothing to fit on.* is 2"):
        calibrator(check=outrule.Reuse(validation=0.9)).fit(*draw(2, 0))


def test_the_fixed_step_at_a_low_alert_needs_max_rounds():
    low = calibrator(0.2, check=outrule.Reuse(alert=0.2), step=outrule.FixedStep())
    with pytest.raises(outrule.ArgumentError, match=r"'max_rounds' .* given for FixedStep"):
        low.fit(*draw(50, 0))
    low.set_params(max_rounds=500).fit(*draw(50, 0))
