"""One stream of random numbers per purpose, so that equal seeds never share numbers.

A sample is never made of its world's parameters, and a test sample never equals the training data.
"""

from collections.abc import Sequence

import numpy as np

from outrule.errors import check_number, refuse_argument

Seed = int | Sequence[int]

SAMPLES, TRAINING, START = 1, 2, 3


def stream(seed: Seed, purpose: int) -> np.random.Generator:
    """The random numbers of one purpose."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(purpose,)))


def mix(*parts: int) -> int:
    """One seed from several numbers; another one for any other numbers."""
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> np.uint64(11))


def check_seed(seed: Seed, owner: str) -> None:
    """Raise unless the seed is a non-negative int, or a non-empty sequence of them."""
    if isinstance(seed, Sequence) and not isinstance(seed, str | bytes):
        if not seed:
            raise refuse_argument(seed, "seed", owner, "an int, or a sequence of at least one")
        for part in seed:
            check_seed(part, owner)
    else:
        check_number(seed, "seed", owner, 0, low_open=False, integer=True)


def check_sample(n: int, seed: Seed, owner: str) -> None:
    """Raise unless ``n`` instances can be drawn with this seed."""
    check_number(n, "n", owner, 1, low_open=False, integer=True)
    check_seed(seed, owner)
