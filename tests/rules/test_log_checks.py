"""Logs that follow a rule although their propensities deny it."""

import numpy as np
import polars as pl
import pytest

import outrule
from outrule import BestAction, DataError, Instances, TopK
from outrule.rules.log_checks import check_chosen
from outrule.rules.rules import Reweight

M = 5
RULES = [Reweight("cheapest", "10 - price"), Reweight("dear and likely", "prediction * price")]


def offers(n=2_000, seed=0):
    """Scores, prices that are independent of them, and what would have been bought."""
    generator = np.random.default_rng(seed)
    score, price = generator.random((n, M)), 1 + 8 * generator.random((n, M))
    bought = (generator.random((n, M)) < 0.5 - 0.05 * price + 0.3 * score).astype(float)
    return score, price, bought


def log(shown, propensity, *, seed=0, day=None):
    score, price, bought = offers(len(shown), seed)
    columns = {
        "visit": np.repeat(np.arange(len(shown)), M),
        "score": score.ravel(),
        "price": price.ravel(),
        "bought": np.where(shown, bought, np.nan).ravel(),
        "q": np.broadcast_to(propensity, shown.shape).ravel(),
    }
    frame = pl.DataFrame(columns).with_columns(pl.col("bought", "q").fill_nan(None))
    names = {"instance": "visit", "prediction": "score", "outcome": "bought", "propensity": "q"}
    if day is not None:
        frame, names["cluster"] = frame.with_columns(day=pl.Series(np.repeat(day, M))), "day"
    return Instances.from_table(frame, **names)


def refused(who):
    return pytest.raises(DataError, match=f"the items that {who} chooses were observed")


@pytest.mark.parametrize("least", [True, False])
def test_a_log_that_followed_a_column_was_not_uniform(least):
    price = offers()[1]
    shown = price == (price.min if least else price.max)(axis=1, keepdims=True)
    data = log(shown, 1 / M)
    calibrator = outrule.DecisionCalibrator(BestAction(), RULES)
    with refused("rule 'cheapest'"):
        calibrator.fit(data)


def test_a_certificate_looks_at_what_rules_choose_too():
    price, generator = offers()[1], np.random.default_rng(1)
    uniform = np.arange(M) == generator.integers(M, size=(2_000, 1))
    calibrator = outrule.DecisionCalibrator(BestAction(), RULES, start=None).fit(log(uniform, 0.2))
    greedy = log(price == price.min(axis=1, keepdims=True), 0.2, seed=0)
    with refused("rule 'cheapest'"):
        outrule.certify(calibrator, greedy)


def test_where_others_are_unknown_chosen_items_cannot_be_seen_too_often():
    price = offers()[1]
    shown = price == price.min(axis=1, keepdims=True)
    with refused("rule 'cheapest'") as error:
        check_chosen(BestAction(), RULES, log(shown, np.where(shown, 0.2, np.nan)))
    assert "these are 10,000 items, but there are 2,000, give or take" in str(error.value)
    honest = np.where(shown, 1.0, np.nan)
    honest[::2] = np.nan
    check_chosen(BestAction(), RULES, log(shown & ~np.isnan(honest), honest * 0.5))


@pytest.mark.parametrize("seed", range(20))
def test_honest_logs_are_never_refused(seed):
    generator = np.random.default_rng(seed)
    score, price, _ = offers(500, seed)
    likely = np.exp(4 * score - 0.5 * price)
    q = likely / likely.sum(axis=1, keepdims=True)
    shown = (generator.random((500, 1)) < q.cumsum(axis=1)).argmax(axis=1)
    seen = np.arange(M) == shown[:, None]
    many = [*RULES, *outrule.multipliers(M, limit=200)]
    check_chosen(BestAction(), RULES, log(seen, q, seed=seed))
    check_chosen(BestAction(), RULES, log(seen, np.where(seen, q, np.nan), seed=seed))
    scores = Instances.from_arrays(score, np.where(seen, 1.0, np.nan), propensity=q)
    check_chosen(BestAction(), many[2:], scores)
    check_chosen(TopK(2), many[2:], scores)


def test_days_that_were_labelled_as_a_whole_are_one_observation_each():
    generator = np.random.default_rng(0)
    day = np.repeat(np.arange(10), 50)
    labelled = (generator.random(10) < 0.5)[day]
    shown = np.broadcast_to(labelled[:, None], (500, M))
    check_chosen(BestAction(), RULES, log(shown, 0.5, day=day))
