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
from outrule.kernels.picking import ZERO, frozen
from outrule.types import Bytes, Floats, Integers, Positions, Small

Words = NDArray[np.uint64]
# Answers, as words and as bytes; the level and item of every lane; leaves likewise; what they say.
Space = tuple[Words, Bytes, Positions, Words, Bytes, Floats]

LANES = 1024  # items that are asked together
WORD = 8  # of whose answers, a byte each, one machine word holds
ONE = np.uint64(1)
DEPTH = 6  # the most questions of a tree
GROUP = 4  # trees whose leaves are added together


@njit(nogil=True, cache=True)
def list_marks(picks: Small, offsets: Integers, ends: Integers, marks: Bytes) -> None:
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
def sum_by_answer(
    values: Floats,
    inside: Positions,
    node: Bytes,
    level: Bytes,
    item: Positions,
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
            for place in range(ends[j], ends[j + 1]):
                if marks[place] < n_tests:
                    sums[at, first_item + n_items + marks[place], 0] += residual
                    sums[at, first_item + n_items + marks[place], 1] += weight


@njit(nogil=True, cache=True)
def answer_yes(node: Bytes, picks: Small, offsets: Integers) -> None:
    """Set the last bit of the node of every item that ``picks`` (k, n) chooses."""
    for c in range(picks.shape[0]):
        for i in range(picks.shape[1]):
            position = np.int64(picks[c, i])
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
    item: Positions,
    picks: Small,
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
    # It is not allocated in compiled code, which takes longer to compile then.
    space = (words, words.view(np.uint8), about, leaf, leaf.view(np.uint8), np.zeros(size))
    lanes = (np.zeros(size, dtype=np.int32), np.zeros(size, dtype=np.int64))
    rest = (edges, n_items, ends, forest, space, lanes)
    n_levels, n_codes, known = len(edges) + 1, n_items + 1, np.empty((len(ends) - 1, 0))
    if len(prediction) > 4 * n_levels * n_codes:
        # Many items have no mark: then each answer is computed once, by level and item.
        level = frozen(np.repeat(np.append(-np.inf, edges), n_codes))
        code = np.tile(np.arange(n_codes, dtype=np.int32), n_levels)
        answered = np.zeros((len(ends) - 1, len(level)))
        add_blocks(level, np.arange(len(level) + 1), code, picks[:0], *rest, known, answered)
        known = answered
    add_blocks(prediction, offsets, item, picks, *rest, known, result)


@njit(nogil=True, cache=True)
def add_blocks(
    prediction: Floats,
    offsets: Integers,
    item: Positions,
    picks: Small,
    edges: Floats,
    n_items: int,
    ends: Integers,
    forest: tuple[Integers, Floats],
    space: Space,
    lanes: tuple[Positions, Integers],
    known: Floats,
    result: Floats,
) -> None:
    n_edges, first_test, n = len(edges), len(edges) + n_items, len(offsets) - 1
    n_tests, n_members = len(picks), len(ends) - 1
    _, answers, about, _, _, total = space
    size, (lane, place) = len(total), lanes
    first = ZERO
    while first < n:
        last = first + 1
        while last < n and offsets[last + 1] - offsets[first] <= size:
            last += 1
        begin, n_lanes = offsets[first], ZERO
        for j in range(len(lane)):
            lane[j] = -1
        for r in range(n_tests):
            n_lanes = _answer(picks, r, offsets, first, last, lane, n_lanes, answers, first_test)
        for j in range(begin, offsets[last]):
            level = np.int64(level_of(edges, prediction[j]))
            code = item[j] if len(item) else -1
            code = code if 0 <= code < n_items else n_items
            at = lane[j - begin]
            if at < 0 and known.size:  # it has no mark
                for c in range(n_members):
                    result[c, j] += known[c, level * (n_items + 1) + code]
                continue
            if at < 0:
                at = n_lanes
                n_lanes += 1
            about[0, at], about[1, at], place[at] = level, code, j
        _ask(answers, about, n_edges, first_test, n_lanes)
        for c in range(n_members):
            _sum_leaves(forest, ends[c], ends[c + 1], n_lanes, space)
            for j in range(n_lanes):
                result[c, place[j]] += total[j]
        first = last


@njit(nogil=True, cache=True)
def _answer(
    picks: Small,
    test: int,
    offsets: Integers,
    first: int,
    last: int,
    lane: Positions,
    n_lanes: int,
    answers: Bytes,
    first_test: int,
) -> int:
    """Answer yes for the items that a test marks, of the instances from first to last - 1.

    Those that have no lane yet get the next one; returns how many lanes there are.
    """
    row = first_test + test
    for j in range(answers.shape[1]):
        answers[row, j] = 0
    for c in range(picks.shape[1]):
        for i in range(first, last):
            position = np.int64(picks[test, c, i])
            if position < offsets[i + 1] - offsets[i]:
                at = offsets[i] - offsets[first] + position
                if lane[at] < 0:
                    lane[at] = n_lanes
                    n_lanes += 1
                answers[row, lane[at]] = 1
    return n_lanes


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
def _ask(answers: Bytes, about: Positions, n_edges: int, first_test: int, n: int) -> None:
    """The answers about the level of the prediction and the item, the rows of ``about``."""
    for q in range(first_test):
        row = 0 if q < n_edges else 1
        low, high = (q + 1, n_edges) if row == 0 else (q - n_edges, q - n_edges)
        for j in range(n):
            answers[q, j] = low <= about[row, j] <= high


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
            _number(words, asked, first + t if first + t < end else silent, n_words, numbers, t)
        a, b = first, first + 1 if first + 1 < end else silent
        c, d = first + 2 if first + 2 < end else silent, first + 3 if first + 3 < end else silent
        for j in range(n):
            so_far = total[j] + values[a, leaf[0, j]] + values[b, leaf[1, j]]
            total[j] = so_far + values[c, leaf[2, j]] + values[d, leaf[3, j]]


@njit(nogil=True, cache=True)
def _number(
    words: Words, asked: Integers, tree: int, n_words: int, numbers: Words, row: int
) -> None:
    """The leaf of every item: its answers as the digits of a number, a byte in every word."""
    a, b, c = asked[tree, 0], asked[tree, 1], asked[tree, 2]
    d, e, f = asked[tree, 3], asked[tree, 4], asked[tree, 5]
    for j in range(n_words):  # all in one pass, so that it is vectors
        half = (words[a, j] << ONE | words[b, j]) << ONE | words[c, j]
        half = (half << ONE | words[d, j]) << ONE | words[e, j]
        numbers[row, j] = half << ONE | words[f, j]
