"""Seeds of the worlds: one stream of random numbers per purpose.

So equal seeds never make a sample out of a world's own numbers, nor a test sample out of the
training sample.
"""

from collections.abc import Sequence

import numpy as np

from outrule.errors import check_number, refuse_argument

Seed = int | Sequence[int]

SAMPLES, TRAINING, START = 1, 2, 3


def stream(seed: Seed, purpose: int) -> np.random.Generator:
    """The random numbers of one purpose."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(purpose,)))


def check_seed(seed: Seed, owner: str) -> None:
    """Refuse what is neither an int from 0 nor a sequence of such."""
    if isinstance(seed, Sequence) and not isinstance(seed, str | bytes):
        if not seed:
            raise refuse_argument(seed, "seed", owner, "an int, or a sequence of at least one")
        for part in seed:
            check_seed(part, owner)
    else:
        check_number(seed, "seed", owner, 0, low_open=False, integer=True)


def check_count(n: int, owner: str) -> None:
    """Refuse a number of instances below one."""
    check_number(n, "n", owner, 1, low_open=False, integer=True)
