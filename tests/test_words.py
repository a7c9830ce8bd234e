"""Numbers agree with their nouns."""

from outrule.words import count


def test_a_number_agrees_with_its_noun():
    assert [count(n, "round") for n in (0, 1, 2_000)] == ["no rounds", "1 round", "2,000 rounds"]
    assert count(2, "patch", "patches") == "2 patches"
