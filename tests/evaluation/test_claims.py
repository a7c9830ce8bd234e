from dataclasses import replace
from functools import cache

import made_up
import polars as pl
import pytest

from outrule.evaluation.claims import Claim, Verdict, judge, to_markdown

PAPER = [
    "error",
    "improvement",
    "gap",
    "guarantee",
    "matching",
    "large",
    "small",
    "noise",
    "faster",
]
OURS = ["bound", "line search", "equal samples", "commit", "worlds"]
NAMES = [*PAPER, *OURS]
BRIEF = {"regime": "brief"}


def where(**values):
    return pl.all_horizontal(*(pl.col(name) == value for name, value in values.items()))


def change(results, name, column, value, **values):
    """Set a column of some rows."""
    old = getattr(results, name)
    new = pl.when(where(**values) if values else True).then(value).otherwise(pl.col(column))
    return replace(results, **{name: old.with_columns(new.cast(old.schema[column]).alias(column))})


def keep(results, names, condition):
    """Drop the other rows."""
    return replace(
        results, **{name: getattr(results, name).filter(condition) for name in names.split()}
    )


@cache
def paper():
    """Results in which everything that the paper says is so."""
    results = made_up.results(
        problems=("best-action", "matching", "rejection"),
        items=(4, 256),
        epsilons=tuple(2.0**-i for i in range(1, 6)),
        batch_sizes=(64, 256, 1024),
        rounds=1024,
    )
    for m, error in ((4, 0.03), (256, 0.04)):
        results = change(results, "units", "squared_error", error, n_items=m)
    best = pl.when(epsilon=1 / 8).then(0.7).otherwise(0.6)
    fall = 0.001 + 0.03 * (-pl.col("round") * pl.col("epsilon") / 16).exp()
    for name, column, value, values in (
        ("runs", "value", best, {}),
        ("runs", "gap", 0.02, {"check": "fresh batches"}),
        ("runs", "improvement", 0.05, {"check": "fresh batches"}),
        ("runs", "n_patches", 900, {"check": "fresh batches"}),
        ("runs", "last_patch", 1024, {"check": "fresh batches"}),
        ("runs", "n_patches", 20, {"epsilon": 1 / 2, "batch_size": 1024}),
        ("runs", "last_patch", 30, {"epsilon": 1 / 2, "batch_size": 1024}),
        ("trace", "squared_error", fall, {}),
    ):
        results = change(results, name, column, value, **values)
    return keep(results, "trace", (pl.col("round") <= 96) | (pl.col("round") % 128 == 0))


@cache
def confirmed():
    """What is said of them."""
    return dict(zip(NAMES, judge(paper()), strict=True))


def find(results, name):
    return judge(results)[NAMES.index(name)]


FAULTS = {
    "error": ("units", "squared_error", 0.02, {"n_items": 256}),
    "improvement": ("runs", "improvement", -0.1, {"epsilon": 1 / 2, "batch_size": 1024}),
    "gap": ("runs", "gap", -0.1, {"epsilon": 1 / 8, "batch_size": 1024, "n_items": 4}),
    "guarantee": (
        "runs",
        "gap",
        -0.07,
        {"epsilon": 1 / 8, "batch_size": 1024, "n_items": 256, "seed": 1},
    ),
    "matching": (
        "runs",
        "gap",
        -0.01,
        {"epsilon": 1 / 2, "batch_size": 256, "problem": "matching"},
    ),
    "large": ("runs", "last_patch", 129, {"epsilon": 1 / 2, "batch_size": 1024, "n_items": 4}),
    "small": ("runs", "last_patch", 896, {"epsilon": 1 / 32, "batch_size": 1024, "n_items": 4}),
    "noise": ("runs", "n_patches", 20, {"problem": "matching", "batch_size": 64}),
    "faster": ("trace", "squared_error", 0.001, {"epsilon": 1 / 32, "n_items": 4}),
}

LACKS = {
    "error": ("units runs trace", pl.col("n_items") != 256),
    "improvement": ("runs", pl.col("last_patch") == 1024),
    "gap": ("runs", pl.col("epsilon") < 1 / 16),
    "guarantee": ("runs", pl.col("epsilon") != 1 / 16),
    "matching": ("runs", pl.col("epsilon") != 1 / 4),
    "large": ("runs", pl.col("epsilon") == 1 / 2),
    "small": ("runs", pl.col("epsilon") == 1 / 32),
    "noise": ("runs", pl.col("batch_size") == 64),
    "faster": ("trace", pl.col("step") == "line search"),
    "bound": ("trace", pl.col("round") == 0),
    "line search": ("runs", pl.col("step") == "fixed"),
    "equal samples": ("runs", pl.col("check") == "fresh batches"),
    "commit": ("runs", pl.col("check") == "fresh batches"),
    "worlds": ("runs", pl.col("problem") == "matching"),
}


def test_verdicts_of_results_in_which_the_paper_is_right():
    verdicts = {name: claim.verdict for name, claim in confirmed().items()}
    assert verdicts == dict.fromkeys(PAPER, Verdict.CONFIRMED) | dict.fromkeys(
        OURS, Verdict.MEASURED
    )


@pytest.mark.parametrize("name", PAPER)
def test_one_change_turns_the_verdict(name):
    table, column, value, values = FAULTS[name]
    assert (
        find(change(paper(), table, column, value, **values), name).verdict == Verdict.NOT_CONFIRMED
    )
    in_one = find(change(paper(), table, column, value, **values, **BRIEF), name)
    assert in_one.verdict == Verdict.DEPENDS
    assert in_one.measured["converged"] == confirmed()[name].measured["converged"]
    assert in_one.measured["brief"] != confirmed()[name].measured["brief"]


@pytest.mark.parametrize("name", NAMES)
def test_what_the_tables_do_not_hold_is_not_run(name):
    table, condition = LACKS[name]
    claim = find(keep(paper(), table, condition), name)
    assert claim.verdict == Verdict.NOT_RUN
    assert claim.measured == {"brief": "Not run.", "converged": "Not run."}


def test_a_regime_without_results_leaves_the_verdict_to_the_other():
    claims = judge(keep(paper(), "runs trace", pl.col("regime") == "brief"))
    for name, claim in zip(NAMES[1:], claims[1:], strict=True):
        assert claim.verdict == confirmed()[name].verdict
        assert claim.measured["converged"] == "Not run."


def test_the_worked_examples_are_judged_after_1024_rounds_only():
    short = replace(paper(), grid=replace(paper().grid, rounds=512))
    assert find(short, "guarantee").verdict == Verdict.NOT_RUN
    assert find(short, "matching").verdict == Verdict.NOT_RUN


def test_a_run_without_a_patch_has_not_converged():
    results = change(paper(), "runs", "improvement", 0.0, n_items=4, epsilon=1 / 2, batch_size=1024)
    assert find(results, "improvement").verdict == Verdict.NOT_CONFIRMED
    for column in ("n_patches", "last_patch"):
        results = change(results, "runs", column, 0, n_items=4, epsilon=1 / 2, batch_size=1024)
    assert find(results, "improvement").verdict == Verdict.CONFIRMED
    assert "2 of 90 runs made no patch" in find(results, "improvement").measured["brief"]


def test_a_gap_within_two_standard_errors_of_zero_is_not_below_it():
    results = change(paper(), "runs", "gap_error", 0.01 * 2**0.5)
    near = change(results, "runs", "gap", -0.0199, epsilon=1 / 4, batch_size=1024)
    assert find(near, "gap").verdict == Verdict.CONFIRMED
    far = change(results, "runs", "gap", -0.0201, epsilon=1 / 4, batch_size=1024)
    assert find(far, "gap").verdict == Verdict.NOT_CONFIRMED
    small = change(results, "runs", "gap", -0.5, epsilon=1 / 32, batch_size=1024)
    assert find(small, "gap").verdict == Verdict.CONFIRMED
    said = find(small, "gap").measured["brief"]
    assert "Below: m = 4: 1/32; m = 256: 1/32; matching: 1/32 (0 of these" in said


def test_sentence_of_the_initial_error():
    results = change(paper(), "units", "squared_error", 0.035, n_items=4, seed=1)
    assert find(results, "error").measured["brief"] == (
        "Squared error per entry, mean and range over 2 seeds: m = 4: 0.033 (0.030 to 0.035), "
        "m = 256: 0.040 (0.040 to 0.040)."
    )


def test_sentence_of_the_guarantee_names_the_bound_of_the_paper():
    results = change(paper(), "units", "plain", 0.4, n_items=256)
    results = change(results, "units", "best_rule", 0.5, n_items=256)
    results = change(results, "trace", "value", 0.6, n_items=256)
    late = pl.when(pl.col("round") <= 80).then(0.43).otherwise(0.6)
    results = change(results, "trace", "value", late, n_items=256, epsilon=1 / 8, seed=1)
    results = change(results, "runs", "gap", 0.1, n_items=256, seed=0)
    assert find(results, "guarantee").measured["brief"] == (
        "Gap before the first round -0.100, over 2 seeds. "
        "Tolerance 1/32: gap 0.060 (0.020 to 0.100), stays above -1/16 after 8 rounds, last "
        "patch in round 1,024; the bound is 1,048,576 rounds, or 41,944 with the measured error. "
        "Tolerance 1/16: gap 0.060 (0.020 to 0.100), stays above -1/16 after 88 rounds, last "
        "patch in round 1,024; the bound is 262,144 rounds, or 10,486 with the measured error."
    )


def test_a_guarantee_that_is_lost_in_the_end_is_said_to_be():
    results = change(paper(), "trace", "value", -1.0, n_items=256, round=1024, epsilon=1 / 16)
    said = find(results, "guarantee").measured["brief"]
    assert "stays above -1/16 after more than 1,024 rounds" in said


def test_sentence_of_the_noise():
    results = change(
        paper(), "runs", "value", 2.5, problem="matching", epsilon=1 / 2, batch_size=64
    )
    results = change(results, "runs", "n_patches", 901, problem="matching", batch_size=64, seed=0)
    assert find(results, "noise").measured["converged"] == (
        "Epsilon 1/2, over 2 seeds: 900.5 patches and a value of 2.500 (2.500 to 2.500) at batch "
        "64, 20 patches and a value of 0.600 (0.600 to 0.600) at batch 1,024; the value at the "
        "small batch is not lower."
    )


def test_sentence_of_the_committed_rule_has_losses_beside_wins():
    results = keep(paper(), "runs units trace", where(problem="matching"))
    results = keep(results, "runs", pl.col("n_samples") == 64 * 1024)
    results = change(results, "runs", "gap", -0.01, check="commit to the best rule")
    results = change(results, "runs", "gap", -0.02, check="fresh batches", epsilon=1 / 2)
    results = change(results, "runs", "gap", -0.01, check="fresh batches", epsilon=1 / 4)
    assert find(results, "commit").measured["brief"] == (
        "The committed rule has a gap of -0.010 to -0.010 over 2 seeds. Of 10 calibrated runs on "
        "the same number of samples, 6 are above it and 2 below; above by epsilon: 1/2: 0 of 2; "
        "1/4: 0 of 2; 1/8: 2 of 2; 1/16: 2 of 2; 1/32: 2 of 2."
    )


def test_refusals_and_losses_of_private_reuse_are_counted():
    private = pl.col("check").is_in(("private reuse", "fresh batches"))
    results = keep(paper(), "runs", private & (pl.col("n_samples") == 64 * 1024))
    refused = {"check": "private reuse", "epsilon": 1 / 16}
    results = change(results, "runs", "status", pl.lit("refused"), **refused)
    results = change(results, "runs", "gap", None, **refused)
    for problem, gap in (("best-action", 0.0), ("matching", 0.03)):
        values = {"check": "private reuse", "epsilon": 1 / 4, "problem": problem}
        results = change(results, "runs", "gap", gap, **values)
    assert find(results, "equal samples").measured["brief"] == (
        "Median gap, and that of fresh batches with the fixed step on the same number of samples, "
        "for 1 seed: private reuse (fixed) too noisy to run in 4 of 8, otherwise 0.005 and 0.020 "
        "(differences -0.020 to 0.010), higher in 1, lower in 3."
    )


def test_a_small_run_is_judged_without_an_exception():
    one = made_up.results(
        problems=("rejection",), regimes=("brief",), seeds=(3,), epsilons=(0.3,), rounds=8
    )
    verdicts = {name: claim.verdict for name, claim in zip(NAMES, judge(one), strict=True)}
    assert all(verdicts[name] == Verdict.NOT_RUN for name in PAPER)
    assert verdicts["worlds"] == Verdict.MEASURED
    assert "best 3/10 " in find(one, "worlds").measured["brief"]
    none = replace(one, units=one.units.head(0), runs=one.runs.head(0), trace=one.trace.head(0))
    assert {claim.verdict for claim in judge(none)} == {Verdict.NOT_RUN}


def test_the_table_has_a_row_for_each_claim():
    lines = to_markdown(list(confirmed().values())).splitlines()
    assert lines[:2] == [
        "| claim | source | brief | converged | verdict |",
        "| --- | --- | --- | --- | --- |",
    ]
    assert len(lines) == 2 + len(NAMES)
    assert all(line.count("|") == 6 for line in lines)


def test_the_table_escapes_bars_and_line_breaks():
    claim = Claim("a | b", "c\nd", {"brief": "e"}, Verdict.CONFIRMED)
    assert to_markdown([claim]).splitlines()[2] == "| a \\| b | c d | e | confirmed |"
