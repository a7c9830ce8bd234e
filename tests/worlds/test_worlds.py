"""The synthetic worlds against their closed forms, with fixed seeds."""

import re

import numpy as np
import pytest
from scipy.special import expit, logit

from outrule import worlds
from outrule.worlds import predictors
from outrule.worlds.quadratic import N_FEATURES


def chosen_value(weights, outcomes):
    return outcomes[np.arange(len(outcomes)), weights.argmax(axis=1)]


@pytest.fixture(scope="module")
def large():
    """A world of four items and a sample large enough for its moments."""
    world = worlds.Quadratic(4, seed=3)
    features, outcomes = world.sample(200_000, seed=0)
    return world, features, outcomes


def test_the_standardised_outcome_has_mean_zero_and_variance_one(large):
    _, _, outcomes = large
    standardised = logit(outcomes)
    # The standard error of a mean is 0.0022; of a variance, with these tails, below 0.008.
    assert np.abs(standardised.mean(axis=0)).max() < 0.01
    assert np.abs(standardised.var(axis=0) - 1).max() < 0.03


def test_the_constants_are_those_of_the_distribution(large):
    world, features, _ = large
    raw = features @ world.W1.T + features**2 @ world.W2.T / 2 + world.b
    raw += 0.1 * np.random.default_rng(1).standard_normal(raw.shape)
    np.testing.assert_allclose(world.mean, world.b + world.W2.sum(axis=1) / 2)
    assert np.abs((raw.mean(axis=0) - world.mean) / world.scale).max() < 0.01
    assert np.abs(raw.std(axis=0) / world.scale - 1).max() < 0.015


def test_bayes_is_unbiased_overall_and_on_what_it_chooses(large):
    world, features, outcomes = large
    bayes = world.bayes(features)
    error = outcomes - bayes
    spread = error.std() / np.sqrt(len(error))
    assert np.abs(error.mean(axis=0)).max() < 4 * spread
    assert abs(chosen_value(bayes, error).mean()) < 4 * spread
    for column in range(N_FEATURES):
        assert np.abs((error * (features[:, [column]] > 0)).mean(axis=0)).max() < 4.5 * spread


def test_bayes_equals_a_fine_integral_over_the_noise():
    world = worlds.Quadratic(3, seed=2)
    features, _ = world.sample(5, seed=1)
    raw = features @ world.W1.T + features**2 @ world.W2.T / 2 + world.b
    noise = np.linspace(-0.9, 0.9, 20_001)
    density = np.exp(-((noise / 0.1) ** 2) / 2)
    density /= density.sum()
    for item in range(3):
        inside = (raw[:, [item]] + noise - world.mean[item]) / world.scale[item]
        np.testing.assert_allclose(
            world.bayes(features)[:, item], expit(inside) @ density, atol=1e-13
        )


def test_no_predictor_has_a_smaller_squared_error_than_bayes(large):
    world, features, outcomes = large
    bayes, converged, brief = (
        ((predictions - outcomes) ** 2).mean()
        for predictions in (
            world.bayes(features),
            worlds.converged_predictor(world).predict(features),
            worlds.brief_predictor(world).predict(features),
        )
    )
    assert bayes < converged < brief


def test_worlds_and_samples_are_reproducible_and_seeds_matter():
    one, same, other = (worlds.Quadratic(5, seed=seed) for seed in (1, 1, 2))
    assert one == same != other
    np.testing.assert_array_equal(one.W1, same.W1)
    assert (one.W1 != other.W1).all()
    for left, right in zip(one.sample(10, seed=4), same.sample(10, seed=4), strict=True):
        np.testing.assert_array_equal(left, right)
    assert (one.sample(10, seed=4)[0] != one.sample(10, seed=5)[0]).all()


def test_equal_seeds_do_not_share_numbers_between_purposes():
    world = worlds.Quadratic(10, seed=0)
    features, _ = world.sample(10, seed=0)
    training, _ = predictors._training(world, 0)
    start = predictors._start(world, 0)
    assert not np.isin(features, world.W1).any()
    assert not np.isin(features, training).any()
    assert not np.isin(start, training).any()


def test_a_world_cannot_be_written_to():
    world = worlds.Quadratic(2)
    with pytest.raises(ValueError, match="read-only"):
        world.W1[0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        worlds.brief_predictor(world).weights[0, 0] = 1


def test_every_array_is_float64():
    world = worlds.Quadratic(2)
    predictor = worlds.LinearPredictor(world.W1, world.b)
    arrays = [
        *world.sample(5, seed=0),
        world.bayes(np.zeros((2, 10))),
        *worlds.draw(world, predictor, 5, seed=0),
        *worlds.two_arms(5, seed=0),
        *worlds.rejection(5, seed=0),
    ]
    assert {array.dtype for array in arrays} == {np.dtype(np.float64)}
    assert all((array > 0).all() and (array < 1).all() for array in arrays[1:5])


def test_the_gradient_is_that_of_the_squared_error():
    world = worlds.Quadratic(3, seed=1)
    features, signed = predictors._training(world, 0)
    features, signed = features[:300], signed[:300]
    parameters = predictors._start(world, 0)
    loss, gradient = predictors._loss(parameters, features, signed)
    plain = ((expit(features @ parameters) - (signed + 1) / 2) ** 2).sum(axis=1).mean()
    assert loss == pytest.approx(plain)
    for place in np.ndindex(parameters.shape):
        shift = np.zeros_like(parameters)
        shift[place] = 1e-6
        ends = [predictors._loss(parameters + s * shift, features, signed)[0] for s in (1, -1)]
        assert gradient[place] == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-8)


def test_the_brief_predictor_is_plain_gradient_descent(monkeypatch):
    monkeypatch.setattr(predictors, "N_STEPS", 5)
    world = worlds.Quadratic(3, seed=1)
    features, signed = predictors._training(world, 7)
    outcomes, parameters = (signed + 1) / 2, predictors._start(world, 7)
    for _ in range(5):
        p = expit(features @ parameters)
        parameters -= 0.01 * 2 * features.T @ ((p - outcomes) * p * (1 - p)) / outcomes.size
    found = worlds.brief_predictor(world, seed=7)
    np.testing.assert_allclose(found.weights, parameters[:-1].T, rtol=1e-12)
    np.testing.assert_allclose(found.bias, parameters[-1], rtol=1e-12)


def test_the_start_is_uniform_within_one_over_root_ten():
    start = predictors._start(worlds.Quadratic(1000), 0)
    assert np.abs(start).max() <= 10**-0.5
    assert start.std() == pytest.approx(10**-0.5 / 3**0.5, rel=0.02)


# Seeds 0 to 11 of the world gave 0.037-0.047 and 0.050-0.062 for the squared error, 0.52-0.60 and
# 0.48-0.56 for the argmax (means 0.041, 0.056, 0.562 and 0.515).
@pytest.mark.parametrize(
    ("n_items", "error_band", "value_band"),
    [(4, (0.030, 0.055), (0.50, 0.62)), (16, (0.045, 0.070), (0.45, 0.59))],
)
def test_the_brief_regime_has_its_measured_figures(n_items, error_band, value_band):
    world = worlds.Quadratic(n_items, seed=0)
    predictions, outcomes = worlds.draw(world, worlds.brief_predictor(world), 4000, seed=1)
    error = ((predictions - outcomes) ** 2).mean()
    value = chosen_value(predictions, outcomes).mean()
    print(f"brief, m = {n_items}: squared error {error:.4f} per entry, argmax {value:.4f}")
    assert error_band[0] < error < error_band[1]
    assert value_band[0] < value < value_band[1]


@pytest.mark.parametrize(("n_items", "band"), [(4, (0.60, 0.73)), (16, (0.74, 0.80))])
def test_the_converged_regime_is_stationary_and_has_its_measured_figures(n_items, band):
    world = worlds.Quadratic(n_items, seed=0)
    predictor = worlds.converged_predictor(world)
    features, signed = predictors._training(world, 0)
    parameters = np.vstack([predictor.weights.T, predictor.bias])
    _, gradient = predictors._loss(parameters, features, signed)
    assert np.abs(gradient).max() < 1e-7
    predictions, outcomes = worlds.draw(world, predictor, 4000, seed=1)
    value = chosen_value(predictions, outcomes).mean()
    print(f"converged, m = {n_items}: argmax {value:.4f}")
    assert band[0] < value < band[1]


def test_the_converged_predictor_does_not_depend_on_its_start(monkeypatch):
    world = worlds.Quadratic(3, seed=0)
    found = worlds.converged_predictor(world, seed=0)
    monkeypatch.setattr(predictors, "_start", lambda world, _: np.zeros((11, world.n_items)))
    other = worlds.converged_predictor(world, seed=0)
    np.testing.assert_allclose(found.weights, other.weights, atol=1e-5)


def test_a_converged_predictor_that_did_not_converge_says_so(monkeypatch):
    class Stopped:
        x, jac, message = np.zeros(22), np.full(22, 0.5), "out of luck"

    monkeypatch.setattr(predictors, "minimize", lambda *_, **__: Stopped)
    with pytest.raises(RuntimeError, match=r"gradient of 5\.0e-01 \(out of luck\)"):
        worlds.converged_predictor(worlds.Quadratic(2))


def test_two_arms_have_the_values_known_in_closed_form():
    for epsilon in (0.05, 0.1, 0.3):
        n = 100_000
        predictions, outcomes = worlds.two_arms(n, seed=0, epsilon=epsilon)
        spread = 4 * np.sqrt(epsilon / n)
        np.testing.assert_allclose(outcomes[:, 1], epsilon)
        assert abs((outcomes - predictions).mean(axis=0)[1]) < spread
        value = chosen_value(predictions, outcomes).mean()
        assert value == pytest.approx(epsilon**2 * (2 - epsilon), abs=spread * epsilon)
        assert value < outcomes[:, 1].mean()
        violation = chosen_value(predictions, outcomes - predictions).mean()
        assert violation == pytest.approx(-epsilon * (1 - epsilon), abs=spread)
        assert predictions.min() >= 0
        assert predictions.max() <= 1


def value_with_rejection(predictions, outcomes, cost):
    rejected = np.full((len(outcomes), 1), 1 - cost)
    return chosen_value(np.hstack([predictions, rejected]), np.hstack([outcomes, rejected])).mean()


@pytest.mark.parametrize("cost", [0.05, 0.15, 0.3])
def test_rejection_has_the_values_known_in_closed_form(cost):
    n = 200_000
    _, truth_outcomes = truth = worlds.rejection(n, seed=0, sharpness=1.0)
    assert value_with_rejection(*truth, cost) == pytest.approx(1 - cost + cost**2, abs=0.004)
    predictions, outcomes = worlds.rejection(n, seed=0, sharpness=3.0)
    np.testing.assert_array_equal(outcomes, truth_outcomes)
    t = expit(logit(1 - cost) / 3)
    expected = (2 * t - 1) * (1 - cost) + 1 - t**2
    assert value_with_rejection(predictions, outcomes, cost) == pytest.approx(expected, abs=0.004)
    assert expected < 1 - cost + cost**2 - 0.005


def test_rejection_is_over_confident_and_on_the_simplex():
    predictions, outcomes = worlds.rejection(50_000, seed=1)
    np.testing.assert_allclose(predictions.sum(axis=1), 1)
    np.testing.assert_array_equal(outcomes.sum(axis=1), 1)
    assert set(np.unique(outcomes)) == {0.0, 1.0}
    assert chosen_value(predictions, outcomes).mean() == pytest.approx(0.75, abs=0.01)
    assert predictions.max(axis=1).mean() > 0.85


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: worlds.Quadratic(0),
            "The 'n_items' argument of Quadratic must be an int of at least 1. Got 0 instead.",
        ),
        (
            lambda: worlds.Quadratic(2, seed=-1),
            "The 'seed' argument of Quadratic must be an int of at least 0. Got -1 instead.",
        ),
        (
            lambda: worlds.Quadratic(2).sample(0, seed=1),
            "The 'n' argument of Quadratic.sample must be an int of at least 1. Got 0 instead.",
        ),
        (
            lambda: worlds.Quadratic(2).sample(1, seed=None),
            "The 'seed' argument of Quadratic.sample must be an int of at least 0. Got None",
        ),
        (
            lambda: worlds.brief_predictor(worlds.Quadratic(2), seed=0.5),
            "The 'seed' argument of brief_predictor must be an int of at least 0. Got 0.5 instead.",
        ),
        (
            lambda: worlds.converged_predictor(worlds.Quadratic(2), seed=-2),
            "The 'seed' argument of converged_predictor must be an int of at least 0. Got -2",
        ),
        (
            lambda: worlds.two_arms(10, seed=0, epsilon=1.0),
            "The 'epsilon' argument of two_arms must be a float in (0, 1). Got 1.0 instead.",
        ),
        (
            lambda: worlds.two_arms(-1, seed=0),
            "The 'n' argument of two_arms must be an int of at least 1. Got -1 instead.",
        ),
        (
            lambda: worlds.rejection(10, seed=0, sharpness=0.5),
            "The 'sharpness' argument of rejection must be a float of at least 1. Got 0.5 instead.",
        ),
    ],
)
def test_a_bad_argument_is_named_with_its_function(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
