"""What a rule does, in words: a multiplier says what it multiplies."""

import numpy as np
import pytest

import outrule
from outrule import Fixed, Multiplier, Reweight
from outrule.rules.descriptions import LONGEST, as_in_spec, describe, full_name


@pytest.mark.parametrize(
    ("vector", "words"),
    [
        ({"A": 0.5, "B": 1, "C": 0.25, "D": 1}, "A x0.5, C x0.25, others x1"),
        ({"A": 0.5, "B": 1}, "A x0.5, B x1"),
        ({"A": 0.5, "B": 1, "C": 0.5}, "B x1, others x0.5"),
        ({"A": 2.0}, "every item x2"),
        ([0.5, 0.5, 0.5], "every item x0.5"),
        ([1.0, 0.5, 1.0], "item 1 x0.5, others x1"),
        ([1.0, 0.5, 1.0, 1.0], "item 1 x0.5, others x1"),
        ([0, 1, 1, 1, 1, 3, 0.5, 0.75], "item 0 x0, item 5 x3, item 6 x0.5, 5 others x0.75 to x1"),
    ],
)
def test_a_multiplier_says_what_it_multiplies(vector, words):
    assert describe(Multiplier(vector)) == words


def test_items_have_the_names_of_the_columns_where_they_are_known():
    rule = Multiplier([1.0, 0.5, 1.0, 1.0])
    assert describe(rule, ("a", "b", "c", "d")) == "b x0.5, others x1"
    assert describe(rule, ("a",)) == "item 1 x0.5, others x1"


def test_a_long_vector_stays_short():
    rule = outrule.multipliers(1_000, limit=1)[0]
    assert describe(rule).endswith("997 others x0 to x1")
    long = Multiplier(dict.fromkeys((f"{n} " + "x" * 100 for n in range(9)), 0.5) | {"b": 1})
    assert len(describe(long)) <= LONGEST


def test_only_a_name_that_nobody_gave_is_made_longer():
    assert full_name(outrule.multipliers(2, limit=1)[0]).startswith("multiplier 0: item 0 x")
    assert full_name(Multiplier(np.ones(3))).endswith(": every item x1")
    for rule in (Multiplier(np.ones(3), "halve the second"), Fixed(1), Fixed(2, "multiplier 7")):
        assert full_name(rule) == rule.name


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Fixed("x"), "always item x"),
        (Reweight("near", lambda view: view.predictions), "<lambda>"),
    ],
)
def test_other_rules_are_described(rule, words):
    assert words in describe(rule)


def test_a_rule_of_text_is_shown_whole():
    words = "CASE WHEN pickup_km > 3 THEN 0.5 * score ELSE score END" + " + 0 * score" * 20
    assert describe(Reweight("no long pickups", words)) == words


@pytest.mark.parametrize(
    ("thing", "words"),
    [
        (outrule.TopK(3), "top k, k = 3"),
        (outrule.Matching.complete(5), "matching, 10 edges"),
        (outrule.Matching.between("u", "v"), "matching, columns = ('u', 'v')"),
        (outrule.Reuse(validation=0.2), "reuse, validation = 0.2"),
        (outrule.CrossFit(), "cross fit"),
    ],
)
def test_problems_and_settings_are_described_by_what_is_not_the_default(thing, words):
    assert as_in_spec(thing) == words
