"""The certificate: its verdicts, its bounds against known truth, its baselines, its text."""

import copy
import dataclasses
import json
import runpy
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import outrule
from letter import algorithm_one
from outrule import Certificate, Instances, certify, worlds
from outrule.errors import ArgumentError, DataError
from sealing import reseal

bounds = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "bounds.py"))


def two_actions(seed=0, epsilon=0.1, rules=None):
    """Fitted where the first action is worth 0.6 and the second 0.4, as predicted."""
    generator = np.random.default_rng(seed)
    predictions = np.tile([0.6, 0.4], (1_000, 1))
    outcomes = (generator.random((1_000, 2)) < [0.6, 0.4]).astype(float)
    rules = rules or [outrule.Fixed(1)]
    return algorithm_one(outrule.BestAction(), rules, epsilon).fit(predictions, outcomes)


def held_out(first, second, times=1):
    """Hold-out in which the actions are worth 1 in so many of 100 instances, exactly."""
    outcomes = np.column_stack([np.arange(100) < first, np.arange(100)[::-1] < second])
    return np.tile([0.6, 0.4], (100 * times, 1)), np.tile(outcomes, (times, 1)).astype(float)


@pytest.mark.parametrize(
    ("kind", "n", "n_holdouts", "close"),
    [
        ("instances", 990, 200, 0.020),
        ("clusters", 990, 200, 0.045),
        ("weights", 990, 200, 0.030),
        ("heavy", 990, 200, 0.055),
        ("unequal", 30, 200, 0.5),
        ("unequal", 300, 80, 0.12),  # 15,000 instances each
        pytest.param("unequal", 300, 400, 0.12, marks=pytest.mark.slow),
    ],
)
def test_the_bounds_hold_in_95_of_100_holdouts(kind, n, n_holdouts, close):
    found = bounds["simulate"](n, kind, n_holdouts)
    assert found.gap_held.mean() >= 0.95
    assert found.all_held.mean() >= 0.95
    assert found.rules_distance.mean() < close  # of a range of a difference that is 2 wide


def passes(certificates):
    return np.mean([certificate.verdict == "pass" for certificate in certificates])


@pytest.mark.parametrize("max_weight", [None, 2_000])
def test_rare_large_clusters_that_the_sample_lacks_cannot_make_a_pass(max_weight):
    # The true gap is -0.30; in 6 of 10 of these samples every cluster has one instance.
    certificates = bounds["rare"](1_000, 40, max_weight)
    assert passes(certificates) == 0
    sizes = [certificate.heaviest for certificate in certificates]
    assert set(sizes) == {1.0, 2_000.0}
    if max_weight is None:
        words = str(certificates[sizes.index(1.0)])
        assert "largest possible size (or total weight) of one cluster is declared" in words
        assert "The largest seen is 1; if that is the largest possible, the verdict is" in words


def test_a_model_that_has_become_worse_than_the_plain_optimiser_does_not_pass():
    for lag, n, most in ((0.10, 1_000, 0.0), (0.05, 1_000, 0.05)):
        certificates = bounds["drift"](n, 100, lag)
        assert passes(certificates) <= most
        assert all(certificate.verdicts["rules"] == "pass" for certificate in certificates)
        for certificate in certificates:
            if certificate.verdict == "pass":
                assert certificate.improvement.upper >= 0
                assert certificate.approximate["improvement"].upper >= 0


def test_being_significantly_worse_than_plain_within_the_margin_is_a_fail():
    certificate = bounds["drift"](10_000, 1, 0.04)[0]
    assert certificate.gap_lower < -0.03
    assert certificate.improvement.upper < 0
    assert certificate.verdicts == {"rules": "pass", "plain": "fail", "isotonic": "pass"}
    words = "the plain optimiser on the original predictions is better than the plain optimiser on"
    assert words in str(certificate)


def test_every_other_bound_covers_the_truth_as_well():
    world = bounds["DiscreteWorld"].make(seed=0)
    calibrator = bounds["fitted"](world)
    rows = np.arange(len(world.chance))
    plain = world.chance @ world.mean[rows, world.prediction.argmax(axis=1)]
    calibrated = world.chance @ world.mean[calibrator.decide(world.prediction)]
    held = []
    for seed in range(100):
        instances = world.draw(990, "clusters", np.random.default_rng([7, seed]))
        certificate = certify(calibrator, instances, max_weight=5)
        pairs = (
            (certificate.plain, plain),
            (certificate.calibrated, calibrated),
            (certificate.improvement, calibrated - plain),
        )
        held += [estimate.lower <= truth <= estimate.upper for estimate, truth in pairs]
    assert np.mean(held) >= 0.95


def test_values_far_from_zero_keep_their_bounds_when_clusters_differ_in_size():
    # Values in [100, 101]: the share of a cluster must not be taken for a spread of its value.
    generator = np.random.default_rng(0)
    sizes = np.resize([1, 9], 200)
    group = np.repeat(np.arange(200), sizes)

    def draw():
        value = 100 + generator.random((200, 2))[group]
        return Instances.from_arrays(
            np.full(value.shape, 100.5), value, cluster=group, value_range=(100, 101)
        )

    calibrator = algorithm_one(outrule.BestAction(), [outrule.Fixed(1)], 0.5)
    certificate = certify(calibrator.fit(draw()), draw(), max_weight=9)
    assert certificate.plain.lower <= 100.5 <= certificate.plain.upper
    assert certificate.plain.upper - certificate.plain.lower < 1


def test_a_clear_lead_passes_and_a_clear_lag_fails():
    calibrator = two_actions()
    assert certify(calibrator, *held_out(60, 40, times=10)).verdict == "pass"
    lag = certify(calibrator, *held_out(20, 80, times=10))
    assert lag.verdict == "fail"
    assert lag.gap == pytest.approx(-0.6)
    assert lag.rules[0].difference.upper < -lag.margin
    assert lag.needed is None


def test_a_narrow_lead_on_little_data_is_inconclusive_and_says_what_would_decide_it():
    certificate = certify(two_actions(), *held_out(52, 48))
    assert certificate.verdict == "inconclusive"
    assert certificate.verdicts == {"rules": "inconclusive", "plain": "pass", "isotonic": "pass"}
    assert certificate.needed == certificate.n_observations + certificate.more
    words = str(certificate)
    assert f"about {-(-certificate.more // 10) * 10} more instances would decide it" in words
    enough = float(words.split("accept a margin of ")[1].removesuffix("."))
    assert certificate.margin < -certificate.gap_lower <= enough < -1.1 * certificate.gap_lower


@pytest.mark.parametrize(("first", "second", "decided"), [(52, 48, "pass"), (38, 62, "fail")])
def test_about_as_many_observations_as_needed_decide_it(first, second, decided):
    calibrator = two_actions(rules=[outrule.Fixed(1), outrule.Fixed(0)])
    certificate = certify(calibrator, *held_out(first, second))
    assert certificate.verdict == "inconclusive"
    enough, too_few = -(-certificate.needed * 4 // 300), certificate.needed // 200
    assert certify(calibrator, *held_out(first, second, enough)).verdict == decided
    if too_few:
        again = certify(calibrator, *held_out(first, second, too_few))
        assert again.verdict == "inconclusive"
        assert again.needed == pytest.approx(certificate.needed, rel=0.02)


def test_a_gap_of_exactly_the_margin_can_never_be_settled():
    calibrator = two_actions(epsilon=0.25)
    certificate = certify(calibrator, *held_out(25, 50, times=10))
    assert certificate.gap == pytest.approx(-certificate.margin)
    assert (certificate.verdict, certificate.needed) == ("inconclusive", None)


def test_one_instance_proves_nothing():
    certificate = certify(two_actions(), [[0.6, 0.4]], [[1.0, 0.0]])
    assert (certificate.verdict, certificate.needed) == ("inconclusive", None)
    assert "these cannot say how many would decide it" in str(certificate)
    assert certificate.rules[0].difference.lower < -0.9
    assert certificate.approximate["improvement"] == (0.0, -1.0, 1.0)  # all that is possible
    assert Certificate.from_json(certificate.to_json()) == certificate


def test_the_gap_needs_no_sharing_and_the_table_does():
    alone = certify(two_actions(), *held_out(60, 40, times=10))
    rules = [outrule.Fixed(1), outrule.Multiplier([0.1, 1.0], name="the same in other words")]
    both = certify(two_actions(rules=rules), *held_out(60, 40, times=10))
    assert both.gap_lower == alone.gap_lower == alone.rivals[0].lower
    assert both.rules[0].lower == both.rules[1].lower == alone.rules[0].lower
    assert both.rules[0].difference.lower < alone.rules[0].difference.lower < alone.rules[0].lower
    # Three rivals at 0.95 have as much each as four at 1 - 0.05 * 4 / 3.
    shared = certify(two_actions(rules=rules), *held_out(60, 40, times=10), confidence=1 - 0.2 / 3)
    assert shared.rules[0].difference == pytest.approx(alone.rules[0].difference, abs=1e-12)


def test_many_rules_that_are_a_little_better_fail_together():
    # No rule is better at its share of the confidence, but their e-values add up.
    rules = [outrule.Multiplier([0.1, 1.0 - i / 1_000], name=f"rule {i}") for i in range(40)]
    calibrator = two_actions(rules=rules, epsilon=0.05)
    certificate = certify(calibrator, *held_out(31, 69))
    assert {rule.verdict for rule in certificate.rules} == {"inconclusive"}
    assert certificate.verdicts["rules"] == "fail"


def test_more_confidence_asks_for_a_lower_bound():
    bounds = [
        certify(two_actions(), *held_out(60, 40, times=10), confidence=confidence).gap_lower
        for confidence in (0.5, 0.9, 0.99, 0.999999)
    ]
    assert bounds == sorted(bounds, reverse=True)


@pytest.mark.parametrize("confidence", [0.0, 1e-17, 1.0, -0.5, 95, float("nan"), "0.95", True])
def test_a_confidence_outside_zero_to_one_is_refused(confidence):
    with pytest.raises(ArgumentError, match=r"'confidence' argument of certify must be a float in"):
        certify(two_actions(), *held_out(60, 40), confidence=confidence)


def test_the_instances_of_fit_are_refused():
    predictions, outcomes = held_out(60, 40)
    rules = [outrule.Fixed(1)]
    calibrator = algorithm_one(outrule.BestAction(), rules).fit(predictions, outcomes)
    with pytest.raises(DataError, match="needs held-out ones"):
        certify(calibrator, predictions, outcomes)
    with pytest.raises(DataError, match="needs held-out ones"):
        certify(calibrator, Instances.from_arrays(predictions, outcomes))
    certify(calibrator, predictions[:99], outcomes[:99])


def test_missing_outcomes_are_refused():
    with pytest.raises(ArgumentError, match="'outcomes' argument of certify must be given"):
        certify(two_actions(), np.full((5, 2), 0.5))


@pytest.mark.parametrize("same", [0.0, 1.0])
def test_outcomes_that_are_all_the_same_prove_nothing(same):
    predictions = np.random.default_rng(5).random((200, 2))
    with pytest.raises(DataError, match=rf"every outcome is {same:g}\. No decision can then be"):
        certify(two_actions(), predictions, np.full((200, 2), same))


def test_decisions_that_may_differ_in_size_are_compared_though_all_outcomes_are_the_same():
    def draw(n, seed):
        generator = np.random.default_rng(seed)
        predictions = generator.random((n, 4))
        return predictions, (generator.random((n, 4)) < predictions).astype(float)

    def judge(k, rule, same):
        calibrator = algorithm_one(outrule.TopK(k), [rule], 0.2).fit(*draw(400, 0))
        return certify(calibrator, draw(200, 1)[0], np.full((200, 4), same))

    half = outrule.Multiplier([1, 1, 0.5, 0.5])
    for same in (0.0, 1.0):
        with pytest.raises(DataError, match=f"every outcome is {same:g}"):
            judge(2, half, same)
    assert judge(2, outrule.Multiplier([1, 0, 0, 0]), 1.0).gap == 0  # plain; the rule takes fewer


def test_a_certificate_is_frozen():
    certificate = certify(two_actions(), *held_out(60, 40))
    with pytest.raises(dataclasses.FrozenInstanceError):
        certificate.verdict = "pass"
    with pytest.raises(dataclasses.FrozenInstanceError):
        certificate.rules[0].value = 1.0


def test_the_same_input_gives_the_same_text():
    texts = {certify(two_actions(), *held_out(60, 40)).to_json() for _ in range(2)}
    assert len(texts) == 1


def test_copies_of_an_instance_in_one_cluster_are_one_observation():
    calibrator = two_actions()
    predictions, outcomes = held_out(60, 40)
    alone = certify(calibrator, predictions, outcomes)
    copies = Instances.from_arrays(
        np.repeat(predictions, 3, axis=0),
        np.repeat(outcomes, 3, axis=0),
        cluster=np.repeat(np.arange(100), 3),
    )
    assert certify(calibrator, copies).verdict == "inconclusive"  # no bound on sizes
    assert certify(calibrator, copies).if_declared == alone.verdict
    together = certify(calibrator, copies, max_weight=3)
    assert (together.n_instances, together.n_observations) == (300, 100)
    for name in ("verdict", "needed", "closest_rule"):
        assert getattr(together, name) == getattr(alone, name)
    np.testing.assert_allclose(together.rules[0].difference, alone.rules[0].difference)
    np.testing.assert_allclose(together.calibrated, alone.calibrated)


def test_whole_weights_are_copies_in_a_cluster_and_zero_is_absence():
    calibrator = two_actions()
    predictions, outcomes = held_out(60, 40)
    times = np.resize([0, 1, 3], 100)
    weighted = certify(calibrator, predictions, outcomes, sample_weight=times)
    copies = Instances.from_arrays(
        np.repeat(predictions, times, axis=0),
        np.repeat(outcomes, times, axis=0),
        cluster=np.repeat(np.arange(100), times),
    )
    copied = certify(calibrator, copies)
    assert weighted.n_observations == copied.n_observations == (times > 0).sum()
    np.testing.assert_allclose(weighted.rules[0].difference, copied.rules[0].difference)
    np.testing.assert_allclose(weighted.plain, copied.plain)


@pytest.fixture(scope="module")
def converged():
    """The best linear predictor, on which rules gain little; and what is true of it."""
    world = worlds.Quadratic(16)
    predictor = worlds.converged_predictor(world)
    rules = [outrule.Fixed(0), *outrule.multipliers(16, limit=30, seed=1)]
    calibrator = algorithm_one(outrule.BestAction(), rules, epsilon=0.02)
    calibrator.fit(*worlds.draw(world, predictor, 4_000, seed=1))
    predictions, outcomes = worlds.draw(world, predictor, 60_000, seed=2)
    truth = certify(calibrator, predictions, outcomes, confidence=0.999)
    return world, predictor, calibrator, truth


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_where_there_is_nothing_to_gain_no_gain_is_claimed(converged, seed):
    world, predictor, calibrator, truth = converged
    certificate = certify(calibrator, *worlds.draw(world, predictor, 3_000, seed=seed))
    assert certificate.gap_lower <= truth.gap
    assert certificate.improvement.lower <= 0 or truth.improvement.lower > 0
    assert certificate.improvement.lower <= truth.improvement.upper
    for seen, known in zip(certificate.rules, truth.rules, strict=True):
        assert seen.difference.lower <= known.difference.upper


def test_baselines_and_the_winners_curse_are_what_a_plain_computation_says():
    generator = np.random.default_rng(0)

    def draw(n):
        truth = generator.random((n, 4))
        predictions = np.clip(truth + generator.normal(0, 0.3, truth.shape), 0, 1)
        return predictions, (generator.random(truth.shape) < truth).astype(float)

    rules = [outrule.Fixed(j) for j in range(4)]
    calibrator = algorithm_one(outrule.BestAction(), rules, epsilon=0.05)
    training, (predictions, outcomes) = draw(2_000), draw(1_000)
    calibrator.fit(*training)
    certificate = certify(calibrator, predictions, outcomes)

    def chosen(weights, values):
        return values[np.arange(len(values)), weights.argmax(axis=1)].mean()

    calibrated = calibrator.predict(predictions)
    assert certificate.plain.mean == pytest.approx(chosen(predictions, outcomes))
    assert certificate.calibrated.mean == pytest.approx(chosen(calibrated, outcomes))
    assert certificate.oracle.mean == pytest.approx(outcomes.max(axis=1).mean())
    best = training[1].mean(axis=0).argmax()
    assert certificate.best_rule_name == f"always {best}"
    assert certificate.best_rule.mean == pytest.approx(outcomes[:, best].mean())
    from sklearn.isotonic import IsotonicRegression

    columns = [
        IsotonicRegression(out_of_bounds="clip")
        .fit(training[0][:, j], training[1][:, j])
        .predict(predictions[:, j])
        for j in range(4)
    ]
    assert certificate.isotonic.mean == pytest.approx(chosen(np.column_stack(columns), outcomes))
    before, after = certificate.promise_before, certificate.promise_after
    assert before.predicted == pytest.approx(predictions.max(axis=1).mean())
    assert after.predicted == pytest.approx(calibrated.max(axis=1).mean())
    assert before.realised == pytest.approx(certificate.plain.mean)
    assert after.realised == pytest.approx(certificate.calibrated.mean)
    curse = before.predicted - before.realised
    assert curse > 0.1 > abs(after.predicted - after.realised)
    assert certificate.violations[-1].before.mean == pytest.approx(-curse)
    assert certificate.squared_error_after < certificate.squared_error_before
    every = (*certificate.rules, *certificate.rivals)
    assert certificate.gap == pytest.approx(min(rival.difference.mean for rival in every))
    gains = [certificate.calibrated.mean - certificate.plain.mean]
    gains += [certificate.calibrated.mean - certificate.isotonic.mean]
    assert [rival.difference.mean for rival in certificate.rivals] == pytest.approx(gains)


def test_a_classification_is_certified_on_the_simplex():
    generator = np.random.default_rng(0)

    def draw(n):
        truth = generator.dirichlet(np.ones(3), n)
        labels = (generator.random((n, 1)) < truth.cumsum(axis=1)).argmax(axis=1)
        tilted = truth * [2.0, 1.0, 0.5]
        return tilted / tilted.sum(axis=1, keepdims=True), np.eye(3)[labels]

    rules = [outrule.Fixed(0), outrule.Multiplier([0.5, 1.0, 2.0], name="untilt")]
    calibrator = algorithm_one(outrule.Classification(), rules, epsilon=0.05)
    certificate = certify(calibrator.fit(*draw(3_000)), *draw(3_000))
    assert certificate.verdicts["rules"] == certificate.verdicts["plain"] == "pass"
    assert certificate.gap > -0.05
    assert certificate.oracle.mean == 1.0


def test_a_rejection_is_worth_what_its_closed_form_says():
    problem = outrule.Rejection(cost=0.2)

    def draw(n, seed):
        return [problem.with_reject(part) for part in worlds.rejection(n, seed)]

    rules = [outrule.Fixed(2), outrule.Multiplier([0.9, 0.9, 1.0], name="be careful")]
    calibrator = algorithm_one(problem, rules, epsilon=0.05).fit(*draw(4_000, 0))
    certificate = certify(calibrator, *draw(20_000, 1))
    assert certificate.rules[0].value == pytest.approx(0.8)  # to reject always is worth 1 - cost
    # worlds.rejection: the predictor refuses below a third of the right log-odds.
    t = 1 / (1 + np.exp(-np.log(4) / 3))
    plain = (2 * t - 1) * 0.8 + 1 - t**2
    assert certificate.plain.lower <= plain <= certificate.plain.upper
    assert certificate.plain.mean == pytest.approx(plain, abs=0.01)
    assert certificate.calibrated.mean <= 1 - 0.2 + 0.2**2 + 0.01
    assert certificate.verdicts["rules"] == certificate.verdicts["plain"] == "pass"


def test_another_value_range_scales_everything():
    generator = np.random.default_rng(0)
    predictions = generator.random((2, 500, 3))
    outcomes = (generator.random((2, 500, 3)) < predictions[..., ::-1]).astype(float)
    rules = [outrule.Fixed(2)]

    def certificate(low, high):
        def instances(part):
            return Instances.from_arrays(
                low + (high - low) * predictions[part],
                low + (high - low) * outcomes[part],
                value_range=(low, high),
            )

        calibrator = algorithm_one(outrule.BestAction(), rules, epsilon=0.1 * (high - low))
        return certify(calibrator.fit(instances(0)), instances(1))

    unit, wide = certificate(0.0, 1.0), certificate(-8.0, 8.0)
    assert wide.margin == pytest.approx(1.6)
    np.testing.assert_allclose(wide.rules[0].difference, np.array(unit.rules[0].difference) * 16)
    np.testing.assert_allclose(wide.plain, np.array(unit.plain) * 16 - 8)
    np.testing.assert_allclose(
        wide.violations[-1].after, np.array(unit.violations[-1].after) * 16, atol=1e-9
    )
    assert (wide.verdict, wide.needed) == (unit.verdict, unit.needed)


def test_a_table_gives_what_arrays_give():
    predictions, outcomes = held_out(60, 40)
    training = held_out(70, 30)
    generator = np.random.default_rng(0)

    def as_table(predictions, outcomes):
        n, m = predictions.shape
        frame = pl.DataFrame(
            {
                "trip": np.repeat(np.arange(n), m),
                "action": np.tile(np.arange(m), n),
                "score": predictions.ravel(),
                "worth": outcomes.ravel(),
                "day": np.repeat(np.arange(n) // 7, m),
                "weight": np.repeat(1.0 + np.arange(n) % 3, m),
            }
        )
        return Instances.from_table(
            frame[generator.permutation(n * m)],
            instance="trip",
            item="action",
            prediction="score",
            outcome="worth",
            cluster="day",
            weight="weight",
        )

    def as_arrays(predictions, outcomes):
        n = np.arange(len(predictions))
        return Instances.from_arrays(predictions, outcomes, cluster=n // 7, weight=1.0 + n % 3)

    found = []
    for enter in (as_table, as_arrays):
        calibrator = algorithm_one(outrule.BestAction(), [outrule.Fixed(1)], 0.1)
        calibrator.fit(enter(*training))
        found.append(json.loads(certify(calibrator, enter(predictions, outcomes)).to_json()))
    for name in ("data", "model"):
        assert found[0].pop(name) != found[1].pop(name)
    flat = [json.dumps(one, indent=1).split("\n") for one in found]
    assert len(flat[0]) == len(flat[1])
    assert found[0]["n_observations"] == found[1]["n_observations"] == 15
    for name in ("gap", "gap_lower", "plain", "calibrated", "isotonic", "oracle"):
        assert found[0][name] == pytest.approx(found[1][name])


@pytest.fixture(scope="module")
def certificate():
    rules = [outrule.Fixed(1), outrule.Fixed(0)]
    return certify(two_actions(rules=rules), *held_out(60, 40))


def places(value, path=()):
    """The places of all values in a JSON document."""
    yield path
    names = value if isinstance(value, dict) else range(len(value)) if type(value) is list else ()
    for name in names:
        yield from places(value[name], (*path, name))


@pytest.mark.parametrize("value", [[], {}, "", 0, -1, 2**70, -1e308, 5e-324, None])
def test_a_certificate_of_a_stranger_is_refused_or_shown(certificate, value):
    content = json.loads(certificate.to_json())
    for *path, last in list(places(content))[1:]:
        changed = copy.deepcopy(content)
        place = changed
        for name in path:
            place = place[name]
        place[last] = value
        try:
            found = Certificate.from_json(reseal(changed))
        except DataError:
            continue
        assert str(found)
        assert outrule.report(found)


def test_the_text_reads_back_as_the_same_certificate(certificate):
    text = certificate.to_json()
    again = Certificate.from_json(text)
    assert again == certificate
    assert again.to_json() == text
    assert isinstance(again.rules, tuple)
    assert again.rules[0].difference.lower == certificate.rules[0].difference.lower


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "3",
        '"format"',
        "{}",
        '{"format": 1}',
        "[" * 100_000,
        '{"format": ' + "9" * 5_000 + "}",
        "\ud800",
        "\x00",
    ],
)
def test_text_that_is_no_certificate_is_refused(text):
    with pytest.raises(DataError):
        Certificate.from_json(text)
    with pytest.raises(DataError):
        Certificate.from_json(reseal(text))


def test_another_format_is_named(certificate):
    text = reseal(certificate.to_json().replace('"format": 1', '"format": 7'))
    with pytest.raises(DataError, match="has format 7, and this version of outrule reads format 1"):
        Certificate.from_json(text)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "true", '"0.5"', "null", "[]"])
def test_what_is_no_finite_number_is_refused_in_place_of_one(certificate, number):
    text = certificate.to_json().replace(f'"gap": {certificate.gap!r}', f'"gap": {number}')
    assert text != certificate.to_json()
    with pytest.raises(DataError, match="is not a certificate of outrule, or it is damaged"):
        Certificate.from_json(reseal(text))


def test_a_name_that_stands_twice_is_refused(certificate):
    text = certificate.to_json().replace('"verdict"', '"verdict": "pass",\n "verdict"')
    with pytest.raises(DataError, match="'verdict' occurs twice"):
        Certificate.from_json(reseal(text))


def test_a_certificate_that_contradicts_itself_can_be_shown(certificate):
    claim = json.loads(certificate.to_json())
    claim["verdict"], claim["verdicts"] = "fail", dict.fromkeys(claim["verdicts"], "pass")
    assert Certificate.from_json(reseal(claim)).next_step.startswith("Next: keep ")


def test_damaged_text_gives_a_data_error_and_nothing_else(certificate):
    text = certificate.to_json()
    generator = np.random.default_rng(0)
    signs = [*'{}[]",:0123456789.eE-+ntfabc \n\\/', "null", "true", "NaN", "1e999", "\x00"]
    refused = 0
    for number in range(200):
        start, stop = sorted(generator.integers(0, len(text), 2).tolist())
        sign = signs[generator.integers(len(signs))]
        if number % 4 == 0:
            damaged = text[:start]
        elif number % 4 == 1:
            damaged = text[:start] + text[start + 1 + stop % 5 :]
        elif number % 4 == 2:
            damaged = text[:start] + sign + text[start + 1 :]
        else:
            damaged = text[:start] + text[stop:] if stop % 2 else text[:stop] + text[start:]
        if damaged != text:
            with pytest.raises(DataError):
                Certificate.from_json(damaged)
        try:
            again = Certificate.from_json(reseal(damaged))
        except DataError:
            refused += 1
        else:  # a digit changed, say: still a whole certificate, for verify to judge
            assert Certificate.from_json(again.to_json()) == again
    assert refused > 100


def test_a_certificate_is_saved_whole(certificate, tmp_path):
    certificate.save(tmp_path / "c.json")
    certificate.save(str(tmp_path / "c.json"))
    assert Certificate.from_json((tmp_path / "c.json").read_text()) == certificate
    assert [path.name for path in tmp_path.iterdir()] == ["c.json"]


def test_clusters_of_a_table_are_called_by_the_name_of_their_column():
    generator = np.random.default_rng(0)

    def days(n, cluster):
        frame = pl.DataFrame(
            {
                "trip": np.repeat(np.arange(n), 2),
                "action": np.tile([0, 1], n),
                "score": np.tile([0.6, 0.4], n),
                "worth": generator.random(2 * n) < np.tile([0.6, 0.4], n),
                cluster: np.repeat(np.arange(n) // 4, 2),
            }
        ).with_columns(pl.col("worth").cast(pl.Float64))
        names = {"instance": "trip", "item": "action", "prediction": "score", "outcome": "worth"}
        return Instances.from_table(frame, cluster=cluster, **names)

    calibrator = outrule.DecisionCalibrator(outrule.BestAction(), [outrule.Fixed(1)], 0.1)
    calibrator.fit(days(400, "day"))
    few = certify(calibrator, days(40, "day"), max_weight=4)
    assert "more days would decide it" in str(few)
    assert "on 10 days;" in str(few)
    asked = str(certify(calibrator, days(40, "day")))
    assert "size (or total weight) of one day is declared" in asked
    assert "on 10 clusters;" in str(certify(calibrator, days(40, "day id")))
    calibrator.set_params(value=outrule.Value("sales", "euro", observation="working day"))
    named = certify(calibrator.fit(days(400, "day id")), days(40, "day id"), max_weight=4)
    assert (named.unit, named.value.unit) == ("working day", "euro")
    assert "more working days would decide it" in named.next_step
    calibrator.set_params(value=outrule.Value("sales", observation="trip"))  # the instance
    held = days(40, "day")
    certificate = certify(calibrator.fit(days(400, "day")), held, max_weight=4)
    assert certificate.unit == "day"
    outrule.verify(certificate, calibrator, held)


@pytest.mark.parametrize("max_weight", [0, -1, float("nan"), float("inf"), "5", True])
def test_a_largest_weight_that_is_no_positive_number_is_refused(max_weight):
    with pytest.raises(ArgumentError, match="'max_weight' argument of certify must be a float gr"):
        certify(two_actions(), *held_out(60, 40), max_weight=max_weight)


def test_a_largest_weight_below_one_that_was_seen_is_refused():
    predictions, outcomes = held_out(60, 40)
    instances = Instances.from_arrays(predictions, outcomes, cluster=np.arange(100) // 3)
    with pytest.raises(DataError, match="a cluster has weight 3, more than max_weight=2"):
        certify(two_actions(), instances, max_weight=2)
    certify(two_actions(), instances, max_weight=np.int64(3))


def test_weights_that_differ_need_a_declared_bound_and_equal_ones_do_not():
    predictions, outcomes = held_out(60, 40, times=10)
    weights = 1.0 + np.arange(1_000) % 2
    equal = certify(two_actions(), predictions, outcomes, sample_weight=np.full(1_000, 2.0))
    assert equal.verdict == "pass"
    asked = certify(two_actions(), predictions, outcomes, sample_weight=weights)
    assert (asked.verdict, asked.if_declared, asked.needed) == ("inconclusive", "pass", None)
    assert {rule.verdict for rule in asked.rules} == {"inconclusive"}
    assert "largest possible weight of an instance is declared" in asked.sentence
    assert (
        "set max_weight (--max-weight) to the largest possible weight of an instance"
        in asked.next_step
    )
    told = certify(two_actions(), predictions, outcomes, sample_weight=weights, max_weight=2)
    assert (told.verdict, told.if_declared) == ("pass", None)
    assert told.gap_lower == asked.gap_lower
    wide = certify(two_actions(), predictions, outcomes, sample_weight=weights, max_weight=200)
    assert wide.gap_lower < told.gap_lower


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_threads_change_no_bit(n_jobs):
    rules = [outrule.Multiplier([0.1, 1.0 - i / 100], name=f"rule {i}") for i in range(20)]
    calibrator = two_actions(rules=rules)
    calibrator.n_jobs = n_jobs
    other = two_actions(rules=rules)
    held = held_out(60, 40)
    assert certify(calibrator, *held).to_json() == certify(other, *held).to_json()


@pytest.mark.parametrize("n_jobs", [0, "x"])
def test_a_number_of_threads_that_fit_refuses_is_refused_here_too(n_jobs):
    calibrator = two_actions()
    calibrator.n_jobs = n_jobs
    with pytest.raises(outrule.ArgumentError, match="'n_jobs' argument of DecisionCalibrator"):
        certify(calibrator, [[0.6, 0.4]], [[1.0, 0.0]])
