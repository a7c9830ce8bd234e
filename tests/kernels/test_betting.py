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
    return slow_path(value, weight, slow_stakes(value, weight, level), [0.0] * len(value), s)


def slow_path(value, weight, stakes, least, s):
    path = [1.0]
    for stake, d, w, floor in zip(stakes, value, weight, least, strict=True):
        most = 0.9 / (s - floor) if s > floor else math.inf
        path.append(path[-1] * (1 + min(stake, most) * (d - s * w)))
    return path


def slow_variance(value, weight, i, first):
    """Before bet i, as if one more observation had the first variance."""
    if i == 0:
        return first / 4
    d, w = value[:i], weight[:i]
    ratio = sum(d) / sum(w)
    squares = sum((x - ratio * y) ** 2 for x, y in zip(d, w, strict=True))
    return (first / 4 * sum(y * y for y in w) / i + squares) / (i + 1)


def slow_striving_path(value, weight, stakes, least, s, level):
    """The capital after every bet, where a stake is that of a goal of 1."""
    path = [1.0]
    for stake, d, w, floor in zip(stakes, value, weight, least, strict=True):
        goal = max(level - math.log(path[-1]), 0.5)
        most = 0.9 / (s - floor) if s > floor else math.inf
        path.append(path[-1] * (1 + min(math.sqrt(goal) * stake, most) * (d - s * w)))
    return path


def slow_kinds(values, weight, least, planned):
    """The kind of every bet, and its stake where the capital has to grow by a factor of e."""
    widths = [1 - 2 * floor for floor in least]
    kinds, stakes, chosen = [], [], 0
    for i in range(len(weight)):
        spread = [
            slow_variance(row, weight, i, width * min(widths))
            for row, width in zip(values, widths, strict=True)
        ]
        if i == 0 or (i >= 64 and i & (i - 1) == 0):
            sizes = [
                min(math.sqrt(6 / (planned[i] * variance)), 1.8 / width)
                for variance, width in zip(spread, widths, strict=True)
            ]
            far = [3 / (planned[i] * x) + x * v / 2 for x, v in zip(sizes, spread, strict=True)]
            chosen = far.index(min(far))
        kinds.append(chosen)
        stakes.append(math.sqrt(2 / ((1.1 * planned[i] - i) * spread[chosen])))
    return kinds, stakes


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


def of_one_kind(value):
    return np.zeros(len(value), dtype=np.int8), np.zeros(1)


def fast(value, weight, level):
    stake = stakes(value, weight)
    return betting.lower_bound((value, weight, stake, *of_one_kind(value), False), level)


def bets_on(rows, weight, planned, least):
    """The arguments of the kernels that play."""
    kind, stake = betting.stakes_on_kinds(rows, weight, planned, least)
    return rows[kind, np.arange(len(weight))], weight, stake, kind, least


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
    found = betting.evidence((*sample, stakes(*sample), *of_one_kind(sample[0]), False), s, level)
    assert found == pytest.approx(min(math.log(stopped), level), abs=1e-9)


@given(samples(), levels)
def test_the_largest_capital_falls_as_the_number_bet_against_grows(sample, level):
    stake = math.sqrt(level) * stakes(*sample)
    kinds = of_one_kind(stake)
    shares = np.linspace(0, 1, 30)
    tops = [betting.log_capital((*sample, stake, *kinds, False), s, np.inf)[0] for s in shares]
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
    kinds = of_one_kind(weight)
    top, last = betting.log_capital((0 * weight, weight, stake, *kinds, False), 0.5, np.inf)
    assert (top, last) == (0.0, pytest.approx(n * math.log(0.1)))


def test_nothing_is_known_of_a_ratio_whose_values_are_all_zero():
    assert fast(np.zeros(1_000), np.ones(1_000), 3.0) == 0.0


LEAST = np.array([0.48, 0.4, 0.0])


def estimates(n, seed, weights=(1.0,)):
    """Rows with the same mean: the higher their floor, the noisier; and the weights."""
    generator = np.random.default_rng(seed)
    weight = generator.choice(weights, size=n)
    rows = []
    for least, rare in zip(LEAST, (60, 8, 1.2), strict=True):
        seen = generator.random(n) < 1 / rare
        rows.append(weight * (least + (0.55 - least) * rare * seen))
    return np.array(rows), weight


@pytest.mark.parametrize("n", [1, 63, 64, 65, 300])
@pytest.mark.parametrize("weights", [(1.0,), (0.1, 0.5, 1.0)])
def test_kinds_and_their_bounds_are_those_of_the_slow_twin(n, weights):
    rows, weight = estimates(n, n, weights)
    planned = np.full(n, n)
    kind, stake = betting.stakes_on_kinds(rows, weight, planned, LEAST)
    kinds, slow = slow_kinds(rows.tolist(), weight.tolist(), LEAST.tolist(), planned.tolist())
    assert kind.tolist() == kinds
    np.testing.assert_allclose(stake, slow, rtol=1e-9)
    value, floors = rows[kind, np.arange(n)], LEAST[kind].tolist()
    found = betting.lower_bound((value, weight, stake, kind, LEAST, True), 3.0)
    low, high = 0.0, 1.0
    for _ in range(50):
        s = (low + high) / 2
        wins = max(slow_striving_path(value, weight, slow, floors, s, 3.0)) >= math.exp(3.0)
        low, high = (s, high) if wins else (low, s)
    assert found == pytest.approx(low, abs=1e-9)
    for s in (0.3, 0.5, 0.56, 1.0):
        path = slow_striving_path(value, weight, slow, floors, s, 3.0)
        stopped = next((c for c in path if c >= math.exp(3.0)), path[-1])
        won = betting.evidence((value, weight, stake, kind, LEAST, True), s, 3.0)
        assert won == pytest.approx(min(math.log(stopped), 3.0), abs=1e-6)


@given(samples(), levels, st.sampled_from([0.0, 0.2, 0.45]))
def test_capitals_of_bets_that_strive_fall_as_the_number_bet_against_grows(sample, level, floor):
    value, weight = sample
    value, least = (floor + value * np.where(value < 0.5, 1, 40)) * weight, np.array([floor])
    n = len(value)
    bets = bets_on(value[None], weight, np.full(n, n), least)
    shares = np.linspace(0, 1, 30)
    paths = [betting.log_capital_striving((*bets, True), s, level, np.inf) for s in shares]
    for which in range(2):  # the largest, and the last one
        ends = [path[which] for path in paths]
        assert all(b <= a + 1e-9 for a, b in pairwise(ends))


def test_one_kind_has_the_stakes_of_values_that_are_known_for_the_bets_that_are_left():
    rows, weight = estimates(200, 0, (0.1, 0.5, 1.0))
    planned = np.full(200, 200)
    kind, stake = betting.stakes_on_kinds(rows[2:], weight, planned, np.zeros(1))
    assert not kind.any()
    known = betting.stakes(rows[2], weight, planned)
    np.testing.assert_allclose(stake, known * np.sqrt(200 / (220 - np.arange(200))), rtol=1e-9)


def test_striving_gets_a_bound_nearer_to_the_mean():
    near, planned = [], np.full(2_000, 2_000)
    for seed in range(40):
        rows, weight = estimates(2_000, 3_000 + seed)
        bets = bets_on(rows[2:], weight, planned, np.zeros(1))
        fixed = (*bets[:2], betting.stakes(rows[2], weight, planned), *bets[3:])
        bounds = [betting.lower_bound((*one, one is bets), 3.0) for one in (bets, fixed)]
        near.append(rows[2].mean() - bounds)
    striving, planned_at_the_start = np.mean(near, axis=0)
    assert striving < 0.95 * planned_at_the_start


def test_kinds_look_only_at_the_past_and_at_what_was_planned():
    rows, weight = estimates(600, 1)
    other = rows.copy()
    other[:, 300:] += 0.3
    planned = np.repeat([300, 600], 300)
    found = [betting.stakes_on_kinds(one, weight, planned, LEAST) for one in (rows, other)]
    alone = betting.stakes_on_kinds(rows[:, :300].copy(), weight[:300], planned[:300], LEAST)
    for part in range(2):
        np.testing.assert_array_equal(found[0][part][:300], found[1][part][:300])
        np.testing.assert_array_equal(found[0][part][:300], alone[part])


def test_bets_end_on_the_kind_that_is_worth_it():
    rows, weight = estimates(20_000, 2)
    same, planned = np.full((3, 20_000), 0.5), np.full(20_000, 20_000)
    noisy, equal = (betting.stakes_on_kinds(x, weight, planned, LEAST)[0] for x in (rows, same))
    assert noisy[-1] == 2  # the widest range, and the least noise
    assert (equal == 0).all()  # no noise at all: the narrowest


@pytest.mark.parametrize("planned", [np.full(300, 300), np.repeat([60, 150, 300], [60, 90, 150])])
def test_the_bound_of_bets_on_kinds_holds_as_often_as_it_says(planned):
    reached = []
    for seed in range(400):
        rows, weight = estimates(300, 1_000 + seed)
        bets = bets_on(rows, weight, planned, LEAST)
        reached.append(betting.lower_bound((*bets, True), math.log(10)) > 0.55)
    assert np.mean(reached) <= 0.1
