"""Fitting again: what stays the same, and how much changes."""

from __future__ import annotations

import numpy as np
import pytest

import outrule
from letter import algorithm_one
from outrule import ArgumentError, DataError, Instances, Stability, stability

RULES = outrule.multipliers(4, limit=20)


def draw(n=400, seed=0, noise=0.1):
    """Four actions; the predictions of the first ones are too large, and outcomes are noisy."""
    generator = np.random.default_rng(seed)
    predictions = generator.random((n, 4))
    spread = generator.normal(0, noise, (n, 4))
    return predictions, np.clip(predictions * np.linspace(0.3, 1, 4) + spread, 0, 1)


def by_hand(models, instances):
    """Share and spread, one pair and one instance at a time."""
    marks = [model.decide(instances) for model in models]
    shares = [
        np.mean([(a != b).any() for a, b in zip(one, other, strict=True)])
        for number, one in enumerate(marks)
        for other in marks[:number]
    ]
    outcomes = instances.outcome.reshape(marks[0].shape)
    values = [(outcomes * mark).sum(axis=1).mean() for mark in marks]
    return np.mean(shares), max(values) - min(values)


def test_it_compares_the_fits_of_the_seeds_that_follow():
    data, held_out = draw(noise=0.3), Instances.from_arrays(*draw(seed=1, noise=0.3))
    models = [
        outrule.DecisionCalibrator(outrule.BestAction(), RULES, random_state=seed).fit(*data)
        for seed in (5, 6, 7)
    ]
    for compared in (None, held_out):
        found = stability(models[0], *data, held_out=compared, n_refits=2)
        share, spread = by_hand(models, compared or Instances.from_arrays(*data))
        assert found.share_changed == pytest.approx(share)
        assert found.value_spread == pytest.approx(spread)
        assert 0 < found.share_changed < 1
    assert stability(models[0].model_, *data, held_out=held_out, n_refits=2) == found


def test_two_fits_of_the_same_seed_have_the_same_bits():
    data = draw()
    one, other = (
        outrule.DecisionCalibrator(outrule.BestAction(), RULES).fit(*data) for _ in range(2)
    )
    assert one.patches_ == other.patches_
    assert one.predict(data[0]).tobytes() == other.predict(data[0]).tobytes()
    assert stability(one, *data, n_refits=1) == stability(other, *data, n_refits=1)


def test_where_the_signal_is_clear_few_decisions_change():
    data, held_out = draw(4_000), Instances.from_arrays(*draw(4_000, seed=1))
    fitted = outrule.DecisionCalibrator(outrule.BestAction(), RULES).fit(*data)
    found = stability(fitted, *data, held_out=held_out)
    assert found.share_changed < 0.1
    assert found.value_spread < 0.001
    assert found.n_refits == 3


def test_where_nothing_is_random_only_other_data_change_decisions():
    data = draw(noise=0.3)
    fitted = algorithm_one(outrule.BestAction(), RULES).fit(*data)
    assert stability(fitted, *data, n_refits=2) == Stability(0.0, 0.0, 2)
    assert stability(fitted, *data, n_refits=2, resample=True).share_changed > 0


def test_clusters_are_drawn_as_a_whole():
    predictions, outcomes = draw(60, noise=0.3)
    rows = np.repeat(np.arange(60), 3)
    one = Instances.from_arrays(predictions, outcomes)
    many = Instances.from_arrays(predictions[rows], outcomes[rows], cluster=rows)
    found = [
        stability(algorithm_one(outrule.BestAction(), RULES, 0.02).fit(data), data, resample=True)
        for data in (one, many)
    ]
    assert found[0].share_changed > 0
    assert found[1].share_changed == pytest.approx(found[0].share_changed)
    assert found[1].value_spread == pytest.approx(found[0].value_spread)


def test_a_function_of_the_callers_is_refitted_too():
    def solve(weights):
        return np.arange(len(weights)) == weights.argmax()

    problem, data, rules = outrule.Oracle(solve, k=1), draw(150, noise=0.3), RULES[:8]
    fitted = outrule.DecisionCalibrator(problem, rules, random_state=5).fit(*data)
    exact = outrule.DecisionCalibrator(outrule.BestAction(), rules, random_state=5).fit(*data)
    assert stability(fitted, *data, n_refits=1) == stability(exact, *data, n_refits=1)


def test_the_sentence_says_how_many_and_what_they_are_worth():
    words = "3 refits: two fits differ in 4.2 % of the decisions, and in their value by at most "
    assert str(Stability(0.0423, 0.000312, 3)) == f"{words}0.00032"
    assert str(Stability(0.0, 0.0, 1)).startswith("1 refit: two fits differ in 0 % of the")


def test_other_data_than_those_of_fit_are_refused():
    data = draw()
    fitted = algorithm_one(outrule.BestAction(), RULES, 0.1).fit(*data)
    with pytest.raises(DataError, match="these are not the instances that fit has seen"):
        stability(fitted, *draw(seed=1))
    batchwise = algorithm_one(outrule.BestAction(), RULES, 0.1)
    batchwise.partial_fit(*data).partial_fit(*draw(seed=1))
    with pytest.raises(DataError, match="these are not the instances that fit has seen"):
        stability(batchwise, *data)
    with pytest.raises(ArgumentError, match="'outcomes' argument of stability must be given"):
        stability(fitted, *data, held_out=Instances.from_arrays(data[0]))
    with pytest.raises(ArgumentError, match="'n_refits' argument of stability must be an int of"):
        stability(fitted, *data, n_refits=0)
