"""The streamed grid against the calibrator, run by run; chunks, threads, rests change nothing."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import outrule
from outrule import threads
from outrule.calibration.patches import replay
from outrule.evaluation import stream
from outrule.evaluation.cases import make_case
from outrule.evaluation.held_out import HeldOut
from outrule.evaluation.settings import Settings, Unit

SMALL = Settings(
    epsilons=(1 / 2, 1 / 8, 1 / 32),
    batch_sizes=(4, 16),
    rounds=24,
    n_rules=24,
    n_test=200,
    line_batches=(16,),
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


def run(case, settings=SMALL):
    held_out = HeldOut(case, settings.n_test)
    progress = stream.begin(settings, case)
    for _ in stream.advance(progress, settings, case, held_out):
        pass
    return progress, held_out


def batches(case, batch_size):
    """What a line sees, one batch behind the other."""
    size = max(SMALL.batch_sizes)
    instances = case.rounds(0, SMALL.rounds, size)
    rows = (np.arange(SMALL.rounds)[:, None] * size + np.arange(batch_size)).ravel()
    return instances.take(rows)


def test_every_line_finds_the_patches_that_the_calibrator_finds(case):
    progress, _ = run(case)
    assert len(progress.tracks) == 3 * 3
    for line, track in progress.tracks.items():
        calibrator = outrule.DecisionCalibrator(
            case.problem,
            case.rules,
            2 * line.tolerance,
            check=outrule.FreshBatches(line.batch_size, 1.0, early_exit=False),
            step=line.step,
            max_rounds=SMALL.rounds,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # of the rounds that ran out
            calibrator.fit(batches(case, line.batch_size))
        assert list(zip(track.tests, track.steps, strict=True)) == calibrator.patches_
        found = [row.round for row in calibrator.history_ if row.test is not None]
        assert track.rounds == found
    assert any(track.tests for track in progress.tracks.values())


def test_the_trace_ends_with_what_the_calibrator_is_worth(case):
    progress, held_out = run(case)
    instances = held_out.part.instances
    for track in progress.tracks.values():
        patches = [outrule.Patch(*p) for p in zip(track.tests, track.steps, strict=True)]
        prediction = replay(patches, case.rules, case.problem, instances, instances.prediction)
        last = track.trace[-1]
        assert last.round == SMALL.rounds
        m = held_out.n_items
        outcome = instances.outcome.reshape(-1, m)
        chosen = case.problem.solve(prediction.reshape(-1, m))
        assert last.value == pytest.approx((outcome * chosen).sum(axis=1).mean(), abs=1e-12)
        error = ((prediction - instances.outcome) ** 2).mean()
        assert last.squared_error == pytest.approx(error, abs=1e-9)


def same(one, other):
    assert one.n_solved == other.n_solved
    for line, track in one.tracks.items():
        assert vars(track) == vars(other.tracks[line])
    for size, sums in one.rule_sums.items():
        assert sums.tolist() == other.rule_sums[size].tolist()


@pytest.mark.parametrize("chunk", [1, 5, 24])
def test_the_length_of_a_chunk_changes_nothing(case, chunk, monkeypatch):
    whole, _ = run(case)
    monkeypatch.setattr(stream, "CHUNK", chunk)
    same(whole, run(case)[0])


def test_the_number_of_threads_changes_nothing(case):
    with threads.using(1):
        alone, _ = run(case)
    with threads.using(3):
        same(alone, run(case)[0])


def test_rules_are_summed_over_the_batches(case):
    progress, _ = run(case)
    for size, sums in progress.rule_sums.items():
        seen = batches(case, size)
        values = outrule.metrics.values_of_rules(case.problem, case.rules, seen)
        np.testing.assert_allclose(sums / len(seen), list(values.values()), atol=1e-9)


def test_the_optimiser_is_counted_by_instance():
    case = make_case(UNITS["best-action"], SMALL.n_rules)
    progress, held_out = run(case)
    decided, n_test = len(case.rules) * 24 * 16, len(held_out.part.layout)
    audited = 24 * (3 * 4 + 6 * 16)
    traced = 9 * (24 // stream.TRACE) * n_test
    assert progress.n_solved >= decided + audited + traced


def test_a_batch_that_memory_does_not_hold_is_refused():
    huge = replace(SMALL, batch_sizes=(2**20,))
    with pytest.raises(outrule.ArgumentError, match=r"'batch-size'.* 4 GiB per round .*1048576"):
        stream.rounds_per_chunk(huge, 256, 1024, 1)
    assert stream.rounds_per_chunk(SMALL, 256, 1024, 1) == stream.CHUNK
