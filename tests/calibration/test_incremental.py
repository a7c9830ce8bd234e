"""The incremental audit equals an audit of its residuals exactly, and one of the predictions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

import outrule
import strategies
from letter import algorithm_one
from outrule import threads
from outrule.calibration import audit as auditing, incremental, sources
from outrule.calibration.audit import audit, part_of, prepare, residuals, sum_over
from outrule.calibration.loop import LoopSettings, boost
from outrule.calibration.patches import Patch, replay
from outrule.kernels import overlap
from outrule.rules.decisions import expand

EXACT = {
    "best": outrule.BestAction(),
    "top 1": outrule.TopK(1),
    "top 2": outrule.TopK(2),
    "matching of 2": outrule.Matching([(0, 1)] * 6),
    "matching of 4": outrule.Matching.complete(4),
    "assignment": outrule.Assignment(2, 3),
    "partition": outrule.PartitionMatroid([0, 0, 0, 1, 1, 2]),
}
NEVER, ALWAYS = 0, 10**9  # values of RECOUNT_SHARE: correct and recount few, or count all anew

items = st.lists(st.sampled_from([0.0, 0.0, 0.25, 0.5, 1.0]), min_size=6, max_size=6)
steps = st.one_of(
    st.sampled_from([-1.0, -0.5, -0.25, 0.25, 0.5, 1.0]), st.floats(-1, 1), st.floats(-1e-3, 1e-3)
)


def open_source(instances, problem, rules, start=None):
    start = instances.prediction if start is None else start
    source = sources.SameData(prepare(instances, problem, rules), start, problem)
    assert source.incremental is not None
    return source


def check_state(source, rules, start, done):
    """Everything that the incremental audit keeps, computed anew."""
    state, part = source.incremental, source.part
    again = replay(done, rules, source.problem, part.instances, start)
    assert state.prediction.tolist() == again.tolist()
    assert state.sums.tolist() == sum_over(state.residual, part.layout, part.picks).tolist()
    fresh, squares = residuals(part, state.prediction)
    assert state.squares == squares
    # Rounded once at the start and once a patch, here and there: by half a unit at most each.
    exact = (part.outcome - state.prediction) / part.span * 2.0**part.bits
    assert np.abs(state.residual - exact).max() <= (len(done) + 1) / 2 + 0.1
    assert np.abs(state.residual - fresh).max() <= (len(done) + 2) / 2 + 0.1
    found, plain = state.audit(), audit(part, state.prediction, source.problem)
    assert found.squared_error == plain.squared_error
    assert found.sizes.tolist() == plain.sizes.tolist()
    assert found.optimiser.tolist() == plain.optimiser.tolist()
    np.testing.assert_allclose(found.violations, plain.violations, rtol=0, atol=1e-9)


def follow(source, rules, patches):
    """Apply patches one by one, checking the state after each."""
    start = source.prediction.copy()
    check_state(source, rules, start, [])
    for number, patch in enumerate(patches):
        source.apply(patch, source.next_audit(patches[:number]))
        check_state(source, rules, start, patches[: number + 1])


@st.composite
def runs(draw):
    """Instances with many values at the ends of the range, masked or not, and any patches."""
    problem = draw(st.sampled_from(list(EXACT.values())))
    n = draw(st.integers(1, 12))
    if draw(st.booleans()):
        predictions, outcomes = (
            np.array(draw(st.lists(items, min_size=n, max_size=n))) for _ in range(2)
        )
    else:
        predictions, outcomes = draw(strategies.matrices(n, 6)), draw(strategies.matrices(n, 6))
    low, high = draw(st.sampled_from([(0.0, 1.0), (0.0, 1.0), (0.0, 3.0), (-10.0, 40.0)]))
    available = None
    if draw(st.booleans()):
        available = np.random.default_rng(draw(st.integers(0, 99))).random((n, 6)) < 0.7
        available[:, 0] = True
    instances = outrule.Instances.from_arrays(
        low + (high - low) * predictions,
        low + (high - low) * outcomes,
        available=available,
        value_range=(low, high),
    )
    limit = draw(st.sampled_from([2, 7, 40]))
    rules = outrule.multipliers(
        6, levels=(0.0, 0.5, 1.0), limit=limit, seed=draw(st.integers(0, 9))
    )
    tests = st.one_of(st.just(-1), st.integers(-1, len(rules) - 1))
    patches = draw(st.lists(st.tuples(tests, steps), max_size=7))
    scaled = [Patch(test, step * (high - low)) for test, step in patches]
    return instances, problem, rules, scaled


@given(runs(), st.sampled_from([NEVER, 1, 16, ALWAYS]), st.sampled_from([3, 4096]))
@settings(max_examples=75)
def test_after_any_patches_the_state_is_right(run, few, piece):
    instances, problem, rules, patches = run
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(incremental, "RECOUNT_SHARE", few)
        monkeypatch.setattr(incremental, "THREAD_INSTANCES", piece)
        follow(open_source(instances, problem, rules), rules, patches)


# --- realistic runs ------------------------------------------------------------------------------


def arrays(n, m, seed, *, extreme=0.0):
    """Outcomes that items blur differently, and this fraction of all values at an end."""
    generator = np.random.default_rng(seed)
    predictions = generator.random((n, m))
    outcomes = np.clip(
        predictions * np.linspace(0.3, 1, m) + generator.normal(0, 0.1, (n, m)), 0, 1
    )
    if extreme:
        ends = generator.integers(0, 2, (2, n, m)).astype(float)
        chance = generator.random((2, n, m)) < extreme
        predictions, outcomes = np.where(chance, ends, (predictions, outcomes))
    return predictions, outcomes


def masked(n, m, seed):
    predictions, outcomes = arrays(n, m, seed)
    available = np.random.default_rng(seed + 1).random((n, m)) < 0.7
    available[:, 0] = True
    return outrule.Instances.from_arrays(predictions, outcomes, available=available)


def table(n, seed):
    """Trips with two to six pairs of riders and cars; items are named."""
    generator = np.random.default_rng(seed)
    sizes = generator.integers(2, 7, size=n)
    pairs = [generator.permutation(9)[:size] for size in sizes]
    pair = np.concatenate(pairs)
    score = generator.random(len(pair))
    frame = pl.DataFrame(
        {
            "trip": np.repeat(np.arange(n), sizes),
            "rider": [f"r{p // 3}" for p in pair],
            "car": [f"c{p % 3}" for p in pair],
            "pair": pair,
            "score": score,
            "value": np.clip(
                score * (0.4 + 0.06 * pair) + generator.normal(0, 0.1, len(pair)), 0, 1
            ),
        }
    )
    return outrule.Instances.from_table(
        frame, instance="trip", prediction="score", outcome="value", item="pair"
    )


def world(name):
    """Instances, problem and rules."""
    if name.startswith("table"):
        problem = {
            "table best": outrule.BestAction(),
            "table top 1": outrule.TopK(1),
            "table matching": outrule.Matching.between("rider", "car"),
            "table assignment": outrule.Assignment("rider", "car"),
            "table groups": outrule.PartitionMatroid("car"),
        }[name]
        return table(150, 3), problem, outrule.multipliers(9, limit=40)
    if name.startswith("wide"):
        m = int(name.split()[1])
        data = outrule.Instances.from_arrays(*arrays(120, m, 1))
        return data, outrule.TopK(3), outrule.multipliers(m, limit=40)
    if name == "matching of 6":
        data = outrule.Instances.from_arrays(*arrays(150, 15, 2))
        return data, outrule.Matching.complete(6), outrule.multipliers(15, limit=40)
    problem = EXACT[name.removesuffix(" masked")]
    rules = (*outrule.multipliers(6, limit=40), outrule.Fixed(0))
    if name.endswith("masked"):
        return masked(150, 6, 5), problem, rules
    return outrule.Instances.from_arrays(*arrays(150, 6, 4)), problem, rules


WORLDS = [
    *EXACT,
    *(f"{name} masked" for name in EXACT),
    "matching of 6",
    *("table best", "table top 1", "table matching", "table assignment", "table groups"),
    *("wide 62", "wide 63", "wide 64", "wide 65", "wide 256"),
]


class Spied(sources.SameData):
    """Checks the state after every patch of the loop."""

    def begin(self, rules):
        self.rules, self.done, self.first = rules, [], self.prediction.copy()
        return self

    def apply(self, patch, found):
        super().apply(patch, found)
        self.done.append(patch)
        if len(self.done) <= 12 or len(self.done) % 10 == 0:
            check_state(self, self.rules, self.first, self.done)


def plan(source, step, tolerance, rounds):
    return LoopSettings(outrule.Reuse(), step, tolerance, source.part.layout.k, rounds)


@pytest.mark.parametrize("few", [NEVER, 16, ALWAYS])
@pytest.mark.parametrize("name", WORLDS)
def test_the_state_is_right_after_every_patch_of_a_run(name, few, monkeypatch):
    monkeypatch.setattr(incremental, "RECOUNT_SHARE", few)
    instances, problem, rules = world(name)
    part = prepare(instances, problem, rules)
    source = Spied(part, instances.prediction, problem).begin(rules)
    step = outrule.LineSearch()
    boost(source, rules, plan(source, step, 0.005, 40), np.random.default_rng(0))
    assert len(source.done) >= 5


def counted(monkeypatch, calls, owner, name):
    plain = getattr(owner, name)

    def spy(*args):
        calls[name] = calls.get(name, 0) + 1
        return plain(*args)

    monkeypatch.setattr(owner, name, spy)


@pytest.mark.parametrize("name", ["best", "top 1", "top 2", "matching of 4", "assignment"])
@pytest.mark.parametrize("few", [NEVER, 16, ALWAYS])
def test_every_way_to_update_the_audit_is_taken(name, few, monkeypatch):
    predictions, outcomes = arrays(200, 6, 7, extreme=0.02 if few == 16 else 0.5)
    rules = outrule.multipliers(6, limit=40)
    instances = outrule.Instances.from_arrays(predictions, outcomes)
    source = open_source(instances, EXACT[name], rules)
    calls = {}
    monkeypatch.setattr(incremental, "RECOUNT_SHARE", few)
    for owner, method in (
        (incremental.IncrementalAudit, "_count"),
        (incremental.IncrementalAudit, "_count_sets"),
        (overlap, "add_at_items"),
    ):
        counted(monkeypatch, calls, owner, method)
    recounts = []
    plain = incremental.sum_over
    monkeypatch.setattr(
        incremental, "sum_over", lambda *args: (recounts.append(1), plain(*args))[1]
    )
    # Small steps clip few items and move few decisions, large ones many.
    sizes = [0.001, -0.001, 0.05, -0.002, 0.001, -0.7, 0.001, 0.002, 0.9, 0.5, -0.001, 1.0]
    patches = [Patch(test, step) for step in sizes for test in (0, -1, 5, -1)]
    follow(source, rules, patches)
    if few == NEVER:
        assert calls["_count_sets"] > 10
        assert calls["add_at_items"] > 20
        assert not recounts
    elif few == ALWAYS:
        assert calls["_count"] > 5
        assert len(recounts) > 10
    else:
        assert min(calls[way] for way in ("_count", "_count_sets", "add_at_items")) > 0
        assert recounts


def test_two_decisions_without_a_pick_share_nothing():
    # Where neither the rule nor the patched test picks, both hold the padding.
    predictions = np.array([[0.0, 0.0], [0.5, 0.2], [0.0, 0.0], [0.0, 0.9]])
    instances = outrule.Instances.from_arrays(predictions, np.full((4, 2), 0.5))
    rules = outrule.multipliers(2, levels=(0.0, 1.0))
    for problem in (outrule.TopK(1), outrule.Matching([(0, 1), (0, 1)])):
        source = open_source(instances, problem, rules)
        for test, shared in ((0, [2, 0, 1]), (-1, [1, 1, 2])):
            found = source.next_audit([])
            chosen = found.optimiser if test < 0 else source.part.picks[test]
            assert source.incremental._shared(test, chosen).tolist() == shared
        follow(source, rules, [Patch(0, 0.01), Patch(-1, 0.01), Patch(2, -0.02)])


def test_many_small_patches_drift_by_less_than_half_a_unit_each():
    predictions, outcomes = arrays(300, 6, 9)
    rules = outrule.multipliers(6, limit=10)
    instances = outrule.Instances.from_arrays(predictions, outcomes)
    source = open_source(instances, outrule.TopK(2), rules)
    generator = np.random.default_rng(0)
    first, done = source.prediction.copy(), []
    for number in range(600):
        patch = Patch(int(generator.integers(-1, 10)), float(generator.uniform(-0.01, 0.01)))
        source.apply(patch, source.next_audit(done))
        done.append(patch)
        if number % 60 == 59:
            check_state(source, rules, first, done)


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_threads_and_pieces_change_no_bit_of_the_state(n_jobs, monkeypatch):
    monkeypatch.setattr(threads, "n_cores", lambda: 4)
    predictions, outcomes = arrays(700, 6, 11, extreme=0.3)
    rules = outrule.multipliers(6, limit=100)
    instances = outrule.Instances.from_arrays(predictions, outcomes)
    patches = [Patch(t, s) for t, s in ((0, 0.4), (-1, -0.01), (50, 0.02), (-1, 0.3), (0, -1.0))]

    def state():
        source = open_source(instances, outrule.TopK(2), rules)
        for number, patch in enumerate(patches):
            source.apply(patch, source.next_audit(patches[:number]))
        state = source.incremental
        arrays = (state.sums, state.residual, state.prediction)
        return state.squares, *(array.tolist() for array in arrays)

    whole = state()
    monkeypatch.setattr(incremental, "THREAD_INSTANCES", 53)
    monkeypatch.setattr(auditing, "THREAD_PICKS", 16 * 29)
    with threads.using(n_jobs):
        assert state() == whole


# --- with the incremental audit and without it ---------------------------------------------------


class Plain(sources.SameData):
    """Every round a plain audit."""

    incremental = None


def both(monkeypatch, make):
    """What ``make`` gives with the incremental audit, and without."""
    quick = make()
    monkeypatch.setattr(sources, "SameData", Plain)
    monkeypatch.setattr("outrule.estimators.calibrator.SameData", Plain, raising=False)
    return quick, make()


@pytest.mark.parametrize("step", [outrule.LineSearch(), outrule.FixedStep()], ids=repr)
@pytest.mark.parametrize("name", WORLDS)
def test_a_calibrator_finds_the_same_without_the_incremental_audit(name, step, monkeypatch):
    instances, problem, rules = world(name)

    def make():
        return algorithm_one(problem, rules, 0.03 * problem.lay(instances).k, step=step).fit(
            instances
        )

    quick, slow = both(monkeypatch, make)
    assert len(quick.patches_) >= 3
    tests = [[(patch.test, patch.step > 0) for patch in m.patches_] for m in (quick, slow)]
    assert tests[0] == tests[1]
    pairs = (
        (np.asarray(m.predict(instances)) for m in (quick, slow)),
        (m.history_ for m in (quick, slow)),
    )
    np.testing.assert_allclose(*pairs[0], rtol=0, atol=1e-9)
    for one, other in zip(*pairs[1], strict=True):
        assert (one.round, one.test, one.n) == (other.round, other.test, other.n)
        for field in ("violation", "step", "squared_error"):
            assert getattr(one, field) == pytest.approx(getattr(other, field), rel=0, abs=1e-9)
    assert quick.status_ == slow.status_


@pytest.mark.parametrize(
    "check", [outrule.Reuse(alert=0.3, validation=0.3), outrule.PrivateReuse(privacy=1e4)], ids=repr
)
def test_the_other_checks_find_the_same_without_the_incremental_audit(check, monkeypatch):
    predictions, outcomes = arrays(4000, 6, 21)
    rules = outrule.multipliers(6, limit=40)

    def make():
        settings = {"check": check, "random_state": 0, "max_rounds": 60}
        return algorithm_one(outrule.TopK(2), rules, 0.2, **settings).fit(predictions, outcomes)

    quick, slow = both(monkeypatch, make)
    tests = [[(patch.test, patch.step > 0) for patch in m.patches_] for m in (quick, slow)]
    assert tests[0] == tests[1]
    assert len(tests[0]) > 0
    np.testing.assert_allclose(
        quick.predict(predictions), slow.predict(predictions), rtol=0, atol=1e-9
    )


@pytest.mark.parametrize("kind", ["weights", "simplex"])
def test_weights_and_the_simplex_have_no_incremental_audit(kind):
    predictions, outcomes = arrays(30, 3, 0)
    problem, weights = outrule.TopK(1), np.linspace(1, 2, 30)
    if kind == "simplex":
        problem, weights = outrule.Classification(), None
        outcomes = np.eye(3)[np.arange(30) % 3]
    instances = outrule.Instances.from_arrays(predictions, outcomes, weight=weights)
    rules = outrule.multipliers(3, limit=5)
    source = sources.SameData(prepare(instances, problem, rules), instances.prediction, problem)
    assert source.incremental is None


@pytest.mark.parametrize("masked", [False, True])
def test_the_best_action_is_looked_for_again_wherever_it_can_have_changed(masked):
    generator = np.random.default_rng(3)
    predictions, outcomes = generator.integers(0, 9, (2, 500, 6)) / 8
    mask = generator.random((500, 6)) < 0.6 if masked else np.ones((500, 6), dtype=bool)
    mask[:, 2] = True
    data = outrule.Instances.from_arrays(predictions, outcomes, available=mask if masked else None)
    problem, rules = outrule.BestAction(), outrule.multipliers(6, limit=20)
    source = sources.SameData(prepare(data, problem, rules), data.prediction, problem)
    looked_at = []
    for _ in range(200):
        found = source.next_audit(())
        whole = problem.pick(source.prediction, source.part.layout)
        np.testing.assert_array_equal(found.optimiser[0], whole[:, 0])
        before = source.incremental.best.margin.copy()
        # Steps on the grid of the predictions make ties, which only a new look decides rightly.
        step = generator.choice([-1 / 8, 1 / 8, 1 / 64, -1e-3, 1e-4])
        source.apply(Patch(int(generator.integers(-1, len(rules))), float(step)), found)
        looked_at.append((source.incremental.best.margin != before).mean())
    assert min(looked_at) < 0.9


# --- rounding ------------------------------------------------------------------------------------


def exact_violations(source):
    """E<w, y - p> of every test on the predictions as they are, in fractions."""
    part, residual = source.part, []
    for outcome, prediction in zip(part.outcome, source.prediction, strict=True):
        residual.append(Fraction(float(outcome)) - Fraction(float(prediction)))
    optimiser = source.problem.pick(source.prediction, part.layout).T
    chosen = [expand(picks, part.layout).T for picks in part.picks[part.of_rule]]
    places = [part.layout.offsets[:-1] + np.where(row >= 0, row, 0) for row in [*chosen, optimiser]]
    return [
        sum(residual[i] for i in row[marks >= 0].tolist()) / len(part.layout)
        for row, marks in zip(places, [*chosen, optimiser], strict=True)
    ]


def run_loop(source, rules, step, tolerance, rounds):
    generator = np.random.default_rng(0)
    plan = LoopSettings(outrule.Reuse(), step, tolerance, source.part.layout.k, rounds)
    return boost(source, rules, plan, generator)


def coarse(part):
    """The same part with residuals of 20 bits."""
    fixed = (part.instances, part.layout, part.picks, part.of_rule)
    return part_of(*fixed, part.whole._replace(bits=20))


@pytest.mark.parametrize("units", [2.5, 100.5], ids=["refreshed", "tracked"])
@pytest.mark.parametrize("problem", [outrule.BestAction(), outrule.TopK(2)], ids=["one", "two"])
def test_steps_between_two_units_of_the_ledger_add_up_to_no_violation(units, problem):
    k = 2 if isinstance(problem, outrule.TopK) else 1
    predictions = np.tile([0.5, 0.25, 0.1], (4, 1))
    outcomes = predictions + units * np.array([0.0, 0.001, 0.002])
    instances = outrule.Instances.from_arrays(predictions, outcomes)
    rules = [outrule.Fixed(item) for item in range(3)]
    part = coarse(prepare(instances, problem, rules))
    source = sources.SameData(part, instances.prediction, problem)
    tolerance = 2 * k * units * 2.0**-20  # so that every step is so many units long
    found = run_loop(source, rules, outrule.FixedStep(), tolerance, 20_000)
    assert found.status == "converged"
    assert max(map(abs, exact_violations(source))) <= tolerance * (1 + 1e-12) + 2.0**-21 * k


def test_a_step_smaller_than_a_unit_of_the_ledger_is_seen_after_some_rounds():
    instances = outrule.Instances.from_arrays([[0.5]], [[0.5 + 2.0**-18]])
    problem, rules = outrule.BestAction(), [outrule.Fixed(0)]
    part = coarse(prepare(instances, problem, rules))
    source = sources.SameData(part, instances.prediction, problem)
    found = run_loop(source, rules, outrule.FixedStep(), 2.0**-21, 1000)
    assert found.status == "converged"
    assert len(found.patches) == 14  # from 4 units to half a unit, by a quarter each


@pytest.mark.parametrize("low", [0.0, 999_999.0, -1_000_000.0])
def test_the_best_action_is_right_where_rounding_makes_steps_longer(low):
    unit = np.spacing(abs(low + 0.5))
    predictions = np.array([[low + 0.5 + 500 * unit, low + 0.5]])
    instances = outrule.Instances.from_arrays(
        predictions, predictions, value_range=(low, low + 1.0)
    )
    problem, rules = outrule.BestAction(), [outrule.Fixed(0), outrule.Fixed(1)]
    part = prepare(instances, problem, rules)
    best = incremental.BestActions(part, prediction := instances.prediction.copy())
    for _ in range(1000):
        prediction[1] += 0.6 * unit  # which moves it by a whole unit
        best.update(part.picks[1], 0.6 * unit)
        assert best.picks[0, 0] == int(prediction[1] > prediction[0])
    assert best.picks[0, 0] == 1


@pytest.mark.parametrize("step", [outrule.LineSearch(), outrule.FixedStep()], ids=["line", "fixed"])
@pytest.mark.parametrize("epsilon", [1e-2, 1e-8])
def test_values_far_from_zero_or_tiny_ones_are_calibrated_the_same(step, epsilon):
    if isinstance(step, outrule.FixedStep) and epsilon < 1e-3:
        return  # millions of rounds
    generator = np.random.default_rng(4)
    predictions, outcomes = generator.random((2, 60, 4))
    rules = [outrule.Fixed(item) for item in range(4)]
    decided, lengths = [], []
    for low, span in ((0.0, 1.0), (999_999.0, 1.0), (-1e6, 1.0), (0.0, 1e-9), (-3e8, 1e9)):
        high = low + span
        data = outrule.Instances.from_arrays(
            np.clip(low + span * predictions, low, high),
            np.clip(low + span * outcomes, low, high),
            value_range=(low, high),
        )
        problem = outrule.BestAction()
        fitted = algorithm_one(problem, rules, epsilon * span, step=step).fit(data)
        assert fitted.status_ == "converged"
        decided.append(np.asarray(fitted.decide(data)).tolist())
        lengths.append(len(fitted.patches_))
        source = open_source(data, fitted.problem, rules, start=fitted.model_.predict(data))
        worst = float(max(map(abs, exact_violations(source))))
        # Each prediction is a number; sums of them cannot be nearer to the outcomes than these are.
        assert worst <= fitted.tolerance_ + np.spacing(max(abs(low), abs(high))) / 2
    if epsilon > 1e-3:
        assert all(row == decided[0] for row in decided)
        assert max(lengths) == min(lengths)


def test_an_epsilon_below_the_rounding_of_values_far_from_zero_is_refused():
    predictions = np.full((3, 8), 999_999.25)
    data = outrule.Instances.from_arrays(
        predictions, predictions + 0.5, value_range=(999_999.0, 1_000_000.0)
    )
    rules = [outrule.Fixed(0)]
    with pytest.raises(outrule.ArgumentError, match=r"must be at least 7\.5e-09 for values as far"):
        algorithm_one(outrule.TopK(8), rules, 1e-9).fit(data)
    assert algorithm_one(outrule.TopK(8), rules, 7.5e-9).fit(data).status_ == "converged"
