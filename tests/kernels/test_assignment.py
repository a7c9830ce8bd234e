"""Assignments against brute force and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import slow_assignment as slow
from hypothesis import given, settings, strategies as st
from scipy.optimize import linear_sum_assignment

from outrule.kernels.assignment import assign_dense, assign_dense_by_paths, assign_ragged
from outrule.kernels.assignment_dp import LANES, assign_dense_by_subsets

# Ties, zeros, negatives, and magnitudes up to where sums overflow and down to denormals.
weight = st.one_of(
    st.sampled_from([-1.0, 0.0, 1.0, 1.0, 2.0, 3.0]),
    st.floats(-10, 10),
    st.sampled_from([5e-324, 1e-300, 1e-17, 1e17, 1e300, 1.7e308, -1.7e308]),
)
KERNELS = [assign_dense, assign_dense_by_paths, assign_dense_by_subsets]


def dense(kernel, weights, n_rows, n_columns, scale=None):
    scale = np.ones(n_rows * n_columns) if scale is None else scale
    picks = np.full((len(weights), min(n_rows, n_columns)), 99, np.int32)
    kernel(weights, scale, n_rows, n_columns, picks)
    return picks


def ragged(instances):
    """Solve instances (n_rows, n_columns, items) in one batch."""
    sizes = [len(items) for _, _, items in instances]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    flat = [item for _, _, items in instances for item in items]
    weights = np.array([w for w, _, _ in flat], np.float64)
    row = np.array([r for _, r, _ in flat], np.int32)
    column = np.array([c for _, _, c in flat], np.int32)
    n_rows = np.array([r for r, _, _ in instances], np.int64)
    n_columns = np.array([c for _, c, _ in instances], np.int64)
    width = int(np.minimum(n_rows, n_columns).max(initial=0))
    picks = np.full((len(instances), width), 99, np.int32)
    assign_ragged(weights, offsets, row, column, n_rows, n_columns, picks)
    return picks


def chosen_of(picks):
    """Return the positions, checking the format: ascending, then only -1."""
    chosen = [int(p) for p in picks if p >= 0]
    assert list(picks) == sorted(chosen) + [-1] * (len(picks) - len(chosen))
    return chosen


def check(items, picks):
    chosen = chosen_of(picks)
    assert slow.is_matching(items, chosen)
    assert all(items[k][0] > 0 for k in chosen)
    # Sixteenths, as sums of the greatest floats overflow.
    best = slow.heaviest_matching([(w / 16, r, c) for w, r, c in items])
    assert sum(items[k][0] / 16 for k in chosen) == pytest.approx(best, rel=1e-12, abs=0.0)


@st.composite
def dense_batches(draw):
    n_rows, n_columns = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    n = draw(st.integers(1, 3))
    m = n_rows * n_columns
    values = draw(st.lists(weight, min_size=n * m, max_size=n * m))
    return np.array(values).reshape(n, m), n_rows, n_columns


@pytest.mark.parametrize("kernel", KERNELS)
@settings(max_examples=75, deadline=None)
@given(dense_batches())
def test_dense_against_brute_force(kernel, batch):
    weights, n_rows, n_columns = batch
    for values, picks in zip(weights, dense(kernel, *batch), strict=True):
        items = [(float(w), *divmod(k, n_columns)) for k, w in enumerate(values)]
        assert n_rows * n_columns == len(items)
        check(items, picks)


@st.composite
def ragged_instances(draw):
    n_rows, n_columns = draw(st.integers(0, 4)), draw(st.integers(0, 4))
    pairs = st.tuples(weight, st.integers(0, n_rows - 1), st.integers(0, n_columns - 1))
    items = draw(st.lists(pairs, max_size=8)) if n_rows and n_columns else []
    return n_rows, n_columns, items


@settings(max_examples=75, deadline=None)
@given(st.lists(ragged_instances(), max_size=6))
def test_ragged_against_brute_force(instances):
    together = ragged(instances)
    for instance, picks in zip(instances, together, strict=True):
        check(instance[2], picks)
        alone = ragged([instance])[0]
        assert chosen_of(picks) == chosen_of(alone)


SHAPES = [(1, 1), (1, 300), (2, 7), (7, 2), (5, 5), (6, 9), (10, 10), (12, 8), (12, 12), (17, 17)]
SHAPES += [(40, 33)]
# In "rivals" all rows want the same columns, so that most are assigned along long paths.
KINDS = ["uniform", "ties", "sparse", "magnitudes", "negative", "rivals"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_against_scipy(shape, kind):
    n_rows, n_columns = shape
    random = np.random.default_rng(7)
    size = (LANES + 5, n_rows * n_columns)
    weights = {
        "uniform": lambda: random.random(size),
        "ties": lambda: random.integers(-1, 4, size).astype(float),
        "sparse": lambda: random.random(size) * (random.random(size) < 0.1),
        "magnitudes": lambda: 10.0 ** random.uniform(-300, 300, size),
        "negative": lambda: -random.random(size),
        "rivals": lambda: (
            random.random(size)
            + 9 * random.random((size[0], 1, n_columns))[:, np.zeros(n_rows, int)].reshape(size)
        ),
    }[kind]()
    scale = random.uniform(0.5, 2.0, size[1])
    picks = dense(assign_dense, weights, n_rows, n_columns, scale)
    scaled = weights * scale
    row, column = np.divmod(np.arange(size[1], dtype=np.int32), n_columns)
    from_pairs = ragged(
        [(n_rows, n_columns, list(zip(w, row, column, strict=True))) for w in scaled]
    )
    for i in range(size[0]):
        profit = np.maximum(scaled[i], 0.0).reshape(shape)
        best = profit[linear_sum_assignment(profit, maximize=True)].sum()
        for answer in (picks[i], from_pairs[i]):
            chosen = chosen_of(answer)
            assert len(set(row[chosen])) == len(set(column[chosen])) == len(chosen)
            assert (scaled[i][chosen] > 0).all()
            np.testing.assert_allclose(scaled[i][chosen].sum(), best, rtol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_an_instance_is_decided_alike_in_every_batch(shape):
    random = np.random.default_rng(3)
    weights = random.integers(-1, 3, (2 * LANES + 3, shape[0] * shape[1])).astype(float)
    scale = random.integers(1, 3, shape[0] * shape[1]).astype(float)
    together = dense(assign_dense, weights, *shape, scale)
    for i in (0, 1, LANES - 1, LANES, 2 * LANES + 2):
        assert (dense(assign_dense, weights[i : i + 1], *shape, scale) == together[i]).all()
    shifted = dense(assign_dense, weights[5:], *shape, scale)
    assert (shifted == together[5:]).all()
    ones = np.ones(shape[0] * shape[1])
    assert (dense(assign_dense, weights * scale, *shape, ones) == together).all()


def test_many_ragged_shapes_at_once():
    random = np.random.default_rng(11)
    instances = []
    for _ in range(300):
        n_rows, n_columns = random.integers(1, 9, 2)
        items = [
            (float(random.integers(-2, 6)), int(random.integers(n_rows)), int(c))
            for c in random.integers(0, n_columns, random.integers(0, 12))
        ]
        instances.append((int(n_rows), int(n_columns), items))
    together = ragged(instances)
    for k, instance in enumerate(instances):
        check(instance[2], together[k])
        if k % 10 == 0:
            assert chosen_of(ragged([instance])[0]) == chosen_of(together[k])


def test_of_equal_pairs_the_heaviest_then_first_counts():
    items = [(1.0, 0, 0), (2.0, 0, 0), (2.0, 0, 0), (-1.0, 1, 1)]
    assert ragged([(2, 2, items)]).tolist() == [[1, -1]]
    assert ragged([(30, 30, items)])[0, 0] == 1


def test_overflowing_products_do_not_break_the_choice():
    weights = np.array([[1e308, 1.0, 1e308, 2.0]])
    for kernel in KERNELS:
        picks = dense(kernel, weights, 2, 2, np.full(4, 1e10))
        assert len(chosen_of(picks[0])) == 2


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 2), (3, 3), (5, 7)])
def test_weights_that_vanish_in_the_sum_are_still_taken(shape):
    m = shape[0] * shape[1]
    weights = np.random.default_rng(5).choice([1.0, 2.0, 1e300, 1.7e308], (200, m))
    row, column = np.divmod(np.arange(m), shape[1])
    pairs = [(*shape, list(zip(w, row, column, strict=True))) for w in weights]
    for picks in [ragged(pairs), *(dense(kernel, weights, *shape) for kernel in KERNELS)]:
        assert (picks >= 0).all()


def test_empty_batches():
    assert ragged([]).shape == (0, 0)
    assert dense(assign_dense, np.empty((0, 4)), 2, 2).shape == (0, 2)
    assert dense(assign_dense, np.empty((3, 0)), 0, 2).shape == (3, 0)
