"""The bounds against the paper's own numbers, against each other, and against bad arguments."""

import inspect
import math
import re

import numpy as np
import pytest

from outrule import ArgumentError, theory


def test_tolerance_and_guarantee_are_inverse_of_each_other():
    for epsilon in (1 / 128, 0.1, 0.25, 1.0):
        for ratio in (0.5, 2 / 3, 1.0):
            tau = theory.tolerance(epsilon, ratio)
            assert theory.guarantee(tau, ratio) == pytest.approx(epsilon, rel=1e-15)


def test_an_exact_optimiser_loses_twice_the_tolerance():
    assert theory.tolerance(0.25) == 0.125
    assert theory.tolerance(0.25, ratio=0.5) == pytest.approx(1 / 6)


def test_alpha_of_theorem_3_1_is_half_epsilon_over_the_root_of_the_edges():
    assert theory.alpha_matching(theory.tolerance(0.25), 45) == 0.25 / (2 * math.sqrt(45))


def test_the_three_alphas_agree_when_a_decision_is_one_item():
    tau = theory.tolerance(0.1)
    assert theory.alpha_matching(tau, 1) == theory.alpha_matroid(tau, 1)
    assert theory.alpha_matroid(tau, 1) == theory.alpha_best_action(tau) == tau


def test_the_matroid_alpha_printed_in_section_4_gives_two_epsilon():
    epsilon, rank = 0.25, 5
    printed = epsilon / rank
    assert theory.guarantee(printed * rank) == 2 * epsilon
    assert theory.alpha_matroid(theory.tolerance(epsilon), rank) == printed / 2


@pytest.mark.parametrize(("rank", "n_items"), [(1, 256), (5, 45), (8, 64)])
def test_rounds_in_alpha_and_in_tau_coincide_for_matroids_and_best_action(rank, n_items):
    # In the matroid's alpha the proof of Theorem 3.3 reads 4 r / (rank alpha^2).
    tau = 0.125
    alpha = theory.alpha_matroid(tau, rank)
    ours = theory.rounds(squared_error=n_items, k=rank, tolerance=tau)
    assert ours == pytest.approx(4 * n_items / (rank * alpha**2), rel=1e-12)
    assert theory.fixed_step(tau, rank) == pytest.approx(alpha / 2)


def test_rounds_in_alpha_and_in_tau_differ_for_matching_by_k_over_the_root_of_the_edges():
    tau = 0.125
    for n_nodes in (2, 3, 10, 50):
        k, m = n_nodes // 2, n_nodes * (n_nodes - 1) // 2
        alpha = theory.alpha_matching(tau, m)
        paper = 4 * m / (math.sqrt(m) * alpha**2)
        ours = theory.rounds(squared_error=m, k=k, tolerance=tau)
        assert ours == pytest.approx(paper * k / math.sqrt(m), rel=1e-12)
        assert ours <= paper * (1 + 1e-12)
        assert theory.fixed_step(tau, k) >= alpha / 2 * (1 - 1e-12)
    # They coincide where k = sqrt(m): one edge (n = 2), or any problem with m = k^2.
    alpha = theory.alpha_matching(tau, 16)
    assert theory.rounds(squared_error=1, k=4, tolerance=tau) == 4 / (4 * alpha**2)


def test_the_batch_size_of_the_paper_is_ours_with_the_root_of_the_edges_for_k():
    tau, m, delta, n_tests, n_rounds = 0.125, 64, 0.05, 1025, 1000
    alpha = theory.alpha_matching(tau, m)
    paper = 8 * math.log(2 * n_tests * n_rounds / delta) / alpha**2
    ours = theory.batch_size(k=8, tolerance=tau, n_tests=n_tests, rounds=n_rounds, delta=delta)
    assert ours == math.ceil(paper)
    # Hoeffding, read backwards: 2 |W| exp(-N alpha^2 / 8) <= delta / T.
    assert 2 * n_tests * math.exp(-ours * alpha**2 / 8) <= delta / n_rounds


def test_matching_at_a_quarter_needs_hundreds_of_times_the_samples_consumed():
    bound = theory.worst_case_samples_matching(10, 1 / 4, 1024)
    assert bound == pytest.approx(10**5 * 2**8 * math.log(1024), rel=1e-12)
    # Natural logarithm; with log2 the ratio is 976.6. Both are "hundreds".
    assert bound / (2**8 * 1024) == pytest.approx(676.9, abs=0.05)


def test_matching_at_an_eighth_needs_thousands_of_times_the_samples_consumed():
    bound = theory.worst_case_samples_matching(10, 1 / 8, 1024)
    assert bound == pytest.approx(10**5 * 2**12 * math.log(1024), rel=1e-12)
    # Natural logarithm; with log2 the ratio is 3906. Both are "thousands".
    assert bound / (2**10 * 1024) == pytest.approx(2707.6, abs=0.05)


def test_best_action_with_256_items_has_256_times_1024_rounds():
    # The paper puts tau = epsilon here and rounds 256 to "approximately 260".
    printed = theory.rounds(squared_error=256, k=1, tolerance=1 / 16)
    assert printed == 4 * 256 * 2**8
    assert printed / 1024 == 256
    # The tolerance of Theorem 3.1 is half of it, and the bound four times as large.
    exact = theory.rounds(squared_error=256, k=1, tolerance=theory.tolerance(1 / 16))
    assert exact == 4 * printed


def test_explicit_constants_are_above_the_order_that_the_paper_calls_at_least():
    for epsilon in (1 / 4, 1 / 8):
        order = theory.worst_case_samples_matching(10, epsilon, 1024)
        tau = theory.tolerance(epsilon)
        full = theory.fresh_samples(squared_error=45, k=5, tolerance=tau, n_tests=1025, delta=0.05)
        assert full > order


def test_rounds_are_the_squared_error_over_the_drop_of_one_round():
    tau, k, r = 0.1, 5, 3.0
    for alert in (0.3, 0.5, 0.75, 1.0):
        step = theory.fixed_step(tau, k)
        drop = theory.potential_drop(violation=alert * tau, step=step, mean_size=k)
        found = theory.rounds(squared_error=r, k=k, tolerance=tau, alert=alert)
        assert found == math.ceil(r / drop - 1e-6)
        step = theory.line_search_step(alert * tau, k)
        drop = theory.potential_drop(violation=alert * tau, step=step, mean_size=k)
        found = theory.rounds_line_search(squared_error=r, k=k, tolerance=tau, alert=alert)
        assert found == math.ceil(r / drop - 1e-6)


def test_the_line_search_has_the_largest_drop_of_all_steps():
    for violation, size in ((0.2, 1.0), (-0.7, 3.5), (1e-3, 0.01)):
        best = theory.line_search_step(violation, size)
        drop = theory.potential_drop(violation=violation, step=best, mean_size=size)
        assert drop == pytest.approx(violation**2 / size)
        for step in np.linspace(0, 3 * best, 31):
            other = theory.potential_drop(violation=violation, step=float(step), mean_size=size)
            assert other <= drop + 1e-15


def test_the_line_search_bound_equals_the_fixed_one_at_a_half_and_is_smaller_above():
    half = {"squared_error": 2.0, "k": 3, "tolerance": 0.05}
    assert theory.rounds(**half) == theory.rounds_line_search(**half) == 9600
    for alert in (0.6, 0.75, 1.0):
        assert theory.rounds_line_search(**half, alert=alert) < theory.rounds(**half, alert=alert)


def test_the_drop_is_that_of_the_squared_distance():
    # One instance, three items, no projection in the way: an exact identity.
    p, truth, mark, step = np.array([0.5, 0.5, 0.5]), np.array([0.9, 0.6, 0.1]), [1, 1, 0], 0.1
    before = ((p - truth) ** 2).sum()
    after = ((p + step * np.array(mark) - truth) ** 2).sum()
    violation = float(np.dot(mark, truth - p))
    drop = theory.potential_drop(violation=violation, step=step, mean_size=2)
    assert before - after == pytest.approx(drop)


def test_flagging_at_a_half_with_margin_a_half_may_raise_the_potential():
    tau, k = 0.125, 5
    flag, margin = 0.5, 0.5
    violation = (flag - margin) * tau + 1e-6
    step = theory.fixed_step(tau, k)
    assert theory.potential_drop(violation=violation, step=step, mean_size=k) < 0


def test_flagging_at_three_quarters_with_margin_a_quarter_keeps_the_count_of_rounds():
    tau, k, r = 0.125, 5, 45.0
    flag, margin = 0.75, 0.25
    assert flag + margin == 1
    step = theory.fixed_step(tau, k)
    drop = theory.potential_drop(violation=(flag - margin) * tau, step=step, mean_size=k)
    assert theory.rounds(squared_error=r, k=k, tolerance=tau) == pytest.approx(r / drop)


def test_a_line_search_from_an_estimate_within_a_quarter_drops_three_sixteenths():
    # In units of tau and k: u is the estimate, v the truth; the drop is u (2 v - u).
    estimate, deviation = np.meshgrid(np.linspace(0.75, 3, 91), np.linspace(-0.25, 0.25, 21))
    truth = estimate + deviation
    drop = 2 * estimate * truth - estimate**2
    assert drop.min() == pytest.approx(3 / 16)
    as_drop = theory.potential_drop(violation=0.5, step=0.75, mean_size=1)
    assert as_drop == pytest.approx(3 / 16)


def test_a_quarter_of_margin_costs_four_times_the_batch_of_a_half():
    sizes = {"k": 5, "tolerance": 0.125, "n_tests": 1025, "rounds": 57600, "delta": 0.05}
    half, quarter = theory.batch_size(**sizes), theory.batch_size(**sizes, margin=0.25)
    assert quarter == pytest.approx(4 * half, abs=4)
    log = math.log(2 * 57600 * 1025 / 0.05)
    assert quarter == math.ceil(32 * 25 * log / 0.125**2)


def test_the_batch_size_keeps_its_promise_on_coin_flips():
    # k = 1, an unbiased test in {-1, 1}: the widest variable that Hoeffding allows.
    size = theory.batch_size(k=1, tolerance=0.5, n_tests=1, rounds=1, delta=0.1)
    flips = 2 * np.random.default_rng(0).binomial(size, 0.5, 20_000) / size - 1
    assert (np.abs(flips) >= 0.25).mean() <= 0.1


def test_fresh_samples_are_rounds_times_batch():
    tau, r, k = 0.125, 4.0, 2
    n_rounds = theory.rounds(squared_error=r, k=k, tolerance=tau)
    size = theory.batch_size(k=k, tolerance=tau, n_tests=11, rounds=n_rounds, delta=0.1)
    found = theory.fresh_samples(squared_error=r, k=k, tolerance=tau, n_tests=11, delta=0.1)
    assert found == n_rounds * size


def test_a_perfect_start_needs_one_batch_and_no_round():
    assert theory.rounds(squared_error=0, k=1, tolerance=0.1) == 0
    found = theory.fresh_samples(squared_error=0, k=1, tolerance=0.1, n_tests=2, delta=0.1)
    assert found == theory.batch_size(k=1, tolerance=0.1, n_tests=2, rounds=1, delta=0.1)


@pytest.mark.parametrize(("k", "tolerance", "margin"), [(1, 0.125, 0.25), (5, 0.02, 0.1)])
def test_the_private_budget_uses_up_margin_and_delta(k, tolerance, margin):
    # Jung et al. 2020, in units of the range 2 k: a + (exp(e) - 1) + c + 2 d, and b / c + d' / d.
    delta, unit = 0.05, margin * tolerance / (2 * k)
    budget = theory.private_budget(k=k, tolerance=tolerance, delta=delta, margin=margin)
    c = d = 0.04 * unit
    spent = budget.noise / (2 * k) + math.expm1(budget.privacy) + c + 2 * d
    assert spent == pytest.approx(unit, rel=1e-12)
    assert budget.failure / c + budget.privacy_delta / d == pytest.approx(delta, rel=1e-12)


def test_the_private_samples_keep_the_noise_small_in_all_rounds():
    size = {"k": 1, "tolerance": 0.5, "n_tests": 8, "rounds": 4, "delta": 0.05}
    n = theory.private_samples(**size)
    budget = theory.private_budget(k=1, tolerance=0.5, delta=0.05)
    look = theory.budget_per_look(budget.privacy, budget.privacy_delta, 4)
    logs = 3 * math.log(2 * 4 / budget.failure) + 2 * math.log(2 * 8)
    assert 2 / n / look * logs == pytest.approx(budget.noise, rel=1e-5)
    # Half of it would be too little noise for the budget; the order of section 3.3 is n^-1.
    assert theory.private_samples(**size | {"tolerance": 0.25}) == pytest.approx(4 * n, rel=0.15)


def test_the_private_samples_grow_with_the_root_of_the_rounds_and_fresh_ones_with_the_rounds():
    few, many = (
        theory.private_samples(k=1, tolerance=0.1, n_tests=9, rounds=t, delta=0.1)
        for t in (100, 10_000)
    )
    assert 10 < many / few < 15  # the root, and a logarithm


def test_commit_samples_keep_their_promise_on_coin_flips():
    epsilon, n_rules, delta = 0.5, 8, 0.1
    size = theory.commit_samples(k=1, epsilon=epsilon, n_rules=n_rules, delta=delta)
    assert size == math.ceil(2 * math.log(2 * n_rules / delta) / epsilon**2)
    values = np.random.default_rng(0).binomial(size, 0.5, (20_000, n_rules)) / size
    assert (np.abs(values - 0.5).max(axis=1) >= epsilon / 2).mean() <= delta


def test_adaptive_samples_have_the_leading_factors_of_sections_3_and_4():
    def growth(**change):
        start = {"squared_error": 1.0, "size": 4, "epsilon": 0.5, "n_rules": 64, "delta": 0.1}
        return theory.adaptive_samples(**(start | change))

    assert growth(squared_error=4.0) == pytest.approx(2 * growth(), rel=1e-3)
    logs = math.log(4 * 64 / 0.5) * math.log(4 / (0.5 * 0.1)) ** 1.5
    assert growth() == math.ceil(4**2.5 * logs / 0.5**3)


def test_the_printed_orders():
    log = math.log(1024)
    assert theory.worst_case_samples_matching(10, 0.5, 1024) == pytest.approx(1.6e6 * log)
    adaptive = theory.worst_case_samples_matching(10, 0.5, 1024, adaptive=True)
    assert adaptive == pytest.approx(10**3.5 * 8 * log)
    adaptive = theory.worst_case_samples_best_action(256, 0.5, 1024, adaptive=True)
    assert adaptive == pytest.approx(16 * 8 * log)
    assert theory.worst_case_samples_best_action(256, 0.5, 1024) == pytest.approx(4096 * log)
    adaptive = theory.worst_case_samples_rejection(0.5, 1024, adaptive=True)
    assert adaptive == pytest.approx(8 * log)
    assert theory.worst_case_samples_rejection(0.5, 1024) == pytest.approx(16 * log)
    matroid = {"n_items": 64, "rank": 4, "epsilon": 0.5, "n_rules": 1024}
    adaptive = theory.worst_case_samples_matroid(**matroid, adaptive=True)
    assert adaptive == pytest.approx(8 * 32 * 8 * log)
    assert theory.worst_case_samples_matroid(**matroid) == pytest.approx(64 * 64 * 16 * log)
    assert theory.worst_case_commit_samples(10, 0.5, 1024) == pytest.approx(400 * log)


def test_the_orders_are_those_of_the_explicit_bounds():
    # k^3 r / tau^4 with fresh batches, k^2 / epsilon^2 to commit, apart from logarithms.
    def fresh(k, r, tau):
        found = theory.fresh_samples(squared_error=r, k=k, tolerance=tau, n_tests=100, delta=0.05)
        n_rounds = theory.rounds(squared_error=r, k=k, tolerance=tau)
        return found / math.log(2 * n_rounds * 100 / 0.05)

    assert fresh(8, 64, 0.05) / fresh(4, 16, 0.05) == pytest.approx(2**5, rel=1e-3)
    assert fresh(1, 4, 0.01) / fresh(1, 4, 0.02) == pytest.approx(2**4, rel=1e-3)
    rank = {"n_items": 10, "epsilon": 0.5, "n_rules": 9}
    orders = [theory.worst_case_samples_matroid(**rank, rank=rank_) for rank_ in (2, 4)]
    assert orders[1] / orders[0] == pytest.approx(2**3)
    assert fresh(4, 1, 0.05) / fresh(2, 1, 0.05) == pytest.approx(2**3, rel=1e-3)


FRESH = {"squared_error": 4.0, "k": 2, "tolerance": 0.1, "n_tests": 100, "delta": 0.05}
BATCH = {"k": 2, "tolerance": 0.1, "n_tests": 100, "rounds": 50, "delta": 0.05}
ADAPTIVE = {"squared_error": 4.0, "size": 5, "epsilon": 0.2, "n_rules": 99, "delta": 0.05}
COMMIT = {"k": 2, "epsilon": 0.2, "n_rules": 99, "delta": 0.05}
LOOP = {"squared_error": 4.0, "k": 2, "tolerance": 0.1, "alert": 0.5}
MATROID = {"n_items": 20, "rank": 3, "epsilon": 0.2, "n_rules": 99}
NODES = {"n_nodes": 6, "epsilon": 0.2, "n_rules": 99}
ITEMS = {"n_items": 6, "epsilon": 0.2, "n_rules": 99}
SIZE = {"size": 6, "epsilon": 0.2, "n_rules": 99}

HARDER = {
    "squared_error": 8.0,
    "k": 4,
    "tolerance": 0.05,
    "n_tests": 1000,
    "rounds": 500,
    "delta": 0.001,
    "epsilon": 0.1,
    "n_rules": 999,
    "size": 9,
    "alert": 0.4,
    "margin": 0.2,
    "n_items": 40,
    "rank": 7,
    "n_nodes": 12,
}

BOUNDS = [
    (theory.rounds, LOOP),
    (theory.rounds_line_search, LOOP),
    (theory.batch_size, BATCH | {"margin": 0.5}),
    (theory.fresh_samples, FRESH | {"margin": 0.5, "alert": 0.5}),
    (theory.private_samples, BATCH | {"margin": 0.5}),
    (theory.adaptive_samples, ADAPTIVE),
    (theory.commit_samples, COMMIT),
    (theory.worst_case_samples_matching, NODES),
    (theory.worst_case_samples_best_action, ITEMS),
    (theory.worst_case_samples_rejection, {"epsilon": 0.2, "n_rules": 99}),
    (theory.worst_case_samples_matroid, MATROID),
    (theory.worst_case_commit_samples, SIZE),
]


@pytest.mark.parametrize(
    ("bound", "arguments"), BOUNDS, ids=lambda part: getattr(part, "__name__", "")
)
def test_every_bound_grows_when_any_one_argument_gets_harder(bound, arguments):
    for name in arguments:
        assert bound(**(arguments | {name: HARDER[name]})) > bound(**arguments), name


@pytest.mark.parametrize(
    "bound",
    [
        theory.rounds,
        theory.rounds_line_search,
    ],
)
def test_whole_counts_are_not_rounded_up_by_the_last_bit(bound):
    for tenth in range(1, 11):
        found = bound(squared_error=tenth / 10, k=1, tolerance=0.1)
        assert found == 40 * tenth


# --- bad arguments -------------------------------------------------------------------------------

GOOD = {
    theory.tolerance: {"epsilon": 0.1, "ratio": 0.5},
    theory.guarantee: {"tolerance": 0.1, "ratio": 0.5},
    theory.alpha_matching: {"tolerance": 0.1, "n_items": 4},
    theory.alpha_matroid: {"tolerance": 0.1, "rank": 4},
    theory.alpha_best_action: {"tolerance": 0.1},
    theory.fixed_step: {"tolerance": 0.1, "k": 1},
    theory.potential_drop: {"violation": 0.1, "step": 0.1, "mean_size": 1},
    theory.line_search_step: {"violation": 0.1, "mean_size": 1},
    theory.private_budget: {"k": 1, "tolerance": 0.1, "delta": 0.05, "margin": 0.25},
    theory.budget_per_look: {"privacy": 0.1, "delta": 0.05, "rounds": 3},
    **dict(BOUNDS),
}

IN_UNIT = ("a float in (0, 1]", [0, -0.1, 1.5, math.nan, "0.1"])
COUNT = ("an int of at least 1", [0, 2.5, True])
NOT_NEGATIVE = ("a float of at least 0", [-0.1])
BAD = {
    "epsilon": IN_UNIT,
    "tolerance": ("a float greater than 0", [0, -0.1, math.inf, math.nan, "0.1"]),
    "ratio": IN_UNIT,
    "margin": IN_UNIT,
    "delta": ("a float in (0, 1)", [0, 1]),
    "alert": ("a float in (0.25, 1]", [0.25, 1.1]),
    "squared_error": NOT_NEGATIVE,
    "step": NOT_NEGATIVE,
    "violation": ("a finite float", [math.inf, None]),
    "mean_size": ("a float greater than 0", [0, -2.0]),
    "privacy": ("a float greater than 0", [0, -1.0, math.inf]),
    **dict.fromkeys(("k", "n_items", "n_nodes", "rank", "size", "rounds"), COUNT),
    **dict.fromkeys(("n_rules", "n_tests"), COUNT),
}


def faults(function, name):
    if function is theory.tolerance and name == "epsilon":
        return BAD["tolerance"]
    if function is theory.rounds_line_search and name == "alert":
        return IN_UNIT
    if function.__name__.startswith("worst_case") and name == "n_rules":
        return "an int of at least 2", [1]
    return BAD[name]


@pytest.mark.parametrize("function", GOOD, ids=lambda function: function.__name__)
def test_a_bad_argument_is_named_with_its_function(function):
    function(**GOOD[function])
    for name in GOOD[function]:
        expected, values = faults(function, name)
        for value in values:
            message = (
                f"The '{name}' argument of {function.__name__} must be {expected}. "
                f"Got {value!r} instead."
            )
            with pytest.raises(ArgumentError, match=re.escape(message)):
                function(**(GOOD[function] | {name: value}))


def test_every_argument_of_every_public_function_is_tested_with_bad_values():
    public = {
        value
        for name, value in vars(theory).items()
        if inspect.isfunction(value) and value.__module__ == theory.__name__ and name[0] != "_"
    }
    assert public == set(GOOD)
    for function, arguments in GOOD.items():
        assert set(arguments) == set(inspect.signature(function).parameters) - {"adaptive"}
