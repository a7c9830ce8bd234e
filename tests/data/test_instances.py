"""Instances: the flat list of items, parts of it, and what a rule sees."""

import re

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

import outrule
from outrule import DataError, Instances

PREDICTIONS = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6], [0.7, 0.8, 0.9]])
OUTCOMES = np.array([[0, 1, 0], [1, 1, 0], [0, 0, 1]])
MASK = np.array([[True, False, True], [True, True, True], [False, False, True]])
TABLE = {
    "trip": ["b", "a", "b", "c", "a", "b"],
    "car": [2, 0, 0, 1, 1, 1],
    "score": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6],
    "bought": [0, 1, 0, 1, 0, 1],
    "start": [0.6, 0.5, 0.4, 0.3, 0.2, 0.1],
    "weight": [1.0, 2.0, 1.0, 3.0, 2.0, 1.0],
    "day": ["mo", "tu", "mo", "mo", "tu", "mo"],
    "km": [5, 4, 3, 2, 1, 0],
}


def arrays(**changes):
    given = {
        "predictions": PREDICTIONS,
        "outcomes": OUTCOMES,
        "available": MASK,
        "start": PREDICTIONS / 2,
        "weight": [1.0, 2.0, 3.0],
        "cluster": ["x", "y", "x"],
        "columns": {"km": [1, 2, 3], "size": PREDICTIONS * 10},
    }
    return Instances.from_arrays(**(given | changes))


def table(frame=None, **changes):
    names = {
        "instance": "trip",
        "prediction": "score",
        "outcome": "bought",
        "item": "car",
        "start": "start",
        "weight": "weight",
        "cluster": "day",
    }
    return Instances.from_table(pl.DataFrame(TABLE) if frame is None else frame, **names | changes)


def same(one, other):
    for name in ("prediction", "offsets", "outcome", "start", "item", "weight", "cluster"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert one.item_names == other.item_names
    assert one.value_range == other.value_range


def test_an_item_stands_at_its_offset_in_every_flat_array():
    data = arrays()
    np.testing.assert_array_equal(data.offsets, [0, 2, 5, 6])
    np.testing.assert_array_equal(data.prediction, [0.1, 0.3, 0.4, 0.5, 0.6, 0.9])
    np.testing.assert_array_equal(data.outcome, [0, 0, 1, 1, 0, 1])
    np.testing.assert_array_equal(data.start, data.prediction / 2)
    np.testing.assert_array_equal(data.item, [0, 2, 0, 1, 2, 2])
    np.testing.assert_array_equal(data.instance, [0, 0, 1, 1, 1, 2])
    np.testing.assert_array_equal(data.cluster, [0, 1, 0])
    assert len(data) == 3
    assert data.width is None
    assert arrays(available=None).width == 3


def test_instances_of_a_table_stand_in_order_of_first_appearance_and_items_in_sorted_order():
    data = table()
    np.testing.assert_array_equal(data.offsets, [0, 3, 5, 6])
    np.testing.assert_array_equal(data.prediction, [0.3, 0.6, 0.1, 0.2, 0.5, 0.4])
    np.testing.assert_array_equal(data.outcome, [0, 1, 0, 1, 0, 1])
    np.testing.assert_array_equal(data.start, [0.4, 0.1, 0.6, 0.5, 0.2, 0.3])
    np.testing.assert_array_equal(data.item, [0, 1, 2, 0, 1, 1])
    assert data.item_names == (0, 1, 2)
    np.testing.assert_array_equal(data.weight, [1, 2, 3])
    np.testing.assert_array_equal(data.cluster, [0, 1, 0])
    assert data.origin.labels.to_list() == ["b", "a", "c"]
    assert data.width is None


def test_without_an_item_column_the_rows_of_an_instance_keep_their_order():
    data = table(item=None)
    np.testing.assert_array_equal(data.prediction, [0.1, 0.3, 0.6, 0.2, 0.5, 0.4])
    assert data.item is None
    assert data.item_names is None


def test_weights_are_normalised_to_mean_one():
    np.testing.assert_allclose(arrays().normalised_weight(), [0.5, 1.0, 1.5])
    np.testing.assert_array_equal(arrays(weight=None).normalised_weight(), [1, 1, 1])


@settings(max_examples=40)
@given(st.lists(st.integers(0, 2), max_size=5))
def test_taking_instances_takes_all_that_belongs_to_them(chosen):
    chosen = np.array(chosen, dtype=np.int64)
    for data in (arrays(), arrays(available=None), table(), table(item=None)):
        part = data.take(chosen)
        assert len(part) == len(chosen)
        for new, old in enumerate(chosen):
            here = slice(*part.offsets[new : new + 2])
            there = slice(*data.offsets[old : old + 2])
            for name in ("prediction", "outcome", "start", "item"):
                if getattr(data, name) is not None:
                    np.testing.assert_array_equal(
                        getattr(part, name)[here], getattr(data, name)[there]
                    )
            assert part.weight[new] == data.weight[old]
            assert part.cluster[new] == data.cluster[old]
            assert part.where(new).split()[0] == "instance"
        rows = [np.flatnonzero(data.instance == old) for old in chosen]
        km = data.origin.flat_column("km")[np.concatenate([*rows, []]).astype(int)]
        np.testing.assert_array_equal(part.origin.flat_column("km"), km)


def test_a_slice_is_the_instances_from_start_to_stop():
    for data in (arrays(), table()):
        same(data.slice(1, 3), data.take(np.array([1, 2])))
        assert data.slice(0, 3) is data


def test_parts_restore_what_belongs_to_them():
    part = arrays().take(np.array([2, 0]))
    np.testing.assert_array_equal(
        part.origin.restore(part.prediction, -1.0), [[-1, -1, 0.9], [0.1, -1, 0.3]]
    )
    part = table().take(np.array([2, 0]))
    assert part.origin.restore(part.prediction, np.nan).to_list() == [0.1, 0.3, 0.4, 0.6]


def test_a_place_is_told_in_the_callers_words():
    assert arrays().where(1) == "instance 1"
    assert arrays().where(0, 1) == "instance 0, item 2"
    assert arrays().where_flat(5) == "instance 2, item 2"
    assert arrays(available=None).where_flat(5) == "instance 1, item 2"
    assert table().where(1) == "instance 'a'"
    assert table().where_flat(2) == "instance 'b', row 0 of the table"
    assert table().slice(1, 3).where_flat(2) == "instance 'c', row 3 of the table"


def test_parts_of_arrays_keep_the_callers_numbers():
    n = 9
    mask = np.ones((n, 2), dtype=bool)
    mask[6, 0] = False
    for available, item in ((None, 0), (mask, 1)):
        data = Instances.from_arrays(np.full((n, 2), 0.5), available=available)
        assert data.slice(4, 8).where(2, 0) == f"instance 6, item {item}"
        assert data.slice(4, 8).slice(1, 3).where(1, 0) == f"instance 6, item {item}"
        part = data.take(np.array([8, 6, 1]))
        assert part.where(1, 0) == f"instance 6, item {item}"
        assert part.slice(1, 3).where(0) == "instance 6"
        assert data.slice(4, 8).take(np.array([3, 2])).where(1) == "instance 6"
        assert part.where_flat(0) == "instance 8, item 0"


def test_items_have_numbers_or_names_or_neither():
    assert arrays().names_of_items == range(3)
    assert arrays().slice(1, 2).names_of_items == range(3)
    assert table().names_of_items == (0, 1, 2)
    assert table(item=None).names_of_items is None


def test_items_are_named_in_the_callers_words():
    assert arrays().name_items(np.array([0, 1])) == "items [0, 2]"
    assert arrays().name_items(np.array([], dtype=int)) == "no item"
    names = pl.DataFrame(TABLE).with_columns(
        car=pl.col("car").replace_strict({0: "x", 1: "y", 2: "z"})
    )
    assert table(names).name_items(np.array([0, 2])) == "items ['x', 'z']"
    assert table(item=None).name_items(np.array([0, 1])) == "rows [0, 2]"


def test_picks_become_marks():
    picks = np.array([[1, -1], [0, 2], [-1, -1]], dtype=np.int32)
    np.testing.assert_array_equal(arrays().mark(picks), [0, 1, 1, 0, 1, 0])


def test_outcomes_are_asked_for_where_they_are_needed():
    np.testing.assert_array_equal(arrays().require_outcome("fit"), arrays().outcome)
    message = "The 'outcomes' argument of fit must be given. Got None instead."
    with pytest.raises(outrule.ArgumentError, match=re.escape(message)):
        arrays(outcomes=None).require_outcome("fit")


# What a rule sees


def test_a_view_of_arrays_has_their_shape_and_nan_where_an_item_is_not_on_offer():
    view = arrays().view()
    np.testing.assert_array_equal(view.predictions, np.where(MASK, PREDICTIONS, np.nan))
    np.testing.assert_array_equal(view["km"], [[1], [2], [3]])
    np.testing.assert_array_equal(view["size"], PREDICTIONS * 10)
    np.testing.assert_array_equal(view["item"], [[0, 1, 2]])
    np.testing.assert_array_equal(view.instance, [[0], [1], [2]])
    np.testing.assert_array_equal(arrays(available=None).view().predictions, PREDICTIONS)


def test_a_view_of_a_table_has_one_entry_per_row_the_rows_of_an_instance_together():
    view = table().view()
    np.testing.assert_array_equal(view.predictions, [0.3, 0.6, 0.1, 0.2, 0.5, 0.4])
    np.testing.assert_array_equal(view["km"], [3, 0, 5, 4, 1, 2])
    np.testing.assert_array_equal(view.instance, [0, 0, 0, 1, 1, 2])
    assert view.frame["trip"].to_list() == ["b", "b", "b", "a", "a", "c"]


@pytest.mark.parametrize("part", [lambda data: data, lambda data: data.slice(1, 3)])
def test_a_view_never_shows_the_outcome(part):
    view = part(table()).view()
    assert "bought" not in view.frame.columns
    with pytest.raises(DataError, match=re.escape("column 'bought' is missing.")):
        view["bought"]
    with pytest.raises(DataError, match=re.escape("column 'outcome' is missing.")):
        part(arrays()).view()["outcome"]


def test_a_missing_column_is_told_with_those_there_are():
    message = "column 'hour' is missing. The columns are: 'km', 'size', 'item'."
    with pytest.raises(DataError, match=re.escape(message)):
        arrays().view()["hour"]


def test_arrays_have_no_frame():
    message = "These instances came as arrays, not as a table: use view['column']."
    with pytest.raises(DataError, match=re.escape(message)):
        _ = arrays().view().frame


@pytest.mark.parametrize("make", [arrays, table, lambda: arrays(available=None)])
def test_a_view_cannot_be_written_to(make):
    for data in (make(), make().slice(0, 2)):
        before = data.prediction.copy()
        with pytest.raises(ValueError, match="read-only"):
            data.view().predictions[:] = 0.5
        np.testing.assert_array_equal(data.prediction, before)
        with pytest.raises(ValueError, match="read-only"):
            data.view()["km"][:] = 0


def test_a_rule_cannot_write_into_the_callers_columns():
    km, size = np.array([1, 2, 3]), PREDICTIONS * 10
    view = arrays(columns={"km": km, "size": size}).view()
    for name in ("km", "size"):
        with pytest.raises(ValueError, match="read-only"):
            view[name][0] = 9
    assert np.shares_memory(view["size"], size)
    assert size.flags.writeable


def test_a_rule_cannot_write_into_the_table():
    data = table()
    data.view().frame[0, "km"] = 9
    with pytest.raises(ValueError, match="read-only"):
        data.view().instance[0] = 1
    assert data.view()["km"].tolist() == [3, 0, 5, 4, 1, 2]


# The fingerprint


def test_the_fingerprint_of_the_same_data_is_the_same():
    assert arrays().fingerprint == arrays().fingerprint
    assert table().fingerprint == table().fingerprint
    assert len(arrays().fingerprint) == 64


CHANGES = {
    "predictions": PREDICTIONS + np.eye(3) * 1e-9,
    "outcomes": 1 - OUTCOMES,
    "no outcomes": None,
    "available": None,
    "start": PREDICTIONS / 3,
    "no start": None,
    "weight": [1.0, 2.0, 4.0],
    "no weight": None,
    "cluster": ["x", "y", "y"],
    "no cluster": None,
    "columns": {"km": [1, 2, 4], "size": PREDICTIONS * 10},
    "no columns": None,
    "value_range": (0.0, 2.0),
}


def test_the_fingerprint_changes_when_anything_changes():
    prints = [arrays().fingerprint]
    prints += [
        arrays(**{name.removeprefix("no "): value}).fingerprint for name, value in CHANGES.items()
    ]
    prints.append(arrays(columns={"km": [1, 2, 3], "volume": PREDICTIONS * 10}).fingerprint)
    prints.append(arrays(columns={"km": [1.0, 2, 3], "size": PREDICTIONS * 10}).fingerprint)
    prints.append(arrays().take(np.array([0, 2, 1])).fingerprint)
    prints.append(arrays().slice(0, 2).fingerprint)
    assert len(set(prints)) == len(prints)


def test_the_fingerprint_changes_with_every_cell_of_a_table():
    frame = pl.DataFrame(TABLE)
    prints = [table().fingerprint]
    for name, value in {
        "trip": "d",
        "car": 3,
        "score": 0.7,
        "bought": 0,
        "start": 0.7,
        "km": -1,
    }.items():
        column = frame[name].to_list()
        column[-1] = value
        changed = frame.with_columns(pl.Series(name, column))
        prints.append(table(changed, weight=None, cluster=None).fingerprint)
    prints.append(table(weight=None, cluster=None).fingerprint)
    prints.append(table(frame.with_columns(weight=pl.col("weight") * 2)).fingerprint)
    prints.append(table(frame.with_columns(day=pl.lit("mo"))).fingerprint)
    prints.append(table(frame.rename({"km": "miles"})).fingerprint)
    prints.append(table(frame.drop("km")).fingerprint)
    prints.append(table(item=None).fingerprint)
    prints.append(table(value_range=(0, 2)).fingerprint)
    assert len(set(prints)) == len(prints)
