"""Sums over decisions and patches against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
import strategies
from outrule.kernels import tally


@given(strategies.tallies(), st.sampled_from([1.0, 2.0, 50.0, 0.3]), st.integers(20, 44))
def test_residuals_are_the_rounded_integers_of_the_twin(case, span, bits):
    residual = np.empty(len(case.prediction), dtype=np.int64)
    prediction, outcome = case.prediction * span, case.outcome * span
    squares = tally.residuals(prediction, outcome, case.offsets, case.weight, span, bits, residual)
    expected = reference.residuals(prediction, outcome, case.offsets, case.weight, span, bits)
    assert (residual.tolist(), squares) == expected


@given(strategies.tallies(), st.integers(-(2**50), 2**50))
def test_sums_over_picks_are_exact_for_every_type_and_padding(case, scale):
    values = np.arange(1, len(case.prediction) + 1, dtype=np.int64) * scale
    sums = np.zeros(len(case.picks), dtype=np.int64)
    tally.sum_over_picks(values, case.offsets, case.picks, sums)
    assert sums.tolist() == reference.sums_over_picks(values, case.offsets, case.picks)


@given(strategies.tallies())
def test_sums_are_added_to_what_is_there(case):
    values = np.arange(len(case.prediction), dtype=np.int64)
    once, twice = (np.zeros(len(case.picks), dtype=np.int64) for _ in range(2))
    tally.sum_over_picks(values, case.offsets, case.picks, once)
    tally.sum_over_picks(values, case.offsets, case.picks, twice)
    tally.sum_over_picks(values, case.offsets, case.picks, twice)
    assert (twice == 2 * once).all()


@pytest.mark.parametrize(
    ("kind", "size"), [(np.uint8, 255), (np.uint16, 65_535), (np.int32, 70_000)]
)
def test_the_last_item_of_the_widest_instance_is_no_padding(kind, size):
    values = np.zeros(size, dtype=np.int64)
    values[-1] = 7
    picks = np.array([[[size - 1, -1]]], dtype=np.int32).astype(kind)
    sums = np.zeros(1, dtype=np.int64)
    tally.sum_over_picks(values, np.array([0, size]), picks, sums)
    assert sums[0] == 7


def test_sums_do_not_depend_on_the_block_of_the_kernel():
    n = 2 * tally.BLOCK + 17
    generator = np.random.default_rng(0)
    values = generator.integers(-(2**40), 2**40, size=3 * n)
    picks = generator.integers(0, 3, size=(2, n, 1)).astype(np.uint8)
    offsets = np.arange(0, 3 * n + 1, 3)
    sums = np.zeros(2, dtype=np.int64)
    tally.sum_over_picks(values, offsets, picks, sums)
    expected = np.take_along_axis(values.reshape(1, n, 3), picks.astype(np.int64), axis=2)
    assert sums.tolist() == expected.sum(axis=(1, 2)).tolist()


@given(strategies.tallies(), st.sampled_from([(0.0, 1.0), (-1.0, 1.0), (0.25, 0.5)]))
def test_patches_on_the_box_have_the_bits_of_the_twin(case, ends):
    low, high = ends
    patched = np.clip(case.prediction, low, high)
    args = (case.offsets, case.picks, case.order, case.steps)
    expected = reference.patch_box(patched, *args, low, high)
    tally.patch_box(patched, *args, low, high)
    assert patched.tolist() == expected


@given(strategies.tallies(k_max=1))
def test_patches_on_the_simplex_follow_the_twin_and_leave_frozen_items(case):
    patched = case.prediction.copy()
    args = (case.offsets, case.picks, case.order, case.steps, case.frozen)
    expected = reference.patch_simplex(patched, *args)
    tally.patch_simplex(patched, *args)
    np.testing.assert_allclose(patched, expected, rtol=0, atol=1e-12)
    assert (patched[case.frozen] == case.prediction[case.frozen]).all()


@given(strategies.simplex_inputs())
def test_the_projection_is_the_nearest_point_of_the_simplex(case):
    values, frozen = case
    projected = values.copy()
    tally.project_simplex(projected, frozen)
    expected = reference.project_simplex(values.tolist(), frozen.tolist())
    np.testing.assert_allclose(projected, expected, rtol=0, atol=1e-12)
    assert (projected[frozen] == values[frozen]).all()
    if not frozen.all():
        assert projected[~frozen].sum() == pytest.approx(1.0, abs=1e-12)
        assert (projected[~frozen] >= 0).all()
        # Optimality: no vertex of the simplex lies on the near side of the tangent plane.
        free, moved = values[~frozen], projected[~frozen]
        slope = free - moved
        assert (slope - slope @ moved).max() <= 1e-9


@given(strategies.simplex_inputs())
def test_projecting_twice_is_projecting_once(case):
    values, frozen = case
    offsets = np.array([0, len(values)])
    tally.project_simplices(values, offsets, frozen)
    again = values.copy()
    tally.project_simplices(again, offsets, frozen)
    assert (again == values).all()


def test_instances_on_the_simplex_keep_their_bits():
    prediction = np.array([0.1, 0.2, 0.7, 0.5, 0.5, 0.5])
    offsets, frozen = np.array([0, 3, 6]), np.zeros(6, dtype=np.bool_)
    tally.project_simplices(prediction, offsets, frozen)
    assert prediction[:3].tolist() == [0.1, 0.2, 0.7]
    np.testing.assert_allclose(prediction[3:], 1 / 3)
