"""All Hypothesis strategies of the walk: what may enter the audit, the patches and the loop."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

import outrule

# Values with many ties (sixteenths, the ends) and values without any.
unit = st.one_of(st.sampled_from([i / 16 for i in range(17)]), st.floats(0, 1))
weight = st.one_of(st.sampled_from([0.25, 1.0, 1.0, 3.0]), st.floats(0.01, 10))
signed_step = st.one_of(st.sampled_from([-0.5, -0.125, 0.125, 0.5]), st.floats(-1, 1))


class Tally(NamedTuple):
    """What the kernels of sums and patches take."""

    prediction: np.ndarray
    outcome: np.ndarray
    offsets: np.ndarray
    weight: np.ndarray
    picks: np.ndarray
    frozen: np.ndarray
    order: np.ndarray
    steps: np.ndarray


def _array(draw, element, n):
    return np.array(draw(st.lists(element, min_size=n, max_size=n)), dtype=np.float64)


@st.composite
def tallies(draw, *, k_max=4, fewest=0):
    """Ragged instances, decisions of some rules padded as the type wants it, and patches."""
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=6))
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    kind = draw(st.sampled_from([np.uint8, np.uint16, np.uint32]))
    k, n_rules = draw(st.integers(1, k_max)), draw(st.integers(1, 3))
    picks = np.full((n_rules, k, len(sizes)), -1, dtype=np.int32)
    for rule in range(n_rules):
        for i, size in enumerate(sizes):
            positions = st.integers(0, size - 1)
            some = draw(st.lists(positions, min_size=fewest, max_size=min(k, size), unique=True))
            picks[rule, : len(some), i] = sorted(some)
    order = np.array(draw(st.lists(st.integers(0, n_rules - 1), max_size=5)), dtype=np.int64)
    total = int(offsets[-1])
    return Tally(
        _array(draw, unit, total),
        _array(draw, unit, total),
        offsets,
        _array(draw, weight, len(sizes)),
        picks.astype(kind),
        np.array(draw(st.lists(st.booleans(), min_size=total, max_size=total))),
        order,
        _array(draw, signed_step, len(order)),
    )


@st.composite
def simplex_inputs(draw):
    """A vector to project, and which of its entries are frozen."""
    size = draw(st.integers(1, 8) | st.integers(15, 40))  # few are sorted by insertion
    values = _array(draw, st.floats(-3, 3), size)
    frozen = np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    return values, frozen


class Case(NamedTuple):
    """A problem with data and rules."""

    problem: outrule.Problem
    rules: tuple[outrule.Rule, ...]
    predictions: np.ndarray
    outcomes: np.ndarray


def exact_problems():
    """Problems of six items with an exact optimiser, fast enough to be drawn often."""
    return st.sampled_from(
        [
            outrule.BestAction(),
            outrule.TopK(2),
            outrule.Matching.complete(4),
            outrule.Assignment(2, 3),
            outrule.GraphicMatroid.complete(4),
            outrule.PartitionMatroid([0, 0, 0, 1, 1, 2]),
        ]
    )


@st.composite
def matrices(draw, n, m):
    """Predictions or outcomes of shape (n, m): some with ties, some spread by a random seed."""
    generator = np.random.default_rng(draw(st.integers(0, 10_000)))
    array = generator.random((n, m))
    grain = draw(st.sampled_from([0, 2, 16]))
    return np.rint(array * grain) / grain if grain else array


@st.composite
def cases(draw, problems=None, *, n_max=25):
    """Outcomes that are a noisy power of the predictions, so that rules have something to say."""
    problem = draw(exact_problems() if problems is None else problems)
    n = draw(st.integers(2, n_max))
    predictions, noise = draw(matrices(n, 6)), draw(matrices(n, 6))
    mix = draw(st.sampled_from([0.2, 0.6, 1.0]))
    outcomes = np.clip(mix * noise + (1 - mix) * predictions**2, 0.0, 1.0)
    rules = outrule.multipliers(6, levels=(0.0, 0.5, 1.0), limit=6, seed=draw(st.integers(0, 9)))
    return Case(problem, rules, predictions, outcomes)


@st.composite
def simplex_cases(draw, *, n_max=25):
    """Three classes, perhaps with rejection, and one-hot outcomes."""
    n = draw(st.integers(2, n_max))
    generator = np.random.default_rng(draw(st.integers(0, 10_000)))
    predictions = generator.dirichlet(np.full(3, 0.7), size=n)
    outcomes = np.eye(3)[generator.integers(3, size=n)]
    if draw(st.booleans()):
        problem = outrule.Rejection(cost=0.3)
        predictions, outcomes = problem.with_reject(predictions), problem.with_reject(outcomes)
        levels = (0.5, 1.0)
    else:
        problem, levels = outrule.Classification(), (0.0, 0.5, 1.0)
    rules = outrule.multipliers(predictions.shape[1], levels=levels, limit=6, seed=1)
    return Case(problem, rules, predictions, outcomes)
