"""Fits, certificates and exploration with outcomes of chosen items only."""

import copy
import json
import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import outrule
from outrule import DataError, Instances, threads
from outrule.calibration.log_bases import expected, fit_base
from outrule.model import fitting
from outrule.proof.confidence import Observations, Range
from outrule.proof.logged import Log
from sealing import reseal

N_CONTEXTS, N_ACTIONS = 6, 3
MEAN = np.random.default_rng(3).uniform(0.1, 0.9, (N_CONTEXTS, N_ACTIONS))
ERROR = np.random.default_rng(4).normal(0, 0.1, MEAN.shape) + np.array([0.3, 0.1, -0.3])
PREDICTION = np.clip(MEAN + ERROR, 0, 1)
RULES = (*(outrule.Fixed(action) for action in range(N_ACTIONS)), outrule.Multiplier([1, 0.5, 2]))


def draw(n, seed, odds=None, **more):
    """Instances of a world whose means are known, as a log shows them."""
    generator = np.random.default_rng(seed)
    context = generator.integers(N_CONTEXTS, size=n)
    outcome = (generator.random((n, N_ACTIONS)) < MEAN[context]).astype(float)
    score = np.exp(2 * outcome + generator.normal(size=outcome.shape))  # knows more than we do
    q = 0.05 + 0.85 * score / score.sum(axis=1, keepdims=True) if odds is None else odds
    q = np.broadcast_to(q, outcome.shape)
    chosen = (generator.random((n, 1)) < q.cumsum(axis=1)).argmax(axis=1)
    seen = np.arange(N_ACTIONS) == chosen[:, None]
    seen_outcome = np.where(seen, outcome, np.nan)
    log = Instances.from_arrays(PREDICTION[context], seen_outcome, propensity=q, **more)
    return log, Instances.from_arrays(PREDICTION[context], outcome, **more)


def true_values(calibrator):
    """Of the calibrated decision and of every rule."""
    chosen = calibrator.decide(PREDICTION)
    problem, instances = calibrator.problem, Instances.from_arrays(PREDICTION)
    layout = problem.lay(instances)
    rules = [rule.decide(instances, problem, layout)[:, 0] for rule in calibrator.rules]
    rows = np.arange(N_CONTEXTS)
    return MEAN[chosen].mean(), np.array([MEAN[rows, rule].mean() for rule in rules])


@pytest.fixture(scope="module")
def calibrator():
    return outrule.DecisionCalibrator(outrule.BestAction(), RULES).fit(draw(20_000, 0)[0])


def test_all_of_a_certificate_has_the_threads_of_the_calibrator(calibrator, monkeypatch):
    pick, seen = outrule.BestAction.pick_on_threads, []

    def picked(*given):
        seen.append(threads.n_allowed())
        return pick(*given)

    monkeypatch.setattr(outrule.BestAction, "pick_on_threads", picked)
    one = copy.copy(calibrator)
    one.n_jobs = 1
    outrule.certify(one, draw(500, 1)[0])
    assert set(seen) == {1}


def test_a_fit_on_a_log_decides_as_well_as_the_best_rule(calibrator):
    full = outrule.DecisionCalibrator(outrule.BestAction(), RULES).fit(draw(20_000, 0)[1])
    ours, rules = true_values(calibrator)
    assert ours >= rules.max() - 2 * calibrator.tolerance_
    assert ours >= true_values(full)[0] - 0.03
    assert ours > MEAN[np.arange(N_CONTEXTS), PREDICTION.argmax(axis=1)].mean() + 0.05
    found = outrule.metrics.violations(
        outrule.BestAction(), RULES, PREDICTION, MEAN, calibrated=calibrator.predict(PREDICTION)
    )
    # The tolerance is one standard error: as much again may be due to the draw.
    assert max(map(abs, found.values())) <= 2 * calibrator.tolerance_


def test_rule_values_in_training_are_those_of_the_world(calibrator):
    np.testing.assert_allclose(calibrator.rule_values_, true_values(calibrator)[1], atol=0.04)


def test_who_ignores_the_propensities_believes_the_log(calibrator, monkeypatch):
    log = draw(6_000, 0)[0]
    naive = replace(log, propensity=np.where(log.observed, 1 / 3, np.nan))
    wrong = outrule.DecisionCalibrator(outrule.BestAction(), RULES)
    with pytest.raises(DataError, match="the choices contradict the propensities"):
        wrong.fit(naive)
    monkeypatch.setattr(fitting, "check_chosen", lambda *_: None)
    wrong.fit(naive)
    off = [abs(one.predict(PREDICTION) - MEAN).mean() for one in (calibrator, wrong)]
    assert off[0] < 0.06 < 0.15 < off[1]


def test_propensities_of_one_change_no_bit_of_a_fit():
    full = draw(400, 1)[1]
    certain = replace(full, propensity=np.ones(len(full.prediction)))
    one, other = (
        outrule.DecisionCalibrator(outrule.BestAction(), RULES).fit(data)
        for data in (full, certain)
    )
    assert one.patches_ == other.patches_
    assert one.model_.members[0].patches == other.model_.members[0].patches


@pytest.mark.parametrize(
    "options",
    [
        {"start": None},
        {"start": outrule.Isotonic()},
        {"check": outrule.FreshBatches(1_000)},
        {"check": outrule.Reuse(validation=0.3)},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:the loop stopped")
def test_every_start_and_check_works_on_a_log(options):
    found = outrule.DecisionCalibrator(outrule.BestAction(), RULES, 0.1, **options)
    assert true_values(found.fit(draw(6_000, 0)[0]))[0] > MEAN.max(axis=1).mean() - 0.1


def test_batches_of_a_log_can_follow_each_other():
    found = outrule.DecisionCalibrator(outrule.BestAction(), RULES, 0.05, start=None)
    for seed in range(3):
        found.partial_fit(draw(2_000, seed)[0])
    assert len(found.history_) == 3
    np.testing.assert_allclose(found.rule_values_, true_values(found)[1], atol=0.05)


@pytest.mark.filterwarnings("ignore:the loop stopped")
def test_tiny_propensities_overflow_nothing(monkeypatch):
    monkeypatch.setattr(fitting, "check_chosen", lambda *_: None)  # no log would show so many
    log, _ = draw(200, 0)
    q = np.where(log.observed, 1e-5, np.nan)
    found = outrule.DecisionCalibrator(outrule.BestAction(), RULES).fit(replace(log, propensity=q))
    assert all(np.isfinite(row.squared_error) and row.squared_error > 0 for row in found.history_)
    with pytest.raises(DataError, match="sums would lose precision"):
        outrule.DecisionCalibrator(outrule.BestAction(), RULES).fit(
            replace(log, propensity=q * 1e-5)
        )


def test_a_certificate_on_a_log_says_what_it_is_and_verifies(calibrator):
    log, full = draw(4_000, 7)
    found, known = (outrule.certify(calibrator, data) for data in (log, full))
    assert (found.feedback, known.feedback) == ("logged", "full")
    assert found.oracle is None
    assert 100 < found.effective_n < 4_000
    assert found.gap_lower < known.gap_lower
    assert abs(found.calibrated.mean - known.calibrated.mean) < 0.05
    assert abs(found.squared_error_after - known.squared_error_after) < 0.05
    outrule.verify(found, calibrator, log)
    again = outrule.Certificate.from_json(found.to_json())
    assert again == found
    assert "worth about" in str(found)
    page = outrule.report(outrule.summarise(calibrator, log, found))
    assert f"worth about {found.effective_n:,.0f} instances" in page
    assert f"the heaviest has {100 * found.largest_weight:.2g} % of the weight" in page
    assert "the log could have shown every item compared" in page
    assert "worth about" not in outrule.report(outrule.summarise(calibrator, full, known))


def test_a_log_must_say_what_it_could_never_show(calibrator):
    claim = json.loads(outrule.certify(calibrator, draw(1_000, 7)[0]).to_json())
    claim["unsupported"] = None
    with pytest.raises(DataError, match="unsupported: out of range"):
        outrule.Certificate.from_json(reseal(claim))


def test_what_a_log_could_never_show_is_said_of_items_without_names():
    def read(seed):
        generator = np.random.default_rng(seed)
        scores = generator.random((300, 3))
        outcomes = np.full((300, 3), np.nan)
        outcomes[np.arange(300), generator.integers(1, 3, 300)] = np.arange(300) % 2
        columns = {"trip": np.repeat(np.arange(300), 3) + 300 * seed, "score": scores.ravel()}
        frame = pl.DataFrame(columns | {"done": outcomes.ravel(), "q": [0.0, 0.5, 0.5] * 300})
        roles = {"instance": "trip", "prediction": "score", "outcome": "done", "propensity": "q"}
        return Instances.from_table(frame.fill_nan(None), **roles)

    rule = outrule.Reweight("reversed", "1 - score")
    calibrator = outrule.DecisionCalibrator(outrule.BestAction(), [rule]).fit(read(0))
    found = outrule.certify(calibrator, read(1))
    assert found.unsupported.items == ()
    assert "items per instance by which our decisions and those of" in str(found)


def test_segments_of_a_log_have_bounds_of_their_own_and_verify(calibrator):
    context = np.random.default_rng(9).integers(N_CONTEXTS, size=4_000)  # as draw has it
    log, full = draw(4_000, 9, columns={"night": context % 2})
    found, known = (outrule.certify(calibrator, data, segments=["night"]) for data in (log, full))
    outrule.verify(found, calibrator, log)
    assert [segment.name for segment in found.segments] == ["night = 0", "night = 1"]
    for mine, exact in zip(found.segments, known.segments, strict=True):
        assert mine.n_instances == exact.n_instances
        assert mine.gap_lower < exact.gap
        assert abs(mine.gap - exact.gap) < 0.1
    content = json.loads(found.to_json())
    content["segments"][0]["gap_lower"] += 0.01
    with pytest.raises(outrule.CertificateError, match="gap_lower"):
        outrule.verify(reseal(content), calibrator, log)


@pytest.mark.parametrize(
    ("name", "value"),
    [("effective_n", 3_999.0), ("largest_weight", 0.5), ("feedback", "full"), ("gap_lower", 0.5)],
)
def test_a_changed_certificate_on_a_log_is_caught(calibrator, name, value):
    log, _ = draw(1_000, 8)
    content = json.loads(outrule.certify(calibrator, log).to_json()) | {name: value}
    with pytest.raises(outrule.CertificateError, match=name):
        outrule.verify(reseal(content), calibrator, log)


def test_clusters_weights_and_continuation_verify(calibrator):
    cluster, weight = np.arange(900) // 3, np.tile([0.5, 1.0, 1.5], 300)
    log, _ = draw(900, 9, cluster=cluster, weight=weight)
    first = outrule.certify(calibrator, log.slice(0, 600), max_weight=3)
    outrule.verify(first, calibrator, log.slice(0, 600))
    more = outrule.certify(calibrator, log, previous=first)
    outrule.verify(more, calibrator, log)
    assert more.n_observations == 300


def test_estimates_are_bounded_on_their_side_whatever_the_outcome(calibrator):
    generator = np.random.default_rng(0)
    q = np.broadcast_to([0.001, 0.099, 0.9], (3_000, 3))
    log, _ = draw(3_000, 5, odds=q)
    model, after = calibrator.model_, generator.random(9_000)
    found = Log.of(model, log, model.problem.lay(log).k, after)
    ours, theirs = (np.eye(3, dtype=bool)[generator.integers(3, size=3_000)] for _ in range(2))
    for estimates in (found.worth(ours.ravel()), found.difference(ours.ravel(), theirs.ravel())):
        assert len(estimates.kinds) == 7
        for sides, ends in zip(*estimates, strict=True):
            assert sides.low.min() >= ends.low - 1e-12
            assert sides.high.max() <= ends.high + 1e-12
            assert sides.low.max() > ends.high  # the other side is not clipped


def test_decisions_of_several_items_share_what_their_estimates_may_be_outside_the_range():
    generator = np.random.default_rng(1)
    q, seen = generator.uniform(0.001, 0.2, (2, 500, 4))
    outcome = np.where(seen < q, generator.integers(2, size=q.shape), np.nan)
    log = Instances.from_arrays(generator.random(q.shape), outcome, propensity=q)
    model = outrule.DecisionCalibrator(
        outrule.TopK(2), [outrule.Multiplier([1, 1, 0, 0])], epsilon=0.5
    )
    model = model.fit(generator.random((50, 4)), generator.random((50, 4))).model_
    found = Log.of(model, log, 2, log.prediction)
    ours, theirs = (np.tile(marks, 500) for marks in np.array([[1, 1, 0, 0], [0, 0, 1, 1]]) > 0)
    for one, sides in zip(found.kinds, found.difference(ours, theirs).kinds, strict=True):
        assert one.apart == (-2 - 2 * one.kappa, 2 + 2 * one.kappa)
        assert sides.low.min() >= one.apart.low - 1e-9
        assert sides.high.max() <= one.apart.high + 1e-9
        # The base of every item: b if it is not seen, b - b odds if it is seen and 0.
        plus, minus = log.prediction.reshape(q.shape) * [1, 1, 0, 0], [0, 0, 1, 1]
        minus = (1 - log.prediction.reshape(q.shape)) * minus
        total = ((plus + minus) * (1 / q - 1)).sum(axis=1)
        share = np.minimum(1, 2 * one.kappa / total)[:, None]
        base = np.where(plus > 0, share * plus, 1 - share * minus)
        slow = np.where(np.isnan(outcome), base, base + (outcome - base) / q)
        np.testing.assert_allclose(sides.low, slow @ [1, 1, -1, -1], atol=1e-9)


def test_all_kinds_of_estimates_have_the_mean_of_the_outcomes(calibrator):
    log, full = draw(20_000, 6)
    found = Log.of(calibrator.model_, log, 1, calibrator.predict(log).ravel())
    ours, theirs = (np.tile(row, 20_000) for row in np.eye(3, dtype=bool)[:2])
    truth = (full.outcome * ours - full.outcome * theirs).sum() / 20_000
    for sides in found.difference(ours, theirs).kinds:
        for side in sides:
            assert abs(side.mean() - truth) < 4 * side.std() / np.sqrt(20_000)


def test_a_rival_that_decides_the_same_is_as_near_as_with_all_outcomes(calibrator):
    log, full = draw(2_000, 14)
    found, known = (outrule.certify(calibrator, data) for data in (log, full))
    marks = calibrator.decide(log).ravel()
    log_of = Log.of(calibrator.model_, log, 1, calibrator.predict(log).ravel())
    same = Observations.from_instances(log).bets(log_of.difference(marks, marks), Range(-1, 1))
    exact = Observations.from_instances(full).bets(np.zeros(2_000), Range(-1, 1))
    assert same.lower(0.05) == pytest.approx(exact.lower(0.05), rel=0.01)
    assert found.gap_lower < known.gap_lower


def test_what_a_log_shows_seldom_is_expected_to_be_worth_less(calibrator):
    base = calibrator.model_.log_base
    rare, often = (expected(base, np.array([0.5]), np.array([q]), (0, 1)) for q in (0.05, 0.9))
    assert rare < 0.4 < 0.5 < often
    same = expected(base, np.array([0.0]), np.array([0.9]), (-1, 1))  # 0 is the middle
    np.testing.assert_allclose(same, 2 * often - 1)
    assert fit_base(draw(100, 0)[1], np.full(300, 0.5)) is None
    certain = replace(draw(100, 0)[1], propensity=np.ones(300))
    assert fit_base(certain, np.full(300, 0.5)) is None


def test_a_choice_that_knows_nothing_leaves_expectations_as_they_are():
    generator = np.random.default_rng(0)
    q = generator.dirichlet(np.ones(3), size=20_000)
    prediction = generator.random((20_000, 3))
    seen = (generator.random((20_000, 1)) < q.cumsum(axis=1)).argmax(axis=1)
    outcome = (generator.random((20_000, 3)) < prediction) * 1.0
    outcome[np.arange(3) != seen[:, None]] = np.nan
    log = Instances.from_arrays(prediction, outcome, propensity=q)
    found = fit_base(log, prediction.ravel())
    shown = expected(found, prediction.ravel(), q.ravel(), (0, 1))
    assert np.abs(shown - prediction.ravel()).mean() < 0.03


@pytest.mark.parametrize("n_logs", [20, pytest.param(60, marks=pytest.mark.slow)])
def test_bounds_on_logs_hold(calibrator, n_logs):
    ours, rules = true_values(calibrator)
    truth = (ours - rules).min()
    held = []
    for seed in range(n_logs):
        found = outrule.certify(calibrator, draw(1_000, 100 + seed)[0])
        lowers = [row.lower for row in found.rules]
        held.append(min(lowers) <= truth)
    assert np.mean(held) >= 0.95


@pytest.mark.parametrize("n_logs", [20, pytest.param(60, marks=pytest.mark.slow)])
def test_bounds_on_logs_hold_at_all_looks_together_and_never_fall(calibrator, n_logs):
    ours, rules = true_values(calibrator)
    truth, wrong = (ours - rules).min(), []
    for seed in range(n_logs):
        log, found, lowers = draw(1_000, 200 + seed)[0], None, []
        for n in (200, 400, 1_000):
            found = outrule.certify(calibrator, log.slice(0, n), previous=found)
            lowers.append([row.lower for row in found.rules])
        assert np.diff(lowers, axis=0).min() >= -1e-9
        wrong.append(min(lowers[-1]) > truth)
    assert np.mean(wrong) <= 0.05
    outrule.verify(found, calibrator, log)


def test_items_that_were_never_shown_get_their_worst_outcome(calibrator):
    generator = np.random.default_rng(0)
    context = generator.integers(N_CONTEXTS, size=2_000)
    outcome = (generator.random((2_000, N_ACTIONS)) < MEAN[context]).astype(float)
    q = np.broadcast_to([0.0, 0.5, 0.5], outcome.shape)
    seen = np.arange(N_ACTIONS) == 1 + generator.integers(2, size=(2_000, 1))
    log = Instances.from_arrays(PREDICTION[context], np.where(seen, outcome, np.nan), propensity=q)
    found = outrule.certify(calibrator, log)
    assert found.verdict == "inconclusive"
    assert found.unsupported.items == ("0",)
    assert found.unsupported.worst > found.margin
    assert "no support: the log could never show" in found.sentence
    assert "'0'" in found.sentence
    assert "explore over the rules" in found.next_step
    assert found.needed is None
    outrule.verify(found, calibrator, log)


def test_unknown_propensities_of_what_was_not_chosen_are_enough(calibrator):
    log, _ = draw(4_000, 11)
    only = replace(log, propensity=np.where(log.observed, log.propensity, np.nan))
    loose, tight = (outrule.certify(calibrator, data) for data in (only, log))
    widths = [one.calibrated.upper - one.calibrated.lower for one in (loose, tight)]
    assert widths[0] > 1.1 * widths[1]
    outrule.verify(loose, calibrator, only)


def test_estimated_propensities_are_said_to_be_a_condition(calibrator):
    log, _ = draw(4_000, 7)
    found = outrule.certify(calibrator, replace(log, propensity_estimated=True))
    assert "if the propensities are right" in str(found)
    outrule.verify(found, calibrator, replace(log, propensity_estimated=True))


def test_little_that_was_observed_is_warned_of(calibrator):
    found = outrule.certify(calibrator, draw(60, 12)[0])
    assert re.search("worth only about [0-9]+ instances", found.warning)


def test_a_saved_model_keeps_what_certificates_on_logs_need(calibrator, tmp_path):
    calibrator.save(tmp_path / "model.json")
    again = outrule.load(tmp_path / "model.json")
    assert again.model_.kappa == calibrator.model_.kappa > 0
    assert again.model_.log_base == calibrator.model_.log_base
    assert len(again.model_.log_base) == 4
    log, _ = draw(500, 13)
    assert outrule.certify(again, log) == outrule.certify(calibrator, log)
