"""The linear predictors of the paper's evaluation, trained briefly or until they converge."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from outrule import threads
from outrule.types import Floats
from outrule.worlds.quadratic import N_FEATURES, Quadratic
from outrule.worlds.seeds import START, TRAINING, Seed, check_seed, stream

N_TRAINING = 10_000
N_STEPS = 1_000
LEARNING_RATE = 0.01
ROWS = 256  # per step of the training loss: times 256 items of float64, they fit a 1 MB cache
COLUMNS = 64  # items that a thread trains: no item depends on another


@dataclass(frozen=True, eq=False)
class LinearPredictor:
    """A linear map with a sigmoid on top.

    Parameters
    ----------
    weights : array (n_items, 10)
    bias : array (n_items,)

    Examples
    --------
    >>> LinearPredictor(np.zeros((4, 10)), np.zeros(4)).predict(np.ones((1, 10)))
    array([[0.5, 0.5, 0.5, 0.5]])
    """

    weights: Floats
    bias: Floats

    def predict(self, features: Floats) -> Floats:
        """Return predictions (n, n_items) in (0, 1) for features (n, 10)."""
        with threads.lone_blas():
            scores = features @ self.weights.T + self.bias
        result: Floats = expit(scores)
        return result


def brief_predictor(world: Quadratic, seed: Seed = 0) -> LinearPredictor:
    """Train a linear predictor for 1,000 steps of 0.01, as for the paper's figures.

    Full-batch gradient descent on 10,000 instances from a random start, uniform in +-1/sqrt(10).
    The loss is the squared error averaged over all 10,000 * n_items entries, so with more items
    the step per item is smaller, and the predictor stays closer to its start.
    Cost: 1,000 passes over (10,000, n_items); about a second for 16 items, 15 for 256.

    Parameters
    ----------
    world : Quadratic
    seed : int, or sequence of int; of the training instances and of the start

    Examples
    --------
    >>> brief_predictor(Quadratic(2), seed=0).weights.shape
    (2, 10)
    """
    check_seed(seed, "brief_predictor")
    features, signed = _training(world, seed)
    start = _start(world, seed)
    blocks = [slice(*span) for span in threads.spans(COLUMNS, world.n_items)]

    def train(block: int) -> Floats:
        parameters = start[:, blocks[block]].copy()
        outcomes = np.ascontiguousarray(signed[:, blocks[block]])
        for _ in range(N_STEPS):
            _, gradient = _loss(parameters, features, outcomes)
            # _loss averages over instances; dividing by the items gives the mean of all entries.
            parameters -= LEARNING_RATE / world.n_items * gradient
        return parameters

    with threads.lone_blas():
        return _predictor(np.hstack(threads.run(train, len(blocks))))


def converged_predictor(world: Quadratic, seed: Seed = 0) -> LinearPredictor:
    """Train the best linear predictor: the loss of ``brief_predictor``, minimised by L-BFGS.

    Takes the same arguments; raises a RuntimeError if an entry of the gradient (of the mean
    squared error of one item) is still above 1e-6.

    Examples
    --------
    >>> converged_predictor(Quadratic(2)).weights.shape
    (2, 10)
    """
    check_seed(seed, "converged_predictor")
    features, signed = _training(world, seed)
    start = _start(world, seed)

    def flat(vector: Floats) -> tuple[float, Floats]:
        loss, gradient = _loss(vector.reshape(start.shape), features, signed)
        return loss, gradient.ravel()

    with threads.lone_blas():
        found = minimize(
            flat,
            start.ravel(),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 2000, "maxfun": 4000, "maxcor": 20, "ftol": 0.0, "gtol": 1e-8},
        )
    slope = float(np.abs(found.jac).max())
    if slope > 1e-6:
        raise RuntimeError(
            f"converged_predictor stopped at a gradient of {slope:.1e} ({found.message}). "
            "It should be below 1e-6: try another seed."
        )
    return _predictor(found.x.reshape(start.shape))


def draw(world: Quadratic, predictor: LinearPredictor, n: int, seed: Seed) -> tuple[Floats, Floats]:
    """Draw predictions and outcomes, both (n, n_items); never the predictor's training instances.

    Examples
    --------
    >>> world = Quadratic(2)
    >>> predictions, outcomes = draw(world, brief_predictor(world), 100, seed=1)
    >>> predictions.shape, outcomes.shape
    ((100, 2), (100, 2))
    """
    features, outcomes = world.sample(n, seed)
    return predictor.predict(features), outcomes


def _training(world: Quadratic, seed: Seed) -> tuple[Floats, Floats]:
    """Training features with a last column of ones (the bias), and signed outcomes 2 y - 1."""
    features, outcomes = world.draw(N_TRAINING, stream(seed, TRAINING))
    return np.column_stack([features, np.ones(N_TRAINING)]), 2 * outcomes - 1


def _start(world: Quadratic, seed: Seed) -> Floats:
    """Weights and bias (11, n_items), uniform in +-1/sqrt(10)."""
    bound = 1 / np.sqrt(N_FEATURES)
    return stream(seed, START).uniform(-bound, bound, (N_FEATURES + 1, world.n_items))


def _predictor(parameters: Floats) -> LinearPredictor:
    weights, bias = parameters[:-1].T.copy(), parameters[-1].copy()
    for array in (weights, bias):
        array.setflags(write=False)
    return LinearPredictor(weights, bias)


def _loss(parameters: Floats, features: Floats, signed: Floats) -> tuple[float, Floats]:
    """Squared error, mean over instances and sum over items, and its gradient; blockwise in place.

    With t = tanh(s / 2): p = (1 + t) / 2, p - y = (t - (2 y - 1)) / 2, p (1 - p) = (1 - t^2) / 4.
    """
    n, n_items = signed.shape
    loss, gradient, half = 0.0, np.zeros_like(parameters), parameters / 2
    tanh, error = np.empty((ROWS, n_items)), np.empty((ROWS, n_items))
    for first in range(0, n, ROWS):
        x, y = features[first : first + ROWS], signed[first : first + ROWS]
        t, d = tanh[: len(x)], error[: len(x)]
        np.tanh(np.matmul(x, half, out=t), out=t)
        np.subtract(t, y, out=d)
        loss += float(np.vdot(d, d))
        t *= t
        t *= d
        d -= t
        gradient += x.T @ d
    gradient /= 4 * n
    return loss / (4 * n), gradient
