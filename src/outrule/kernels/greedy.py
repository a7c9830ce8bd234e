"""Decisions that one pass over the sorted items finds: top, matroids, greedy matching."""

from __future__ import annotations

import numpy as np

from outrule.kernels.compiling import njit
from outrule.kernels.picking import insert_ascending, longest
from outrule.types import Booleans, Floats, Integers, Positions

Scratch = tuple[Floats, Positions, Floats, Positions, Booleans]

# Up to this length counting the larger keys of every key beats sorting byte by byte.
SHORT_SORT = 64
# Up to this capacity the best items are kept in a sorted list instead of sorting everything.
SHORT_CAPACITY = 16


@njit(nogil=True, cache=True)
def top_dense(weights: Floats, scale: Floats, capacity: int, picks: Positions) -> None:
    """Pick the `capacity` items of largest scale * weight > 0 in every row, first on ties."""
    n, m = weights.shape
    items = np.empty(m)
    scratch = _sort_scratch(m)
    for i in range(n):
        for j in range(m):
            items[j] = weights[i, j] * scale[j]
        _top(items, capacity, scratch, picks[i])


@njit(nogil=True, cache=True)
def top_ragged(weights: Floats, offsets: Integers, capacity: int, picks: Positions) -> None:
    """Pick the `capacity` heaviest positive items of every instance, first on ties."""
    scratch = _sort_scratch(longest(offsets))
    for i in range(offsets.size - 1):
        items = weights[offsets[i] : offsets[i + 1]]
        _top(items, capacity, scratch, picks[i])


@njit(nogil=True, cache=True)
def _top(items: Floats, capacity: int, scratch: Scratch, picks: Positions) -> None:
    """Pick the heaviest positive items of one instance."""
    key, order, _, _, _ = scratch
    picks[:] = -1
    if capacity <= 0:
        return
    if capacity <= SHORT_CAPACITY:
        count = 0
        for j in range(items.size):
            weight = items[j]
            if not weight > 0.0 or (count == capacity and weight <= key[count - 1]):  # or NaN
                continue
            place = count if count < capacity else count - 1
            count = min(count + 1, capacity)
            while place > 0 and key[place - 1] < weight:
                key[place], order[place] = key[place - 1], order[place - 1]
                place -= 1
            key[place], order[place] = weight, j
    else:
        count = min(_sort_positive(items, scratch), capacity)
    if count == 0:
        return
    # The chosen items are those not after the last chosen one in the order (-weight, position).
    last_weight, last_position = key[count - 1], order[count - 1]
    written = 0
    for j in range(items.size):
        if items[j] > last_weight or (items[j] == last_weight and j <= last_position):
            picks[written] = j
            written += 1


@njit(nogil=True, cache=True)
def partition_ragged(
    weights: Floats, offsets: Integers, group: Positions, capacity: Integers, picks: Positions
) -> None:
    """Pick the heaviest positive items with at most capacity[g] from each group g."""
    if (capacity <= 1).all():
        _best_of_groups(weights, offsets, group, capacity, picks)
        return
    scratch = _sort_scratch(longest(offsets))
    chosen = scratch[-1]
    left = np.empty(capacity.size, np.int64)
    for i in range(offsets.size - 1):
        start, stop = offsets[i], offsets[i + 1]
        count = _sort_positive(weights[start:stop], scratch)
        for j in range(start, stop):  # there may be many more groups than an instance has
            left[group[j]] = capacity[group[j]]
        for j in scratch[1][:count]:
            g = group[start + j]
            if left[g] > 0:
                left[g] -= 1
                chosen[j] = True
        _write_chosen(chosen[: stop - start], picks[i])


@njit(nogil=True, cache=True)
def _best_of_groups(
    weights: Floats, offsets: Integers, group: Positions, capacity: Integers, picks: Positions
) -> None:
    """Pick the heaviest positive item of every group, the first on ties: nothing to sort."""
    heaviest, where = np.empty(capacity.size), np.empty(capacity.size, np.int64)
    written = np.empty(longest(offsets) + 1, np.int32)
    for i in range(offsets.size - 1):
        start, stop = offsets[i], offsets[i + 1]
        for j in range(start, stop):
            heaviest[group[j]], where[group[j]] = 0.0, -1
        for j in range(start, stop):
            if weights[j] > heaviest[group[j]] and capacity[group[j]] > 0:
                heaviest[group[j]], where[group[j]] = weights[j], j
        count = 0
        for j in range(start, stop):  # without a branch: what is not chosen is written over
            written[count] = j - start
            count += where[group[j]] == j
        picks[i, :count] = written[:count]
        picks[i, count:] = -1


@njit(nogil=True, cache=True)
def forest_dense(weights: Floats, edge_between: Positions, picks: Positions) -> None:
    """Pick as graphic_ragged where all rows share a graph without parallel edges (Prim).

    edge_between[a, b] is the edge between two nodes, -1 where there is none. Of two edges the
    heavier comes first, then the one of smaller number: under this order the forest is unique.
    """
    n_nodes = edge_between.shape[0]
    outside = np.empty(n_nodes, np.int64)
    heaviest, via = np.empty(n_nodes), np.empty(n_nodes, np.int32)
    for i in range(weights.shape[0]):
        row = weights[i]
        for node in range(n_nodes):
            outside[node], heaviest[node], via[node] = node, 0.0, -1
        picks[i] = -1
        left, written, node = n_nodes - 1, 0, n_nodes - 1
        while left > 0:
            # Look at the edges from the node that came last; the best way out of the tree is next.
            best, best_weight, best_edge = left - 1, 0.0, np.int32(-1)
            for at in range(left):
                other = outside[at]
                edge = edge_between[node, other]
                if edge >= 0:
                    weight = row[edge]
                    if weight > heaviest[other] or (
                        weight == heaviest[other] and edge < via[other]
                    ):
                        heaviest[other], via[other] = weight, edge
                weight, edge = heaviest[other], via[other]
                if weight > best_weight or (weight == best_weight and edge < best_edge):
                    best, best_weight, best_edge = at, weight, edge
            if best_edge >= 0:
                insert_ascending(picks[i], written, int(best_edge))
                written += 1
            left -= 1
            node = outside[best]
            outside[best] = outside[left]


@njit(nogil=True, cache=True)
def graphic_ragged(
    weights: Floats,
    offsets: Integers,
    u: Positions,
    v: Positions,
    n_nodes: Integers,
    picks: Positions,
) -> None:
    """Pick the maximum-weight forest of positive edges (Kruskal)."""
    scratch = _sort_scratch(longest(offsets))
    chosen = scratch[-1]
    parent = np.empty(n_nodes.max() if n_nodes.size else 0, np.int32)
    for i in range(offsets.size - 1):
        start, stop = offsets[i], offsets[i + 1]
        count = _sort_positive(weights[start:stop], scratch)
        for node in range(n_nodes[i]):
            parent[node] = node
        for j in scratch[1][:count]:
            root_u = _root(parent, u[start + j])
            root_v = _root(parent, v[start + j])
            if root_u != root_v:
                parent[root_u] = root_v
                chosen[j] = True
        _write_chosen(chosen[: stop - start], picks[i])


@njit(nogil=True, cache=True)
def _root(parent: Positions, node: int) -> int:
    """Find the representative of a node, halving the path on the way."""
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


@njit(nogil=True, cache=True)
def laminar_ragged(
    weights: Floats,
    offsets: Integers,
    innermost_set: Positions,
    parent_of_set: Positions,
    capacity_of_set: Integers,
    picks: Positions,
) -> None:
    """Pick the heaviest positive items such that no set of the laminar family is overfull.

    -1 means no set (innermost_set) or no parent, and the parents must not form a cycle.
    """
    scratch = _sort_scratch(longest(offsets))
    chosen = scratch[-1]
    left = np.empty_like(capacity_of_set)
    for i in range(offsets.size - 1):
        start, stop = offsets[i], offsets[i + 1]
        count = _sort_positive(weights[start:stop], scratch)
        left[:] = capacity_of_set
        for j in scratch[1][:count]:
            innermost = innermost_set[start + j]
            member = innermost
            while member >= 0 and left[member] > 0:
                member = parent_of_set[member]
            if member >= 0:
                continue
            chosen[j] = True
            member = innermost
            while member >= 0:
                left[member] -= 1
                member = parent_of_set[member]
        _write_chosen(chosen[: stop - start], picks[i])


@njit(nogil=True, cache=True)
def greedy_matching_ragged(
    weights: Floats,
    offsets: Integers,
    u: Positions,
    v: Positions,
    n_nodes: Integers,
    picks: Positions,
) -> None:
    """Pick positive edges from the heaviest down, skipping edges at a used node and loops."""
    scratch = _sort_scratch(longest(offsets))
    chosen = scratch[-1]
    used = np.empty(n_nodes.max() if n_nodes.size else 0, np.bool_)
    for i in range(offsets.size - 1):
        start, stop = offsets[i], offsets[i + 1]
        count = _sort_positive(weights[start:stop], scratch)
        used[: n_nodes[i]] = False
        for j in scratch[1][:count]:
            a, b = u[start + j], v[start + j]
            if not used[a] and not used[b] and a != b:
                used[a] = True
                used[b] = True
                chosen[j] = True
        _write_chosen(chosen[: stop - start], picks[i])


@njit(nogil=True, cache=True)
def transversal_ragged(
    weights: Floats,
    offsets: Integers,
    item: Positions,
    set_offsets: Integers,
    sets: Positions,
    n_sets: int,
    picks: Positions,
) -> None:
    """Greedy over items that can still be given distinct sets.

    The sets that hold item e are ``sets[set_offsets[e]:set_offsets[e + 1]]``.
    """
    scratch = _sort_scratch(longest(offsets))
    chosen = scratch[-1]
    holder = np.empty(n_sets, np.int64)  # which position a set is given to
    came_from = np.empty(n_sets, np.int64)  # the position from which a set was reached
    reached = np.empty(n_sets, np.bool_)
    queue = np.empty(n_sets + 1, np.int64)
    for i in range(len(offsets) - 1):
        start, stop = offsets[i], offsets[i + 1]
        count = _sort_positive(weights[start:stop], scratch)
        holder[:] = -1
        for position in scratch[1][:count]:
            reached[:] = False
            queue[0] = position
            head, tail, free = 0, 1, -1
            while head < tail and free < 0:  # breadth first over alternating paths
                here = queue[head]
                head += 1
                e = item[start + here]
                for s in sets[set_offsets[e] : set_offsets[e + 1]]:
                    if reached[s]:
                        continue
                    reached[s] = True
                    came_from[s] = here
                    if holder[s] < 0:
                        free = s
                        break
                    queue[tail] = holder[s]
                    tail += 1
            chosen[position] = free >= 0  # what was chosen before stays so
            while free >= 0:  # hand sets on along the path, back to the new item
                here = came_from[free]
                previous = -1
                for s in range(n_sets):
                    if holder[s] == here:
                        previous = s
                holder[free] = here
                free = previous if here != position else -1
        _write_chosen(chosen[: stop - start], picks[i])


@njit(nogil=True, cache=True)
def linear_ragged(
    weights: Floats,
    offsets: Integers,
    item: Positions,
    vectors: Floats,
    tolerance: float,
    picks: Positions,
) -> None:
    """Greedy over items whose vectors, ``vectors[e]``, are linearly independent over the reals."""
    # Rounding can make more vectors look independent than others of them did.
    most = min(vectors.shape[1], picks.shape[1])
    scratch = _sort_scratch(longest(offsets))
    chosen = scratch[-1]
    basis = np.empty((most, vectors.shape[1]))
    pivots = np.empty(most, np.int64)
    for i in range(len(offsets) - 1):
        start, stop, rank = offsets[i], offsets[i + 1], 0
        count = _sort_positive(weights[start:stop], scratch)
        for position in scratch[1][:count]:
            if rank == most:
                break
            rest = vectors[item[start + position]].copy()
            limit = tolerance * np.abs(rest).max()
            for b in range(rank):
                rest -= rest[pivots[b]] * basis[b]
            pivot = np.argmax(np.abs(rest))
            if np.abs(rest[pivot]) > limit:
                basis[rank] = rest / rest[pivot]
                pivots[rank] = pivot
                chosen[position] = True
                rank += 1
        _write_chosen(chosen[: stop - start], picks[i])


@njit(nogil=True, cache=True)
def _write_chosen(chosen: Booleans, picks: Positions) -> None:
    """Write the chosen positions in ascending order and clear the marks for the next instance."""
    written = 0
    for j in range(chosen.size):
        if chosen[j]:
            picks[written] = j
            written += 1
            chosen[j] = False
    picks[written:] = -1


@njit(nogil=True, cache=True)
def _sort_scratch(m: int) -> Scratch:
    """Keys and positions, and as many again, for _sort_positive of up to m items, and marks."""
    # Even for few items: _top has a list of its capacity, and _count_sort works in whole vectors.
    room = max(m, SHORT_SORT)
    first, second = np.empty(room, np.int32), np.empty(room, np.int32)
    return np.empty(room), first, np.empty(room), second, np.zeros(room, np.bool_)


@njit(nogil=True, cache=True)
def _sort_positive(items: Floats, scratch: Scratch) -> int:
    """Sort the positive items by (-weight, position) into key and order; return their number."""
    key, order, other_key, other_order, _ = scratch
    count = 0
    for j in range(items.size):
        if items[j] > 0.0:
            key[count], order[count] = items[j], j
            count += 1
    if count <= SHORT_SORT:
        _count_sort(key, order, other_key, other_order, count)
    else:
        _radix_sort(key, order, other_key, other_order, count)
    return count


@njit(nogil=True, cache=True)
def _count_sort(
    key: Floats, order: Positions, other_key: Floats, other_order: Positions, count: int
) -> None:
    """Sort stably by descending key > 0; a key's place is the number of larger ones."""
    for j in range(count):
        other_key[j], other_order[j] = key[j], order[j]
    order[:count] = -1
    # A length in whole vectors: zeros are larger than no key.
    padded = (count + 15) // 16 * 16
    other_key[count:padded] = 0.0
    for j in range(count):
        weight, place = other_key[j], 0
        for i in range(padded):
            place += other_key[i] > weight
        while order[place] >= 0:  # an equal key came before
            place += 1
        key[place], order[place] = weight, other_order[j]


@njit(nogil=True, cache=True)
def _radix_sort(
    key: Floats, order: Positions, other_key: Floats, other_order: Positions, count: int
) -> None:
    """Sort stably by descending key > 0, whose bits are ordered like the numbers, byte by byte."""
    source, target = key.view(np.int64), other_key.view(np.int64)
    source_order, target_order = order, other_order
    start = np.zeros((8, 256), np.int64)
    for k in range(count):
        bits = source[k]
        for byte in range(8):
            start[byte, (bits >> (8 * byte)) & 255] += 1
    swapped = False
    for byte in range(8):
        place = start[byte]
        shift = 8 * byte
        # A byte that all keys share sorts nothing.
        if place[(source[0] >> shift) & 255] == count:
            continue
        before = 0
        for digit in range(255, -1, -1):
            before, place[digit] = before + place[digit], before
        for k in range(count):
            digit = (source[k] >> shift) & 255
            target[place[digit]] = source[k]
            target_order[place[digit]] = source_order[k]
            place[digit] += 1
        source, target = target, source
        source_order, target_order = target_order, source_order
        swapped = not swapped
    if swapped:
        key[:count] = other_key[:count]
        order[:count] = other_order[:count]
