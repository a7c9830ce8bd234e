"""The verdict inside every segment: what fails, what passes together, and tampering."""

import copy
import json

import numpy as np
import polars as pl
import pytest

import outrule
from outrule import Certificate, CertificateError, Instances, Segments, certify, verify
from outrule.errors import DataError
from outrule.proof.segment_verdicts import holm
from sealing import reseal

RULES = (outrule.Fixed(0), outrule.Fixed(1))


def cities(n, seed, **extra):
    predictions, outcomes, city = outrule.worlds.six_cities(n, seed)
    night = np.random.default_rng(seed).random(n) < 0.5
    columns = {"city": city, "night": night}
    return Instances.from_arrays(predictions, outcomes, columns=columns, **extra)


@pytest.fixture(scope="module")
def calibrator():
    found = outrule.DecisionCalibrator(outrule.BestAction(), RULES, epsilon=0.05, start=None)
    return found.fit(cities(4_000, 0))


@pytest.fixture(scope="module")
def held_out():
    return cities(8_000, 1)


@pytest.fixture(scope="module")
def judged(calibrator, held_out):
    return certify(calibrator, held_out, segments=["city", ("night", "city")])


def test_a_pass_on_the_whole_hides_a_segment_that_fails(calibrator, held_out, judged):
    whole = certify(calibrator, held_out)
    assert whole.verdict == "pass"
    assert whole.segments == ()
    assert judged.verdict == "fail"
    assert judged.verdicts == {**whole.verdicts, "segments": "fail"}
    failed = [segment.name for segment in judged.segments if segment.verdict == "fail"]
    assert failed[0] == "city = Rome"
    assert set(failed[1:]) == {"night = false, city = Rome", "night = true, city = Rome"}
    rome = next(segment for segment in judged.segments if segment.name == "city = Rome")
    assert rome.best_rival == "always 0"
    assert rome.gap == rome.differences[0] == min(rome.differences)
    assert rome.gap_lower < rome.gap < -0.3  # the truth is -0.375
    assert str(judged).startswith("Deploy? No\nfail: with 95 % confidence, in the segment")
    assert ", 'always 0' is better than the plain optimiser on the calibrated" in str(judged)


@pytest.mark.parametrize(
    "change",
    [
        lambda claim: claim["verdicts"].pop("segments"),
        lambda claim: claim["segments"][0].update(value=[]),
        lambda claim: claim["segments"][0].update(columns=["city", "night"]),
    ],
)
def test_segments_that_cannot_be_shown_are_refused(judged, change):
    claim = json.loads(judged.to_json())
    change(claim)
    with pytest.raises(DataError, match="segments: out of range"):
        Certificate.from_json(reseal(claim))


def test_bounds_and_verdicts_of_the_whole_are_those_without_segments(calibrator, held_out, judged):
    whole = certify(calibrator, held_out)
    assert judged.gap_lower == whole.gap_lower
    assert [rule.lower for rule in judged.rules] == [rule.lower for rule in whole.rules]
    # What can fail it is shared with the segments.
    assert judged.rules[0].difference.lower < whole.rules[0].difference.lower


def test_the_numbers_of_a_segment_are_those_of_its_instances_alone(calibrator, held_out, judged):
    bern = held_out.take(np.flatnonzero(held_out.origin.columns["city"] == "Bern"))
    alone = certify(calibrator, bern)
    found = next(segment for segment in judged.segments if segment.name == "city = Bern")
    assert (found.n_instances, found.n_observations) == (len(bern), len(bern))
    assert found.gap == pytest.approx(alone.gap, abs=1e-12)
    assert found.gap_lower == pytest.approx(alone.gap_lower, abs=1e-9)
    assert found.share == pytest.approx(len(bern) / len(held_out))


def test_it_is_verified_and_every_tampering_is_caught(calibrator):
    held_out = cities(2_000, 1)
    judged = certify(calibrator, held_out, segments=Segments(["city", ("night", "city")], 0.09))
    verify(judged, calibrator, held_out)
    content = json.loads(judged.to_json())

    def refused(change):
        changed = copy.deepcopy(content)
        change(changed)
        with pytest.raises(CertificateError):
            verify(reseal(changed), calibrator, held_out)

    row = next(i for i, s in enumerate(content["segments"]) if s["verdict"] == "fail")
    for name, value in (
        ("verdict", "pass"),
        ("together", True),
        ("gap", 0.0),
        ("gap_lower", -0.01),
        ("best_rival", "always 1"),
        ("n_instances", 5),
        ("share", 0.5),
        ("needed", 7),
        ("pooled", 1),
        ("value", ["Paris"]),
        ("differences", [0.0] * 4),
    ):
        refused(lambda c, name=name, value=value: c["segments"][row].update({name: value}))
    refused(lambda c: c["segments"].pop(row))
    for name in ("segmented", "segments"):
        with pytest.raises(DataError, match=f"{name}: Field required"):
            verify(reseal({k: v for k, v in content.items() if k != name}), calibrator, held_out)
    refused(lambda c: c["verdicts"].update(segments="pass"))
    refused(lambda c: c.update(verdict="pass"))
    refused(lambda c: c.update(segmented=None, segments=[]))
    refused(lambda c: c["segmented"].update(by=[["city"]]))
    refused(lambda c: c["segmented"].update(min_share=0.5))
    refused(lambda c: c["segmented"].update(note="nothing"))


def test_it_survives_json(judged):
    assert Certificate.from_json(judged.to_json()) == judged


def test_small_segments_are_pooled_aloud(calibrator, held_out):
    found = certify(calibrator, held_out, segments=Segments(["city"], min_share=0.11))
    assert [s.name for s in found.segments][-1] == "other city"
    assert found.segments[-1].pooled == 2
    assert found.segments[-1].verdict == "fail"
    assert "2 values of city (13 % of the weight) are pooled as 'other city'" in str(found)
    verify(found, calibrator, held_out)


def test_clusters_and_weights_are_counted_inside_their_segment(calibrator):
    generator = np.random.default_rng(0)
    data = cities(3_000, 5, cluster=np.arange(3_000) // 3, weight=generator.integers(0, 3, 3_000))
    undeclared = certify(calibrator, data, segments=["city"])
    assert undeclared.verdicts["segments"] == "inconclusive"
    assert undeclared.if_declared == "fail"
    assert {segment.verdict for segment in undeclared.segments} == {"inconclusive"}
    verify(undeclared, calibrator, data)
    declared = certify(calibrator, data, segments=["city"], max_weight=6)
    assert declared.verdict == "fail"
    rome = next(segment for segment in declared.segments if segment.name == "city = Rome")
    assert rome.n_observations < rome.n_instances < 400  # a cluster lies in many cities
    verify(declared, calibrator, data)


def test_tables_give_the_same_segments_as_arrays():
    predictions, outcomes, city = outrule.worlds.six_cities(2_500, 3)
    frame = pl.DataFrame(
        {
            "trip": np.repeat(np.arange(2_500), 4),
            "item": np.tile(np.arange(4), 2_500),
            "score": predictions.ravel(),
            "worth": outcomes.ravel(),
            "city": np.repeat(city, 4),
        }
    )
    names = {"instance": "trip", "item": "item", "prediction": "score", "outcome": "worth"}
    model = outrule.DecisionCalibrator(outrule.BestAction(), RULES, epsilon=0.05, start=None)
    model.fit(Instances.from_table(frame, **names))
    later = frame.with_columns(pl.col("trip") + 1, pl.col("worth") * 0.5)
    data = Instances.from_table(later.sample(fraction=1.0, shuffle=True, seed=1), **names)
    found = certify(model, data, segments=["city"])
    verify(found, model, data)
    assert len(found.segments) == 5  # Nice has too few instances
    assert "1 value of city" in found.segmented.note


def test_a_continued_certificate_keeps_the_segments_of_its_first_look(calibrator, held_out):
    first = held_out.slice(0, 2_000)
    begun = certify(calibrator, first, segments=["city"])
    assert "city = Nice" not in [segment.name for segment in begun.segments]
    found = certify(calibrator, held_out, previous=begun)
    assert [s.name for s in found.segments] == [s.name for s in begun.segments]
    assert "city = Nice" in [
        s.name for s in certify(calibrator, held_out, segments=["city"]).segments
    ]
    verify(found, calibrator, held_out)
    with pytest.raises(DataError, match="made for other segments, or for none"):
        certify(calibrator, held_out, previous=begun, segments=["night"])
    plain = certify(calibrator, first)
    with pytest.raises(DataError, match="made for other segments, or for none"):
        certify(calibrator, held_out, previous=plain, segments=["city"])


def test_what_a_segment_needs_is_counted_in_all_observations():
    # Half of the instances decide it, so that twice as many are needed in all.
    generator = np.random.default_rng(0)
    predictions = np.tile([0.6, 0.4], (1_000, 1))
    outcomes = (generator.random((1_000, 2)) < [0.6, 0.4]).astype(float)
    found = outrule.DecisionCalibrator(
        outrule.BestAction(), [outrule.Fixed(1)], epsilon=0.1, start=None
    ).fit(predictions, outcomes)
    kind = np.tile(["a", "b"], 500)
    worth = np.array([[0.47, 0.53], [1.0, 0.0]])[np.arange(1_000) % 2]
    later = (generator.random((1_000, 2)) < worth).astype(float)
    data = Instances.from_arrays(predictions, later, columns={"kind": kind})
    certificate = certify(found, data, segments=["kind"])
    assert certificate.verdicts == {
        "rules": "pass",
        "plain": "pass",
        "isotonic": "pass",
        "segments": "inconclusive",
    }
    a, b = certificate.segments
    assert (a.verdict, b.verdict, b.together) == ("inconclusive", "pass", True)
    assert certificate.needed == 2 * a.needed > 1_000
    assert "in the segment 'kind = a', minus at most 0.1" in certificate.sentence
    assert "1 of the 2 segments pass simultaneously (Holm)" in str(certificate)
    verify(certificate, found, data)


def test_holm_marks_the_claims_that_hold_all_at_once():
    # p-values 0.001, 0.02, 0.03 and 0.04 at 0.05: 0.0125, 0.0167, 0.025 and 0.05 are the steps.
    assert holm([50, 1_000, 100 / 3, 25], 0.05) == [False, True, False, False]
    assert holm([1_000, 70, 50, 25], 0.05) == [True, True, True, True]
    assert holm([19], 0.05) == [False]
    assert holm([20], 0.05) == [True]


def test_false_passes_in_every_segment_are_as_rare_as_promised():
    """One of five segments is just below the margin: the minimum passes in at most 5 of 100."""
    passed, marked = 0, 0
    model = outrule.DecisionCalibrator(
        outrule.BestAction(), [outrule.Fixed(1)], epsilon=0.1, start=None, rivals=()
    ).fit(np.tile([0.6, 0.4], (100, 1)), np.tile([0.6, 0.4], (100, 1)))
    kind = np.arange(1_000) % 5
    chance = np.where(kind[:, None] == 0, [0.4, 0.5], [0.9, 0.1])
    for seed in range(100):
        outcomes = (np.random.default_rng(seed).random((1_000, 2)) < chance).astype(float)
        data = Instances.from_arrays(
            np.tile([0.6, 0.4], (1_000, 1)), outcomes, columns={"kind": kind}
        )
        found = certify(model, data, segments=["kind"])
        passed += found.verdicts["segments"] == "pass"
        marked += found.segments[0].together
    assert passed <= 5
    assert marked <= passed
