"""Trees of yes-or-no questions about an item: the sums by which they grow, and how they answer.

Question q of an item is whether its prediction is at least ``edges[q]``; behind these, whether it
is a certain item; behind these, whether a certain test marks it. A tree asks all items the same
few questions, so the answers are the digits of a binary number, which is the number of a leaf.
A question of -1 is always no.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from outrule.kernels.compiling import njit
from outrule.kernels.curves import level_of
from outrule.kernels.picking import ZERO

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Codes = NDArray[np.int32]
Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]
# Answers, as words and as bytes; the level and item of every lane; leaves likewise; what they say.
Space = tuple[Words, Bytes, Codes, Words, Bytes, Floats]

LANES = 1024  # items that are asked together
WORD = 8  # of whose answers, a byte each, one machine word holds
ONE = np.uint64(1)
DEPTH = 6  # the most questions of a tree
GROUP = 4  # trees whose leaves are added together


@njit(nogil=True, cache=True)
def list_marks(picks: NDArray[np.integer], offsets: Integers, ends: Integers, marks: Bytes) -> None:
    """Write which tests mark every item: those of item j are ``marks[ends[j] : ends[j + 1]]``.

    ``ends`` has two more places than there are items, ``marks`` one for every pick.
    """
    n_tests, k, n = picks.shape
    for j in range(len(ends)):
        ends[j] = 0
    for r in range(n_tests):
        for c in range(k):
            for i in range(n):
                position = np.int64(picks[r, c, i])
                if position < offsets[i + 1] - offsets[i]:
                    ends[offsets[i] + position + 2] += 1
    for j in range(2, len(ends)):
        ends[j] += ends[j - 1]
    for r in range(n_tests):
        for c in range(k):
            for i in range(n):
                position = np.int64(picks[r, c, i])
                if position < offsets[i + 1] - offsets[i]:
                    at = offsets[i] + position + 1
                    marks[ends[at]] = r
                    ends[at] += 1


@njit(nogil=True, cache=True)
def sum_by_test(
    values: Floats, offsets: Integers, picks: NDArray[np.integer], sums: Floats
) -> None:
    """Add to ``sums[r]`` the values (n, 2) of the items that test r marks."""
    n_tests, k, n = picks.shape
    for r in range(n_tests):
        for c in range(k):
            for i in range(n):
                position = np.int64(picks[r, c, i])
                if position < offsets[i + 1] - offsets[i]:
                    sums[r, 0] += values[offsets[i] + position, 0]
                    sums[r, 1] += values[offsets[i] + position, 1]


@njit(nogil=True, cache=True)
def sum_by_answer(
    values: Floats,
    inside: Codes,
    node: Bytes,
    level: Bytes,
    item: Codes,
    ends: Integers,
    marks: Bytes,
    n_items: int,
    n_tests: int,
    last: int,
    sums: Floats,
) -> None:
    """Add the values (n, 2) of items ``inside`` to ``sums[node, place]`` of each of their answers.

    Places are the levels of predictions (one more than there are edges), then the items, then the
    tests. Only nodes whose last answer was ``last`` are summed, all of them if it is -1. ``item``
    may be empty.
    """
    first_item = sums.shape[1] - n_items - n_tests
    for j in inside:
        at = node[j]
        if at < len(sums) and level[j] < first_item and (last < 0 or at & 1 == last):
            residual, weight = values[j, 0], values[j, 1]
            sums[at, level[j], 0] += residual
            sums[at, level[j], 1] += weight
            if len(item) and 0 <= item[j] < n_items:
                sums[at, first_item + item[j], 0] += residual
                sums[at, first_item + item[j], 1] += weight
            for mark in marks[ends[j] : ends[j + 1]]:
                if mark < n_tests:
                    sums[at, first_item + n_items + mark, 0] += residual
                    sums[at, first_item + n_items + mark, 1] += weight


@njit(nogil=True, cache=True)
def descend(
    node: Bytes,
    question: int,
    level: Bytes,
    item: Codes,
    offsets: Integers,
    picks: NDArray[np.integer],
    n_edges: int,
    n_items: int,
) -> None:
    """Move every item from its node to 2 node, or to 2 node + 1 if the answer is yes."""
    row = question - n_edges - n_items
    if 0 <= question < n_edges:
        for j in range(len(node)):
            node[j] = 2 * node[j] + (level[j] > question)
    elif 0 <= question < n_edges + n_items and len(item):
        for j in range(len(node)):
            node[j] = 2 * node[j] + (item[j] == question - n_edges)
    else:
        for j in range(len(node)):
            node[j] = 2 * node[j]
        for c in range(picks.shape[1] if 0 <= row < len(picks) else 0):
            for i in range(len(offsets) - 1):
                position = np.int64(picks[row, c, i])
                if position < offsets[i + 1] - offsets[i]:
                    node[offsets[i] + position] |= 1


@njit(nogil=True, cache=True)
def settle(node: Bytes, value: Floats, outside: Floats, values: Floats, residual: Floats) -> float:
    """Take the value of its leaf from every residual; the squared error outside, weighted."""
    error = 0.0
    for j in range(len(residual)):
        residual[j] -= value[node[j]] if node[j] < len(value) else 0.0
        values[j, 0] = values[j, 1] * residual[j]
        error += outside[j] * residual[j] * residual[j]
    return error


def add_trees(
    prediction: Floats,
    offsets: Integers,
    item: Codes,
    picks: NDArray[np.integer],
    edges: Floats,
    n_items: int,
    ends: Integers,
    forest: tuple[Integers, Floats],
    result: Floats,
) -> None:
    """Add to ``result[c]`` what the trees from ``ends[c]`` to ``ends[c + 1]`` answer for all items.

    The t-th test that questions are about decides ``picks[t]``. ``item`` is -1 for others than the
    n_items that questions are about, and may be empty. The ``forest`` is one of :func:`padded`.
    """
    size = max(np.diff(offsets).max(initial=1), min(LANES, len(prediction)))
    size = int(-(-size // WORD) * WORD)
    # A row of answers for every question, and one that is always no.
    words = np.zeros((len(edges) + n_items + len(picks) + 1, size // WORD), dtype=np.uint64)
    leaf, about = np.zeros((GROUP, size // WORD), np.uint64), np.zeros((2, size), dtype=np.int32)
    n_known = (len(edges) + 1) * (n_items + 1)
    known = np.empty((len(ends) - 1, n_known if len(prediction) > 4 * n_known else 0))
    # It is not allocated in compiled code, which takes longer to compile then.
    space = (words, words.view(np.uint8), about, leaf, leaf.view(np.uint8), np.zeros(size))
    lanes = (np.zeros(size, dtype=np.int32), np.zeros(size, dtype=np.int64))
    about_items = (prediction, offsets, item, picks, edges, n_items)
    _add_trees(*about_items, ends, forest, space, lanes, known, result)


@njit(nogil=True, cache=True)
def _add_trees(
    prediction: Floats,
    offsets: Integers,
    item: Codes,
    picks: NDArray[np.integer],
    edges: Floats,
    n_items: int,
    ends: Integers,
    forest: tuple[Integers, Floats],
    space: Space,
    lanes: tuple[Codes, Integers],
    known: Floats,
    result: Floats,
) -> None:
    n_edges, first_test, n = len(edges), len(edges) + n_items, len(offsets) - 1
    n_tests, n_members = len(picks), len(ends) - 1
    _, answers, about, _, _, total = space
    size, (lane, place) = len(total), lanes
    if known.size:
        # Many items have no mark: then each answer is computed once, by level and item.
        _fill_known(n_edges, n_items, forest, ends, space, known)
    first = ZERO
    while first < n:
        last = first + 1
        while last < n and offsets[last + 1] - offsets[first] <= size:
            last += 1
        begin, n_lanes = offsets[first], ZERO
        for j in range(len(lane)):
            lane[j] = -1 if known.size else 0
        for r in range(n_tests):
            _mark(picks[r], offsets, first, last, lane)
        for j in range(begin, offsets[last]):
            level = np.int64(level_of(edges, prediction[j]))
            code = item[j] if len(item) else -1
            code = code if 0 <= code < n_items else n_items
            if lane[j - begin] < 0:
                for c in range(n_members):
                    result[c, j] += known[c, level * (n_items + 1) + code]
            else:
                about[0, n_lanes], about[1, n_lanes], place[n_lanes] = level, code, j
                lane[j - begin] = n_lanes
                n_lanes += 1
        for r in range(n_tests):
            _answer(picks[r], offsets, first, last, lane, answers[first_test + r])
        _ask(answers, about, n_edges, first_test, n_lanes)
        for c in range(n_members):
            _sum_leaves(forest, ends[c], ends[c + 1], n_lanes, space)
            for j in range(n_lanes):
                result[c, place[j]] += total[j]
        first = last


@njit(nogil=True, cache=True)
def _fill_known(
    n_edges: int,
    n_items: int,
    forest: tuple[Integers, Floats],
    ends: Integers,
    space: Space,
    known: Floats,
) -> None:
    """What the trees of every member say of an item without a mark, by its level and item."""
    _, answers, about, _, _, total = space
    size = len(total)
    for first in range(0, known.shape[1], size):
        n = min(size, known.shape[1] - first)
        for j in range(n):
            about[0, j], about[1, j] = divmod(first + j, n_items + 1)
        _ask(answers, about, n_edges, n_edges + n_items, n)
        for c in range(len(known)):
            _sum_leaves(forest, ends[c], ends[c + 1], n, space)
            for j in range(n):
                known[c, first + j] = total[j]


@njit(nogil=True, cache=True)
def _mark(
    picks: NDArray[np.integer], offsets: Integers, first: int, last: int, lane: Codes
) -> None:
    """Write 0 for the items of ``picks`` (k, n), of the instances from first to last - 1."""
    for c in range(picks.shape[0]):
        for i in range(first, last):
            position = np.int64(picks[c, i])
            if position < offsets[i + 1] - offsets[i]:
                lane[offsets[i] - offsets[first] + position] = 0


@njit(nogil=True, cache=True)
def _answer(
    picks: NDArray[np.integer],
    offsets: Integers,
    first: int,
    last: int,
    lane: Codes,
    answer: Bytes,
) -> None:
    """Answer yes for the same items, each in its lane."""
    for j in range(len(answer)):
        answer[j] = 0
    for c in range(picks.shape[0]):
        for i in range(first, last):
            position = np.int64(picks[c, i])
            if position < offsets[i + 1] - offsets[i]:
                answer[lane[offsets[i] - offsets[first] + position]] = 1


def padded(questions: Integers, values: Floats, n_questions: int) -> tuple[Integers, Floats]:
    """Trees with DEPTH questions each, which are rows of answers; one more tree says nothing."""
    n_trees, depth = questions.shape
    asked = np.full((n_trees + 1, DEPTH), n_questions, dtype=np.int64)  # that row is always no
    leaves = np.zeros((n_trees + 1, 2**DEPTH))
    known = (questions >= 0) & (questions < n_questions)
    asked[:-1, DEPTH - depth :] = np.where(known, questions, n_questions)
    leaves[:-1, : values.shape[1]] = values
    return asked, leaves


@njit(nogil=True, cache=True)
def _ask(answers: Bytes, about: Codes, n_edges: int, first_test: int, n: int) -> None:
    """The answers about the level of the prediction and the item, the rows of ``about``."""
    for q in range(n_edges):
        for j in range(n):
            answers[q, j] = about[0, j] > q
    for q in range(n_edges, first_test):
        for j in range(n):
            answers[q, j] = about[1, j] == q - n_edges


@njit(nogil=True, cache=True)
def _sum_leaves(
    forest: tuple[Integers, Floats], begin: int, end: int, n: int, space: Space
) -> None:
    """Write what the trees from begin to end - 1 say together of the first n items."""
    words, _, _, numbers, leaf, total = space
    asked, values = forest
    n_words, silent = -(-n // WORD), len(asked) - 1
    for j in range(n):
        total[j] = 0.0
    for first in range(begin, end, GROUP):
        for t in range(GROUP):
            _number(words, asked[first + t if first + t < end else silent], n_words, numbers[t])
        a, b = values[first], values[first + 1 if first + 1 < end else silent]
        c = values[first + 2 if first + 2 < end else silent]
        d = values[first + 3 if first + 3 < end else silent]
        for j in range(n):
            so_far = total[j] + a[leaf[0, j]] + b[leaf[1, j]]
            total[j] = so_far + c[leaf[2, j]] + d[leaf[3, j]]


@njit(nogil=True, cache=True)
def _number(words: Words, asked: Integers, n_words: int, number: Words) -> None:
    """The leaf of every item: its answers as the digits of a number, a byte in every word."""
    a, b, c = words[asked[0]], words[asked[1]], words[asked[2]]
    d, e, f = words[asked[3]], words[asked[4]], words[asked[5]]
    for j in range(n_words):  # all in one pass, so that it is vectors
        half = (a[j] << ONE | b[j]) << ONE | c[j]
        number[j] = ((half << ONE | d[j]) << ONE | e[j]) << ONE | f[j]
