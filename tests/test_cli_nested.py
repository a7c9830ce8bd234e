"""Commands on tables with lists of items: the results of one row per item, in the same rows."""

import json

import polars as pl
import pytest

from test_cli import SPEC, run, trips


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The same trips with rows and with lists, each in a file and in a folder of two."""
    place = tmp_path_factory.mktemp("nested")
    (place / "spec.toml").write_text(SPEC)
    for name, seed in (("past", 1), ("later", 2)):
        table = trips(seed, n=400).with_columns(day=pl.col("trip") % 10_000 // 40)
        nested = table.group_by("trip", "day", maintain_order=True).all()
        columns = table.select(nested.columns)
        columns.write_parquet(place / f"{name}-rows.parquet")
        nested.write_parquet(place / f"{name}-lists.parquet")
        (place / f"{name}-folder").mkdir()
        nested[:130].write_parquet(place / f"{name}-folder" / "a.parquet")
        nested[130:].write_parquet(place / f"{name}-folder" / "b.parquet")
        nested[:0].write_parquet(place / f"{name}-folder" / "c.parquet")
    return place


KINDS = ("rows.parquet", "lists.parquet", "folder")


@pytest.fixture(scope="module")
def model(place):
    texts = []
    for kind in KINDS:
        output = place / f"model-{kind}.json"
        spec = ("--spec", place / "spec.toml")
        result = run("fit", place / f"past-{kind}", *spec, "-o", output)
        assert result.exit_code == 0, result.stderr
        texts.append(output.read_text())
    assert texts[0] == texts[1] == texts[2]
    return output


def test_certificates_are_the_same(place, model, tmp_path):
    texts = []
    for kind in KINDS:
        run("certify", model, place / f"later-{kind}", "-o", tmp_path / kind)
        texts.append((tmp_path / kind).read_text())
    assert texts[0] == texts[1] == texts[2]


@pytest.mark.parametrize("words", [("predict",), ("decide",), ("decide", "--explore", "0.3")])
def test_a_list_is_added_to_the_same_rows(place, model, tmp_path, words):
    verb, *options = words
    for kind in KINDS:
        result = run(verb, model, place / f"later-{kind}", "-o", tmp_path / kind, *options)
        assert result.exit_code == 0, result.stderr
    rows, lists = (pl.read_parquet(tmp_path / kind) for kind in KINDS[:2])
    assert lists.equals(rows.group_by("trip", "day", maintain_order=True).all())
    parts = [pl.read_parquet(path) for path in sorted((tmp_path / "folder").iterdir())]
    assert pl.concat(parts).equals(lists)


def test_decisions_are_counted_by_item_and_only_is_for_rows(place, model, tmp_path):
    source = place / "later-lists.parquet"
    result = run("decide", model, source, "-o", tmp_path / "a.parquet")
    assert result.stdout.endswith("400 instances, 400 of 2,000 items chosen\n")
    result = run("decide", model, source, "--only", "-o", tmp_path / "b.parquet")
    assert result.exit_code == 2
    assert "--only is for tables with one row per item" in result.stderr


def test_watch_counts_the_same_batches(place, model, tmp_path):
    states = []
    for kind in KINDS[:2]:
        state = tmp_path / f"{kind}.json"
        options = ("--state", state, "--batch-column", "day")
        result = run("watch", model, place / f"later-{kind}", *options)
        assert result.exit_code in (0, 1, 3), result.stderr
        states.append(json.loads(state.read_text()))
    assert states[0] == states[1]


def test_rows_with_errors_are_left_out_whole(place, model, tmp_path):
    table = pl.read_parquet(place / "later-lists.parquet")
    wrong = pl.when(pl.col("trip") == table["trip"][7]).then(pl.col("score").list.head(3))
    spoiled = table.with_columns(wrong.otherwise(pl.col("score")).alias("score"))
    spoiled.write_parquet(tmp_path / "in.parquet")
    arguments = ("predict", model, tmp_path / "in.parquet", "-o", tmp_path / "out.parquet")
    result = run(*arguments)
    assert result.exit_code == 2
    assert f"row 8 of {tmp_path / 'in.parquet'}, counting from 1" in result.stderr
    result = run(*arguments, "--on-error", "skip")
    assert result.exit_code == 0, result.stderr
    assert pl.read_parquet(tmp_path / "out.parquet").height == 399
    listed = pl.read_csv(tmp_path / "out.parquet.errors.csv")
    assert listed["row"].to_list() == [8]
