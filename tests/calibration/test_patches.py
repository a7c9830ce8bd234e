"""Patches: replayed on any instances they give the bits that the loop had."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import outrule
import reference
import strategies
from outrule.calibration import patches as patching
from outrule.calibration.audit import prepare
from outrule.calibration.loop import LoopSettings, boost
from outrule.calibration.patches import Patch, replay
from outrule.calibration.sources import SameData
from outrule.rules import decisions

lists_of_patches = st.lists(
    st.builds(Patch, st.integers(-1, 2), strategies.signed_step), max_size=8
)


def run(case, start, step):
    """The loop itself: the patches it made, and the predictions it ended with."""
    instances = outrule.Instances.from_arrays(case.predictions, case.outcomes)
    source = SameData(prepare(instances, case.problem, case.rules), start.ravel(), case.problem)
    plan = LoopSettings(outrule.Reuse(), step, 0.02, source.part.layout.k, 40)
    boosted = boost(source, case.rules, plan, np.random.default_rng(0))
    return instances, source.prediction, boosted


@given(
    st.one_of(strategies.cases(), strategies.simplex_cases()),
    st.sampled_from([outrule.FixedStep(), outrule.LineSearch()]),
    st.booleans(),
)
def test_replay_gives_the_bits_that_the_loop_ended_with(case, step, own_start):
    start = case.predictions
    if own_start:
        start = np.where(case.outcomes == case.predictions, start, start[::-1])
    instances, ended, boosted = run(case, start, step)
    again = replay(boosted.patches, case.rules, case.problem, instances, start.ravel())
    assert again.tolist() == ended.tolist()


@given(strategies.cases(), st.data())
def test_an_instance_is_patched_the_same_alone_or_in_any_order(case, data):
    patches = data.draw(lists_of_patches)
    order = np.array(data.draw(st.permutations(range(len(case.predictions)))))

    def patched(rows):
        instances = outrule.Instances.from_arrays(rows)
        flat = replay(patches, case.rules, case.problem, instances, rows.ravel())
        return flat.reshape(rows.shape)

    whole = patched(case.predictions)
    assert (patched(case.predictions[order]) == whole[order]).all()
    assert (patched(case.predictions[:1]) == whole[:1]).all()


@given(strategies.cases(st.just(outrule.TopK(2))), lists_of_patches)
def test_replay_is_one_clipped_step_after_the_other(case, patches):
    instances = outrule.Instances.from_arrays(case.predictions)
    flat = replay(patches, case.rules, case.problem, instances, case.predictions.ravel())
    for row, patched in zip(case.predictions, flat.reshape(-1, 6), strict=True):
        p = row.tolist()
        for test, step in patches:
            weights = p if test == -1 else (row * case.rules[test].vector).tolist()
            for item in reference.top_k(weights, 2):
                p[item] = min(max(p[item] + step, 0.0), 1.0)
        assert patched.tolist() == p


@pytest.mark.parametrize("block", [1, 3, 7])
@pytest.mark.parametrize(
    "problem",
    [outrule.BestAction(), outrule.Matching.complete(4), outrule.Assignment(2, 3)],
    ids=lambda problem: type(problem).__name__,
)
def test_blocks_change_no_bit(monkeypatch, block, problem):
    generator = np.random.default_rng(block)
    predictions = np.rint(generator.random((20, 6)) * 8) / 8
    available = generator.random((20, 6)) < 0.8
    available[:, 0] = True
    columns = {"x": generator.random(20)}
    instances = outrule.Instances.from_arrays(predictions, available=available, columns=columns)
    rules = [*outrule.multipliers(6, limit=2), outrule.Reweight("x", lambda v: v["x"] * v["item"])]
    patches = [Patch(0, 0.1), Patch(-1, -0.3), Patch(2, 0.2), Patch(1, -0.7), Patch(-1, 0.05)]
    whole = replay(patches, rules, problem, instances, instances.prediction)
    for module, name in (
        (decisions, "INSTANCES_AT_A_TIME"),
        (patching, "INSTANCES_AT_A_TIME"),
        (patching, "THREAD_INSTANCES"),
    ):
        monkeypatch.setattr(module, name, block)
        again = replay(patches, rules, problem, instances, instances.prediction)
        assert again.tolist() == whole.tolist()


def test_replay_decides_only_the_rules_that_a_patch_names():
    def refuse(view):
        raise AssertionError(f"asked with {view}")

    rules = [outrule.Choose("unused", refuse), outrule.Fixed(0)]
    instances = outrule.Instances.from_arrays([[0.2, 0.4]])
    patched = replay([Patch(1, 0.1)], rules, outrule.BestAction(), instances, instances.prediction)
    np.testing.assert_allclose(patched, [0.3, 0.4])


def test_replay_without_patches_is_a_copy_of_the_start():
    instances = outrule.Instances.from_arrays([[0.2, 0.4]])
    start = np.array([0.5, 0.6])
    patched = replay([], [outrule.Fixed(0)], outrule.BestAction(), instances, start)
    assert patched.tolist() == [0.5, 0.6]
    patched[0] = 0.0
    assert start[0] == 0.5


def test_a_start_off_the_simplex_is_projected_first():
    instances = outrule.Instances.from_arrays([[0.9, 0.5], [0.3, 0.7]])
    problem = outrule.Classification()
    patched = replay([], [outrule.Fixed(0)], problem, instances, instances.prediction)
    np.testing.assert_allclose(patched, [0.7, 0.3, 0.3, 0.7])
    assert patched[2:].tolist() == [0.3, 0.7]


@given(strategies.simplex_cases(), lists_of_patches)
def test_classes_stay_on_the_simplex_and_the_reject_item_where_it_is(case, patches):
    instances = outrule.Instances.from_arrays(case.predictions)
    flat = replay(patches, case.rules, case.problem, instances, case.predictions.ravel())
    patched = flat.reshape(case.predictions.shape)
    if isinstance(case.problem, outrule.Rejection):
        assert (patched[:, -1] == case.predictions[:, -1]).all()
        patched = patched[:, :-1]
    np.testing.assert_allclose(patched.sum(axis=1), 1.0, atol=1e-9)
    assert patched.min() >= 0
    assert patched.max() <= 1
