"""No kernel reads or writes out of bounds, or goes on for ever, whatever the bits of its numbers.

tests/run.py runs this file a second time with Numba's checks of every index, which this run cannot
have: here, what is written must be right, and what lies around it must stay as it was.
"""

import inspect

import numpy as np
import pytest

from outrule.kernels import (
    assignment,
    best,
    betting,
    curves,
    greedy,
    matching,
    overlap,
    pages,
    patching,
    picking,
    tally,
    thrift,
    trees,
)

LARGEST = float(np.finfo(np.float64).max)
BITS = np.array(
    [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, LARGEST, -LARGEST, 5e-324, 1.0, 0.5, 0.5]
)
CANARY = -77
SIZES = [(0, 3), (1, 1), (3, 2), (5, 9), (18, 17), (2, 70)]  # instances, and items of each


def hostile(generator, *shape):
    """Numbers of any bits: special ones, and ones that nobody chose."""
    special = generator.choice(BITS, shape)
    wild = np.frombuffer(generator.bytes(8 * int(np.prod(shape))), np.float64).reshape(shape)
    return np.where(generator.random(shape) < 0.8, special, wild)


class Around:
    """An array between others of its kind, which must stay as they are."""

    def __init__(self, array):
        rim = np.full((2, *array.shape[1:]), CANARY).astype(array.dtype)
        self.whole = np.concatenate((rim, array, rim))
        self.array = self.whole[2 : len(self.whole) - 2]
        self.rim = rim

    def check(self):
        assert (self.whole[:2] == self.rim).all()
        assert (self.whole[-2:] == self.rim).all()


def offsets_of(generator, n, m):
    """Instances of 0 to m items."""
    sizes = generator.integers(0, m + 1, n)
    return np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)


def solve(kernel, n, k, sizes, *arguments):
    """Run a solver, whose picks must be positions in ascending order, and then -1."""
    picks = Around(np.full((n, k), -1, dtype=np.int32))
    kernel(*arguments, picks.array)
    picks.check()
    for row, size in zip(picks.array.tolist(), sizes, strict=True):
        chosen = [position for position in row if position >= 0]
        assert row == chosen + [-1] * (k - len(chosen))
        assert chosen == sorted(set(chosen))
        assert all(position < size for position in chosen)


def solve_ragged(kernel, generator, n, m, k, more):
    """``more`` are the arguments between offsets and picks, from the number of items in all."""
    offsets = offsets_of(generator, n, m)
    weights = hostile(generator, offsets[-1])
    solve(kernel, n, k, np.diff(offsets), weights, offsets, *more(offsets))


def nodes(generator, most):
    """The ends of edges on some nodes, and how many nodes every instance has."""

    def draw(offsets):
        u, v = generator.integers(0, most, (2, offsets[-1])).astype(np.int32)
        return u, v, np.full(len(offsets) - 1, most, dtype=np.int64)

    return draw


def solve_best(generator, n, m):
    weights, scale = hostile(generator, n, m), hostile(generator, m)
    solve(best.best_dense, n, 1, [m] * n, weights, scale)
    rules = hostile(generator, 3, m)
    picks = Around(np.full((3, n), 255, dtype=np.uint8))
    best.best_dense_rules(weights, rules, picks.array)
    picks.check()
    assert (picks.array < m).all()
    solve_ragged(best.best_ragged, generator, n, m, 1, lambda _: ())


def solve_top(generator, n, m):
    for k in (1, 2, m, 40):
        width = min(k, m)
        weights, scale = hostile(generator, n, m), hostile(generator, m)
        solve(greedy.top_dense, n, width, [m] * n, weights, scale, width)
        solve_ragged(greedy.top_ragged, generator, n, m, width, lambda _, k=width: (k,))


def solve_matroids(generator, n, m):
    for capacity in ([1, 0, 1], [2, 0, 2**62]):
        group = [generator.integers(0, 3, n * m).astype(np.int32)]
        numbers = np.array(capacity, dtype=np.int64)

        def partition(offsets, group=group, numbers=numbers):
            return group[0][: offsets[-1]].copy(), numbers

        solve_ragged(greedy.partition_ragged, generator, n, m, m, partition)
    innermost = generator.integers(-1, 3, n * m).astype(np.int32)
    family = np.array([1, -1, -1], np.int32), np.array([1, 2, 2**62], np.int64)
    solve_ragged(
        greedy.laminar_ragged, generator, n, m, m, lambda o: (innermost[: o[-1]].copy(), *family)
    )
    item = generator.integers(0, 5, n * m).astype(np.int32)
    sets = np.array([0, 1, 1, 2, 4, 4]), np.array([1, 0, 0, 2], np.int32), 3
    solve_ragged(
        *(greedy.transversal_ragged, generator, n, m, 3),
        lambda o: (item[: o[-1]].copy(), *sets),
    )
    vectors = hostile(generator, 5, 2)
    solve_ragged(
        *(greedy.linear_ragged, generator, n, m, 1),
        lambda o: (item[: o[-1]].copy(), vectors, 0.5),
    )


def solve_forests(generator, n, m):
    between = np.full((5, 5), -1, dtype=np.int32)
    for edge, (a, b) in enumerate([(0, 1), (1, 2), (0, 2), (3, 4)]):
        between[a, b] = between[b, a] = edge
    solve(greedy.forest_dense, n, 3, [4] * n, hostile(generator, n, 4), between)
    for most in (2, 30):
        solve_ragged(greedy.graphic_ragged, generator, n, m, most - 1, nodes(generator, most))
        more = nodes(generator, most)
        solve_ragged(greedy.greedy_matching_ragged, generator, n, m, most // 2, more)


def solve_matchings(generator, n, m):
    for most in (2, 5, 20):  # by subsets, and by blossoms
        weights, scale = hostile(generator, n, m), hostile(generator, m)
        u, v = generator.integers(0, most, (2, m)).astype(np.int32)
        graph = (u, v, most)
        solve(matching.match_dense, n, most // 2, [m] * n, weights, scale, *graph)
        solve_ragged(matching.match_ragged, generator, n, m, most // 2, nodes(generator, most))


def solve_assignments(generator, n, m):
    for rows, columns in ((1, 1), (2, 5), (4, 3), (13, 15)):  # by subsets, and by paths
        cells = rows * columns
        weights, scale = hostile(generator, n, cells), hostile(generator, cells)
        k = min(rows, columns)
        solve(assignment.assign_dense, n, k, [cells] * n, weights, scale, rows, columns)

        def pairs(offsets, rows=rows, columns=columns):
            row = generator.integers(0, rows, offsets[-1]).astype(np.int32)
            column = generator.integers(0, columns, offsets[-1]).astype(np.int32)
            sizes = (np.full(len(offsets) - 1, side, dtype=np.int64) for side in (rows, columns))
            return (row, column, *sizes)

        solve_ragged(assignment.assign_ragged, generator, n, m, k, pairs)


def draw_picks(generator, offsets, n_rules, k):
    """Decisions (n_rules, k, n): positions, or the largest number of the type where none is."""
    sizes = np.diff(offsets)
    picks = generator.integers(0, np.maximum(sizes, 1), (n_rules, k, len(sizes))).astype(np.uint8)
    nothing = (generator.random(picks.shape) < 0.3) | (sizes == 0)
    return np.where(nothing, np.uint8(255), picks)


def sum_and_patch(generator, n, m):
    offsets = offsets_of(generator, n, m)
    total, span = int(offsets[-1]), (0, n)
    picks, steps = draw_picks(generator, offsets, 3, 2), hostile(generator, 4)
    order, box = generator.integers(0, 3, 4), (0.0, 1.0)
    outcome, weight = hostile(generator, total), hostile(generator, n)
    residual = Around(np.zeros(total, dtype=np.int64))
    prediction = Around(hostile(generator, total))
    tally.residuals(prediction.array, outcome, offsets, weight, 1.0, 20, residual.array)
    sums = np.zeros(3, dtype=np.int64)
    tally.sum_over_picks(residual.array, offsets, None, picks, sums)
    group, means = np.arange(n) // 2, hostile(generator, 3)
    squares = Around(np.zeros(3))
    rest = (np.ones((n + 1) // 2), means, squares.array)
    tally.squares_over_picks(residual.array, offsets, picks, group, *rest)
    squares.check()
    patching.patch_box(prediction.array, offsets, None, picks, order, steps, box, span)
    ledger = (residual.array, outcome, offsets, picks[0], 0.5, 7, box, 20, span)
    clipped = Around(np.zeros((picks[0].size, 3), dtype=np.int64))
    kept, _ = patching.patch_ledger(prediction.array, *ledger, clipped.array)
    clipped.check()
    frozen = generator.random(total) < 0.3
    patching.patch_simplex(prediction.array, offsets, picks, order, steps, frozen, span)
    tally.project_simplices(prediction.array, offsets, frozen)
    prediction.array[:] = hostile(generator, total)
    best_or_rule = np.array([-1, 0, -1, 1])
    room = Around(patching.room_of_groups(offsets, span))
    best_of_groups = (best_or_rule, steps, box, span, room.array)
    patching.patch_best(prediction.array, offsets, picks, *best_of_groups)
    room.check()
    prediction.check()
    residual.check()
    overlap.add_at_items(picks, clipped.array[:kept], sums)


def sum_and_patch_dense(generator, n, m):
    offsets, span, box = np.arange(n + 1) * m, (0, n), (0.0, 1.0)
    picks, order = draw_picks(generator, offsets, 3, 2), generator.integers(0, 3, 4)
    values, sums = np.ones(n * m, dtype=np.int64), Around(np.zeros(3, dtype=np.int64))
    tally.sum_over_picks(values, offsets, m, picks, sums.array)
    sums.check()
    prediction = Around(hostile(generator, n * m))
    steps = hostile(generator, 4)
    patching.patch_box(prediction.array, offsets, m, picks, order, steps, box, span)
    prediction.check()


def follow_best(generator, n, m):
    offsets = np.arange(n + 1) * m
    picks = Around(generator.integers(-1, m, (n, 2)).astype(np.int32))
    marks, own = np.zeros(n * m, np.bool_), Around(np.zeros((2, n), dtype=np.uint8))
    tally.mark_picks(picks.array, offsets, marks)
    residual, nothing = np.ones(n * m, dtype=np.int64), np.zeros(0, dtype=np.int64)
    tally.compact_and_sum(picks.array, offsets, residual, nothing, 1, own.array, (0, n))
    leader, margin = Around(np.zeros((n, 1), dtype=np.int32)), Around(np.zeros(n))
    every = np.arange(n)
    tally.best_with_margin(hostile(generator, n * m), offsets, every, leader.array, margin.array)
    margin.array[:] = hostile(generator, n)
    changed = Around(np.zeros(n, dtype=np.int64))
    margins = (margin.array, leader.array, own.array, np.nan, np.inf)
    left = changed.array[: tally.shrink_margins(*margins, changed.array)]
    assert set(left.tolist()) <= set(range(n))
    for around in (picks, own, leader, margin, changed):
        around.check()


def compare_decisions(generator, n, m):
    offsets = offsets_of(generator, n, m)
    picks, own = draw_picks(generator, offsets, 3, 2), draw_picks(generator, offsets, 2, 2)
    every, shared = np.arange(n), np.zeros(3, dtype=np.int64)
    overlap.overlap_single(picks, own[0], shared)
    overlap.overlap_masks(picks, own[0], shared)
    overlap.overlap_sets(picks, None, own[0], offsets, every, shared)
    overlap.overlap_sets(picks, own[0], own[1], offsets, every, shared)


def follow_curves(generator, n, m):
    offsets = offsets_of(generator, n, m)
    total = int(offsets[-1])
    ends, points = np.array([0, 1, 4, 6, 7], dtype=np.int64), hostile(generator, 35).reshape(7, 5)
    item_curves = (ends, points, *curves.index_points(ends, points))
    prediction, frozen = Around(hostile(generator, total)), generator.random(total) < 0.3
    item, curve_of = generator.integers(0, 3, total).astype(np.int32), np.array([0, -1, 3])
    result = Around(np.zeros(total))
    nothing = np.zeros(0, dtype=np.int32)
    for some in (item, nothing):
        given = (prediction.array, some, curve_of, *item_curves, frozen)
        curves.follow_item_curves(*given, result.array)
    picks, order = draw_picks(generator, offsets, 3, 2), np.array([-1, 0, 2, -1])
    for simplex in (False, True):
        rest = (frozen, simplex)
        curves.patch_curves(prediction.array, offsets, picks, order, ends, points, *rest)
        starts = np.stack([prediction.array, prediction.array])
        patches = (np.array([0, 1, 4]), order, ends, points, *curves.rising_pieces(ends, points))
        curves.sum_members(starts, offsets, picks, patches, *rest, result.array)
    outcome, edges = hostile(generator, total), hostile(generator, 5)
    weight, values = hostile(generator, n), Around(np.zeros((total, 2)))
    levels = Around(np.zeros(total, dtype=np.uint8))
    upweight = hostile(generator, total)
    shares = (weight, upweight, frozen, edges, values.array, levels.array)
    curves.weigh(prediction.array, outcome, offsets, *shares)
    sums = Around(np.zeros((3, 6, 2)))
    curves.sum_by_level(values.array, levels.array, offsets, picks, 0, 1, sums.array)
    places = curves.marked_places(picks[0], offsets, values.array)
    bins = Around(np.zeros((6, 4)))
    curves.sum_by_bin(places, prediction.array, outcome, values.array, edges, bins.array)
    for simplex in (False, True):
        curve = (picks[0], points[1:4].copy(), weight, weight, upweight, frozen)
        spare = Around(np.zeros((2, np.diff(offsets).max(initial=0))))
        written = (edges, values.array, levels.array, spare.array if simplex else None)
        curves.move_along(prediction.array, outcome, offsets, *curve, *written)
        spare.check()
    for around in (prediction, result, values, levels, sums, bins):
        around.check()


def grow_trees(generator, n, m):
    offsets = offsets_of(generator, n, m)
    total, picks = int(offsets[-1]), draw_picks(generator, offsets, 3, 2)
    prediction, edges = hostile(generator, total), np.sort(hostile(generator, 5))
    node, level = (generator.integers(0, 256, total).astype(np.uint8) for _ in range(2))
    item = generator.integers(-3, 9, total).astype(np.int32)
    values = Around(hostile(generator, 2 * total).reshape(-1, 2))
    sums = Around(np.zeros((4, 11, 2)))
    ends, marks = Around(np.zeros(total + 2, dtype=np.int64)), Around(np.zeros(6 * n, np.uint8))
    residual, result = Around(hostile(generator, total)), Around(np.zeros((3, total)))
    nodes, questions = Around(node.copy()), generator.integers(-3, 20, (3, 3))
    trees.list_marks(picks, offsets, ends.array, marks.array)
    inside, listed = np.arange(total, dtype=np.int32), (ends.array, marks.array)
    for some in (item, item[:0]):
        for last in (-1, 0, 1):
            places = (node, level, some, *listed, 2, 3, last, sums.array)
            trees.sum_by_answer(values.array, inside, *places)
        forest = trees.padded(questions, hostile(generator, 24).reshape(3, 8), 5 + 2 + len(picks))
        ask = (picks, edges, 2, np.array([0, 2, 2, 3]), forest)
        trees.add_trees(prediction, offsets, some, *ask, result.array)
    for own in picks:
        trees.answer_yes(nodes.array, own, offsets)
    leaves = hostile(generator, 4)
    trees.settle(node, leaves, hostile(generator, total), values.array, residual.array)
    for around in (values, sums, ends, marks, nodes, residual, result):
        around.check()


def bet(generator, n, _):
    value, weight = hostile(generator, n), hostile(generator, n)
    stake = betting.stakes(np.abs(value), np.abs(weight), np.full(n, n))
    least = np.array([0.4, 0.0])
    rows = np.abs(np.stack([value, weight]))
    kind, _ = betting.stakes_on_kinds(rows, np.abs(weight), np.full(n, n), least)
    for share in (0.0, 0.5, 1.0):
        for strives in (False, True):
            bets = (value, weight, stake, kind, least, strives)
            betting.log_capital(bets, share, np.inf)
            betting.log_capital_striving(bets, share, 3.0, np.inf)
            betting.play(bets, share, 3.0, np.inf)
            betting.evidence(bets, share, 3.0)
            if n:
                assert 0 <= betting.lower_bound(bets, 3.0) <= 1


def read_pages(generator, n, m):
    """Bytes of any kind, more often those that begin structures, lists and long numbers."""
    size = 40 * n + m
    begins = generator.choice(
        np.frombuffer(b"\x15\x19\x1c\x5c\x18\x00\xff\x80\x2c\xfc", np.uint8), size
    )
    data = np.where(generator.random(size) < 0.6, begins, generator.integers(0, 256, size))
    data = Around(data.astype(np.uint8))
    shapes = np.zeros((4, thrift.N_FIELDS), np.int64)
    plain = (thrift.BOOL, thrift.BYTE, thrift.INTEGER, thrift.TEXT, thrift.STRUCT + 2)
    shapes[1:] = generator.choice([0, *plain, thrift.LIST + thrift.STRUCT + 3], (3, 32))
    shapes[1:] += thrift.KEEP * generator.integers(0, 2, (3, 32))
    stack = np.zeros((thrift.DEEPEST, thrift.STACK), np.int64)
    kept = Around(np.zeros((m, thrift.KEPT), np.int64))
    at, found = thrift.read_struct(data.array, 0, size, shapes, 1, stack, kept.array)
    assert thrift.DAMAGED <= at <= size
    assert 0 <= found <= size
    kept.check()
    starts = generator.integers(0, size + 1, n)
    ends = starts + generator.integers(0, size + 1 - starts)
    numbers = generator.integers(0, 2**62, (2, n))
    widths, places = np.full(n, 1), generator.integers(32, 64, pages.N_PLACES)
    pages.find_fault(data.array, starts, ends, *numbers, widths, shapes, 1, places)


FAMILIES = [
    *(solve_best, solve_top, solve_matroids, solve_forests, solve_matchings, solve_assignments),
    *(sum_and_patch, sum_and_patch_dense, follow_best, compare_decisions, follow_curves, bet),
    *(grow_trees, read_pages),
]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_kernels_stay_in_bounds_and_end(family):
    generator = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        for n, m in SIZES:
            for _ in range(10):
                family(generator, n, m)


HELPERS = {  # of other kernels, or called by a function of their module
    *("add_blocks", "add_members", "best_of_rules"),
    *(
        "room_of_groups",
        "largest_of",
        "project_simplex",
        "value_at",
        "level_of",
        "frozen",
    ),
    *("longest", "insert_ascending", "scaled", "capped"),
    *("assign_dense_by_paths", "assign_ragged_by_paths", "sort_descending"),
    "caps_of",
}


def test_every_kernel_is_tried():
    source = inspect.getsource(inspect.getmodule(hostile))
    singles = (best, betting, greedy, pages, patching, tally, thrift, trees)
    for module in (assignment, curves, matching, overlap, *singles):
        name = module.__name__.rpartition(".")[2]
        for kernel, value in vars(module).items():
            function = getattr(value, "py_func", value)
            if kernel.startswith("_") or kernel in HELPERS or not inspect.isfunction(function):
                continue
            if function.__module__ == module.__name__:
                assert f"{name}.{kernel}" in source, f"{name}.{kernel} is not tried"
    assert picking.capped(np.nan) == 0.0
