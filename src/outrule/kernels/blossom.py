"""Exact maximum-weight perfect matching of one dense graph by a primal-dual blossom search.

The weights are integers >= 0 on a complete graph with an even number of vertices, where a heaviest
perfect matching is also a heaviest matching. All arithmetic is in int64, so tight means tight.
The method is Edmonds' with one alternating tree at a time, in the O(n^3) form that Galil
("Efficient algorithms for finding maximum matching in graphs", 1986) describes.

The duals satisfy y[u] + y[v] + sum of z[B] over blossoms B that hold both >= 2 w(u, v). Tight
edges and even z keep the y of a tree in one parity, so that half of a slack between even nodes of
the tree is an integer. During a search time t runs from 0; an even vertex loses t, an odd one gains
t. Only the value at time 0 is stored ("at rest"), so that every event has a fixed time and nothing
but the labels changes between events.
"""

import math

import numpy as np

from outrule.kernels.compiling import njit
from outrule.kernels.picking import insert_ascending, scaled
from outrule.types import Floats, Integers, Positions

FAR = 1 << 61
NOWHERE = -(1 << 60)
FREE, EVEN, ODD = 0, 1, 2
WEIGHT_BITS = 57
MANTISSA_BITS = 52


# The scratch of a search is one array with a column per node, the n vertices first and then up to
# n / 2 blossoms: one array, for Numba counts references to every array that a function is handed.
# Rows per vertex:
MATE = 0  # -1 if exposed
TOP = 1  # the outermost node that holds the vertex
REST = 2  # y at rest
REST_FREE = 3  # the same for free vertices, FAR for others
REST_EVEN = 4  # the same for even vertices, FAR for others
NEAR = 5  # min over even u of rest[u] - doubled[u, vertex]
NEAR_FROM = 6  # the u of that minimum
# Rows per node:
LABEL = 7  # of an outermost node
Z = 8  # of a blossom, at rest while labelled
MEET = 9  # of an even node, twice the time it meets an even node that was there before it
BASE = 10  # the vertex that is matched outside the node
PARENT = 11  # the blossom around the node, -1 if it is outermost
FIRST = 12  # of a blossom, the child that holds its base
AFTER = 13  # of a child, the next one around its blossom
BEFORE = 14  # the inverse of AFTER
OUT_END = 15  # of a child, its end of the edge to the next child
IN_END = 16  # the other end of that edge
ENTRY_FROM = 17  # of an odd node, the even end of the edge that labelled it
ENTRY_TO = 18  # its own end of that edge
# Other rows:
STACK = 19
STACK_VERTEX = 20
SPARE = 21  # the unused blossoms; the last column says how many
# From here on a row for every node, with a column per vertex. For a vertex: twice its weights, with
# NOWHERE on the diagonal. For an even blossom: what NEAR is, over its own vertices only.
ROW = 22


def new_scratch(n_vertices: int) -> Integers:
    """Scratch for graphs on n_vertices vertices, an even number >= 2."""
    n_nodes = n_vertices + n_vertices // 2
    return np.empty((ROW + n_nodes, n_nodes), dtype=np.int64)


@njit(nogil=True, cache=True)
def _count_vertices(g: Integers) -> int:
    return int(g.shape[1] - g.shape[1] // 3)


@njit(nogil=True, cache=True)
def _greedy_start(g: Integers) -> None:
    """Feasible duals and a matching of tight edges."""
    n = _count_vertices(g)
    for v in range(n):
        heaviest = g[ROW + v, 0]
        for u in range(1, n):
            heaviest = max(heaviest, g[ROW + v, u])
        g[REST, v] = heaviest >> 1
        g[MATE, v] = -1
        g[TOP, v] = v
    for v in range(n):
        if g[MATE, v] < 0:
            row = g[ROW + v, :n]
            highest = row[0] - g[REST, 0]
            for u in range(1, n):
                highest = max(highest, row[u] - g[REST, u])
            g[REST, v] = highest  # the least y that keeps v feasible: some edge is tight
            for u in range(n):
                if row[u] - g[REST, u] == highest and g[MATE, u] < 0:
                    g[MATE, v] = u
                    g[MATE, u] = v
                    break
    for node in range(g.shape[1]):
        g[BASE, node] = node
        g[PARENT, node] = -1
        g[Z, node] = 0
    for k in range(n // 2):
        g[SPARE, k] = n + n // 2 - 1 - k
    g[SPARE, -1] = n // 2


@njit(nogil=True, cache=True)
def _scan_vertex(g: Integers, vertex: int) -> int:
    """Bring a new even vertex to everyone's notice; return twice the time it meets an even one."""
    n = _count_vertices(g)
    row, rest = g[ROW + vertex, :n], g[REST, vertex]
    near, near_from, rest_even = g[NEAR, :n], g[NEAR_FROM, :n], g[REST_EVEN, :n]
    meet = FAR
    for v in range(len(row)):
        reach = rest - row[v]
        near_from[v] = vertex if reach < near[v] else near_from[v]
        near[v] = min(near[v], reach)
        meet = min(meet, reach + rest_even[v])
    return meet


@njit(nogil=True, cache=True)
def _scan_member(g: Integers, vertex: int, reach: Integers) -> None:
    """The same for a vertex of an even blossom, whose reach takes it in."""
    n = _count_vertices(g)
    row, rest = g[ROW + vertex, :n], g[REST, vertex]
    near, near_from = g[NEAR, :n], g[NEAR_FROM, :n]
    for v in range(len(row)):
        one = rest - row[v]
        near_from[v] = vertex if one < near[v] else near_from[v]
        near[v] = min(near[v], one)
        reach[v] = min(reach[v], one)


@njit(nogil=True, cache=True)
def _meet_outside(g: Integers, blossom: int) -> int:
    """Twice the time at which an even blossom meets an even vertex outside it."""
    n = _count_vertices(g)
    reach, rest_even, top = g[ROW + blossom, :n], g[REST_EVEN, :n], g[TOP, :n]
    meet = FAR
    for v in range(n):
        meet = min(meet, FAR if top[v] == blossom else reach[v] + rest_even[v])
    return meet


@njit(nogil=True, cache=True)
def _make_even(g: Integers, node: int, shift: int, now: int) -> None:
    """Label an outermost node even; `shift` takes the resting y of its vertices to its new one."""
    n = _count_vertices(g)
    g[LABEL, node] = EVEN
    if node < n:
        g[REST, node] += shift
        g[REST_FREE, node] = FAR
        g[MEET, node] = _scan_vertex(g, node)
        g[REST_EVEN, node] = g[REST, node]
        return
    reach = g[ROW + node, :n]
    reach[:] = FAR
    for v in range(n):
        if g[TOP, v] == node:
            g[REST, v] += shift
            g[REST_FREE, v] = FAR
            g[REST_EVEN, v] = g[REST, v]
            _scan_member(g, v, reach)
    g[Z, node] -= 2 * now
    g[MEET, node] = _meet_outside(g, node)


@njit(nogil=True, cache=True)
def _grow(g: Integers, vertex: int, now: int) -> None:
    """Take in the free node that holds `vertex`, and its mate: one odd and one even node more."""
    node = g[TOP, vertex]
    g[LABEL, node] = ODD
    g[ENTRY_FROM, node] = g[NEAR_FROM, vertex]
    g[ENTRY_TO, node] = vertex
    if node < _count_vertices(g):
        g[REST, node] -= now
        g[REST_FREE, node] = FAR
    else:
        for v in range(_count_vertices(g)):
            if g[TOP, v] == node:
                g[REST, v] -= now
                g[REST_FREE, v] = FAR
        g[Z, node] += 2 * now
    _make_even(g, g[TOP, g[MATE, g[BASE, node]]], now, now)


@njit(nogil=True, cache=True)
def _child_with(g: Integers, node: int, blossom: int) -> int:
    """The child of `blossom` that holds `node`."""
    while g[PARENT, node] != blossom:
        node = g[PARENT, node]
    return node


@njit(nogil=True, cache=True)
def _goes_back(g: Integers, blossom: int, child: int) -> bool:
    """Whether the even way around from `child` to the first child runs backwards."""
    back = True
    node = g[FIRST, blossom]
    while node != child:
        node = g[AFTER, node]
        back = not back
    return back


@njit(nogil=True, cache=True)
def _next_around(g: Integers, node: int, back: bool) -> tuple[int, int, int]:
    """The next child around, our end of the edge to it, and its end."""
    if back:
        other = g[BEFORE, node]
        return other, g[IN_END, other], g[OUT_END, other]
    return g[AFTER, node], g[OUT_END, node], g[IN_END, node]


@njit(nogil=True, cache=True)
def _set_base(g: Integers, blossom: int, vertex: int) -> None:
    """Flip the matching inside a node so that `vertex` is the one left to match outside."""
    g[STACK, 0], g[STACK_VERTEX, 0] = blossom, vertex
    size = 1
    while size > 0:
        size -= 1
        blossom, vertex = g[STACK, size], g[STACK_VERTEX, size]
        if g[BASE, blossom] == vertex:
            continue
        child = _child_with(g, vertex, blossom)
        back = _goes_back(g, blossom, child)
        node = child
        while node != g[FIRST, blossom]:
            left, _, _ = _next_around(g, node, back)
            right, left_end, right_end = _next_around(g, left, back)
            g[MATE, left_end] = right_end
            g[MATE, right_end] = left_end
            g[STACK, size], g[STACK_VERTEX, size] = left, left_end
            g[STACK, size + 1], g[STACK_VERTEX, size + 1] = right, right_end
            size += 2
            node = right
        g[STACK, size], g[STACK_VERTEX, size] = child, vertex
        size += 1
        g[FIRST, blossom] = child
        g[BASE, blossom] = vertex


@njit(nogil=True, cache=True)
def _augment(g: Integers, vertex: int) -> None:
    """Match the exposed `vertex` to the tree and flip the path from there to the root."""
    even_end = g[NEAR_FROM, vertex]
    while True:
        node = g[TOP, even_end]
        odd = g[MATE, g[BASE, node]]  # before the flip: the way towards the root
        _set_base(g, node, even_end)
        g[MATE, even_end] = vertex
        g[MATE, vertex] = even_end
        if odd < 0:
            return
        node = g[TOP, odd]
        vertex = g[ENTRY_TO, node]
        even_end = g[ENTRY_FROM, node]
        _set_base(g, node, vertex)


@njit(nogil=True, cache=True)
def _parent_even(g: Integers, node: int) -> int:
    """The even node above an even node in the tree, -1 above the root."""
    odd = g[MATE, g[BASE, node]]
    return g[TOP, g[ENTRY_FROM, g[TOP, odd]]] if odd >= 0 else -1


@njit(nogil=True, cache=True)
def _common_even(g: Integers, a: int, b: int) -> int:
    """The lowest even node of the tree above both a and b."""
    marks = g[STACK]
    size = 0
    while a >= 0:
        marks[size] = a
        size += 1
        a = _parent_even(g, a)
    # Both ways end at the root, and there are few nodes on them.
    while True:
        for k in range(size):
            if marks[k] == b:
                return b
        b = _parent_even(g, b)


@njit(nogil=True, cache=True)
def _link(g: Integers, node: int, other: int, node_end: int, other_end: int, blossom: int) -> None:
    g[AFTER, node] = other
    g[BEFORE, other] = node
    g[OUT_END, node] = node_end
    g[IN_END, node] = other_end
    g[PARENT, node] = blossom


@njit(nogil=True, cache=True)
def _link_cycle(g: Integers, blossom: int, u: int, v: int) -> None:
    """Make a cycle of the tree path from u to v and the even edge (u, v)."""
    common = _common_even(g, g[TOP, u], g[TOP, v])
    g[FIRST, blossom] = common
    g[BASE, blossom] = g[BASE, common]
    _link(g, g[TOP, u], g[TOP, v], u, v, blossom)
    node = g[TOP, u]
    while node != common:  # from the common node down to u
        end = g[BASE, node]
        odd = g[TOP, g[MATE, end]]
        _link(g, odd, node, g[MATE, end], end, blossom)
        node = g[TOP, g[ENTRY_FROM, odd]]
        _link(g, node, odd, g[ENTRY_FROM, odd], g[ENTRY_TO, odd], blossom)
    node = g[TOP, v]
    while node != common:  # from v up to the common node
        end = g[BASE, node]
        odd = g[TOP, g[MATE, end]]
        _link(g, node, odd, end, g[MATE, end], blossom)
        node = g[TOP, g[ENTRY_FROM, odd]]
        _link(g, odd, node, g[ENTRY_TO, odd], g[ENTRY_FROM, odd], blossom)
    g[PARENT, blossom] = -1


@njit(nogil=True, cache=True)
def _merge(g: Integers, u: int, v: int, now: int) -> None:
    """Two even nodes meet along the edge (u, v): a new even blossom."""
    n = _count_vertices(g)
    g[SPARE, -1] -= 1
    blossom = g[SPARE, g[SPARE, -1]]
    _link_cycle(g, blossom, u, v)
    reach = g[ROW + blossom, :n]
    reach[:] = FAR
    child = g[FIRST, blossom]
    while True:
        g[MEET, child] = FAR
        if child >= n:
            g[Z, child] += 2 * now if g[LABEL, child] == EVEN else -2 * now
            if g[LABEL, child] == EVEN:
                inner = g[ROW + child, :n]
                for w in range(n):
                    reach[w] = min(reach[w], inner[w])
        child = g[AFTER, child]
        if child == g[FIRST, blossom]:
            break
    for w in range(n):
        child = g[TOP, w]
        if g[PARENT, child] == blossom:
            if g[LABEL, child] == ODD:
                g[REST, w] += 2 * now
                g[REST_EVEN, w] = g[REST, w]
            if g[LABEL, child] == ODD or child < n:
                _scan_member(g, w, reach)
            g[TOP, w] = blossom
    g[LABEL, blossom] = EVEN
    g[Z, blossom] = -2 * now
    g[MEET, blossom] = _meet_outside(g, blossom)


@njit(nogil=True, cache=True)
def _meeting_edge(g: Integers, node: int) -> tuple[int, int]:
    """The edge (u, v), u in the even node, whose time is meet[node]."""
    n = _count_vertices(g)
    for v in range(n):
        if g[LABEL, g[TOP, v]] == EVEN and g[TOP, v] != node:
            sought = g[MEET, node] - g[REST, v]
            if node < n:
                if g[REST, node] - g[ROW + node, v] == sought:
                    return node, v
            elif g[ROW + node, v] == sought:
                for u in range(n):
                    if g[TOP, u] == node and g[REST, u] - g[ROW + u, v] == sought:
                        return u, v
    return -1, -1


@njit(nogil=True, cache=True)
def _release_vertices(g: Integers, node: int, outer: int) -> None:
    """Name `outer`, which may be the node itself, as the outermost node of its vertices."""
    n = _count_vertices(g)
    stack = g[STACK]
    stack[0] = node
    size = 1
    while size > 0:
        size -= 1
        node = stack[size]
        if node < n:
            g[TOP, node] = outer
            continue
        child = g[FIRST, node]
        while True:
            stack[size] = child
            size += 1
            child = g[AFTER, child]
            if child == g[FIRST, node]:
                break


@njit(nogil=True, cache=True)
def _expand(g: Integers, blossom: int, now: int) -> None:
    """An odd blossom with z = 0 falls apart; the even way through it stays in the tree."""
    n = _count_vertices(g)
    entry = _child_with(g, g[ENTRY_TO, blossom], blossom)
    back = _goes_back(g, blossom, entry)
    last = g[FIRST, blossom]
    child = last
    while True:
        g[PARENT, child] = -1
        g[LABEL, child] = FREE
        _release_vertices(g, child, child)
        child = g[AFTER, child]
        if child == last:
            break
    g[LABEL, entry] = ODD
    g[ENTRY_FROM, entry] = g[ENTRY_FROM, blossom]
    g[ENTRY_TO, entry] = g[ENTRY_TO, blossom]
    node = entry
    while node != last:
        node, _, _ = _next_around(g, node, back)
        g[LABEL, node] = EVEN
        node, even_end, odd_end = _next_around(g, node, back)
        g[LABEL, node] = ODD
        g[ENTRY_FROM, node] = even_end
        g[ENTRY_TO, node] = odd_end
    g[LABEL, blossom] = FREE
    g[Z, blossom] = 0
    g[SPARE, g[SPARE, -1]] = blossom
    g[SPARE, -1] += 1
    _settle_children(g, last, now, n)


@njit(nogil=True, cache=True)
def _settle_children(g: Integers, last: int, now: int, n: int) -> None:
    """Bring the duals of the children of an expanded odd blossom to rest under their labels."""
    child = last
    while True:
        if g[LABEL, child] == EVEN:
            _make_even(g, child, 2 * now, now)
        elif g[LABEL, child] == ODD:
            g[Z, child] += 2 * now
        elif child < n:
            g[REST, child] += now
            g[REST_FREE, child] = g[REST, child]
        else:
            for v in range(n):
                if g[TOP, v] == child:
                    g[REST, v] += now
                    g[REST_FREE, v] = g[REST, v]
        child = g[AFTER, child]
        if child == last:
            break


@njit(nogil=True, cache=True)
def _begin(g: Integers, root: int) -> None:
    n = _count_vertices(g)
    for v in range(n):
        g[REST_FREE, v] = g[REST, v]
        g[REST_EVEN, v] = FAR
        g[NEAR, v] = FAR
    for node in range(g.shape[1]):
        g[LABEL, node] = FREE
        g[MEET, node] = FAR
    _make_even(g, root, 0, 0)


@njit(nogil=True, cache=True)
def _finish(g: Integers, now: int) -> None:
    """Take all duals from rest to the present."""
    n = _count_vertices(g)
    for v in range(n):
        label = g[LABEL, g[TOP, v]]
        if label == EVEN:
            g[REST, v] -= now
        elif label == ODD:
            g[REST, v] += now
    for node in range(n, g.shape[1]):
        if g[PARENT, node] < 0:
            if g[LABEL, node] == EVEN:
                g[Z, node] += 2 * now
            elif g[LABEL, node] == ODD:
                g[Z, node] -= 2 * now


@njit(nogil=True, cache=True)
def _earliest_touch(g: Integers) -> int:
    """The time at which the tree touches a free vertex."""
    n = _count_vertices(g)
    near, rest_free = g[NEAR, :n], g[REST_FREE, :n]
    time = FAR
    for v in range(len(near)):
        time = min(time, near[v] + rest_free[v])
    return time


@njit(nogil=True, cache=True)
def _earliest_meeting(g: Integers) -> tuple[int, int]:
    """The time at which two even nodes meet, and the node that knows of it."""
    meet = g[MEET]
    earliest = FAR
    for node in range(len(meet)):
        earliest = min(earliest, meet[node])
    for node in range(len(meet)):
        if meet[node] == earliest:
            return earliest >> 1, node
    return FAR, -1


@njit(nogil=True, cache=True)
def _earliest_fading(g: Integers) -> tuple[int, int]:
    """The time at which the z of an odd blossom reaches 0, and the blossom."""
    n = _count_vertices(g)
    earliest, fading = FAR, -1
    if g[SPARE, -1] < n // 2:
        for node in range(n, g.shape[1]):
            if g[LABEL, node] == ODD and g[PARENT, node] < 0:
                time = g[Z, node] >> 1
                if time < earliest:
                    earliest, fading = time, node
    return earliest, fading


@njit(nogil=True, cache=True)
def _touched(g: Integers, time: int) -> int:
    """A free vertex that the tree touches at `time`, an exposed one if there is one."""
    found = -1
    for v in range(_count_vertices(g)):
        if g[NEAR, v] + g[REST_FREE, v] == time:
            if g[MATE, v] < 0:
                return v
            if found < 0:
                found = v
    return found


@njit(nogil=True, cache=True, inline="always")
def _search(g: Integers, root: int) -> None:
    """Grow a tree from the exposed root until it touches another exposed vertex; flip the path."""
    _begin(g, root)
    while True:
        touch = _earliest_touch(g)
        meet, meeting = _earliest_meeting(g)
        fade, fading = _earliest_fading(g)
        if touch <= meet and touch <= fade:
            vertex = _touched(g, touch)
            if g[MATE, vertex] < 0:
                _augment(g, vertex)
                _finish(g, touch)
                return
            _grow(g, vertex, touch)
        elif meet <= fade:
            u, v = _meeting_edge(g, meeting)
            _merge(g, u, v, meet)
        else:
            _expand(g, fading, fade)


@njit(nogil=True, cache=True, inline="always")
def _match_perfectly(g: Integers) -> None:
    """Find the heaviest perfect matching under the weights in g.

    It is then in g[MATE, :n], and the duals are in g[REST, :n] and g[Z].
    """
    _greedy_start(g)
    for root in range(_count_vertices(g)):
        if g[MATE, root] < 0:
            _search(g, root)


@njit(nogil=True, cache=True)
def _largest(weights: Floats, scale: Floats, u: Positions, v: Positions) -> float:
    """The largest weight of an item that is no loop, 0 if none is positive."""
    largest = 0.0
    for item in range(len(weights)):
        weight = scaled(weights, scale, item) if u[item] != v[item] else 0.0
        if weight > largest:
            largest = weight
    return largest


@njit(nogil=True, cache=True)
def _load(g: Integers, weights: Floats, scale: Floats, u: Positions, v: Positions) -> bool:
    """Load one graph as integers of up to WEIGHT_BITS - log2(n) bits; say if it has any edge > 0.

    One power of two takes the weights there, so that rounding by 2^-bits of the largest weight is
    all that is lost. The log2(n) leaves the duals room for 8 n times the largest weight; twice is
    the most that was ever seen.
    """
    n = _count_vertices(g)
    largest = _largest(weights, scale, u, v)
    if largest <= 0.0:
        return False
    bits = min(MANTISSA_BITS, WEIGHT_BITS - int(np.ceil(np.log2(n))))
    shift = bits - math.frexp(largest)[1]
    # Two factors, for one of them alone may overflow.
    factor, other_factor = math.ldexp(1.0, shift // 2), math.ldexp(1.0, shift - shift // 2)
    for vertex in range(n):
        row = g[ROW + vertex]
        for other in range(n):
            row[other] = 0
        row[vertex] = NOWHERE
    for item in range(len(weights)):
        value = scaled(weights, scale, item)
        a, b = u[item], v[item]
        if value > 0.0 and a != b:
            doubled = max(g[ROW + a, b], 2 * np.int64(value * factor * other_factor + 0.5))
            g[ROW + a, b] = doubled
            g[ROW + b, a] = doubled
    return True


@njit(nogil=True, cache=True)
def _write_picks(
    g: Integers, weights: Floats, scale: Floats, u: Positions, v: Positions, picks: Positions
) -> None:
    """The heaviest item of every matched pair, the first on ties, if its weight is > 0."""
    chosen = g[NEAR, : _count_vertices(g)]
    chosen[:] = -1
    for item in range(len(weights)):
        if g[MATE, u[item]] == v[item]:
            value = scaled(weights, scale, item)
            rival = chosen[min(u[item], v[item])]
            if value > (scaled(weights, scale, rival) if rival >= 0 else 0.0):
                chosen[min(u[item], v[item])] = item
    n_picks = 0
    for vertex in range(len(chosen)):
        if chosen[vertex] >= 0:
            insert_ascending(picks, n_picks, chosen[vertex])
            n_picks += 1
    picks[n_picks:] = -1


@njit(nogil=True, cache=True)
def blossom_chunk(
    g: Integers,
    weights: Floats,
    scale: Floats,
    u: Positions,
    v: Positions,
    starts: Integers,
    edge_starts: Integers,
    counts: Integers,
    which: Integers,
    picks: Positions,
) -> None:
    """Match the instances `which`, all on the vertices of the scratch g.

    Instance i has items 0 .. counts[i] - 1: weights from starts[i] on, ends from edge_starts[i] on,
    and the same scale for item k of every instance.
    """
    for i in which:
        values = weights[starts[i] : starts[i] + counts[i]]
        left = u[edge_starts[i] : edge_starts[i] + counts[i]]
        right = v[edge_starts[i] : edge_starts[i] + counts[i]]
        if _load(g, values, scale, left, right):
            _match_perfectly(g)
            _write_picks(g, values, scale, left, right, picks[i])
        else:
            picks[i, :] = -1
