"""Trees of yes-or-no questions about an item: the sums by which they grow, and how they answer.

Question q of an item is whether its prediction is at least ``edges[q]``; behind these, whether it
is a certain item; behind these, whether a certain test marks it. All trees have the same depth. A
node's children are 2 node + 1 (no) and 2 node + 2 (yes), and a question of -1 is always no.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from outrule.kernels.compiling import njit
from outrule.kernels.picking import longest

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Codes = NDArray[np.int32]
Bytes = NDArray[np.uint8]


@njit(nogil=True, cache=True)
def sum_by_answer(
    values: Floats,
    node: Bytes,
    level: Bytes,
    item: Codes,
    offsets: Integers,
    picks: NDArray[np.integer],
    n_items: int,
    sums: Floats,
) -> None:
    """Add the values (n, 3) of every item to ``sums[node, place]`` of each of its answers.

    Places are the levels of predictions (one more than there are edges), then the items, then the
    tests. Items without a weight, ``values[:, 1]``, are left out; ``item`` may be empty.
    """
    n_tests, k, n = picks.shape
    first_item = sums.shape[1] - n_items - n_tests
    for j in range(len(values)):
        if values[j, 1] > 0.0 and node[j] < len(sums) and level[j] < first_item:
            _add(values, j, sums[node[j], level[j]])
            if len(item) and 0 <= item[j] < n_items:
                _add(values, j, sums[node[j], first_item + item[j]])
    for r in range(n_tests):
        for c in range(k):
            for i in range(n):
                position = np.int64(picks[r, c, i])
                if position < offsets[i + 1] - offsets[i]:
                    j = offsets[i] + position
                    if values[j, 1] > 0.0 and node[j] < len(sums):
                        _add(values, j, sums[node[j], first_item + n_items + r])


@njit(nogil=True, cache=True)
def _add(values: Floats, j: int, total: Floats) -> None:
    total[0] += values[j, 0]
    total[1] += values[j, 1]
    total[2] += values[j, 2]


@njit(nogil=True, cache=True)
def descend(
    node: Bytes,
    question: Integers,
    level: Bytes,
    item: Codes,
    offsets: Integers,
    picks: NDArray[np.integer],
    n_edges: int,
    n_items: int,
) -> None:
    """Move every item from its node to 2 node, or to 2 node + 1 if the answer is yes."""
    for i in range(len(offsets) - 1):
        for j in range(offsets[i], offsets[i + 1]):
            q, yes = question[node[j]] if node[j] < len(question) else -1, False
            if q >= n_edges + n_items:
                row = q - n_edges - n_items
                for c in range(picks.shape[1] if row < len(picks) else 0):
                    yes = yes or np.int64(picks[row, c, i]) == j - offsets[i]
            elif q >= n_edges:
                yes = len(item) > 0 and item[j] == q - n_edges
            elif q >= 0:
                yes = level[j] > q
            node[j] = 2 * node[j] + yes


@njit(nogil=True, cache=True)
def settle(node: Bytes, value: Floats, outside: Floats, values: Floats, residual: Floats) -> float:
    """Take the value of its leaf from every residual; the squared error outside, weighted."""
    error = 0.0
    for j in range(len(residual)):
        residual[j] -= value[node[j]] if node[j] < len(value) else 0.0
        values[j, 0] = values[j, 1] * residual[j]
        error += outside[j] * residual[j] * residual[j]
    return error


@njit(nogil=True, cache=True)
def add_trees(
    prediction: Floats,
    offsets: Integers,
    item: Codes,
    picks: NDArray[np.integer],
    edges: Floats,
    n_items: int,
    questions: NDArray[np.integer],
    values: Floats,
    result: Floats,
) -> None:
    """Add to ``result`` what the trees answer for every item.

    Questions about a test have its row in ``picks``. ``item`` is -1 for others than the n_items
    that questions are about, and may be empty.
    """
    n_rows, k, _ = picks.shape
    first_test = len(edges) + n_items
    # Behind the answers: whether a test marks the item, and one that is always no.
    answers = np.zeros((longest(offsets) + 1, first_test + n_rows + 2), dtype=np.uint8)
    is_question = (questions >= 0) & (questions < first_test + n_rows)
    asked = np.where(is_question, questions, first_test + n_rows + 1)
    # Most items have no mark: with many of them, each answer is computed once.
    known = np.empty((0, n_items + 1))
    if len(prediction) > 4 * (len(edges) + 1) * (n_items + 1):
        known = np.empty((len(edges) + 1, n_items + 1))
        for level in range(len(edges) + 1):
            for code in range(-1, n_items):
                _fill(answers[-1, :first_test], level, len(edges), code)
                known[level, code] = _sum_leaves(answers[-1], asked, values)
    for i in range(len(offsets) - 1):
        begin, size = offsets[i], offsets[i + 1] - offsets[i]
        answers[:size, first_test:] = 0
        for r in range(n_rows):
            for c in range(k):
                position = np.int64(picks[r, c, i])
                if position < size:
                    answers[position, first_test + r] = 1
                    answers[position, first_test + n_rows] = 1
        for j in range(size):
            level = np.searchsorted(edges, prediction[begin + j], "right")
            code = item[begin + j] if len(item) else -1
            code = code if 0 <= code < n_items else -1
            if len(known) and not answers[j, first_test + n_rows]:
                result[begin + j] += known[level, code]
            else:
                _fill(answers[j, :first_test], level, len(edges), code)
                result[begin + j] += _sum_leaves(answers[j], asked, values)


@njit(nogil=True, cache=True)
def _fill(answers: Bytes, level: int, n_edges: int, code: int) -> None:
    """The answers about the prediction and the item."""
    for q in range(n_edges):
        answers[q] = q < level
    for q in range(n_edges, len(answers)):
        answers[q] = q - n_edges == code


@njit(nogil=True, cache=True)
def _sum_leaves(answers: Bytes, asked: NDArray[np.integer], values: Floats) -> float:
    n_trees, n_inner = asked.shape
    total = 0.0
    for t in range(n_trees):
        node = 0
        while node < n_inner:
            node = 2 * node + 1 + answers[asked[t, node]]
        total += values[t, node - n_inner]
    return total
