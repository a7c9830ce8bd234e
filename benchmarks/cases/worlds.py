"""The synthetic world of the paper's evaluation: best action among 4 or 16, 100 multipliers.

Every seed is another world. 10,000 instances to calibrate on, 20,000 to test.
"""

from __future__ import annotations

from pathlib import Path

import outrule
from cases.case import Arrays, Case

N_CALIBRATION, N_TEST, N_RULES = 10_000, 20_000, 100
BRIEF, CONVERGED = "brief", "converged"
TRAINERS = {BRIEF: outrule.worlds.brief_predictor, CONVERGED: outrule.worlds.converged_predictor}


def _case(n_items: int) -> Case:
    def draw(model: str, seed: int, _cache: Path) -> tuple[Arrays, Arrays]:
        world = outrule.worlds.Quadratic(n_items, seed=seed)
        predictor = TRAINERS[model](world, seed=seed)
        parts = []
        for number, n in enumerate((N_CALIBRATION, N_TEST)):
            predictions, outcomes = outrule.worlds.draw(world, predictor, n, seed=[seed, number])
            parts.append({"predictions": predictions, "outcomes": outcomes})
        return parts[0], parts[1]

    rules = outrule.multipliers(n_items, limit=N_RULES)
    return Case(f"world-{n_items}", (BRIEF, CONVERGED), outrule.BestAction(), rules, draw)


CASES = (_case(4), _case(16))
