"""What came in goes back in the same form: arrays as arrays, tables as their own columns."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from outrule import DataError, Instances
from outrule.data.origin import ArrayOrigin

TABLE = {"trip": ["b", "a", "b", "a"], "car": [1, 1, 0, 0], "score": [0.1, 0.2, 0.3, 0.4]}
NAMES = {"instance": "trip", "prediction": "score", "item": "car"}
INDEX = [10, 7, 7, 3]


def frames():
    return {
        "pandas": pd.DataFrame(TABLE),
        "pandas with an index": pd.DataFrame(TABLE, index=INDEX),
        "Polars": pl.DataFrame(TABLE),
        "lazy Polars": pl.LazyFrame(TABLE),
        "Arrow": pa.table(TABLE),
        "Arrow batch": pa.RecordBatch.from_pydict(TABLE),
    }


@pytest.mark.parametrize("kind", frames())
def test_a_column_comes_back_in_the_callers_order(kind):
    data = Instances.from_table(frames()[kind], **NAMES)
    back = data.origin.restore(data.prediction, np.nan)
    assert list(np.asarray(back)) == TABLE["score"]
    np.testing.assert_array_equal(data.origin.flatten(back), data.prediction)


@pytest.mark.parametrize(
    ("kind", "type_of_column"),
    [
        ("pandas", pd.Series),
        ("Polars", pl.Series),
        ("lazy Polars", pl.Series),
        ("Arrow", pa.Array),
        ("Arrow batch", pa.Array),
    ],
)
def test_a_column_comes_back_from_the_library_that_it_came_from(kind, type_of_column):
    data = Instances.from_table(frames()[kind], **NAMES)
    for flat in (data.prediction, data.prediction > 0.2):
        assert isinstance(data.origin.restore(flat, 0), type_of_column)


def test_a_pandas_column_comes_back_with_the_callers_index():
    frame = frames()["pandas with an index"]
    data = Instances.from_table(frame, **NAMES)
    back = data.origin.restore(data.prediction, np.nan)
    pd.testing.assert_series_equal(back, frame["score"], check_names=False)
    assert frame.assign(again=back)["again"].tolist() == TABLE["score"]
    part = data.take(np.array([1]))
    back = part.origin.restore(part.prediction, np.nan)
    assert back.index.tolist() == [7, 3]
    assert back.tolist() == [0.2, 0.4]


@settings(max_examples=40)
@given(st.data())
def test_flatten_undoes_restore_for_any_order_of_rows(data):
    n = data.draw(st.integers(1, 12))
    frame = pl.DataFrame(
        {
            "i": data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)),
            "p": np.linspace(0, 1, n),
        }
    )
    instances = Instances.from_table(frame, instance="i", prediction="p")
    flat = np.arange(n)
    back = instances.origin.restore(flat, 0)
    np.testing.assert_array_equal(instances.origin.flatten(back), flat)
    np.testing.assert_array_equal(instances.origin.rows[np.argsort(instances.origin.rows)], flat)
    part = instances.take(np.arange(len(instances))[::-1][:2])
    flat = np.arange(len(part.prediction))
    np.testing.assert_array_equal(part.origin.flatten(part.origin.restore(flat, 0)), flat)


@settings(max_examples=40)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_flatten_undoes_restore_for_any_mask(n, m, seed):
    mask = np.random.default_rng(seed).random((n, m)) < 0.5
    origin = ArrayOrigin((n, m), mask)
    flat = np.arange(mask.sum(), dtype=float)
    full = origin.restore(flat, -1.0)
    assert full.shape == (n, m)
    assert (full[~mask] == -1).all()
    np.testing.assert_array_equal(origin.flatten(full), flat)


def test_restored_arrays_keep_their_type():
    origin = ArrayOrigin((1, 2), np.array([[True, False]]))
    assert origin.restore(np.array([True]), False).dtype == bool
    np.testing.assert_array_equal(origin.restore(np.array([True]), False), [[True, False]])


def test_a_column_of_another_shape_is_refused():
    origin = ArrayOrigin((2, 3))
    message = "got an array of shape (3, 2). It must have shape (2, 3)."
    with pytest.raises(DataError, match=re.escape(message)):
        origin.flatten(np.zeros((3, 2)))
    data = Instances.from_table(pl.DataFrame(TABLE), **NAMES)
    message = "got a column of shape (3,). It must have shape (4,)."
    with pytest.raises(DataError, match=re.escape(message)):
        data.origin.flatten([0.1, 0.2, 0.3])


def test_answers_of_rules_are_broadcast_to_the_items():
    origin = ArrayOrigin((2, 2), np.array([[True, False], [True, True]]))
    np.testing.assert_array_equal(origin.gather(np.array([[1], [2]])), [1, 2, 2])
    np.testing.assert_array_equal(origin.gather(np.array([[5, 6]])), [5, 5, 6])
    with pytest.raises(ValueError, match="broadcast"):
        origin.gather(np.zeros((2, 3)))


@pytest.mark.parametrize("answer", [np.array(1.0), np.zeros(2), np.zeros((2, 2, 1))])
def test_answers_on_arrays_have_two_dimensions(answer):
    with pytest.raises(ValueError, match=f"an answer of {answer.ndim} dimensions"):
        ArrayOrigin((2, 2)).gather(answer)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (4, 1), (1, 4)])
def test_answers_on_a_table_have_its_length(shape):
    data = Instances.from_table(pl.DataFrame(TABLE), **NAMES)
    with pytest.raises(ValueError, match="an answer of shape"):
        data.origin.gather(np.zeros(shape))


def test_numbers_that_numpy_has_no_type_for_are_shown_as_objects():
    frame = pl.DataFrame(TABLE | {"big": pl.Series([2**70, 1, None, 3], dtype=pl.Int128)})
    column = Instances.from_table(frame, **NAMES).origin.column("big")
    assert column.tolist() == [None, 2**70, 3, 1]


def test_every_column_can_be_listed():
    data = Instances.from_table(pl.DataFrame(TABLE), **NAMES)
    assert [name for name, _ in data.origin.all_columns()] == ["trip", "car", "score"]
    origin = ArrayOrigin((1, 1), None, {"km": np.array([1])})
    assert [name for name, _ in origin.all_columns()] == ["km"]
