"""Wide frames: in and out again of the same kind, and columns that must be those of fit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

import outrule
from outrule.data.arrays import numeric
from outrule.estimators import frames

NAMES = ["a", "b", "c", "d"]


def draw(n=60, seed=0):
    generator = np.random.default_rng(seed)
    predictions = generator.random((n, 4))
    outcomes = np.clip(predictions * [0.3, 0.6, 0.8, 1] + generator.normal(0, 0.1, (n, 4)), 0, 1)
    return predictions, outcomes


def pandas(array, names=NAMES):
    return pd.DataFrame(array, columns=names, index=[f"row {i}" for i in range(len(array))])


def polars(array, names=NAMES):
    return pl.DataFrame(array, schema=list(names), orient="row")


def calibrator(start=None):
    rules = outrule.multipliers(4, limit=20)
    return outrule.DecisionCalibrator(outrule.BestAction(), rules, 0.05, start=start)


both = pytest.mark.parametrize("make", [pandas, polars])


@both
def test_a_frame_gives_the_same_numbers_as_its_array_and_comes_back_as_a_frame(make):
    predictions, outcomes = draw()
    one = calibrator(outrule.CrossFit()).fit(predictions, outcomes)
    other = calibrator(outrule.CrossFit()).fit(make(predictions), make(outcomes))
    assert other.patches_ == one.patches_
    assert other.feature_names_in_.tolist() == NAMES
    assert other.n_features_in_ == 4
    for method in ("predict", "decide"):
        expected = getattr(one, method)(predictions)
        got = getattr(other, method)(make(predictions))
        assert type(got) is type(make(predictions))
        assert list(got.columns) == NAMES
        assert got.to_numpy().dtype == expected.dtype
        assert (got.to_numpy() == expected).all()
    assert other.score(make(predictions), make(outcomes)) == one.score(predictions, outcomes)


def test_pandas_keeps_its_index():
    predictions, outcomes = draw()
    one = calibrator().fit(pandas(predictions), outcomes)
    for answer in (one.predict(pandas(predictions)), one.decide(pandas(predictions))):
        assert answer.index.equals(pandas(predictions).index)


@both
def test_unavailable_items_of_a_frame_come_back_as_they_came(make):
    predictions, outcomes = draw()
    on_offer = np.random.default_rng(1).random((60, 4)) < 0.8
    on_offer[:, 0] = True
    hidden = np.where(on_offer, predictions, np.nan)
    one = calibrator().fit(make(hidden), make(outcomes), available=make(on_offer))
    answer = one.predict(make(hidden), available=make(on_offer)).to_numpy()
    assert (np.isnan(answer) == ~on_offer).all()
    assert not one.decide(make(hidden), available=make(on_offer)).to_numpy()[~on_offer].any()


@both
def test_partial_fit_remembers_columns_from_its_first_batch(make):
    predictions, outcomes = draw()
    one = calibrator().partial_fit(make(predictions), make(outcomes))
    one.partial_fit(make(predictions), outcomes)
    assert one.feature_names_in_.tolist() == NAMES
    with pytest.raises(outrule.DataError, match="the columns of the predictions are not those of"):
        one.partial_fit(make(predictions, NAMES[::-1]), outcomes)


@both
@pytest.mark.parametrize("method", ["predict", "decide"])
def test_the_same_columns_in_another_order_are_refused(make, method):
    predictions, outcomes = draw()
    one = calibrator().fit(make(predictions), make(outcomes))
    message = "columns of the predictions are not those of fit: .*\n.*must be in the same order"
    with pytest.raises(outrule.DataError, match=message):
        getattr(one, method)(make(predictions, ["b", "a", "c", "d"]))


@both
def test_missing_and_other_columns_are_refused_by_name(make):
    predictions, outcomes = draw()
    one = calibrator().fit(make(predictions), make(outcomes))
    with pytest.raises(outrule.DataError, match=r"have 3 items, those of fit had 4: .*\n.*\n- d"):
        one.predict(make(predictions[:, :3], NAMES[:3]))
    with pytest.raises(
        outrule.DataError, match=r"not those of fit: .*\n.*unseen at fit time:\n- x"
    ):
        one.predict(make(predictions, ["a", "b", "c", "x"]))


@both
def test_an_array_after_a_frame_is_warned_of(make):
    predictions, outcomes = draw()
    one = calibrator().fit(make(predictions), make(outcomes))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        answer = one.predict(predictions)
    assert isinstance(answer, np.ndarray)


@both
def test_a_frame_after_an_array_needs_only_the_number_of_items(make):
    predictions, outcomes = draw()
    one = calibrator().fit(predictions, outcomes)
    assert not hasattr(one, "feature_names_in_")
    assert (one.predict(make(predictions)).to_numpy() == one.predict(predictions)).all()
    with pytest.raises(outrule.DataError, match=r"have 3 items, .* had 4: X has 3 features, but"):
        one.predict(make(predictions[:, :3], NAMES[:3]))


def test_a_second_fit_forgets_the_columns_of_the_first():
    predictions, outcomes = draw()
    one = calibrator().fit(pandas(predictions), outcomes).fit(predictions, outcomes)
    assert not hasattr(one, "feature_names_in_")


def test_a_failed_fit_forgets_nothing():
    predictions, outcomes = draw()
    one = calibrator().fit(pandas(predictions), outcomes)
    with pytest.raises(outrule.DataError):
        one.fit(np.full((3, 4), 2.0), np.full((3, 4), 2.0))
    assert one.feature_names_in_.tolist() == NAMES


@both
@pytest.mark.parametrize("name", ["outcomes", "available"])
def test_a_second_frame_in_another_order_is_refused(make, name):
    predictions, outcomes = draw()
    second = outcomes if name == "outcomes" else outcomes >= 0
    given = {"outcomes": outcomes, name: make(second, ["a", "c", "b", "d"])}
    with pytest.raises(
        outrule.DataError,
        match=rf"column 1 of {name} is 'c', but that of the predictions is 'b'. .*"
        rf"give {name}\[predictions.columns\]",
    ):
        calibrator().fit(make(predictions), **given)


@both
def test_a_second_frame_that_lacks_a_column_is_refused(make):
    predictions, outcomes = draw()
    with pytest.raises(
        outrule.DataError, match=r"column 3 of outcomes is none, but that of .* 'd'"
    ):
        calibrator().fit(make(predictions), make(outcomes[:, :3], NAMES[:3]))


@both
def test_columns_of_other_names_stand_in_the_same_order(make):
    predictions, outcomes = draw()
    one = calibrator().fit(make(predictions), make(outcomes, ["y_a", "y_b", "y_c", "y_d"]))
    assert one.patches_ == calibrator().fit(predictions, outcomes).patches_


def test_numbers_and_pairs_may_name_columns():
    predictions, outcomes = draw()
    for columns in (range(4), pd.MultiIndex.from_product([["x", "y"], ["p", "q"]])):
        frame = pd.DataFrame(predictions, columns=columns)
        one = calibrator().fit(frame, outcomes)
        assert one.predict(frame).columns.equals(frame.columns)


def test_columns_named_half_by_text_are_refused():
    predictions, outcomes = draw()
    with pytest.raises(outrule.DataError, match="some columns of the predictions are named"):
        calibrator().fit(pd.DataFrame(predictions, columns=["a", 1, 2, 3]), outcomes)


def pandas_with_a_null(array):
    frame = pandas(array).convert_dtypes()
    frame.iloc[7, 1] = pd.NA
    return frame


def polars_with_a_null(array):
    return polars(
        [
            [None if (i, j) == (7, 1) else x for j, x in enumerate(row)]
            for i, row in enumerate(array.tolist())
        ]
    )


@pytest.mark.parametrize("make", [pandas_with_a_null, polars_with_a_null])
@pytest.mark.parametrize("where", ["predictions", "outcomes"])
def test_nulls_are_found_as_nan_is(make, where):
    data = dict(zip(("predictions", "outcomes"), draw(), strict=True))
    data[where] = make(data[where])
    with pytest.raises(outrule.DataError, match=f"{where[:-1]} is NaN at instance 7, item 1"):
        calibrator().fit(**data)


@both
def test_a_frame_of_text_is_refused(make):
    _, outcomes = draw(3)
    with pytest.raises(outrule.DataError, match="For a table with one row per item"):
        calibrator().fit(make([["x"] * 4] * 3), outcomes)


def test_sparse_complex_flat_and_empty_predictions_are_refused():
    predictions, outcomes = draw()
    faults = {
        r"as a sparse matrix, .* not supported: give predictions.toarray\(\)": sparse.csr_array(
            predictions
        ),
        "predictions hold complex numbers. Complex data not supported": predictions + 1j,
        r"shape \(4,\). They must have shape \(n, m\). Reshape your data": predictions[0],
        r"have shape \(60, 0\): there must be .* 0 feature\(s\)": predictions[:, :0],
        r"have shape \(0, 4\): there must be instances": predictions[:0],
        "predictions came as a masked array": np.ma.masked_array(predictions),
        "do all rows have the same length": [[0.1, 0.2], [0.3]],
    }
    one = calibrator().fit(predictions, outcomes)
    for message, bad in faults.items():
        with pytest.raises(outrule.DataError, match=message):
            calibrator().fit(bad, outcomes)
        with pytest.raises(outrule.DataError, match=message):
            one.predict(bad)
    with pytest.raises(outrule.DataError, match="outcomes hold complex numbers"):
        calibrator().fit(predictions, outcomes + 1j)


@both
@given(array=hnp.arrays(np.float64, st.tuples(st.integers(1, 5), st.just(4)), elements=st.floats()))
def test_what_goes_into_a_frame_comes_out(make, array):
    there = numeric(make(array), "predictions")
    np.testing.assert_array_equal(there, array)
    np.testing.assert_array_equal(frames.restore(array, make(array)).to_numpy(), array)


@both
def test_features_become_columns_by_name(make):
    array = np.arange(12.0).reshape(3, 4)
    columns = frames.columns(make(array))
    assert list(columns) == NAMES
    np.testing.assert_array_equal(np.column_stack(list(columns.values())), array)
    assert frames.columns(array) == {}


def test_two_features_of_one_name_are_refused():
    with pytest.raises(outrule.DataError, match="X has two columns 'a': rename or drop one"):
        frames.columns(pd.DataFrame(np.zeros((2, 3)), columns=["b", "a", "a"]))
