"""Rounds of line search against the paper's fixed step, in the brief world of the evaluation.

    python benchmarks/steps.py [--worlds 3]

Best action, m = 16, 256 rules, 20,000 instances, `Reuse()`; the value is on 20,000 held-out
instances. Prints a Markdown table. Same seeds, same figures on every machine.
"""

from __future__ import annotations

import argparse

import outrule

EPSILONS = [1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=3)
    n_worlds = parser.parse_args().worlds
    columns = ("rounds, fixed", "rounds, line search", "ratio", "value, fixed", "value, line")
    print("| world | epsilon |", " | ".join(columns), "|")
    print("|---|---|---|---|---|---|---|")
    for seed in range(n_worlds):
        world = outrule.worlds.Quadratic(16, seed=seed)
        predictor = outrule.worlds.brief_predictor(world, seed=seed)
        training = outrule.worlds.draw(world, predictor, 20_000, seed=1)
        held_out = outrule.worlds.draw(world, predictor, 20_000, seed=2)
        for epsilon in EPSILONS:
            counts, values = [], []
            for step in (outrule.FixedStep(), outrule.LineSearch()):
                calibrator = outrule.DecisionCalibrator(
                    outrule.BestAction(),
                    outrule.multipliers(16, limit=256),
                    epsilon,
                    step=step,
                    start=None,
                    rivals=(),
                ).fit(*training)
                last = calibrator.history_[-1]
                assert calibrator.status_ == "converged"
                assert abs(last.violation) <= calibrator.tolerance_
                counts.append(len(calibrator.patches_))
                values.append(calibrator.score(*held_out))
            print(
                f"| {seed} | 1/{round(1 / epsilon)} | {counts[0]} | {counts[1]} | "
                f"{counts[0] / counts[1]:.1f} | {values[0]:.4f} | {values[1]:.4f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
