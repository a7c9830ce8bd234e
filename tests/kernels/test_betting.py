"""Betting: the kernels against a slow twin, and what makes the bounds valid."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st

from outrule.kernels import betting


def slow_stakes(value, weight, level, planned=None):
    found = []
    for i in range(len(value)):
        n = len(value) if planned is None else planned[i]
        d, w = value[:i], weight[:i]
        variance = 0.25
        if i:
            ratio = sum(d) / sum(w)
            squares = sum((x - ratio * y) ** 2 for x, y in zip(d, w, strict=True))
            variance = (sum(y * y for y in w) / i / 4 + squares) / (i + 1)
        found.append(math.sqrt(2 * level / n / variance))
    return found


def slow_capital(value, weight, level, s):
    """The capital after every bet, from 1."""
    path = [1.0]
    for stake, d, w in zip(slow_stakes(value, weight, level), value, weight, strict=True):
        path.append(path[-1] * (1 + min(stake, 0.9 / s) * (d - s * w)))
    return path


def slow_lower_bound(value, weight, level):
    low, high = 0.0, 1.0
    for _ in range(40):
        s = (low + high) / 2
        low, high = (
            (s, high) if max(slow_capital(value, weight, level, s)) >= math.exp(level) else (low, s)
        )
    return low


def stakes(value, weight):
    return betting.stakes(value, weight, np.full(len(value), len(value)))


def fast(value, weight, level):
    return betting.lower_bound(value, weight, stakes(value, weight), level)


levels = st.sampled_from([0.1, math.log(20), 8.0, 25.0])


@st.composite
def samples(draw, most=25):
    n = draw(st.integers(1, most))
    weight = draw(st.lists(st.sampled_from([0.001, 0.2, 0.5, 1.0]), min_size=n, max_size=n))
    share = draw(st.lists(st.floats(0, 1), min_size=n, max_size=n))
    return np.array(weight) * np.array(share), np.array(weight)


@given(samples(), levels)
def test_the_bound_is_that_of_the_slow_twin(sample, level):
    assert fast(*sample, level) == pytest.approx(slow_lower_bound(*sample, level), abs=1e-9)


@given(samples(), levels, st.floats(0.01, 1))
def test_the_evidence_is_the_capital_of_the_slow_twin_stopped_at_the_level(sample, level, s):
    path = slow_capital(*sample, level, s)
    stopped = next((c for c in path[1:] if c >= math.exp(level)), path[-1])
    found = betting.evidence(*sample, stakes(*sample), s, level)
    assert found == pytest.approx(min(math.log(stopped), level), abs=1e-9)


@given(samples(), levels)
def test_the_largest_capital_falls_as_the_number_bet_against_grows(sample, level):
    stake = math.sqrt(level) * stakes(*sample)
    tops = [betting.log_capital(*sample, stake, s, np.inf)[0] for s in np.linspace(0, 1, 30)]
    assert all(b <= a + 1e-12 for a, b in pairwise(tops))


@given(samples(), st.integers(0, 24))
def test_a_stake_looks_only_at_the_past(sample, place):
    value, weight = sample
    place %= len(value)
    other = value.copy()
    other[place:] = weight[place:] - value[place:]
    np.testing.assert_array_equal(
        stakes(value, weight)[: place + 1], stakes(other, weight)[: place + 1]
    )


@given(samples(), samples(), levels)
def test_bets_planned_before_a_look_are_those_of_the_look_alone(first, more, level):
    value, weight = (np.concatenate(pair) for pair in zip(first, more, strict=True))
    n, every = len(first[0]), len(value)
    planned = np.repeat([n, every], [n, every - n])
    found = betting.stakes(value, weight, planned)
    np.testing.assert_array_equal(found[:n], stakes(*first))
    np.testing.assert_allclose(
        math.sqrt(level) * found, slow_stakes(value, weight, level, planned), rtol=1e-6
    )


@given(samples())
def test_stakes_on_the_other_side_are_the_same(sample):
    value, weight = sample
    np.testing.assert_allclose(stakes(value, weight), stakes(weight - value, weight), rtol=1e-6)


@pytest.mark.parametrize("share", [0.0, 1e-6, 0.5, 1.0])
@pytest.mark.parametrize("n", [1, 10, 50_000])
def test_capitals_beyond_the_range_of_floats_are_kept(share, n):
    weight = np.ones(n)
    bound = fast(share * weight, weight, math.log(20))
    assert 0 <= bound <= share
    if n == 50_000 and share > 0:
        assert bound > share - 1e-3 or share < 1e-3
    stake = np.full(n, np.inf)
    top, last = betting.log_capital(0 * weight, weight, stake, 0.5, np.inf)
    assert (top, last) == (0.0, pytest.approx(n * math.log(0.1)))


def test_nothing_is_known_of_a_ratio_whose_values_are_all_zero():
    assert fast(np.zeros(1_000), np.ones(1_000), 3.0) == 0.0
