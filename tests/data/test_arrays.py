"""The way in: every kind of array and table is read alike, every fault has its message."""

import re
from fractions import Fraction

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import outrule
from outrule import ArgumentError, DataError, Instances

GOOD = np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])
TABLE = {
    "trip": ["b", "a", "b", "a"],
    "car": ["x", "y", "y", "x"],
    "score": [0.1, 0.2, 0.3, 0.4],
    "bought": [0.0, 1.0, 1.0, 0.0],
    "weight": [1.0, 2.0, 1.0, 2.0],
    "day": ["mo", "tu", "mo", "tu"],
}
NAMES = {"instance": "trip", "prediction": "score", "outcome": "bought", "item": "car"}


def refused(message):
    return pytest.raises(DataError, match=re.escape(message))


def read(frame=None, **changes):
    frame = pl.DataFrame(TABLE) if frame is None else frame
    return Instances.from_table(frame, **NAMES | changes)


def with_cell(name, row, value):
    column = list(TABLE[name])
    column[row] = value
    return pl.DataFrame(TABLE).with_columns(pl.Series(name, column))


# Arrays


@pytest.mark.parametrize(
    "change",
    [
        np.asfortranarray,
        lambda array: np.repeat(array, 2, axis=1)[:, ::2],
        lambda array: array.tolist(),
        lambda array: array.astype(object),
        pd.DataFrame,
        pl.DataFrame,
    ],
)
def test_arrays_of_any_kind_are_read_alike(change):
    data = Instances.from_arrays(change(GOOD), change(GOOD))
    np.testing.assert_array_equal(data.prediction, GOOD.ravel())
    np.testing.assert_array_equal(data.outcome, GOOD.ravel())
    assert data.prediction.flags.c_contiguous
    assert data.prediction.dtype == np.float64


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float32, np.float16])
def test_outcomes_of_any_type_of_number_are_read(dtype):
    outcomes = np.array([[0, 1], [1, 1], [0, 0]], dtype=dtype)
    data = Instances.from_arrays(GOOD.astype(np.float32), outcomes)
    np.testing.assert_array_equal(data.outcome, [0, 1, 1, 1, 0, 0])
    assert data.outcome.dtype == np.float64


def test_what_stands_where_no_item_is_on_offer_is_ignored():
    predictions = GOOD.copy()
    predictions[1, 1] = np.nan
    outcomes = GOOD.copy()
    outcomes[1, 1] = 7.0
    mask = np.ones((3, 2), dtype=bool)
    mask[1, 1] = False
    data = Instances.from_arrays(predictions, outcomes, available=mask, start=predictions)
    np.testing.assert_array_equal(data.prediction, [0.1, 0.2, 0.3, 0.5, 0.6])


def test_another_range_is_kept_with_its_values():
    data = Instances.from_arrays([[-3.0, 5.0]], [[5.0, 0.0]], value_range=(-3, 5))
    assert data.value_range == (-3.0, 5.0)
    np.testing.assert_array_equal(data.prediction, [-3, 5])


@pytest.mark.parametrize("name", ["prediction", "outcome", "start"])
@pytest.mark.parametrize(("bad", "word"), [(np.nan, "NaN"), (np.inf, "infinite"), (None, "NaN")])
def test_values_that_are_not_finite_are_refused(name, bad, word):
    values = {"prediction": GOOD, "outcome": GOOD, "start": GOOD}
    values[name] = GOOD.astype(object)
    values[name][1, 0] = bad
    plural = "Start predictions" if name == "start" else f"{name.capitalize()}s"
    rest = f". {plural} must be finite: drop the instance, or mark the item as unavailable."
    if (name, word) == ("outcome", "NaN"):
        rest = ", and in 1 of 6 entries. Does the log know only the outcome of what was chosen?"
    with refused(f"{name} is {word} at instance 1, item 0{rest}"):
        Instances.from_arrays(values["prediction"], values["outcome"], start=values["start"])


@pytest.mark.parametrize("name", ["prediction", "outcome", "start"])
@pytest.mark.parametrize("bad", [-0.01, 1.5])
def test_values_outside_the_range_are_refused(name, bad):
    values = {"prediction": GOOD, "outcome": GOOD, "start": GOOD}
    values[name] = GOOD.copy()
    values[name][2, 1] = bad
    with refused(
        f"{name} is {bad:g} at instance 2, item 1, outside [0, 1]. "
        "Give Instances (or [data] of the spec) the range of the values: value_range."
    ):
        Instances.from_arrays(values["prediction"], values["outcome"], start=values["start"])


def test_the_place_of_a_fault_counts_the_items_that_are_not_on_offer():
    with refused("prediction is 3 at instance 0, item 2, outside"):
        Instances.from_arrays([[0.1, 0.2, 3.0]], available=[[True, False, True]])


@pytest.mark.parametrize("predictions", [[0.1, 0.2], np.zeros((2, 2, 2)), []])
def test_predictions_that_are_no_table_are_refused(predictions):
    with refused(f"predictions have shape {np.shape(predictions)}. They must have shape (n, m)."):
        Instances.from_arrays(predictions)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_no_instances_or_no_items_are_refused(shape):
    with refused(f"predictions have shape {shape}: there must be instances and items."):
        Instances.from_arrays(np.zeros(shape))


@pytest.mark.parametrize("predictions", [[["a", "b"]], [[object()]], [[10**400]]])
def test_predictions_that_are_no_numbers_are_refused(predictions):
    with refused("predictions cannot be read as numbers."):
        Instances.from_arrays(predictions)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("predictions", "predictions"),
        ("outcomes", "outcomes"),
        ("available", "available"),
        ("cluster", "clusters"),
        ("columns", "column 'km'"),
    ],
)
def test_rows_of_several_lengths_and_masked_arrays_are_refused(name, words):
    def give(array):
        values = {"predictions": GOOD} | {name: {"km": array} if name == "columns" else array}
        Instances.from_arrays(**values)

    with refused(f"{words} cannot be read as an array: do all rows have the same length?"):
        give([[0.1], [0.2, 0.3]])
    with refused(
        f"{words} came as a masked array. Give a plain array: "
        "available= says which items are on offer."
    ):
        give(np.ma.masked_array(GOOD, mask=GOOD > 0.5))


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table])
def test_a_table_among_arrays_is_shown_its_own_way_in(make):
    message = (
        "predictions cannot be read as numbers. "
        "For a table with one row per item, use Instances.from_table."
    )
    with refused(message):
        Instances.from_arrays(make(TABLE))
    calibrator = outrule.DecisionCalibrator(outrule.BestAction(), [outrule.Fixed(0)], 0.5)
    calibrator.fit(GOOD, GOOD)
    with refused(message):
        calibrator.predict(make(TABLE))


@pytest.mark.parametrize(
    ("name", "words"), [("outcomes", "outcomes"), ("start", "start predictions")]
)
def test_shapes_that_differ_are_refused(name, words):
    with refused(
        f"{words} have shape (2, 3), but the predictions have shape (3, 2). "
        "They must have the same shape."
    ):
        Instances.from_arrays(GOOD, **{name: GOOD.T})


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (np.ones((2, 3), dtype=bool), "shape (2, 3) and type bool"),
        (np.ones((3, 2)), "shape (3, 2) and type float64"),
        ([True, False], "shape (2,) and type bool"),
    ],
)
def test_a_mask_of_another_shape_or_type_is_refused(mask, words):
    with refused(
        f"available has {words}. It must be boolean of shape (3, 2), like the predictions."
    ):
        Instances.from_arrays(GOOD, available=mask)


def test_an_instance_with_no_items_is_refused():
    with refused(
        "instance 1 has no items on offer. Every instance must offer at least one: "
        "drop the instance."
    ):
        Instances.from_arrays(GOOD, available=[[True, False], [False, False], [True, True]])


@pytest.mark.parametrize("name", ["weight", "cluster"])
def test_one_weight_or_cluster_per_instance_is_asked_for(name):
    with refused(f"{name}s have shape (2,). They must have shape (3,)."):
        Instances.from_arrays(GOOD, **{name: [1, 2]})


@pytest.mark.parametrize(("bad", "word"), [(-1.0, "-1"), (np.nan, "nan"), (np.inf, "inf")])
def test_negative_and_infinite_weights_are_refused(bad, word):
    with refused(f"weight is {word} at instance 1. Weights must be finite and not negative."):
        Instances.from_arrays(GOOD, weight=[1.0, bad, 2.0])


@pytest.mark.parametrize("bad", [1e-101, 1e101, 5e-324])
def test_extreme_weights_are_refused(bad):
    with refused(
        f"weight is {bad:g} at instance 2. Weights must be zero or in [1e-100, 1e+100]: "
        "multiply all of them by the same number."
    ):
        Instances.from_arrays(GOOD, weight=[0.0, 1.0, bad])
    assert len(Instances.from_arrays(GOOD, weight=[0.0, 1e-100, 1e100])) == 3


def test_weights_that_are_all_zero_are_refused():
    with refused("all weights are zero: at least one instance must count."):
        Instances.from_arrays(GOOD, weight=[0, 0, 0])
    assert Instances.from_arrays(GOOD, weight=[0, 1, 0]).weight.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    "clusters",
    [
        ["mo", None, "tu"],
        [1.0, np.nan, 2.0],
        pd.Series([1, pd.NA, 2], dtype="Int64"),
        [pd.Timestamp(0), pd.NA, pd.NaT],
        pd.Series(["mo", None, "tu"], dtype="string"),
        pd.Series(["mo", pd.NA, "tu"], dtype=object),
        np.array(["2020-01-01", "NaT", "2020-01-02"], dtype="M8[ns]"),
    ],
)
def test_an_instance_without_a_cluster_is_refused(clusters):
    with refused(
        "cluster is null at instance 1. Every instance must have a cluster: "
        "fill it, or drop the instance."
    ):
        Instances.from_arrays(GOOD, cluster=clusters)


@pytest.mark.parametrize(
    "clusters",
    [
        ["mo", "tu", "mo"],
        [3, 4, 3],
        [0.5, 1.5, 0.5],
        np.array(["mo", 7, "mo"], dtype=object),
        np.array(["2020-01-01", "2020-01-02", "2020-01-01"], dtype="M8[D]"),
        [False, True, False],
    ],
)
def test_clusters_of_any_type_become_codes(clusters):
    codes = Instances.from_arrays(GOOD, cluster=clusters).cluster
    assert codes[0] == codes[2] != codes[1]


def test_a_column_of_another_shape_is_refused():
    with refused(
        "column 'km' has shape (2,). It must have shape (3,) (one entry per instance) "
        "or (3, 2) (one per item)."
    ):
        Instances.from_arrays(GOOD, columns={"km": [1, 2]})


def test_the_name_item_is_taken():
    with refused("column 'item' is reserved for the number of every item. Give it another name."):
        Instances.from_arrays(GOOD, columns={"item": [1, 2, 3]})


@pytest.mark.parametrize(
    "value_range",
    [
        (1, 0),
        (0, 0),
        (0, np.inf),
        (np.nan, 1),
        3,
        (0, 1, 2),
        None,
        ("0", "1"),
        "01",
        (False, True),
        (0, 10**400),
    ],
)
def test_a_wrong_range_is_refused(value_range):
    message = (
        "The 'value_range' argument of Instances must be a pair (low, high) of finite numbers "
        f"with low < high. Got {value_range!r} instead."
    )
    for make in (
        lambda: Instances.from_arrays(GOOD, value_range=value_range),
        lambda: read(value_range=value_range),
    ):
        with pytest.raises(ArgumentError, match=re.escape(message)):
            make()


@pytest.mark.parametrize("value_range", [(0, 1e-101), (0, 1e101), (-1e308, 1e308), (0, 5e-324)])
def test_a_range_of_extreme_width_is_refused(value_range):
    message = (
        "The 'value_range' argument of Instances must be a pair (low, high) with high - low in "
        f"[1e-100, 1e+100]. Got {value_range!r} instead."
    )
    with pytest.raises(ArgumentError, match=re.escape(message)):
        Instances.from_arrays(GOOD, value_range=value_range)


def test_ends_of_a_range_may_be_numbers_of_any_type():
    for value_range in (np.array([0, 2]), (np.float32(0), Fraction(2)), [0, 2]):
        assert Instances.from_arrays(GOOD, value_range=value_range).value_range == (0.0, 2.0)


# Tables

FRAMES = {
    "pandas": pd.DataFrame,
    "pandas with an index": lambda table: pd.DataFrame(table, index=[5, 5, 1, 0]),
    "pandas of objects": lambda table: pd.DataFrame(table).astype(object),
    "pandas of strings": lambda table: pd.DataFrame(table).astype(
        {"trip": "string", "car": "string"}
    ),
    "pandas of categories": lambda table: pd.DataFrame(table).astype(
        {"trip": "category", "car": "category"}
    ),
    "pandas of nullables": lambda table: pd.DataFrame(table).astype(
        {"score": "Float64", "bought": "Float64", "weight": "Float64"}
    ),
    "pandas on Arrow": lambda table: pd.DataFrame(table).astype(
        {"score": "double[pyarrow]", "trip": "string[pyarrow]", "weight": "double[pyarrow]"}
    ),
    "Polars": pl.DataFrame,
    "lazy Polars": pl.LazyFrame,
    "Arrow": pa.table,
    "Arrow batch": pa.RecordBatch.from_pydict,
}


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES.keys())
def test_tables_of_any_kind_are_read_alike(make):
    data = read(make(TABLE), weight="weight", cluster="day")
    np.testing.assert_array_equal(data.prediction, [0.1, 0.3, 0.4, 0.2])
    np.testing.assert_array_equal(data.outcome, [0, 1, 0, 1])
    np.testing.assert_array_equal(data.offsets, [0, 2, 4])
    np.testing.assert_array_equal(data.item, [0, 1, 0, 1])
    assert data.item_names == ("x", "y")
    np.testing.assert_array_equal(data.weight, [1, 2])
    np.testing.assert_array_equal(data.cluster, [0, 1])
    assert data.view()["day"].tolist() == ["mo", "mo", "tu", "tu"]
    assert data.fingerprint == read(weight="weight", cluster="day").fingerprint


@pytest.mark.parametrize("keys", [[7, 3, 7, 3], ["7", "3", "7", "3"], [True, False, True, False]])
def test_instances_are_told_apart_by_keys_of_any_type(keys):
    for make in (pd.DataFrame, pl.DataFrame, pa.table):
        data = read(make(TABLE | {"trip": keys}))
        assert data.origin.labels.to_list() == keys[:2]
        np.testing.assert_array_equal(data.prediction, [0.1, 0.3, 0.4, 0.2])


@pytest.mark.parametrize("values", [[0, 1, 1, 0], [False, True, True, False], [0.0, 1.0, 1.0, 0.0]])
def test_outcome_columns_of_any_type_of_number_are_read(values):
    for make in (pd.DataFrame, pl.DataFrame, pa.table):
        np.testing.assert_array_equal(read(make(TABLE | {"bought": values})).outcome, [0, 1, 0, 1])


def test_pandas_columns_of_several_types_are_kept_for_the_rules():
    frame = pd.DataFrame(TABLE).assign(notes=[1, "a", (2, 3), None], mixed=[1, 0.5, None, True])
    view = read(frame.astype({"mixed": object})).view()
    assert view["notes"].tolist() == [1, (2, 3), None, "a"]
    np.testing.assert_array_equal(view["mixed"], [1, np.nan, 1, 0.5])


def test_pandas_columns_without_text_names_are_known_by_their_text():
    frame = pd.DataFrame({0: ["a"], 1: [0.5]})
    data = Instances.from_table(frame, instance="0", prediction="1")
    np.testing.assert_array_equal(data.prediction, [0.5])
    data = Instances.from_table(frame, instance=0, prediction=1)
    np.testing.assert_array_equal(data.prediction, [0.5])
    with refused("the outcome column '2' is missing. The columns are: '0', '1'."):
        Instances.from_table(frame, instance=0, prediction=1, outcome=2)


# What Polars has no type for
STRANGE = {
    "periods": pd.period_range("2020", periods=4, freq="M"),
    "intervals": pd.interval_range(0, 4),
    "complex": np.array([1j, 2, 3, 4]),
    "objects": [object() for _ in range(4)],
    "sets": [{1}, {2}, {3}, {4}],
    "several types": [1, "a", 2, "b"],
    "records": [np.void(b"a"), np.void(b"b"), np.void(b"c"), np.void(b"d")],
}


@pytest.mark.parametrize("values", STRANGE.values(), ids=STRANGE.keys())
def test_columns_that_polars_has_no_type_for_are_shown_to_the_rules(values):
    frame = pd.DataFrame(TABLE).assign(strange=pd.Series(values))
    data = read(frame)
    assert data.view()["strange"].tolist() == [frame["strange"][row] for row in (0, 2, 3, 1)]
    assert len(data.slice(0, 1).view()["strange"]) == 2
    assert len(data.fingerprint) == 64


@pytest.mark.parametrize("values", STRANGE.values(), ids=STRANGE.keys())
@pytest.mark.parametrize("role", ["instance", "item", "cluster"])
def test_columns_that_polars_has_no_type_for_are_no_keys(role, values):
    frame = pd.DataFrame(TABLE).assign(strange=pd.Series(values))
    with refused(
        f"{role} column 'strange' holds Object, which cannot name the {role}s. "
        "Turn it into strings first, in pandas with .astype(str)."
    ):
        read(frame, **{role: "strange"})
    with refused("column 'strange' holds Object. It must hold numbers."):
        read(frame, prediction="strange")


@pytest.mark.parametrize("role", ["item", "instance", "cluster"])
def test_lists_cannot_name_anything(role):
    frame = pl.DataFrame(TABLE | {"list": [[0], [1], [1], [0]]})
    with refused(f"{role} column 'list' holds List(Int64), which cannot name the {role}s."):
        read(frame, **{role: "list"})


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_of_any_resolution_are_read(unit):
    days = pd.Series(np.array(["2020-01-02", "2020-01-01"] * 2, dtype=f"M8[{unit}]"))
    frame = pd.DataFrame(TABLE).assign(trip=days, ago=days - days[0])
    data = read(frame)
    assert [label.day for label in data.origin.labels] == [2, 1]
    assert (data.view()["ago"] == np.array([0, 0, -1, -1], dtype="m8[D]")).all()


def test_an_arrow_table_that_polars_cannot_read_is_refused():
    steps = pa.array([(1, 2, 3)] * 4, type=pa.month_day_nano_interval())
    with refused("the table cannot be read by Polars (could not import from"):
        read(pa.table(TABLE | {"steps": steps}))
    twice = pa.Table.from_arrays([pa.array([0.5]), pa.array([0.5])], names=["score", "score"])
    with refused("the table cannot be read by Polars (column appears more than once"):
        read(twice)


@pytest.mark.parametrize("name", ["code of outrule", "code", "key", ""])
def test_a_key_may_have_any_name(name):
    data = read(pl.DataFrame(TABLE).rename({"trip": name}), instance=name, cluster=name)
    np.testing.assert_array_equal(data.prediction, [0.1, 0.3, 0.4, 0.2])
    np.testing.assert_array_equal(data.cluster, [0, 1])
    assert read(pl.DataFrame(TABLE).rename({"car": name}), item=name).item_names == ("x", "y")


@pytest.mark.parametrize("role", ["prediction", "instance", "item", "start", "weight", "cluster"])
def test_an_outcome_is_a_column_of_its_own(role):
    message = (
        "The 'outcome' argument of Instances.from_table must be a column "
        "that no other argument names. Got 'bought' instead."
    )
    with pytest.raises(ArgumentError, match=re.escape(message)):
        read(**{role: "bought"})


@settings(max_examples=40)
@given(st.permutations(range(8)))
def test_ties_are_broken_alike_for_any_order_of_the_rows_of_a_table_with_items(order):
    frame = pl.DataFrame(
        {
            "i": [0, 0, 0, 0, 1, 1, 1, 1],
            "e": [0, 1, 2, 3, 0, 1, 2, 3],
            "u": ["a", "b", "c", "d", "a", "b", "c", "d"],
            "v": ["b", "c", "d", "a", "b", "c", "d", "a"],
            "p": [0.5] * 8,
        }
    )[list(order)]
    data = Instances.from_table(frame, instance="i", item="e", prediction="p")
    for problem, expected in (
        (outrule.BestAction(), [0]),
        (outrule.TopK(2), [0, 1]),
        (outrule.PartitionMatroid([0, 1, 1, 1]), [0, 1]),
        (outrule.GreedyMatching.between("u", "v"), [0, 2]),
    ):
        answer = frame.filter(problem.solve(data)).sort("i", "e")
        assert answer["e"].to_list() == expected * 2
    matching = outrule.Matching.between("u", "v").solve(data)
    sets = frame.filter(matching).sort("i", "e")["e"].to_list()
    first = Instances.from_table(frame.sort("i", "e"), instance="i", item="e", prediction="p")
    again = outrule.Matching.between("u", "v").solve(first)
    assert sets == frame.sort("i", "e").filter(again)["e"].to_list()


@pytest.mark.parametrize("role", ["instance", "prediction", "outcome", "item"])
def test_a_missing_column_is_named_with_its_role_and_with_those_there_are(role):
    with refused(
        f"the {role} column 'nowhere' is missing. The columns are: 'trip', 'car', 'score', "
        "'bought', 'weight', 'day'."
    ):
        read(**{role: "nowhere"})


@pytest.mark.parametrize("role", ["start", "weight", "cluster"])
def test_a_missing_optional_column_is_named_too(role):
    with refused(f"the {role} column 'nowhere' is missing."):
        read(**{role: "nowhere"})


@pytest.mark.parametrize("role", ["instance", "prediction"])
def test_a_table_needs_instances_and_predictions(role):
    with refused(f"the {role} column None is missing."):
        read(**{role: None})


def test_a_table_without_rows_is_refused():
    with refused("the table has no rows: there must be at least one instance."):
        read(pl.DataFrame(TABLE).head(0))


@pytest.mark.parametrize("frame", [3, [1, 2], TABLE, "table.csv", None, np.zeros((2, 2))])
def test_what_is_no_table_is_refused(frame):
    message = (
        "The 'frame' argument of Instances.from_table must be a table of pandas, Polars, PyArrow, "
        "DuckDB, Ibis or another library with Arrow. "
        f"Got {type(frame)!r} instead."
    )
    with pytest.raises(ArgumentError, match=re.escape(message)):
        Instances.from_table(frame, **NAMES)


@pytest.mark.parametrize(
    "column", [pd.Series([0.1]), pa.array([0.1]), pa.chunked_array([[0.1]]), pl.Series([0.1])]
)
def test_a_single_column_is_no_table(column):
    with pytest.raises(ArgumentError, match="must be a table of pandas, Polars, PyArrow"):
        Instances.from_table(column, **NAMES)


def test_two_columns_of_one_name_are_refused():
    frame = pd.concat([pd.DataFrame(TABLE), pd.DataFrame({"score": [0.1] * 4})], axis=1)
    with refused("the table has two columns 'score': rename or drop one."):
        read(frame)


@pytest.mark.parametrize("role", ["prediction", "outcome"])
def test_a_column_without_numbers_is_refused(role):
    name = NAMES[role]
    for make in (pd.DataFrame, pl.DataFrame, pa.table):
        with refused(
            f"column {name!r} holds text, 'b'. It must hold numbers, such as 0.7, or 1 for yes and "
            "0 for no."
        ):
            read(make(TABLE | {name: ["0.5", "b", "0.25", "1"]}))


@pytest.mark.parametrize("name", ["score", "bought"])
@pytest.mark.parametrize(("bad", "word"), [(None, "null"), (np.nan, "NaN"), (np.inf, "infinite")])
def test_cells_that_are_not_finite_are_refused_with_their_row(name, bad, word):
    role = {"score": "prediction", "bought": "outcome"}[name]
    rest = f". {role.capitalize()}s must be finite: drop the instance, or the row."
    if role == "outcome" and word != "infinite":
        rest = ", and in 1 of 4 rows. Does the log know only the outcome of what was chosen?"
    with refused(f"{role} is {word} at instance 'a', row 3 of the table{rest}"):
        read(with_cell(name, 3, bad))


def test_cells_outside_the_range_are_refused_with_their_row():
    with refused(
        "prediction is 1.5 at instance 'b', row 2 of the table, outside [0, 1]. "
        "Give Instances (or [data] of the spec) the range of the values: value_range."
    ):
        read(with_cell("score", 2, 1.5))
    assert read(with_cell("score", 2, 1.5), value_range=(0, 2)).prediction.max() == 1.5


def test_the_first_error_is_that_of_the_first_row_whatever_the_order_of_items():
    frame = pl.DataFrame({"trip": [1, 1], "car": ["y", "x"], "score": [1.5, 2.5]})
    with refused("prediction is 1.5 at instance 1, row 0 of the table, outside [0, 1]."):
        outrule.Instances.from_table(frame, instance="trip", prediction="score", item="car")


@pytest.mark.parametrize(
    ("role", "name"), [("instance", "trip"), ("item", "car"), ("cluster", "day")]
)
def test_a_null_key_is_refused_with_its_row(role, name):
    frame = with_cell(name, 2, None)
    for table in (frame, pd.DataFrame(frame.to_dict(as_series=False)), frame.to_arrow()):
        with refused(
            f"{role} column {name!r} is null in row 2 of the table. "
            f"Every row must have its {role}: fill it, or drop the row."
        ):
            read(table, cluster="day")


@pytest.mark.parametrize("role", ["instance", "cluster"])
def test_a_null_among_numbers_that_pandas_made_nan_is_null_too(role):
    frame = pd.DataFrame(TABLE | {"key": [1, 1, None, 1]})
    with refused(f"{role} column 'key' is null in row 2 of the table."):
        read(frame, **{role: "key"})


@pytest.mark.parametrize(
    ("name", "role", "bad"), [("weight", "weight", 5.0), ("day", "cluster", "we")]
)
def test_what_differs_within_an_instance_is_refused(name, role, bad):
    with refused(
        f"column {name!r} differs between rows of instance 'a'. "
        "It must be constant within an instance."
    ):
        read(with_cell(name, 3, bad), **{role: name})


def test_a_weight_that_is_null_in_one_row_is_refused():
    for row in (1, 3):
        with refused("column 'weight' differs between rows of instance 'a'."):
            read(with_cell("weight", row, None), weight="weight")
    frame = pl.DataFrame(TABLE | {"weight": [1.0, None, 1.0, None]})
    with refused("weight is nan at instance 'a'. Weights must be finite and not negative."):
        read(frame, weight="weight")


def test_negative_weights_of_a_table_are_refused():
    frame = pl.DataFrame(TABLE | {"weight": [1.0, -2.0, 1.0, -2.0]})
    with refused("weight is -2 at instance 'a'. Weights must be finite and not negative."):
        read(frame, weight="weight")


def test_an_item_that_an_instance_offers_twice_is_refused():
    with refused(
        "item 'x' is offered twice, again at instance 'b', row 2 of the table. "
        "An instance can offer an item only once: drop the row; or, where a row is a pair, use a "
        "column that names both, such as 'ann / monday', as the item."
    ):
        read(with_cell("car", 2, "x"))
    assert len(read(with_cell("car", 2, "x"), item=None)) == 2


def test_the_callers_table_is_not_changed():
    frame = pd.DataFrame(TABLE)
    before = frame.copy()
    read(frame)
    pd.testing.assert_frame_equal(frame, before)


def test_a_range_far_from_zero_is_refused():
    message = (
        "The 'value_range' argument of Instances must be closer to zero, within 1e+06 times its "
        "width: subtract a constant. Got (1000000000.0, 1000000001.0) instead."
    )
    with pytest.raises(ArgumentError, match=re.escape(message)):
        Instances.from_arrays([[1e9]], value_range=(1e9, 1e9 + 1))


class Exported:
    """A table of another library: all that is known of it is that it exports Arrow."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("make", [duckdb.from_arrow, Exported], ids=["duckdb", "any library"])
def test_every_library_that_exports_arrow_has_the_same_way_in(make):
    expected = read(pl.DataFrame(TABLE))
    found = Instances.from_table(make(pa.table(TABLE)), **NAMES)
    assert found.fingerprint == expected.fingerprint
    calibrator = outrule.DecisionCalibrator(outrule.BestAction(), [outrule.Fixed("x")], 0.5)
    chosen = calibrator.fit(found).decide(found)
    assert chosen.to_list() == calibrator.decide(expected).to_list()
