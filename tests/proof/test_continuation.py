"""Continued certificates: what must be the same, and that looking does no harm."""

import runpy
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import outrule
from letter import algorithm_one
from outrule import Instances, certify
from outrule.errors import DataError
from outrule.proof.confidence import Observations, Range
from outrule.proof.continuation import first_part

bounds = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "bounds.py"))
SIZES = range(100, 1_001, 100)


def draw(n, seed=0):
    generator = np.random.default_rng(seed)
    predictions = generator.random((n, 3))
    return predictions, np.clip(predictions + generator.normal(0, 0.2, (n, 3)), 0, 1)


@pytest.fixture(scope="module")
def calibrator():
    rules = [outrule.Fixed(0), outrule.Multiplier([1.0, 0.5, 0.5], name="less of the rest")]
    return algorithm_one(outrule.BestAction(), rules, 0.05).fit(*draw(500))


def test_a_bound_never_falls_when_data_are_added(calibrator):
    predictions, outcomes = draw(1_000, 1)
    certificate, lowers = None, []
    for n in SIZES:
        part = predictions[:n], outcomes[:n]
        certificate = certify(calibrator, *part, previous=certificate)
        lowers.append([certificate.gap_lower, *(rule.lower for rule in certificate.rules)])
    assert np.diff(lowers, axis=0).min() >= -1e-9
    assert lowers[-1][0] > lowers[0][0] + 0.02
    assert [look.n_instances for look in certificate.earlier] == list(SIZES)[:-1]
    again = outrule.Certificate.from_json(certificate.to_json())
    assert again == certificate
    assert "on 1,000 instances, 100 of them new since the last look" in str(certificate)


def test_the_bounds_hold_at_ten_looks_together():
    """The truth is below no bound of any look in more than 5 % of the draws."""
    seen = Observations.from_instances(
        Instances.from_arrays(np.full((1_000, 1), 0.5)), looks=list(SIZES)[:-1]
    )
    assert sorted(set(seen.planned)) == list(SIZES)
    generator, wrong = np.random.default_rng(0), []
    for _ in range(1_000):
        # A bound of the last look is the largest of all looks, by the test above.
        bets = seen.bets((generator.random(1_000) < 0.5) * 1.0, Range(0.0, 1.0))
        wrong.append((bets.lower(0.05) > 0.5, bets.upper(0.05) < 0.5))
    assert np.mean(wrong, axis=0).max() <= 0.05


def test_someone_who_stops_at_the_first_pass_is_rarely_wrong():
    certificates = bounds["peek"](20)
    assert sum(one.verdict == "pass" for one in certificates) <= 2


@pytest.mark.slow
def test_someone_who_stops_at_the_first_pass_is_wrong_in_5_of_100_draws_at_most():
    certificates = bounds["peek"](1_000)
    assert np.mean([one.verdict == "pass" for one in certificates]) <= 0.05


def test_what_must_be_the_same_is_checked(calibrator):
    predictions, outcomes = draw(200, 2)
    first = certify(calibrator, predictions[:100], outcomes[:100], max_weight=2.0)
    other = algorithm_one(outrule.BestAction(), [outrule.Fixed(0)], 0.05).fit(*draw(500))
    changed = outcomes.copy()
    changed[3, 1] = 0.5
    for arguments, settings, words in (
        ((other, predictions, outcomes), {}, "is for another model"),
        ((calibrator, predictions, outcomes), {"confidence": 0.9}, "has confidence 0.95, not 0.9"),
        ((calibrator, predictions, outcomes), {"max_weight": 3.0}, "has max_weight 2. It cannot"),
        ((calibrator, predictions, changed), {}, "first 100 instances are not those of the earl"),
        ((calibrator, predictions[:100], outcomes[:100]), {}, "or there are no new ones"),
        ((calibrator, predictions[:50], outcomes[:50]), {}, "first 100 instances are not those"),
    ):
        with pytest.raises(DataError, match=words):
            certify(*arguments, previous=first, **settings)
    assert certify(calibrator, predictions, outcomes, previous=first).max_weight == 2.0


def test_a_cluster_is_not_divided_between_looks(calibrator):
    predictions, outcomes = draw(12, 3)
    for cluster, good in ((np.arange(12) // 3, True), (np.arange(12) // 4, False)):
        data = Instances.from_arrays(predictions, outcomes, cluster=cluster)
        first = certify(calibrator, first_part(data, 6), max_weight=4)
        if good:
            assert certify(calibrator, data, previous=first).n_observations == 4
        else:
            with pytest.raises(DataError, match="the cluster of instance 6 is in the earlier data"):
                certify(calibrator, data, previous=first)


def test_larger_decisions_than_the_earlier_certificate_allowed_for_are_refused():
    def graphs(sizes):
        rows = [(i, a, b) for i, n in enumerate(sizes) for a in range(n) for b in range(a)]
        frame = pl.DataFrame(rows, schema=["graph", "a", "b"], orient="row")
        value = np.random.default_rng(0).random(len(frame))
        frame = frame.with_columns(p=pl.Series(value), y=pl.Series(value[::-1]))
        return Instances.from_table(frame, instance="graph", prediction="p", outcome="y")

    rule = outrule.Reweight("same", "p")
    calibrator = algorithm_one(outrule.Matching.between("a", "b"), [rule], 0.3)
    calibrator.fit(graphs([3, 3]))
    data = graphs([4, 4, 3, 5, 6])
    first = certify(calibrator, first_part(data, 2))
    second = certify(calibrator, first_part(data, 4), previous=first)
    assert second.n_instances == 4
    with pytest.raises(DataError, match="the new data allow larger decisions than any before"):
        certify(calibrator, data, previous=second)


@pytest.mark.parametrize("kind", [pl.String, pl.Categorical])
def test_the_first_part_of_a_table_is_what_it_was_alone(kind):
    generator = np.random.default_rng(0)

    def table(names, items):
        rows = [(name, item) for name in names for item in items]
        frame = pl.DataFrame(rows, schema=["trip", "driver"], orient="row")
        day = pl.col("trip").str.slice(0, 1).cast(kind)
        score = pl.Series(generator.random(len(frame)))
        return frame.with_columns(day=day, score=score)[generator.permutation(len(frame))]

    roles = {"instance": "trip", "item": "driver", "prediction": "score", "cluster": "day"}
    first, more = table(["z1", "a2", "z3"], ["eve", "bob"]), table(["b1", "c2"], ["ann", "eve"])
    alone = Instances.from_table(first, **roles)
    both = Instances.from_table(pl.concat([first, more]), **roles)
    assert first_part(both, 3).fingerprint == alone.fingerprint
    assert both.slice(0, 3).fingerprint != alone.fingerprint
