"""The cross-fitted start: folds, curves, members, and what they promise."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import polars as pl
import pytest
import slow_curves
import slow_trees

import outrule
from outrule import threads
from outrule.calibration import cross_fit, curves, trees
from outrule.calibration.audit import part_of
from outrule.calibration.cross_fit import fit_curve
from outrule.calibration.isotonic import draw_folds
from outrule.data.instances import Instances
from outrule.errors import ArgumentError, DataError
from outrule.rules.decisions import decide_all, distinct

BOTH = ("plain", "isotonic")
START = outrule.CrossFit(folds=3, bins=8, least=5, patience=5, max_trees=0)


def world(seed, n=300, m=6):
    """Outcomes between 0 and 1, and predictions that are off by a curve and by item."""
    generator = np.random.default_rng(seed)
    truth = generator.random((n, m))
    predictions = np.clip(truth**2 + 0.2 * generator.random(m) - 0.1, 0, 1)
    outcomes = (generator.random((n, m)) < truth).astype(float)
    return predictions, outcomes


def simplex(seed, problem, n=300, c=5):
    generator = np.random.default_rng(seed)
    truth = generator.dirichlet(np.ones(c), n)
    labels = np.eye(c)[(generator.random((n, 1)) < truth.cumsum(axis=1)).argmax(axis=1)]
    parts = (truth**3 / (truth**3).sum(axis=1, keepdims=True), labels)
    if isinstance(problem, outrule.Rejection):
        return tuple(problem.with_reject(part) for part in parts)
    return parts


RULES = outrule.multipliers(6, limit=6)
PROBLEMS = [
    outrule.BestAction(),
    outrule.Classification(),
    outrule.Rejection(0.4),
    outrule.TopK(2),
    outrule.Matching.complete(4),
    outrule.Assignment(2, 3),
    outrule.Oracle(lambda weights: weights > 0.7, k=6, ratio=0.5),
]


def data_of(problem, seed):
    if problem.simplex:
        return simplex(seed, problem, c=5 if isinstance(problem, outrule.Rejection) else 6)
    return world(seed)


def fit(data, problem=None, rules=RULES, **settings):
    problem = problem or outrule.BestAction()
    settings = {"epsilon": 0.05, "start": START, "rivals": BOTH, "random_state": 0} | settings
    calibrator = outrule.DecisionCalibrator(problem, rules, **settings)
    return calibrator.fit(*(data if isinstance(data, tuple) else (data,)))


@pytest.mark.parametrize("most", [{"max_trees": 0}, {"max_trees": 20, "max_patches": 1}])
def test_members_look_whether_they_are_stopped_before_every_tree_and_curve(most, monkeypatch):
    looks = []
    monkeypatch.setattr(threads, "check_stop", lambda: looks.append(1))
    model = fit(world(0), start=replace(START, **most)).model_
    kept = [len(one.patches) + (len(one.trees.values) if one.trees else 0) for one in model.members]
    assert len(looks) >= sum(kept) > 0


def slow_member(member, model, instances):
    """What one member predicts, by plain loops; the optimiser decides one patch at a time."""
    problem, layout = model.problem, model.problem.lay(instances)
    frozen = layout.per_item.get("frozen", np.zeros(len(instances.prediction), dtype=bool))
    p = curves.given_start(instances).copy()
    if member.start is not None:
        p = member.start.apply(replace(instances, prediction=p), frozen)
    marks = [instances.mark(rule.decide(instances, problem, layout)) for rule in model.tests]
    if member.trees is not None:
        p = np.where(frozen, p, np.clip(p + slow_answers(member.trees, instances, marks), 0, 1))
    if problem.simplex:
        for start, stop in pairwise(layout.offsets):
            p[start:stop] = slow_curves.project(p[start:stop].tolist(), frozen[start:stop])
    for test, x, y in member.patches:
        own = instances.mark(problem.pick(p, layout)) if test < 0 else marks[test]
        patch = [(0, x, y)]
        rest = {"simplex": problem.simplex}
        p = np.array(slow_curves.patch(p.tolist(), layout.offsets, [own], patch, frozen, **rest))
    return p


def slow_answers(trees, instances, marks):
    """What the trees add to every item, one question at a time."""
    names = instances.names_of_items
    return [
        sum(
            slow_trees.walk(*tree, p, names[code], own, trees.edges, trees.items)
            for tree in zip(trees.questions, trees.values, strict=True)
        )
        for p, code, *own in zip(
            instances.prediction,
            instances.item,
            *(marks[test] for test in trees.tests),
            strict=True,
        )
    ]


@pytest.mark.parametrize("max_trees", [0, 5])
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: type(problem).__name__)
def test_the_start_of_new_instances_is_the_mean_of_what_slow_members_predict(problem, max_trees):
    start = replace(START, max_trees=max_trees)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cross_fit, "CLEARLY", np.inf)  # keep members with trees and without
        model = fit(data_of(problem, 0), problem, start=start).model_
    new = Instances.from_arrays(data_of(problem, 1)[0][:20])
    if max_trees:
        assert any(member.trees for member in model.members)
    else:
        assert sum(len(member.patches) for member in model.members) >= 5
    kinds = 2 if max_trees else 1
    assert [member.start is None for member in model.members] == [True, False] * 3 * kinds
    expected = np.mean([slow_member(member, model, new) for member in model.members], axis=0)
    np.testing.assert_allclose(model.start_of(new), expected, atol=1e-9)
    if problem.simplex:
        rows = model.start_of(new).reshape(20, -1)
        classes = rows[:, :-1] if isinstance(problem, outrule.Rejection) else rows
        np.testing.assert_allclose(classes.sum(axis=1), 1)
    if isinstance(problem, outrule.Rejection):
        assert (rows[:, -1] == 1 - problem.cost).all()


def test_an_instance_of_training_starts_from_members_that_have_not_seen_it():
    data = Instances.from_arrays(*world(0))
    started = []
    first_fit = outrule.CrossFit.fit

    def spy(self, *args):
        started.append(first_fit(self, *args))
        return started[-1]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(outrule.CrossFit, "fit", spy)
        start = replace(START, folds=4)
        model = fit(data, rivals=("plain",), start=start).model_  # isotonic has another rule
    fold = draw_folds(data, 4, np.random.default_rng(0))
    members, start = started[0]
    assert members == model.members
    ways = list(combinations(range(4), 2))
    assert len(ways) == len(members)
    for number in range(4):
        rows = data.take(np.flatnonzero(fold == number))
        own = tuple(m for m, way in zip(members, ways, strict=True) if number in way)
        assert len(own) == 3
        assert {member.start is None for member in own} == {True, False}
        expected = curves.Members(own).mean(model.tests, model.problem, rows)
        assert start[(fold == number)[data.instance]].tobytes() == expected.tobytes()


@pytest.mark.parametrize("problem", [PROBLEMS[0], PROBLEMS[2], PROBLEMS[4]], ids=str)
def test_the_bits_are_the_same_for_any_number_of_threads_and_any_batch(problem, monkeypatch):
    data, new = data_of(problem, 0), data_of(problem, 1)[0]
    calibrator = fit(data, problem, n_jobs=1)
    other = fit(data, problem, n_jobs=3)
    assert outrule.model.codec.to_text(calibrator.model_) == outrule.model.codec.to_text(
        other.model_
    )
    expected = calibrator.predict(new)
    monkeypatch.setattr(curves, "PIECE", 37)
    assert other.predict(new).tobytes() == expected.tobytes()
    monkeypatch.setattr(curves, "INSTANCES_AT_A_TIME", 50)
    assert other.predict(new).tobytes() == expected.tobytes()
    one_by_one = np.concatenate([other.predict(new[i : i + 1]) for i in range(10)])
    assert one_by_one.tobytes() == expected[:10].tobytes()


def part_with(data):
    layout = outrule.BestAction().lay(data)
    return part_of(data, layout, *distinct(decide_all(RULES, data, outrule.BestAction(), layout)))


def leads(data, one, other):
    """How much more one start is worth, in standard errors, by plain loops."""
    chosen, instead = (start.reshape(len(data), -1).argmax(axis=1) for start in (one, other))
    gains, weights = {}, {}
    for i, (offset, weight) in enumerate(zip(data.offsets, data.normalised_weight(), strict=False)):
        worth = [0.0, 0.0]
        for number, position in enumerate((chosen[i], instead[i])):
            at = offset + position
            worth[number] = (one[at] + other[at]) / 2
            if data.propensity is None:
                worth[number] = data.outcome[at]
            elif not np.isnan(data.outcome[at]):
                worth[number] += (data.outcome[at] - worth[number]) / data.propensity[at]
        own = i if data.cluster is None else data.cluster[i]
        gains[own] = gains.get(own, 0.0) + weight * (worth[0] - worth[1])
        weights[own] = weights.get(own, 0.0) + weight
    mean = sum(gains.values()) / sum(weights.values())
    return sum(gains.values()) / sum((gains[c] - weights[c] * mean) ** 2 for c in gains) ** 0.5


@pytest.mark.parametrize("kind", ["plain", "clusters and weights", "log"])
def test_a_lead_is_in_standard_errors_of_what_is_independent(kind):
    generator = np.random.default_rng(3)
    predictions, outcomes = world(0, n=60)
    settings = {}
    if kind == "clusters and weights":
        settings = {"cluster": np.arange(60) // 7, "weight": generator.random(60)}
    if kind == "log":
        settings = {"propensity": 0.5}
        outcomes = np.where(generator.random(outcomes.shape) < 0.5, outcomes, np.nan)
    data = Instances.from_arrays(predictions, outcomes, **settings)
    part = part_with(data)
    one, other = generator.random((2, 360))
    found = cross_fit._lead(part, outrule.BestAction(), one, other)
    assert found == pytest.approx(leads(data, one, other))
    assert cross_fit._lead(part, outrule.BestAction(), one, one) == 0


@pytest.mark.parametrize(
    ("noise", "expected"),
    [((0.0, 2.0), [True]), ((2.0, 0.0), [False]), ((1.0, 1.0), [True, False])],
)
def test_trees_are_kept_where_decisions_are_worth_more_with_them(noise, expected):
    generator = np.random.default_rng(0)
    predictions, outcomes = world(0)
    part = part_with(Instances.from_arrays(predictions, outcomes))
    every = np.ones(300, dtype=bool)
    some = trees.Trees(np.empty(0), (), (), np.zeros((0, 1), dtype=np.int16), np.zeros((0, 2)))
    found = [
        (
            cross_fit.Way(every, False, trees=one is not None),
            (curves.Member(trees=one), outcomes.ravel() + size * generator.normal(size=1800)),
        )
        for one, size in zip((some, None), noise, strict=True)
    ]
    kept = cross_fit._better(part, outrule.BestAction(), found)
    assert [way.trees for way, _ in kept] == expected


def test_members_are_the_same_where_they_are_sent_to(monkeypatch):
    def boost(material, ways):
        found, sent = ([one.member(way) for way in ways] for one in (material, material.packed()))
        for (member, best), (other, there) in zip(found, sent, strict=True):
            assert best.tobytes() == there.tobytes()
            assert member.patches == other.patches
        assert any(member.trees for member, _ in found)
        return found

    monkeypatch.setattr(cross_fit, "boost_on_threads", boost)
    predictions, outcomes = world(0, n=600)
    names = {"instance": "i", "item": "e", "prediction": "p", "outcome": "y", "cluster": "c"}
    row = np.repeat(np.arange(600), 6)
    flat = {"i": row, "e": np.tile(np.arange(6), 600), "c": row // 40}
    table = pl.DataFrame(flat | {"p": predictions.ravel(), "y": outcomes.ravel()})
    fit(Instances.from_table(table, **names), start=outrule.CrossFit(max_trees=5))


def test_rounds_on_some_blocks_only_find_members_too(monkeypatch):
    monkeypatch.setattr("outrule.calibration.cross_fit.MOST_PICKS", 2_000)
    model = fit(world(0, n=1500)).model_
    assert all(member.patches for member in model.members[::2])  # those from the predictions


def test_a_scaled_value_range_gives_scaled_predictions():
    predictions, outcomes = world(0)
    one = fit((predictions, outcomes)).predict(predictions)
    wide = Instances.from_arrays(4 * predictions, 4 * outcomes, value_range=(0, 4))
    assert (fit(wide, epsilon=4 * 0.05).predict(wide) == 4 * one).all()


def test_a_table_and_masked_arrays_give_the_same_bits():
    predictions, outcomes = world(0)
    available = np.random.default_rng(1).random(predictions.shape) < 0.8
    available[:, 0] = True
    arrays = Instances.from_arrays(predictions, outcomes, available=available)
    row, column = np.nonzero(available)
    flat = {"p": predictions[available], "y": outcomes[available], "i": row, "e": column}
    names = {"instance": "i", "item": "e", "prediction": "p", "outcome": "y"}
    table = Instances.from_table(pl.DataFrame(flat), **names)
    found = [fit(data).model_ for data in (arrays, table)]
    assert [m.patches for m in found[0].members] == [m.patches for m in found[1].members]
    assert found[0].predict(arrays).tobytes() == found[1].predict(table).tobytes()


def test_instances_of_weight_zero_teach_nothing():
    predictions, outcomes = world(0)
    weight = (np.arange(300) % 3 > 0).astype(float) * 2
    changed = np.where(weight[:, None] > 0, outcomes, 1 - outcomes)
    found = [
        fit(Instances.from_arrays(predictions, y, weight=weight)).predict(predictions)
        for y in (outcomes, changed)
    ]
    assert found[0].tobytes() == found[1].tobytes()


def test_folds_keep_clusters_together_and_are_no_more_than_there_are():
    predictions, outcomes = world(0, n=40)
    cluster = np.arange(40) // 20
    data = Instances.from_arrays(predictions, outcomes, cluster=cluster)
    fold = draw_folds(data, 5, np.random.default_rng(0))
    assert sorted({(int(f), int(c)) for f, c in zip(fold, cluster, strict=True)}) in (
        [(0, 0), (1, 1)],
        [(0, 1), (1, 0)],
    )
    assert len(fit(data).model_.members) == 4


@pytest.mark.parametrize("n", [1, 2, 7, 50])
def test_few_instances_can_be_fitted_and_a_single_one_keeps_its_predictions(n):
    predictions, outcomes = world(0, n=n)
    calibrator = fit((predictions, outcomes), start=outrule.CrossFit(), max_rounds=1000)
    assert len(calibrator.model_.members) == {1: 1, 2: 4}.get(n, 6)
    assert np.isfinite(calibrator.predict(predictions)).all()
    if n == 1:
        assert (calibrator.model_.start_of(Instances.from_arrays(predictions)) == predictions).all()


def test_one_cluster_or_one_instance_with_weight_falls_back_to_the_predictions():
    predictions, outcomes = world(0, n=30)
    for more in ({"cluster": np.zeros(30)}, {"weight": np.eye(30)[3]}):
        data = Instances.from_arrays(predictions, outcomes, **more)
        model = fit(data, max_rounds=100).model_
        assert [(member.start, member.patches) for member in model.members] == [(None, ())]


def test_it_starts_from_the_start_column_where_there_is_one():
    predictions, outcomes = world(0)
    data = Instances.from_arrays(predictions, outcomes, start=np.sqrt(predictions))
    model = fit(data).model_
    expected = np.mean([slow_member(member, model, data) for member in model.members], axis=0)
    np.testing.assert_allclose(model.start_of(data), expected, atol=1e-9)
    plain = Instances.from_arrays(predictions)
    expected = np.mean([slow_member(member, model, plain) for member in model.members], axis=0)
    assert not np.allclose(model.start_of(data), expected)
    with pytest.raises(DataError, match="start predictions"):
        fit(data, start=outrule.Isotonic())


def test_partial_fit_starts_from_members_of_the_first_batch():
    calibrator = outrule.DecisionCalibrator(
        outrule.BestAction(), RULES, start=START, rivals=BOTH, random_state=0
    )
    for seed in range(4):
        calibrator.partial_fit(*world(seed))
    assert len(calibrator.model_.members) == 6
    assert len(calibrator.history_) == 4
    assert calibrator.rule_values_.shape == (len(RULES),)


def test_curves_find_a_bias_that_is_zero_on_average():
    generator = np.random.default_rng(0)
    truth = generator.random((4000, 2)) * [1, 0]  # the second item is never worth anything
    predictions = (0.5 + (truth - 0.5) / 3) * [1, 0]  # too high below the middle, too low above
    outcomes = (generator.random((4000, 2)) < truth).astype(float)
    rules = [outrule.Fixed(0)]
    assert not fit((predictions, outcomes), rules=rules, start=None, rivals=()).patches_
    calibrated = fit((predictions, outcomes), rules=rules, start=outrule.CrossFit())
    assert np.abs(calibrated.predict(predictions) - truth).mean() < 0.02


def test_members_beat_isotonic_regression_where_rules_know_more():
    world_16 = outrule.worlds.Quadratic(16, seed=0)
    predictor = outrule.worlds.brief_predictor(world_16, seed=0)
    train, new = (outrule.worlds.draw(world_16, predictor, 4000, seed) for seed in (1, 2))
    rules = outrule.multipliers(16, limit=32)
    values = []
    for start in (None, outrule.Isotonic(), outrule.CrossFit(max_patches=40)):
        calibrator = fit(train, rules=rules, start=start, rivals=BOTH if start else ())
        values.append((new[1] * calibrator.decide(new[0])).sum(axis=1).mean())
    assert values[2] > max(values[:2]) + 0.01


def test_members_start_from_no_curve_with_fewer_outcomes_for_a_point():
    predictions, outcomes = world(3, n=90, m=6)
    starts = {}
    for least in (15, 30, 150):  # of the 45 instances that a member sees, with six items each
        calibrator = fit((predictions, outcomes), start=outrule.CrossFit(least=least))
        members = calibrator.model_.members
        starts[least] = [member.start.curves for member in members if member.start is not None]
    assert all(set(curves) >= set(range(6)) for curves in starts[15])
    assert all(len(x) <= 3 for curves in starts[15] for x, _ in curves.values())
    assert all(set(curves) == {None} for curves in starts[30])
    assert starts[150] == []


def test_a_curve_is_isotonic_through_means_of_bins_and_never_cuts_ties():
    # count, weight, weighted x, weighted y
    sums = np.array([[30, 30, 3, 9], [30, 60, 12, 12], [5, 5, 2, 5], [0, 0, 0, 0], [2, 2, 1, 2]])
    x, y = fit_curve(sums.astype(float), 25, (0.0, 1.0))
    np.testing.assert_allclose(x, [0.1, 15 / 67])
    np.testing.assert_allclose(y, [(9 + 19) / 97] * 2)
    x, y = fit_curve(np.array([[3.0, 3, 0.3, 3]]), 25, (0.0, 1.0))
    assert (x.tolist(), y.tolist()) == ([pytest.approx(0.1)], [1.0])


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("folds", 1, r"an int in \[2, 6\]"),
        ("folds", 7, r"an int in \[2, 6\]"),
        ("bins", 256, r"an int in \[1, 255\]"),
        ("least", 0, "an int of at least 1"),
        ("patience", True, "an int of at least 1"),
        ("max_patches", 0, "an int of at least 1"),
    ],
)
def test_options_are_refused_by_name(option, value, expected):
    with pytest.raises(ArgumentError, match=f"'{option}' argument of CrossFit must be {expected}"):
        outrule.CrossFit(**{option: value})


def test_rivals_are_tests_of_the_loop_behind_the_rules():
    data = world(0, n=2000)
    calibrator = fit(data, start=None, rules=[outrule.Fixed(5)])
    names = [rule.name for rule in calibrator.model_.tests]
    assert names == ["always 5", "plain", "isotonic"]
    assert {row.test for row in calibrator.history_} & set(BOTH)
    assert calibrator.rule_values_.shape == (1,)
    assert calibrator.best_rule_ == 0
    predictions, outcomes = data
    after = calibrator.predict(predictions)
    plain = outrule.BestAction().solve(predictions)
    violation = ((outcomes - after) * plain).sum(axis=1).mean()
    assert abs(violation) <= calibrator.tolerance_


@pytest.mark.parametrize("rivals", ["plain", ("plain", "plain"), ("platt",), None])
def test_unknown_rivals_are_refused(rivals):
    with pytest.raises(ArgumentError, match="'rivals' argument of DecisionCalibrator must be some"):
        fit(world(0), rivals=rivals)


def test_a_rule_may_not_have_the_name_of_a_rival():
    rules = [outrule.Fixed(0, "plain")]
    with pytest.raises(ArgumentError, match="leave 'plain' out of rivals"):
        fit(world(0), rules=rules)
    assert fit(world(0), rules=rules, rivals=("isotonic",)).model_.tests[1].name == "isotonic"
