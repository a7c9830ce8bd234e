"""Runs that reuse their samples, against the calibrator with the same settings."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import outrule
from letter import algorithm_one
from outrule.evaluation.cases import EQUAL, MEASURES, HeldOut, make_case
from outrule.evaluation.grid import Grid, Unit
from outrule.evaluation.units import REUSE, reuse_rows

SMALL = Grid(
    rounds=16, n_rules=16, n_test=200, equal_batches=(8, 256), equal_epsilons=(1 / 2, 1 / 16)
)


@pytest.fixture(scope="module")
def best_action():
    case = make_case(Unit("best-action", 4, "brief", 0), SMALL.n_rules)
    held_out = HeldOut(case, SMALL.n_test)
    return case, held_out, list(reuse_rows(SMALL, case, held_out))


def test_runs_are_those_of_the_calibrator(best_action):
    case, held_out, rows = best_action
    *rows, default = [rows[i] for i in (*range(6), *range(7, 13), 6)]
    assert len(rows) == 2 * 3 * 2
    assert default["check"] == "default method"
    assert {row["status"] for row in rows} - {"converged", "max_rounds"} == {"refused"}
    ran = [row for row in rows if row["status"] != "refused"]
    for row in ran:
        check, step = REUSE[row["check"], row["step"]]
        instances = case.instances(row["n_samples"], EQUAL, row["n_samples"] // SMALL.rounds)
        calibrator = algorithm_one(
            case.problem,
            case.rules,
            row["epsilon"],
            check=check,
            step=step,
            max_rounds=SMALL.rounds,
            random_state=case.seed,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            calibrator.fit(instances)
        assert row["n_patches"] == len(calibrator.patches_)
        assert row["n_own"] == sum(patch.test == -1 for patch in calibrator.patches_)
        assert row["status"] == calibrator.status_.value
        patched = calibrator.predict(held_out.part.instances.prediction.reshape(-1, 4)).ravel()
        measured = held_out.measure(np.ascontiguousarray(patched))
        assert {name: row[name] for name in MEASURES} == measured
    assert any(row["n_patches"] for row in ran)


def test_the_default_method_is_the_calibrator_without_settings(best_action):
    case, held_out, rows = best_action
    (row,) = [row for row in rows if row["check"] == "default method"]
    calibrator = outrule.DecisionCalibrator(case.problem, case.rules, random_state=0)
    calibrator.fit(case.instances(8 * SMALL.rounds, EQUAL, 8))
    patched = np.ravel(calibrator.predict(held_out.part.instances))
    assert {name: row[name] for name in MEASURES} == held_out.measure(patched)
    assert row["n_samples"] == 8 * SMALL.rounds


def test_a_run_that_is_too_noisy_has_no_measures(best_action):
    refused = [row for row in best_action[2] if row["status"] == "refused"]
    assert refused
    for row in refused:
        assert row["check"] == "private reuse"
        assert row["n_patches"] == 0
        assert {row[name] for name in MEASURES} == {None}


def test_the_same_seed_gives_the_same_runs(best_action):
    case, held_out, rows = best_action
    assert list(reuse_rows(SMALL, case, held_out)) == rows
    other = make_case(Unit("best-action", 4, "brief", 1), SMALL.n_rules)
    assert list(reuse_rows(SMALL, other, HeldOut(other, SMALL.n_test))) != rows
