"""The detectors: against their definition, and against what makes an alarm rare."""

import math
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from outrule.kernels.growth import log_growth
from outrule.watching.detectors import FULL, SHOWN, STAKES, Detectors, refuted


def played(batches):
    """The detectors of one claim after some batches."""
    detectors = Detectors.fresh(1)
    for number, x in enumerate(batches, 1):
        detectors = detectors.after(log_growth(*[np.array(x, float)] * 2, STAKES)[None], number)
    return detectors


BATCHES = st.lists(st.lists(st.floats(-1, 1), min_size=1, max_size=3), min_size=1, max_size=6)


@settings(max_examples=40)
@given(BATCHES)
def test_evidence_is_the_sum_of_the_bets_that_began_with_every_batch(batches):
    products = np.array([[math.prod(1 - s * y for y in x) for s in STAKES] for x in batches])
    starts = np.array([products[start:].prod(axis=0) for start in range(len(batches))])
    detectors = played(batches)
    assert detectors.evidence()[0] == pytest.approx(starts.sum(axis=0).mean(), rel=1e-9)
    np.testing.assert_allclose(np.exp(detectors.climb[0]), starts.max(axis=0), rtol=1e-9)
    best = np.take_along_axis(starts, detectors.start - 1, axis=0)[0]
    np.testing.assert_allclose(best, starts.max(axis=0), rtol=1e-9)


@pytest.mark.parametrize("values", [(1.0, -1.0), (0.5, -1.0), (1.0, -0.25)])
def test_while_the_claim_is_true_evidence_is_expected_to_be_the_number_of_batches(values):
    # At the edge of the claim, mean zero, the expectation is exact: all sequences of two values.
    chances = np.array([-values[1], values[0]]) / (values[0] - values[1])
    assert chances @ values == pytest.approx(0)
    for n_batches in (1, 3, 5):
        mean = 0.0
        for path in product((0, 1), repeat=2 * n_batches):
            x = np.array([values[one] for one in path]).reshape(n_batches, 2)
            mean += chances[list(path)].prod() * played(x).evidence()[0]
        assert mean == pytest.approx(n_batches, rel=1e-9)


def test_a_long_healthy_time_does_not_delay_an_alarm():
    generator = np.random.default_rng(0)

    def delay(healthy):
        batches = [generator.normal(0.05, 0.3, 50).clip(-1, 1) for _ in range(healthy)]
        detectors, days = played(batches), 0
        while detectors.evidence()[0] < 7300:
            days += 1
            x = generator.normal(-0.1, 0.3, 50).clip(-1, 1)
            detectors = detectors.after(log_growth(x, x, STAKES)[None], healthy + days)
        return days, detectors.since(0) - healthy

    for days, since in (delay(10), delay(1_000)):
        assert days <= 9
        assert abs(since) <= 3


def test_bad_batches_take_back_what_good_ones_have_shown():
    good, bad = np.full(20, 0.2), np.full(20, -0.2)
    assert not played([good]).shown()[0]
    assert played([good] * 5).shown()[0]
    long = played([good] * 1_000)
    assert long.trust.max() == FULL == 2 * SHOWN
    assert not played([good] * 1_000 + [bad] * 100).shown()[0]


def streams(values, n_streams, n_batches, seed):
    """The detectors of many streams, after every batch."""
    generator, detectors = np.random.default_rng(seed), Detectors.fresh(n_streams)
    for number in range(1, n_batches + 1):
        x = generator.choice(values, (n_streams, 20))
        detectors = detectors.after(np.array([log_growth(row, row, STAKES) for row in x]), number)
        yield detectors


def test_a_claim_at_its_edge_is_shown_in_at_most_5_of_100_streams():
    shown = [detectors.shown() for detectors in streams([1.0, -1.0], 300, 100, seed=1)]
    assert 1 <= np.any(shown, axis=0).sum() <= 15


def test_a_year_at_the_edge_has_an_alarm_in_at_most_5_of_100():
    found = [each.evidence() for each in streams([0.5, 0.0, -0.5], 100, 365, seed=2)]
    alarms = np.max(found, axis=0) >= 7300
    assert alarms.sum() <= 5


@settings(max_examples=50)
@given(st.lists(st.floats(0, 1e4), min_size=1, max_size=5), st.floats(1, 2e3))
def test_a_claim_is_refuted_if_every_set_that_contains_it_is(evidence, level):
    evidence = np.array(evidence)
    numbers = range(len(evidence))
    expected = {
        claim
        for claim in numbers
        if all(
            evidence[list(some)].mean() >= level * (1 - 1e-12)
            for size in numbers
            for some in combinations(numbers, size + 1)
            if claim in some
        )
    }
    found = refuted(evidence, level)
    assert set(found) <= expected
    assert set(refuted(evidence, level * (1 - 1e-9))) >= expected
    assert found == sorted(found, key=lambda claim: -evidence[claim])


def test_evidence_beyond_all_numbers_stays_finite():
    detectors = played([np.full(5_000, -1.0)] * 3)
    assert np.isfinite(detectors.evidence()).all()
    assert np.isfinite(detectors.doubt).all()
