"""Numbers agree with their nouns, and have no more digits than their intervals support."""

import math

import pytest

from outrule.words import Figures, as_html, begun, count, figure, listed, round_up


@pytest.mark.parametrize(
    ("number", "noun", "words"),
    [
        (0, "round", "no rounds"),
        (1, "day", "1 day"),
        (2, "day", "2 days"),
        (2, "patch", "2 patches"),
        (1_200, "city", "1,200 cities"),
        (3, "bus", "3 buses"),
        (5, "box", "5 boxes"),
    ],
)
def test_a_number_agrees_with_its_noun(number, noun, words):
    assert count(number, noun) == words


def test_a_sentence_begins_with_a_large_letter_and_units_keep_theirs():
    assert begun("margin 0.1 EUR per UK batch") == "Margin 0.1 EUR per UK batch"
    assert begun("") == ""


def test_words_are_listed():
    assert (listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])) == (
        "a",
        "a and b",
        "a, b and c",
    )


@pytest.mark.parametrize(
    ("number", "up"), [(0.0, 0.0), (-1.0, 0.0), (0.0301, 0.031), (0.04, 0.04), (1234.0, 1300.0)]
)
def test_two_digits_are_never_too_few(number, up):
    assert round_up(number) == up


def test_more_digits_are_rounded_up_too():
    assert [round_up(number, 4) for number in (12.0, 6458.02, 123_456.0)] == [12, 6459, 123_500]


@pytest.mark.parametrize(
    ("number", "digits", "words"),
    [(15_000, 4, "15,000"), (1_234, 2, "1,200"), (-0.0156, 4, "-0.0156"), (0.05, 4, "0.05")],
)
def test_large_figures_have_no_exponent(number, digits, words):
    assert figure(number, digits) == words


@pytest.mark.parametrize(
    ("width", "number", "words"),
    [
        (0.001, 0.12345, "0.1235"),
        (0.001, -0.00001, "0.0000"),
        (1.0, 1234.56, "1,234.6"),
        (900.0, -1234.56, "-1,235"),
        (1e-6, 0.00012346, "0.0001235"),
        (0.0, 0.5, "0.5000"),
        (math.inf, 0.5, "0.5000"),
    ],
)
def test_numbers_have_two_digits_of_their_interval(width, number, words):
    assert Figures.for_width(width).plain(number) == words


def test_a_lower_bound_is_never_rounded_up():
    write = Figures(3)
    assert (write.plain(0.0058), write.down(0.0058)) == ("0.006", "0.005")
    assert write.down(-0.0121) == "-0.013"
    assert [write.down(bound, "+") for bound in (0.005, 0.3, -0.03)] == [
        "+0.005",
        "+0.300",
        "-0.030",
    ]


def test_markup_and_what_turns_round_a_line_are_escaped_and_blanks_stay():
    assert as_html("<b>\u202e\x00'\n\t\xa0é") == "&lt;b&gt;\\u202e\\x00&#x27;\n\t\xa0é"
