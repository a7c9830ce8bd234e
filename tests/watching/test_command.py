"""`outrule watch`: exit codes, what is counted once, its files, and a sentence for each fault."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from outrule import Watch
from outrule.cli import app
from outrule.cli.talking import in_our_words
from outrule.cli.watching import read_run_length
from outrule.errors import DataError
from outrule.model.codec import load_model
from outrule.watching import locking

SPEC = """
epsilon = 0.05
problem = {kind = "best action"}
data = {instance = "trip", prediction = "score", outcome = "done", item = "driver"}
fit = {start = "none"}
[[rules]]
name = "first"
always = "a"
[[rules]]
name = "second"
always = "b"
"""


def days(gap, first, number, n=400, start=0):
    """A table of some days; both rules are worse than the optimiser by ``gap``."""
    generator = np.random.default_rng((first, number))
    n *= number
    score = np.array([[0.6, 0.4], [0.4, 0.6]])[generator.integers(0, 2, n)]
    chance = np.where(score > 0.5, 0.6, 0.6 - 2 * gap)
    day = np.array("2026-01-01", "M8[D]") + np.repeat(first + np.arange(n) * number // n, 2)
    return pl.DataFrame(
        {
            "trip": np.repeat(start + 10_000 * first + np.arange(n), 2),
            "day": day.astype(str),
            "driver": np.tile(["a", "b"], n),
            "score": score.ravel(),
            "done": (generator.random((n, 2)) < chance).astype(int).ravel(),
        }
    )[generator.permutation(2 * n)]


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def refused(result, *words):
    assert result.exit_code == 2, (result.stdout, result.stderr)
    assert result.stdout == ""
    for some in words:
        assert str(some) in result.stderr
    return True


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("watch")
    (folder / "spec.toml").write_text(SPEC)
    tables = {
        "past": days(0.1, 900, 5),
        "good": days(0.05, 0, 15),
        "bad": days(-0.2, 15, 6),
        "better": days(0.05, 21, 15),
    }
    for name, table in tables.items():
        table.write_csv(folder / f"{name}.csv")
    spec, model = folder / "spec.toml", folder / "model.json"
    fitted = run("fit", folder / "past.csv", "--spec", spec, "-o", model)
    assert fitted.exit_code == 0, fitted.stderr
    return folder


def watch(folder, name, state, *more):
    table = [] if name is None else [folder / f"{name}.csv"]
    return run("watch", folder / "model.json", *table, "--state", state, *more)


BY_DAY = ("--batch-column", "day")


def test_the_life_of_a_watch_and_its_exit_codes(folder, tmp_path):
    state, page, metrics = (tmp_path / name for name in ("w.json", "w.html", "w.prom"))
    good = watch(folder, "good", state, *BY_DAY, "-o", page, "--metrics", metrics)
    assert (good.exit_code, good.stderr) == (0, "")
    assert "kept: Decisions are at least as good" in good.stdout
    assert f"wrote {page}" in good.stdout
    assert '<h1 id="verdict-title">Kept</h1>' in page.read_text()
    assert 'status="kept"} 1.0' in metrics.read_text()
    bad = watch(folder, "bad", state, *BY_DAY, "--json", "--metrics", metrics)
    status = json.loads(bad.stdout)
    assert (bad.exit_code, status["status"], status["n_batches"]) == (1, "lost", 21)
    assert "2026-01-14" <= status["since"] <= "2026-01-18"
    assert 'status="lost"} 1.0' in metrics.read_text()
    assert watch(folder, "better", state, *BY_DAY).exit_code == 1
    noted = watch(folder, None, state, "--acknowledge")
    assert noted.exit_code == 3
    assert watch(folder, None, state).exit_code == 3
    assert refused(watch(folder, None, state, "--acknowledge"), f"{state}: there is no alarm")
    assert Watch.from_json(state.read_text(), load_model(folder / "model.json")).state.n == 0


def test_one_table_or_many_give_the_same_state_in_any_order_of_rows(folder, tmp_path):
    whole, parts = tmp_path / "whole.json", tmp_path / "parts.json"
    table = pl.read_csv(folder / "good.csv").filter(pl.col("day") < "2026-01-05")
    table.write_csv(tmp_path / "four.csv")
    run("watch", folder / "model.json", tmp_path / "four.csv", "--state", whole, *BY_DAY)
    for day in sorted(set(table["day"])):
        table.filter(pl.col("day") == day).write_parquet(tmp_path / "day.parquet")
        found = run(
            *("watch", folder / "model.json", tmp_path / "day.parquet", "--state", parts),
            *("--batch-key", day),
        )
        assert found.exit_code in (0, 3), found.stderr
    states = [json.loads(path.read_text()) for path in (whole, parts)]
    for state in states:
        assert state.pop("digest")
        state["history"] = [row[:1] + row[2:] for row in state["history"]]  # without fingerprints
    assert states[0] == states[1]


def test_what_is_counted_is_not_counted_again(folder, tmp_path):
    state = tmp_path / "w.json"
    first = watch(folder, "good", state, *BY_DAY)
    before = state.read_bytes()
    again = watch(folder, "good", state, *BY_DAY)
    assert state.read_bytes() == before
    assert again.exit_code == first.exit_code == 0
    assert again.stdout == first.stdout
    assert again.stderr == "Note: 15 of 15 batches are already counted.\n"
    longer = pl.concat([pl.read_csv(folder / name) for name in ("good.csv", "bad.csv")])
    longer.write_csv(tmp_path / "longer.csv")
    found = watch(tmp_path / "..", "x", state)  # a model that does not exist changes nothing
    assert found.exit_code == 2
    command = ("watch", folder / "model.json", tmp_path / "longer.csv", "--state", state, *BY_DAY)
    found = run(*command, "--json")
    assert json.loads(found.stdout)["n_batches"] == 21
    assert "15 of 21 batches are already counted" in found.stderr
    changed = longer.with_columns(done=pl.lit(1))
    changed.write_csv(tmp_path / "longer.csv")
    before = state.read_bytes()
    assert refused(run(*command), "batch 2026-01-01 is already counted, with other content")
    assert state.read_bytes() == before


def test_a_batch_without_a_key_is_known_by_its_content(folder, tmp_path):
    state = tmp_path / "w.json"
    for _ in range(2):
        found = watch(folder, "good", state, "--json")
        assert json.loads(found.stdout)["n_batches"] == 1
    assert found.stderr == "Note: this batch is already counted, as 1.\n"


def test_outcomes_may_be_empty_where_nothing_was_chosen(folder, tmp_path):
    model, chosen = folder / "model.json", tmp_path / "chosen.csv"
    run("decide", model, folder / "good.csv", "-o", chosen)
    table = pl.read_csv(chosen)
    table.with_columns(done=pl.when("chosen").then("done")).write_csv(chosen)
    command = ("watch", model, chosen, "--state", tmp_path / "w.json", *BY_DAY)
    found = run(*command)
    assert found.exit_code in (0, 3), found.stderr
    assert "Rivals are not watched" in found.stdout
    broken = table.with_columns(done=pl.when(~pl.col("chosen")).then("done"))
    broken.write_csv(chosen)
    words = ("outcome is missing at", "line", "an item that the model chooses")
    assert refused(run(*command[:-3], tmp_path / "new.json", *BY_DAY), *words)
    assert not (tmp_path / "new.json").exists()


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        (lambda t: t.drop("done"), (), "the outcome column 'done' is missing"),
        (lambda t: t.drop("score"), (), "column 'score' is missing"),
        (lambda t: t.with_columns(done=pl.lit("yes")), (), "It must hold numbers"),
        (lambda t: t, ("--batch-column", "week"), "the batch column 'week' is missing"),
        (lambda t: t.with_columns(day=None), BY_DAY, "column 'day' is null at"),
        (lambda t: t.with_columns(day=pl.lit("x")), BY_DAY, "the batch key 'x' is neither"),
        (lambda t: t.with_columns(day="score"), BY_DAY, "column 'day' differs within an instance"),
        (lambda t: t, ("--batch-key", "soon"), "the batch key 'soon' is neither"),
        (lambda t: t, (*BY_DAY, "--batch-key", "3"), "choose one"),
        (lambda t: t, ("--run-length", "often"), "--run-length 'often' is neither"),
        (lambda t: t, ("--run-length", "9" * 400), "--run-length '9999"),
        (lambda t: t, ("--run-length", "1"), "--run-length must be a whole number of at least 2"),
        (lambda t: t, ("--run-length", "2y", "--batch", "year"), "--batch 'year' is not"),
        (lambda t: t, ("--batch", "year"), "--batch 'year' is not"),
        (lambda t: t, ("--max-weight", "0.5"), "has weight 1, more than --max-weight 0.5."),
        (lambda t: t, ("--margin", "-1"), "--margin must be a number of at least 0"),
        (lambda t: t, ("--metrics", "-"), "--metrics must be a file"),
        (lambda t: t, ("--metrics", "STATE"), "must be different files"),
        (lambda t: t, ("--metrics", "MODEL"), "choose another name for --metrics"),
        (lambda t: t, ("-o", "-", "--json"), "both write to standard output"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(folder, tmp_path, change, options, words):
    state, table = tmp_path / "w.json", tmp_path / "t.parquet"
    change(pl.read_csv(folder / "good.csv")).write_parquet(table)
    places = {"STATE": state, "MODEL": folder / "model.json"}
    given = [places.get(option, option) for option in options]
    assert refused(run("watch", folder / "model.json", table, "--state", state, *given), words)
    assert not state.exists()


def test_names_and_lines_are_those_of_the_file(folder, tmp_path):
    model, table, state = folder / "model.json", tmp_path / "t.csv", tmp_path / "w.json"
    rows = ["trip,driver,score,done", "2024.1,a,0.6,1", "2024.1,b,0.4,0"]
    table.write_text("\n".join([*rows, "2024.10,a,0.6,1", "2024.10,b,0.4,0", ""]))
    found = run("watch", model, table, "--state", state, "--json")
    assert found.exit_code == 3, found.stderr
    assert json.loads(found.stdout)["n"] == 2
    table.write_text("\n".join([*rows, "7,a,0.6,1", "7,b,nan,0", ""]))
    found = run("watch", model, table, "--state", tmp_path / "v.json")
    assert refused(found, f"prediction is NaN at instance '7', line 5 of {table}.")


def test_the_largest_cluster_is_asked_for_by_its_option():
    words = "the instances have clusters: max_weight must be the largest total weight"
    assert in_our_words(words) == words.replace("max_weight", "--max-weight")


def test_a_state_that_cannot_be_used_is_refused(folder, tmp_path):
    state = tmp_path / "w.json"
    assert refused(watch(folder, None, state), "w.json does not exist")
    assert refused(watch(folder, "good", tmp_path), "is a folder")
    assert refused(watch(folder, "good", tmp_path / "no" / "w.json"), "does not exist")
    watch(folder, "good", state, *BY_DAY, "--run-length", "10y")
    before = state.read_bytes()
    for option, value in (("--run-length", "20y"), ("--margin", "0.1"), ("--max-weight", "3")):
        words = (f"{option} was", "It cannot change")
        assert refused(watch(folder, "bad", state, *BY_DAY, option, value), *words)
    other = tmp_path / "other.json"
    run("fit", folder / "good.csv", "--spec", folder / "spec.toml", "-o", other)
    assert refused(run("watch", other, folder / "bad.csv", "--state", state), "another model")
    for content in (b"", b"{}", b"\xff\xfe", before[:-30], before.replace(b'"n":', b'"m":')):
        state.write_bytes(content)
        assert refused(watch(folder, "bad", state, *BY_DAY), "w.json is ")
        assert state.read_bytes() == content


def test_a_run_length_is_in_the_units_of_its_user():
    assert read_run_length("20y", "day") == 7300
    assert read_run_length("20y", "week") == 1043
    assert read_run_length("1.5y", "month") == 18
    assert read_run_length("26w", "day") == 182
    assert read_run_length("30d", "hour") == 720
    assert read_run_length("7300", "hour") == 7300
    with pytest.raises(DataError, match="a time such as 20y"):
        read_run_length("-3", "day")


def test_the_usual_run_length_is_in_the_units_of_its_user_too(folder, tmp_path):
    state = tmp_path / "w.json"
    watch(folder, "good", state, *BY_DAY, "--batch", "week")
    assert json.loads(state.read_text())["run_length"] == 1043


def test_two_at_once_wait_for_each_other_or_say_so(folder, tmp_path, monkeypatch):
    state = tmp_path / "w.json"
    monkeypatch.setattr(locking, "WAIT", 0.1)
    with locking.locked(state):
        assert refused(watch(folder, "good", state, *BY_DAY), "w.json is in use by another process")
        assert not state.exists()
    assert watch(folder, "good", state, *BY_DAY).exit_code == 0


KILLED = """
import sys
from pathlib import Path
from outrule.cli import app
model, folder, state = sys.argv[1:]
for day in range(6):
    table = f"{folder}/{day}.csv"
    words = ["watch", model, table, "--state", state, "--batch-key", str(day)]
    code = app(words, standalone_mode=False)
    assert code in (0, 1, 3), code
    print("counted", flush=True)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_killed_at_any_moment_nothing_is_lost_or_counted_twice(folder, tmp_path):
    # python benchmarks/watch.py --years 0 --rows 0 kills the command itself 50 times.
    table = pl.read_csv(folder / "good.csv").with_columns(day=pl.col("trip") // 400 % 6)
    for day in range(6):
        table.filter(pl.col("day") == day).write_csv(tmp_path / f"{day}.csv")
    whole, killed = tmp_path / "whole.json", tmp_path / "killed.json"
    for day in range(6):
        words = ("watch", folder / "model.json", tmp_path / f"{day}.csv", "--state", whole)
        assert run(*words, "--batch-key", day).exit_code in (0, 3)
    generator, places = np.random.default_rng(0), (folder / "model.json", tmp_path, killed)
    for counted in (1, 3):  # the first of these were counted before, and are only looked at
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, *map(str, places)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        seen = 0
        while seen < counted:
            line = process.stdout.readline()
            assert line
            seen += line == b"counted\n"
        time.sleep(generator.uniform(0, 0.1))
        process.kill()
        process.wait()
        process.stdout.close()
        assert counted <= len(json.loads(killed.read_text())["history"]) < 6
    for day in range(6):
        words = ("watch", folder / "model.json", tmp_path / f"{day}.csv", "--state", killed)
        assert run(*words, "--batch-key", day).exit_code in (0, 3)
    assert killed.read_bytes() == whole.read_bytes()


def test_a_folder_has_the_batches_of_one_table(folder, tmp_path):
    table, model = pl.read_csv(folder / "good.csv"), folder / "model.json"
    table.write_parquet(tmp_path / "whole.parquet")
    for name in ("days", "thirds"):
        (tmp_path / name).mkdir()
    table[:0].write_parquet(tmp_path / "thirds" / "0.parquet")
    parts = table.group_by("day", maintain_order=True)
    for number, (key, part) in enumerate(parts):
        part.write_parquet(tmp_path / "days" / f"{key[0]}.parquet")
        path = tmp_path / "thirds" / f"part-{2 - number % 3}.parquet"  # days in another order
        both = part if not path.exists() else pl.concat([pl.read_parquet(path), part])
        both.write_parquet(path)
    by_day = ("--batch-column", "day")
    states = []
    for name, options in (("whole.parquet", by_day), ("days", ()), ("thirds", by_day)):
        state = tmp_path / f"{name}.json"
        result = run("watch", model, tmp_path / name, "--state", state, *options)
        assert result.exit_code in (0, 3), result.stderr
        states.append(json.loads(state.read_text()))
    assert states[0] == states[1] == states[2]
    assert len(states[0]["history"]) == 15
    again = run("watch", model, tmp_path / "days", "--state", tmp_path / "days.json")
    assert "15 of 15 batches are already counted" in again.stderr
    numbered = run("watch", model, tmp_path / "thirds", "--state", tmp_path / "numbered.json")
    assert numbered.exit_code in (0, 3), numbered.stderr
    history = json.loads((tmp_path / "numbered.json").read_text())["history"]
    assert [row[0] for row in history] == [1, 2, 3]


def test_faults_of_a_folder_name_the_file_and_count_nothing(folder, tmp_path):
    table = pl.read_csv(folder / "good.csv").sort("trip", maintain_order=True)
    given = ("watch", folder / "model.json", tmp_path / "in", "--state", tmp_path / "state")
    (tmp_path / "in").mkdir()
    first, second = (tmp_path / "in" / f"{name}.parquet" for name in "ab")
    table[:500].write_parquet(first)
    table[500:].write_parquet(second)
    assert refused(run(*given, "--batch-key", 3), "--batch-key is for one table")
    assert refused(run(*given, "--batch-column", "week"), "the batch column 'week' is missing")
    assert refused(run(*given, "--batch-column", "day"), f"is in {first} and in {second}: a batch")
    table[500:].with_columns(pl.col("score") * 3).write_parquet(second)
    assert refused(run(*given), f"of {second}, counting from 1")
    for path, part in ((first, table[:500]), (second, table[500:])):
        part.with_columns(chosen=pl.lit("no")).write_parquet(path)
    for more in ((), ("--batch-column", "trip")):
        assert refused(run(*given, *more), f"Error: {first}: column 'chosen' must hold true or")
    second.write_bytes(second.read_bytes()[:-9])
    assert refused(run(*given), f"{second} is not a valid Parquet file")
    assert not (tmp_path / "state").exists()
