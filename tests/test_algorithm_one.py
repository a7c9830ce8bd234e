"""Fresh batches with the fixed step are Algorithm 1 of the paper, to the letter."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import outrule
import reference
from letter import algorithm_one

MATCHINGS_OF_4 = reference.all_matchings(reference.complete_edges(4))
MATCHINGS_OF_6 = reference.all_matchings(reference.complete_edges(6))
WORLDS = {
    "best action": (outrule.BestAction(), reference.best_action, 5, 1),
    "top 3": (outrule.TopK(3), partial(reference.top_k, k=3), 6, 3),
    "matching of 4": (
        outrule.Matching.complete(4),
        partial(reference.best_matching, matchings=MATCHINGS_OF_4),
        6,
        2,
    ),
    "matching of 6": (
        outrule.Matching.complete(6),
        partial(reference.best_matching, matchings=MATCHINGS_OF_6),
        15,
        3,
    ),
}


def draw(n, m, seed):
    """Predictions that do not know how each item's outcome really grows: rules can win."""
    generator = np.random.default_rng(seed)
    predictions = generator.uniform(0.2, 0.8, size=(n, m))
    power, height = generator.uniform(0.5, 3, size=m), generator.uniform(0.4, 1, size=m)
    outcomes = np.clip(height * predictions**power + generator.normal(0, 0.1, (n, m)), 0, 1)
    return predictions, outcomes


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("epsilon", [0.1, 0.3])
@pytest.mark.parametrize("world", WORLDS)
def test_the_loop_makes_the_patches_of_an_independent_implementation(world, epsilon, seed):
    problem, optimiser, m, k = WORLDS[world]
    n, size = (1200, 40) if m < 15 else (300, 20)
    predictions, outcomes = draw(n, m, seed)
    rules = outrule.multipliers(m, limit=8, seed=seed)
    calibrator = algorithm_one(
        problem,
        rules,
        epsilon,
        check=outrule.FreshBatches(size, alert=1),
        step=outrule.FixedStep(),
        max_rounds=n // size,
    )
    calibrator.fit(predictions, outcomes)

    def decider(rule):
        vector = rule.vector.tolist()
        return lambda row: optimiser([v * p for v, p in zip(vector, row, strict=True)])

    deciders = [decider(rule) for rule in rules]
    tolerance = epsilon / 2
    patches = reference.weighted_mc(
        predictions.tolist(),
        outcomes.tolist(),
        deciders,
        optimiser,
        tolerance=tolerance,
        k=k,
        size=size,
    )
    step = tolerance / (2 * k)
    assert [(test, np.sign(size)) for test, size in calibrator.patches_] == patches
    assert {abs(patch.step) for patch in calibrator.patches_} <= {step}
    assert len(patches) >= 3
    new, _ = draw(50, m, seed + 100)
    expected = [
        reference.replay(row, patches, [decide(row) for decide in deciders], optimiser, step)
        for row in new.tolist()
    ]
    np.testing.assert_allclose(calibrator.predict(new), expected, rtol=0, atol=1e-12)
