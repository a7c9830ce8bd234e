"""Peak memory of a fit beyond the arrays it is given.

    python benchmarks/memory.py

Best action, m = 16, 1,024 rules, 100,000 instances; also how many rules of the paper's class decide
alike on all of 20,000 instances, and so are kept once.
"""

from __future__ import annotations

import resource

import outrule
from outrule.rules.decisions import decide_all, distinct


def brief(n_items: int, n: int) -> outrule.Instances:
    world = outrule.worlds.Quadratic(n_items, seed=0)
    draws = outrule.worlds.draw(world, outrule.worlds.brief_predictor(world), n, seed=1)
    return outrule.Instances.from_arrays(*draws)


def peak() -> float:
    """The most memory this process has had, in MB (Linux counts it in KB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def main() -> None:
    problem = outrule.BestAction()
    for m in (4, 16):
        data, rules = brief(m, 20_000), outrule.multipliers(m)
        kept, _ = distinct(decide_all(rules, data, problem, problem.lay(data)))
        print(f"m = {m}: {len(kept)} of {len(rules)} rules decide differently")
    data = brief(16, 100_000)
    calibrator = outrule.DecisionCalibrator(
        problem, outrule.multipliers(16), 1 / 32, start=None, rivals=()
    )
    calibrator.fit(data.slice(0, 2_000))
    before = peak()
    calibrator.fit(data)
    decisions = 1024 * len(data) / 1e6
    per_item = (peak() - before - decisions) * 1e6 / len(data.prediction)
    print(f"fit: {peak() - before:.0f} MB, {decisions:.0f} of them decisions")
    print(f"the rest: {per_item:.0f} bytes per item on offer")


if __name__ == "__main__":
    main()
