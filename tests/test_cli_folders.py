"""`predict` and `decide` from folders to folders: the same rows, resumed, and a word per fault."""

import os

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from test_cli import SPEC, run, trips


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    trips(1).write_parquet(folder / "past.parquet")
    (folder / "spec.toml").write_text(SPEC)
    result = run(
        "fit", folder / "past.parquet", "--spec", folder / "spec.toml", "-o", folder / "model.json"
    )
    assert result.exit_code == 0, result.stderr
    return folder / "model.json"


@pytest.fixture
def folder(tmp_path):
    """Three files, one in a subfolder, one without rows, and what Spark leaves beside them."""
    whole = trips(2, n=90).sort("trip", maintain_order=True)
    source = tmp_path / "in"
    (source / "day=2").mkdir(parents=True)
    whole[:200].write_parquet(source / "a.parquet")
    whole[200:].write_parquet(source / "day=2" / "b.parquet")
    whole[:0].write_parquet(source / "c.parquet")
    (source / "_SUCCESS").touch()
    (source / ".a.parquet.crc").write_bytes(b"crc")
    return source


def results(output):
    return pl.concat([pl.read_parquet(output / name) for name in ("a.parquet", "day=2/b.parquet")])


@pytest.mark.parametrize(
    "words",
    [
        ("predict",),
        ("decide",),
        ("decide", "--only"),
        ("decide", "--explore", "0.3", "--seed", "5"),
    ],
)
def test_a_folder_gets_the_rows_of_one_table(model, folder, tmp_path, words):
    verb, *options = words
    trips(2, n=90).sort("trip", maintain_order=True).write_parquet(tmp_path / "whole.parquet")
    one = run(verb, model, tmp_path / "whole.parquet", "-o", tmp_path / "one.parquet", *options)
    many = run(verb, model, folder, "-o", tmp_path / "out", *options)
    assert many.exit_code == 0, many.stderr
    assert_frame_equal(results(tmp_path / "out"), pl.read_parquet(tmp_path / "one.parquet"))
    added = one.stdout.split(": ")[1]
    assert many.stdout == f"wrote {tmp_path / 'out'}: 3 files, {added}"
    empty = pl.read_parquet(tmp_path / "out" / "c.parquet")
    assert empty.schema == results(tmp_path / "out").schema
    assert empty.height == 0


def times(output):
    return {path.name: path.stat().st_mtime_ns for path in output.rglob("*.parquet")}


def test_only_what_has_changed_is_done_again(model, folder, tmp_path):
    output = tmp_path / "out"
    run("predict", model, folder, "-o", output)
    before = times(output)
    again = run("predict", model, folder, "-o", output)
    assert "3 files (3 of them done before), 450 rows" in again.stdout
    assert times(output) == before
    changed = pl.read_parquet(folder / "a.parquet").with_columns(pl.col("score") * 0.5)
    changed.write_parquet(folder / "a.parquet")
    run("predict", model, folder, "-o", output)
    after = times(output)
    assert {name for name in after if after[name] != before[name]} == {"a.parquet"}
    assert (pl.read_parquet(output / "a.parquet")["score"] == changed["score"]).all()
    run("predict", model, folder, "-o", output, "--column", "better")  # other options
    assert all(after[name] != time for name, time in times(output).items())
    assert "better" in pl.read_parquet(output / "a.parquet").columns


@pytest.mark.parametrize(
    "counts", [None, "", "[1, 2", "[1, 2]", '["a", 1, 2]', "7", "[null, 1, 2]"]
)
def test_an_output_whose_notes_are_damaged_is_made_again(model, folder, tmp_path, counts):
    output = tmp_path / "out"
    run("predict", model, folder, "-o", output)
    whole = (output / "a.parquet").read_bytes()
    notes = pl.read_parquet_metadata(output / "a.parquet")
    notes = {"outrule": notes["outrule"]} | ({} if counts is None else {"outrule.counts": counts})
    pl.read_parquet(output / "a.parquet").write_parquet(output / "a.parquet", metadata=notes)
    again = run("predict", model, folder, "-o", output)
    assert again.exit_code == 0, again.stderr
    assert "3 files (2 of them done before), 450 rows" in again.stdout
    assert (output / "a.parquet").read_bytes() == whole


def test_another_model_does_all_again(model, folder, tmp_path):
    output, other = tmp_path / "out", tmp_path / "other.json"
    run("predict", model, folder, "-o", output)
    before = times(output)
    past = model.parent / "past.parquet"
    run("fit", past, "--spec", model.parent / "spec.toml", "--epsilon", "0.1", "-o", other)
    run("predict", other, folder, "-o", output)
    assert all(before[name] != time for name, time in times(output).items())


def test_a_pattern_is_a_folder_of_its_files(model, folder, tmp_path):
    result = run("predict", model, folder / "day=*" / "*.parquet", "-o", tmp_path / "out")
    assert result.exit_code == 0, result.stderr
    assert [*times(tmp_path / "out")] == ["b.parquet"]
    assert (tmp_path / "out" / "day=2" / "b.parquet").exists()


def damage_middle(path):
    data = bytearray(path.read_bytes())
    data[40:120] = bytes(80)
    path.write_bytes(data)


def test_a_damaged_file_is_named_and_the_rest_resumes(model, folder, tmp_path):
    output, path = tmp_path / "out", folder / "day=2" / "b.parquet"
    whole = path.read_bytes()
    damage_middle(path)
    result = run("predict", model, folder, "-o", output)
    assert result.exit_code == 2
    assert str(path) in result.stderr
    assert not (output / "day=2" / "b.parquet").exists()
    assert not [*output.rglob(".*")]  # no drafts
    path.write_bytes(whole)
    again = run("predict", model, folder, "-o", output)
    assert again.exit_code == 0, again.stderr
    assert results(output).height == 450


def cut_short(folder):
    path = folder / "day=2" / "b.parquet"
    path.write_bytes(path.read_bytes()[:-40])
    return f"{path} is not a valid Parquet file"


def lose(folder):
    path = folder / "b.parquet"
    path.symlink_to(folder / "gone")
    return f"{path} cannot be read: No such file"


def add_column(folder):
    path = folder / "day=2" / "b.parquet"
    pl.read_parquet(path).with_columns(extra=1).write_parquet(path)
    return f"{path} has a different schema: column 'extra' is in {path}, but not in"


def change_type(folder):
    path = folder / "day=2" / "b.parquet"
    frame = pl.read_parquet(path)
    frame.with_columns(frame["score"].cast(pl.Float32)).write_parquet(path)
    return "column 'score' holds Float32, but Float64 in"


def split_instance(folder):
    path = folder / "day=2" / "b.parquet"
    pl.concat([pl.read_parquet(path), pl.read_parquet(folder / "a.parquet")[:1]]).write_parquet(
        path
    )
    return f"trip 20000 is in {folder / 'a.parquet'} and in {path}. All rows of an instance"


def add_csv(folder):
    (folder / "d.csv").write_text("a\n1\n")
    return "d.csv is not Parquet"


def add_loop(folder):
    (folder / "d.parquet").symlink_to(folder / "d.parquet")
    return "d.parquet: Too many levels of symbolic links"


def add_pipe(folder):
    os.mkfifo(folder / "d.parquet")
    return "d.parquet is a pipe or a device"


def empty_folder(folder):
    for path in folder.rglob("*.parquet"):
        path.unlink()
    return "has no Parquet files"


def drop_score(folder):
    for path in folder.rglob("*.parquet"):
        pl.read_parquet(path).drop("score").write_parquet(path)
    return f"{folder / 'a.parquet'}: the prediction column 'score' is missing"


def bad_score(folder):
    frame = pl.read_parquet(folder / "a.parquet")
    frame[3, "score"] = 7.0
    frame.write_parquet(folder / "a.parquet")
    return f"row 4 of {folder / 'a.parquet'}"


@pytest.mark.parametrize(
    "spoil",
    [
        cut_short,
        lose,
        add_column,
        change_type,
        split_instance,
        add_csv,
        add_loop,
        pytest.param(add_pipe, marks=pytest.mark.skipif(os.name != "posix", reason="no pipes")),
        empty_folder,
        drop_score,
        bad_score,
    ],
)
def test_bad_folders_are_refused_before_anything_is_written(model, folder, tmp_path, spoil):
    words = spoil(folder)
    result = run("decide", model, folder, "-o", tmp_path / "out")
    assert result.exit_code == 2, result.stdout
    assert words in result.stderr
    assert not (tmp_path / "out").exists()


def test_rows_with_errors_are_listed_beside_their_file(model, folder, tmp_path):
    bad_score(folder)
    result = run("decide", model, folder, "-o", tmp_path / "out", "--on-error", "skip")
    assert result.exit_code == 0, result.stderr
    listed = pl.read_csv(tmp_path / "out" / "a.parquet.errors.csv")
    assert listed["row"].to_list() == [4]
    assert not (tmp_path / "out" / "day=2" / "b.parquet.errors.csv").exists()
    assert results(tmp_path / "out").height == 445


def test_outputs_that_would_be_mistaken_are_refused(model, folder, tmp_path):
    output = tmp_path / "out"

    def words(target):
        result = run("predict", model, folder, "-o", target)
        assert result.exit_code == 2
        return result.stderr

    assert "-o must name a folder" in words("-")
    (tmp_path / "file").touch()
    assert "-o must name a folder" in words(tmp_path / "file")
    assert "is an input of this command" in words(folder)
    assert "whose files are read" in words(folder / "out")
    output.mkdir()
    trips(3, n=2).write_parquet(output / "old.parquet")
    assert "old.parquet belongs to no file of" in words(output)
    (output / "old.parquet").rename(output / "a.parquet")
    assert "a.parquet was not written by this command" in words(output)
    errors = run("predict", model, folder, "-o", tmp_path / "new", "--errors", "x.csv")
    assert "--errors is not supported for a folder" in errors.stderr


@pytest.fixture
def past(tmp_path):
    """Past trips in three files, and the same in one."""
    whole = trips(1, n=300).sort("trip", maintain_order=True)
    (tmp_path / "past").mkdir()
    for number in range(3):
        whole[500 * number : 500 * number + 500].write_parquet(
            tmp_path / "past" / f"{number}.parquet"
        )
    whole.write_parquet(tmp_path / "past.parquet")
    (tmp_path / "spec.toml").write_text(SPEC)
    return tmp_path


def test_fit_on_a_folder_writes_the_model_of_one_table(past):
    results = [
        run("fit", past / name, "--spec", past / "spec.toml", "-o", past / f"{name}.json")
        for name in ("past", "past.parquet")
    ]
    assert results[0].exit_code == 0, results[0].stderr
    assert (past / "past.json").read_text() == (past / "past.parquet.json").read_text()
    assert results[0].stdout.replace("past.json", "past.parquet.json") == results[1].stdout


def test_fit_on_a_folder_says_what_it_cannot_do(past, monkeypatch):
    def words(*more, spec=SPEC):
        (past / "spec.toml").write_text(spec)
        result = run("fit", past / "past", "--spec", past / "spec.toml", "-o", past / "m", *more)
        assert result.exit_code == 2, result.stdout
        return result.stderr

    assert "--refits is not supported for a folder" in words("--refits", "2")
    fresh = SPEC + '[fit]\ncheck = "fresh batches"\nsize = 10\n'
    assert "'check' must be Reuse() without validation" in words(spec=fresh)
    segments = SPEC + '[fit]\nsegments = ["driver"]\n'
    assert "'driver' changes within the instance" in words(spec=segments)
    typo = SPEC.replace('prediction = "score"', 'prediction = "scor"')
    first = f"Error: {past / 'past' / '0.parquet'}: {past / 'spec.toml'}, "
    found = words(spec=typo)
    assert found.startswith(first)
    assert "there is no column 'scor'. Did you mean 'score'?" in found
    wrong = SPEC.replace("pickup_km > 3", "driver > 3")
    assert words(spec=wrong).startswith(f"{first}rule 1 ('no long pickups'): cannot compare string")
    monkeypatch.setattr("outrule.cli.work.fitting.survey", None)  # no file is read
    assert "scratch folder" in words("--scratch", past / "nowhere")


def test_fit_inside_segments_on_a_folder_is_that_of_one_table(past):
    for path in (past / "past.parquet", *(past / "past").iterdir()):
        frame = pl.read_parquet(path)
        frame.with_columns(third=pl.col("trip").hash(1) % 3).write_parquet(path)
    more = '[fit]\nsegments = ["third"]\nmin_instances = 20\n'
    (past / "spec.toml").write_text(SPEC + more)
    results = [
        run("fit", past / name, "--spec", past / "spec.toml", "-o", past / f"{name}.json")
        for name in ("past", "past.parquet")
    ]
    assert results[0].exit_code == 0, results[0].stderr
    assert (past / "past.json").read_text() == (past / "past.parquet.json").read_text()
    assert results[0].stdout.replace("past.json", "past.parquet.json") == results[1].stdout


def test_what_only_a_folder_has_a_use_for_is_refused_for_a_table(past, model):
    fit = ("fit", past / "past.parquet", "--spec", past / "spec.toml", "-o", past / "m.json")
    options = ("--sample", "50", "--scratch", past, "--checkpoint", past / "c")
    result = run(*fit, *options)
    assert result.exit_code == 2
    words = "--sample, --scratch and --checkpoint are for a folder of Parquet files, not for one"
    assert words in " ".join(result.stderr.split())
    certify = ("certify", model, past / "past.parquet", "-o", past / "c.json")
    assert "--scratch is for a folder" in run(*certify, "--scratch", past).stderr


def test_values_of_a_sample_are_called_so(past):
    command = ("fit", past / "past", "--spec", past / "spec.toml", "-o", past / "m.json")
    result = run(*command, "--sample", "50")
    assert "300 instances, 1,500 rows" in result.stdout
    assert "in training, of 50 instances" in result.stdout


def test_certify_on_a_folder_writes_the_certificate_of_one_table(model, past):
    whole = trips(2, n=300).sort("trip", maintain_order=True)
    whole.write_parquet(past / "later.parquet")
    (past / "later").mkdir()
    whole[:700].write_parquet(past / "later" / "0.parquet")
    whole[700:].write_parquet(past / "later" / "1.parquet")
    one, many = (
        run("certify", model, past / name, "-o", past / f"{name}.json")
        for name in ("later.parquet", "later")
    )
    assert many.exit_code == one.exit_code, many.stderr
    assert (past / "later.json").read_text() == (past / "later.parquet.json").read_text()
    assert many.stdout.replace("later.json", "later.parquet.json") == one.stdout
    (past / "more").mkdir()
    trips(3, n=100).write_parquet(past / "more" / "0.parquet")
    trips(3, n=100).write_parquet(past / "more.parquet")
    for end in ("", ".parquet"):
        names = [past / f"{name}{end}" for name in ("later", "more")]
        previous = ("--continue", past / f"later{end}.json")
        run("certify", model, *names, *previous, "-o", past / f"continued{end}.json")
    assert (past / "continued.json").read_text() == (past / "continued.parquet.json").read_text()


def test_certify_and_report_say_what_a_folder_cannot_do(model, folder, past):
    def words(*command):
        result = run(*command)
        assert result.exit_code == 2, result.stdout
        return result.stderr

    assert "needs one table" in words("report", model, folder, "-o", past / "r.html")
    spoken = words("certify", model, folder, "--segments", "driver")
    assert "'driver' changes within the instance" in spoken
    for path in folder.rglob("*.parquet"):
        frame = pl.read_parquet(path)
        frame.with_columns(pl.Series("driver", [7] * frame.height)).write_parquet(path)
    assert "the item column 'driver' holds Int64" in words("certify", model, folder)
