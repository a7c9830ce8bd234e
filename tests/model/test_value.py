"""The name and the unit of the value: checked, saved with the model, read from a spec."""

import numpy as np
import pytest

import outrule
from letter import algorithm_one
from outrule import ArgumentError, BestAction, DataError, Fixed, Value

SPEC = """
[problem]
kind = "best action"
[data]
instance = "trip"
prediction = "score"
outcome = "worth"
item = "driver"
[[rules]]
name = "first"
always = "a"
"""


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Value(), "0.5"),
        (Value(observation="day"), "0.5"),
        (Value("sales"), "0.5 sales"),
        (Value("sales", "euro"), "0.5 euro"),
        (Value(unit="euro"), "0.5 euro"),
    ],
)
def test_an_amount_has_a_unit_or_else_the_name(value, words):
    assert value.amount("0.5") == words


def test_a_title_has_name_and_unit():
    assert (Value("sales", "euro").title, Value().title) == ("sales, euro", "value")


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("name", ""),
        ("name", None),
        ("unit", " euro"),
        ("unit", 3),
        ("unit", "eu\nro"),
        ("unit", "\u202eorue"),
        ("observation", "x" * 61),
    ],
)
def test_what_is_no_short_word_is_refused(name, word):
    with pytest.raises(ArgumentError, match=f"'{name}' argument of Value must be"):
        Value(**{name: word})


def test_the_calibrator_takes_nothing_else():
    calibrator = algorithm_one(BestAction(), [Fixed(0)], value="euro")
    with pytest.raises(
        ArgumentError, match=r"'value' argument of DecisionCalibrator must be Value"
    ):
        calibrator.fit(np.zeros((3, 2)), np.zeros((3, 2)))


def test_a_saved_model_keeps_the_names(tmp_path):
    value = Value("sales", "euro", "day")
    calibrator = algorithm_one(BestAction(), [Fixed(0)], value=value)
    calibrator.fit(np.zeros((3, 2)), np.zeros((3, 2))).save(tmp_path / "m.json")
    again = outrule.load(tmp_path / "m.json")
    assert again.value == again.model_.settings.value == value


def test_a_spec_names_the_value(tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text(SPEC)
    assert "value" not in outrule.read_spec(path).fit
    path.write_text(SPEC + '[value]\nname = "sales"\nunit = "euro"\n')
    assert outrule.read_spec(path).fit["value"] == Value("sales", "euro")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ('units = "euro"', r"\[value\]: 'units' is unknown. Did you mean 'unit'\?"),
        ("unit = 3", r"\[value\]: 'unit' must be a string. Got 3 instead."),
        ('unit = " euro"', r"\[value\]: The 'unit' argument of Value must be a string of 1 to 60"),
    ],
)
def test_a_fault_in_the_spec_is_named(tmp_path, entry, words):
    path = tmp_path / "spec.toml"
    path.write_text(f"{SPEC}[value]\n{entry}\n")
    with pytest.raises(DataError, match=words):
        outrule.read_spec(path)
