"""How often the certificate's bounds hold, and how far they are from the truth.

    python benchmarks/bounds.py [--holdouts 2000]

A discrete world: 12 contexts, 4 actions, 0/1 outcomes, so that the true difference to every rival
is a finite sum. One fitted calibrator, many hold-outs, confidence 0.95. *Rules* is the mean
distance of the smallest lower bound of a rule below the truth (the value range is 1 wide), *gap*
that of ``gap_lower``, which also covers plain and isotonic, *largest* the largest. Then how often
what is said is true: *gap holds*, *all hold* (the bounds of the table, at once), and *approximate*
(the interval of the improvement). Same seeds, same figures on every machine.

clusters: groups of 1 to 5 instances that share context and outcomes
weights: 0, 1/2, 1 or 2, drawn apart from the rest
unequal: clusters of 1 to 200 instances; what is best depends on the size
heavy: weights from 1 to 1,000, which depend on the context

Then worlds in which a pass would be wrong. rare: one cluster in 2,000 has 2,000 instances, in which
the calibrated optimiser loses everything; the true gap is -0.30. drift: since the fit the plain
optimiser has become better than the calibrated one, by more or by less than the margin. peeking: a
rule is better by exactly the margin, and someone looks at ten growing sizes and stops at the first
pass, continuing the certificate or (which is wrong) making a new one each time.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

import outrule

N_CONTEXTS, N_ACTIONS = 12, 4
WEIGHTS = np.array([0.0, 0.5, 1.0, 2.0])
HEAVY = np.array([1.0, 10.0, 100.0, 1000.0])  # by context
MAX_WEIGHT = {"instances": None, "clusters": 5, "weights": 2, "unequal": 200, "heavy": 1000}
KINDS = tuple(MAX_WEIGHT)
MARGIN = 0.05


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
        """A hold-out of n instances (unequal: n clusters), of one of the kinds."""
        sizes = np.ones(n, dtype=np.int64)
        if kind == "clusters":
            sizes = np.resize([1, 2, 3, 4, 5], n // 3)
        context = generator.choice(N_CONTEXTS, size=len(sizes), p=self.chance)
        if kind == "unequal":
            sizes = self.mean_size()[context] + generator.integers(-1, 2, len(sizes))
        outcome = (generator.random((len(sizes), N_ACTIONS)) < self.mean[context]).astype(float)
        group = np.repeat(np.arange(len(sizes)), sizes)
        weights = generator.choice(WEIGHTS, size=n) if kind == "weights" else None
        if kind == "heavy":
            weights = HEAVY[context % len(HEAVY)]
        return outrule.Instances.from_arrays(
            self.prediction[context[group]],
            outcome[group],
            weight=weights,
            cluster=group if kind in ("clusters", "unequal") else None,
        )

    @staticmethod
    def mean_size() -> np.ndarray:
        """Sizes of clusters by context: 2 to 199, most of them small."""
        return np.geomspace(2, 199, N_CONTEXTS).round().astype(np.int64)

    def true_differences(self, calibrator: outrule.DecisionCalibrator, kind: str) -> np.ndarray:
        """What the calibrated optimiser has more than each rival, in expectation, exactly."""
        problem, instances = calibrator.problem, outrule.Instances.from_arrays(self.prediction)
        layout, rows = problem.lay(instances), np.arange(N_CONTEXTS)
        decisions = [rule.decide(instances, problem, layout)[:, 0] for rule in calibrator.rules]
        smoothed = calibrator.model_.isotonic.apply(instances, None).reshape(self.prediction.shape)
        decisions += [self.prediction.argmax(axis=1), smoothed.argmax(axis=1)]
        share = self.chance.copy()
        if kind == "unequal":
            share *= self.mean_size()
        if kind == "heavy":
            share *= HEAVY[rows % len(HEAVY)]
        ours = self.mean[calibrator.decide(self.prediction)]
        return np.array([share @ (ours - self.mean[rows, d]) for d in decisions]) / share.sum()


def fitted(world: DiscreteWorld) -> outrule.DecisionCalibrator:
    """A calibrator that stays as it is for all hold-outs."""
    rules = (
        *(outrule.Fixed(action) for action in range(N_ACTIONS)),
        outrule.Multiplier([1.3, 1.1, 0.9, 0.7], name="tilt"),
        outrule.Multiplier([0.0, 1.0, 1.0, 1.0], name="never the first"),
    )
    calibrator = outrule.DecisionCalibrator(
        outrule.BestAction(), rules, epsilon=0.1, start=None, rivals=()
    )
    return calibrator.fit(world.draw(2_000, "instances", np.random.default_rng(1)))


@dataclass(frozen=True, eq=False)
class Simulated:
    """For every hold-out: whether the bounds hold, and the distance of the gap's bound."""

    gap_held: np.ndarray
    all_held: np.ndarray
    approximate_held: np.ndarray
    distance: np.ndarray
    rules_distance: np.ndarray


def simulate(n: int, kind: str, n_holdouts: int = 400) -> Simulated:
    world = DiscreteWorld.make(seed=0)
    calibrator = fitted(world)
    truth = world.true_differences(calibrator, kind)
    rows = []
    for number in range(n_holdouts):
        generator = np.random.default_rng([number, n, KINDS.index(kind)])
        instances = world.draw(n, kind, generator)
        found = outrule.certify(calibrator, instances, max_weight=MAX_WEIGHT[kind])
        lower = np.array([row.difference.lower for row in (*found.rules, *found.rivals)])
        gain, near = truth[-2], found.approximate["improvement"]
        rows.append(
            (
                found.gap_lower <= truth.min(),
                (lower <= truth).all(),
                near.lower <= gain <= near.upper,
                truth.min() - found.gap_lower,
                truth[:-2].min() - min(row.lower for row in found.rules),
            )
        )
    return Simulated(*(np.array(column) for column in zip(*rows, strict=True)))


def two_actions(first: float, second: float) -> outrule.DecisionCalibrator:
    """Fitted where predictions of 0.6 and 0.5 should have been these numbers."""
    generator = np.random.default_rng(0)
    outcomes = (generator.random((4_000, 2)) < [first, second]).astype(float)
    predictions = np.tile([0.6, 0.5], (4_000, 1))
    rules = [outrule.Fixed(1)]
    calibrator = outrule.DecisionCalibrator(
        outrule.BestAction(), rules, epsilon=MARGIN, start=None, rivals=()
    )
    return calibrator.fit(predictions, outcomes)


def rare(n: int, n_holdouts: int, max_weight: float | None) -> list[outrule.Certificate]:
    """The calibrated optimiser wins 0.4 in small clusters, and loses 1 in the rare large ones."""
    calibrator, found = two_actions(0.7, 0.3), []
    for number in range(n_holdouts):
        generator = np.random.default_rng([number, n])
        large = generator.random(n) < 0.0005
        outcome = (generator.random((n, 2)) < [0.7, 0.3]).astype(float)
        outcome[large] = [0.0, 1.0]
        group = np.repeat(np.arange(n), np.where(large, 2_000, 1))
        instances = outrule.Instances.from_arrays(
            np.tile([0.6, 0.5], (len(group), 1)), outcome[group], cluster=group
        )
        found.append(outrule.certify(calibrator, instances, max_weight=max_weight))
    return found


def drift(n: int, n_holdouts: int, lag: float) -> list[outrule.Certificate]:
    """The calibrated optimiser takes the second action, and the first has become better by lag."""
    calibrator, found = two_actions(0.4, 0.6), []
    for number in range(n_holdouts):
        generator = np.random.default_rng([number, n])
        outcome = (generator.random((n, 2)) < [0.5 + lag, 0.5]).astype(float)
        found.append(outrule.certify(calibrator, np.tile([0.6, 0.5], (n, 1)), outcome))
    return found


def peek(n_draws: int, *, afresh: bool = False) -> list[outrule.Certificate]:
    """The certificate at which someone stops who looks after 100, 200, ..., 1,000 instances."""
    calibrator, found = two_actions(0.6, 0.5), []  # it decides as the plain optimiser does
    for number in range(n_draws):
        generator, certificate = np.random.default_rng([number, 1]), None
        outcome = (generator.random((1_000, 2)) < [0.5, 0.5 + MARGIN]).astype(float)
        for n in range(100, 1_001, 100):
            part = np.tile([0.6, 0.5], (n, 1)), outcome[:n]
            certificate = outrule.certify(
                calibrator, *part, previous=None if afresh else certificate
            )
            if certificate.verdict == "pass":
                break
        found.append(certificate)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--holdouts", type=int, default=2_000)
    most = parser.parse_args().holdouts
    columns = "observations | what | hold-outs | rules | gap | largest"
    print(f"| {columns} | gap holds | all hold | approximate |")
    print("|---:|---|---:|---:|---:|---:|---:|---:|---:|")
    runs = [(1_000, kind) for kind in ("instances", "clusters", "weights", "heavy")]
    runs += [(30, "unequal"), (300, "unequal"), (10_000, "instances"), (10_000, "clusters")]
    for n, kind in [*runs, (10_000, "weights"), (100_000, "instances")]:
        n_holdouts = max(1, most // max(1, n // 1_000))
        found = simulate(n - n % 15, kind, n_holdouts)
        figures = f"{found.rules_distance.mean():.4f} | {found.distance.mean():.4f}"
        figures += f" | {found.distance.max():.4f}"
        for held in (found.gap_held, found.all_held, found.approximate_held):
            figures += f" | {held.mean():.1%}"
        print(f"| {n:,} | {kind} | {n_holdouts:,} | {figures} |", flush=True)
    print("\n| observations | a pass would be wrong | hold-outs | pass | inconclusive | fail |")
    print("|---:|---|---:|---:|---:|---:|")
    cases = [
        ("rare large clusters, no bound declared", rare(1_000, most // 4, None)),
        ("rare large clusters, max_weight=2,000", rare(1_000, most // 4, 2_000)),
        (f"drift: plain better by 0.10, margin {MARGIN}", drift(1_000, most, 0.10)),
        (f"drift: plain better by 0.05, margin {MARGIN}", drift(1_000, most, 0.05)),
        (f"drift: plain better by 0.04, margin {MARGIN}", drift(10_000, most // 10, 0.04)),
        ("peeking ten times, the certificate continued", peek(most // 2)),
        ("peeking ten times, a new certificate each time", peek(most // 2, afresh=True)),
    ]
    for what, certificates in cases:
        words = [certificate.verdict for certificate in certificates]
        shares = [f"{words.count(w) / len(words):.1%}" for w in ("pass", "inconclusive", "fail")]
        n = max(certificate.n_observations for certificate in certificates)
        print(f"| {n:,} | {what} | {len(words):,} | {' | '.join(shares)} |", flush=True)


if __name__ == "__main__":
    main()
