"""The synthetic data of the paper's evaluation: features, and outcomes in (0, 1)."""

from dataclasses import dataclass, field

import numpy as np
from scipy.special import expit

from outrule import threads
from outrule.errors import check_number
from outrule.types import Floats
from outrule.worlds.seeds import SAMPLES, Seed, check_sample, check_seed, stream

N_FEATURES = 10
NOISE = 0.1


@dataclass(frozen=True)
class Quadratic:
    """The data of the paper's evaluation (section 5.1): quadratic truth, linear predictors.

    Features x ~ N(0, I_10); raw = W1 x + W2 x^2 / 2 + b + z with z ~ N(0, 0.1^2) per item; each
    item is standardised with the mean and the variance of its distribution (not of a batch), and
    the outcome is the sigmoid of the result. W1, W2 and b are standard normal.

    Parameters
    ----------
    n_items : int; number of items m
    seed : int; of W1, W2 and b

    Attributes
    ----------
    W1, W2 : arrays (n_items, 10)
    b, mean, scale : arrays (n_items,)
        The last two standardise: ``b + sum(W2) / 2`` and the square root of
        ``sum(W1^2) + sum(W2^2) / 2 + 0.01``.

    Examples
    --------
    >>> features, outcomes = Quadratic(4, seed=0).sample(1000, seed=1)
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
        check_seed(self.seed, "Quadratic")
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

    def sample(self, n: int, seed: Seed) -> tuple[Floats, Floats]:
        """Draw features (n, 10) and outcomes (n, n_items); its seed is not that of the world."""
        check_sample(n, seed, "Quadratic.sample")
        return self.draw(n, stream(seed, SAMPLES))

    def bayes(self, features: Floats) -> Floats:
        """Return E[y | x], shape (n, n_items), for features (n, 10): no rule can improve on it.

        The noise is integrated by Gauss-Hermite quadrature with nine nodes, exact to about 1e-15
        because its standard deviation after the standardisation is far below one.
        """
        centre = self._noiseless(features)
        nodes, weights = np.polynomial.hermite_e.hermegauss(9)
        result = np.zeros_like(centre)
        for node, weight in zip(nodes, weights / weights.sum(), strict=True):
            result += weight * expit(centre + node * NOISE / self.scale)
        return result

    def _noiseless(self, features: Floats) -> Floats:
        with threads.lone_blas():
            raw: Floats = features @ self.W1.T + features**2 @ self.W2.T / 2 + self.b
        return (raw - self.mean) / self.scale

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """The same as ``sample``, from a stream of random numbers."""
        features = rng.standard_normal((n, N_FEATURES))
        noise = NOISE * rng.standard_normal((n, self.n_items))
        outcomes: Floats = expit(self._noiseless(features) + noise / self.scale)
        return features, outcomes
