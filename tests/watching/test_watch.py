"""A watch: what it says of known worlds, what it remembers, and what it refuses."""

import dataclasses
import json
from datetime import date, timedelta

import numpy as np
import polars as pl
import pytest

import outrule
from outrule import ArgumentError, DataError, Instances, Watch
from outrule.watching import counting, watch as module
from outrule.watching.claims import add_up
from outrule.watching.detectors import STAKES
from sealing import reseal

PREDICTIONS = np.array([[0.6, 0.4], [0.4, 0.6]])
RULES = [outrule.Fixed(0, "first"), outrule.Fixed(1, "second")]
FIRST = date(2026, 1, 1)


def draw(gap, seed, n=400, worth=0.6):
    """Both rules are worse than the optimiser by ``gap``; its decisions are worth ``worth``."""
    generator = np.random.default_rng(seed)
    predictions = PREDICTIONS[generator.integers(0, 2, n)]
    chance = np.where(predictions > 0.5, worth, worth - 2 * gap)
    return predictions, (generator.random((n, 2)) < chance).astype(float)


@pytest.fixture(scope="module")
def calibrator():
    fitted = outrule.DecisionCalibrator(outrule.BestAction(), RULES, 0.05, start=None)
    return fitted.fit(*draw(0.1, 1_000, n=4_000))


def watched(calibrator, gaps, worth=0.6, **options):
    """A watch of a batch of 400 instances a day, and the status after every one."""
    watch = Watch(calibrator, **options)
    return watch, [
        watch.update(*draw(gap, day, worth=worth), batch=FIRST + timedelta(day))
        for day, gap in enumerate(gaps)
    ]


def test_a_model_that_stays_good_is_undecided_first_and_kept_then(calibrator):
    _, found = watched(calibrator, [0.05] * 20)
    words = [status.status for status in found]
    assert words[0] == "undecided"
    assert words[-1] == "kept"
    assert "lost" not in words
    assert "There is no alarm." in found[0].sentence
    assert found[-1].sentence == (
        "Decisions are at least as good as every rival's, minus at most 0.05. "
        "Decisions are worth what was predicted, within 0.05."
    )
    assert (found[-1].n, found[-1].n_batches, found[-1].since) == (8_000, 20, None)


def test_what_is_lost_is_said_first_and_what_evidence_means(calibrator):
    _, (*_, status) = watched(calibrator, [0.05] * 20)
    rivals, predicted = status.parts
    lost = dataclasses.replace(
        predicted, status="lost", since="5", alarm="7", name="worth less than predicted"
    )
    words = str(dataclasses.replace(status, status="lost", parts=(rivals, lost), evidence=82.31))
    assert words.startswith(
        "lost: Decisions have been worth less than predicted, by more than 0.05, since batch 5 "
        "(alarm in batch 7). Decisions are at least as good as every rival's, minus at most 0.05.\n"
    )
    assert words.endswith(
        "\nevidence 82.3 that something has changed, alarm at 14,600: it stays low while nothing "
        "is wrong and grows quickly once something is; on average at most one false alarm in 7,300 "
        "batches"
    )


def test_a_rival_that_becomes_better_is_named_with_the_day_since_when(calibrator):
    watch, found = watched(calibrator, [0.05] * 20 + [-0.15] * 8)
    words = [status.status for status in found]
    first = words.index("lost")
    assert 20 < first < 27
    status = found[first]
    (rivals, predicted) = status.parts
    assert (rivals.watched, rivals.status, predicted.status) == ("rivals", "lost", "kept")
    assert rivals.evidence >= status.level == 2 * 7300
    assert set(status.better) <= {"first", "second"}
    assert status.rival in ("first", "second")
    assert FIRST + timedelta(18) <= date.fromisoformat(status.since) <= FIRST + timedelta(22)
    assert f"been better by more than 0.05 since {status.since}" in str(status)
    both = dataclasses.replace(rivals, better=("first", "second"))
    both = dataclasses.replace(status, parts=(both, predicted))
    assert "“first” and “second” have been better" in both.sentence
    assert f"(alarm in batch {FIRST + timedelta(first)})" in str(status)
    for day in range(28, 40):  # it recovers, and stays lost until it is acknowledged
        status = watch.update(*draw(0.05, day), batch=FIRST + timedelta(day))
        assert status.status == "lost"
        assert status.since == found[first].since
    after = watch.acknowledge()
    assert (after.status, after.n, after.n_batches, after.parts) == ("undecided", 0, 40, ())
    assert watch.state.history[-1].acknowledged
    with pytest.raises(DataError, match="no alarm to acknowledge"):
        watch.acknowledge()
    for day in range(40, 60):
        status = watch.update(*draw(0.05, day), batch=FIRST + timedelta(day))
    assert (status.status, status.n_batches) == ("kept", 60)
    assert status.first == str(FIRST + timedelta(40))


@pytest.mark.parametrize(
    ("worth", "side"), [(0.4, "worth less than predicted"), (0.8, "worth more than predicted")]
)
def test_outcomes_of_chosen_items_are_enough_for_predicted_vs_realised(calibrator, worth, side):
    watch = Watch(calibrator)
    for day in range(12):
        predictions, outcomes = draw(0.1, day, worth=0.6 if day < 6 else worth)
        outcomes[~calibrator.decide(predictions)] = np.nan
        status = watch.update(predictions, outcomes, batch=day)
    (part,) = status.parts
    assert (part.watched, part.status, part.name, part.since) == ("predicted", "lost", side, 6)
    assert (status.gap, status.rival, status.level) == (None, None, 7300)
    assert f"Decisions have been {side}, by more than 0.05, since batch 6" in status.sentence
    assert "Rivals are not watched" in status.sentence
    watch.update(*draw(0.1, 99), batch=99)  # all outcomes: only what is watched is used
    assert len(watch.state.claims) == 2


def explored(calibrator, gap, seed, n=400, **options):
    """The log of a batch in which half of the decisions are random."""
    predictions, outcomes = draw(gap, seed, n)
    found = calibrator.explore(predictions, share=0.5, random_state=seed)
    seen = np.where(found.chosen, outcomes, np.nan)
    return Instances.from_arrays(predictions, seen, propensity=found.propensity, **options)


def test_explored_decisions_are_enough_to_watch_rivals(calibrator):
    watch, words = Watch(calibrator), []
    for day in range(60):
        gap = 0.05 if day < 40 else -0.2
        status = watch.update(explored(calibrator, gap, day), batch=day)
        words.append(status.status)
        watch = Watch.from_json(watch.to_json(), calibrator)
    assert words[39] == "kept"
    assert "lost" in words[41:59]
    assert set(status.better) <= {"first", "second"}
    assert 38 <= status.since <= 42
    assert status.feedback == "logged"
    assert "estimated from a log" in str(status)
    predictions, outcomes = draw(0.05, 99)
    known = np.where(calibrator.decide(predictions), outcomes, np.nan)
    with pytest.raises(DataError, match=r"outcome is missing at .* there are no propensities"):
        watch.update(predictions, known)
    watch.update(predictions, outcomes)  # all outcomes: as if each had been certain to be observed
    assert watch.state.n_batches == 61


def test_bets_on_a_log_are_fair_whatever_was_observed(calibrator):
    """Over the draws of the log, bets gain exactly what they would gain if all were known."""
    state = dataclasses.replace(Watch(calibrator, margin=0.05).state, k=1, full=False, kappa=4.0)
    outcomes, q = np.array([[0.0, 1.0]]), np.array([[0.97, 0.03]])
    found = []
    for one in range(2):
        seen = np.where(np.arange(2) == one, outcomes, np.nan)
        log = Instances.from_arrays(PREDICTIONS[:1], seen, propensity=q)
        found.append(np.exp(add_up(calibrator.model_, log, seen.ravel(), state).growth))
    mean = np.tensordot(q[0], found, axes=1)
    full = np.array([0.0, -1.0, 0.0, 0.0])  # ours is the first, as that of plain and isotonic
    x = (full + 0.05) / (5 + 0.05)
    np.testing.assert_allclose(mean[:4, 0], 1 - STAKES * x[:, None])
    np.testing.assert_allclose(mean[:4, 1], 1 + STAKES * x[:, None])
    off = outcomes[0, 0] - calibrator.predict(PREDICTIONS[:1])[0, 0]
    x = (np.array([off, -off]) + 0.05) / (5 + 0.05)
    np.testing.assert_allclose(mean[4:, 0], 1 - STAKES * x[:, None])
    assert min(one.min() for one in found) >= 0.5


@pytest.mark.parametrize("begun", ["full", "chosen"])
def test_a_watch_that_began_without_propensities_stays_without(calibrator, begun):
    watch = Watch(calibrator)
    predictions, outcomes = draw(0.05, 1)
    if begun == "chosen":
        outcomes[~calibrator.decide(predictions)] = np.nan
    watch.update(predictions, outcomes)
    predictions, outcomes = draw(0.05, 2)
    chosen = calibrator.decide(predictions)
    log = Instances.from_arrays(
        predictions,
        np.where(chosen, outcomes, np.nan),
        propensity=np.where(chosen, 0.9, 0.1),
        columns={"chosen": chosen},
    )
    if begun == "full":
        with pytest.raises(DataError, match="compares with rivals by the outcome of every item"):
            watch.update(log)
    else:
        watch.update(log)
    assert watch.state.feedback == begun


def test_the_numbers_of_a_log_are_those_of_its_certificate(calibrator):
    data = explored(calibrator, 0.03, 7, n=3_000)
    certificate, status = outrule.certify(calibrator, data), Watch(calibrator).update(data)
    assert status.gap == pytest.approx(certificate.gap, abs=1e-12)
    assert status.predicted == pytest.approx(certificate.promise_after.predicted, abs=1e-12)
    assert status.realised == pytest.approx(certificate.promise_after.realised, abs=1e-12)


def test_the_numbers_are_those_of_a_certificate(calibrator):
    predictions, outcomes = draw(0.03, 7, n=3_000)
    weight = np.random.default_rng(0).integers(0, 4, 3_000).astype(float)
    data = Instances.from_arrays(predictions, outcomes, weight=weight)
    certificate = outrule.certify(calibrator, data, max_weight=3)
    status = Watch(calibrator, max_weight=3).update(data)
    assert status.gap == pytest.approx(certificate.gap, abs=1e-12)
    assert status.predicted == pytest.approx(certificate.promise_after.predicted, abs=1e-12)
    assert status.realised == pytest.approx(certificate.promise_after.realised, abs=1e-12)
    assert status.n == certificate.n_observations == (weight > 0).sum()


def test_clusters_are_observations_and_their_largest_size_is_declared(calibrator):
    predictions, outcomes = draw(0.03, 8, n=300)
    data = Instances.from_arrays(predictions, outcomes, cluster=np.arange(300) // 3)
    with pytest.raises(DataError, match="the instances have clusters: max_weight must be"):
        Watch(calibrator).update(data)
    with pytest.raises(DataError, match="the instances have weights: max_weight must be"):
        Watch(calibrator).update(predictions, outcomes, sample_weight=np.ones(300))
    with pytest.raises(DataError, match="more than max_weight=2"):
        Watch(calibrator, max_weight=2).update(data)
    status = Watch(calibrator, max_weight=3).update(data)
    assert (status.n, status.unit) == (100, "cluster")
    weak = Watch(calibrator, max_weight=30).update(data)
    assert weak.gap == status.gap
    assert weak.evidence != status.evidence


def test_the_column_chosen_says_what_was_done(calibrator):
    predictions, outcomes = draw(0.1, 9)
    chosen = ~calibrator.decide(predictions)  # the other action, each time
    data = Instances.from_arrays(predictions, outcomes, columns={"chosen": chosen})
    status = Watch(calibrator).update(data)
    assert status.realised == pytest.approx(outcomes[chosen].mean())
    assert status.predicted == pytest.approx(calibrator.predict(predictions)[chosen].mean())
    plain = Watch(calibrator).update(predictions, outcomes)
    assert plain.gap == status.gap  # rivals are compared with what the model decides
    for wrong, words in (
        (chosen.astype(int), "'chosen' must hold true or false"),
        (np.ones((400, 2), dtype=bool), "at instance 0 that is not feasible"),
    ):
        data = Instances.from_arrays(predictions, outcomes, columns={"chosen": wrong})
        with pytest.raises(DataError, match=words):
            Watch(calibrator).update(data)


def test_a_table_gives_the_same_as_arrays_also_with_outcomes_beside_it():
    predictions, outcomes = draw(0.1, 1_000, n=2_000)
    frame = pl.DataFrame(
        {
            "trip": np.repeat(np.arange(2_000), 2),
            "action": np.tile([0, 1], 2_000),
            "score": predictions.ravel(),
            "done": outcomes.ravel(),
        }
    )[np.random.default_rng(0).permutation(4_000)]
    names = {"instance": "trip", "prediction": "score", "item": "action"}

    def read(part, **more):
        return Instances.from_table(part, **names, **more)

    past, later = frame.filter(pl.col("trip") < 1_000), frame.filter(pl.col("trip") >= 1_000)
    fitted = outrule.DecisionCalibrator(outrule.BestAction(), RULES, 0.05, start=None)
    fitted.fit(read(past, outcome="done"))
    whole = Watch(fitted)
    status = whole.update(read(later, outcome="done"))
    beside = Watch(fitted).update(read(later.drop("done")), later["done"])
    assert beside == status
    with pytest.raises(DataError, match="outcomes were given next to Instances that already"):
        whole.update(read(later, outcome="done"), later["done"])


def test_the_largest_losses_and_gains_cannot_ruin_a_bet():
    problem = outrule.TopK(2)
    rule = outrule.Reweight("reverse", lambda view: 1 - view.predictions)
    generator = np.random.default_rng(0)
    predictions = generator.uniform(0.1, 0.9, (500, 4))
    fitted = outrule.DecisionCalibrator(problem, [rule], 0.001, start=None, max_rounds=1)
    with pytest.warns(UserWarning, match="loop stopped"):
        fitted.fit(predictions, (generator.random((500, 4)) < predictions).astype(float))
    for sign in (False, True):
        watch, new = Watch(fitted, margin=0), generator.uniform(0.1, 0.9, (500, 4))
        status = watch.update(new, (fitted.decide(new) ^ sign).astype(float))
        assert np.isfinite(json.loads(status.to_json())["evidence"])
        assert (status.parts[0].status == "lost") == sign
        assert (status.gap < 0) == sign


def test_decisions_that_grow_too_large_for_the_bets_are_refused():
    def table(n_items, seed):
        generator = np.random.default_rng(seed)
        score = generator.uniform(0.1, 0.9, 100 * n_items)
        frame = {"x": np.repeat(np.arange(100), n_items), "p": score}
        frame["y"] = (generator.random(len(score)) < score).astype(float)
        names = {"instance": "x", "prediction": "p", "outcome": "y"}
        return Instances.from_table(pl.DataFrame(frame), **names, value_range=(-1, 1))

    rule = outrule.Reweight("same", "prediction")
    fitted = outrule.DecisionCalibrator(outrule.TopK(9), [rule], 0.1, start=None).fit(table(2, 0))
    watch = Watch(fitted)
    watch.update(table(3, 1))
    watch.update(table(4, 2))
    with pytest.raises(
        DataError, match="can have 5 items, and those of fit and of the first batch"
    ):
        watch.update(table(5, 3))


@pytest.fixture
def begun(calibrator):
    return watched(calibrator, [0.05] * 3)[0]


@pytest.mark.parametrize(
    ("day", "seed", "words"),
    [
        (2, 2, "batch 2026-01-03 is already counted."),
        (1, 1, "batch 2026-01-02 is already counted."),
        (2, 9, "batch 2026-01-03 is already counted, with other content"),
        (5, 1, "batch 2026-01-06 has the same rows as batch 2026-01-02"),
        (-1, 9, "batch 2025-12-31 does not come after 2026-01-03"),
    ],
)
def test_a_batch_is_counted_once_and_in_order(begun, day, seed, words):
    before = begun.to_json()
    with pytest.raises(DataError) as error:
        begun.update(*draw(0.05, seed), batch=FIRST + timedelta(day))
    assert words in str(error.value)
    assert isinstance(error.value, module.CountedError) == words.endswith("counted.")
    assert begun.to_json() == before


def test_batches_without_a_key_are_numbered_and_known_by_their_content(calibrator):
    watch = Watch(calibrator)
    assert [watch.update(*draw(0.05, seed)).batch for seed in (1, 2)] == [1, 2]
    with pytest.raises(module.CountedError, match="already counted, as 1"):
        watch.update(*draw(0.05, 1))


def test_copies_of_instances_are_not_counted_where_certify_would_refuse_them(calibrator):
    generator = np.random.default_rng(0)

    def draw_many(n):
        predictions = generator.random((n, 2))
        return predictions, (generator.random((n, 2)) < predictions).astype(float)

    fitted = outrule.DecisionCalibrator(outrule.BestAction(), RULES, 0.05).fit(*draw_many(500))
    watch, some = Watch(fitted), draw_many(100)
    copies = [np.tile(part, (4, 1)) for part in some]
    words = "100 % of these instances are copies of others"
    with pytest.raises(DataError, match=words):
        outrule.certify(fitted, *copies)
    with pytest.raises(DataError, match=words):
        watch.update(*copies)
    assert watch.status.n_batches == 0
    assert watch.update(*some).n == 100
    for n in (2, 5, 10):  # so few can be the same by chance
        assert Watch(fitted).update(*(np.repeat(part[:1], n, axis=0) for part in some)).n == n
    few = [np.vstack([part, part[:20]]) for part in draw_many(100)]
    assert watch.update(*few).n == 220  # a repeated request does not stop a watch
    trained = draw_many(500)
    known = outrule.DecisionCalibrator(outrule.BestAction(), RULES, 0.05).fit(*trained)
    with pytest.raises(DataError, match="fit has seen 100 % of these instances"):
        Watch(known).update(*(part[:50] for part in trained))
    common = [np.repeat(part[:1], 12, axis=0) for part in trained]  # one content tells little
    assert Watch(known).update(*common).n == 12
    overlap = [np.vstack([old[:40], new[:60]]) for old, new in zip(trained, some, strict=True)]
    assert Watch(known).update(*overlap).n == 100
    days = np.arange(400) % 100  # one observation each
    clustered = Instances.from_arrays(*copies, cluster=days)
    assert Watch(fitted, max_weight=4).update(clustered).n == 100
    chosen = np.where(fitted.decide(copies[0]), copies[1], np.nan)
    assert Watch(fitted).update(copies[0], chosen).n == 400  # by chance, more are the same
    twice = [np.tile(part, (4, 1)) for part in draw(0.05, 1, n=100)]
    assert Watch(calibrator).update(*twice).n == 400  # eight different instances exist


def test_the_same_units_every_day_are_counted_though_outcomes_are_often_the_same():
    generator = np.random.default_rng(0)
    predictions = generator.random((500, 2))

    def outcomes():
        return (generator.random((500, 2)) < 0.1).astype(float)

    fitted = outrule.DecisionCalibrator(outrule.BestAction(), RULES, 0.05)
    fitted.fit(predictions, outcomes())
    assert Watch(fitted).update(predictions, outcomes()).n == 500


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda p, _: (p, None), "'outcomes' argument of Watch.update must be given"),
        (lambda p, y: (p, np.where(p > 0.5, y, np.nan)), "This watch compares with rivals"),
        (lambda p, y: (p, y + 1), "outside"),
        (lambda p, y: (p, np.where(p > 0.5, np.inf, y)), "outcome is infinite"),
        (lambda p, y: (p, y[:, :1]), "same shape"),
        (lambda p, y: (p[:, :1], y[:, :1]), "items"),
        (lambda *_: draw(0.1, 1_000, n=4_000), "instances that fit has seen"),
    ],
)
def test_bad_batches_are_refused_and_nothing_is_counted(begun, change, words):
    before = begun.to_json()
    with pytest.raises(ValueError, match=words):
        begun.update(*change(*draw(0.05, 9)), batch="2026-02-01")
    assert begun.to_json() == before


def test_the_outcome_of_a_chosen_item_must_be_known(calibrator):
    predictions, outcomes = draw(0.05, 3)
    outcomes[:] = np.nan
    with pytest.raises(
        DataError, match=r"missing at instance 0, item \d, an item that the model chooses"
    ):
        Watch(calibrator).update(predictions, outcomes)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"run_length": 1}, "'run_length' argument of Watch must be an int of at least 2"),
        ({"run_length": 20.5}, "'run_length' argument of Watch must be an int of at least 2"),
        ({"margin": -0.1}, "'margin' argument of Watch must be a float of at least 0"),
        ({"max_weight": 0}, "'max_weight' argument of Watch must be a float greater than 0"),
    ],
)
def test_arguments_are_checked(calibrator, options, words):
    with pytest.raises(ArgumentError, match=words):
        Watch(calibrator, **options)


def test_a_watch_continues_from_its_json_as_if_it_had_never_stopped(calibrator):
    watch, _ = watched(calibrator, [0.05] * 4 + [-0.2] * 3)
    again = Watch(calibrator)
    for day, gap in enumerate([0.05] * 4 + [-0.2] * 3):
        again.update(*draw(gap, day), batch=FIRST + timedelta(day))
        again = Watch.from_json(again.to_json(), calibrator.model_)
    assert again.to_json() == watch.to_json()
    assert again.status == watch.status
    assert again.status.status == "lost"


def test_the_history_is_capped_and_older_batches_are_only_out_of_order(calibrator, monkeypatch):
    for place in (counting, outrule.watching.state):
        monkeypatch.setattr(place, "HISTORY", 5)
    watch, found = watched(calibrator, [-0.04] * 8)
    assert [row.batch for row in watch.state.history] == [
        str(FIRST + timedelta(day)) for day in range(3, 8)
    ]
    assert found[-1].n_batches == 8
    assert watch.state.key_of(1) == str(FIRST + timedelta(3))  # the oldest that is known
    assert Watch.from_json(watch.to_json(), calibrator).state == watch.state
    with pytest.raises(DataError, match="does not come after"):
        watch.update(*draw(0.05, 0), batch=FIRST)


def tampered(text, change):
    content = json.loads(text)
    change(content)
    return json.dumps(content)


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.update(n=1),
        lambda c: c["claims"][0]["doubt"].__setitem__(0, 0.5),
        lambda c: c["history"][0].__setitem__(10, "lost"),
        lambda c: c.update(alarms=[]) or c.update(margin=0.5),
        lambda c: c.pop("digest"),
        lambda c: c.pop("claims"),
        lambda c: c.update(digest="0" * 64),
        lambda c: c.update(more=1),
        lambda c: c.update(n="1"),
        lambda c: c["claims"].pop(),
    ],
)
def test_a_state_that_was_changed_is_refused(begun, calibrator, change):
    with pytest.raises(DataError, match="is not a watch state of outrule, or it is damaged"):
        Watch.from_json(tampered(begun.to_json(), change), calibrator)


ALARM = {"watched": "rivals", "batch": 1, "since": 1, "name": "first", "better": []}
MISFITS = {
    "claims": [
        lambda c: c["claims"][0]["trust"].__setitem__(0, 800.0),
        lambda c: c["claims"][0]["doubt"].__setitem__(0, -0.5),
        lambda c: c["claims"][0]["start"].__setitem__(0, 10**6),
        lambda c: c["claims"][0]["climb"].pop(),
        lambda c: c["claims"][0].update(sum=1e300),
    ],
    "history": [
        lambda c: c["history"].reverse(),
        lambda c: c["history"][0].__setitem__(0, "yesterday"),
        lambda c: c["history"].pop(),
    ],
    "run_length": [
        lambda c: c.update(run_length=1),
        lambda c: c.update(run_length=2**63),
        lambda c: c.update(margin=-0.1),
    ],
    "max_weight": [lambda c: c.update(max_weight=0.0), lambda c: c.update(max_weight=-1.0)],
    "full": [lambda c: c.update(k=None), lambda c: c.update(k=-3)],
    "n": [lambda c: c.update(n=0), lambda c: c.update(n=10**9)],
    "weight": [lambda c: c.update(weight=0.0), lambda c: c.update(weight=-1.0)],
    "predicted": [lambda c: c.update(predicted=1e300), lambda c: c.update(realised=-1e300)],
    "alarms": [lambda c: c.update(alarms=[ALARM, ALARM])],
}


@pytest.mark.parametrize(
    ("part", "change"), [(part, one) for part, changes in MISFITS.items() for one in changes]
)
def test_a_sealed_state_that_no_watch_writes_is_refused(begun, calibrator, part, change):
    with pytest.raises(DataError, match=f": {part} does not agree with the rest"):
        Watch.from_json(reseal(json.loads(tampered(begun.to_json(), change))), calibrator)


def test_states_before_the_first_batch_and_alarms_of_strangers_are_refused(begun, calibrator):
    new = tampered(Watch(calibrator).to_json(), lambda c: c.update(n=7, n_observations=7))
    with pytest.raises(DataError, match="n does not agree with the rest"):
        Watch.from_json(reseal(json.loads(new)), calibrator)
    for alarm in (ALARM | {"name": "nobody"}, ALARM | {"better": ["nobody"]}):
        text = tampered(begun.to_json(), lambda c, a=alarm: c.update(alarms=[a]))
        with pytest.raises(DataError, match="an alarm names a rule that does not exist"):
            Watch.from_json(reseal(json.loads(text)), calibrator)


def test_a_state_of_another_format_or_model_is_refused(begun, calibrator):
    text = reseal(tampered(begun.to_json(), lambda c: c.update(format=2)))
    with pytest.raises(DataError, match="has format 2, and this version of outrule reads format 1"):
        Watch.from_json(text, calibrator)
    for rules in (RULES, RULES[:1]):  # with fewer, the state would have too many claims
        other = outrule.DecisionCalibrator(outrule.BestAction(), rules, 0.05, start=None)
        other.fit(*draw(0.1, 1_001, n=4_000))
        words = r"w\.json watches another model\. Pass the model that it began with; or, for a new "
        with pytest.raises(DataError, match=words):
            Watch.from_json(begun.to_json(), other, name="w.json")
    for text in ("", "[]", "{", begun.to_json()[:-20]):
        with pytest.raises(DataError, match="not a watch state"):
            Watch.from_json(text, calibrator)


def test_the_threads_change_nothing(calibrator):
    found = []
    for n_jobs in (1, 4):
        one = dataclasses.replace(calibrator.model_)
        fitted = outrule.DecisionCalibrator(outrule.BestAction(), RULES, 0.05, n_jobs=n_jobs)
        fitted.model_ = one
        found.append(watched(fitted, [0.05] * 2)[0].to_json())
    assert found[0] == found[1]
