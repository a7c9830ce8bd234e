"""Confidence bounds: how often they hold, by hand where that can be done, and the observations."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st
from scipy.stats import ttest_1samp

from outrule import Instances
from outrule.errors import DataError
from outrule.proof.confidence import (
    Estimates,
    Observations,
    Range,
    Sides,
    observations_needed,
    shuffled,
    student,
)

UNIT = Range(0.0, 1.0)


def observations(n, weight=None, cluster=None, max_weight=None):
    predictions = np.full((n, 2), 0.5)
    return Observations.from_instances(
        Instances.from_arrays(predictions, weight=weight, cluster=cluster), max_weight
    )


def test_one_bet_by_hand():
    # One observation of value 1; the stake is sqrt(2 ln 4 / (1/4)), and 1 + stake (1 - s) = 4.
    found = observations(1).bets(np.ones(1), UNIT).lower(0.25)
    assert found == pytest.approx(1 - 3 / math.sqrt(8 * math.log(4)))


def draws(kind, generator, n):
    if kind == "coin":
        return (generator.random(n) < 0.5).astype(float), 0.5
    if kind == "rare":
        return (generator.random(n) < 0.02).astype(float), 0.02
    if kind == "often":
        return (generator.random(n) < 0.97).astype(float), 0.97
    return generator.beta(0.5, 2.0, n), 0.2


@pytest.mark.parametrize("kind", ["coin", "rare", "often", "skewed"])
def test_each_bound_holds_as_often_as_it_says(kind):
    generator, held = np.random.default_rng(0), []
    seen = observations(200)
    for _ in range(1_000):
        values, truth = draws(kind, generator, 200)
        bets = seen.bets(values, UNIT)
        held.append((bets.lower(0.1) <= truth, bets.upper(0.1) >= truth))
    assert np.min(np.mean(held, axis=0)) >= 0.9


def test_the_bound_of_a_ratio_holds_where_size_and_value_depend_on_each_other():
    # Sizes 1 and 40: in large clusters the value is 0, in small ones 1; the ratio is 10 / 50.
    generator, held = np.random.default_rng(1), []
    for _ in range(400):
        sizes = np.where(generator.random(60) < 0.2, 40, 1)
        group = np.repeat(np.arange(60), sizes)
        values = (sizes == 1)[group] * 1.0
        bets = observations(len(group), cluster=group, max_weight=40).bets(values, UNIT)
        truth = 0.8 / (0.8 + 0.2 * 40)
        held.append((bets.lower(0.1) <= truth, bets.upper(0.1) >= truth))
    assert np.min(np.mean(held, axis=0)) >= 0.9


def test_the_evidence_is_an_e_value():
    generator, seen = np.random.default_rng(2), observations(100)
    found = [seen.bets(generator.random(100), UNIT).evidence_below(0.5, 0.01) for _ in range(2_000)]
    assert np.mean(found) <= 1.1
    assert max(found) <= 100 * (1 + 1e-12)
    assert seen.bets(np.full(100, 0.1), UNIT).evidence_below(0.5, 0.01) == pytest.approx(100)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=30), st.floats(0.1, 10), st.floats(-3, 3))
def test_the_bounds_move_with_the_units_of_the_observations(values, factor, shift):
    values, seen = np.array(values), observations(len(values))
    plain = seen.bets(values, Range(-1.0, 1.0))
    moved = seen.bets(factor * values + shift, Range(shift - factor, shift + factor))
    for one, other in (
        (plain.interval(0.05), moved.interval(0.05)),
        (plain.approximate(0.05), moved.approximate(0.05)),
    ):
        np.testing.assert_allclose(other, factor * np.array(one) + shift, atol=1e-8)


def test_a_larger_bound_on_the_weights_widens_the_interval_and_changes_nothing_else():
    values = np.resize([0.0, 1.0, 1.0], 300)
    found = [observations(300, max_weight=most).bets(values, UNIT) for most in (1, 30, 300)]
    widths = [bets.upper(0.05) - bets.lower(0.05) for bets in found]
    assert widths == sorted(widths)
    assert widths[-1] > 2 * widths[0]
    assert len({(bets.mean, *bets.approximate(0.05)) for bets in found}) == 1


def test_the_approximate_interval_of_equal_weights_is_that_of_the_t_test():
    values = np.random.default_rng(0).normal(0.5, 0.1, 40)
    expected = ttest_1samp(values, 0).confidence_interval(0.9)
    found = observations(40).bets(values, Range(-9.0, 9.0)).approximate(0.1)
    np.testing.assert_allclose(found, (values.mean(), *expected))


def test_the_approximate_interval_of_a_ratio_by_hand():
    # D = 1, 2, 6 and W = 1, 2, 3: ratio 1.5, residuals -0.5, -1, 1.5, squares 3.5;
    # error sqrt(3 / 2 * 3.5) / 6, and t with 2 degrees of freedom is 4.302653 at 0.975.
    found = student(np.array([1.0, 2, 6]), np.array([1.0, 2, 3]), Range(-9.0, 9.0), 0.05)
    half = 4.30265273 * math.sqrt(5.25) / 6
    np.testing.assert_allclose(found, (1.5, 1.5 - half, 1.5 + half))


def test_one_observation_has_no_approximate_interval_but_the_range():
    assert observations(1).bets(np.array([0.25]), UNIT).approximate(0.05) == (0.25, 0.0, 1.0)


@pytest.mark.parametrize(("mean", "level"), [(0.6, 0.5), (0.4, 0.5), (0.55, 0.5)])
def test_about_as_many_observations_as_needed_decide_on_which_side_the_mean_is(mean, level):
    generator = np.random.default_rng(0)
    values = (np.arange(1_000) < 1_000 * mean) * 1.0
    n = observations(1_000).bets(values, UNIT).needed(level, 0.05)
    decided = []
    for size in (n // 3, n, 2 * n):
        rows = generator.random((200, size)) < mean
        bets = [observations(size).bets(row * 1.0, UNIT) for row in rows]
        sides = [b.lower(0.05) > level if mean > level else b.upper(0.05) < level for b in bets]
        decided.append(np.mean(sides))
    assert decided[0] < 0.4 < decided[1] < 0.75
    assert decided[2] > 0.85


def test_the_number_needed_of_a_log_is_for_the_side_on_which_its_mean_is():
    def needed(low, middle, high):
        means = (np.where(np.arange(1_000) % 2, mean + 0.2, mean - 0.2) for mean in (low, high))
        kind = Sides(next(means), np.full(1_000, middle), next(means))
        return observations(1_000).bets(Estimates((kind,), (UNIT,)), UNIT).needed(0.5, 0.05)

    below = needed(0.4, 0.4, 0.45)
    assert below > 100
    assert needed(0.6, 0.4, 0.45) == below  # bets from below have no say
    assert needed(0.6, 0.4, 0.55) is None  # the bets from above see nothing to win


@given(st.floats(1e-3, 0.4), st.floats(0, 0.25), st.floats(0.05, 0.95))
def test_a_smaller_gain_or_a_larger_variance_needs_more(gain, variance, s):
    n = observations_needed(gain, variance, s, 0.05)
    assert n is None or n >= 1
    less = observations_needed(gain / 2, variance, s, 0.05)
    assert less is None or n is None or less >= n


@pytest.mark.parametrize("gain", [0.0, -1.0, math.nan, 1e-12])
def test_no_number_is_enough_for_no_gain(gain):
    assert observations_needed(gain, variance=1.0, s=0.5, delta=0.05) is None


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
    expected = np.average(values, weights=weights if weighted else None)
    assert counted.mean(values) == pytest.approx(expected, abs=1e-12)
    assert counted.bets(values, Range(-2.0, 2.0)).mean == counted.mean(values)
    kept = weights > 0 if weighted else np.full(len(values), True)
    assert counted.n == (len(set(clusters[kept])) if clustered else kept.sum())
    assert len(counted.of(values)) == counted.n


def in_order(counted, values):
    """Sums by number of the observation, whatever the order of the bets."""
    return counted.of(np.array(values))[np.argsort(shuffled(counted.n))]


def test_clusters_of_unequal_size_by_hand():
    counted = observations(4, cluster=["a", "b", "a", "a"])
    assert (counted.n, counted.largest, counted.declared) == (2, 3.0, False)
    np.testing.assert_allclose(in_order(counted, [1.0, 8.0, 2.0, 3.0]), [6.0, 8.0])
    np.testing.assert_allclose(counted.total[np.argsort(shuffled(2))], [3.0, 1.0])


def test_an_instance_without_weight_is_no_observation_and_its_value_does_not_matter():
    counted = observations(3, weight=[1.0, 0.0, 3.0])
    np.testing.assert_allclose(in_order(counted, [1.0, np.pi, 2.0]), [1.0, 6.0])


def test_a_cluster_without_weight_is_no_observation():
    counted = observations(4, weight=[1.0, 0.0, 0.0, 1.0], cluster=[0, 1, 1, 2])
    np.testing.assert_allclose(in_order(counted, [1.0, 9.0, 9.0, 2.0]), [1.0, 2.0])


def test_equal_weights_are_no_weights():
    values = np.random.default_rng(0).random(7)
    weighted, plain = observations(7, weight=np.full(7, 0.3)), observations(7)
    assert weighted.declared
    assert plain.declared
    np.testing.assert_allclose(
        weighted.bets(values, UNIT).interval(0.05), plain.bets(values, UNIT).interval(0.05)
    )


def test_only_clusters_and_unequal_weights_need_a_declared_bound():
    assert observations(3).declared
    assert not observations(3, weight=[1, 2, 1]).declared
    assert not observations(4, cluster=[0, 0, 1, 1]).declared  # others may be larger
    assert observations(4, cluster=[0, 0, 1, 1], max_weight=2).declared
    with pytest.raises(DataError, match="an instance has weight 2, more than max_weight=1"):
        observations(3, weight=[1, 2, 1], max_weight=1)


def test_the_order_of_the_bets_is_a_fixed_shuffle_of_the_numbers():
    assert shuffled(8).tolist() == shuffled(8).tolist()
    for n in (1, 2, 1_000):
        assert sorted(shuffled(n)) == list(range(n))
    places = shuffled(10_000)
    assert abs(np.corrcoef(places, np.arange(10_000))[0, 1]) < 0.03
    assert abs(np.corrcoef(places[1:], places[:-1])[0, 1]) < 0.03


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical, pl.Int64])
def test_the_order_of_the_rows_of_a_table_changes_no_bound(dtype):
    n, generator = 40, np.random.default_rng(0)
    names = [f"{i * 7 % n:03d}" for i in range(n)]
    frame = pl.DataFrame({"trip": names, "day": [name[:2] for name in names], "score": 0.5})
    frame = frame.with_columns(pl.col("trip", "day").cast(dtype), value=generator.random(n))
    for cluster in (None, "day"):
        found = []
        for order in (np.arange(n), generator.permutation(n)):
            rows = frame[order]
            table = Instances.from_table(rows, instance="trip", prediction="score", cluster=cluster)
            bets = Observations.from_instances(table).bets(rows["value"].to_numpy(), UNIT)
            found.append(bets.interval(0.05))
        np.testing.assert_allclose(*found, rtol=1e-12)
