"""How often the certificate's bounds hold, and how far they are from the truth.

    python benchmarks/bounds.py [--holdouts 400]

A discrete world: 12 contexts, 4 actions, 0/1 outcomes, so that the true difference to every rule is
a finite sum. One fitted calibrator, many hold-outs. *Distance* is the true gap less its lower bound
(the value range is 1 wide); *coverage* is how often the lower bounds of all rules hold at once, at
confidence 0.95. Clusters: instances come in groups of 1 to 5 that share context and outcomes.
Weights: 0, 1/2, 1 or 2, drawn apart from the rest. Same seeds, same figures on every machine.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

import outrule

N_CONTEXTS, N_ACTIONS = 12, 4
WEIGHTS = np.array([0.0, 0.5, 1.0, 2.0])
KINDS = ("instances", "clusters", "weights")


@dataclass(frozen=True, eq=False)
class DiscreteWorld:
    """Contexts with a chance, a prediction and a mean outcome per action each."""

    chance: np.ndarray
    prediction: np.ndarray
    mean: np.ndarray

    @classmethod
    def make(cls, seed: int) -> DiscreteWorld:
        generator = np.random.default_rng(seed)
        mean = generator.uniform(0.1, 0.9, (N_CONTEXTS, N_ACTIONS))
        error = generator.normal(0, 0.2, mean.shape) + np.linspace(-0.15, 0.15, N_ACTIONS)
        return cls(generator.dirichlet(np.full(N_CONTEXTS, 5.0)), np.clip(mean + error, 0, 1), mean)

    def draw(self, n: int, kind: str, generator: np.random.Generator) -> outrule.Instances:
        """A hold-out of n instances, in clusters or with weights where ``kind`` says so."""
        sizes = np.ones(n, dtype=np.int64)
        if kind == "clusters":
            sizes = np.resize([1, 2, 3, 4, 5], n // 3)
        context = generator.choice(N_CONTEXTS, size=len(sizes), p=self.chance)
        outcome = (generator.random((len(sizes), N_ACTIONS)) < self.mean[context]).astype(float)
        group = np.repeat(np.arange(len(sizes)), sizes)
        weights = generator.choice(WEIGHTS, size=n) if kind == "weights" else None
        return outrule.Instances.from_arrays(
            self.prediction[context[group]],
            outcome[group],
            weight=weights,
            cluster=group if kind == "clusters" else None,
        )

    def true_differences(self, calibrator: outrule.DecisionCalibrator) -> np.ndarray:
        """What the calibrated optimiser has more than each rule, in expectation, exactly."""
        problem, instances = calibrator.problem, outrule.Instances.from_arrays(self.prediction)
        layout, rows = problem.lay(instances), np.arange(N_CONTEXTS)
        ours = self.mean[calibrator.decide(self.prediction)]
        theirs = [
            self.mean[rows, rule.decide(instances, problem, layout)[:, 0]]
            for rule in calibrator.rules
        ]
        return np.array([self.chance @ (ours - values) for values in theirs])


def fitted(world: DiscreteWorld) -> outrule.DecisionCalibrator:
    """A calibrator that stays as it is for all hold-outs."""
    rules = (
        *(outrule.Fixed(action) for action in range(N_ACTIONS)),
        outrule.Multiplier([1.3, 1.1, 0.9, 0.7], name="tilt"),
        outrule.Multiplier([0.0, 1.0, 1.0, 1.0], name="never the first"),
    )
    calibrator = outrule.DecisionCalibrator(outrule.BestAction(), rules, epsilon=0.1)
    return calibrator.fit(world.draw(2_000, "instances", np.random.default_rng(1)))


def simulate(n: int, kind: str, n_holdouts: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """For every hold-out: do all lower bounds hold; and the distance of the gap's bound."""
    world = DiscreteWorld.make(seed=0)
    calibrator = fitted(world)
    truth = world.true_differences(calibrator)
    held, distance = [], []
    for number in range(n_holdouts):
        generator = np.random.default_rng([number, n, KINDS.index(kind)])
        certificate = outrule.certify(calibrator, world.draw(n, kind, generator))
        lower = np.array([result.difference.lower for result in certificate.rules])
        held.append(bool((lower <= truth).all()))
        distance.append(float(truth.min() - certificate.gap_lower))
    return np.array(held), np.array(distance)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--holdouts", type=int, default=400)
    n_holdouts = parser.parse_args().holdouts
    print("| instances | what | mean distance | largest | coverage |")
    print("|---:|---|---:|---:|---:|")
    for n in (1_000, 10_000, 100_000):
        for kind in KINDS if n < 100_000 else KINDS[:1]:  # the rest would take minutes more
            held, distance = simulate(n - n % 15, kind, n_holdouts)
            figures = f"{distance.mean():.4f} | {distance.max():.4f} | {held.mean():.1%}"
            print(f"| {n:,} | {kind} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
