"""Confidence bounds against hand computations, and what counts as one observation."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from outrule import Instances
from outrule.proof.confidence import Observations, bernstein, half_width, observations_needed

deltas = st.floats(1e-6, 0.5)
widths = st.floats(0.01, 100.0)
variances = st.floats(0.0, 25.0)


def observations(n, weight=None, cluster=None):
    predictions = np.full((n, 2), 0.5)
    return Observations.from_instances(
        Instances.from_arrays(predictions, weight=weight, cluster=cluster)
    )


def test_the_bound_is_that_of_maurer_and_pontil_by_hand():
    # n = 4, mean 1/2, V = 1/3; delta = 2 / e makes the logarithm 1:
    # sqrt(2/3 / 4) + 7 / (3 * 3) = 0.40825 + 0.77778.
    estimate = bernstein(np.array([0.0, 1.0, 0.0, 1.0]), width=1.0, delta=2 / math.e)
    assert estimate.mean == 0.5
    assert estimate.lower == pytest.approx(0.5 - 0.4082482905 - 0.7777777778, abs=1e-9)
    assert estimate.upper == pytest.approx(0.5 + 0.4082482905 + 0.7777777778, abs=1e-9)


def test_their_sample_variance_over_pairs_is_the_one_used():
    observed = np.random.default_rng(0).random(50)
    pairs = (observed[:, None] - observed[None, :]) ** 2
    variance = pairs.sum() / 2 / (50 * 49)
    log = math.log(2 / 0.05)
    half = math.sqrt(2 * variance * log / 50) + 7 * log / (3 * 49)
    assert observed.mean() - bernstein(observed, 1.0, 0.05).lower == pytest.approx(half, rel=1e-12)


@given(st.integers(2, 10**6), variances, widths, deltas)
def test_more_observations_a_smaller_range_and_less_confidence_bring_the_bound_closer(
    n, variance, width, delta
):
    half = half_width(n, variance, width, delta)
    assert half_width(n + 1, variance, width, delta) < half
    assert half_width(n, variance, 0.5 * width, delta) < half
    assert half_width(n, variance, width, min(0.9, 1.5 * delta)) < half
    assert half_width(n, variance + 0.1, width, delta) > half


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=30), st.floats(0.1, 10), st.floats(-3, 3))
def test_the_bounds_move_with_the_units_of_the_observations(values, factor, shift):
    observed = np.array(values)
    plain = bernstein(observed, 2.0, 0.05)
    moved = bernstein(factor * observed + shift, 2.0 * factor, 0.05)
    np.testing.assert_allclose(moved, factor * np.array(plain) + shift, atol=1e-9)


def test_one_observation_says_nothing_beyond_the_range():
    assert bernstein(np.array([0.25]), width=2.0, delta=0.05) == (0.25, -1.75, 2.25)


def test_equal_observations_leave_only_the_term_of_the_range():
    estimate = bernstein(np.full(101, 0.25), width=1.0, delta=0.05)
    assert estimate.mean == 0.25
    assert estimate.upper - 0.25 == pytest.approx(7 * math.log(40) / 300, rel=1e-12)


def test_each_bound_holds_as_often_as_it_says_for_observations_that_are_not_alike():
    # Theorem 11 needs independence only: half of these are fair coins, half are almost constant.
    generator = np.random.default_rng(0)
    chance = np.repeat([0.5, 0.02], 100)
    draws = (generator.random((2_000, 200)) < chance).astype(float)
    estimates = np.array([bernstein(row, 1.0, 0.1) for row in draws])
    assert (estimates[:, 1] <= chance.mean()).mean() >= 0.9
    assert (estimates[:, 2] >= chance.mean()).mean() >= 0.9


@given(st.floats(1e-4, 5.0), variances, st.floats(0.01, 10.0), deltas)
def test_the_number_needed_is_the_smallest_that_is_enough(distance, variance, width, delta):
    n = observations_needed(distance, variance, width, delta)
    assert n is not None
    assert half_width(n, variance, width, delta) <= distance
    assert n == 2 or half_width(n - 1, variance, width, delta) > distance


@pytest.mark.parametrize("distance", [0.0, -1.0, math.nan, 1e-12])
def test_no_number_is_enough_for_no_distance(distance):
    assert observations_needed(distance, variance=1.0, width=1.0, delta=0.05) is None


weights_and_clusters = st.integers(1, 20).flatmap(
    lambda n: st.tuples(
        st.lists(st.floats(-2, 2), min_size=n, max_size=n),
        st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=n, max_size=n).filter(any),
        st.lists(st.integers(0, 5), min_size=n, max_size=n),
    )
)


@given(weights_and_clusters, st.booleans(), st.booleans())
def test_the_mean_over_observations_is_the_weighted_mean_over_instances(made, weighted, clustered):
    values, weights, clusters = (np.array(part) for part in made)
    counted = observations(
        len(values), weights if weighted else None, clusters if clustered else None
    )
    observed = counted.of(values)
    expected = np.average(values, weights=weights if weighted else None)
    assert observed.mean() == pytest.approx(expected, abs=1e-12)
    assert len(observed) == counted.n
    kept = weights > 0 if weighted else np.full(len(values), True)
    assert counted.n == (len(set(clusters[kept])) if clustered else kept.sum())


@given(weights_and_clusters)
def test_an_observation_is_at_most_the_largest_share_times_the_range(made):
    values, weights, clusters = (np.array(part) for part in made)
    counted = observations(len(values), weights, clusters)
    assert np.abs(counted.of(values)).max() <= counted.largest * np.abs(values).max() + 1e-12
    assert counted.of(np.ones(len(values))).max() == pytest.approx(counted.largest)
    assert counted.largest >= 1 - 1e-12


def test_clusters_of_unequal_size_by_hand():
    counted = observations(4, cluster=["a", "b", "a", "a"])
    assert counted.n == 2
    assert counted.largest == pytest.approx(1.5)  # three of four instances, of two observations
    np.testing.assert_allclose(counted.of(np.array([1.0, 8.0, 2.0, 3.0])), [3.0, 4.0])


def test_an_instance_without_weight_is_no_observation_and_its_value_does_not_matter():
    counted = observations(3, weight=[1.0, 0.0, 3.0])
    assert counted.n == 2
    np.testing.assert_allclose(counted.of(np.array([1.0, np.pi, 2.0])), [0.5, 3.0])


def test_a_cluster_without_weight_is_no_observation():
    counted = observations(4, weight=[1.0, 0.0, 0.0, 1.0], cluster=[0, 1, 1, 2])
    assert counted.n == 2
    np.testing.assert_allclose(counted.of(np.array([1.0, 9.0, 9.0, 2.0])), [1.0, 2.0])


def test_equal_weights_are_no_weights():
    values = np.random.default_rng(0).random(7)
    weighted, plain = observations(7, weight=np.full(7, 0.3)), observations(7)
    np.testing.assert_allclose(weighted.of(values), plain.of(values))
    assert weighted.largest == pytest.approx(plain.largest) == 1.0
