"""Propensities at the door: what is refused, with its place and the way out."""

import re

import numpy as np
import polars as pl
import pytest

import outrule
from outrule import DataError, Instances
from outrule.data.propensities import check_log, explored_instances, no_outcome

N, M = 400, 4
NAMES = {"instance": "visit", "prediction": "score", "outcome": "bought", "item": "banner"}


def draw(n=N, seed=0, n_items=M):
    """Predictions, outcomes of one drawn item per row (else NaN), propensities."""
    generator = np.random.default_rng(seed)
    prediction = generator.random((n, n_items))
    odds = generator.dirichlet(np.full(n_items, 3.0), n)
    chosen = (generator.random((n, 1)) < odds.cumsum(axis=1)).argmax(axis=1)
    outcome = (generator.random((n, n_items)) < prediction**2).astype(float)
    seen = np.arange(n_items) == chosen[:, None]
    return prediction, np.where(seen, outcome, np.nan), odds


def frame(**changes):
    prediction, outcome, odds = (array.ravel() for array in draw())
    columns = {
        "visit": np.repeat(np.arange(N), M),
        "banner": np.tile(list("abcd"), N),
        "score": prediction,
        "bought": pl.Series(outcome).fill_nan(None),
        "p": odds,
        "shown": ~np.isnan(outcome),
    }
    return pl.DataFrame(columns | changes)


def refused(words):
    return pytest.raises(DataError, match=re.escape(words))


def test_a_table_and_arrays_give_the_same_log():
    prediction, outcome, odds = draw()
    arrays = Instances.from_arrays(prediction, outcome, propensity=odds)
    table = Instances.from_table(frame(), **NAMES, propensity="p", observed="shown")
    np.testing.assert_array_equal(arrays.outcome, table.outcome)
    np.testing.assert_array_equal(arrays.propensity, table.propensity)
    np.testing.assert_array_equal(arrays.upweight, np.where(arrays.observed, 1 / odds.ravel(), 0))


def test_a_number_is_the_propensity_of_all():
    prediction, outcome, _ = draw()
    data = Instances.from_arrays(prediction, outcome, propensity=0.25)
    np.testing.assert_array_equal(data.propensity, np.full(N * M, 0.25))
    table = Instances.from_table(frame(), **NAMES, propensity=0.25)
    np.testing.assert_array_equal(table.propensity, data.propensity)


def test_slices_and_fingerprints_carry_propensities():
    prediction, outcome, odds = draw()
    data = Instances.from_arrays(prediction, outcome, propensity=odds)
    other = Instances.from_arrays(prediction, outcome, propensity=odds[:, ::-1])
    guessed = Instances.from_arrays(prediction, outcome, propensity=odds, propensity_estimated=True)
    assert len({data.fingerprint, other.fingerprint, guessed.fingerprint}) == 3
    np.testing.assert_array_equal(data.slice(3, 5).propensity, odds[3:5].ravel())
    np.testing.assert_array_equal(data.take(np.array([7, 2])).propensity, odds[[7, 2]].ravel())


def test_rules_see_neither_propensity_nor_what_was_observed():
    data = Instances.from_table(frame(), **NAMES, propensity="p", observed="shown")
    assert data.view().frame.columns == ["visit", "banner", "score"]


def test_estimates_have_the_right_mean_whatever_the_base():
    prediction, _, odds = draw()
    truth = prediction**2
    for base in (np.zeros(N * M), prediction.ravel()):
        total = np.zeros(N * M)
        for item in range(M):  # every choice there could have been, by its probability
            seen = np.arange(M) == item
            outcome = np.where(seen, truth, np.nan)
            data = Instances.from_arrays(prediction, outcome, propensity=odds)
            total += np.repeat(odds[:, item], M) * data.filled(base).outcome
        np.testing.assert_allclose(total, truth.ravel())


@pytest.mark.parametrize(
    ("entry", "value", "words"),
    [
        ("seen", 0.0, "propensity is 0"),
        ("seen", np.nan, "propensity is null"),
        ("seen", 1.5, "propensity is 1.5"),
        ("unseen", -0.5, "propensity is -0.5"),
        ("unseen", 1.0, "propensity is 1"),
    ],
)
def test_impossible_propensities_are_refused_with_their_place(entry, value, words):
    prediction, outcome, odds = draw()
    seen = ~np.isnan(outcome[5])
    item = int(np.argmax(seen if entry == "seen" else ~seen))
    odds[5, item] = value
    with refused(f"{words} at instance 5, item {item}"):
        Instances.from_arrays(prediction, outcome, propensity=odds)


def test_what_the_log_could_never_show_has_propensity_zero_or_none():
    prediction, outcome, odds = draw()
    odds[np.isnan(outcome)] = 0
    assert Instances.from_arrays(prediction, outcome, propensity=odds).upweight.max() > 1
    odds[np.isnan(outcome)] = np.nan
    check_log(Instances.from_arrays(prediction, outcome, propensity=odds), exactly_one=True)


def test_observed_must_agree_with_the_nulls():
    shown = frame()["shown"].to_numpy().copy()
    first = int(np.argmax(shown))
    shown[first] = False
    with refused(
        f"observed is false but the outcome is {frame()['bought'][first]:g} at instance 0"
    ):
        Instances.from_table(frame(shown=shown), **NAMES, propensity="p", observed="shown")


def test_propensities_that_do_not_sum_to_one_are_refused():
    prediction, outcome, odds = draw()
    chosen = np.nanmax(np.where(np.isnan(outcome), np.nan, odds), axis=1, keepdims=True)
    data = Instances.from_arrays(prediction, outcome, propensity=np.repeat(chosen, M, axis=1))
    with refused("Exactly one item was chosen in every instance, so they must sum to one"):
        outrule.DecisionCalibrator(outrule.BestAction(), [outrule.Fixed(0)]).fit(data)


def test_zeros_for_what_was_not_chosen_should_be_null_if_they_are_not_known():
    prediction, outcome, odds = draw()
    zeros = np.where(np.isnan(outcome), 0, odds)
    data = Instances.from_arrays(prediction, outcome, propensity=zeros)
    with pytest.raises(DataError) as caught:
        check_log(data, exactly_one=True)
    assert str(caught.value).endswith(
        "so they must sum to one: give the probability of every item on offer. Those of the items "
        "that were not chosen are 0 here, which says that they could never have been: leave them "
        "null if you do not know them."
    )
    assert "in all its rows" not in str(caught.value)


@pytest.mark.parametrize(("n", "drops"), [(1, True), (49, True), (50, False), (80, False)])
def test_an_instance_is_dropped_only_where_few_outcomes_are_null(n, drops):
    words = no_outcome(n, 100, "rows")
    assert "choose at random in a small share of the instances: see docs/logs.md" in words
    assert "decide --explore" not in words  # that needs a model
    assert words.endswith(" Otherwise drop the instance.") == drops


def test_choices_that_contradict_the_propensities_are_refused():
    prediction, outcome, odds = draw(4_000)
    data = Instances.from_arrays(prediction, outcome, propensity=odds[:, ::-1])
    with refused("the choices contradict the propensities: items with propensities from"):
        check_log(data, exactly_one=True)
    often = outcome.copy()
    often[:1_000] = np.where(np.arange(M) == 2, 1.0, np.nan)
    data = Instances.from_arrays(prediction, often, propensity=0.25)
    with refused("the choices contradict the propensities: item 2 was observed"):
        check_log(data, exactly_one=True)


def test_a_log_that_chose_by_the_predictions_was_not_uniform():
    generator = np.random.default_rng(0)
    prediction = generator.random((2_000, M))
    largest = prediction == prediction.max(axis=1, keepdims=True)
    outcome = np.where(largest, 1.0, np.nan)
    data = Instances.from_arrays(prediction, outcome, propensity=1 / M)
    with refused("the choices contradict the propensities: items with predictions from"):
        check_log(data, exactly_one=True)
    close = generator.random((2_000, 1)) + 1e-3 * prediction  # only the rank tells
    data = Instances.from_arrays(close / 2, outcome, propensity=1 / M)
    with pytest.raises(DataError, match=r"contradict the propensities: items .* largest.* were"):
        check_log(data, exactly_one=True)


@pytest.mark.parametrize("seed", range(20))
def test_honest_propensities_are_never_refused(seed):
    prediction, outcome, odds = draw(1_000, seed)
    check_log(Instances.from_arrays(prediction, outcome, propensity=odds), exactly_one=True)


def test_labels_that_come_for_whole_instances_are_no_contradiction():
    generator = np.random.default_rng(0)
    labelled = generator.random(500) < 0.1
    outcome = np.where(labelled[:, None], generator.random((500, 30)), np.nan)
    data = Instances.from_arrays(generator.random((500, 30)), outcome, propensity=0.1)
    check_log(data, exactly_one=True)


@pytest.mark.parametrize("others", [0.0, np.nan])
def test_a_log_without_chance_is_refused_with_what_would_help(others):
    prediction, outcome, _ = draw()
    odds = np.where(np.isnan(outcome), others, 1.0)
    data = Instances.from_arrays(prediction, outcome, propensity=odds)
    with refused("with s = 0.1 and d = 0.05, 24,000 at most"):
        outrule.DecisionCalibrator(outrule.BestAction(), [outrule.Fixed(0)]).fit(data)
    assert explored_instances(M, 0.1, 0.05) == 23966


def test_a_log_without_outcomes_is_refused():
    data = Instances.from_arrays([[0.5, 0.4]], [[np.nan, np.nan]], propensity=0.5)
    with refused("no outcome is observed"):
        check_log(data, exactly_one=True)


def test_what_needs_all_outcomes_says_so():
    prediction, outcome, odds = draw()
    data = Instances.from_arrays(prediction, outcome, propensity=odds)
    with refused("value needs the outcomes of all items"):
        outrule.metrics.value(data, decisions=prediction > 2)
    with pytest.raises(outrule.ArgumentError, match="'check' argument"):
        outrule.DecisionCalibrator(
            outrule.BestAction(),
            [outrule.Fixed(0)],
            0.5,
            check=outrule.PrivateReuse(),
            start=None,
            rivals=(),
            max_rounds=5,
        ).fit(data)


def test_propensities_without_outcomes_are_refused():
    with pytest.raises(outrule.ArgumentError, match="no outcomes"):
        Instances.from_arrays([[0.5, 0.4]], propensity=0.5)
    with pytest.raises(outrule.ArgumentError, match="no propensity"):
        Instances.from_arrays([[0.5, 0.4]], [[1, 0]], propensity_estimated=True)


class TestTheNewUsersPath:
    """Null outcomes, and then the rows that have them dropped: never a pass."""

    def test_null_outcomes_are_explained(self):
        with refused("Does the log know only the outcome of what was chosen? Then do not drop"):
            Instances.from_table(frame(), **NAMES)

    def test_dropped_rows_are_explained(self):
        chosen = Instances.from_table(frame().filter("shown"), **NAMES)
        calibrator = outrule.DecisionCalibrator(outrule.BestAction(), [outrule.Fixed("a")])
        with refused("no instance offers a choice"):
            calibrator.fit(chosen)

    @pytest.mark.parametrize("problem", [outrule.TopK(2), outrule.Matching.complete(4)])
    def test_dropped_rows_of_larger_decisions_are_explained(self, problem):
        generator = np.random.default_rng(0)
        prediction = generator.random((50, 6))
        available = problem.solve(prediction)
        calibrator = outrule.DecisionCalibrator(problem, [outrule.Multiplier([1, 1, 1, 1, 1, 0.5])])
        calibrator.fit(prediction, generator.random((50, 6)))
        data = Instances.from_arrays(prediction, prediction, available=available)
        with refused("no instance offers a choice"):
            outrule.certify(calibrator, data)

    def test_mostly_dropped_rows_are_warned_of(self):
        data = frame()
        kept = data.filter(pl.col("shown") | (pl.col("visit") < 100)).with_columns(
            bought=pl.col("bought").fill_null(0.0)
        )
        calibrator = outrule.DecisionCalibrator(outrule.BestAction(), [outrule.Fixed("a")])
        with pytest.warns(UserWarning, match="300 of 400 instances offer nothing to choose"):
            calibrator.fit(Instances.from_table(kept, **NAMES))
