"""Segments: which instances belong together, what is pooled, and which columns are refused."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

from outrule import Instances, Segments
from outrule.data.segments import as_segments, cut, segment_name
from outrule.errors import ArgumentError, DataError


def arrays(**columns):
    n = len(next(iter(columns.values())))
    return Instances.from_arrays(np.full((n, 2), 0.5), columns=columns)


def names(instances, by, **size):
    found = cut(instances, Segments(by, **{"min_share": 0.1, "min_instances": 1, **size}))
    return [segment.name for segment in found.segments]


def test_every_value_is_a_segment_and_a_tuple_is_the_crossing():
    data = arrays(city=["b", "a", "b", "a"], day=[1, 1, 2, 1])
    assert names(data, ["city", ("city", "day")]) == [
        "city = a",
        "city = b",
        "city = a, day = 1",
        "city = b, day = 1",
        "city = b, day = 2",
    ]
    found = cut(data, Segments(["city", ("city", "day")], 0.1, 1))
    assert found.inside(data).astype(int).tolist() == [
        [0, 1, 0, 1],
        [1, 0, 1, 0],
        [0, 1, 0, 1],
        [1, 0, 0, 0],
        [0, 0, 1, 0],
    ]
    assert [segment.share for segment in found.segments] == [0.5, 0.5, 0.5, 0.25, 0.25]


def test_small_values_are_pooled_and_a_small_pool_is_no_segment():
    data = arrays(city=["a"] * 90 + ["b"] * 4 + ["c"] * 4 + ["d"] * 2)
    found = cut(data, Segments(["city"], 0.05, 1))
    assert [segment.name for segment in found.segments] == ["city = a", "other city"]
    assert found.note == (
        "segments below 5 % and 1 instance: 3 values of city (10 % of the weight) are pooled as "
        "'other city'."
    )
    found = cut(data, Segments(["city"], 0.05, 11))
    assert [segment.name for segment in found.segments] == ["city = a"]
    assert "3 values of city (10 % of the weight) are too few to be judged" in found.note
    assert found.inside(data).sum() == 90
    with pytest.raises(DataError, match="no value of city has 5 % of the weight and 91 instances"):
        cut(data, Segments(["city"], 0.05, 91))


def test_an_unseen_value_belongs_to_the_pool_or_to_no_segment():
    data = arrays(city=["a"] * 8 + ["b", "c"])
    new = arrays(city=["x", "a", None])
    pooled = cut(data, Segments(["city"], 0.2, 1))
    assert pooled.inside(new).tolist() == [[False, True, False], [True, False, True]]
    named = cut(data, Segments(["city"], 0.1, 1))
    assert named.inside(new)[:, 0].tolist() == [False, False, False]


def test_shares_are_those_of_the_weight():
    weight = [0.0, 0.0, 1.0, 3.0]
    data = Instances.from_arrays(
        np.full((4, 2), 0.5), weight=weight, columns={"city": ["z", "a", "a", "b"]}
    )
    found = cut(data, Segments(["city"], 0.25, 1))
    assert [(s.name, s.share) for s in found.segments] == [("city = a", 0.25), ("city = b", 0.75)]
    assert found.note is None  # nothing is said of what has no weight
    assert len(cut(data, Segments(["city"], 0.26, 1)).segments) == 1


@pytest.mark.parametrize(
    "column",
    [
        [1.0, np.nan, 1.0],
        ["1", None, "1"],
        np.array([1, None, 1], dtype=object),
        np.array([1, pd.NA, "1"], dtype=object),
    ],
)
def test_nulls_are_a_segment_and_one_is_one_in_any_type(column):
    assert names(arrays(city=column), ["city"]) == ["city = 1", "city is null"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([True, False], ["false", "true"]),
        ([datetime.date(2024, 1, 2), datetime.date(2024, 1, 1)], ["2024-01-01", "2024-01-02"]),
        ([0.5, 2.0], ["0.5", "2"]),
        (["null", "x"], ["null", "x"]),
    ],
)
def test_the_name_of_a_value_is_the_same_from_arrays_and_tables(values, expected):
    table = pl.DataFrame({"trip": [0, 1], "score": [0.5, 0.5], "kind": values})
    found = Instances.from_table(table, instance="trip", prediction="score")
    assert names(found, ["kind"]) == [f"kind = {text}" for text in expected]
    assert names(arrays(kind=np.array(values)), ["kind"]) == names(found, ["kind"])


def test_times_of_nanoseconds_have_names():
    column = np.array(["2024-01-01T10", "NaT"], dtype="datetime64[ns]")
    assert names(arrays(hour=column), ["hour"]) == ["hour = 2024-01-01T10:00:00", "hour is null"]


def test_a_column_that_changes_within_an_instance_is_refused_with_the_first_place():
    table = pl.DataFrame(
        {"trip": ["a", "b", "b", "a"], "score": [0.5] * 4, "km": [1.0, 2.0, 3.0, 1.0]}
    )
    found = Instances.from_table(table, instance="trip", prediction="score")
    with pytest.raises(DataError) as error:
        cut(found, Segments(["km"], 0.1, 1))
    assert str(error.value).startswith(
        "column 'km' changes within the instance at instance 'b', row 2 of the table. A segment "
        "must be the same for all items of an instance"
    )
    assert error.value.faults == {2: "column 'km' changes within the instance"}
    wide = arrays(km=np.array([[1, 1], [2, 3]]))
    with pytest.raises(DataError, match="at instance 1, item 1"):
        cut(wide, Segments(["km"], 0.1, 1))


def test_items_that_are_not_on_offer_do_not_count():
    data = Instances.from_arrays(
        np.full((2, 2), 0.5),
        available=[[True, True], [True, False]],
        columns={"km": np.array([[1, 1], [2, 3]])},
    )
    assert names(data, ["km"]) == ["km = 1", "km = 2"]


def test_columns_that_cannot_name_segments_are_refused():
    table = pl.DataFrame({"trip": [0, 1], "score": [0.5, 0.5], "tags": [[1], [2]]})
    found = Instances.from_table(table, instance="trip", prediction="score")
    with pytest.raises(DataError, match=r"column 'tags' holds List\(Int64\), which cannot name"):
        cut(found, Segments(["tags"]))
    with pytest.raises(DataError, match="column 'city' is missing"):
        cut(found, Segments(["city"]))
    with pytest.raises(DataError, match="column 'city' is missing"):
        cut(arrays(town=["a"]), Segments(["city"]))
    with pytest.raises(DataError, match="column 'x' holds set, which cannot name"):
        cut(arrays(x=np.array([{1}, {2}], dtype=object)), Segments(["x"]))
    with pytest.raises(DataError, match="column 'x' has a value of 201 characters"):
        cut(arrays(x=["a" * 201]), Segments(["x"]))


def test_the_order_of_instances_changes_nothing():
    generator = np.random.default_rng(0)
    city, weight = generator.choice(["a", "b", "c"], 300), generator.random(300)
    order = generator.permutation(300)
    data = Instances.from_arrays(np.full((300, 2), 0.5), weight=weight, columns={"city": city})
    by = Segments(["city"], min_instances=1)
    assert cut(data, by) == cut(data.take(order), by)


@pytest.mark.parametrize(
    "by", ["city", [], (), [()], [1], [("a", "a")], ["a", ("a",)], [("a", "b"), ("b", "a")], 3]
)
def test_what_names_no_columns_is_refused(by):
    with pytest.raises(ArgumentError, match="'segments' argument of Segments must be"):
        Segments(by)


@pytest.mark.parametrize(
    ("name", "value"), [("min_share", 0), ("min_share", 1.1), ("min_instances", 0)]
)
def test_sizes_outside_their_range_are_refused(name, value):
    with pytest.raises(ArgumentError, match=f"'{name}' argument of Segments must be"):
        Segments(["a"], **{name: value})


def test_an_argument_may_be_empty_a_list_or_segments():
    assert as_segments(None) is as_segments(()) is as_segments([]) is None
    assert as_segments(["a"]) == as_segments(Segments(["a"])) == Segments((("a",),))


def test_a_name_cannot_break_a_line_or_steer_a_terminal():
    name = segment_name(("city",), ("Rome\n  pass in everything\x1b[31m",))
    assert name == "city = Rome\\n  pass in everything\\x1b[31m"
    assert segment_name(("city", "day"), ("Köln", None)) == "city = Köln, day is null"
