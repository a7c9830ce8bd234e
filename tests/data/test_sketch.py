"""The sketch of instances: what it recognises, in any order, and from how few hashes."""

import numpy as np
import polars as pl
import pytest

from outrule import Instances
from outrule.data import sketch as sketching
from outrule.data.sketch import CAPACITY, Seen, Sketch, hash_all


def arrays(n, m=3, seed=0, **more):
    predictions, outcomes = np.random.default_rng(seed).random((2, n, m))
    return Instances.from_arrays(predictions, outcomes, **more)


def table(frame):
    roles = {"instance": "trip", "item": "car", "prediction": "score", "outcome": "won"}
    return Instances.from_table(frame, **roles)


FRAME = pl.DataFrame(
    {
        "trip": ["a", "a", "b", "b", "c"],
        "car": ["x", "y", "x", "z", "y"],
        "score": [0.1, 0.2, 0.3, 0.4, 0.5],
        "won": [0.0, 1.0, 1.0, 0.0, 1.0],
    }
)


def test_an_instance_is_the_same_wherever_it_stands():
    data = arrays(50)
    order = np.random.default_rng(1).permutation(50)
    for one, other in zip(hash_all(data)[:2], hash_all(data.take(order))[:2], strict=True):
        assert one[order].tolist() == other.tolist()
        assert len(set(one.tolist())) == 50


def test_the_rows_of_a_table_may_come_in_any_order_and_with_other_items_around_them():
    expected = {name: i for i, name in enumerate(hash_all(table(FRAME))[3].tolist())}
    rows = FRAME[[4, 3, 0, 2, 1]]
    assert set(hash_all(table(rows))[3].tolist()) == set(expected)
    less = FRAME.filter(pl.col("trip") != "a")  # then 'z' has another code
    assert set(hash_all(table(less))[3].tolist()) < set(expected)
    numbers = FRAME.with_columns(car=pl.col("car").replace_strict({"x": 1, "y": 2, "z": 3}))
    text = numbers.with_columns(pl.col("car").cast(pl.String))
    assert hash_all(table(numbers))[1].tolist() == hash_all(table(text))[1].tolist()


PREDICTIONS, CONTENTS, NAMES, NAMED = range(4)


@pytest.mark.parametrize(
    ("column", "value", "same"),
    [
        ("trip", "other", {PREDICTIONS, CONTENTS}),
        ("car", "q", {NAMES}),
        ("score", 0.25, {NAMES}),
        ("won", 0.5, {PREDICTIONS, NAMES}),
        ("km", 7.0, {PREDICTIONS, CONTENTS, NAMES, NAMED}),
    ],
)
def test_each_hash_depends_on_its_part_alone(column, value, same):
    one = FRAME.filter(pl.col("trip") == "c")
    before = hash_all(table(one))
    after = hash_all(table(one.with_columns(pl.lit(value).alias(column))))
    assert {number for number in range(4) if before[number] == after[number]} == same


def test_minus_zero_is_zero():
    plus, minus = (Instances.from_arrays([[zero, 1.0]], [[zero, 0.0]]) for zero in (0.0, -0.0))
    assert hash_all(plus)[1] == hash_all(minus)[1]


def test_few_hashes_are_kept_and_merging_keeps_those_of_the_whole(monkeypatch):
    monkeypatch.setattr(sketching, "CAPACITY", 64)
    whole = arrays(1000)
    parts = [Seen.of(whole.slice(*ends)) for ends in ((0, 700), (700, 720), (720, 1000))]
    merged = parts[0].merged(parts[1]).merged(parts[2])
    for one, other in zip(merged[:2], Seen.of(whole)[:2], strict=True):
        assert one.hashes.tolist() == other.hashes.tolist()
        assert len(one.hashes) == 64
        assert one.counts.tolist() == other.counts.tolist() == [1] * 64
        assert one.n == 1000
        assert one.limit == one.hashes[-1] < 2**62
    assert merged.names is merged.named_contents is None


def test_counts_of_repeated_contents_add_up():
    data = Instances.from_arrays(np.full((5, 2), 0.5), [[0, 1], [0, 1], [1, 0], [0, 1], [1, 1]])
    seen = Seen.of(data)
    assert sorted(seen.contents.counts.tolist()) == [1, 1, 3]
    assert seen.predictions.counts.tolist() == [5]
    twice = seen.merged(seen)
    assert sorted(twice.contents.counts.tolist()) == [2, 2, 6]
    assert twice.contents.limit == 2**64 - 1


def test_a_sketch_is_small():
    assert len(Sketch.of(hash_all(arrays(5000))[1]).hashes) == CAPACITY == 2048
