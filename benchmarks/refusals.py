"""How often certify refuses honest held-out data, and how often training data passed as such.

    python benchmarks/refusals.py

Worlds differ in how often two instances are alike: continuous predictions, rounded ones, classes,
and a content that a share of all instances has, as where a score is missing. Prints a table of the
shares that are refused, over sizes of the training data and of the held-out ones.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

import outrule
from outrule.data.sketch import Seen, hash_all
from outrule.errors import DataError
from outrule.model.model import Model
from outrule.proof.novelty import compare_with

Drawn = tuple[np.ndarray, np.ndarray]
TRAINED = 200, 2_000, 20_000, 100_000
FEW, MANY = (20, 60), (200, 1_000, 5_000)  # held-out instances
LEAKS = {"honest": 0.0, "all seen": 1.0, "half seen": 0.5, "10 % seen": 0.1}


def items(n: int, m: int, digits: int, share: float, generator: np.random.Generator) -> Drawn:
    """Predictions of so many digits and their outcomes; a share of the instances are all 0."""
    predictions = generator.random((n, m)).round(digits)
    outcomes = (generator.random((n, m)) < predictions) * 1.0
    common = generator.random(n) < share
    predictions[common] = outcomes[common] = 0.0
    return predictions, outcomes


def classes(n: int, generator: np.random.Generator) -> Drawn:
    """One score of three digits, and one outcome."""
    score = generator.random(n).round(3)
    outcome = (generator.random(n) < score) * 1.0
    return np.stack([1 - score, score], axis=1), np.stack([1 - outcome, outcome], axis=1)


WORLDS: dict[str, Callable[[int, np.random.Generator], Drawn]] = {
    "3 items, continuous": lambda n, g: items(n, 3, 17, 0.0, g),
    "2 items, 3 digits": lambda n, g: items(n, 2, 3, 0.0, g),
    "3 items, 1 digit": lambda n, g: items(n, 3, 1, 0.0, g),
    "2 classes, 3 digits": classes,
    "continuous, 10 % the same": lambda n, g: items(n, 3, 17, 0.1, g),
    "continuous, 30 % the same": lambda n, g: items(n, 3, 17, 0.3, g),
    "continuous, 60 % the same": lambda n, g: items(n, 3, 17, 0.6, g),
}


def blank() -> Model:
    """A model of which only what it remembers is used."""
    rules = [outrule.Fixed(0)]
    data = outrule.worlds.two_arms(100, seed=0, epsilon=0.3)
    return outrule.DecisionCalibrator(outrule.BestAction(), rules, start=None).fit(*data).model_


BLANK = replace(blank(), fingerprints=())


def refused(model: Model, predictions: np.ndarray, outcomes: np.ndarray) -> bool:
    """Whether certify would refuse these instances."""
    held_out = outrule.Instances.from_arrays(predictions, outcomes)
    try:
        compare_with(model, held_out.fingerprint, partial(hash_all, held_out), None)
    except DataError:
        return True
    return False


def rate(world: str, sizes: Sequence[int], leak: float) -> float:
    """The mean share of draws that are refused, over all sizes; the same draws on every machine."""
    draw, rates = WORLDS[world], []
    for n_trained in TRAINED:
        generator = np.random.default_rng(n_trained)
        trained = draw(n_trained, generator)
        model = replace(BLANK, seen=Seen.of(outrule.Instances.from_arrays(*trained)))
        for n in sizes:
            if leak * n > n_trained:
                continue
            n_draws, found = (100 if leak == 0 else 25) if n <= 1_000 else 10, 0
            for _ in range(n_draws):
                predictions, outcomes = draw(n, generator)
                seen = generator.choice(n_trained, round(leak * n), replace=False)
                predictions[: len(seen)], outcomes[: len(seen)] = (part[seen] for part in trained)
                found += refused(model, predictions, outcomes)
            rates.append(found / n_draws)
    return float(np.mean(rates))


def main() -> None:
    print(f"{'-'.join(map(str, TRAINED))} trained; few: {FEW}, many: {MANY} held out; % refused\n")
    heads = [f"{kind}, {name}" for kind in LEAKS for name in ("few", "many")]
    print(f"| refused | {' | '.join(heads)} |\n|{'---|' * (len(heads) + 1)}")
    for world in WORLDS:
        rates = [rate(world, sizes, leak) for leak in LEAKS.values() for sizes in (FEW, MANY)]
        print(f"| {world} | {' | '.join(f'{100 * one:.1f}' for one in rates)} |", flush=True)


if __name__ == "__main__":
    main()
