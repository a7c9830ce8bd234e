"""Segments: what they find and repair, what they cost, and whether the start should have them.

    python benchmarks/segments.py

1. `worlds.six_cities`, 20,000 training and 20,000 held-out instances, default settings, epsilon
   0.05: the certificate on the whole, by city, and by city after fitting with segments=["city"].
2. The audit of 200,000 instances of 16 items against 256 rules, cut by a column of 6 values and
   uncut; and the same number of rounds of the loop. Times are the best of five, interleaved.
3. The start with the rules of every segment as tests of its members (a variation that the library
   does not have) against the start it has, where segments matter and where they are random labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

import numpy as np

import outrule
from outrule import Instances, certify
from outrule.calibration.audit import prepare
from outrule.calibration.cross_fit import CrossFit
from outrule.calibration.curves import Members
from outrule.calibration.isotonic import draw_folds
from outrule.calibration.patches import Patch
from outrule.calibration.sources import CellData, SameData
from outrule.data.segments import Segments, cut
from outrule.rules.rules import Rule

BEST = outrule.BestAction()


def cities(n, seed):
    predictions, outcomes, city = outrule.worlds.six_cities(n, seed)
    return Instances.from_arrays(predictions, outcomes, columns={"city": city})


def random_labels(n, seed):
    world = outrule.worlds.Quadratic(n_items=4, seed=0)
    predictor = outrule.worlds.brief_predictor(world)
    arrays = outrule.worlds.draw(world, predictor, n, seed=seed + 1)
    labels = np.random.default_rng(seed).integers(6, size=n)
    return Instances.from_arrays(*arrays, columns={"city": labels})


def found_and_repaired():
    rules = [outrule.Fixed(0), *outrule.multipliers(4, limit=10)]
    training, later = cities(20_000, 0), cities(20_000, 1)
    for segments in (None, ["city"]):
        made = outrule.DecisionCalibrator(BEST, rules, 0.05, segments=segments).fit(training)
        whole, inside = (certify(made, later, segments=by) for by in ((), ["city"]))
        worst = min(inside.segments, key=lambda segment: segment.gap_lower)
        print(
            f"fitted with segments={segments}: {len(made.patches_)} patches, value "
            f"{whole.calibrated.mean:.4f}; on the whole {whole.verdict}, in every city "
            f"{inside.verdict}; worst {worst.name}: {worst.gap:+.4f} (at least "
            f"{worst.gap_lower:+.4f}) to {worst.best_rival}"
        )


def cost(n=200_000, m=16, n_rules=256, rounds=20):
    generator = np.random.default_rng(0)
    predictions = generator.random((n, m))
    outcomes = (generator.random((n, m)) < predictions).astype(float)
    columns = {"city": generator.integers(6, size=n)}
    data = Instances.from_arrays(predictions, outcomes, columns=columns)
    part = prepare(data, BEST, outrule.multipliers(m, limit=n_rules))
    found = cut(data, Segments(["city"]))
    times = {"uncut": [], "cut": [], "rounds, uncut": [], "rounds, cut": []}
    for _ in range(5):
        for name in ("uncut", "cut"):
            source = SameData(part, data.prediction, BEST)
            if name == "cut":
                source = CellData(part, data.prediction, BEST, found, 0.01)
            for one in getattr(source, "data", [source]):
                one.incremental = None  # a plain audit
            begin = perf_counter()
            source.next_audit([])
            times[name].append(perf_counter() - begin)
            source = SameData(part, data.prediction, BEST)
            if name == "cut":
                source = CellData(part, data.prediction, BEST, found, 0.01)
            source.next_audit([])  # the first one computes what is kept
            begin = perf_counter()
            for number in range(rounds):
                source.apply(Patch(number * 7 % n_rules, 0.001), source.next_audit([]))
            times[f"rounds, {name}"].append((perf_counter() - begin) / rounds)
    best = {name: min(some) for name, some in times.items()}
    for kind in ("", "rounds, "):
        plain, segmented = best[f"{kind}uncut"], best[f"{kind}cut"]
        what = "a round of the loop" if kind else "one audit"
        print(
            f"{what}: {1e3 * plain:.1f} ms uncut, {1e3 * segmented:.1f} ms with 6 segments "
            f"({segmented / plain:.2f} times)"
        )


@dataclass(frozen=True, eq=False)
class Inside(Rule):
    """A rule that chooses nothing outside of one city."""

    rule: Rule
    city: object
    name: str = "inside"

    def decide(self, instances, problem, layout):
        picks = self.rule.decide(instances, problem, layout)
        outside = instances.origin.columns["city"] != self.city
        return np.where(outside[:, None], -1, picks).astype(np.int32)


def members(draw, n=20_000):
    rules = (outrule.Fixed(0), *outrule.multipliers(4, limit=10))
    training, later = draw(n, 0), draw(n, 1)
    names = np.unique(training.origin.columns["city"]).tolist()
    tests = {"the start as it is": rules}
    tests["with rules by segment"] = (*rules, *(Inside(r, c) for c in names for r in rules))
    generator = np.random.default_rng(0)
    fold = draw_folds(training, 4, generator)
    outcome, city = later.outcome.reshape(-1, 4), later.origin.columns["city"]
    for name, some in tests.items():
        part = prepare(training, BEST, some)
        found, _ = CrossFit().fit(part, BEST, training.prediction, fold, np.random.default_rng(1))
        start = Members(found).mean(some, BEST, later).reshape(-1, 4)
        mine = outcome[np.arange(n), start.argmax(axis=1)]
        values = {c: mine[city == c].mean() for c in names}
        error = ((start - outcome) ** 2).sum(axis=1).mean()
        worst = min(values, key=values.__getitem__)
        print(
            f"{draw.__name__}, {name}: value {mine.mean():.4f}, lowest {values[worst]:.4f} "
            f"({worst}), squared error {error:.4f}"
        )


if __name__ == "__main__":
    found_and_repaired()
    cost()
    members(cities)
    members(random_labels)
