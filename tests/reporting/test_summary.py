"""The summary: its figures are those of certificate and calibrator, and JSON gives them back."""

import json
import math
import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import polars as pl
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import outrule
from letter import algorithm_one
from outrule import (
    ArgumentError,
    BestAction,
    DataError,
    Fixed,
    FreshBatches,
    Instances,
    Isotonic,
    Multiplier,
    Oracle,
    Reuse,
    Reweight,
    certify,
)
from outrule.proof.answer import Answer
from outrule.reporting.charts import MINUS
from outrule.reporting.summary import check_summary, of_certificate, summarise
from outrule.rules.descriptions import describe, full_name

WORLD = outrule.worlds.Quadratic(4, seed=0)
RULES = (
    *outrule.multipliers(4, limit=12),
    Fixed(2),
    Reweight("the opposite", lambda v: -v.predictions),
)


trained = cache(outrule.worlds.brief_predictor)


def draw(n, seed):
    return Instances.from_arrays(*outrule.worlds.draw(WORLD, trained(WORLD), n, seed=seed))


def fitted(training, **changes):
    settings = {"epsilon": 0.02, "random_state": 0} | changes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return algorithm_one(BestAction(), RULES, **settings).fit(training)


@pytest.fixture(scope="module")
def training():
    return draw(2_000, 1)


@pytest.fixture(scope="module")
def held_out():
    return draw(1_000, 2)


@pytest.fixture(scope="module")
def calibrator(training):
    return fitted(training)


@pytest.fixture(scope="module")
def certificate(calibrator, held_out):
    return certify(calibrator, held_out)


@pytest.fixture(scope="module")
def summary(calibrator, held_out):
    return summarise(calibrator, held_out)


def table(seed, n=60):
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "trip": np.repeat(np.arange(n), 3),
            "day": np.repeat(np.arange(n) // 5, 3),
            "driver": np.tile(["x", "y", "z"], n),
            "score": rng.random(3 * n),
            "km": 5 * rng.random(3 * n),
            "completed": rng.integers(0, 2, 3 * n),
        }
    )


def trips(seed, n=60):
    return Instances.from_table(
        table(seed, n),
        instance="trip",
        prediction="score",
        outcome="completed",
        item="driver",
        cluster="day",
    )


def test_json_gives_the_same_summary_back(summary):
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_the_verdict_is_that_of_the_certificate(summary, certificate):
    found = summary["verdict"]
    for name in ("verdict", "epsilon", "margin", "confidence", "gap", "gap_lower", "closest_rule"):
        assert found[name] == getattr(certificate, name)
    for name in ("needed", "more", "n_instances", "n_observations", "unit", "verdicts"):
        assert found[name] == getattr(certificate, name)
    assert found["value"] == vars(certificate.value)
    assert found["approximate"]["gap"] == certificate.approximate["gap"]._asdict()
    assert found["improvement"] == certificate.improvement._asdict()


def test_the_five_values_are_those_of_the_certificate(summary, certificate):
    names = ["plain", "best_rule", "isotonic", "calibrated", "oracle"]
    assert [row["name"] for row in summary["values"]] == names
    for row in summary["values"]:
        estimate = getattr(certificate, row["name"])
        assert (row["mean"], row["lower"], row["upper"]) == tuple(estimate)


def test_every_rule_has_its_difference_and_a_verdict_of_its_own(summary, certificate, calibrator):
    margin = certificate.margin
    for row, result in zip(summary["rules"], certificate.rules, strict=True):
        assert row["name"] == result.name
        assert row["value"] == result.value
        assert row["difference"] == result.difference._asdict()
        assert row["lower"] == result.lower >= row["difference"]["lower"]
        assert (row["verdict"] == "pass") == (result.lower >= -margin)
        assert (row["verdict"] == "fail") == (result.difference.upper < -margin)
    assert [row["name"] for row in summary["rivals"]] == ["plain", "isotonic"]
    for row, result in zip(summary["rivals"], certificate.rivals, strict=True):
        assert row["difference"] == result.difference._asdict()
        assert (row["verdict"], row["lower"]) == (result.verdict, result.lower)
    trained = [row["value_in_training"] for row in summary["rules"]]
    assert trained == calibrator.rule_values_.tolist()


def test_violations_promises_and_errors_are_those_of_the_certificate(summary, certificate):
    for row, result in zip(summary["violations"], certificate.violations, strict=True):
        assert row["before"] == result.before._asdict()
        assert row["after"] == result.after._asdict()
        assert row["test"] == result.test
    assert summary["promises"]["before"] == vars(certificate.promise_before)
    assert summary["promises"]["after"] == vars(certificate.promise_after)
    assert summary["squared_error"]["before"] == certificate.squared_error_before
    assert summary["squared_error"]["after"] == certificate.squared_error_after


def test_a_rule_called_optimiser_is_not_taken_for_the_optimiser(summary):
    kinds = [row["kind"] for row in summary["violations"] if row["test"] == "optimiser"]
    assert kinds == ["optimiser"]
    for row in summary["ledger"]["tests"]:
        assert row["kind"] in ("rule", "optimiser")


def test_rounds_are_the_history(summary, calibrator):
    assert summary["rounds"] == [row._asdict() for row in calibrator.history_]


def test_the_ledger_counts_every_patch_once(summary, calibrator):
    found = summary["ledger"]
    steps = {}
    for patch in calibrator.patches_:
        name = ("optimiser", "optimiser") if patch.test == -1 else ("rule", RULES[patch.test].name)
        steps.setdefault(name, []).append(patch.step)
    assert {(row["kind"], row["test"]) for row in found["tests"]} == set(steps)
    for row in found["tests"]:
        own = steps[row["kind"], row["test"]]
        assert row["n_patches"] == len(own)
        assert math.isclose(row["sum_of_steps"], sum(own), abs_tol=1e-12)
        assert math.isclose(row["sum_of_lengths"], sum(map(abs, own)))
    assert found["n_patches"] == len(calibrator.patches_)
    assert found["n_tests"] == len(RULES) + 1


def test_what_the_patches_were_worth_adds_up_to_the_whole_fall(summary, calibrator):
    first, last = calibrator.history_[0], calibrator.history_[-1]
    found = summary["ledger"]
    assert last.test is None  # converged, so that every patch has a later round
    assert math.isclose(found["fall"], first.squared_error - last.squared_error)
    assert not found["noisy"]
    falls = [row["fall"] for row in found["tests"]]
    assert falls == sorted(falls, reverse=True)
    assert all(row["n_unmeasured"] == 0 for row in found["tests"])


def test_a_patch_that_no_round_follows_has_no_worth(training, held_out):
    calibrator = fitted(training, max_rounds=1)
    found = summarise(calibrator, held_out)["ledger"]
    (row,) = found["tests"]
    assert row["fall"] is None
    assert row["n_unmeasured"] == 1
    assert "no later round" in found["note"]


def test_fresh_batches_are_said_to_be_noisy(training, held_out):
    calibrator = fitted(training, check=FreshBatches(200))
    found = summarise(calibrator, held_out)["ledger"]
    assert found["noisy"]
    assert "noisy" in found["note"]


def test_partial_fit_is_said_to_be_noisy(training, held_out):
    calibrator = algorithm_one(BestAction(), RULES, 0.02)
    for first in (0, 1_000):
        calibrator.partial_fit(training.slice(first, first + 1_000))
    assert summarise(calibrator, held_out)["ledger"]["noisy"]


def test_patches_that_were_taken_back_are_not_in_the_ledger(held_out):
    check = Reuse(validation=0.5, patience=5)
    calibrator = fitted(draw(200, 3), epsilon=0.001, check=check)
    assert calibrator.status_ is outrule.Status.VALIDATION
    found = summarise(calibrator, held_out)
    assert sum(row["n_patches"] for row in found["ledger"]["tests"]) == len(calibrator.patches_)
    flagged = [row for row in found["rounds"] if row["test"] is not None]
    assert len(flagged) > len(calibrator.patches_)


def test_the_card_of_arrays(summary, held_out):
    card = summary["data"]
    assert card["source"] == "arrays"
    assert (card["n_instances"], card["n_items"], card["mean_items"]) == (1_000, 4_000, 4.0)
    assert card["n_clusters"] is None
    assert card["roles"] == {}
    assert card["value_range"] == [0.0, 1.0]
    assert card["fingerprint"] == held_out.fingerprint
    columns = {"km": np.zeros((5, 2)), "city": np.zeros(5)}
    other = Instances.from_arrays(np.full((5, 2), 0.5), np.eye(5)[:, :2], columns=columns)
    found = algorithm_one(BestAction(), [Fixed(0)]).fit(np.zeros((3, 2)), np.zeros((3, 2)))
    assert summarise(found, other)["data"]["other_columns"] == ["km", "city"]


def test_the_card_of_a_table_with_clusters():
    near = Reweight("near", lambda view: view.predictions * (view["km"] < 3))
    calibrator = algorithm_one(BestAction(), [near], 0.5).fit(trips(0))
    card = summarise(calibrator, trips(1))["data"]
    assert card["source"] == "table"
    assert (card["n_clusters"], card["n_observations"], card["n_item_names"]) == (12, 12, 3)
    assert card["roles"] == {
        "instance": "trip",
        "prediction": "score",
        "outcome": "completed",
        "item": "driver",
        "cluster": "day",
    }
    assert card["other_columns"] == ["km"]


def test_the_card_of_the_model(summary, calibrator, training):
    card = summary["model"]
    assert card["problem"] == "best action"
    assert card["n_rules"] == len(RULES)
    assert card["kinds_of_rules"] == {"Multiplier": 12, "Fixed": 1, "Reweight": 1}
    assert card["tolerance"] == calibrator.tolerance_ == card["threshold"]
    assert card["status"] == calibrator.status_.value == "converged"
    assert card["check"] == "reuse"
    assert card["step"] == "line search"
    assert card["start"] == "the predictions"
    assert (card["n_rounds"], card["n_patches"]) == (
        len(calibrator.history_),
        len(calibrator.patches_),
    )
    assert card["training_fingerprints"] == [training.fingerprint]
    assert card["library"] == outrule.__version__
    assert card["best_rule"] == RULES[calibrator.best_rule_].name


def test_the_card_has_the_words_of_a_spec_and_what_is_not_the_default(training, held_out):
    problem, check = outrule.Assignment(2, 2), FreshBatches(500, alert=0.5)
    other = {"check": check, "step": outrule.FixedStep(), "random_state": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        calibrator = algorithm_one(problem, [Fixed(2), Fixed(1)], 0.5, **other).fit(training)
    summary = summarise(calibrator, held_out)
    card = summary["model"]
    assert card["problem"] == "assignment, rows = 2, columns = 2"
    assert (card["check"], card["step"]) == ("fresh batches, size = 500, alert = 0.5", "fixed step")
    page = outrule.report(summary)
    for term, words in {
        "Problem": "assignment, rows = 2, columns = 2; at most 2 items",
        "Rules": "2 fixed items",
        "Check": card["check"],
        "Seed": "0",
    }.items():
        assert f"<dt>{term}</dt><dd>{words}</dd>" in page
    assert '<td class="word">fixed item</td>' in page


def test_the_card_names_the_start(training, held_out):
    found = summarise(fitted(training, start=Isotonic()), held_out)
    assert found["model"]["start"] == "isotonic regression of the predictions"


def test_a_summary_has_no_address_of_memory(training, held_out):
    small, other = training.slice(0, 50), held_out.slice(0, 50)
    problem = Oracle(lambda weights, *_: weights == weights.max(), k=1)
    calibrator = algorithm_one(problem, RULES, 0.5).fit(small)
    assert " at 0x" not in json.dumps(summarise(calibrator, other))


def test_the_answer_is_that_of_the_certificate_with_longer_names(summary, certificate):
    names = {rule.name: full_name(rule) for rule in RULES}
    answer, found = Answer(certificate, names, MINUS), summary["answer"]
    for name in ("question", "sentence", "margin", "warning", "next_step", "instance"):
        assert found[name] == getattr(answer, name)
    assert found["against"] == [line._asdict() for line in answer.against]
    assert found["worth"] == [line._asdict() for line in answer.worth]
    assert summary["decimals"] == answer.figures.decimals
    assert [row["text"] for row in summary["rules"]] == [describe(rule) for rule in RULES]


def test_a_certificate_knows_a_part_of_the_summary(summary, certificate):
    part = of_certificate(certificate)
    assert set(summary) - set(part) == {"rounds", "ledger", "data", "model"}
    for name in ("verdict", "values", "rivals", "violations", "promises", "squared_error"):
        assert part[name] == summary[name]
    assert check_summary(part, "report") is part


def test_columns_of_a_frame_name_the_items():
    frame = pl.DataFrame(np.random.default_rng(0).random((200, 4)), list("abcd"))
    rules = [Multiplier([1, 1, 0.5, 1])]
    calibrator = algorithm_one(BestAction(), rules, 0.2).fit(frame, np.ones((200, 4)))
    held = Instances.from_arrays(np.random.default_rng(1).random((50, 4)), np.eye(50, 4))
    assert summarise(calibrator, held)["rules"][0]["text"] == "c x0.5, others x1"


def test_a_given_certificate_makes_the_same_summary(calibrator, held_out, certificate, summary):
    assert summarise(calibrator, held_out, certificate) == summary


def test_a_certificate_of_other_data_is_refused(calibrator, certificate):
    with pytest.raises(DataError, match="the certificate is for other data"):
        summarise(calibrator, draw(500, 9), certificate)


def test_a_certificate_of_another_model_is_refused(training, held_out, certificate):
    with pytest.raises(DataError, match="the certificate is for another model"):
        summarise(fitted(training, epsilon=0.04), held_out, certificate)


def test_a_certificate_of_the_training_data_is_refused(calibrator, training, certificate):
    forged = replace(certificate, data=training.fingerprint)
    with pytest.raises(DataError, match="instances that fit has seen"):
        summarise(calibrator, training, forged)


def test_the_training_data_are_refused(calibrator, training):
    with pytest.raises(DataError, match="instances that fit has seen"):
        summarise(calibrator, training)


def test_what_is_no_certificate_is_refused(calibrator, held_out, certificate):
    with pytest.raises(ArgumentError, match=r"must be a Certificate or None\. Got 'str' instead"):
        summarise(calibrator, held_out, certificate.to_json())


def test_what_are_no_instances_is_refused(calibrator):
    with pytest.raises(ArgumentError, match="'instances' argument of summarise must be Instances"):
        summarise(calibrator, [[0.5, 0.5, 0.5, 0.5]])


def test_instances_without_outcomes_are_refused(calibrator):
    with pytest.raises(ArgumentError, match="'outcomes' argument of certify must be given"):
        summarise(calibrator, Instances.from_arrays(np.full((3, 4), 0.5)))


def test_what_is_not_fitted_is_refused(held_out):
    with pytest.raises(NotFittedError):
        summarise(algorithm_one(BestAction(), RULES), held_out)
    with pytest.raises(ArgumentError, match="'calibrator' argument of summarise"):
        summarise("model.json", held_out)


@pytest.mark.parametrize("bad", [{"violation": math.nan}, {"squared_error": "1"}, {"test": 3}])
def test_a_damaged_history_is_refused(held_out, bad):
    damaged = fitted(draw(100, 5))
    first, *others = damaged.model_.history
    damaged.model_ = replace(damaged.model_, history=(first._replace(**bad), *others))
    with pytest.raises(DataError, match="the model's history is damaged at row 0"):
        summarise(damaged, held_out)


def test_what_is_no_summary_is_refused(summary):
    assert check_summary(summary, "report") is summary
    with pytest.raises(ArgumentError, match="'summary' argument of report must be the dict"):
        check_summary("text", "report")
    with pytest.raises(DataError, match="not a summary of format 1, its format is 2"):
        check_summary(summary | {"format": 2}, "report")
