"""Runs side by side against loops that do one thing after the other."""

import numpy as np
import pytest

from outrule import kernels

UNIT = 2.0**40


def patched(prediction, picks, order, steps):
    """Every patch on its own; -1 is the first item of largest prediction."""
    moved, rows = prediction.copy(), np.arange(len(prediction))
    for rule, step in zip(order, steps, strict=True):
        items = moved.argmax(axis=1) if rule < 0 else picks[rule]
        moved[rows, items] = np.clip(moved[rows, items] + step, 0.0, 1.0)
    return moved


def world(n, m, n_rules, seed):
    """Coarse predictions, so that many are equal."""
    rng = np.random.default_rng(seed)
    prediction, outcome = rng.integers(0, 9, (n, m)) / 8, rng.random((n, m))
    return rng, prediction, outcome, rng.integers(0, m, (n_rules, n)).astype(np.uint16)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (5, 2), (33, 3), (70, 16), (40, 37), (9, 300)])
@pytest.mark.parametrize("own", [0.0, 0.1, 0.9])
def test_sums_are_those_of_patches_one_after_the_other(n, m, own):
    rng, prediction, outcome, picks = world(n, m, 11, n + m)
    counts = np.array([0, 1, 40, 25])
    order = np.where(rng.random((4, 40)) < own, -1, rng.integers(0, 11, (4, 40)))
    steps = rng.integers(-2, 3, (4, 40)) / 8
    sums = np.zeros((11, kernels.side_by_side.LANES), dtype=np.int64)
    largest = np.zeros(4, dtype=np.int64)
    data, runs = (prediction, outcome, picks), (order, steps, counts)
    kernels.side_by_side.audit(*data, *runs, UNIT, sums, largest)
    rows = np.arange(n)
    for run, count in enumerate(counts):
        moved = patched(prediction, picks, order[run, :count], steps[run, :count])
        residual = np.rint(UNIT * (outcome - moved)).astype(np.int64)
        assert sums[:, run].tolist() == [residual[rows, items].sum() for items in picks]
        assert largest[run] == residual[rows, moved.argmax(axis=1)].sum()
    values = np.rint(UNIT * outcome).astype(np.int64)
    assert sums[:, -1].tolist() == [values[rows, items].sum() for items in picks]


@pytest.mark.parametrize(("m", "n_rules"), [(1, 1), (7, 33), (130, 70), (300, 32)])
@pytest.mark.parametrize("coarse", [True, False])
def test_rules_decide_as_the_largest_product_does(m, n_rules, coarse):
    rng = np.random.default_rng(m)
    weights = rng.integers(0, 5, (70, m)) / 4 if coarse else rng.random((70, m))
    scales = rng.integers(0, 5, (n_rules, m)) / 4
    scales[0] = 0.0
    picks = np.empty((n_rules, 70), dtype=np.uint16)
    kernels.side_by_side.decide(weights, scales, picks)
    assert (picks == (weights[None] * scales[:, None]).argmax(axis=2)).all()
