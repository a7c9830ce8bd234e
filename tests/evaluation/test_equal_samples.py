"""The other CHECKs at equal samples, against the calibrator with the same settings."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import outrule
from outrule.evaluation.cases import EQUAL, make_case
from outrule.evaluation.equal_samples import compare
from outrule.evaluation.held_out import HeldOut
from outrule.evaluation.settings import Settings, Unit

SMALL = Settings(
    rounds=16, n_rules=16, n_test=200, equal_batches=(8, 256), equal_epsilons=(1 / 2, 1 / 16)
)


def test_runs_are_those_of_the_calibrator():
    case = make_case(Unit("best-action", 4, "brief", 0), SMALL.n_rules)
    held_out = HeldOut(case, SMALL.n_test)
    runs = list(compare(SMALL, case, held_out))
    assert len(runs) == 2 * 3 * 2
    ran = [run for run in runs if run.measured is not None]
    assert {run.status for run in runs} - {"converged", "max_rounds"} == {"refused"}
    for run in ran:
        instances = case.instances(run.n_samples, EQUAL, run.n_samples // SMALL.rounds)
        calibrator = outrule.DecisionCalibrator(
            case.problem,
            case.rules,
            run.epsilon,
            check=run.check,
            step=run.step,
            max_rounds=SMALL.rounds,
            random_state=0,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            calibrator.fit(instances)
        assert run.n_patches == len(calibrator.patches_)
        assert run.n_own == sum(patch.test == -1 for patch in calibrator.patches_)
        assert run.status == calibrator.status_.value
        patched = calibrator.predict(held_out.part.instances.prediction.reshape(-1, 4)).ravel()
        assert run.measured == held_out.measure(np.ascontiguousarray(patched))
    assert any(run.n_patches for run in ran)


def test_a_refused_run_has_no_measures():
    case = make_case(Unit("best-action", 4, "brief", 0), SMALL.n_rules)
    runs = compare(SMALL, case, HeldOut(case, SMALL.n_test))
    refused = [run for run in runs if run.status == "refused"]
    assert refused
    for run in refused:
        assert isinstance(run.check, outrule.PrivateReuse)
        assert run.measured is None
        assert run.n_patches == 0


@pytest.mark.parametrize("seed", [0, 1])
def test_the_same_seed_gives_the_same_runs(seed):
    case = make_case(Unit("rejection", 3, "brief", seed), SMALL.n_rules)
    held_out = HeldOut(case, SMALL.n_test)
    assert list(compare(SMALL, case, held_out)) == list(compare(SMALL, case, held_out))
