"""Decisions of all rules: kept compactly, decided in blocks and on threads, and still the same."""

from __future__ import annotations

import threading

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st

import outrule
from outrule import threads
from outrule.calibration import patches as patching
from outrule.calibration.audit import audit, prepare
from outrule.problems import contract
from outrule.problems.contract import Layout
from outrule.rules import decisions
from outrule.rules.decisions import compact, decide_all, expand

MAIN = threading.main_thread()

PROBLEMS = {
    "best": outrule.BestAction(),
    "top 1": outrule.TopK(1),
    "top 3": outrule.TopK(3),
    "partition": outrule.PartitionMatroid([0, 0, 0, 1, 1, 2], {0: 2, 1: 1, 2: 1}),
    "graphic": outrule.GraphicMatroid.complete(4),
    "laminar": outrule.LaminarMatroid(6, [[0, 1], [0, 1, 2], [4, 5]], [1, 2, 1]),
    "transversal": outrule.TransversalMatroid(6, [[0, 1, 2], [2, 3], [3, 4, 5]]),
    "linear matroid": outrule.LinearMatroid(np.eye(6, 3) + np.tri(6, 3)),
    "matching": outrule.Matching.complete(4),
    "greedy matching": outrule.GreedyMatching.complete(4),
    "assignment": outrule.Assignment(2, 3),
    "knapsack": outrule.LinearProblem([[2, 1, 1, 3, 1, 2]], [4]),
    "matroid": outrule.Matroid(lambda positions: len(positions) <= 2),
    "oracle": outrule.Oracle(lambda weights: weights > 0.5, k=6),
}
SLOW = {"knapsack", "matroid", "oracle"}


@pytest.fixture(autouse=True)
def four_cores(monkeypatch):
    """As if there were four cores, so that threads are used on any machine."""
    monkeypatch.setattr(threads, "n_cores", lambda: 4)
    pool = threads._pool
    pool.cache_clear()
    yield
    pool.cache_clear()


def small_pieces(monkeypatch):
    """Blocks and pieces so small that a few hundred instances are cut into many."""
    monkeypatch.setattr(contract, "SMALL_BATCH", 16)
    monkeypatch.setattr(decisions, "INSTANCES_AT_A_TIME", 101)
    monkeypatch.setattr(decisions, "RULES", 7)
    monkeypatch.setattr(patching, "INSTANCES_AT_A_TIME", 103)
    monkeypatch.setattr(patching, "THREAD_INSTANCES", 37)
    monkeypatch.setattr("outrule.calibration.incremental.THREAD_INSTANCES", 41)
    monkeypatch.setattr("outrule.calibration.audit.THREAD_PICKS", 16 * 29)


def dense(n, m=6, seed=0, grain=8):
    """Predictions with ties and zeros, and outcomes."""
    generator = np.random.default_rng(seed)
    predictions = generator.random((n, m))
    outcomes = np.clip(
        predictions * np.linspace(0.3, 1, m) + generator.normal(0, 0.1, (n, m)), 0, 1
    )
    return (np.rint(predictions * grain) / grain if grain else predictions), outcomes


def offered(n, m=6, seed=0):
    available = np.random.default_rng(seed).random((n, m)) < 0.7
    available[:, 0] = True
    return available


def table(n, seed=0, items=6):
    generator = np.random.default_rng(seed)
    sizes = generator.integers(1, items + 1, size=n)
    item = np.concatenate([generator.permutation(items)[:size] for size in sizes])
    score = generator.random(len(item))
    frame = pl.DataFrame(
        {
            "trip": np.repeat(np.arange(n), sizes),
            "item": item,
            "score": score,
            "value": np.clip(
                score * (0.4 + 0.08 * item) + generator.normal(0, 0.2, len(item)), 0, 1
            ),
        }
    )
    names = {"instance": "trip", "prediction": "score", "outcome": "value", "item": "item"}
    return outrule.Instances.from_table(frame, **names)


def instances_of(kind, n, seed=0):
    if kind == "table":
        return table(n, seed)
    predictions, outcomes = dense(n, seed=seed)
    available = offered(n, seed=seed) if kind == "masked" else None
    return outrule.Instances.from_arrays(predictions, outcomes, available=available)


# --- compact and expand --------------------------------------------------------------------------


@given(st.data())
def test_expand_is_the_inverse_of_compact(data):
    top = data.draw(st.sampled_from([1, 5, 254, 255, 256, 65_534, 65_535, 65_536]))
    sizes = [top, *data.draw(st.lists(st.integers(0, top), max_size=4))]
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    k = data.draw(st.integers(1, 3))
    picks = np.array(
        [[data.draw(st.integers(-1, size - 1)) for _ in range(k)] for size in sizes], dtype=np.int32
    )
    picks[0] = top - 1
    layout = Layout(offsets, k)
    small = compact(picks, layout)
    assert small.shape == (k, len(sizes))
    assert small.flags.c_contiguous
    assert small.dtype == layout.small_type
    assert small.dtype == (np.uint8 if top <= 255 else np.uint16 if top <= 65_535 else np.uint32)
    assert (small.T[picks < 0] == np.iinfo(small.dtype).max).all()
    back = expand(small, layout)
    assert back.dtype == np.int32
    assert back.tolist() == picks.tolist()


# --- all rules at once, and one by one -----------------------------------------------------------


def rules_for(problem):
    """Multipliers in more than one group, with functions of the caller between them."""
    some = list(outrule.multipliers(6, limit=75))
    some.insert(3, outrule.Reweight("squares", lambda view: view.predictions**2))
    some.insert(40, outrule.Choose("plain", lambda view: _plain(problem, view)))
    return [*some, outrule.Multiplier([1.0, -0.5, 0.0, 2.0, 1.0, 1.0], "signs")]


def _plain(problem, view):
    return np.zeros(view.predictions.shape, dtype=bool) if not problem.exactly_one else _first(view)


def _first(view):
    marks = np.zeros(view.predictions.shape, dtype=bool)
    if view.predictions.ndim == 2:
        marks[:, 0] = True
    else:
        marks[np.unique(view["trip"], return_index=True)[1]] = True
    return marks


@pytest.mark.parametrize("kind", ["dense", "masked", "table"])
@pytest.mark.parametrize("name", sorted(set(PROBLEMS) - {"knapsack"}))
def test_all_rules_at_once_decide_as_one_by_one(name, kind, monkeypatch):
    problem, n = PROBLEMS[name], 60 if name in SLOW else 150
    instances = instances_of(kind, n)
    layout, rules = problem.lay(instances), rules_for(problem)
    rules = [*rules[:6], rules[41]] if name in SLOW else rules
    expected = [rule.decide(instances, problem, layout).tolist() for rule in rules]
    for _ in range(2):
        found = decide_all(rules, instances, problem, layout)
        assert found.shape == (len(rules), layout.k, n)
        assert [expand(one, layout).tolist() for one in found] == expected
        small_pieces(monkeypatch)


def test_many_instances_are_decided_as_one_by_one():
    # More than one block, four pieces of each, both without any monkeypatch.
    n = decisions.INSTANCES_AT_A_TIME + 3000
    predictions, _ = dense(n, 4)
    instances = outrule.Instances.from_arrays(predictions)
    problem, rules = outrule.TopK(2), [*outrule.multipliers(4, limit=5), outrule.Fixed(1)]
    layout = problem.lay(instances)
    for rule, found in zip(rules, decide_all(rules, instances, problem, layout), strict=True):
        assert (expand(found, layout) == rule.decide(instances, problem, layout)).all()


def test_no_rules_have_no_decisions():
    instances = instances_of("dense", 9)
    problem = outrule.TopK(2)
    assert decide_all([], instances, problem, problem.lay(instances)).shape == (0, 2, 9)


# --- functions of the caller ---------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", ["dense", "masked", "table"])
@pytest.mark.parametrize("owner", ["rules", "oracle", "matroid"])
def test_functions_of_the_caller_are_called_in_the_main_thread_only(owner, kind, monkeypatch):
    small_pieces(monkeypatch)
    seen = set()

    def watched(function):
        def call(*args):
            seen.add(threading.current_thread())
            return function(*args)

        return call

    problem, rules = outrule.TopK(2), list(outrule.multipliers(6, limit=20))
    if owner == "rules":
        rules.append(outrule.Reweight("same", watched(lambda view: view.predictions)))
        rules.append(outrule.Choose("first", watched(_first)))
    elif owner == "oracle":
        problem = outrule.Oracle(watched(lambda weights: weights >= max(0.3, weights.max())), k=6)
    else:
        problem = outrule.Matroid(watched(lambda positions: len(positions) <= 2))
    # Functions of the caller are slow, so that theirs is a short start.
    start = outrule.CrossFit() if owner == "rules" else outrule.CrossFit(max_patches=4, max_trees=4)
    n, settings = 250 if owner == "rules" else 110, {"start": start, "max_rounds": 6, "n_jobs": 4}
    train, test = instances_of(kind, n, 1), instances_of(kind, n, 2)
    model = outrule.DecisionCalibrator(problem, rules, 0.001, **settings)
    model.fit(train)
    assert len(model.patches_) > 1
    model.decide(test)
    outrule.certify(model, test)
    problem.solve(test)
    assert seen == {MAIN}


# --- the number of threads changes no bit --------------------------------------------------------


def fitted(problem, train, test, n_jobs, items, start):
    rules = (*outrule.multipliers(items, limit=90), outrule.Reweight("squares", _squares))
    settings = {"start": start, "n_jobs": n_jobs, "random_state": 0}
    epsilon = (0.01 if start is None else 0.002) * problem.lay(train).k
    model = outrule.DecisionCalibrator(problem, rules, epsilon, max_rounds=60, **settings)
    model.fit(train)
    return {
        "patches": model.patches_,
        "history": model.history_,
        "predictions": np.asarray(model.predict(test)).tobytes(),
        "values": model.rule_values_.tolist(),
        "certificate": outrule.certify(model, test).to_json(),
        "score": model.score(test),
    }


def _squares(view):
    return view.predictions**2


def shared_worlds(name, seed):
    if name == "table":
        return outrule.TopK(2), table(350, seed), 6
    if name == "matching":
        return (
            outrule.Matching.complete(6),
            outrule.Instances.from_arrays(*dense(250, 15, seed)),
            15,
        )
    predictions, outcomes = dense(350, 6, seed, grain=0)
    if name == "mask":
        available = offered(350, 6, seed)
        data = outrule.Instances.from_arrays(predictions, outcomes, available=available)
        return outrule.TopK(2), data, 6
    weights = np.linspace(0.5, 2, 350) if name == "weights" else None
    data = outrule.Instances.from_arrays(predictions, outcomes, weight=weights)
    return outrule.BestAction(), data, 6


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("start", [None, outrule.Isotonic()], ids=repr)
@pytest.mark.parametrize("name", ["best", "matching", "mask", "table", "weights"])
def test_threads_and_pieces_change_no_bit_of_a_model_and_its_certificate(name, start, monkeypatch):
    problem, train, items = shared_worlds(name, 1)
    test = shared_worlds(name, 2)[1]
    whole = fitted(problem, train, test, 1, items, start)
    assert len(whole["patches"]) > 3
    small_pieces(monkeypatch)
    for n_jobs in (1, 3, None):
        assert fitted(problem, train, test, n_jobs, items, start) == whole


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("problem", "start"),
    [(outrule.BestAction(), outrule.CrossFit()), (outrule.TopK(2), None)],
    ids=repr,
)
def test_threads_change_no_bit_of_many_instances(problem, start):
    # As many as threads are used for without any monkeypatch.
    predictions, outcomes = dense(12_000, 4, grain=0)
    models = []
    for n_jobs in (1, 3):
        rules = outrule.multipliers(4, limit=70)
        settings = {"start": start, "n_jobs": n_jobs, "max_rounds": 5}
        model = outrule.DecisionCalibrator(problem, rules, 0.02, **settings)
        model.fit(predictions, outcomes)
        models.append((model.patches_, model.history_, model.predict(predictions).tolist()))
    assert models[0] == models[1]


# --- the optimiser: many scales at once, and chunks ----------------------------------------------

SCALES = np.array(
    [[1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0], [0.5, 1, 0, 0.25, 1, 3], [-1, 1, -0.5, 0, 1, 0.1]]
)


@pytest.mark.parametrize("small", [0, 10**9], ids=["one by one", "in one call"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_many_scales_are_picked_as_one_by_one(name, small, monkeypatch):
    monkeypatch.setattr(contract, "SMALL_BATCH", small)
    problem = PROBLEMS[name]
    generator = np.random.default_rng(0)
    for n in (1, 4) if name in SLOW else (1, 31, 32, 33, 200):
        scales = np.concatenate((SCALES, generator.random((3 if name in SLOW else 70, 6))))
        instances = outrule.Instances.from_arrays(dense(n, seed=n)[0])
        layout = problem.lay(instances)
        found = problem.pick_many(instances.prediction, layout, scales)
        assert found.shape == (len(scales), layout.k, n)
        for scale, picks in zip(scales, found, strict=True):
            expected = problem.pick(instances.prediction, layout, scale)
            assert compact(picks.T.astype(np.int32), layout).tolist() == (
                compact(expected, layout).tolist()
            )


@pytest.mark.parametrize("m", [255, 256, 257])
def test_the_best_of_many_items_is_picked_under_many_scales(m):
    generator = np.random.default_rng(m)
    problem, scales = outrule.BestAction(), generator.random((70, m))
    instances = outrule.Instances.from_arrays(generator.random((40, m)))
    layout = problem.lay(instances)
    found = problem.pick_many(instances.prediction, layout, scales)
    for scale, picks in zip(scales, found, strict=True):
        assert picks.T.tolist() == problem.pick(instances.prediction, layout, scale).tolist()


@pytest.mark.parametrize("times", [1, 2, 5])
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_repeated_layout_is_that_of_repeated_instances(name, times):
    problem = PROBLEMS[name]
    predictions, _ = dense(9)
    once = problem.lay(outrule.Instances.from_arrays(predictions)).repeat(times)
    many = outrule.Instances.from_arrays(np.tile(predictions, (times, 1)))
    expected = problem.lay(many)
    assert len(once) == 9 * times
    assert (once.k, once.width) == (expected.k, expected.width)
    assert once.offsets.tolist() == expected.offsets.tolist()
    for group in ("per_item", "per_instance", "shared"):
        one, other = getattr(once, group), getattr(expected, group)
        assert list(one) == list(other)
        for array in one:
            if (group, array) == ("per_instance", "number"):  # a repeated instance keeps its own
                assert one[array].tolist() == times * list(range(9))
            else:
                assert one[array].tolist() == other[array].tolist()
    picks = problem.pick(many.prediction, once)
    assert picks.tolist() == problem.pick(many.prediction, expected).tolist()


@pytest.mark.parametrize("kind", ["dense", "masked", "table"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_chunks_on_threads_are_picked_as_the_whole(name, kind, monkeypatch):
    if name == "knapsack" and kind == "table":
        pytest.skip("HiGHS is slow, and the mask does the same")
    problem = PROBLEMS[name]
    for n in (1, 2, 9) if name in SLOW else (1, 2, 31, 32, 33, 127, 128, 129, 700):
        instances = instances_of(kind, n, seed=n)
        layout = problem.lay(instances)
        expected = problem.pick(instances.prediction, layout).tolist()
        monkeypatch.setattr(contract, "SMALL_BATCH", 0)
        for n_jobs in (1, 2, 3, None):
            with threads.using(n_jobs):
                found = problem.pick_on_threads(instances.prediction, layout)
            assert found.tolist() == expected


def test_rules_that_decide_alike_are_kept_once_and_found_all_the_same():
    predictions, outcomes = np.random.default_rng(5).random((2, 300, 4))
    twins = [
        outrule.Multiplier([1, 1, 1, 1], "one"),
        outrule.Fixed(2),
        outrule.Multiplier([2, 2, 2, 2], "the same"),
        outrule.Choose("third", lambda view: view["item"] == 2),
    ]
    data = outrule.Instances.from_arrays(predictions, outcomes)
    part = prepare(data, outrule.BestAction(), twins)
    assert len(part.picks) == 2
    assert part.of_rule.tolist() == [0, 1, 0, 1]
    found = audit(part, data.prediction, outrule.BestAction())
    alone = [
        audit(prepare(data, outrule.BestAction(), [rule]), data.prediction, outrule.BestAction())
        for rule in twins
    ]
    assert found.violations[:-1].tolist() == [one.violations[0] for one in alone]
    assert found.sizes[:-1].tolist() == [one.sizes[0] for one in alone]
