"""Short text and escaped HTML, whatever the rules are called."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn import config_context
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.utils import estimator_html_repr

import outrule
from outrule.estimators.predictor import CalibratedPredictor

MANY = outrule.multipliers(45, limit=1000)
NASTY = "<script>alert('&')</script>"


def draw(n=50, m=45):
    generator = np.random.default_rng(0)
    return generator.random((n, m)), generator.random((n, m))


def calibrator(rules=MANY, epsilon=0.05):
    return outrule.DecisionCalibrator(outrule.BestAction(), rules, epsilon)


def predictor(rules=MANY):
    return CalibratedPredictor(LinearRegression(), calibrator(rules), cv=2)


class Text(HTMLParser):
    """The words of a page, and its tags."""

    def __init__(self, html):
        super().__init__()
        self.words, self.tags = [], []
        self.feed(html)

    def handle_data(self, data):
        self.words.append(data)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)


@pytest.mark.parametrize("make", [calibrator, predictor])
@pytest.mark.parametrize("kind", [list, tuple])
def test_a_thousand_rules_are_short_as_text(make, kind):
    text = repr(make(kind(MANY)))
    assert len(text) < 250
    assert "<1000 rules: 'multiplier 0', 'multiplier 1', 'multiplier 2', ...>" in text


def test_few_rules_are_shown_whole():
    text = repr(calibrator([outrule.Fixed(1), outrule.Fixed(0)], epsilon=0.5))
    expected = (
        "DecisionCalibrator(problem=BestAction(), rules=[Fixed(item=1, name='always 1'), "
        "Fixed(item=0, name='always 0')], epsilon=0.5)"
    )
    assert text == expected


def test_what_is_left_to_us_is_shown_where_scikit_learn_is_told_to():
    assert "check" not in repr(calibrator())
    with config_context(print_changed_only=False):
        assert "epsilon=0.05, check=None, step=None" in repr(calibrator())


def test_long_parameters_are_cut():
    long = outrule.Fixed(0, name="x" * 10_000)
    assert len(repr(calibrator([long]))) < 500
    assert len(repr(calibrator([long] * 5))) < 1_200
    assert len(repr(calibrator("y" * 10_000))) < 500


@pytest.mark.parametrize("bad", [None, 3, "abc", [1, 2, 3, 4, 5], outrule.Fixed(0)])
def test_parameters_that_are_wrong_are_shown_too(bad):
    assert "rules=" in repr(calibrator(bad))
    assert "DecisionCalibrator" in calibrator(bad)._repr_html_()


@pytest.mark.parametrize("make", [calibrator, predictor])
def test_html_is_that_of_scikit_learn_and_what_was_found(make):
    one = make()
    plain = re.sub(r"\d+", "", estimator_html_repr(one))
    assert re.sub(r"\d+", "", one._repr_html_()) == plain
    one.fit(*draw())
    fitted = getattr(one, "calibrator_", one)
    words = Text(one._repr_html_()).words
    at = words.index("status")
    found = dict(zip(words[at::2], words[at + 1 :: 2], strict=True))
    best = fitted.rules[fitted.best_rule_].name
    low, high = fitted.rule_values_.min(), fitted.rule_values_.max()
    assert found == {
        "status": "converged",
        "patches": f"{len(fitted.patches_)} in {len(fitted.history_)} rounds",
        "training": "reached: within 0.05 of the best rule on the training data (tolerance 0.025)",
        "best rule": f"{best}, worth {high:.4g} in training",
        "rules": f"1000, worth {low:.4g} to {high:.4g}",
    }


@pytest.mark.parametrize("make", [calibrator, predictor])
def test_html_of_a_thousand_rules_is_short(make):
    one = make().fit(*draw())
    own = len(one._repr_html_()) - len(estimator_html_repr(make([outrule.Fixed(0)])))
    assert own < 10_000


def test_names_are_escaped():
    predictions, outcomes = draw(m=3)
    rules = [outrule.Fixed(0, name=NASTY), outrule.Fixed(1, name=NASTY + "2")]
    for one in (calibrator(rules), predictor(rules)):
        plain = type(one).__name__
        scripts = Text(estimator_html_repr(one)).tags.count("script")
        for state in (one, one.fit(predictions, outcomes)):
            html = state._repr_html_()
            assert NASTY not in html
            assert Text(html).tags.count("script") == scripts
            assert plain in html


def test_notebooks_get_the_same_html_as_a_bundle():
    one = calibrator().fit(*draw())
    bundle = one._repr_mimebundle_()
    assert bundle["text/plain"] == repr(one)
    assert '<table class="outrule">' in bundle["text/html"]
    with config_context(display="text"):
        assert "text/html" not in one._repr_mimebundle_()
        assert not hasattr(one, "_repr_html_")


def test_a_search_over_a_calibrator_can_be_shown():
    search = GridSearchCV(calibrator(), {"epsilon": [0.1]})
    assert len(repr(search)) < 1_500
    assert "DecisionCalibrator" in search._repr_html_()
