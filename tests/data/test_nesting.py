"""Tables with one row per instance and lists of items: what a table with one row per item gives."""

import pandas as pd
import polars as pl
import pytest
from partition_tables import COLUMNS, RULES, offers

import outrule
from outrule.model.codec import to_text

ONCE = ("visit", "weight", "day", "rank", "when", "city")  # have one value per instance


def nested():
    table = offers(n=60)
    once = [pl.col(name).first() for name in ONCE[1:]]
    return table.group_by("visit", maintain_order=True).agg(*once, pl.exclude(ONCE))


def flat(table):
    return table.explode(pl.exclude(ONCE))


def instances(table, **columns):
    return outrule.Instances.from_table(table, **COLUMNS, **columns)


def fitted(data):
    return outrule.DecisionCalibrator(outrule.BestAction(), RULES, start=None).fit(data)


def to_list(some):
    return some.as_py() if hasattr(some, "as_py") else list(some)


@pytest.mark.parametrize("convert", [lambda t: t, pl.DataFrame.to_pandas, pl.DataFrame.to_arrow])
def test_lists_are_read_as_their_items_and_come_back_as_lists(convert):
    table = nested()
    here, there = (
        instances(one, weight="weight", cluster="day") for one in (convert(table), flat(table))
    )
    calibrator = fitted(here)
    assert to_text(calibrator.model_) == to_text(fitted(there).model_)
    for method in ("predict", "decide"):
        lists = getattr(calibrator, method)(here)
        assert len(lists) == table.height
        expected = getattr(calibrator, method)(there)
        assert [one for some in lists for one in to_list(some)] == expected.to_list()
    chosen = calibrator.decide(here)  # what was given back can be given
    assert outrule.metrics.value(here, decisions=chosen) == outrule.metrics.value(
        there, decisions=calibrator.decide(there)
    )


def test_some_instances_of_a_nested_table_come_back_alone():
    data = instances(nested())
    some = data.take(range(40, 10, -7))
    back = some.origin.restore(some.prediction, None)
    assert back.to_list() == nested()["score"].gather(range(12, 41, 7)).to_list()


def test_arrays_of_fixed_length_and_lists_of_mixed_numbers_are_lists_too():
    whole = nested().filter(pl.col("score").list.len() == 5)
    fixed = whole.with_columns(pl.col("score").cast(pl.Array(pl.Float64, 5)))
    assert (instances(fixed).prediction == instances(whole).prediction).all()
    mixed = pd.DataFrame({"visit": ["a", "b"], "score": [[0, 0.5], [1]]})
    data = outrule.Instances.from_table(mixed, instance="visit", prediction="score")
    assert data.prediction.tolist() == [0, 0.5, 1]


def unequal(table):
    return table.with_columns(pl.col("km").list.head(pl.when(pl.col("visit") == "v9").then(2)))


def empty(table):
    kept = pl.when(pl.col("visit") != "v9").then(pl.col("score")).otherwise([])
    return table.with_columns(kept.alias("score"))


def out_of_range(table):
    kept = pl.when(pl.col("visit") != "v9").then(pl.col("score")).otherwise([2.0] * 5)
    return table.with_columns(kept.alias("score"))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (unequal, "column 'km' has 2 entries, but 'score' has 5 in row {row} of the table"),
        (empty, "prediction column 'score' is null or empty in row {row} of the table"),
        (out_of_range, "prediction is 2 at instance 'v9', row {row} of the table"),
        (lambda t: pl.concat([t, t[:1]]), "is in several rows, first in row 0 of the table"),
        (
            lambda t: t.with_columns(pl.col("outcome").list.first()),
            "outcome column 'outcome' holds Int64, but 'score' holds lists",
        ),
        (
            lambda t: t.with_columns(pl.col("visit").implode().over("visit")),
            "instance column 'visit' holds lists",
        ),
    ],
)
def test_faults_name_the_row_of_the_nested_table(spoil, words):
    table = nested()
    words = words.format(row=table["visit"].to_list().index("v9"))
    with pytest.raises(outrule.DataError) as caught:
        instances(spoil(table))
    assert words in str(caught.value)
