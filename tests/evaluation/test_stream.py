"""The stream against the calibrator, run by run; chunks and threads change nothing."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import outrule
from letter import algorithm_one
from outrule import threads
from outrule.calibration.patches import replay
from outrule.evaluation import stream
from outrule.evaluation.cases import HeldOut, make_case
from outrule.evaluation.grid import Grid, Unit

SMALL = Grid(
    epsilons=(1 / 2, 1 / 8, 1 / 32),
    batch_sizes=(4, 16),
    rounds=24,
    n_rules=24,
    n_test=200,
    other_batches=(16,),
    other_epsilons=(1 / 8,),
)
UNITS = {
    "best-action": Unit("best-action", 5, "converged", 0),
    "matching": Unit("matching", 45, "converged", 0),
    "rejection": Unit("rejection", 3, "brief", 0),
    "partition": Unit("partition", 15, "converged", 0),
    "graphic": Unit("graphic", 15, "converged", 0),
}


@pytest.fixture(scope="module", params=UNITS)
def case(request):
    return make_case(UNITS[request.param], SMALL.n_rules)


def run(case):
    held_out = HeldOut(case, SMALL.n_test)
    progress = stream.begin(SMALL, case, held_out)
    for _ in stream.advance(progress, SMALL, case, held_out):
        pass
    return progress, held_out


@pytest.fixture(scope="module")
def done(case):
    return run(case)


def batches(case, batch_size):
    """What a run sees, one batch after the other."""
    size = max(SMALL.batch_sizes)
    instances = case.rounds(0, SMALL.rounds, size)
    rows = (np.arange(SMALL.rounds)[:, None] * size + np.arange(batch_size)).ravel()
    return instances.take(rows)


def test_every_run_finds_the_patches_that_the_calibrator_finds(case, done):
    progress, _ = done
    k = case.problem.lay(case.instances(1, 0)).k
    assert len(progress.tracks) == 3 * 2 + (2 if k == 1 else 3)
    for track in progress.tracks:
        point = track.point
        calibrator = algorithm_one(
            case.problem,
            case.rules,
            2 * point.tolerance,
            check=outrule.FreshBatches(point.batch_size, 1.0, early_exit=False),
            step=point.step,
            max_rounds=SMALL.rounds,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # of the rounds that ran out
            calibrator.fit(batches(case, point.batch_size))
        assert list(zip(track.tests, track.steps, strict=True)) == calibrator.patches_
        found = [row.round for row in calibrator.history_ if row.test is not None]
        assert track.rounds == found
    assert any(track.tests for track in progress.tracks)


def test_the_trace_ends_with_the_value_of_the_calibrator(case, done):
    progress, held_out = done
    instances = held_out.part.instances
    for track in progress.tracks:
        patches = [outrule.Patch(*p) for p in zip(track.tests, track.steps, strict=True)]
        prediction = replay(patches, case.rules, case.problem, instances, instances.prediction)
        last, n_patches, n_own, squared_error, value, half = track.trace[-1]
        assert (last, n_patches) == (SMALL.rounds, len(track.tests))
        assert n_own == track.tests.count(-1)
        m = held_out.n_items
        outcome = instances.outcome.reshape(-1, m)
        chosen = case.problem.solve(prediction.reshape(-1, m))
        values = (outcome * chosen).sum(axis=1)
        assert value == pytest.approx(values.mean(), abs=1e-12)
        assert half == pytest.approx(values[: SMALL.n_test // 2].mean(), abs=1e-12)
        error = ((prediction - instances.outcome) ** 2).mean()
        assert squared_error == pytest.approx(error, abs=1e-9)


def same(one, other):
    assert one.n_solved == other.n_solved
    assert one.tracks == other.tracks
    for size, sums in one.rule_sums.items():
        assert sums.tolist() == other.rule_sums[size].tolist()


@pytest.mark.parametrize("chunk", [1, 5])
def test_the_length_of_a_chunk_changes_nothing(case, done, chunk, monkeypatch):
    monkeypatch.setattr(stream, "CHUNK", chunk)
    same(done[0], run(case)[0])


@pytest.mark.parametrize("n", [1, 3])
def test_the_number_of_threads_changes_nothing(case, done, n):
    with threads.using(n):
        same(done[0], run(case)[0])


def test_rules_are_summed_over_the_batches(case, done):
    for size, sums in done[0].rule_sums.items():
        seen = batches(case, size)
        values = outrule.metrics.values_of_rules(case.problem, case.rules, seen)
        np.testing.assert_allclose(sums / len(seen), list(values.values()), atol=1e-9)


def test_the_optimiser_is_counted_by_instance():
    case = make_case(UNITS["best-action"], SMALL.n_rules)
    progress, held_out = run(case)
    decided, n_test = len(case.rules) * 24 * 16, len(held_out.part.layout)
    audited = 24 * (3 * 4 + 5 * 16)
    traced = 8 * (24 // stream.TRACE_FIRST) * n_test
    assert progress.n_solved >= decided + audited + traced


def test_a_batch_that_memory_does_not_hold_is_refused():
    huge = replace(SMALL, batch_sizes=(2**20,))
    with pytest.raises(outrule.ArgumentError, match=r"'--batch-size'.* 4 GiB per round .*1048576"):
        stream.rounds_per_chunk(huge, 256, 1024, 1)
    assert stream.rounds_per_chunk(SMALL, 256, 1024, 1) == stream.CHUNK
