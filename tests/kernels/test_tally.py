"""Sums over decisions and patches against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import reference
import strategies
from outrule.kernels import patching, tally


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
    tally.sum_over_picks(values, case.offsets, None, case.picks, sums)
    assert sums.tolist() == reference.sums_over_picks(values, case.offsets, case.picks)


@given(strategies.tallies(), st.data())
def test_squares_over_picks_are_those_of_the_sums_over_groups(case, data):
    n, n_rules = len(case.weight), len(case.picks)
    values = np.arange(1, len(case.prediction) + 1, dtype=np.int64)
    group = np.array(data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
    weight, means = np.array([0.5, 1.0, 2.5]), np.linspace(-3, 7, n_rules)
    squares = np.full(n_rules, np.nan)
    tally.squares_over_picks(values, case.offsets, case.picks, group, weight, means, squares)
    expected = np.zeros(n_rules)
    for g in range(3):
        chosen = np.where(np.repeat(group, np.diff(case.offsets)) == g, values, 0)
        sums = reference.sums_over_picks(chosen, case.offsets, case.picks)
        expected += (np.array(sums) - weight[g] * means) ** 2
    np.testing.assert_allclose(squares, expected)


def dense_picks(width, n, seed):
    """Values and decisions of three rules of up to two items each, of ``width`` on offer."""
    generator = np.random.default_rng(seed)
    values = generator.integers(-(2**50), 2**50, size=width * n)
    picks = np.argsort(generator.random((3, n, width + 2)))[:, :, :2].transpose(0, 2, 1)
    picks = np.sort(np.where(picks < width, picks, 255), axis=1)  # no pick stands behind all picks
    return values, picks.astype(np.uint8)


@given(st.integers(1, 5), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_dense_sums_are_exact(width, n, seed):
    values, picks = dense_picks(width, n, seed)
    offsets = np.arange(n + 1) * width
    sums = np.ones(3, dtype=np.int64)
    tally.sum_over_picks(values, offsets, width, picks, sums)
    assert (sums - 1).tolist() == reference.sums_over_picks(values, offsets, picks)


@given(strategies.tallies())
def test_sums_are_added_to_what_is_there(case):
    values = np.arange(len(case.prediction), dtype=np.int64)
    once, twice = (np.zeros(len(case.picks), dtype=np.int64) for _ in range(2))
    tally.sum_over_picks(values, case.offsets, None, case.picks, once)
    tally.sum_over_picks(values, case.offsets, None, case.picks, twice)
    tally.sum_over_picks(values, case.offsets, None, case.picks, twice)
    assert (twice == 2 * once).all()


@pytest.mark.parametrize(
    ("kind", "size"), [(np.uint8, 255), (np.uint16, 65_535), (np.uint32, 70_000)]
)
def test_the_last_item_of_the_widest_instance_is_no_padding(kind, size):
    values = np.zeros(size, dtype=np.int64)
    values[-1] = 7
    picks = np.array([[[size - 1], [-1]]], dtype=np.int32).astype(kind)
    sums = np.zeros(1, dtype=np.int64)
    tally.sum_over_picks(values, np.array([0, size]), None, picks, sums)
    tally.sum_over_picks(values, np.array([0, size]), size, picks, sums)
    assert sums[0] == 14


def test_sums_do_not_depend_on_the_block_of_the_kernel():
    n = 2 * tally.INSTANCE_BLOCK + 17
    generator = np.random.default_rng(0)
    values = generator.integers(-(2**40), 2**40, size=3 * n)
    picks = generator.integers(0, 3, size=(2, 1, n)).astype(np.uint8)
    offsets = np.arange(0, 3 * n + 1, 3)
    sums = np.zeros(2, dtype=np.int64)
    tally.sum_over_picks(values, offsets, None, picks, sums)
    places = picks[:, 0, :, None].astype(np.int64)
    expected = np.take_along_axis(values.reshape(1, n, 3), places, axis=2)
    assert sums.tolist() == expected.sum(axis=(1, 2)).tolist()


@given(strategies.tallies(), st.sampled_from([(0.0, 1.0), (-1.0, 1.0), (0.25, 0.5)]))
def test_patches_on_the_box_have_the_bits_of_the_twin(case, ends):
    low, high = ends
    patched = np.clip(case.prediction, low, high)
    args = (case.offsets, case.picks, case.order, case.steps)
    expected = reference.patch_box(patched, *args, low, high)
    offsets, *rest = args
    patching.patch_box(patched, offsets, None, *rest, ends, (0, len(case.weight)))
    assert patched.tolist() == expected


@given(st.integers(1, 5), st.integers(1, 40), st.integers(0, 2**32 - 1), st.data())
def test_dense_patches_have_the_bits_of_the_twin_and_keep_to_their_span(width, n, seed, data):
    values, picks = dense_picks(width, n, seed)
    prediction = np.ascontiguousarray(np.abs(values) / 2.0**50)
    order, steps = np.array([2, 0, 2, 1]), np.array([0.25, -0.6, 0.3, 0.1])
    first = data.draw(st.integers(0, n))
    offsets, patched = np.arange(n + 1) * width, prediction.copy()
    expected = reference.patch_box(prediction, offsets, picks, order, steps, 0.0, 1.0)
    patching.patch_box(patched, offsets, width, picks, order, steps, (0.0, 1.0), (first, n))
    assert patched.tolist() == prediction.tolist()[: first * width] + expected[first * width :]


@given(strategies.tallies(k_max=1))
def test_patches_on_the_simplex_follow_the_twin_and_leave_frozen_items(case):
    patched = case.prediction.copy()
    args = (case.offsets, case.picks, case.order, case.steps, case.frozen)
    expected = reference.patch_simplex(patched, *args)
    patching.patch_simplex(patched, *args, (0, len(case.weight)))
    np.testing.assert_allclose(patched, expected, rtol=0, atol=1e-12)
    assert (patched[case.frozen] == case.prediction[case.frozen]).all()


# --- spans, blocks and the two fused kernels -----------------------------------------------------

boxes = st.sampled_from([(0.0, 1.0), (-1.0, 1.0), (0.25, 0.5)])


@given(strategies.tallies(k_max=1, fewest=1), st.data(), boxes)
def test_patches_of_the_best_item_have_the_bits_of_a_box_patch_and_an_argmax(case, data, ends):
    order = np.array(
        [data.draw(st.sampled_from([-1, rule])) for rule in case.order], dtype=np.int64
    )
    patched = np.clip(case.prediction, *ends)
    expected = reference.patch_best(patched, case.offsets, case.picks, order, case.steps, *ends)
    span = (0, len(case.weight))
    room = patching.room_of_groups(case.offsets, span)
    patching.patch_best(patched, case.offsets, case.picks, order, case.steps, ends, span, room)
    assert patched.tolist() == expected


@given(st.lists(st.integers(1, 50), min_size=1, max_size=80), st.integers(0, 2**32 - 1))
def test_the_best_of_many_items_is_the_first_of_the_largest(sizes, seed):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    prediction = rng.integers(0, 9, offsets[-1]) / 8  # in steps of eighths: ties everywhere
    picks = rng.integers(0, sizes, (3, 1, len(sizes))).astype(np.uint8)
    order, steps = rng.integers(-1, 3, 12), rng.integers(-3, 4, 12) / 8
    expected = reference.patch_best(prediction, offsets, picks, order, steps, 0.0, 1.0)
    span = (0, len(sizes))
    room = patching.room_of_groups(offsets, span)
    patching.patch_best(prediction, offsets, picks, order, steps, (0.0, 1.0), span, room)
    assert prediction.tolist() == expected


@given(strategies.tallies(k_max=1, fewest=1), st.data())
@pytest.mark.parametrize("kernel", ["patch_box", "patch_best", "patch_simplex", "patch_ledger"])
def test_a_span_is_patched_and_nothing_else(kernel, case, data):
    n = len(case.weight)
    first = data.draw(st.integers(0, n))
    last = data.draw(st.integers(first, n))

    def patch(*spans):
        """Everything a kernel writes, after patching these spans."""
        prediction = case.prediction.copy()
        residual = np.rint((case.outcome - prediction) * 2.0**30).astype(np.int64)
        squares, rows = 0, []
        for span in spans:
            if kernel == "patch_ledger":
                args = (case.offsets, case.picks[0], 0.5, 2**29, (0.0, 1.0), 30, span)
                clipped = np.empty((n, 3), dtype=np.int64)
                moved = (prediction, residual, case.outcome, *args, clipped)
                kept, change = patching.patch_ledger(*moved)
                squares, rows = squares + change, rows + clipped[:kept].tolist()
                continue
            width = [None] if kernel == "patch_box" else []
            args = (prediction, case.offsets, *width, case.picks, case.order, case.steps)
            extra = case.frozen if kernel == "patch_simplex" else (0.0, 1.0)
            room = [patching.room_of_groups(case.offsets, span)] if kernel == "patch_best" else []
            getattr(patching, kernel)(*args, extra, span, *room)
        return prediction.tolist(), residual.tolist(), squares, rows

    whole, none = patch((0, n)), patch()
    assert patch((0, first), (first, last), (last, n)) == whole
    part, start, stop = patch((first, last)), case.offsets[first], case.offsets[last]
    for written, everywhere, before in zip(part[:2], whole[:2], none[:2], strict=True):
        assert written == before[:start] + everywhere[start:stop] + before[stop:]


@pytest.mark.parametrize(
    "n",
    [
        tally.INSTANCE_BLOCK - 1,
        tally.INSTANCE_BLOCK,
        tally.INSTANCE_BLOCK + 1,
        2 * tally.INSTANCE_BLOCK + 5,
    ],
)
@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32])
def test_patches_do_not_depend_on_the_block_of_the_kernel(n, kind):
    generator = np.random.default_rng(n)
    prediction = generator.random(3 * n)
    offsets, order = np.arange(0, 3 * n + 1, 3), np.array([1, 0, 1, 2])
    picks = generator.integers(0, 4, size=(3, 1, n)).astype(kind)
    picks[picks == 3] = np.iinfo(kind).max
    steps = np.array([0.3, -0.7, 0.25, 0.9])
    patched, dense = prediction.copy(), prediction.copy()
    patching.patch_box(patched, offsets, None, picks, order, steps, (0.0, 1.0), (0, n))
    patching.patch_box(dense, offsets, 3, picks, order, steps, (0.0, 1.0), (0, n))
    assert dense.tolist() == patched.tolist()
    expected = prediction.reshape(n, 3)
    for rule, step in zip(order, steps, strict=True):
        marks = picks[rule, 0][:, None] == np.arange(3)
        expected = np.where(marks, np.clip(expected + step, 0.0, 1.0), expected)
    assert patched.tolist() == expected.ravel().tolist()


# --- the ledger's patch --------------------------------------------------------------------------


def slow_ledger_patch(case, prediction, residual, step, integer_step, ends, bits):
    """Predictions, residuals, the rows of clipped items in any order, the change of squares."""
    prediction, residual, rows, squares = list(prediction), list(residual), [], 0
    low, high = ends
    for i in range(len(case.weight)):
        start, size = int(case.offsets[i]), int(case.offsets[i + 1] - case.offsets[i])
        for position in reference.chosen(case.picks[0], i, size):
            place = start + position
            y, before = float(case.outcome[place]), prediction[place]
            moved = before + step
            after = min(max(moved, low), high)
            prediction[place] = after
            residual[place] -= integer_step
            if after != moved:
                fresh = round(2.0**bits * ((y - after) / (high - low)))
                rows.append([i, position, fresh - residual[place]])
                residual[place] = fresh
            for value, sign in ((after, 1), (before, -1)):
                difference = (y - value) / (high - low)
                squares += sign * round(2.0**bits * difference * difference)
    return prediction, residual, sorted(rows), squares


@given(strategies.tallies(), strategies.signed_step, boxes, st.integers(20, 44))
def test_the_patch_of_a_ledger_is_that_of_the_twin(case, step, ends, bits):
    case = case._replace(outcome=np.clip(case.outcome, *ends))
    prediction, width = np.clip(case.prediction, *ends), ends[1] - ends[0]
    residual = np.rint(2.0**bits * ((case.outcome - prediction) / width)).astype(np.int64)
    integer_step = round(step / width * 2.0**bits)
    expected = slow_ledger_patch(
        case, prediction.tolist(), residual.tolist(), step, integer_step, ends, bits
    )
    args = (case.offsets, case.picks[0], step, integer_step, ends, bits, (0, len(case.weight)))
    rows = np.empty((case.picks[0].size, 3), dtype=np.int64)
    kept, squares = patching.patch_ledger(prediction, residual, case.outcome, *args, rows)
    found = (prediction.tolist(), residual.tolist(), sorted(rows[:kept].tolist()), squares)
    assert found == expected


# --- the simplex ---------------------------------------------------------------------------------


@given(strategies.simplex_inputs())
def test_the_projection_is_the_nearest_point_of_the_simplex(case):
    values, frozen = case
    projected = values.copy()
    tally.project_simplex(projected, frozen, 0, len(values), np.empty(len(values)))
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
