"""Curve patches: predictions moved along monotone curves, and the sums by which they are fitted."""

from __future__ import annotations

import numpy as np

from outrule.kernels.compiling import njit
from outrule.kernels.picking import ZERO
from outrule.kernels.tally import project_simplex, project_simplices
from outrule.types import Booleans, Bytes, Floats, Integers, Positions, Small

Space = tuple[Floats, Integers, Positions, Integers, Floats]

FEW = 64  # instances that stay in the nearest cache while all patches are applied
LARGEST = np.finfo(np.float64).max
BUCKETS = 256  # parts of a curve's length, to find a point among many
# A curve is a row per point: X and Y, the slope and width of the piece behind it, and the largest
# value, which rounding may not exceed. X and widths are times SCALE, so that points as close to
# each other as the smallest predictions (1e-320) have a slope that is a number.
X, Y, SLOPE, WIDTH, MOST = range(5)
SCALE = 2.0**100
STEP = 3  # pieces of a curve that are added at a time
INSTANCES_IN_CACHE = 512  # instances whose values stay in cache while all tests are summed


@njit(nogil=True, cache=True)
def value_at(points: Floats, first: int, last: int, p: float) -> float:
    """The curve through the points first to last - 1 at p; constant beyond its ends."""
    x = p * SCALE
    return _value(points, _last_below(points, first, last - first, x), last, x)


@njit(nogil=True, cache=True)
def _last_below(points: Floats, at: int, length: int, x: float) -> int:
    """The last point that is not above x, found without a branch; the first if all are above."""
    while length > 1:
        half = length // 2
        at = at + half if points[at + half, X] <= x else at
        length -= half
    return at


@njit(nogil=True, cache=True)
def _value(points: Floats, at: int, last: int, x: float) -> float:
    beyond = _within(x - points[at, X], points[at, WIDTH])
    value, most = points[at, Y] + points[at, SLOPE] * beyond, points[last - 1, MOST]
    return float(value if value < most else most)


def index_points(ends: Integers, points: Floats) -> tuple[Floats, Positions]:
    """Every curve's buckets per unit of length, and how many of its points lie before each."""
    x, sizes = points[ends[0] : ends[-1], X], np.diff(ends)
    with np.errstate(all="ignore"):
        low, length = points[ends[:-1], X], points[ends[1:] - 1, X] - points[ends[:-1], X]
        scales = np.where(length > BUCKETS / LARGEST, BUCKETS / length, 0.0)
        place = (x - np.repeat(low, sizes)) * np.repeat(scales, sizes)
        bucket = np.where((place > 0.0) & (place < BUCKETS), place, BUCKETS * (place > 0.0))
    shape = (len(sizes), BUCKETS + 2)
    at = np.repeat(np.arange(len(sizes)) * shape[1], sizes) + bucket.astype(np.int64) + 1
    counts = np.bincount(at, minlength=shape[0] * shape[1]).reshape(shape)
    return scales, np.cumsum(counts, axis=1, dtype=np.int32)


@njit(nogil=True, cache=True)
def follow_item_curves(
    prediction: Floats,
    item: Positions,
    curve_of_item: Integers,
    ends: Integers,
    points: Floats,
    scales: Floats,
    before: Positions,
    frozen: Booleans,
    result: Floats,
) -> None:
    """Every prediction on the curve of its item; frozen items, or where it is -1, stay as they are.

    Without items (an empty array) all are on the first curve. It is :func:`value_at`, but of the
    points only those in the bucket of the prediction are searched.
    """
    for j in range(len(prediction)):
        curve = curve_of_item[item[j] if len(item) else 0]
        result[j] = prediction[j]
        if curve >= 0 and not (len(frozen) and frozen[j]):
            first, x = ends[curve], prediction[j] * SCALE
            place = (x - points[first, X]) * scales[curve]  # as in index_points
            bucket = int(place) if 0.0 < place < BUCKETS else BUCKETS * (place > 0.0)
            skipped = max(before[curve, bucket] - 1, 0)
            at = _last_below(points, first + skipped, before[curve, bucket + 1] - skipped, x)
            result[j] = _value(points, at, ends[curve + 1], x)


def patch_curves(
    prediction: Floats,
    offsets: Integers,
    picks: Small,
    order: Integers,
    ends: Integers,
    points: Floats,
    frozen: Booleans,
    simplex: bool,
) -> None:
    """Apply patches in order: the items of ``picks[order[t]]`` go along the t-th curve.

    order[t] = -1 is the item of largest prediction, the first of equals. Frozen items stay;
    without any (an empty array) all may move. On the simplex, touched instances are projected,
    and those that do not start there.
    """
    one, result = np.array([0, len(order)]), np.empty_like(prediction)
    patches = (one, order, ends, points, *rising_pieces(ends, points))
    sum_members(prediction[None], offsets, picks, patches, frozen, simplex, result)
    prediction[:] = result


def sum_members(
    starts: Floats,
    offsets: Integers,
    picks: Small,
    patches: tuple[Integers, Integers, Integers, Floats, Integers, Floats],
    frozen: Booleans,
    simplex: bool,
    result: Floats,
) -> None:
    """Add up what members predict, each from its row of ``starts`` (n_members, n) by its patches.

    Member c has the patches from ``lengths[c]`` to ``lengths[c + 1]``, which are as those of
    :func:`patch_curves`; the last two of ``patches`` are their :func:`rising_pieces`.
    """
    # Branches on an argument that is None are not compiled: most problems need no projection.
    room = np.empty(np.diff(offsets).max(initial=0)) if simplex else None
    # The items of FEW instances and one more, their offsets, where each rule's marks are, for which
    # instances they were written (the number of the first, plus one), and twice FEW values. It is
    # not allocated in compiled code, which takes longer to compile then.
    few = np.zeros(np.diff(np.append(offsets[:-1:FEW], offsets[-1])).max(initial=0) + 1)
    marks = np.empty((len(picks) + 1, max(picks.shape[1], 1), FEW), dtype=np.int32)
    near, written = np.empty(FEW + 1, dtype=np.int64), np.zeros(len(picks), dtype=np.int64)
    space = (few, near, marks, written, np.zeros(2 * FEW))
    add_members(starts, offsets, picks, patches, frozen, room, space, result)


@njit(nogil=True, cache=True)
def add_members(
    starts: Floats,
    offsets: Integers,
    picks: Small,
    patches: tuple[Integers, Integers, Integers, Floats, Integers, Floats],
    frozen: Booleans,
    room: Floats | None,
    space: Space,
    result: Floats,
) -> None:
    few, near = space[0], space[1]
    lengths, order, ends, points, begins, rising = patches
    last = len(offsets) - 1
    for first in range(0, last, FEW):
        n, begin = min(FEW, last - first), offsets[first]
        for i in range(FEW + 1):  # instances behind the last are empty
            near[i] = offsets[first + min(i, n)] - begin
        size = near[n]
        stays = frozen[begin : begin + size] if len(frozen) else frozen
        for j in range(size):
            result[begin + j] = 0.0
        for c in range(len(lengths) - 1):
            for j in range(size):  # to copy a slice takes Numba seconds to compile
                few[j] = starts[c, begin + j]
            if room is not None:
                project_simplices(few, near, stays)
            some = (order, ends, points, begins, rising, lengths[c], lengths[c + 1])
            _patch_few(few, near, n, picks, first, some, stays, room, space)
            for j in range(size):
                result[begin + j] += few[j]


@njit(nogil=True, cache=True)
def _patch_few(
    few: Floats,
    offsets: Integers,
    n: int,
    picks: Small,
    first: int,
    patches: tuple[Integers, Integers, Floats, Integers, Floats, int, int],
    frozen: Booleans,
    room: Floats | None,
    space: Space,
) -> None:
    """Some patches for n of FEW instances, whose items are ``few``; picks are from ``first``.

    Behind the items is one more number: instances without a mark move that one. ``room`` is for the
    items of an instance that is projected on the simplex; None without projections.
    """
    order, ends, points, begins, rising, begin, end = patches
    _, _, marks, written, lanes = space
    spare = len(few) - 1
    for t in range(begin, end):
        rule = order[t]
        if rule < 0:
            for i in range(FEW):
                best = spare  # of an instance without items, too
                if offsets[i] < offsets[i + 1]:
                    best = _largest(few, offsets[i], offsets[i + 1])
                    best = spare if len(frozen) and frozen[best] else best
                marks[rule, 0, i] = best
        elif written[rule] != first + 1:
            written[rule] = first + 1
            for j in range(picks.shape[1]):
                _locate(picks[rule, j], first, n, offsets, frozen, spare, marks[rule, j])
        curve, pieces = (ends[t], ends[t + 1]), (begins[t], begins[t + 1])
        for j in range(picks.shape[1] if rule >= 0 else 1):
            places = marks[rule, j]
            _follow(few, places, n, points, curve, rising, pieces, lanes)
            if room is not None:
                for i in range(n):
                    if places[i] < spare:
                        project_simplex(few, frozen, offsets[i], offsets[i + 1], room)


@njit(nogil=True, cache=True)
def _locate(
    picks: Small,
    first: int,
    n: int,
    offsets: Integers,
    frozen: Booleans,
    spare: int,
    places: Positions,
) -> None:
    """Where the picked items are; spare where there is none, or it is frozen."""
    for i in range(n, FEW):  # to assign a slice takes longer to compile
        places[i] = spare
    for i in range(n):
        place = offsets[i] + np.int64(picks[first + i])
        places[i] = place if place < offsets[i + 1] else spare
    if len(frozen):
        for i in range(n):
            if places[i] < spare and frozen[places[i]]:
                places[i] = spare


@njit(nogil=True, cache=True)
def _largest(few: Floats, start: int, stop: int) -> int:
    best = start
    for j in range(start + 1, stop):
        best = j if few[j] > few[best] else best
    return best


def rising_pieces(ends: Integers, points: Floats) -> tuple[Integers, Floats]:
    """The pieces of every curve that rise, with nothing behind them up to a multiple of STEP."""
    points, ends = points[ends[0] : ends[-1]], ends - ends[0]
    rises = points[:, SLOPE] != 0.0
    rises[ends[1:] - 1] = False  # behind the last point there is no piece
    so_far = np.append(0, np.cumsum(rises))[ends]
    begins = np.append(0, np.cumsum(-(-np.diff(so_far) // STEP) * STEP))
    pieces = np.zeros((begins[-1], points.shape[1]))
    for begin, first, last in zip(begins[:-1], ends[:-1], ends[1:], strict=True):
        found = points[first:last][rises[first:last]]
        pieces[begin : begin + len(found)] = found
    return begins, pieces


@njit(nogil=True, cache=True)
def _follow(
    few: Floats,
    places: Positions,
    n: int,
    points: Floats,
    curve: tuple[int, int],
    rising: Floats,
    pieces: tuple[int, int],
    lanes: Floats,
) -> None:
    """:func:`value_at` for FEW items, piece by piece for all of them, so that it is vectors.

    A piece of the curve adds its slope times what p is beyond its point, at most its width. The
    points' Y are those sums, so one piece after the last point below p has the same bits.
    """
    first, last = curve
    if n < FEW // 8:
        for i in range(n):
            few[places[i]] = value_at(points, first, last, few[places[i]])
        return
    for i in range(FEW):
        lanes[i] = few[places[i]] * SCALE
        lanes[FEW + i] = points[first, Y]
    for j in range(pieces[0], pieces[1], STEP):
        xa, slope_a, width_a = rising[j, X], rising[j, SLOPE], rising[j, WIDTH]
        xb, slope_b, width_b = rising[j + 1, X], rising[j + 1, SLOPE], rising[j + 1, WIDTH]
        xc, slope_c, width_c = rising[j + 2, X], rising[j + 2, SLOPE], rising[j + 2, WIDTH]
        for i in range(FEW):
            x, value = lanes[i], lanes[FEW + i]
            value += slope_a * _within(x - xa, width_a)
            value += slope_b * _within(x - xb, width_b)
            lanes[FEW + i] = value + slope_c * _within(x - xc, width_c)
    most = points[last - 1, MOST]
    for i in range(FEW):
        value = lanes[FEW + i]
        few[places[i]] = value if value < most else most


@njit(nogil=True, cache=True)
def _within(beyond: float, width: float) -> float:
    beyond = beyond if beyond > 0.0 else 0.0
    return float(beyond if beyond < width else width)


@njit(nogil=True, cache=True)
def level_of(edges: Floats, p: float) -> np.uint8:
    """How many edges are not above p."""
    level = 0
    for k in range(len(edges)):  # by number: an iterator is not vectorised
        level += edges[k] <= p
    return np.uint8(level)


@njit(nogil=True, cache=True)
def weigh(
    prediction: Floats,
    outcome: Floats,
    offsets: Integers,
    weight: Floats,
    upweight: Floats,
    frozen: Booleans,
    edges: Floats,
    values: Floats,
    levels: Bytes,
) -> None:
    """Write every item's weighted residual and weight into ``values`` (n_items, 2), and its level.

    An item has the weight of its instance times its own ``upweight``, if there is one (else the
    array is empty). Frozen items have weight zero.
    """
    for i in range(len(offsets) - 1):
        for j in range(offsets[i], offsets[i + 1]):
            own = 0.0 if len(frozen) and frozen[j] else weight[i]
            own = own * upweight[j] if len(upweight) else own
            values[j, 0], values[j, 1] = own * (outcome[j] - prediction[j]), own
            levels[j] = level_of(edges, prediction[j])


@njit(nogil=True, cache=True)
def sum_by_level(
    values: Floats,
    levels: Bytes,
    offsets: Integers,
    picks: Small,
    phase: int,
    stride: int,
    sums: Floats,
) -> None:
    """Add to ``sums[r, level]`` the values of the items that ``picks[r]`` chooses, by their level.

    Of the blocks of instances every ``stride``-th is read, from ``phase`` on.
    """
    n_tests, k, n = picks.shape
    for first in range(phase * INSTANCES_IN_CACHE, n, stride * INSTANCES_IN_CACHE):
        last = min(first + INSTANCES_IN_CACHE, n)
        for r in range(n_tests):
            for j in range(k):
                for i in range(first, last):
                    position = np.int64(picks[r, j, i])
                    if position < offsets[i + 1] - offsets[i]:
                        place = offsets[i] + position
                        sums[r, levels[place], 0] += values[place, 0]
                        sums[r, levels[place], 1] += values[place, 1]


def marked_places(picks: Small, offsets: Integers, values: Floats) -> Integers:
    """Where the items of ``picks`` (k, n) are that have a weight, in the order of instances."""
    position = picks.T.astype(np.int64)
    marked = position < np.diff(offsets)[:, None]
    position += offsets[:-1, None]
    places: Integers = position[marked]
    return np.asarray(places[values[places, 1] > 0])


@njit(nogil=True, cache=True)
def sum_by_bin(
    places: Integers,
    prediction: Floats,
    outcome: Floats,
    values: Floats,
    cuts: Floats,
    sums: Floats,
) -> None:
    """Add to ``sums[b]`` the count, weight, weighted prediction and outcome of the b-th bin."""
    for place in places:
        b, weight = level_of(cuts, prediction[place]), values[place, 1]
        sums[b, 0] += 1.0
        sums[b, 1] += weight
        sums[b, 2] += weight * prediction[place]
        sums[b, 3] += weight * outcome[place]


@njit(nogil=True, cache=True)
def move_along(
    prediction: Floats,
    outcome: Floats,
    offsets: Integers,
    picks: Small,
    points: Floats,
    weight: Floats,
    left_out: Floats,
    upweight: Floats,
    frozen: Booleans,
    edges: Floats,
    values: Floats,
    levels: Bytes,
    spare: Floats | None,
) -> tuple[float, float]:
    """One patch as :func:`patch_curves` applies it, to the items of ``picks`` (k, n).

    Values, as :func:`weigh` wrote them, and levels follow. Returns by how much the squared error
    fell, once with each of the two weights of the instances. ``spare`` has two rows, with room for
    the items of an instance; without it (None) nothing is projected on the simplex.
    """
    fall, fall_left_out = 0.0, 0.0
    for i in range(len(offsets) - 1):
        start, stop = offsets[i], offsets[i + 1]
        total, touched = 0.0, False
        if spare is not None:
            for j in range(start, stop):
                spare[1, j - start] = prediction[j]
        for j in range(picks.shape[0]):
            position = np.int64(picks[j, i])
            place = start + position
            if position < stop - start and not (len(frozen) and frozen[place]):
                before = prediction[place]
                prediction[place] = value_at(points, ZERO, len(points), before)
                touched = True
                if spare is None:
                    after = prediction[place]
                    fallen = (after - before) * (2.0 * outcome[place] - before - after)
                    total += fallen * upweight[place] if len(upweight) else fallen
                    values[place, 0] = values[place, 1] * (outcome[place] - after)
                    levels[place] = level_of(edges, after)
        if spare is not None and touched:
            project_simplex(prediction, frozen, start, stop, spare[0])
            for j in range(start, stop):
                before, after = spare[1, j - start], prediction[j]
                if after != before:
                    fallen = (after - before) * (2.0 * outcome[j] - before - after)
                    total += fallen * upweight[j] if len(upweight) else fallen
                    values[j, 0] = values[j, 1] * (outcome[j] - after)
                    levels[j] = level_of(edges, after)
        fall += weight[i] * total
        fall_left_out += left_out[i] * total
    return fall, fall_left_out
