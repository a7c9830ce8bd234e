"""Synthetic worlds with known answers: seeds enter, predictions and outcomes in [0, 1] leave."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import expit, logit

from outrule.arguments import check_number

Floats = npt.NDArray[np.float64]

N_FEATURES = 10
NOISE = 0.1
N_TRAINING = 10_000
N_STEPS = 1_000
LEARNING_RATE = 0.01

# One stream per purpose, so that equal seeds never make a sample out of the world's own numbers,
# nor a test sample out of the training sample.
_SAMPLES, _TRAINING, _START = 1, 2, 3

# Rows per block of the training loss: 256 items times 256 rows of float64 stay in a 1 MB cache.
_BLOCK = 256


@dataclass(frozen=True)
class Quadratic:
    """The world of the paper's evaluation (section 5.1): quadratic truth, linear predictors.

    Features x ~ N(0, I_10); raw = W1 x + W2 x^2 / 2 + b + z with z ~ N(0, 0.1^2) per item; each
    item is standardised with the mean and the variance of its distribution (not of a batch), and
    the outcome is the sigmoid of the result. W1, W2 and b are standard normal.

    Parameters
    ----------
    n_items : int
        Number of items m.
    seed : int
        Seed of W1, W2 and b.

    Attributes
    ----------
    W1, W2 : array (n_items, 10)
    b : array (n_items,)
    mean, scale : array (n_items,)
        Constants of the standardisation: ``b + sum(W2) / 2`` and the square root of
        ``sum(W1^2) + sum(W2^2) / 2 + 0.01``.

    Examples
    --------
    >>> world = Quadratic(4, seed=0)
    >>> features, outcomes = world.sample(1000, seed=1)
    >>> features.shape, outcomes.shape
    ((1000, 10), (1000, 4))
    """

    n_items: int
    seed: int = 0
    W1: Floats = field(init=False, repr=False, compare=False)
    W2: Floats = field(init=False, repr=False, compare=False)
    b: Floats = field(init=False, repr=False, compare=False)
    mean: Floats = field(init=False, repr=False, compare=False)
    scale: Floats = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_number(self.n_items, "n_items", "Quadratic", 1, low_open=False, integer=True)
        _check_seed(self.seed, "Quadratic")
        rng = np.random.default_rng(self.seed)
        W1 = rng.standard_normal((self.n_items, N_FEATURES))
        W2 = rng.standard_normal((self.n_items, N_FEATURES))
        b = rng.standard_normal(self.n_items)
        # E x^2 = 1, Var x^2 = 2, Cov(x, x^2) = 0.
        mean = b + W2.sum(axis=1) / 2
        scale = np.sqrt((W1**2).sum(axis=1) + (W2**2).sum(axis=1) / 2 + NOISE**2)
        for name, value in (("W1", W1), ("W2", W2), ("b", b), ("mean", mean), ("scale", scale)):
            value.setflags(write=False)
            object.__setattr__(self, name, value)

    def sample(self, n: int, seed: int) -> tuple[Floats, Floats]:
        """Draw instances.

        Parameters
        ----------
        n : int
            Number of instances.
        seed : int
            Seed of the features and of the noise; independent of the world's own seed.

        Returns
        -------
        features : array (n, 10)
        outcomes : array (n, n_items), in (0, 1)

        Examples
        --------
        >>> features, outcomes = Quadratic(4).sample(3, seed=1)
        >>> bool((outcomes > 0).all() and (outcomes < 1).all())
        True
        """
        _check_count(n, "Quadratic.sample")
        _check_seed(seed, "Quadratic.sample")
        return self._draw(n, _stream(seed, _SAMPLES))

    def bayes(self, features: Floats) -> Floats:
        """Return E[y | x]: the predictor from which no rule can gain.

        The noise is integrated by Gauss-Hermite quadrature with nine nodes, exact to about 1e-15
        because its standard deviation after the standardisation is far below one.

        Parameters
        ----------
        features : array (n, 10)

        Returns
        -------
        array (n, n_items)

        Examples
        --------
        >>> world = Quadratic(4)
        >>> world.bayes(np.zeros((1, 10))).shape
        (1, 4)
        """
        centre = self._noiseless(features)
        nodes, weights = np.polynomial.hermite_e.hermegauss(9)
        result = np.zeros_like(centre)
        for node, weight in zip(nodes, weights / weights.sum(), strict=True):
            result += weight * expit(centre + node * NOISE / self.scale)
        return result

    def _noiseless(self, features: Floats) -> Floats:
        raw: Floats = features @ self.W1.T + features**2 @ self.W2.T / 2 + self.b
        return (raw - self.mean) / self.scale

    def _draw(self, n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        features = rng.standard_normal((n, N_FEATURES))
        noise = NOISE * rng.standard_normal((n, self.n_items))
        outcomes: Floats = expit(self._noiseless(features) + noise / self.scale)
        return features, outcomes


@dataclass(frozen=True, eq=False)
class LinearPredictor:
    """A linear map with a sigmoid on top: the base predictor of the evaluation.

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
        result: Floats = expit(features @ self.weights.T + self.bias)
        return result


def brief_predictor(world: Quadratic, seed: int = 0) -> LinearPredictor:
    """Train a linear predictor for 1,000 steps of 0.01: the regime of the paper's figures.

    Full-batch gradient descent on 10,000 instances; the loss is the squared error averaged over
    all 10,000 * n_items entries, so that more items mean a smaller step per item and a predictor
    closer to its random start (uniform in +-1/sqrt(10)).

    Parameters
    ----------
    world : Quadratic
    seed : int
        Seed of the training instances and of the start.

    Returns
    -------
    LinearPredictor

    Notes
    -----
    Cost: 1,000 passes over (10,000, n_items); about a second for 16 items, 15 for 256.

    Examples
    --------
    >>> predictor = brief_predictor(Quadratic(2), seed=0)
    >>> predictor.weights.shape
    (2, 10)
    """
    _check_seed(seed, "brief_predictor")
    features, signed = _training(world, seed)
    parameters = _start(world, seed)
    for _ in range(N_STEPS):
        _, gradient = _loss(parameters, features, signed)
        # _loss averages over instances; dividing by the items gives the mean over all entries.
        parameters -= LEARNING_RATE / world.n_items * gradient
    return _predictor(parameters)


def converged_predictor(world: Quadratic, seed: int = 0) -> LinearPredictor:
    """Train the best linear predictor: the loss of `brief_predictor`, minimised by L-BFGS.

    Parameters
    ----------
    world : Quadratic
    seed : int
        Seed of the training instances and of the start.

    Returns
    -------
    LinearPredictor

    Raises
    ------
    RuntimeError
        If an entry of the gradient (of the mean squared error of one item) is still above 1e-6.

    Examples
    --------
    >>> world = Quadratic(2)
    >>> features, outcomes = world.sample(4000, seed=1)
    >>> def squared_error(predictor):
    ...     return ((predictor.predict(features) - outcomes) ** 2).mean()
    >>> bool(squared_error(converged_predictor(world)) < squared_error(brief_predictor(world)))
    True
    """
    _check_seed(seed, "converged_predictor")
    features, signed = _training(world, seed)
    start = _start(world, seed)

    def flat(vector: Floats) -> tuple[float, Floats]:
        loss, gradient = _loss(vector.reshape(start.shape), features, signed)
        return loss, gradient.ravel()

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


def draw(world: Quadratic, predictor: LinearPredictor, n: int, seed: int) -> tuple[Floats, Floats]:
    """Draw instances of a world as a calibrator sees them.

    Parameters
    ----------
    world : Quadratic
    predictor : LinearPredictor
    n : int
        Number of instances.
    seed : int
        Seed of the instances; never the training instances of the predictor.

    Returns
    -------
    predictions : array (n, n_items)
    outcomes : array (n, n_items)

    Examples
    --------
    >>> world = Quadratic(2)
    >>> predictions, outcomes = draw(world, converged_predictor(world), 100, seed=1)
    >>> predictions.shape, outcomes.shape
    ((100, 2), (100, 2))
    """
    features, outcomes = world.sample(n, seed)
    return predictor.predict(features), outcomes


def two_arms(n: int, seed: int, epsilon: float = 0.1) -> tuple[Floats, Floats]:
    """Draw the two-arm example of the paper's introduction (section 1), rescaled to [0, 1].

    The arms are worth 1 and 1/epsilon, always. The predictor knows the first; for the second it
    says 1/epsilon^2 with probability epsilon, else 0, which is unbiased. Everything is divided by
    1/epsilon^2.

    Parameters
    ----------
    n : int
        Number of instances.
    seed : int
    epsilon : float
        In (0, 1).

    Returns
    -------
    predictions : array (n, 2)
    outcomes : array (n, 2)

    Notes
    -----
    In closed form: the argmax of the predictions is worth ``epsilon^2 (2 - epsilon)``, the rule
    "always the second arm" is worth ``epsilon``, the most there is. That rule's violation is 0; the
    argmax's own is ``-epsilon (1 - epsilon)``, and it alone starts the calibration.

    Examples
    --------
    >>> predictions, outcomes = two_arms(5, seed=0)
    >>> outcomes[0].round(6).tolist()
    [0.01, 0.1]
    """
    _check_count(n, "two_arms")
    _check_seed(seed, "two_arms")
    check_number(epsilon, "epsilon", "two_arms", 0, 1, high_open=True)
    context = _stream(seed, _SAMPLES).random(n)
    predictions = np.column_stack([np.full(n, epsilon**2), (context < epsilon).astype(np.float64)])
    outcomes = np.tile([epsilon**2, epsilon], (n, 1))
    return predictions, outcomes


def rejection(n: int, seed: int, sharpness: float = 3.0) -> tuple[Floats, Floats]:
    """Draw a binary classification world whose predictor is over-confident (section 4).

    The probability q of class 1 is uniform in [0, 1]; the predictor multiplies its log-odds by
    `sharpness`.

    Parameters
    ----------
    n : int
        Number of instances.
    seed : int
    sharpness : float
        At least 1; 1 is the Bayes-optimal predictor.

    Returns
    -------
    predictions : array (n, 2)
        Class probabilities, rows on the simplex. The reject option is not a column.
    outcomes : array (n, 2)
        One-hot.

    Notes
    -----
    In closed form, with a rejection worth ``1 - cost`` and cost at most 1/2: refusing below a true
    confidence ``t`` in [1/2, 1] is worth ``(2 t - 1)(1 - cost) + 1 - t^2``. The best t is
    ``1 - cost``, worth ``1 - cost + cost^2``. The plain optimiser refuses where the predicted
    confidence is below ``1 - cost``, that is at ``logit(t) = logit(1 - cost) / sharpness``: too
    rarely.

    Examples
    --------
    >>> predictions, outcomes = rejection(1000, seed=0)
    >>> bool(np.allclose(predictions.sum(axis=1), 1)), outcomes.sum(axis=1).max().item()
    (True, 1.0)
    """
    _check_count(n, "rejection")
    _check_seed(seed, "rejection")
    check_number(sharpness, "sharpness", "rejection", 1, low_open=False)
    rng = _stream(seed, _SAMPLES)
    truth = rng.random(n)
    positive = (rng.random(n) < truth).astype(np.float64)
    confident = sharpness * logit(truth)
    predictions = np.column_stack([expit(-confident), expit(confident)])
    return predictions, np.column_stack([1 - positive, positive])


def _stream(seed: int, purpose: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(purpose,)))


def _check_seed(seed: int, owner: str) -> None:
    check_number(seed, "seed", owner, 0, low_open=False, integer=True)


def _check_count(n: int, owner: str) -> None:
    check_number(n, "n", owner, 1, low_open=False, integer=True)


def _training(world: Quadratic, seed: int) -> tuple[Floats, Floats]:
    """Training features with a last column of ones (the bias), and signed outcomes 2 y - 1."""
    features, outcomes = world._draw(N_TRAINING, _stream(seed, _TRAINING))
    return np.column_stack([features, np.ones(N_TRAINING)]), 2 * outcomes - 1


def _start(world: Quadratic, seed: int) -> Floats:
    """Weights and bias (11, n_items), uniform in +-1/sqrt(10)."""
    bound = 1 / np.sqrt(N_FEATURES)
    return _stream(seed, _START).uniform(-bound, bound, (N_FEATURES + 1, world.n_items))


def _predictor(parameters: Floats) -> LinearPredictor:
    weights, bias = parameters[:-1].T.copy(), parameters[-1].copy()
    weights.setflags(write=False)
    bias.setflags(write=False)
    return LinearPredictor(weights, bias)


def _loss(parameters: Floats, features: Floats, signed: Floats) -> tuple[float, Floats]:
    """Squared error, mean over instances and sum over items, and its gradient; blockwise in place.

    With t = tanh(s / 2): p = (1 + t) / 2, p - y = (t - (2 y - 1)) / 2, p (1 - p) = (1 - t^2) / 4.
    """
    n, n_items = signed.shape
    loss, gradient, half = 0.0, np.zeros_like(parameters), parameters / 2
    tanh, error = np.empty((_BLOCK, n_items)), np.empty((_BLOCK, n_items))
    for first in range(0, n, _BLOCK):
        x, y = features[first : first + _BLOCK], signed[first : first + _BLOCK]
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
