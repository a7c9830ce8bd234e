"""The answer to "Deploy?": what is said of each verdict, in whose words, and never too much."""

import re
from dataclasses import replace

import numpy as np
import pytest

import outrule
from letter import algorithm_one
from outrule import Certificate, Value, certify
from outrule.proof.answer import LABELS, Answer
from outrule.proof.confidence import Estimate

EUROS = Value("purchases", "euro", "day")


@pytest.fixture(scope="module")
def certificate():
    """The first action is worth 0.6 and the second 0.4, as predicted: nothing to gain."""
    generator = np.random.default_rng(0)
    predictions = np.tile([0.6, 0.4], (1_000, 1))
    outcomes = (generator.random((1_000, 2)) < [0.6, 0.4]).astype(float)
    rules = [outrule.Fixed(1, "second"), outrule.Fixed(0, "first")]
    calibrator = algorithm_one(outrule.BestAction(), rules, 0.1).fit(predictions, outcomes)
    exact = np.column_stack([np.arange(100) < 60, np.arange(100)[::-1] < 40]).astype(float)
    return certify(calibrator, predictions[:100], exact)


def changed(certificate, verdict, mean=0.2, lower=0.1, upper=0.3, **others):
    """The same with one verdict against everyone, by such a difference."""
    difference, verdicts = (
        Estimate(mean, lower, upper),
        dict.fromkeys(certificate.verdicts, verdict),
    )
    parts = {
        name: tuple(
            replace(row, verdict=verdict, difference=difference, lower=lower)
            for row in getattr(certificate, name)
        )
        for name in ("rules", "rivals")
    }
    gains = {"improvement": difference, "gap": mean, "gap_lower": lower}
    approximate = certificate.approximate | {"improvement": difference, "gap": difference}
    return replace(
        certificate,
        verdict=verdict,
        verdicts=verdicts,
        approximate=approximate,
        **(parts | gains | others),
    )


@pytest.mark.parametrize(
    ("verdict", "question"), [("pass", "Yes"), ("inconclusive", "Not yet"), ("fail", "No")]
)
def test_the_answer_comes_first_and_the_next_step_last(certificate, verdict, question):
    lines = str(changed(certificate, verdict)).splitlines()
    assert lines[0] == f"Deploy? {question}"
    assert lines[1].startswith(f"{verdict}: ")
    assert lines[-1].startswith("Next: ")
    assert len([line for line in lines if line.startswith(f"  {verdict} against ")]) == 3


def test_the_words_of_a_certificate(certificate):
    words = str(certificate)
    assert words.startswith(
        "Deploy? Only if the margin is acceptable\n"
        "pass: with 95 % confidence, the plain optimiser on the calibrated predictions is at least "
        "as good as each of the 2 rules, the plain optimiser on the original predictions and "
        "isotonic regression, minus at most 0.1.\n"
    )
    assert "\n  pass against plain optimiser, original predictions: about equal, possibly" in words
    assert "which is within the margin\n" in words
    assert (certificate.closest_rival, certificate.closest_rule) == ("second", "second")
    assert "on 100 instances; smallest difference: first; lowest bound: second\n" in words
    assert "against best of 2 rules (first): about equal, possibly worse by up to" in words
    assert "margin 0.1 (17 % of the best rule's value)" in words


def test_no_significant_improvement_is_called_so_beside_the_number(certificate):
    first = Answer(changed(certificate, "pass", 0.02, -0.03, 0.06)).worth[0]
    assert first.figure == "+0.020"
    assert first.more == "not significant: 95 % interval -0.030 to +0.060"
    assert Answer(changed(certificate, "pass", 0.2, 0.1, 0.3)).worth[0].more.startswith("95 %")
    worse = Answer(changed(certificate, "fail", -0.2, -0.3, -0.1)).worth[0]
    assert (worse.figure, worse.more) == ("-0.20", "95 % interval -0.30 to -0.10")


def test_a_one_sided_bound_above_zero_is_not_called_insignificant(certificate):
    found = changed(certificate, "pass", 0.02, 0.001, 0.06)
    found = replace(found, improvement=Estimate(0.02, -0.002, 0.06))
    answer = Answer(found)
    assert answer.against[1].words == "better by 0.020, by at least 0.001"
    assert answer.worth[0].more == (
        "above zero by the one-sided bound, but not by the two-sided 95 % interval -0.002 to +0.060"
    )
    assert (
        "the one-sided lower bound, +0.001, is above zero, and the two-sided interval includes"
        in (outrule.report(found))
    )


def test_at_least_is_never_more_than_the_estimate(certificate):
    """Bounds by betting can be above the mean where little confidence is asked for."""
    better = changed(certificate, "pass", 0.105, 0.162, 0.3)
    assert Answer(better).against[2].words == "better by 0.10, by at least 0.10"
    assert "\ngap +0.10 (at least +0.10; approximately" in str(better)
    worse = changed(certificate, "pass", -0.05, 0.01, 0.3)
    assert Answer(worse).against[2].words == (
        "worse by 0.05, at worst by 0.05, which is within the margin"
    )
    for found in (better, worse):
        assert not re.search(r"at least \+?0\.(16|01)", str(found) + outrule.report(found))


def test_a_rival_is_named_only_beside_its_own_number(certificate):
    """The smallest difference, and the lowest bound, may be those of two rivals."""
    found = changed(certificate, "pass", -0.004, -0.022, 0.03)
    noisy, best = found.rules
    noisy = replace(noisy, difference=Estimate(-0.002, -0.02, 0.03), lower=-0.022)
    best = replace(best, lower=-0.019)
    plain = replace(found.rivals[0], difference=Estimate(0.001, -0.03, 0.03), lower=-0.028)
    isotonic = replace(found.rivals[1], difference=Estimate(0.01, -0.01, 0.03), lower=-0.02)
    found = replace(
        found,
        rules=(noisy, best),
        rivals=(plain, isotonic),
        gap_lower=-0.028,
        closest_rule=noisy.name,
        closest_rival="the plain optimiser on the original predictions",
    )
    line, *_ = Answer(found, {best.name: "by x", noisy.name: "only big x"}).against
    assert line.rival == "best of 2 rules (by x)"
    assert line.words == (
        "worse by 0.004, at worst by 0.022 (lowest bound: only big x), which is within the margin"
    )
    assert (
        f"on 100 instances; smallest difference: {best.name}; lowest bound: the plain optimiser on "
        "the original predictions\n"
    ) in str(found)
    same = replace(found, closest_rule=best.name, closest_rival=best.name)
    assert "lowest bound" not in str(same)
    assert f"on 100 instances; closest rival: {best.name}\n" in str(same)


def test_worth_is_per_instance_per_thousand_in_percent_and_in_total(certificate):
    found = changed(certificate, "pass", value=EUROS, plain=Estimate(0.4, 0.3, 0.5))
    assert [f"{line.figure} {line.per}" for line in Answer(found).worth] == [
        "+0.20 euro per instance",
        "+200 euro per 1,000 instances",
        "+50 % of the plain optimiser's value",
        "+20 euro over the 100 held-out instances",
    ]
    nothing = changed(certificate, "pass", plain=Estimate(0.0, -0.1, 0.1))
    assert [line.per for line in Answer(nothing).worth] == [
        "per instance",
        "per 1,000 instances",
        "over the 100 held-out instances",
    ]


def test_what_is_rounded_to_zero_has_no_sign(certificate):
    """It would be +0.000 beside -0.1 %."""
    found = changed(certificate, "pass", -0.0004, -0.03, 0.03, plain=Estimate(0.65, 0.6, 0.7))
    figures = [line.figure for line in Answer(found).worth]
    assert figures == ["0.000", "0", "-0.1 %", "0.0"]
    assert "+0.000 per" not in str(found)


def test_a_margin_of_more_than_all_value_is_written_out(certificate):
    found = changed(certificate, "pass", margin=0.9, best_rule=Estimate(0.603, 0.5, 0.7))
    assert Answer(found).margin == "margin 0.9 (150 % of the best rule's value)"


def test_an_instance_is_called_what_an_observation_is_unless_those_are_clusters(certificate):
    assert Answer(replace(certificate, unit="trip")).worth[1].per == "per 1,000 trips"
    clusters = replace(certificate, unit="day", n_observations=10)
    assert Answer(clusters).worth[1].per == "per 1,000 instances"


def test_a_rule_that_is_better_within_the_margin_is_said_first(certificate):
    found = changed(certificate, "pass", -0.05, -0.07, -0.03, margin=0.1)
    found = replace(found, best_rule=Estimate(0.9, 0.8, 1.0), plain=Estimate(0.4, 0.3, 0.5))
    found = replace(found, improvement=Estimate(0.4, 0.3, 0.5))
    answer = Answer(found)
    assert answer.question == "Deploy? Only if the margin is acceptable"
    assert answer.warning.startswith(f"The rule {found.rules[0].name!r} is better by about 0.05")
    assert answer.next_step.startswith("Next: keep that rule, or fit again")


def test_a_rule_that_is_better_by_little_is_shown_with_enough_digits(certificate):
    found = changed(certificate, "pass", -0.0005, -0.004, -0.0002, margin=0.1)
    near = {"gap": Estimate(-0.0005, -0.0008, -0.0002), "improvement": Estimate(0.4, 0.3, 0.5)}
    values = {"calibrated": Estimate(0.4995, 0.4, 0.6), "plain": Estimate(0.1, 0.0, 0.2)}
    found = replace(found, improvement=near["improvement"], approximate=near, **values)
    found = replace(found, best_rule=Estimate(0.5, 0.4, 0.6))
    answer = Answer(found)
    assert answer.question == "Deploy? Only if the margin is acceptable"
    assert answer.against[0].words.startswith("worse by 0.00050, at worst by 0.00400")
    assert "is better by about 0.0005 (0.1 % of its value), and the pass only" in answer.warning
    assert "\ngap -0.00050 (at least -0.00400; approximately -0.00080 to -0.00020)" in answer.text
    equal = replace(found, approximate=near | {"gap": Estimate(-0.0005, -0.0008, 0.0002)})
    assert Answer(equal).against[0].words.startswith("about equal, possibly worse by up to 0.01")


def test_a_pass_that_needs_no_margin_says_so_and_has_no_warning(certificate):
    sure = changed(certificate, "pass", 0.02, 0.01, 0.03)
    assert sure.sentence.endswith("minus at most 0.1. It passes without that margin, too.")
    assert sure.warning is None
    assert sure.next_step.startswith("Next: deploy the plain optimiser on the calibrated")


@pytest.mark.parametrize(
    ("best", "gain", "words"),
    [
        (0.45, 0.2, "the best rule and the plain optimiser on the original predictions differ by"),
        (0.80, 0.05, "calibration changes the value of the plain optimiser on the original"),
    ],
)
def test_a_margin_above_what_is_at_stake_is_warned_of(certificate, best, gain, words):
    values = {"plain": Estimate(0.4, 0.3, 0.5), "best_rule": Estimate(best, best, best)}
    found = changed(certificate, "pass", gain, -0.09, 0.3, **values)
    assert found.margin == 0.1
    assert words in found.warning
    assert "0.05. With this margin a pass means little." in found.warning
    assert found.warning in str(found)
    assert found.next_step == (
        "Next: before you deploy, fit with an epsilon below 0.05, which may take more data, "
        "and certify on data that nobody has looked at yet."
    )
    assert Answer(found).question == "Deploy? Only if the margin is acceptable"
    nothing = replace(found, improvement=Estimate(0.0, -0.1, 0.1)).next_step
    assert nothing.startswith("Next: there is nothing to gain here: keep what you have, or fit")
    assert replace(found, margin=0.04).warning is None
    assert Answer(replace(found, margin=0.04)).question == "Deploy? Yes"


def test_too_little_data_says_what_would_decide(certificate):
    found = changed(certificate, "inconclusive", 0.0, -0.123, 0.1, needed=1_334, unit="day")
    assert found.sentence.startswith("There is too little data to say whether")
    assert found.next_step == (
        "Next: about 1,300 more days would decide it, or accept a margin of 0.13."
    )
    euros = replace(found, value=EUROS)
    assert euros.next_step.endswith("or accept a margin of 0.13 euro per day.")
    far = changed(certificate, "inconclusive", 0.0, -0.9, 0.9, needed=12_100, unit="day")
    assert far.next_step == (  # and no margin, which would be more than the best rule is worth
        "Next: these data are far from deciding it; about 12,000 more days would decide it."
    )
    unknown = replace(found, needed=None).next_step
    assert unknown.startswith("Next: collect more days; these cannot say how many would decide it")
    assert unknown.endswith("To pass on these, accept a margin of 0.13.")


@pytest.mark.parametrize(
    ("value", "margin", "words"),
    [
        (Value("points"), 1.0, "margin 1.0 points per instance"),
        (Value("points"), 1.00001, "margin 1.0 points per instance"),
        (Value("points"), 0.99, "margin 0.99 points per instance"),
        (Value("points"), 10.0, "margin 10 points per instance"),
        (Value(), 1.0, "margin 1"),
    ],
)
def test_no_plural_follows_a_plain_one(certificate, value, margin, words):
    answer = Answer(replace(certificate, value=value, margin=margin))
    assert answer.margin.startswith(words)
    if value.noun:
        assert f"minus at most {words.removeprefix('margin ')}." in answer.sentence


def test_no_margin_is_offered_where_plain_or_isotonic_is_better(certificate):
    worse = changed(certificate, "inconclusive", -0.05, -0.123, -0.01, needed=1_334)
    assert worse.next_step == "Next: about 1,300 more instances would decide it."


def test_only_the_undecided_rivals_are_named(certificate):
    verdicts = {"rules": "inconclusive", "plain": "pass", "isotonic": "inconclusive"}
    found = replace(certificate, verdict="inconclusive", verdicts=verdicts)
    assert "each of the 2 rules and isotonic regression, minus at most 0.1." in found.sentence
    assert "original" not in found.sentence


def test_a_failure_says_who_is_better(certificate):
    found = changed(certificate, "fail", -0.2, -0.3, -0.1)
    assert found.sentence == (
        "With 95 % confidence, the rule 'second' is better by more than 0.1, and the plain "
        "optimiser on the original predictions and isotonic regression are better than the plain "
        "optimiser on the calibrated predictions."
    )
    line = Answer(found).against[0]
    assert line.words == "worse by 0.20, by more than the margin of 0.1"
    assert Answer(found).against[1].words == "worse by 0.20"
    assert found.warning is None
    plain = replace(found, verdicts={"rules": "pass", "plain": "fail", "isotonic": "pass"})
    assert "the plain optimiser on the original predictions is better than" in plain.sentence
    assert plain.next_step.startswith("Next: keep the plain optimiser on the original predictions.")


def test_rules_that_fail_only_together_are_not_named(certificate):
    verdicts = certificate.verdicts | {"rules": "fail"}
    found = replace(certificate, verdict="fail", verdicts=verdicts)
    assert "some rule is better by more than 0.1 than" in found.sentence
    assert found.next_step.startswith("Next: keep the rules. Fit again")


def test_undeclared_sizes_make_every_bound_conditional(certificate):
    found = changed(certificate, "inconclusive", if_declared="pass", unit="day", heaviest=12.0)
    assert "size (or total weight) of one day is declared" in found.sentence
    assert "The largest seen is 12; if that is the largest possible, the verdict is pass." in (
        found.next_step
    )
    condition = "if no day can weigh more than 12"
    assert all(line.words.endswith(condition) for line in Answer(found).against)
    assert Answer(found).worth[0].more.endswith(condition)


def test_a_heavy_weight_has_few_digits_and_can_be_declared_as_it_is_printed(certificate):
    found = changed(certificate, "inconclusive", if_declared="pass", heaviest=6458.0249)
    assert "The largest seen is 6459; if" in found.next_step
    assert all(line.words.endswith("weigh more than 6459") for line in Answer(found).against)
    assert "6458" not in str(found)


def test_a_large_margin_has_no_exponent(certificate):
    found = changed(certificate, "pass", margin=15_000.0, value=EUROS)
    assert "minus at most 15,000 euro per instance" in found.sentence


def test_longer_names_of_rules_are_used_where_they_are_known(certificate):
    found = changed(certificate, "fail", -0.2, -0.3, -0.1)
    names = {"second": "second: item 1 x2", found.closest_rule: "closest: all x1"}
    words = Answer(found, names).text
    assert "best of 2 rules (closest: all x1)" in words
    assert f"the rule '{names['second']}'" in words


def test_a_lower_bound_is_never_rounded_in_our_favour(certificate):
    sure = changed(certificate, "pass", 0.0259, 0.0159, 0.0359)
    assert Answer(sure).against[1].words == "better by 0.026, by at least 0.015"
    unsure = changed(certificate, "pass", 0.0, -0.0151, 0.02)
    assert "possibly worse by up to 0.016, which is within" in Answer(unsure).against[1].words


def test_a_notebook_shows_the_same_answer(certificate):
    page = replace(certificate, closest_rule="<b>&\u202e\x1b")._repr_html_()
    answer = Answer(certificate)
    assert page.startswith(f"<b>{answer.question}</b><br>{answer.sentence}")
    assert page.count("<tr>") == 3
    assert "&lt;b&gt;&amp;\\u202e\\x1b" in page
    for words in (answer.margin, answer.next_step):
        assert words.replace("'", "&#x27;") in page


def test_a_page_of_the_certificate_alone_is_written_whole(certificate, tmp_path):
    path = tmp_path / "page.html"
    certificate.report(path)
    certificate.report(str(path))
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]
    html = path.read_text(encoding="utf-8")
    assert html.startswith("<!doctype html>")
    assert "Deploy? Only if the margin is acceptable" in html
    assert 'id="values-table"' in html
    assert 'id="rounds"' not in html


def test_the_name_of_the_value_is_written_and_read_with_the_certificate(certificate):
    named = replace(certificate, value=EUROS)
    assert Certificate.from_json(named.to_json()) == named


def test_every_value_has_one_label():
    assert set(LABELS) == {"plain", "best_rule", "isotonic", "calibrated", "paper", "oracle"}
    assert len(set(LABELS.values())) == len(LABELS)


def test_a_difference_that_rounds_to_nothing_is_called_about_equal(certificate):
    near = changed(certificate, "pass", -0.0001, -0.02, 0.02)
    words = "about equal, possibly worse by up to 0.020, which is within the margin"
    assert Answer(near).against[1].words == words
