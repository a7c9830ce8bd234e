"""Two small worlds of the paper whose values are known in closed form."""

import numpy as np
from scipy.special import expit, logit

from outrule.errors import check_number
from outrule.types import Floats
from outrule.worlds.seeds import SAMPLES, Seed, check_count, check_seed, stream


def two_arms(n: int, seed: Seed, epsilon: float = 0.1) -> tuple[Floats, Floats]:
    """Draw the two-arm example of the paper's introduction (section 1), rescaled to [0, 1].

    The arms are worth 1 and 1/epsilon, always. The predictor knows the first; for the second it
    says 1/epsilon^2 with probability epsilon, else 0, which is unbiased. Everything is divided by
    1/epsilon^2.

    Parameters
    ----------
    n : int
        Number of instances.
    seed : int, or sequence of int
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
    check_count(n, "two_arms")
    check_seed(seed, "two_arms")
    check_number(epsilon, "epsilon", "two_arms", 0, 1, high_open=True)
    context = stream(seed, SAMPLES).random(n)
    predictions = np.column_stack([np.full(n, epsilon**2), (context < epsilon).astype(np.float64)])
    outcomes = np.tile([epsilon**2, epsilon], (n, 1))
    return predictions, outcomes


def rejection(n: int, seed: Seed, sharpness: float = 3.0) -> tuple[Floats, Floats]:
    """Draw a binary classification world whose predictor is over-confident (section 4).

    The probability q of class 1 is uniform in [0, 1]; the predictor multiplies its log-odds by
    `sharpness`.

    Parameters
    ----------
    n : int
        Number of instances.
    seed : int, or sequence of int
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
    check_count(n, "rejection")
    check_seed(seed, "rejection")
    check_number(sharpness, "sharpness", "rejection", 1, low_open=False)
    rng = stream(seed, SAMPLES)
    truth = rng.random(n)
    positive = (rng.random(n) < truth).astype(np.float64)
    confident = sharpness * logit(truth)
    predictions = np.column_stack([expit(-confident), expit(confident)])
    return predictions, np.column_stack([1 - positive, positive])
