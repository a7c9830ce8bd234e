"""Two small examples of the paper whose values are known in closed form, and one of segments."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from outrule.errors import check_number
from outrule.types import Floats
from outrule.worlds.seeds import SAMPLES, Seed, check_sample, stream


def two_arms(n: int, seed: Seed, epsilon: float = 0.1) -> tuple[Floats, Floats]:
    """Draw the two-arm example of the paper's introduction (section 1), rescaled to [0, 1].

    The arms are always worth 1 and 1/epsilon. The predictor knows the first; for the second it
    says 1/epsilon^2 with probability epsilon, else 0, which is unbiased. Everything is divided by
    1/epsilon^2. The argmax of the predictions is worth ``epsilon^2 (2 - epsilon)``; the rule
    "always the second arm" is worth ``epsilon``, the maximum. The rule's violation is 0, the
    argmax's is ``-epsilon (1 - epsilon)``, and only this one starts the calibration.

    Parameters
    ----------
    n : int; number of instances
    seed : int, or sequence of int
    epsilon : float in (0, 1)

    Returns
    -------
    predictions, outcomes : arrays (n, 2)

    Examples
    --------
    >>> predictions, outcomes = two_arms(5, seed=0)
    >>> outcomes[0].round(6).tolist()
    [0.01, 0.1]
    """
    check_sample(n, seed, "two_arms")
    check_number(epsilon, "epsilon", "two_arms", 0, 1, high_open=True)
    context = stream(seed, SAMPLES).random(n)
    predictions = np.column_stack([np.full(n, epsilon**2), (context < epsilon).astype(np.float64)])
    return predictions, np.tile([epsilon**2, epsilon], (n, 1))


def rejection(n: int, seed: Seed, sharpness: float = 3.0) -> tuple[Floats, Floats]:
    """Draw a binary classification problem whose predictor is overconfident (section 4).

    The probability q of class 1 is uniform in [0, 1]; the predictor multiplies its log-odds by
    `sharpness`. With a rejection worth ``1 - cost`` and cost at most 1/2, rejecting below a true
    confidence ``t`` in [1/2, 1] is worth ``(2 t - 1)(1 - cost) + 1 - t^2``. The best t is
    ``1 - cost``, worth ``1 - cost + cost^2``. The plain optimiser rejects where the predicted
    confidence is below ``1 - cost``, that is at ``logit(t) = logit(1 - cost) / sharpness``: too
    rarely.

    Parameters
    ----------
    n : int; number of instances
    seed : int, or sequence of int
    sharpness : float of at least 1, which is the Bayes-optimal predictor

    Returns
    -------
    predictions : array (n, 2); class probabilities, without a column for the reject option
    outcomes : array (n, 2); one-hot

    Examples
    --------
    >>> predictions, outcomes = rejection(1000, seed=0)
    >>> bool(np.allclose(predictions.sum(axis=1), 1)), outcomes.sum(axis=1).max().item()
    (True, 1.0)
    """
    check_sample(n, seed, "rejection")
    check_number(sharpness, "sharpness", "rejection", 1, low_open=False)
    rng = stream(seed, SAMPLES)
    truth = rng.random(n)
    positive = (rng.random(n) < truth).astype(np.float64)
    confident = sharpness * logit(truth)
    predictions = np.column_stack([expit(-confident), expit(confident)])
    return predictions, np.column_stack([1 - positive, positive])


def six_cities(n: int, seed: Seed) -> tuple[Floats, Floats, NDArray[np.str_]]:
    """Draw a world in which predictions are right in five cities and useless in the sixth.

    There are four items, whose predictions are uniform in [0, 1]. In Rome, a tenth of all
    instances, the first item succeeds with probability 0.8 and the others with 0.3, whatever was
    predicted; elsewhere success has the predicted probability. The argmax is worth 0.8 elsewhere,
    and 0.425 in Rome, where the rule "always the first" is worth 0.8; on the whole it is worth 0.53
    only. The other cities have shares of 0.30, 0.25, 0.20, 0.12 and 0.03.

    Returns
    -------
    predictions, outcomes : arrays (n, 4)
    city : array of str (n,)

    Examples
    --------
    >>> predictions, outcomes, city = six_cities(1000, seed=0)
    >>> sorted(set(city.tolist()))
    ['Bern', 'Lyon', 'Nice', 'Oslo', 'Rome', 'Turin']
    """
    check_sample(n, seed, "six_cities")
    rng = stream(seed, SAMPLES)
    names = np.array(["Bern", "Lyon", "Oslo", "Turin", "Rome", "Nice"])
    city = rng.choice(names, n, p=[0.30, 0.25, 0.20, 0.12, 0.10, 0.03])
    predictions = rng.random((n, 4))
    in_rome = (city == "Rome")[:, None]
    chance = np.where(in_rome, [0.8, 0.3, 0.3, 0.3], predictions)
    return predictions, (rng.random((n, 4)) < chance).astype(np.float64), city
