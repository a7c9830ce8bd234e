"""Trees of the cross-fitted start: what they find, and what they leave as it was."""

from dataclasses import replace

import numpy as np
import pytest

import outrule
from outrule import CrossFit
from outrule.calibration import trees as module
from outrule.calibration.audit import prepare

TREES = CrossFit(max_trees=20)


def world(n, seed, m=4):
    """Rules point at items at random; the first is right about two of them, wrong about two."""
    generator = np.random.default_rng(seed)
    predictions = generator.random((n, m)) * 0.2 + 0.4
    first, second = generator.integers(0, m, (2, n))
    item = np.arange(m)
    pointed, unpointed = np.where(item < 2, 0.7, 0.1), np.where(item < 2, 0.4, 0.6)
    outcomes = generator.random((n, m)) < np.where(item == first[:, None], pointed, unpointed)
    return outrule.Instances.from_arrays(
        predictions, outcomes.astype(float), columns={"first": first, "second": second}
    )


def rules():
    return [outrule.Choose(f"by {name}", f"item = {name}") for name in ("first", "second")]


def fit(data, start=TREES, **settings):
    return outrule.DecisionCalibrator(outrule.BestAction(), rules(), start=start, **settings).fit(
        data
    )


def test_they_find_what_depends_on_rule_and_item():
    past, later = world(4_000, 0), world(4_000, 1)
    values = [
        outrule.metrics.value(later, decisions=fit(past, start).decide(later))
        for start in (TREES, CrossFit(max_trees=0))
    ]
    assert values[0] > values[1] + 0.02


def test_a_saved_model_predicts_the_same_bits(tmp_path):
    past, later = world(600, 0), world(300, 1)
    calibrator = fit(past)
    assert any(member.trees for member in calibrator.model_.members)
    calibrator.save(tmp_path / "model.json")
    loaded = outrule.load(tmp_path / "model.json")
    np.testing.assert_array_equal(loaded.predict(later), calibrator.predict(later))


def test_verification_follows_them():
    past, later = world(600, 0), world(300, 1)
    calibrator = fit(past)
    outrule.verify(outrule.certify(calibrator, later), calibrator, later)


@pytest.mark.parametrize("threads", [1, 2])
def test_chunks_and_threads_change_nothing(threads):
    past, later = world(500, 0), world(300, 1)
    calibrator = fit(past, n_jobs=threads)
    whole = calibrator.predict(later)
    np.testing.assert_array_equal(whole, fit(past, n_jobs=1).predict(later))
    parts = [calibrator.predict(later.slice(i, i + 1)) for i in range(len(later))]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_right_predictions_grow_none():
    data = world(400, 0)
    members = fit(replace(data, outcome=data.prediction)).model_.members
    assert all(member.trees is None for member in members if member.start is None)


def test_data_without_enough_outcomes_grow_none():
    members = fit(world(10, 0)).model_.members
    assert all(member.trees is None for member in members)


def test_copies_in_a_cluster_say_no_more_than_one_of_them():
    once = world(400, 0)
    copies = replace(once.take(np.repeat(np.arange(400), 3)), cluster=np.repeat(np.arange(400), 3))
    found = []
    for data, times in ((once, 1), (copies, 3)):
        part = prepare(data, outrule.BestAction(), rules())
        left_out = np.repeat(np.arange(400) % 2 == 0, times)
        found.append(module.grow(part, data.prediction, left_out, 10, 4, 25))
    # Quantiles of copies are a little different, so only the first trees are the same.
    np.testing.assert_array_equal(found[0].questions[0], found[1].questions[0])
    np.testing.assert_allclose(found[0].values[0], found[1].values[0], rtol=0.05)
    alone = replace(copies, cluster=None)
    part = prepare(alone, outrule.BestAction(), rules())
    bolder = module.grow(part, alone.prediction, left_out, 10, 4, 25)
    assert np.abs(bolder.values[0]).max() > 1.2 * np.abs(found[0].values[0]).max()


def test_an_instance_without_weight_has_no_say():
    past = world(400, 0)
    weight = np.ones(400)
    weight[::2] = 0.0
    nonsense = past.outcome.reshape(400, 4).copy()
    nonsense[::2] = 1 - nonsense[::2]
    one = replace(past, weight=weight)
    other = replace(one, outcome=nonsense.ravel())
    later = world(100, 1)
    np.testing.assert_array_equal(fit(one).predict(later), fit(other).predict(later))


def test_the_reject_item_keeps_its_value():
    generator = np.random.default_rng(0)
    scores = generator.dirichlet(np.ones(3), 900)
    label = np.array([generator.choice(3, p=row**2 / (row**2).sum()) for row in scores])
    problem = outrule.Rejection(0.3)
    parts = problem.with_reject(scores), problem.with_reject(np.eye(3)[label])
    calibrator = outrule.DecisionCalibrator(problem, [outrule.Fixed(0)], start=TREES).fit(*parts)
    assert (calibrator.predict(parts[0])[:, -1] == 0.7).all()


def test_of_many_tests_and_instances_some_are_asked(monkeypatch):
    monkeypatch.setattr(module, "MOST_TESTS", 2)
    monkeypatch.setattr(module, "MOST_INSTANCES", 256)
    past = world(1_000, 0)
    many = [*rules(), *outrule.multipliers(4, limit=10)]
    calibrator = outrule.DecisionCalibrator(outrule.BestAction(), many, start=TREES).fit(past)
    for member in calibrator.model_.members:
        assert member.trees is None or len(member.trees.tests) <= 2
    later = world(200, 1)
    outrule.verify(outrule.certify(calibrator, later), calibrator, later)
