"""The grid of runs, and settings that are rejected before anything runs."""

from dataclasses import replace

import pytest

import outrule
from outrule.calibration.check import Flagged
from outrule.evaluation.grid import FULL, QUICK, Unit


def test_the_full_grid_is_the_papers():
    assert FULL.items == (4, 16, 64, 256)
    assert FULL.epsilons == (1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128)
    assert FULL.batch_sizes == (16, 32, 64, 128, 256, 512, 1024)
    assert (FULL.rounds, FULL.n_rules, FULL.n_test) == (1024, 1024, 4000)
    brief = [unit for unit in FULL.units() if unit.regime == "brief"]
    worlds = [(unit.n_items, unit.seed) for unit in brief if unit.problem == "best-action"]
    assert worlds == [(m, seed) for m in FULL.items for seed in range(5)]
    assert [unit.seed for unit in brief if unit.problem == "matching"] == [0, 1, 2, 3, 4]
    assert len(FULL.units()) == 2 * len(brief) == 2 * (4 * 5 + 5 + 3)


def test_a_tolerance_is_half_of_epsilon():
    assert [point.tolerance for point in FULL.points(16, 4, 1)] == [e / 2 for e in FULL.epsilons]


def sizes(points):
    """Name, epsilon, tolerance and length of the step, for k = 5 and a violation of 1."""
    flagged = Flagged(0, 1.0, 4.0)
    return [(p.name, p.epsilon, p.tolerance, p.step.size(flagged, p.tolerance, 5)) for p in points]


def test_other_steps_and_readings_run_beside_the_fixed_step():
    small = replace(FULL, epsilons=(1 / 4,), other_epsilons=(1 / 4,))
    assert sizes(small.points(1024, 36, 5)) == [
        ("fixed", 1 / 4, 1 / 8, 1 / 80),
        ("line search", 1 / 4, 1 / 8, 1 / 4),
        ("alpha / 2", 1 / 4, 1 / 8, 1 / 8 / 12),
        ("footnote", 1 / 4, 1 / 20, 1 / 40),
    ]
    assert [point.name for point in small.points(1024, 36, 1)][-1] == "alpha / 2"
    assert len(small.points(64, 36, 5)) == 1


def test_a_unit_has_a_name_for_its_file():
    assert Unit("matching", 45, "brief", 3).name == "matching-45-brief-3"
    names = [unit.name for unit in FULL.units()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"problems": ("knapsack",)},
            "'--problem' argument of outrule reproduce must be one or more of best-action, .*"
            "Got 'knapsack' instead",
        ),
        ({"problems": ()}, "'--problem' argument"),
        ({"problems": ("matching", "matching")}, "'--problem' .* none of them twice"),
        ({"regimes": ("long",)}, "'--regime' .* must be one or more of brief, converged"),
        ({"items": (0,)}, r"'--items' .* must be an int in \[1, 4096\]. Got 0"),
        ({"items": (4, 4)}, "'--items' .* none of them twice"),
        ({"epsilons": (0.0,)}, "'--epsilon' argument"),
        ({"epsilons": (1.5,)}, "'--epsilon' .* Got 1.5"),
        ({"epsilons": ()}, "'--epsilon' .* one or more numbers"),
        ({"batch_sizes": (0,)}, "'--batch-size' argument"),
        ({"batch_sizes": (2.5,)}, "'--batch-size' .* Got 2.5"),
        ({"seeds": (-1,)}, "'--seed' argument"),
        ({"other_seeds": (-1,)}, "'--seed' argument"),
        ({"rounds": 0}, "'--rounds' argument of outrule reproduce must be an int of at least 1"),
        ({"n_rules": 0}, "'n_rules' argument"),
        ({"n_test": 0}, "'n_test' argument"),
    ],
)
def test_bad_settings_are_refused(change, message):
    with pytest.raises(outrule.ArgumentError, match=message):
        replace(QUICK, **change)
