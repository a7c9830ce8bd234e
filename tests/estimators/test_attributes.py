"""The attributes that are read from the model."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError

import outrule

ATTRIBUTES = ["patches_", "history_", "status_", "tolerance_", "k_", "rule_values_", "best_rule_"]


def calibrator():
    return outrule.DecisionCalibrator(outrule.BestAction(), [outrule.Fixed(1)], 0.1)


@pytest.mark.parametrize("name", [*ATTRIBUTES, "isotonic_", "n_features_in_"])
def test_there_is_no_attribute_before_fit(name):
    assert not hasattr(calibrator(), name)
    with pytest.raises(NotFittedError):
        getattr(calibrator(), name)


def test_arrays_have_a_number_of_features_and_tables_have_none():
    predictions = np.random.default_rng(0).random((30, 3))
    assert calibrator().fit(predictions, predictions).n_features_in_ == 3
    frame = pl.DataFrame({"i": [0, 0, 1, 1], "j": [0, 1, 0, 1], "p": [0.1, 0.2, 0.3, 0.4]})
    table = outrule.Instances.from_table(
        frame.with_columns(y="p"), instance="i", item="j", prediction="p", outcome="y"
    )
    assert not hasattr(calibrator().fit(table), "n_features_in_")


def test_a_loaded_calibrator_has_the_same_attributes(tmp_path):
    predictions = np.random.default_rng(0).random((30, 3))
    one = calibrator().fit(predictions, 1 - predictions)
    one.save(tmp_path / "model.json")
    other = outrule.load(tmp_path / "model.json")
    for name in [*ATTRIBUTES, "n_features_in_"]:
        assert np.array_equal(getattr(one, name), getattr(other, name))
