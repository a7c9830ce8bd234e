"""Exploration: the propensities are exactly the frequencies with which items are chosen."""

import numpy as np
import polars as pl
import pytest

import outrule
from outrule import Instances

SEEDS = 4_000


def fitted(problem, n_items, rules=None, n=20):
    generator = np.random.default_rng(0)
    rules = rules or [outrule.Multiplier(generator.random(n_items)) for _ in range(3)]
    predictions = generator.random((n, n_items))
    outcomes = generator.random((n, n_items))
    return outrule.DecisionCalibrator(problem, rules, 0.5, start=None, rivals=()).fit(
        predictions, outcomes
    ), predictions


@pytest.mark.parametrize(
    ("problem", "n_items", "odds"),
    [
        (outrule.BestAction(), 4, 1 / 4),
        (outrule.TopK(2), 5, 2 / 5),
        (outrule.Assignment(3, 3), 9, 1 / 3),
        (outrule.Assignment(2, 3), 6, 1 / 3),
        (outrule.Matching.complete(4), 6, 1 / 3),
        (outrule.Matching.complete(5), 10, 1 / 5),
        (outrule.Matching([(0, 1), (1, 2), (2, 3)]), 3, None),
        (outrule.PartitionMatroid([0, 0, 1], 1), 3, None),
    ],
    ids=str,
)
@pytest.mark.parametrize("over", ["uniform", "rules"])
def test_items_are_chosen_as_often_as_their_propensities_say(problem, n_items, odds, over):
    calibrator, predictions = fitted(problem, n_items)
    many = np.repeat(predictions[:1], SEEDS, axis=0)
    found = calibrator.explore(many, share=0.5, random_state=3, over=over)
    best = calibrator.decide(predictions[:1])
    if odds is not None and over == "uniform":
        np.testing.assert_allclose(found.propensity[0], 0.5 * best[0] + 0.5 * odds)
    error = np.sqrt(found.propensity[0] * (1 - found.propensity[0]) / SEEDS)
    assert (abs(found.chosen.mean(axis=0) - found.propensity[0]) <= 4.5 * error + 1e-9).all()
    layout = problem.lay(Instances.from_arrays(many))
    assert problem.feasible(found.chosen.ravel(), layout).all()
    assert found.cost >= 0


def test_the_draw_depends_on_seed_and_name_alone():
    generator = np.random.default_rng(1)
    frame = pl.DataFrame(
        {
            "trip": np.repeat([f"t{i}" for i in range(50)], 3),
            "driver": np.tile(list("abc"), 50),
            "score": generator.random(150),
            "done": generator.random(150).round(),
        }
    )
    names = {"instance": "trip", "prediction": "score", "item": "driver"}
    data = Instances.from_table(frame, **names, outcome="done")
    calibrator = outrule.DecisionCalibrator(outrule.BestAction(), [outrule.Fixed("a")]).fit(data)

    def chosen(part, seed):
        found = calibrator.explore(
            Instances.from_table(part, **names), share=0.9, random_state=seed
        )
        return part.with_columns(chosen=found.chosen).sort("trip", "driver")["chosen"].to_list()

    whole = chosen(frame, 7)
    turned = frame.sample(fraction=1.0, shuffle=True, seed=1)
    assert chosen(turned, 7) == whole
    assert chosen(frame, 8) != whole
    first = frame.sort("trip")[:60]
    assert chosen(first, 7) == whole[:60]


def test_its_own_log_is_accepted_and_certified():
    world = outrule.worlds.Quadratic(n_items=3, seed=0)
    predictor = outrule.worlds.brief_predictor(world)
    rules = [outrule.Fixed(0), outrule.Fixed(1)]
    predictions, outcomes = outrule.worlds.draw(world, predictor, 3_000, seed=1)
    calibrator = outrule.DecisionCalibrator(outrule.BestAction(), rules, 0.2)
    calibrator.fit(predictions, outcomes)
    new, outcomes = outrule.worlds.draw(world, predictor, 3_000, seed=2)
    for over in ("uniform", "rules"):
        found = calibrator.explore(new, share=0.3, random_state=1, over=over)
        log = Instances.from_arrays(
            new, np.where(found.chosen, outcomes, np.nan), propensity=found.propensity
        )
        certificate = outrule.certify(calibrator, log)
        assert certificate.verdict == "pass"
        assert certificate.unsupported.share == 0


@pytest.mark.parametrize(
    ("argument", "value"), [("share", 0.0), ("share", 1.5), ("random_state", -1), ("over", "all")]
)
def test_bad_arguments_are_refused(argument, value):
    calibrator, predictions = fitted(outrule.BestAction(), 3)
    with pytest.raises(outrule.ArgumentError, match=f"'{argument}' argument of explore"):
        calibrator.explore(predictions, **{argument: value})
