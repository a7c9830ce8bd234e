"""Shared items of decisions against plain sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

import reference
from outrule.kernels import overlap

KINDS = [np.uint8, np.uint16, np.uint32]


def decisions(generator, n_rules, k, sizes, kind, fewest=0):
    """Random decisions (n_rules, k, n), distinct positions in any order, then the padding."""
    n, m = len(sizes), max(1, int(sizes.max()))
    keys = generator.random((n_rules, n, m))
    keys[:, np.arange(m) >= sizes[:, None]] = 2.0
    order = np.argsort(keys, axis=2)[:, :, :k]
    picks = np.full((n_rules, n, k), -1, dtype=np.int64)
    picks[:, :, : order.shape[2]] = order
    count = generator.integers(fewest, k + 1, size=(n_rules, n))
    picks[np.arange(k) >= np.minimum(count, sizes)[:, :, None]] = -1
    return np.ascontiguousarray(picks.transpose(0, 2, 1).astype(kind))


def slow_overlap(picks, own, sizes):
    """For every rule, how many items its sets have in common with those of ``own``."""
    mine = [set(reference.chosen(own, i, size)) for i, size in enumerate(sizes)]
    return [
        sum(len(mine[i].intersection(reference.chosen(rule, i, s))) for i, s in enumerate(sizes))
        for rule in picks
    ]


def quick_overlap(picks, own, sizes):
    """The same for many instances, by comparing every pick with every pick."""
    k, inside = len(own), own < sizes
    pairs = [(picks[:, a] == own[b]) & inside[b] for a in range(k) for b in range(k)]
    return sum(pair.sum(axis=1) for pair in pairs).tolist()


@st.composite
def cases(draw, most=66, *, k_max=5):
    """Picks of some rules, two own decisions, sizes; few instances, of any type."""
    top = draw(st.one_of(st.integers(1, 6), st.sampled_from([61, 62, 63, 64, 65, 66])))
    n = draw(st.integers(1, 40))
    generator = np.random.default_rng(draw(st.integers(0, 10_000)))
    sizes = generator.integers(0, min(top, most) + 1, size=n)
    sizes[draw(st.integers(0, n - 1))] = min(top, most)
    kind = draw(st.sampled_from(KINDS))
    every = decisions(
        generator, draw(st.integers(0, 4)) + 2, draw(st.integers(1, k_max)), sizes, kind
    )
    return every[2:], every[0], every[1], sizes


def count(kernel, picks, own, *more):
    shared = np.arange(len(picks), dtype=np.int64)
    kernel(picks, own, *more, shared)
    return (shared - np.arange(len(picks))).tolist()  # so it is added to what was there


def count_sets(picks, own, sizes):
    """The same by the kernel for sets of any number of items."""
    shared = np.arange(len(picks), dtype=np.int64)
    overlap.overlap_sets(picks, None, own, offsets_of(sizes), np.arange(len(sizes)), shared)
    return (shared - np.arange(len(picks))).tolist()


def offsets_of(sizes):
    return np.concatenate(([0], np.cumsum(sizes)))


def test_the_two_twins_agree():
    generator = np.random.default_rng(0)
    sizes = generator.integers(0, 6, size=50)
    own, *picks = decisions(generator, 5, 3, sizes, np.uint8)
    assert slow_overlap(picks, own, sizes) == quick_overlap(np.array(picks), own, sizes)


@given(cases())
def test_sets_of_any_size_are_intersected(case):
    picks, own, _, sizes = case
    assert count_sets(picks, own, sizes) == slow_overlap(picks, own, sizes)


@given(cases(most=overlap.BITS - 1))
def test_masks_are_intersected(case):
    picks, own, _, sizes = case
    assert count(overlap.overlap_masks, picks, own) == slow_overlap(picks, own, sizes)


@given(cases(k_max=1))
def test_single_picks_are_compared(case):
    picks, own, _, _ = case
    # It compares numbers: where neither picks, the two paddings are equal as well.
    expected = [(rule[0] == own[0]).sum() for rule in picks]
    assert count(overlap.overlap_single, picks, own) == expected


@given(cases(), st.data())
def test_changes_bring_one_count_to_the_other(case, data):
    picks, before, after, sizes = case
    same = np.array(data.draw(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes))))
    after[:, same] = before[:, same]
    changed = np.flatnonzero((before != after).any(axis=0))
    shared = np.array(slow_overlap(picks, before, sizes), dtype=np.int64)
    overlap.overlap_sets(picks, before, after, offsets_of(sizes), changed, shared)
    assert shared.tolist() == slow_overlap(picks, after, sizes)
    # Instances that did not change may be named too.
    shared = np.array(slow_overlap(picks, before, sizes), dtype=np.int64)
    every = np.arange(len(sizes))
    overlap.overlap_sets(picks, before, after, offsets_of(sizes), every, shared)
    assert shared.tolist() == slow_overlap(picks, after, sizes)


@given(cases(), st.integers(-(2**50), 2**50))
def test_amounts_are_added_to_the_rules_that_pick_an_item(case, scale):
    picks, own, _, sizes = case
    rows = [
        (i, position, scale * (i + 1) + position)
        for i, size in enumerate(sizes)
        for position in reference.chosen(own, i, size)
    ]
    sums = np.arange(len(picks), dtype=np.int64)
    overlap.add_at_items(picks, np.array(rows, dtype=np.int64).reshape(-1, 3), sums)
    expected = [
        r + sum(amount for i, j, amount in rows if j in reference.chosen(rule, i, sizes[i]))
        for r, rule in enumerate(picks)
    ]
    assert sums.tolist() == expected


# --- many instances: whole vectors, whole runs of them, whole blocks ----------------------------

BLOCK = overlap.COMPARE_BLOCK
NEAR = sorted(
    {
        max(0, base + shift)
        for base in (0, 32, 64, BLOCK // 2, BLOCK, 2 * BLOCK)
        for shift in (-33, -32, -1, 0, 1, 31, 32)
    }
    - {0}
)


@pytest.mark.parametrize("kind", KINDS)
def test_single_picks_are_compared_around_every_boundary(kind):
    generator = np.random.default_rng(0)
    for n in NEAR:
        every = generator.integers(0, 3, size=(4, 1, n)).astype(kind)
        every[every == 2] = np.iinfo(kind).max
        own, picks = every[0], every[1:]
        assert (
            count(overlap.overlap_single, picks, own) == (picks[:, 0] == own).sum(axis=1).tolist()
        )
        # All equal: every lane counts to its largest number.
        assert count(overlap.overlap_single, np.array([own, own]), own) == [n, n]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("m", [4, 62, 63, 64, 65])
def test_sets_are_intersected_around_every_boundary(kind, m):
    generator = np.random.default_rng(m)
    for n in NEAR[-14::3] + NEAR[:14:3]:
        sizes = generator.integers(1, m + 1, size=n)
        sizes[0] = m
        own, *picks = decisions(generator, 3, 2, sizes, kind)
        picks = np.array(picks)
        expected = quick_overlap(picks, own, sizes)
        assert count_sets(picks, own, sizes) == expected
        if m < overlap.BITS:
            assert count(overlap.overlap_masks, picks, own) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_large_positions_are_not_taken_for_small_ones(kind):
    # 0 and 256 share their last byte, 0 and 65536 their last two.
    size = min(70_000, int(np.iinfo(kind).max))
    positions = [p for p in (0, 64, 254, 256, 320, 65_534, 65_536) if p < size]
    sizes = np.full(len(positions), size)
    own = np.array([positions]).astype(kind)
    picks = np.array([np.roll(own, shift, axis=1) for shift in range(len(positions))])
    expected = [len(positions)] + [0] * (len(positions) - 1)
    assert count(overlap.overlap_single, picks, own) == expected
    assert count_sets(picks, own, sizes) == expected


@given(st.sampled_from(KINDS), st.integers(1, 40))
@example(np.uint8, 32)
def test_no_picks_at_all_share_nothing_as_sets(kind, n):
    nothing = np.full((3, 2, n), np.iinfo(kind).max, dtype=kind)
    sizes = np.full(n, 5)
    assert count(overlap.overlap_masks, nothing, nothing[0]) == [0, 0, 0]
    assert count_sets(nothing, nothing[0], sizes) == [0, 0, 0]
