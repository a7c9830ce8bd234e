"""Starts that are fitted on logs: estimates of all outcomes, and what members learn from them."""

from __future__ import annotations

import numpy as np
import pytest

import outrule
from outrule import Instances
from outrule.calibration.audit import part_of
from outrule.calibration.cross_fit import CrossFit, Material
from outrule.calibration.isotonic import Isotonic, draw_folds
from outrule.calibration.log_bases import TRUST, complete, estimate, fit_base
from outrule.rules.decisions import decide_all, distinct

M = 5
RULES = outrule.multipliers(M, limit=8)


def world(n, seed=0, least=0.02, sharpness=4.0):
    """A log of a logger who knows more than the predictions, and the true means."""
    generator = np.random.default_rng(seed)
    context = generator.random((n, M))
    mean = 0.15 + 0.7 * context * np.linspace(0.4, 1, M)
    outcome = (generator.random((n, M)) < mean).astype(float)
    score = np.exp(sharpness * (outcome + generator.normal(size=(n, M)) / 2) / 2)
    q = least + (1 - M * least) * score / score.sum(axis=1, keepdims=True)
    chosen = (generator.random((n, 1)) < q.cumsum(axis=1)).argmax(axis=1)
    seen = np.where(np.arange(M) == chosen[:, None], outcome, np.nan)
    return Instances.from_arrays(context**2, seen, propensity=q), mean.ravel()


def fitted(data):
    problem, generator = outrule.BestAction(), np.random.default_rng(0)
    layout = problem.lay(data)
    decisions = distinct(decide_all(RULES, data, problem, layout))
    fold = draw_folds(data, 4, generator)
    part = part_of(data, layout, *decisions)
    return CrossFit().fit(part, problem, data.prediction, fold, generator)


def test_estimates_are_moved_towards_outcomes_up_to_a_limit():
    log, _ = world(200)
    start = np.random.default_rng(1).random(len(log.prediction))
    found, noise = complete(log, start, None)
    base = estimate(fit_base(log, start), start, log, most=0.0).outcome
    most = TRUST / (200 / len(start))  # one of five is observed
    squares = 0.0
    for j, (y, q) in enumerate(zip(log.outcome, log.propensity, strict=True)):
        weight = 0.0 if np.isnan(y) else min(1 / q, most)
        squares += weight**2
        expected = base[j] + (0.0 if np.isnan(y) else weight * (y - base[j]))
        assert found.outcome[j] == pytest.approx(expected)
    assert found.propensity is None
    assert noise == pytest.approx(squares / len(start))


def test_an_outcome_that_is_nearly_always_observed_counts_whole():
    generator = np.random.default_rng(0)
    outcome = np.where(generator.random((100, M)) < 0.9, generator.random((100, M)), np.nan)
    log = Instances.from_arrays(generator.random((100, M)), outcome, propensity=0.9)
    found, noise = complete(log, log.prediction, None)
    assert found.outcome[log.observed] == pytest.approx(log.outcome[log.observed])
    assert noise == 1


def test_frozen_items_do_not_count_as_observed():
    log, _ = world(200)
    start = log.prediction
    frozen = log.observed & (np.arange(len(start)) % 2 == 0)
    found, _ = complete(log, start, frozen)
    base = estimate(fit_base(log, start), start, log, most=0.0).outcome
    most = TRUST / log.observed[~frozen].mean()
    moved = base + np.minimum(log.upweight, most) * np.where(log.observed, log.outcome - base, 0)
    assert found.outcome == pytest.approx(moved)


def test_a_start_learns_from_what_was_not_chosen(monkeypatch):
    """It is nearer to the truth than members that see observed outcomes only."""
    logs = [world(3_000, seed) for seed in range(5)]

    def error():
        return np.mean([((fitted(log)[1] - mean) ** 2).mean() for log, mean in logs])

    found = error()
    monkeypatch.setattr(Material, "completed", lambda material, _: material)
    assert found < 0.7 * error()


@pytest.mark.parametrize("observed", [0.004, 0.02])
def test_a_model_of_a_log_with_few_outcomes_can_be_saved(observed, tmp_path):
    """Its curves and trees stay in the range, whatever the estimates are."""
    generator = np.random.default_rng(0)
    predictions = generator.random((3_000, M))
    outcome = np.where(generator.random((3_000, M)) < observed, predictions > 0.5, np.nan)
    log = Instances.from_arrays(predictions, outcome, propensity=observed)
    calibrator = outrule.DecisionCalibrator(outrule.BestAction(), RULES).fit(log)
    calibrator.save(tmp_path / "model.json")
    again = outrule.load(tmp_path / "model.json")
    assert (again.predict(predictions) == calibrator.predict(predictions)).all()


def test_isotonic_curves_of_estimates_are_clipped_to_the_range():
    data = Instances.from_arrays([[0.1], [0.5], [0.9]], [[0.0], [0.5], [1.0]])
    wide = Isotonic().fit(data).inside((0.2, 0.8))
    assert wide.apply(data).tolist() == [0.2, 0.5, 0.8]
