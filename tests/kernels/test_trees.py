"""The kernels of trees equal a walk by one item and one question at a time."""

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
    questions = generator.integers(-1, 9, (3, 7)).astype(np.int16)
    values, result = generator.normal(size=(3, 8)), generator.random(len(p))
    start = result.copy()
    some = item if has_items else item[:0]
    trees.add_trees(p, offsets, some, picks, edges, 3, questions, values, result)
    for j in range(len(p)):
        name = item[j] if has_items else -1
        own = (p[j], name, marks[j], edges, ITEMS)
        pairs = zip(questions, values, strict=True)
        walked = sum(slow_trees.walk(*tree, *own) for tree in pairs)
        assert abs(result[j] - start[j] - walked) < 1e-12


@given(SEEDS)
def test_sums_and_steps_are_those_of_single_answers(seed):
    generator, p, offsets, item, picks, marks = draw(seed)
    edges, n = np.array([0.2, 0.5]), len(p)
    level = np.searchsorted(edges, p, "right").astype(np.uint8)
    node = generator.integers(0, 4, n).astype(np.uint8)
    values = generator.integers(0, 4, (n, 3)).astype(np.float64)  # whole, so that sums are exact
    sums = np.zeros((4, 3 + 3 + 4, 3))
    trees.sum_by_answer(values, node, level, item, offsets, picks, 3, sums)
    own = [(p[j], item[j], marks[j], edges, ITEMS) for j in range(n)]
    used = [j for j in range(n) if values[j, 1] > 0]
    # A test that names an item twice adds it twice: decisions name every item once.
    twice = [len(set(picks[r, :, i])) < picks.shape[1] for r in range(4) for i in range(9)]
    for at in range(4):
        here = [j for j in used if node[j] == at]
        for place in range(3):
            expected = sum((values[j] for j in here if level[j] == place), np.zeros(3))
            assert sums[at, place].tolist() == expected.tolist()
        for question in range(2, 5 if any(twice) else 9):
            yes = (values[j] for j in here if slow_trees.answer(question, *own[j]))
            assert sums[at, 1 + question].tolist() == sum(yes, np.zeros(3)).tolist()
    question, moved = generator.integers(-1, 9, 4), node.copy()
    trees.descend(moved, question, level, item, offsets, picks, 2, 3)
    for j in range(n):
        assert moved[j] == 2 * node[j] + slow_trees.answer(question[node[j]], *own[j])


@given(SEEDS)
def test_residuals_lose_the_value_of_their_leaf(seed):
    generator = np.random.default_rng(seed)
    node = generator.integers(0, 4, 20).astype(np.uint8)
    value, outside = generator.normal(size=4), generator.random(20)
    values, residual = generator.random((20, 3)), generator.normal(size=20)
    expected = residual - value[node]
    error = trees.settle(node, value, outside, values, residual)
    np.testing.assert_array_equal(residual, expected)
    np.testing.assert_array_equal(values[:, 0], values[:, 1] * expected)
    assert abs(error - (outside * expected**2).sum()) < 1e-9
