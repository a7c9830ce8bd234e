"""Spec files: what they say, and that every fault is refused with its file and its place."""

import random
import re
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import outrule
from outrule import ArgumentError, DataError, DecisionCalibrator
from outrule.data.origin import ColumnNames
from outrule.model.sections import LARGEST_FILE
from outrule.model.spec import Multipliers
from outrule.model.spec_file import read_spec

GOOD = """
epsilon = 0.2
[problem]
kind = "assignment"
rows = "rider"
columns = "driver"
[data]
instance = "batch"
prediction = "score"
outcome = "completed"
cluster = "day"
item = "pair"
[[rules]]
name = "no long pickups"
weight = "CASE WHEN pickup_km > 3 THEN 0.5 * score ELSE score END"
[[rules]]
name = "always the cheapest"
choose = "rank = 1"
[multipliers]
limit = 5
[fit]
check = "reuse"
validation = 0.25
max_rounds = 20
random_state = 1
"""


def trips(n=30, seed=0):
    """Batches of two riders and two drivers."""
    generator = np.random.default_rng(seed)
    frame = pl.DataFrame({"batch": range(n)}).join(
        pl.DataFrame({"rider": ["a", "a", "b", "b"], "driver": ["x", "y", "x", "y"]}), how="cross"
    )
    return frame.with_columns(
        pair=pl.col("rider") + pl.col("driver"),
        score=pl.Series(generator.random(4 * n)),
        completed=pl.Series(generator.integers(2, size=4 * n)),
        day=pl.col("batch") // 5,
        pickup_km=pl.Series(6 * generator.random(4 * n)),
        rank=pl.when((pl.col("rider") == "a") == (pl.col("driver") == "x")).then(1).otherwise(2),
    )


@pytest.fixture
def write(tmp_path):
    """Writes a spec and gives its path; ``changes`` are pairs of texts."""

    def write(text=GOOD, *changes):
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "spec.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def refused(message):
    return pytest.raises(DataError, match=re.escape(message))


# What they say


def test_a_spec_says_everything_that_a_calibrator_needs(write):
    spec = read_spec(write())
    assert spec.problem == outrule.Assignment("rider", "driver")
    assert spec.epsilon == 0.2
    assert spec.columns == ColumnNames("batch", "score", "completed", "pair", cluster="day")
    assert spec.value_range == (0.0, 1.0)
    assert spec.rules == (
        outrule.Reweight(
            "no long pickups", "CASE WHEN pickup_km > 3 THEN 0.5 * score ELSE score END"
        ),
        outrule.Choose("always the cheapest", "rank = 1"),
    )
    assert spec.multipliers == Multipliers(limit=5)
    check = outrule.Reuse(validation=0.25)
    assert spec.fit == {"check": check, "max_rounds": 20, "random_state": 1}
    assert read_spec(str(write())) == spec


def test_the_least_spec_leaves_the_rest_to_the_calibrator(write):
    text = GOOD[: GOOD.index("[[rules]]", GOOD.index("choose") - 60)]
    spec = read_spec(write(text, ("epsilon = 0.2", ""), ('item = "pair"', "")))
    assert spec.epsilon is None
    assert len(spec.rules) == 1
    assert (spec.multipliers, spec.fit) == (None, {})


def test_a_spec_is_fitted_and_saved_as_any_calibrator(write, tmp_path):
    spec = read_spec(write())
    instances = spec.instances(trips())
    calibrator = DecisionCalibrator.from_spec(spec, instances)
    assert not hasattr(calibrator, "model_")
    calibrator.fit(instances).save(tmp_path / "model.json")
    assert calibrator.epsilon == 0.2
    loaded = outrule.load(tmp_path / "model.json")
    new = spec.instances(trips(seed=1).drop("completed"), outcome=False)
    np.testing.assert_array_equal(loaded.predict(new), calibrator.predict(new))


def test_a_request_needs_no_weight_and_no_cluster(write):
    spec = read_spec(write(GOOD, ('cluster = "day"', 'cluster = "day"\nweight = "w"')))
    new = spec.instances(trips().drop("completed", "day"), outcome=False)
    assert (new.weight, new.cluster) == (None, None)
    with refused("there is no column 'w'"):
        spec.instances(trips())


def test_the_multipliers_are_those_of_the_items_in_the_data(write):
    spec = read_spec(write())
    rules = DecisionCalibrator.from_spec(spec, spec.instances(trips())).rules
    assert [rule.name for rule in rules[:3]] == [
        "no long pickups",
        "always the cheapest",
        "multiplier 0",
    ]
    expected = outrule.multipliers(4, limit=5)
    assert len(rules) == 2 + len(expected)
    for rule, other in zip(rules[2:], expected, strict=True):
        assert rule.vector == dict(zip(["ax", "ay", "bx", "by"], other.vector, strict=True))
    spec = read_spec(write(GOOD, ("limit = 5", "limit = 7\nlevels = [0, 1]\nseed = 3")))
    assert spec.multipliers == Multipliers((0.0, 1.0), 7, 3)
    assert len(DecisionCalibrator.from_spec(spec, spec.instances(trips())).rules) == 2 + 7


def test_parameters_may_differ_from_the_file(write):
    spec = read_spec(write())
    instances = spec.instances(trips())
    calibrator = DecisionCalibrator.from_spec(
        spec, instances, epsilon=0.5, max_rounds=None, n_jobs=1
    )
    assert (calibrator.epsilon, calibrator.max_rounds, calibrator.n_jobs) == (0.5, None, 1)
    with pytest.raises(ArgumentError, match="The 'epsilon' argument of DecisionCalibrator"):
        DecisionCalibrator.from_spec(spec, instances, epsilon=-2)


def test_an_epsilon_that_no_difference_can_reach_is_reported_with_its_file(write):
    spec = read_spec(write(GOOD, ("epsilon = 0.2", "epsilon = 200")))
    words = "spec.toml: 'epsilon' must be a number in [1e-09, 2], in the units of the value: "
    with pytest.raises(DataError, match=re.escape(words)):
        spec.settings(spec.instances(trips()))
    assert spec.settings(spec.instances(trips()), epsilon=1.5).epsilon == 1.5


@pytest.mark.parametrize("make", [pl.DataFrame, pl.LazyFrame, pd.DataFrame, pa.table])
def test_tables_of_every_library_are_read(write, make):
    spec = read_spec(write())
    instances = spec.instances(make(trips().to_dict(as_series=False)))
    assert len(instances) == 30
    DecisionCalibrator.from_spec(spec, instances)
    broken = make(trips().rename({"rank": "ranks"}).to_dict(as_series=False))
    with refused("rule 2 ('always the cheapest'): unknown column 'rank' at line 1, column 1."):
        spec.instances(broken)


def test_what_is_no_table_is_refused_as_by_instances(write):
    with pytest.raises(ArgumentError, match="must be a table of pandas, Polars, PyArrow"):
        read_spec(write()).instances([1, 2])


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ('kind = "best action"', outrule.BestAction()),
        ('kind = "best-action"', outrule.BestAction()),
        ('kind = "best_action"', outrule.BestAction()),
        ('kind = "classification"', outrule.Classification()),
        ('kind = "rejection"\ncost = 0.2\nreject = "none"', outrule.Rejection(0.2, "none")),
        ('kind = "top k"\nk = 2', outrule.TopK(2)),
        ('kind = "partition"\ngroups = "rider"', outrule.PartitionMatroid("rider")),
        (
            'kind = "partition"\ngroups = "rider"\ncapacity = 2',
            outrule.PartitionMatroid("rider", 2),
        ),
        (
            'kind = "partition"\ngroups = "rider"\n[problem.capacity]\na = 1\n7 = 2',
            outrule.PartitionMatroid("rider", {"a": 1, "7": 2, 7: 2}),
        ),
        (
            'kind = "matching"\nnodes = ["rider", "driver"]',
            outrule.Matching.between("rider", "driver"),
        ),
        (
            'kind = "greedy-matching"\nnodes = ["rider", "driver"]',
            outrule.GreedyMatching.between("rider", "driver"),
        ),
        (
            'kind = "graphic"\nnodes = ["rider", "driver"]',
            outrule.GraphicMatroid.between("rider", "driver"),
        ),
    ],
)  # fmt: skip
def test_every_kind_of_problem_can_be_named(write, section, problem):
    old = 'kind = "assignment"\nrows = "rider"\ncolumns = "driver"'
    spec = read_spec(write(GOOD, (old, section)))
    assert spec.problem == problem
    assert type(spec.problem) is type(problem)


def test_a_partition_finds_groups_that_are_numbers(write):
    section = 'kind = "partition"\ngroups = "rank"\n[problem.capacity]\n1 = 2\n2 = 0'
    old = 'kind = "assignment"\nrows = "rider"\ncolumns = "driver"'
    spec = read_spec(write(GOOD, (old, section)))
    assert spec.problem.lay(spec.instances(trips())).k == 2


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ("", {}),
        ("alert = 0.5\npatience = 3", {"check": outrule.Reuse(alert=0.5, patience=3)}),
        ('check = "private reuse"', {"check": outrule.PrivateReuse()}),
        (
            'check = "private-reuse"\nprivacy = 2\ndelta = 0.1\nalert = 1',
            {"check": outrule.PrivateReuse(2, 0.1, 1)},
        ),
        ('check = "fresh batches"\nsize = 8', {"check": outrule.FreshBatches(8)}),
        ('step = "fixed"', {"step": outrule.FixedStep()}),
        ('step = "line search"', {"step": outrule.LineSearch()}),
        ('start = "isotonic"', {"start": outrule.Isotonic()}),
        ("max_rounds = 3", {"max_rounds": 3}),
        ("random_state = 0", {"random_state": 0}),
    ],
)
def test_every_way_to_fit_can_be_named(write, section, expected):
    spec = read_spec(write(GOOD[: GOOD.index("[fit]")] + "[fit]\n" + section))
    assert spec.fit == expected


def test_an_item_may_always_be_chosen(write):
    text = GOOD.replace(
        'kind = "assignment"\nrows = "rider"\ncolumns = "driver"', 'kind = "top k"\nk = 1'
    )
    spec = read_spec(write(text, ('choose = "rank = 1"', 'always = "ax"')))  # fmt: skip
    assert spec.rules[1] == outrule.Fixed("ax", "always the cheapest")
    DecisionCalibrator.from_spec(spec, spec.instances(trips()))
    spec = read_spec(write(text, ('choose = "rank = 1"', "always = 7")))
    message = "spec.toml, rule 2 ('always the cheapest'): no instance offers item 7 of rule"
    with refused(message):
        DecisionCalibrator.from_spec(spec, spec.instances(trips()))


def test_values_may_have_another_range(write):
    spec = read_spec(write(GOOD, ('item = "pair"', 'item = "pair"\nvalue_range = [-1, 2.5]')))
    assert spec.value_range == (-1.0, 2.5)
    assert spec.instances(trips()).value_range == (-1.0, 2.5)


def test_windows_puts_a_mark_before_the_text(write):
    assert read_spec(write("\ufeff" + GOOD.replace("\n", "\r\n"))) == read_spec(write())


# Faults of the file


def test_a_file_that_is_none_is_refused(tmp_path):
    with refused(f"{tmp_path / 'none.toml'} does not exist: give the path of a spec file in TOML."):
        read_spec(tmp_path / "none.toml")
    with refused(f"{tmp_path} is not a file: give the path of a spec file in TOML."):
        read_spec(tmp_path)
    with refused("/dev/zero is not a file"):
        read_spec("/dev/zero")
    with pytest.raises(DataError):
        read_spec("a\0b")


@pytest.mark.parametrize(
    "text",
    [
        ".".join("a" * 40_000) + " = 1",
        "x = {" + " . ".join(["a", '"b"'] * 20_000) + " = 1}",
        "['a'" + ".b" * 40_000 + "]",
    ],
)
def test_a_key_of_thousands_of_parts_is_refused_before_it_takes_gigabytes(tmp_path, text):
    path = tmp_path / "spec.toml"
    path.write_text(text)
    with refused(f"{path} has a key of dozens of parts, and a spec has none."):
        read_spec(path)


def test_an_item_is_no_number_of_thousands_of_digits(write):
    rule = f'[[rules]]\nname = "one"\nalways = 0x{"f" * 4000}\n'
    with refused("'always' must be an item: a string or a number. Got a number of thousands of"):
        read_spec(write(GOOD.replace("[multipliers]", f"{rule}[multipliers]")))


@pytest.mark.parametrize("key", ["max_rounds", "random_state"])
def test_a_number_that_no_integer_of_the_machine_holds_is_refused(write, key):
    text = re.sub(rf"{key} = [0-9]+", f"{key} = 0x{'f' * 4000}", GOOD)
    with pytest.raises(DataError, match=rf"\[fit\]: '{key}' must be a whole number"):
        read_spec(write(text))


def test_a_file_that_is_too_large_is_refused(tmp_path):
    path = tmp_path / "large.toml"
    with path.open("wb") as file:
        file.truncate(LARGEST_FILE + 1)
    with refused(f"{path} has 4,000,001 bytes. A spec has at most 4,000,000."):
        read_spec(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a = '\xff'", "spec.toml is not UTF-8 text: see byte 5."),
        ("epsilon = ", "spec.toml is not valid TOML: Invalid value (at "),
        ("[problem]\nkind 3", "Expected '=' after a key in a key/value pair (at line 2, column 6)"),
        ("a = " + "[" * 100_000, "spec.toml is nested too deeply to be read."),
        ("a = " + "1" * 10_000, "spec.toml cannot be read: Exceeds the limit"),
    ],
)
def test_a_file_that_is_no_toml_is_refused(write, text, message):
    with refused(message):
        read_spec(write(text))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        # sections and keys
        ("[data]", "[dat]", "spec.toml: 'dat' is unknown. Did you mean 'data'? Known entries: epsilon"),
        ("epsilon", "epsilom", "spec.toml: 'epsilom' is unknown. Did you mean 'epsilon'?"),
        ("cluster", "clusters", "[data]: 'clusters' is unknown. Did you mean 'cluster'? Known entries"),
        ("rows", "row", "[problem]: 'row' is unknown. Did you mean 'rows'?"),
        ("rows", "k = 1\nrows", "[problem]: 'k' is unknown. Known entries: rows, columns."),
        ("choose =", "chose =", "rule 2 ('always the cheapest'): 'chose' is unknown. Did you mean"),
        ("limit", "limits", "[multipliers]: 'limits' is unknown. Did you mean 'limit'?"),
        ("validation", "valid", "[fit]: 'valid' is unknown. Did you mean 'validation'?"),
        ('instance = "batch"', "", "[data]: 'instance' is missing. It must be a string."),
        ('outcome = "completed"', "", "[data]: 'outcome' is missing. It must be a string."),
        ('kind = "assignment"', "", "[problem]: 'kind' is missing. It must be one of 'best"),
        ('columns = "driver"', "", "[problem]: 'columns' is missing. It must be a string."),
        ('name = "no long pickups"', "", "rule 1: 'name' is missing. It must be a string."),
        ("[multipliers]\nlimit = 5", "", None),
        # types
        ("epsilon = 0.2", "epsilon = true", "'epsilon' must be a number greater than 0. Got True instead."),
        ("epsilon = 0.2", "epsilon = '1'", "'epsilon' must be a number greater than 0. Got '1' instead."),
        ("epsilon = 0.2", "epsilon = 0", "'epsilon' must be a number greater than 0. Got 0 inste"),
        ("epsilon = 0.2", "epsilon = nan", "'epsilon' must be a number greater than 0. Got nan"),
        ("epsilon = 0.2", "epsilon = inf", "'epsilon' must be a number greater than 0. Got inf"),
        ('"batch"', "3", "[data]: 'instance' must be a string. Got 3 instead."),
        ('"batch"', '""', "[data]: 'instance' must be a string. Got '' instead."),
        ('"rider"', "['rider']", "[problem]: 'rows' must be a string. Got ['rider'] instead."),
        ("limit = 5", "limit = 5.0", "[multipliers]: 'limit' must be a whole number from 1 to 65,536. Got 5.0"),
        ("limit = 5", "limit = 0", "[multipliers]: 'limit' must be a whole number from 1 to 65,5"),
        ("limit = 5", "limit = 1000000", "[multipliers]: 'limit' must be a whole number from 1"),
        ("limit = 5", "levels = 5", "[multipliers]: 'levels' must be a list of numbers. Got 5"),
        ("limit = 5", "levels = ['1']", "[multipliers]: 'levels' must be a list of numbers."),
        ("limit = 5", "levels = [0]", "[multipliers]: The 'levels' argument of multipliers must"),
        ("limit = 5", "seed = -1", "[multipliers]: The 'seed' argument of multipliers must be"),
        ("max_rounds = 20", "max_rounds = 0", "[fit]: 'max_rounds' must be a whole number, at least 1. Got 0"),
        ("max_rounds = 20", "max_rounds = true", "[fit]: 'max_rounds' must be a whole number, at"),
        ("random_state = 1", "random_state = -1", "[fit]: 'random_state' must be a whole number, at least 0."),
        ("validation = 0.25", "validation = 1", "[fit]: The 'validation' argument of Reuse must"),
        ("validation = 0.25", "patience = 1.5", "[fit]: 'patience' must be a whole number. Got 1.5"),
        ("validation = 0.25", "size = 3", "[fit]: 'size' is not for check = 'reuse', which has al"),
        ('"reuse"\nvalidation = 0.25', '"fresh batches"', "[fit]: 'size' is missing. It must be"),
        ('"reuse"', '"re use"', "'check' must be one of 'reuse', 'private reuse', 'fresh batches'"),
        ('"reuse"', '"Reuse"', "Got 'Reuse' instead. Did you mean 'reuse'?"),
        ('"reuse"', "3", "[fit]: 'check' must be one of 'reuse', 'private reuse', 'fresh batches"),
        ('"assignment"', '"asignment"', "Got 'asignment' instead. Did you mean 'assignment'?"),
        ('"assignment"', '"best  action"', "'kind' must be one of 'best action', "),
        ("[fit]", "[fit]\nstep = 'half'", "[fit]: 'step' must be one of 'line search', 'fixed'."),
        ("[fit]", "[fit]\nstart = 'platt'", "[fit]: 'start' must be one of 'none', 'isotonic', 'cross fit', 'curves'."),
        ("[multipliers]\nlimit", "multipliers", "rule 2 ('always the cheapest'): 'multipliers'"),
        # things that do not go together
        ('cluster = "day"', 'start = "rank"\nvalue_range = 3', "must be a list [low, high] of two"),
        ('cluster = "day"', "value_range = [1, 0]", "[data]: The 'value_range' argument of Inst"),
        ('cluster = "day"', "value_range = [0, 1, 2]", "[data]: 'value_range' must be a list [low"),
        ('"day"', '"completed"', "[data]: 'cluster' and 'outcome' name the same column."),
        ('"rider"', '"completed"', "[problem]: the outcome 'completed' may not be used here."),
        ('item = "pair"', "", "[multipliers]: items are multiplied, so [data] needs an item."),
        ("[fit]", "[fit]\nstart = 'isotonic'", None),
        # rules
        ("[[rules]]\nname = \"no", "[rules]\nname = \"no", "spec.toml is not valid TOML: "),
        ('choose = "rank = 1"', "", "rule 2 ('always the cheapest'): exactly one of 'weight', 'cho"),
        ('"rank = 1"', '"rank = 1"\nweight = "1"', "must be given. Got 'weight' and 'choose'."),
        ('"rank = 1"', "1", "rule 2 ('always the cheapest'): 'choose' must be a string. Got 1 inst"),
        ('choose = "rank = 1"', "always = true", "'always' must be an item: a string or a"),
        ('"always the cheapest"', '"no long pickups"', "rule 2: rule 1 has the name 'no long pi"),
        ("rank = 1", "rank = ", "rule 2 ('always the cheapest'): expected a value, but the expres"),
        ("rank = 1", "SUM(rank) = 1", "unknown function 'SUM' at line 1, column 1. A rule"),
        (
            "pickup_km > 3",
            "completed > 3",
            "rule 1 ('no long pickups'): column 'completed' at line 1, column 11 is the outcome, ",
        ),
    ],
)  # fmt: skip
def test_a_fault_is_refused_with_its_place(write, old, new, message):
    path = write(GOOD, (old, new))
    if message is None:
        read_spec(path)
    else:
        with pytest.raises(DataError) as error:
            read_spec(path)
        assert message in str(error.value)
        assert str(error.value).startswith(str(path))


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ('kind = "rejection"\nreject = "x"', "[problem]: 'cost' is missing. It must be a number."),
        ('kind = "rejection"\ncost = 0.5', "[problem]: 'reject' is missing. It must be an item"),
        ('kind = "rejection"\ncost = 2\nreject = "x"', "[problem]: The 'cost' argument of Rejec"),
        ('kind = "top k"\nk = 0', "[problem]: The 'k' argument of TopK must be an int of at least"),
        ('kind = "top k"\nk = true', "[problem]: 'k' must be a whole number. Got True instead."),
        ('kind = "partition"\ngroups = "rider"\ncapacity = -1', "The 'capacity' argument of Parti"),
        ('kind = "partition"\ngroups = "rider"\ncapacity = "1"', "'capacity' must be a whole num"),
        ('kind = "partition"\ngroups = "rider"\ncapacity = {}', "'capacity' must be a whole num"),
        ('kind = "partition"\ngroups = "rider"\ncapacity = {a = true}', "'capacity' must be a wh"),
        ('kind = "matching"\nnodes = "rider"', "'nodes' must be a list of two columns. Got 'ride"),
        ('kind = "matching"\nnodes = ["rider"]', "'nodes' must be a list of two columns. Got ['r"),
        ('kind = "matching"\nnodes = ["rider", 3]', "'nodes' must be a list of two columns. Got"),
        ('kind = "matching"\nnodes = ["rider", "completed"]', "the outcome 'completed' may not"),
    ],
)
def test_a_fault_of_the_problem_is_refused(write, section, message):
    old = 'kind = "assignment"\nrows = "rider"\ncolumns = "driver"'
    with refused(message):
        read_spec(write(GOOD, (old, section)))


def test_what_needs_items_is_refused_without_them(write):
    text = GOOD.replace('item = "pair"\n', "").replace("[multipliers]\nlimit = 5\n", "")
    with refused("rule 2 ('always the cheapest'): 'always' names an item, so [data] needs an item"):
        read_spec(write(text, ('choose = "rank = 1"', 'always = "x"')))
    section = 'kind = "rejection"\ncost = 0.2\nreject = "none"'
    old = 'kind = "assignment"\nrows = "rider"\ncolumns = "driver"'
    with refused("[problem]: 'reject' names an item, so [data] needs an item."):
        read_spec(write(text, (old, section)))


def test_two_starts_are_refused(write):
    changes = ('cluster = "day"', 'start = "day"'), ("[fit]", "[fit]\nstart = 'isotonic'")
    with refused("[fit]: 'start' is given in [data] as well. Choose one."):
        read_spec(write(GOOD, *changes))


def test_a_spec_without_rules_is_refused(write):
    text = GOOD[: GOOD.index("[[rules]]")]
    with refused("spec.toml: there are no rules. Give [[rules]] or [multipliers]."):
        read_spec(write(text))
    assert read_spec(write(text + "[multipliers]")).multipliers == Multipliers()
    with refused(
        "spec.toml: 'rules' must be at most 65,536 sections, each under its own [[rules]]."
    ):
        read_spec(write(text + '[rules]\nname = "a"\nweight = "1"'))
    with refused("spec.toml, rule 1 must be a section. Got 3 instead."):
        read_spec(write("rules = [3]\n" + text))
    with refused("spec.toml, [problem] must be a section. Got 3 instead."):
        read_spec(write("problem = 3\n" + text[text.index("[data]") :] + "[multipliers]"))
    with refused("spec.toml: 'problem' is missing. It must be a section."):
        read_spec(write("epsilon = 0.1"))


# Faults of the data


def test_all_columns_that_are_missing_are_named_at_once(write):
    path = write()
    spec = read_spec(path)
    with pytest.raises(DataError) as error:
        spec.instances(trips().drop("day", "driver").rename({"pickup_km": "pickup_kms"}))
    assert str(error.value) == (
        f"{path}, [data] cluster: there is no column 'day'.\n"
        f"{path}, [problem]: there is no column 'driver'. Did you mean 'rider'?\n"
        f"{path}, rule 1 ('no long pickups'): unknown column 'pickup_km' at line 1, column 11. "
        "Did you mean 'pickup_kms'?\n"
        "The columns are: 'batch', 'rider', 'pair', 'score', 'completed', 'pickup_kms', 'rank'."
    )


def test_one_column_that_is_missing_is_named_in_one_line(write):
    path = write()
    with pytest.raises(DataError) as error:
        read_spec(path).instances(trips().drop("rank"))
    assert str(error.value) == (
        f"{path}, rule 2 ('always the cheapest'): unknown column 'rank' at line 1, column 1. "
        "The columns are: 'batch', 'rider', 'driver', 'pair', 'score', 'completed', 'day', "
        "'pickup_km'."
    )


def test_a_table_with_semicolons_is_recognised_in_one_line(write):
    path, table = write(), pl.DataFrame({"batch;rider;score": ["1;2;0.5"]})
    hint = (
        "the only column is 'batch;rider;score'. Is the table separated by semicolons? Save it "
        "with commas between fields and points in numbers."
    )
    with pytest.raises(DataError) as error:
        read_spec(path).instances(table)
    assert str(error.value) == f"the table has none of the columns of {path}: {hint}"
    with pytest.raises(DataError) as error:
        outrule.Instances.from_table(table, instance="batch", prediction="score")
    assert str(error.value) == f"the instance column 'batch' is missing: {hint}"


def test_instances_that_came_another_way_are_checked_too(write):
    spec = read_spec(write())
    frame = trips().drop("rank", "driver").with_columns(pair=pl.int_range(pl.len()))
    roles = {"instance": "batch", "prediction": "score", "outcome": "completed"}
    with pytest.raises(DataError) as error:
        DecisionCalibrator.from_spec(
            spec, outrule.Instances.from_table(frame, **roles, item="pair")
        )
    assert "[problem]: there is no column 'driver'." in str(error.value)
    assert "rule 2 ('always the cheapest'): unknown column 'rank'" in str(error.value)
    with refused("[multipliers]: the instances have no items, so [data] needs an item."):
        DecisionCalibrator.from_spec(spec, outrule.Instances.from_table(trips(), **roles))


def test_all_types_that_do_not_fit_are_named_at_once(write):
    path = write()
    spec = read_spec(path)
    frame = trips().with_columns(pickup_km=pl.lit("far"), rank=pl.lit("first"))
    with pytest.raises(DataError) as error:
        DecisionCalibrator.from_spec(spec, spec.instances(frame))
    for number, name in enumerate(["no long pickups", "always the cheapest"], start=1):
        message = f"{path}, rule {number} ({name!r}): cannot compare string with numeric type"
        assert message in str(error.value)


def test_more_multipliers_than_fit_in_memory_are_refused(write):
    spec = read_spec(write(GOOD, ("limit = 5", "limit = 65536")))
    frame = trips(100).with_columns(pair=pl.int_range(pl.len()))
    with refused("[multipliers]: 65,536 rules over 400 items are too many to hold. Lower the"):
        DecisionCalibrator.from_spec(spec, spec.instances(frame))


def test_a_rule_may_not_be_called_as_a_multiplier_is(write):
    spec = read_spec(write(GOOD, ("no long pickups", "multiplier 0")))
    with pytest.raises(ArgumentError, match="have the name 'multiplier 0'"):
        DecisionCalibrator.from_spec(spec, spec.instances(trips()))


# Hostile files

HOSTILE = [
    "__import__('os').system('touch hacked')",
    "read_csv('/etc/passwd')",
    "SELECT * FROM x",
    "(SELECT * FROM read_csv('/etc/passwd'))",
    "'; DROP TABLE rules; --",
    "((" * 5000,
    "NOT " * 2000 + "TRUE",
    " || ".join(["rider"] * 1000),
    "NULLIF(" * 19 + "score" + ",1)" * 19,
    "REGEXP_LIKE(rider, '(((((a{1000}){1000}){1000}){1000}){1000})')",
    "\0",
    "💥",
]
OTHER_VALUES = ["true", "-1", "0", "nan", "inf", "1e400", "[]", "{}", "[[1]]", "1979-05-27", "''"]


def mutated(chance):
    """A file that is a good one no longer, or still."""
    kind = chance.randrange(8)
    content = GOOD.encode()
    lines = GOOD.splitlines()
    number = chance.randrange(1, len(lines))
    key = lines[number].partition(" = ")[0]
    if kind == 0:
        return content[: chance.randrange(len(content))]
    if kind == 1:
        flipped = bytearray(content)
        for _ in range(chance.randrange(1, 4)):
            flipped[chance.randrange(len(flipped))] ^= 1 << chance.randrange(8)
        return bytes(flipped)
    if kind == 2:
        lines[number] = f"{key} = {chance.choice(OTHER_VALUES)}"
    elif kind == 3:
        place = chance.randrange(max(1, len(lines[number])))
        lines[number] = lines[number][:place] + chance.choice("qz_-.") + lines[number][place + 1 :]
    elif kind == 4:
        lines[number] = f"{key} = " + chance.choice("[{") * chance.choice([3, 50, 50_000])
    elif kind == 5:
        text = chance.choice(HOSTILE).replace("\\", "\\\\").replace('"', '\\"')
        where = chance.choice(
            [i for i, line in enumerate(lines) if "weight" in line or "choose" in line]
        )
        lines[where] = lines[where].partition(" = ")[0] + f' = "{text}"'
    elif kind == 6:
        del lines[number]
    else:
        other = chance.randrange(1, len(lines))
        lines[number], lines[other] = lines[other], lines[number]
    return "\n".join(lines).encode()  # fmt: skip


def listing(folder):
    return sorted((str(path), path.stat().st_size) for path in Path(folder).rglob("*"))


class TooSlow(BaseException):
    """Not an Exception, so that nothing can take it for a fault of the file."""


@pytest.mark.parametrize("seed", range(4))
def test_a_hostile_file_is_refused_or_read_and_does_nothing_else(tmp_path, monkeypatch, seed):
    monkeypatch.chdir(tmp_path)

    def stop(*_):
        raise TooSlow

    path = tmp_path / "spec.toml"
    frame, n_read = trips(4), 0
    previous = signal.signal(signal.SIGALRM, stop)
    try:
        for number in range(60):
            path.write_bytes(mutated(random.Random(1000 * seed + number)))
            before = listing(tmp_path)
            signal.alarm(5)
            try:
                spec = read_spec(path)
                n_read += 1
                DecisionCalibrator.from_spec(spec, spec.instances(frame)).settings()
            except (DataError, ArgumentError):
                pass
            finally:
                signal.alarm(0)
            assert listing(tmp_path) == before
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert 0 < n_read < 60
