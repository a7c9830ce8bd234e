"""The kernels of transversal and linear matroids against plain enumeration."""

from itertools import combinations

import numpy as np
from hypothesis import given, settings, strategies as st

from outrule.kernels.greedy import linear_ragged, transversal_ragged


def sdr(items, holding):
    """Whether distinct sets can be given to the items, by trying all ways."""
    if not items:
        return True
    return any(
        sdr(items[1:], {e: sets - {s} for e, sets in holding.items()}) for s in holding[items[0]]
    )


def rank(rows):
    return np.linalg.matrix_rank(np.array(rows, dtype=float)) if len(rows) else 0


def greedy_value(weights, independent):
    """The best value over all independent sets of positive items."""
    positive = [p for p, weight in enumerate(weights) if weight > 0]
    return max(
        sum(weights[p] for p in some)
        for size in range(len(positive) + 1)
        for some in combinations(positive, size)
        if independent(list(some))
    )


def check_row(row, weights, independent):
    chosen = row[row >= 0].tolist()
    assert row.tolist() == chosen + [-1] * (len(row) - len(chosen))
    assert chosen == sorted(set(chosen))
    assert all(weights[p] > 0 for p in chosen)
    assert independent(chosen)
    assert sum(weights[p] for p in chosen) == greedy_value(weights, independent)


@st.composite
def ragged_items(draw, n_items):
    """Instances with some of the items each, perhaps none, and small whole weights."""
    sizes = draw(st.lists(st.integers(0, 5), min_size=1, max_size=4))
    total = sum(sizes)
    item = draw(st.lists(st.integers(0, n_items - 1), min_size=total, max_size=total))
    weights = draw(st.lists(st.integers(-1, 4), min_size=total, max_size=total))
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    return offsets, np.array(item, dtype=np.int32), np.array(weights, dtype=float)


@settings(max_examples=80)
@given(st.data())
def test_transversal_greedy_is_the_best_of_all_sets(data):
    n_items, n_sets = 4, data.draw(st.integers(1, 4))
    holding = [data.draw(st.sets(st.integers(0, n_sets - 1))) for _ in range(n_items)]
    offsets, item, weights = data.draw(ragged_items(n_items))
    starts = np.concatenate(([0], np.cumsum([len(s) for s in holding]))).astype(np.int64)
    sets = np.array([s for one in holding for s in sorted(one)], dtype=np.int32)
    picks = np.full((len(offsets) - 1, n_sets), -7, dtype=np.int32)
    transversal_ragged(weights, offsets, item, starts, sets, n_sets, picks)
    for i, row in enumerate(picks):
        here = slice(offsets[i], offsets[i + 1])
        own = dict(enumerate(holding[e] for e in item[here]))
        check_row(row, weights[here], lambda chosen, own=own: sdr(chosen, own))


@settings(max_examples=80)
@given(st.data())
def test_linear_greedy_is_the_best_of_all_sets(data):
    n_items, dimension = 4, data.draw(st.integers(1, 3))
    row_of = st.lists(st.integers(-2, 2), min_size=dimension, max_size=dimension)
    vectors = np.array(data.draw(st.lists(row_of, min_size=n_items, max_size=n_items)), float)
    offsets, item, weights = data.draw(ragged_items(n_items))
    picks = np.full((len(offsets) - 1, dimension), -7, dtype=np.int32)
    linear_ragged(weights, offsets, item, vectors, 1e-9, picks)
    for i, row in enumerate(picks):
        here = slice(offsets[i], offsets[i + 1])
        own = vectors[item[here]]
        check_row(row, weights[here], lambda chosen, own=own: rank(own[chosen]) == len(chosen))


@settings(max_examples=30)
@given(st.data())
def test_an_instance_is_decided_alike_alone(data):
    offsets, item, weights = data.draw(ragged_items(3))
    vectors = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    whole = np.empty((len(offsets) - 1, 2), dtype=np.int32)
    linear_ragged(weights, offsets, item, vectors, 1e-9, whole)
    for i in range(len(whole)):
        start, stop = offsets[i], offsets[i + 1]
        alone = np.empty((1, 2), dtype=np.int32)
        own = np.array([0, stop - start])
        linear_ragged(weights[start:stop], own, item[start:stop], vectors, 1e-9, alone)
        np.testing.assert_array_equal(alone[0], whole[i])


def test_a_long_chain_of_hand_overs_is_found():
    n = 30  # item e is in sets e and e + 1, but the lightest only in set 0: all move one up
    holding = [[s for s in (e, e + 1) if s < n] for e in range(n - 1)] + [[0]]
    starts = np.concatenate(([0], np.cumsum([len(s) for s in holding]))).astype(np.int64)
    sets = np.array([s for one in holding for s in one], dtype=np.int32)
    picks = np.empty((1, n), dtype=np.int32)
    weights = np.linspace(1.0, 0.5, n)
    item = np.arange(n, dtype=np.int32)
    transversal_ragged(weights, np.array([0, n]), item, starts, sets, n, picks)
    assert picks[0].tolist() == list(range(n))
