"""Slow, obvious twins of the fast code, in plain Python; nothing here comes from the package."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np

# --- sums and patches over flat, ragged instances ------------------------------------------------


def residuals(prediction, outcome, offsets, weight, span, bits):
    """Integer residuals in units of span / 2**bits, and the integer sum of squares."""
    found, squares = [], 0
    for i in range(len(offsets) - 1):
        for j in range(offsets[i], offsets[i + 1]):
            difference = (float(outcome[j]) - float(prediction[j])) / span
            scaled = float(weight[i]) * 2.0**bits * difference
            found.append(round(scaled))
            squares += round(scaled * difference)
    return found, squares


def chosen(picks, i, size):
    """The positions that stand before the padding for instance i; picks has shape (k, n)."""
    positions = []
    for position in picks[:, i]:
        if not 0 <= int(position) < size:
            break
        positions.append(int(position))
    return positions


def sums_over_picks(values, offsets, picks):
    """For every rule the exact sum of the values it chooses."""
    sums = []
    for rule in picks:
        total = 0
        for i in range(len(offsets) - 1):
            start, size = int(offsets[i]), int(offsets[i + 1] - offsets[i])
            total += sum(int(values[start + position]) for position in chosen(rule, i, size))
        sums.append(total)
    return sums


def standard_error(values, weight=None, cluster=None):
    """Of the weighted mean of the values, where those of one cluster are one observation."""
    n = len(values)
    weight = [1.0] * n if weight is None else weight
    cluster = range(n) if cluster is None else cluster
    mean = sum(w * v for w, v in zip(weight, values, strict=True)) / sum(weight)
    apart = {}
    for w, v, c in zip(weight, values, cluster, strict=True):
        apart[c] = apart.get(c, 0.0) + w * (v - mean)
    squares = sum(a * a for a in apart.values()) * len(apart) / (len(apart) - 1)
    return squares**0.5 / sum(weight)


def patch_box(prediction, offsets, picks, order, steps, low, high):
    """Patched predictions, one patch and one item at a time."""
    patched = [float(value) for value in prediction]
    for rule, step in zip(order, steps, strict=True):
        for i in range(len(offsets) - 1):
            start, size = int(offsets[i]), int(offsets[i + 1] - offsets[i])
            for position in chosen(picks[rule], i, size):
                moved = patched[start + position] + float(step)
                patched[start + position] = low if moved < low else high if moved > high else moved
    return patched


def patch_best(prediction, offsets, picks, order, steps, low, high):
    """As patch_box; a patch of number -1 looks for the first item of largest prediction."""
    patched = np.array(prediction, dtype=np.float64)
    for rule, step in zip(order, steps, strict=True):
        found = picks[rule] if rule >= 0 else best_decisions(patched, offsets)
        patched = np.array(patch_box(patched, offsets, [found], [0], [step], low, high))
    return patched.tolist()


def best_decisions(prediction, offsets):
    """The first item of largest prediction in every instance, shape (1, n)."""
    rows = [prediction[a:b].tolist() for a, b in pairwise(offsets)]
    return np.array([[row.index(max(row)) for row in rows]])


def patch_simplex(prediction, offsets, picks, order, steps, frozen):
    """As patch_box, with one item per decision and a projection of every touched instance."""
    patched = [float(value) for value in prediction]
    for rule, step in zip(order, steps, strict=True):
        for i in range(len(offsets) - 1):
            start, stop = int(offsets[i]), int(offsets[i + 1])
            for position in chosen(picks[rule], i, stop - start)[:1]:
                if not frozen[start + position]:
                    patched[start + position] += float(step)
                    patched[start:stop] = project_simplex(patched[start:stop], frozen[start:stop])
    return patched


def project_simplex(values, frozen):
    """The nearest point of the simplex by bisection on the shift; frozen entries stay."""
    free = [value for value, stays in zip(values, frozen, strict=True) if not stays]
    if not free:
        return list(values)
    low, high = min(free) - 1.0, max(free)
    for _ in range(200):
        middle = (low + high) / 2
        if sum(max(value - middle, 0.0) for value in free) > 1.0:
            low = middle
        else:
            high = middle
    return [
        value if stays else max(value - high, 0.0)
        for value, stays in zip(values, frozen, strict=True)
    ]


# --- optimisers for one instance; each returns a sorted list of items ----------------------------


def best_action(weights):
    """The item of largest weight, the first of equals."""
    best = 0
    for item in range(1, len(weights)):
        if weights[item] > weights[best]:
            best = item
    return [best]


def top_k(weights, k):
    """Up to k items of positive weight, the heaviest, the first of equals."""
    order = sorted(range(len(weights)), key=lambda item: (-weights[item], item))
    return sorted(item for item in order[:k] if weights[item] > 0)


def complete_edges(n_nodes):
    """The edges of the complete graph, in lexicographic order."""
    return list(combinations(range(n_nodes), 2))


def all_matchings(edges):
    """Every set of disjoint edges, the empty one too, as sorted lists of items."""
    found = [[]]
    for item, edge in enumerate(edges):
        for matching in list(found):
            if all(set(edge).isdisjoint(edges[other]) for other in matching):
                found.append([*matching, item])
    return found


def best_matching(weights, matchings):
    """The heaviest of all matchings, by trying each; items of weight zero or less are left out."""
    best, best_weight = [], 0.0
    for matching in matchings:
        if any(weights[item] <= 0 for item in matching):
            continue
        total = sum(weights[item] for item in matching)
        if total > best_weight:
            best, best_weight = matching, total
    return best


# --- Algorithm 1 of the paper --------------------------------------------------------------------


def weighted_mc(predictions, outcomes, rules, optimiser, *, tolerance, k, size):
    """WeightedMC on disjoint batches: the list of (test, sign), test -1 being the optimiser's own.

    ``rules`` are functions from the original predictions of an instance to items, ``optimiser``
    one from the current predictions. The step is tolerance / (2 k); a violation above the
    tolerance is flagged; the largest is patched, the first of equals; the loop ends at the first
    batch without one, or without data.
    """
    patches = []
    for first in range(0, len(predictions) - size + 1, size):
        sums = [0.0] * (len(rules) + 1)
        for x, y in zip(
            predictions[first : first + size], outcomes[first : first + size], strict=True
        ):
            marks = [rule(x) for rule in rules]
            p = replay(x, patches, marks, optimiser, tolerance / (2 * k))
            for test, items in enumerate([*marks, optimiser(p)]):
                sums[test] += sum(y[item] - p[item] for item in items)
        violations = [total / size for total in sums]
        worst = 0
        for test, violation in enumerate(violations):
            if abs(violation) > abs(violations[worst]):
                worst = test
        if not abs(violations[worst]) > tolerance:
            break
        sign = 1 if violations[worst] > 0 else -1
        patches.append((-1 if worst == len(rules) else worst, sign))
    return patches


def replay(prediction, patches, marks, optimiser, step):
    """The calibrated predictions of one instance; ``marks`` are the decisions of the rules."""
    p = [float(value) for value in prediction]
    for test, sign in patches:
        for item in optimiser(p) if test == -1 else marks[test]:
            p[item] = min(max(p[item] + sign * step, 0.0), 1.0)
    return p


# --- means ---------------------------------------------------------------------------------------


def violation(predictions, outcomes, decisions, weights=None):
    """E<w, y - p> of decisions given as lists of items."""
    weights = [1.0] * len(predictions) if weights is None else weights
    total = 0.0
    for p, y, items, weight in zip(predictions, outcomes, decisions, weights, strict=True):
        total += weight * sum(y[item] - p[item] for item in items)
    return total / sum(weights)


def squared_error(predictions, outcomes, weights=None):
    """E||p - y||^2."""
    weights = [1.0] * len(predictions) if weights is None else weights
    total = 0.0
    for p, y, weight in zip(predictions, outcomes, weights, strict=True):
        total += weight * sum((a - b) ** 2 for a, b in zip(p, y, strict=True))
    return total / sum(weights)


def value(outcomes, decisions):
    """Mean value of decisions given as a boolean array of shape (n, m)."""
    return float(np.where(decisions, outcomes, 0.0).sum(axis=1).mean())
