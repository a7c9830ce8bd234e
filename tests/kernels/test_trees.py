"""The kernels of trees equal a walk by one item and one question at a time."""

from itertools import product

import numpy as np
import slow_trees
from hypothesis import given, strategies as st

from outrule.kernels import trees

SEEDS = st.integers(0, 2**32 - 1)
ITEMS = (0, 1, 2)


def draw(seed, k=2, n_tests=4):
    """Items of a few instances, their answers as lists, and decisions of some tests."""
    generator = np.random.default_rng(seed)
    sizes = generator.integers(0, 6, 9)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    p = generator.choice([0.0, 0.2, 0.4, 0.5, 0.9], offsets[-1])
    item = generator.integers(-1, 3, offsets[-1]).astype(np.int32)
    picks = generator.integers(0, 8, (n_tests, k, 9)).astype(np.uint8)  # some choose nothing
    marks = [
        [j - offsets[i] in picks[r, :, i] for r in range(n_tests)]
        for i in range(9)
        for j in range(offsets[i], offsets[i + 1])
    ]
    return generator, p, offsets, item, picks, marks


@given(SEEDS, st.booleans(), st.booleans())
def test_trees_add_what_a_walk_finds(seed, has_items, many):
    generator, p, offsets, item, picks, marks = draw(seed)
    edges = np.array([0.2, 0.5])
    if many:  # so many that the answers of items without a mark are computed once
        p, item, marks = np.tile(p, 9), np.tile(item, 9), marks * 9
        last = offsets[-1]
        offsets = np.concatenate([[0], *(offsets[1:] + time * last for time in range(9))])
        picks = np.tile(picks, 9)
    ends = np.cumsum([0, *generator.integers(0, 7, 3)])
    questions = generator.integers(-1, 9, (ends[-1], 3))
    values, result = generator.normal(size=(ends[-1], 8)), generator.random((3, len(p)))
    start, some = result.copy(), item if has_items else item[:0]
    forest = trees.padded(questions, values, len(edges) + 3 + len(picks))
    trees.add_trees(p, offsets, some, picks, edges, 3, ends, forest, result)
    for member, j in product(range(3), range(len(p))):
        own = (p[j], item[j] if has_items else -1, marks[j], edges, ITEMS)
        which = range(ends[member], ends[member + 1])
        walked = sum(slow_trees.walk(questions[t], values[t], *own) for t in which)
        assert abs(result[member, j] - start[member, j] - walked) < 1e-12


@given(SEEDS)
def test_sums_and_steps_are_those_of_single_answers(seed):
    generator, p, offsets, item, picks, marks = draw(seed)
    picks[:, 1][picks[:, 0] == picks[:, 1]] = 9  # a decision has every item once
    edges, n = np.array([0.2, 0.5]), len(p)
    level = np.searchsorted(edges, p, "right").astype(np.uint8)
    node = generator.integers(0, 4, n).astype(np.uint8)
    values = generator.integers(0, 4, (n, 2)).astype(np.float64)  # whole, so that sums are exact
    ends, listed = np.empty(n + 2, dtype=np.int64), np.empty(picks.size, dtype=np.uint8)
    trees.list_marks(picks, offsets, ends, listed)
    inside = np.flatnonzero(generator.random(n) < 0.7).astype(np.int32)
    own = [(p[j], item[j], marks[j], edges, ITEMS) for j in range(n)]
    for last in (-1, 0, 1):
        sums = np.zeros((4, 3 + 3 + 4, 2))
        places = (level, item, ends, listed, 3, 4)
        trees.sum_by_answer(values, inside, node, *places, last, sums)
        for at in range(4):
            here = [j for j in inside if node[j] == at and last in (-1, at % 2)]
            for place in range(3):
                expected = sum((values[j] for j in here if level[j] == place), np.zeros(2))
                assert sums[at, place].tolist() == expected.tolist()
            for question in range(2, 9):
                yes = (values[j] for j in here if slow_trees.answer(question, *own[j]))
                assert sums[at, 1 + question].tolist() == sum(yes, np.zeros(2)).tolist()
    for test in range(4):
        moved = 2 * node
        trees.answer_yes(moved, picks[test], offsets)
        assert moved.tolist() == [2 * node[j] + marks[j][test] for j in range(n)]


@given(SEEDS)
def test_residuals_lose_the_value_of_their_leaf(seed):
    generator = np.random.default_rng(seed)
    node = generator.integers(0, 4, 20).astype(np.uint8)
    value, outside = generator.normal(size=4), generator.random(20)
    values, residual = generator.random((20, 2)), generator.normal(size=20)
    expected = residual - value[node]
    error = trees.settle(node, value, outside, values, residual)
    np.testing.assert_array_equal(residual, expected)
    np.testing.assert_array_equal(values[:, 0], values[:, 1] * expected)
    assert abs(error - (outside * expected**2).sum()) < 1e-9
