"""Curve patches and the sums behind them against plain loops."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import slow_curves
from hypothesis import given, strategies as st

from outrule.kernels import curves

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


def pack(patches):
    knots = np.cumsum([0, *(len(x) for _, x, _ in patches)])
    flat = [np.concatenate([patch[k] for patch in patches]) for k in (1, 2)]
    return np.array([test for test, _, _ in patches]), knots, *flat


@given(SEEDS, st.booleans())
def test_curves_move_the_bits_of_the_twin(seed, has_flags):
    p, offsets, picks, marks, frozen, patches = draw(seed)
    expected = slow_curves.patch(p.tolist(), offsets, marks, patches, frozen, simplex=False)
    flags = frozen if has_flags else np.zeros(0, dtype=bool)
    curves.patch_curves(p, offsets, picks, *pack(patches), flags, False)
    assert p.tolist() == expected


@given(SEEDS)
def test_curves_on_the_simplex_move_as_the_twin_and_leave_frozen_items(seed):
    p, offsets, picks, marks, frozen, patches = draw(2 * seed, k=1, simplex=True)
    for start, stop in pairwise(offsets):
        p[start:stop] = slow_curves.project(p[start:stop].tolist(), frozen[start:stop])
    before = p.copy()
    expected = slow_curves.patch(p.tolist(), offsets, marks, patches, frozen, simplex=True)
    curves.patch_curves(p, offsets, picks, *pack(patches), frozen, True)
    np.testing.assert_allclose(p, expected, atol=1e-9)
    assert (p[frozen] == before[frozen]).all()


@given(SEEDS, st.booleans())
def test_one_move_has_the_bits_of_a_patch_and_says_how_far_the_errors_fall(seed, simplex):
    p, offsets, picks, _, frozen, patches = draw(seed, k=1 if simplex else 2, simplex=simplex)
    generator = np.random.default_rng(seed)
    outcome, weight = generator.random(len(p)), generator.random((2, len(offsets) - 1))
    edges, values = np.array([0.2, 0.5]), np.empty((len(p), 2))
    levels = np.empty(len(p), dtype=np.uint8)
    curves.weigh(p, outcome, offsets, weight[0], frozen, edges, values, levels)
    before, expected = p.copy(), p.copy()
    x, y = patches[0][1:]
    knots = np.array([0, len(x)])
    curves.patch_curves(expected, offsets, picks, np.array([1]), knots, x, y, frozen, simplex)
    state = (frozen, simplex, edges, values, levels)
    falls = curves.move_along(p, outcome, offsets, picks[1], x, y, *weight, *state)
    assert p.tolist() == expected.tolist()
    of_item = np.repeat(weight, np.diff(offsets), axis=1)
    fall = (of_item * ((outcome - before) ** 2 - (outcome - p) ** 2)).sum(axis=1)
    np.testing.assert_allclose(falls, fall, atol=1e-10)
    kept, kept_levels = values.copy(), levels.copy()
    curves.weigh(p, outcome, offsets, weight[0], frozen, edges, values, levels)
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
    n = 5 * curves.BLOCK + 7
    values = np.ones((n, 2))
    picks, offsets = np.zeros((1, 1, n), dtype=np.uint8), np.arange(n + 1)
    totals = []
    for phase in range(2):
        sums = np.zeros((1, 1, 2))
        curves.sum_by_level(values, np.zeros(n, np.uint8), offsets, picks, phase, 2, sums)
        totals.append(sums[0, 0, 0])
    assert totals == [3 * curves.BLOCK, 2 * curves.BLOCK + 7]


@given(SEEDS)
def test_curves_of_items_interpolate(seed):
    generator = np.random.default_rng(seed)
    p, item = generator.random(50), generator.integers(3, size=50).astype(np.int32)
    x, y = np.sort(generator.random((2, 7)), axis=1)
    knots, of_item, result = np.array([0, 3, 7]), np.array([1, -1, 0]), np.empty(50)
    curves.follow_item_curves(p, item, of_item, knots, x, y, result)
    for j in range(50):
        part = {0: slice(3, 7), 1: None, 2: slice(0, 3)}[int(item[j])]
        expected = p[j] if part is None else np.interp(p[j], x[part], y[part])
        assert result[j] == pytest.approx(expected, abs=1e-12)
    curves.follow_item_curves(p, item[:0], of_item, knots, x, y, result)
    np.testing.assert_allclose(result, np.interp(p, x[:3], y[:3]), atol=1e-12)
