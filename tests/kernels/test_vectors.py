"""The vector code against its plain twins, and these where it does not compile."""

import os
import subprocess
import sys

import numpy as np
import pytest
from numba import njit

from outrule.kernels import row_scans, vectors
from outrule.kernels.vectors import CUBE, LANE_BLOCK, LANES

load_vector, sum_vector = vectors.vector_load_block, vectors.vector_best_sum
cube_vector, trace_vector = vectors.vector_best_cube, vectors.vector_trace

negate_vector, lower_vector = row_scans.vector_negate, row_scans.vector_lower
least_vector, relax_vector = row_scans.vector_two_least, row_scans.vector_relax


@njit
def negate(weights, scale, first, n, line):
    return negate_vector(weights, scale, first, n, line)


@njit
def lower(line, price, least):
    lower_vector(line, price, least)


@njit
def two_least(line, price):
    return least_vector(line, price)


@njit
def relax(line, price, distance, previous, lowest, shift, row):
    return relax_vector(line, price, distance, previous, lowest, shift, row)


@njit
def load(weights, scale, first, column, lane, rows):
    load_vector(weights, scale, first, column, lane, rows)


@njit
def best_sum(rows, choices, left, right, begin, end, target):
    sum_vector(rows, choices, left, right, begin, end, target)


@njit
def best_cube(best, profit, cells, lane, start, target, high, cell, large):
    cube_vector(best, profit, cells, lane, start, target, high, cell, large)


@njit
def trace(best, profit, cells, choices, lane):
    trace_vector(best, profit, cells, choices, lane)


def same_bits(a, b):
    return a.tobytes() == b.tobytes()


def few_numbers(generator, size):
    """Numbers >= 0 with many ties, sometimes the largest and smallest there are."""
    return generator.choice([0.0, 0.1, 0.2, 0.3, 1.0, 5e-324, 1.7e308], size)


@pytest.mark.parametrize("seed", range(20))
def test_blocks_are_loaded_alike(seed):
    generator = np.random.default_rng(seed)
    numbers = np.array([-1.0, -0.0, 0.0, 0.1, 1e308, np.inf, -np.inf, np.nan])
    weights = generator.choice(numbers, (generator.integers(1, 12), 11))
    scale = generator.choice([1.0, 0.5, 10.0, 0.0], 11)
    for column, lane in ((0, 0), (3, LANE_BLOCK)):
        quick, slow = np.zeros((2, 11 * LANES))
        load(weights, scale, 2, column, lane, quick)
        vectors.plain_load_block(weights, scale, 2, column, lane, slow)
        assert same_bits(quick, slow)
        assert slow.max() < np.inf


@pytest.mark.parametrize("seed", range(20))
def test_best_sums_and_their_first_steps_are_alike(seed):
    generator = np.random.default_rng(seed)
    left, right = generator.integers(0, 9, (2, 7)).astype(np.int32)
    quick = few_numbers(generator, 10 * LANES)
    slow = quick.copy()
    choices, slow_choices = np.zeros((2, 10 * LANES), np.int8)
    begin, end = sorted(generator.integers(0, 8, 2).tolist())
    best_sum(quick, choices, left, right, begin, end, 9)
    vectors.plain_best_sum(slow, slow_choices, left, right, begin, end, 9)
    assert same_bits(quick, slow)
    assert same_bits(choices, slow_choices)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("small", "large"), [(3, 3), (5, 5), (4, 6)])
def test_cubes_and_the_way_back_are_alike(seed, small, large):
    generator = np.random.default_rng(seed)
    profit = few_numbers(generator, (small * large + 1) * LANES) * 2.0**-8
    cells = generator.permutation(small * large).reshape(small, large).astype(np.int32)
    n_states = (large - small + 1) << small
    quick, slow = np.zeros((2, (n_states + (1 << CUBE)) * LANE_BLOCK))
    for state in range(0, n_states, 1 << CUBE):
        skipped, high = state >> small, (state & ((1 << small) - 1)) >> CUBE
        start = state - (1 << small) if skipped else n_states
        where = (LANE_BLOCK, start, state, high, skipped + high.bit_count(), large)
        best_cube(quick, profit, cells.reshape(-1), *where)
        vectors.plain_best_cube(slow, profit, cells.reshape(-1), *where)
    assert same_bits(quick, slow)
    choices, slow_choices = np.zeros((2, large, LANES), np.int64)
    trace(quick, profit, cells, choices, LANE_BLOCK)
    vectors.plain_trace(slow, profit, cells, slow_choices, LANE_BLOCK)
    assert same_bits(choices, slow_choices)
    taken = np.sort(choices[:, LANE_BLOCK:], axis=0)[:small]
    assert taken.T.tolist() == [list(range(small))] * LANE_BLOCK


@pytest.mark.parametrize("seed", range(20))
def test_rows_of_costs_are_scanned_alike(seed):
    generator = np.random.default_rng(seed)
    n, width = (8, 8) if seed % 2 else (19, 24)
    weights, scale = few_numbers(generator, 2 * n), generator.choice([1.0, -1.0, 10.0], 2 * n)
    weights[generator.integers(2 * n)] = np.nan
    lines = np.full((2, width), np.inf)
    least = negate(weights, scale, n, n, lines[0])
    assert least == row_scans.plain_negate(weights, scale, n, n, lines[1]) == lines.min()
    prices = np.full((2, width), generator.random())
    lower(lines[0], prices[0], least)
    row_scans.plain_lower(lines[1], prices[1], least)
    line, price = lines[0], prices[0]
    scans = two_least(line, price), row_scans.plain_two_least(line, price)
    assert scans[0] == scans[1]
    distances, previous = np.tile(few_numbers(generator, width), (2, 1)), np.zeros((2, width))
    previous = previous.astype(np.int32)
    path = (float(distances.min()), generator.random() - 0.5, 7)
    scans = (
        relax(line, price, distances[0], previous[0], *path),
        row_scans.plain_relax(line, price, distances[1], previous[1], *path),
    )
    assert scans[0] == scans[1]
    for quick, slow in (lines, prices, distances, previous):
        assert same_bits(quick, slow)


DECIDE = """
import sys, llvmlite.ir, numpy as np
if sys.argv[1] == "plain":
    llvmlite.ir.VectorType = None
from outrule.kernels import vectors
from outrule.kernels.assignment import assign_dense
from outrule.kernels.matching import match_dense
assert vectors.VECTORS == (sys.argv[1] == "vector")
weights = np.random.default_rng(0).integers(-2, 9, (40, 15)).astype(float)
u, v = (ends.astype(np.int32) for ends in np.triu_indices(6, 1))
picks = np.empty((40, 3), np.int32)
match_dense(weights, np.ones(15), u, v, 6, picks)
print(picks.tolist())
assign_dense(weights, np.ones(15), 3, 5, picks)
print(picks.tolist())
weights, picks = weights.reshape(-1)[:578].reshape(2, 289), np.empty((2, 17), np.int32)
assign_dense(weights, np.ones(289), 17, 17, picks)
print(picks.tolist())
"""


# Compiling what calls the twins takes a while; by default they are Python functions.
PYTHON = {"NUMBA_DISABLE_JIT": "1"}
COMPILED = {"NUMBA_OPT": "0"}


@pytest.mark.parametrize(
    "settings", [PYTHON, pytest.param(COMPILED, marks=pytest.mark.slow)], ids=["python", "compiled"]
)
def test_where_the_vector_code_does_not_compile_its_twins_decide_the_same(settings, tmp_path):
    own = {"NUMBA_CACHE_DIR": str(tmp_path), **settings}
    plain, vector = (
        subprocess.run(
            [sys.executable, "-c", DECIDE, kind],
            env=os.environ | (own if kind == "plain" else {}),
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for kind in ("plain", "vector")
    )
    assert plain == vector != ""
