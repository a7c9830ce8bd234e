"""The command line and single rows: faults, new items, names that must survive, CSV as it was."""

import csv
import datetime
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import outrule
from outrule.data.table_files import read_table, write_table
from test_cli import NO_START, SPEC, folder, refused, run, trips  # noqa: F401 - folder is a fixture


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def today(tmp_path):
    """Trips of 50 instances, in lines that an editor would count; and where a cell is changed."""
    frame = trips(3, 50).drop("completed")

    def change(*cells, name="today.csv"):
        changed = frame.with_columns(pl.col("pickup_km", "score").cast(pl.String))
        for row, column, value in cells:
            values = changed[column].to_list()
            values[row] = value
            changed = changed.with_columns(pl.Series(column, values, dtype=changed[column].dtype))
        write_table(changed, tmp_path / name)
        return tmp_path / name, frame["trip"].to_list()

    return change


def test_an_error_stops_the_command_and_names_the_line(folder, tmp_path, today):  # noqa: F811
    path, trip = today((7, "pickup_km", None), (20, "score", "1.5"))
    command = (folder / "model.json", path, "-o", tmp_path / "out.csv")
    for name in ("decide", "predict"):
        words = f"score is 1.5 at instance {trip[20]}, line 22 of {path}, outside [0, 1]. The "
        assert refused(run(name, *command), words.replace("score", "prediction"))
    path, _ = today((7, "pickup_km", None))
    assert refused(run("decide", *command), f"is NULL at instance {trip[7]}, line 9 of {path}.")
    path, _ = today((7, "score", None))
    assert refused(run("decide", *command), f"prediction is null at instance {trip[7]}, line 9 of")
    frame = read_table(path)
    write_table(frame, tmp_path / "t.parquet")
    result = run("decide", folder / "model.json", tmp_path / "t.parquet", "-o", tmp_path / "o.csv")
    assert refused(result, f"row 8 of {tmp_path / 't.parquet'}, counting from 1. Predictions")
    assert not (tmp_path / "out.csv").exists()


def test_lines_are_counted_as_an_editor_counts_them(folder, tmp_path):  # noqa: F811
    path = tmp_path / "today.csv"
    path.write_text('trip,driver,pickup_km,score\n1,"an\nn",1,0.5\n1,bob,2,0.5\n\n2,ann,3,7\n')
    result = run("decide", folder / "model.json", path, "-o", tmp_path / "o.csv")
    assert refused(result, "line 5: no fields, but the header has 4")
    path.write_text('trip,driver,pickup_km,score\n1,"an\nn",1,0.5\n1,bob,2,0.5\n2,ann,3,7\n')
    result = run("decide", folder / "model.json", path, "-o", tmp_path / "o.csv")
    assert refused(result, "prediction is 7 at instance 2, line 5 of")
    assert "To continue despite such instances, use --on-error original" in result.stderr


@pytest.mark.parametrize("command", ["decide", "predict"])
def test_instances_with_errors_are_left_out_and_listed(folder, tmp_path, today, command):  # noqa: F811
    path, trip = today(
        (7, "pickup_km", None), (20, "score", "1.5"), (33, "driver", None), (40, "trip", None)
    )
    output, column = tmp_path / "out.csv", {"decide": "chosen", "predict": "calibrated"}[command]
    result = run(command, folder / "model.json", path, "-o", output, "--on-error", "skip")
    assert result.exit_code == 0, result.stderr
    bad = {trip[7], trip[20], trip[33]}
    gone = [row for row, name in enumerate(trip) if name in bad or row == 40]
    n_bad = len(bad) + 1
    errors = rows_of(tmp_path / "out.csv.errors.csv")
    assert f"{n_bad} instances with errors: 0 answered by the original predictions, " in (
        result.stderr
    )
    assert [int(row["line"]) for row in errors] == [9, 22, 35, 42]
    assert [row["instance"] for row in errors] == [*map(str, [trip[7], trip[20], trip[33]]), ""]
    assert {row["handling"] for row in errors} == {"left out"}
    for row, words in zip(
        errors,
        (
            "the weight is NULL",
            "prediction is 1.5",
            "item column 'driver' is null",
            "instance column 'trip' is null",
        ),
        strict=True,
    ):
        assert words in row["error"]
    given, written = rows_of(path), rows_of(output)
    assert [{k: v for k, v in row.items() if k != column} for row in written] == [
        row for number, row in enumerate(given) if number not in gone
    ]
    # The others are answered as they are without the rows with errors.
    write_table(read_table(path)[sorted(set(range(250)) - set(gone))], tmp_path / "good.csv")
    run(command, folder / "model.json", tmp_path / "good.csv", "-o", tmp_path / "good_out.csv")
    assert [row[column] for row in rows_of(tmp_path / "good_out.csv")] == [
        row[column] for row in written
    ]


def test_instances_with_errors_are_decided_by_their_original_predictions(folder, tmp_path, today):  # noqa: F811
    path, trip = today((7, "pickup_km", None), (20, "score", None))
    output = tmp_path / "out.parquet"
    command = ("decide", folder / "model.json", path, "-o", output, "--on-error", "original")
    result = run(*command, "--errors", tmp_path / "e.csv")
    assert result.exit_code == 0, result.stderr
    assert "2 instances with errors: 1 answered by the original predictions, 1 left out; see " in (
        result.stderr
    )
    assert "49 instances, 49 of 245 items chosen" in result.stdout
    written = read_table(output)
    assert trip[20] not in written["trip"]
    plain = written.filter(pl.col("trip") == trip[7])
    assert plain["chosen"].to_list() == (plain["score"] == plain["score"].max()).to_list()
    handling = {row["instance"]: row["handling"] for row in rows_of(tmp_path / "e.csv")}
    assert handling == {str(trip[7]): "original predictions", str(trip[20]): "left out"}
    run("predict", *command[1:], "--errors", tmp_path / "e.csv")
    plain = read_table(output).filter(pl.col("trip") == trip[7])
    assert plain["calibrated"].to_list() == plain["score"].to_list()


def test_the_list_of_errors_is_written_even_if_there_are_none(folder, tmp_path, today):  # noqa: F811
    path, _ = today()
    command = ("decide", folder / "model.json", path, "-o")
    result = run(*command, tmp_path / "out.csv", "--on-error", "skip")
    assert "no instances with errors" in result.stderr
    assert rows_of(tmp_path / "out.csv.errors.csv") == []
    assert refused(run(*command, "-", "--on-error", "skip"), "say with --errors FILE")
    result = run(*command, tmp_path / "x.csv", "--errors", tmp_path / "e.csv")
    assert refused(result, "--errors needs --on-error original or skip")
    same = ("--on-error", "skip", "--errors", tmp_path / "x.csv")
    assert refused(run(*command, tmp_path / "x.csv", *same), "name the same file")
    (tmp_path / "x.csv").touch()
    assert refused(run(*command, tmp_path / "x.csv", *same), "name the same file")
    same = ("--on-error", "skip", "--errors", path)
    assert refused(run(*command, tmp_path / "x.csv", *same), "choose another name for --errors")
    assert run(*command, tmp_path / "x.csv", "--on-error", "maybe").exit_code == 2


def test_faults_of_the_table_stop_whatever_was_asked(folder, tmp_path, today):  # noqa: F811
    path, _ = today(*[(row, "score", None) for row in range(250)])
    options = ("-o", tmp_path / "out.csv", "--on-error", "skip")
    result = run("decide", folder / "model.json", path, *options)
    assert refused(result, "every instance has an error; line 2 of", "prediction is null")
    frame = read_table(today()[0])
    for name in ("score", "trip", "pickup_km"):
        write_table(frame.drop(name), path)
        assert refused(run("decide", folder / "model.json", path, *options), f"'{name}'")
    assert not (tmp_path / "out.csv").exists()


def test_a_cell_of_ours_is_no_formula(folder, tmp_path):  # noqa: F811
    path = tmp_path / "today.csv"
    path.write_text(
        "trip,driver,pickup_km,score\n=1+1,ann,1,2.5\n=1+1,bob,1,0.5\n@b,ann,1,0.5\n-7,ann,1,9\n"
    )
    options = ("-o", tmp_path / "out.csv", "--on-error", "skip")
    run("decide", folder / "model.json", path, *options)
    assert [row["instance"] for row in rows_of(tmp_path / "out.csv.errors.csv")] == ["'=1+1", "'-7"]
    assert [row["trip"] for row in rows_of(tmp_path / "out.csv")] == ["@b"]  # yours, as it was


def test_new_items_are_kept_with_one_warning_or_stop_the_command(folder, tmp_path, today):  # noqa: F811
    path, _ = today((3, "driver", "zoe"), (9, "driver", "yan"))
    command = ("decide", folder / "model.json", path, "-o", tmp_path / "out.csv")
    result = run(*command)
    assert result.exit_code == 0
    assert result.stderr == (
        "Warning: 2 items not seen in training ('yan', 'zoe'): multiplied by 1 in rules, and "
        "calibrated by the curves of all items together.\n"
    )
    result = run(*command, "--unseen", "error", "--on-error", "skip")
    assert refused(result, "2 items not seen in training ('yan', 'zoe')", "--unseen keep")
    later = read_table(folder / "later.csv").with_columns(driver=pl.lit("new-") + pl.col("driver"))
    write_table(later, tmp_path / "later.csv")
    result = run("certify", folder / "model.json", tmp_path / "later.csv")
    assert result.stderr.count("Warning: 5 items not seen in training") == 1


def test_new_items_warn_in_python():
    names = {"instance": "trip", "item": "driver", "prediction": "score", "outcome": "completed"}
    rules = [outrule.Multiplier({"ann": 0.5, "bob": 1, "cem": 1, "dag": 1, "eve": 1})]
    data = outrule.Instances.from_table(trips(1, 100), **names)
    model = outrule.DecisionCalibrator(outrule.BestAction(), rules, 0.5).fit(data)
    new = trips(2, 20).with_columns(pl.col("driver").replace("bob", "zoe"))
    with pytest.warns(UserWarning, match=r"1 item not seen in training \('zoe'\)"):
        model.predict(outrule.Instances.from_table(new, **names))


PROBLEMS = (
    '"best action"',
    '"top k"\nk = 2',
    '"partition"\ngroups = "side"',
    '"matching"\nnodes = ["from", "to"]',
    '"assignment"\nrows = "from"\ncolumns = "to"',
)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_an_item_that_is_offered_twice_is_noticed_wherever_its_rows_are(tmp_path, problem):
    number = pl.int_range(150)
    nodes = {"side": number % 2, "from": number % 7, "to": 9 + number}
    frame = trips(1, 30).with_columns(**nodes)
    twice = pl.concat([frame, frame[:1]])
    write_table(frame, tmp_path / "past.csv")
    write_table(twice, tmp_path / "twice.csv")
    spec, model = tmp_path / "spec.toml", tmp_path / "m.json"
    spec.write_text(SPEC.replace('"best action"', problem))
    trip, driver = frame["trip"][0], frame["driver"][0]
    words = f"item '{driver}' is offered twice, again at instance {trip}, line 152 of"
    fit = ("fit", tmp_path / "twice.csv", "--spec", spec, "-o", model)
    assert refused(run(*fit), words)
    assert run("fit", tmp_path / "past.csv", *fit[2:]).exit_code == 0
    for command in ("predict", "decide", "certify"):
        result = run(command, model, tmp_path / "twice.csv", "-o", tmp_path / "out.csv")
        assert refused(result, words)
    options = ("-o", tmp_path / "out.csv", "--on-error", "skip")
    result = run("decide", model, tmp_path / "twice.csv", *options)
    assert "1 instance with errors" in result.stderr
    assert str(trip) not in [row["trip"] for row in rows_of(tmp_path / "out.csv")]


# --- names that must survive ----------------------------------------------------------------------


def test_fields_of_a_csv_are_written_as_they_were(folder, tmp_path):  # noqa: F811
    path = tmp_path / "today.csv"
    lines = [
        "trip,driver,pickup_km,score,note,^x$,*",
        '2024.1,ann,1.50,0.50,TRUE,0x1,"a, ""b"""',
        "2024.1,bob,2,5e-1,true,+1,",
        '2024.10,ann,3.00,.25,NaN,1e5,""',
    ]
    path.write_text("\n".join(lines) + "\n")
    result = run("predict", folder / "model.json", path, "-o", tmp_path / "out.csv")
    assert result.exit_code == 0, result.stderr
    written = (tmp_path / "out.csv").read_text().splitlines()
    assert [line.rsplit(",", 1)[0] for line in written] == lines
    result = run("decide", folder / "model.json", path, "-o", tmp_path / "out.csv")
    assert "2 instances, 2 of 3 items chosen" in result.stdout
    result = run("decide", folder / "model.json", path, "-o", tmp_path / "out.parquet")
    assert read_table(tmp_path / "out.parquet")["trip"].to_list() == ["2024.1", "2024.1", "2024.10"]


KEYS = {
    "large integers": pl.Series([2**53 + i for i in range(5)]),
    "unsigned": pl.Series([2**64 - 1 - i for i in range(5)], dtype=pl.UInt64),
    "dates": pl.Series([datetime.date(2026, 5, 1 + i) for i in range(5)]),
    "zones": pl.Series([datetime.datetime(2026, 10, 25, i) for i in range(5)])
    .dt.replace_time_zone("UTC")
    .dt.convert_time_zone("Europe/Paris"),
    "lengths": pl.Series([datetime.timedelta(microseconds=i) for i in range(5)]),
    "times": pl.Series([datetime.time(1, 2, i) for i in range(5)]),
    "decimals": pl.Series([Decimal(f"1.{i}0") for i in range(5)]),
    "categories": pl.Series(list("abcde"), dtype=pl.Categorical),
    "enum": pl.Series(list("edcba"), dtype=pl.Enum(list("edcba"))),
    "booleans": pl.Series([True, False]),
    "floats": pl.Series([0.1 * i for i in range(5)]),
}


@pytest.mark.parametrize("kind", KEYS)
def test_items_and_instances_of_every_type_survive_the_commands(tmp_path, kind):
    keys = KEYS[kind]
    spec, model = tmp_path / "spec.toml", tmp_path / "m.json"
    spec.write_text(SPEC + '[multipliers]\nlimit = 5\n[fit]\nstart = "isotonic"\n')
    codes = {name: i for i, name in enumerate(["ann", "bob", "cem", "dag", "eve"])}

    def make(seed):
        frame = trips(seed, 300).sort("trip", "driver")
        code = frame["driver"].replace_strict(codes).to_numpy()
        if len(keys) < 5:
            frame, code = frame.filter(pl.Series(code < 2)), code[code < 2]
        return frame.with_columns(keys.gather(code).alias("driver"))

    past, later = make(1), make(2)
    write_table(past, tmp_path / "past.parquet")
    write_table(later, tmp_path / "later.parquet")
    fitted = run("fit", tmp_path / "past.parquet", "--spec", spec, "-o", model)
    assert fitted.exit_code == 0, fitted.stderr
    names = {"instance": "trip", "item": "driver", "prediction": "score", "outcome": "completed"}
    data = outrule.Instances.from_table(later, **names)
    assert set(outrule.load(model).isotonic_.curves) == {None, *data.item_names}
    result = run("predict", model, tmp_path / "later.parquet", "-o", tmp_path / "p.parquet")
    assert (result.exit_code, result.stderr) == (0, "")
    written = read_table(tmp_path / "p.parquet")
    assert_frame_equal(written.drop("calibrated"), later)
    calibrator = outrule.DecisionCalibrator.from_spec(
        parsed := outrule.read_spec(spec), parsed.instances(past)
    )
    expected = calibrator.fit(parsed.instances(past)).predict(data)
    np.testing.assert_array_equal(written["calibrated"].to_numpy(), expected.to_numpy())
    for command in ("decide", "certify"):
        output = tmp_path / ("d.parquet" if command == "decide" else "c.json")
        result = run(command, model, tmp_path / "later.parquet", "-o", output)
        assert (result.exit_code in (0, 1, 3), result.stderr) == (True, "")


def test_two_items_that_python_cannot_tell_apart_are_refused():
    frame = trips(1, 2).filter(pl.col("driver").is_in(["ann", "bob"]))
    times = pl.Series([1, 2], dtype=pl.Int64).cast(pl.Datetime("ns"))
    frame = frame.with_columns(times.gather((frame["driver"] == "ann").cast(pl.Int64)).alias("at"))
    with pytest.raises(outrule.DataError, match="two of its items are the same in Python"):
        outrule.Instances.from_table(frame, instance="trip", item="at", prediction="score")


@pytest.mark.parametrize("name", ["*", "^.*$", "^s.*$"])
def test_column_names_that_look_like_patterns_are_names(tmp_path, name):
    spec, model = tmp_path / "spec.toml", tmp_path / "m.json"
    for role in ("trip", "driver", "score", "completed", "pickup_km"):
        text = SPEC.replace(f'"{role}"', f"'{name}'")
        if role in ("pickup_km", "score"):
            text = "\n".join(
                line.replace(role, f'\\"{name}\\"') if line.startswith("weight") else line
                for line in text.splitlines()
            )
        spec.write_text(text if role == "driver" else f"{text}\n{NO_START}")
        for number, file in enumerate(("past.csv", "later.csv"), start=1):
            write_table(trips(number, 200).rename({role: name}), tmp_path / file)
        fitted = run("fit", tmp_path / "past.csv", "--spec", spec, "-o", model)
        assert fitted.exit_code == 0, (role, fitted.stderr)
        assert run("certify", model, tmp_path / "later.csv").exit_code in (0, 1, 3)
        command = ("decide", model, tmp_path / "later.csv", "-o", tmp_path / "out.csv")
        assert run(*command, "--on-error", "original").exit_code == 0
        given = read_table(tmp_path / "later.csv")
        assert_frame_equal(read_table(tmp_path / "out.csv").drop("chosen"), given)
    assert run(*command, "--column", name, "--overwrite").exit_code == 0
    assert read_table(tmp_path / "out.csv")[name].dtype == pl.Boolean


def test_an_outcome_that_looks_like_a_pattern_stays_hidden_from_rules():
    frame = trips(1, 20).rename({"completed": "^s.*$"})
    data = outrule.Instances.from_table(frame, instance="trip", prediction="score", outcome="^s.*$")
    assert data.view().frame.columns == ["trip", "driver", "pickup_km", "score"]
