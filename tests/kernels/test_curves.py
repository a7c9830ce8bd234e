"""Curve patches and the sums behind them against plain loops."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import slow_curves
from hypothesis import given, settings, strategies as st

from outrule.calibration.curves import pack
from outrule.kernels import curves, tally

SEEDS = st.integers(0, 2**32 - 1)


def draw(seed, *, k=2, simplex=False):
    """Ragged instances, decisions of three tests with gaps, and a list of curves."""
    generator = np.random.default_rng(seed)
    n = int(generator.integers(1, 150))
    offsets = np.concatenate(([0], np.cumsum(generator.integers(2, 6, size=n))))
    total = int(offsets[-1])
    p = np.rint(generator.random(total) * 8) / 8 if seed % 2 else generator.random(total)
    frozen = np.zeros(total, dtype=bool)
    if simplex:
        frozen[offsets[1:] - 1] = seed % 3 == 0
    picks = np.full((3, k, n), 255, dtype=np.uint8)
    marks = np.zeros((3, total), dtype=bool)
    for r in range(3):
        for i, size in enumerate(np.diff(offsets)):
            chosen = np.sort(generator.permutation(size)[: generator.integers(k + 1)])
            picks[r, : len(chosen), i] = chosen
            marks[r, offsets[i] + chosen] = True
    patches = []
    for _ in range(6):
        size = int(generator.integers(1, 6))
        x, y = np.sort(generator.random((2, size)), axis=1)
        patches.append((int(generator.integers(-1, 3)), x, y))
    return p, offsets, picks, marks, frozen, patches


def packed(patches):
    return np.array([test for test, _, _ in patches]), *pack([patch[1:] for patch in patches])


@given(SEEDS, st.booleans())
def test_curves_move_the_bits_of_the_twin(seed, has_flags):
    p, offsets, picks, marks, frozen, patches = draw(seed)
    expected = slow_curves.patch(p.tolist(), offsets, marks, patches, frozen, simplex=False)
    flags = frozen if has_flags else np.zeros(0, dtype=bool)
    curves.patch_curves(p, offsets, picks, *packed(patches), flags, False)
    assert p.tolist() == expected


@settings(max_examples=15)  # the twin is slow
@given(SEEDS)
def test_curves_on_the_simplex_move_as_the_twin_and_leave_frozen_items(seed):
    p, offsets, picks, marks, frozen, patches = draw(2 * seed, k=1, simplex=True)
    for start, stop in pairwise(offsets):
        p[start:stop] = slow_curves.project(p[start:stop].tolist(), frozen[start:stop])
    before = p.copy()
    expected = slow_curves.patch(p.tolist(), offsets, marks, patches, frozen, simplex=True)
    curves.patch_curves(p, offsets, picks, *packed(patches), frozen, True)
    np.testing.assert_allclose(p, expected, atol=1e-9)
    assert (p[frozen] == before[frozen]).all()


@given(SEEDS, st.booleans(), st.booleans())
def test_one_move_has_the_bits_of_a_patch_and_says_how_far_the_errors_fall(seed, simplex, logged):
    p, offsets, picks, _, frozen, patches = draw(seed, k=1 if simplex else 2, simplex=simplex)
    generator = np.random.default_rng(seed)
    if simplex:
        tally.project_simplices(p, offsets, frozen)
    outcome, weight = generator.random(len(p)), generator.random((2, len(offsets) - 1))
    edges, values = np.array([0.2, 0.5]), np.empty((len(p), 2))
    levels = np.empty(len(p), dtype=np.uint8)
    upweight = 3 * generator.random(len(p)) * logged
    given_upweight = upweight if logged else np.empty(0)
    shares = (weight[0], given_upweight, frozen)
    curves.weigh(p, outcome, offsets, *shares, edges, values, levels)
    before, expected = p.copy(), p.copy()
    ends, points = pack([patches[0][1:]])
    curves.patch_curves(expected, offsets, picks, np.array([1]), ends, points, frozen, simplex)
    state = (given_upweight, frozen, edges, values, levels)
    spare = np.empty((2, np.diff(offsets).max())) if simplex else None
    falls = curves.move_along(p, outcome, offsets, picks[1], points, *weight, *state, spare)
    assert p.tolist() == expected.tolist()
    of_item = np.repeat(weight, np.diff(offsets), axis=1)
    of_item = of_item * upweight if logged else of_item
    fall = (of_item * ((outcome - before) ** 2 - (outcome - p) ** 2)).sum(axis=1)
    np.testing.assert_allclose(falls, fall, atol=1e-10)
    kept, kept_levels = values.copy(), levels.copy()
    curves.weigh(p, outcome, offsets, *shares, edges, values, levels)
    kept_weight = np.where(frozen, 0, of_item[0]) if len(frozen) else of_item[0]
    np.testing.assert_allclose(values[:, 1], kept_weight)
    assert (kept == values).all()
    assert (kept_levels == levels).all()


@given(SEEDS)
def test_sums_by_level_and_by_bin_are_those_of_the_marks(seed):
    p, offsets, picks, marks, _, _ = draw(seed)
    generator = np.random.default_rng(seed)
    values, outcome = generator.random((len(p), 2)), generator.random(len(p))
    edges = np.array([0.25, 0.5, 0.75])
    levels = np.searchsorted(edges, p, side="right").astype(np.uint8)
    assert [curves.level_of(edges, one) for one in p] == levels.tolist()
    sums = np.zeros((3, 4, 2))
    curves.sum_by_level(values, levels, offsets, picks, 0, 1, sums)
    for r, level in np.ndindex(3, 4):
        chosen = values[marks[r] & (levels == level)]
        np.testing.assert_allclose(sums[r, level], chosen.sum(axis=0), atol=1e-9)
    places = curves.marked_places(picks[0], offsets, values)
    assert places.tolist() == np.flatnonzero(marks[0]).tolist()
    bins = np.zeros((4, 4))
    curves.sum_by_bin(places, p, outcome, values, edges, bins)
    for level in range(4):
        chosen = places[levels[places] == level]
        w = values[chosen, 1]
        expected = [len(chosen), w.sum(), (w * p[chosen]).sum(), (w * outcome[chosen]).sum()]
        np.testing.assert_allclose(bins[level], expected, atol=1e-9)


def test_every_second_block_is_read():
    n = 5 * curves.INSTANCES_IN_CACHE + 7
    values = np.ones((n, 2))
    picks, offsets = np.zeros((1, 1, n), dtype=np.uint8), np.arange(n + 1)
    totals = []
    for phase in range(2):
        sums = np.zeros((1, 1, 2))
        curves.sum_by_level(values, np.zeros(n, np.uint8), offsets, picks, phase, 2, sums)
        totals.append(sums[0, 0, 0])
    assert totals == [3 * curves.INSTANCES_IN_CACHE, 2 * curves.INSTANCES_IN_CACHE + 7]


def many_points(seed):
    """Curves of 3, 40 and 1 points, spread evenly, crowded into a corner, or far apart."""
    generator = np.random.default_rng(seed)
    found = []
    for size in (3, 40, 1):
        x = np.unique(generator.random(size) ** generator.choice([1.0, 9.0, 300.0]))
        found.append((x, np.sort(generator.random(len(x)))))
    return found


def look_up(curve, p, *item_curves):
    """Points of one curve, found by their buckets."""
    result, none = np.empty_like(p), np.zeros(0, dtype=np.int32)
    frozen = np.zeros(0, dtype=bool)
    curves.follow_item_curves(p, none, np.array([curve]), *item_curves, frozen, result)
    return result


@given(SEEDS)
def test_points_found_by_bucket_and_by_search_give_the_bits_of_the_pieces(seed):
    found = many_points(seed)
    ends, points = pack(found)
    index = curves.index_points(ends, points)
    generator = np.random.default_rng(seed)
    for number, (x, y) in enumerate(found):
        tried = np.concatenate([x, np.nextafter(x, 0), generator.random(20), [-1.0, 0.0, 2.0]])
        looked_up = look_up(number, tried, ends, points, *index)
        for p, value in zip(tried.tolist(), looked_up.tolist(), strict=True):
            expected = slow_curves.value_at(x, y, p)
            assert curves.value_at(points, ends[number], ends[number + 1], p) == expected
            assert value == expected
            if np.diff(x).min(initial=1.0) > 1e-300:  # nearer than that np.interp overflows
                assert expected == pytest.approx(np.interp(p, x, y), abs=1e-12)


@pytest.mark.parametrize("p", [np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324])
def test_any_bits_find_a_point_of_the_curve(p):
    found = [*many_points(0), (np.array([0.0, 5e-324]), np.array([0.0, 1.0]))]
    ends, points = pack(found)
    index = curves.index_points(ends, points)
    for number, (_, y) in enumerate(found):
        for value in (
            curves.value_at(points, ends[number], ends[number + 1], p),
            *look_up(number, np.array([p]), ends, points, *index),
        ):
            assert y[0] <= value <= y[-1]


@given(SEEDS, st.booleans())
def test_curves_of_items_leave_frozen_items_and_those_without_a_curve(seed, has_flags):
    generator = np.random.default_rng(seed)
    p, item = generator.random(50), generator.integers(4, size=50).astype(np.int32)
    frozen = generator.random(50) < 0.2 if has_flags else np.zeros(0, dtype=bool)
    found, of_item, result = many_points(seed), np.array([1, -1, 0, 2]), np.empty(50)
    ends, points = pack(found)
    packed_curves = (ends, points, *curves.index_points(ends, points))
    curves.follow_item_curves(p, item, of_item, *packed_curves, frozen, result)
    for j in range(50):
        curve = of_item[item[j]]
        stays = curve < 0 or (has_flags and frozen[j])
        assert result[j] == (p[j] if stays else slow_curves.value_at(*found[curve], p[j]))
    curves.follow_item_curves(p, item[:0], of_item[2:], *packed_curves, frozen[:0], result)
    assert result.tolist() == [slow_curves.value_at(*found[0], one) for one in p]


@given(SEEDS, st.booleans())
def test_the_sum_of_members_is_that_of_each_alone(seed, simplex):
    p, offsets, picks, _, frozen, patches = draw(seed, k=1 if simplex else 2, simplex=simplex)
    generator, result = np.random.default_rng(seed), np.empty(len(p))
    starts = np.stack([generator.permutation(p) for _ in range(3)])
    order, *packed_patches = packed(patches)
    rising = curves.rising_pieces(*packed_patches)
    parts = (np.array([0, 2, 5, 6]), order, *packed_patches, *rising)
    curves.sum_members(starts, offsets, picks, parts, frozen, simplex, result)
    expected = np.zeros(len(p))
    for member, (begin, end) in enumerate(pairwise(parts[0])):
        one = starts[member].copy()
        if simplex:
            tally.project_simplices(one, offsets, frozen)
        some = (packed_patches[0][begin : end + 1], packed_patches[1])
        curves.patch_curves(one, offsets, picks, order[begin:end], *some, frozen, simplex)
        expected += one
    assert result.tolist() == expected.tolist()
