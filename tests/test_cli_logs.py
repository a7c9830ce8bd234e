"""Logs of chosen items on the command line: explore, fit, certify; and the new user's path."""

import json
import re

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from outrule.cli import app

RUN = CliRunner()
SPEC = """
epsilon = 0.3
[problem]
kind = "best action"
[data]
instance = "visit"
item = "banner"
prediction = "score"
outcome = "clicked"
{more}
[[rules]]
name = "always a"
always = "a"
"""


def offers(n, seed):
    generator = np.random.default_rng(seed)
    score = generator.random(3 * n)
    return pl.DataFrame(
        {
            "visit": np.repeat([f"v{seed}-{i}" for i in range(n)], 3),
            "banner": np.tile(list("abc"), n),
            "score": score,
            "clicked": (generator.random(3 * n) < score).astype(float),
        }
    )


def run(*arguments):
    return RUN.invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def folder(tmp_path):
    offers(600, 0).write_parquet(tmp_path / "full.parquet")
    offers(2_000, 1).drop("clicked").write_parquet(tmp_path / "today.parquet")
    named = SPEC.format(more="") + '[value]\nname = "clicks"\n'
    (tmp_path / "full.toml").write_text(named)
    (tmp_path / "log.toml").write_text(SPEC.format(more='propensity = "propensity"'))
    spec = ("--spec", tmp_path / "full.toml")
    found = run("fit", tmp_path / "full.parquet", *spec, "-o", tmp_path / "model.json")
    assert found.exit_code == 0, found.stderr
    return tmp_path


def explore(folder, *options):
    output = folder / "decisions.parquet"
    given = ("decide", folder / "model.json", folder / "today.parquet", "-o", output)
    found = run(*given, "--explore", "0.4", "--seed", "7", *options)
    return found, pl.read_parquet(output) if found.exit_code == 0 else None


def logged(decisions):
    clicked = offers(2_000, 1)["clicked"]
    return decisions.with_columns(clicked=pl.when("chosen").then(clicked)).drop("chosen")


@pytest.mark.parametrize("over", ["uniform", "rules"])
def test_explored_decisions_can_be_fitted_and_certified(folder, over):
    found, decisions = explore(folder, "--explore-over", over)
    cost = re.search(r"exploring is expected to cost (\S+) clicks per instance", found.stderr)
    assert over == "rules" or 0.08 < float(cost[1]) < 0.16
    assert decisions["chosen"].sum() == 2_000
    sums = decisions.group_by("visit").agg(pl.col("propensity").sum())["propensity"]
    np.testing.assert_allclose(sums, 1)
    log = logged(decisions)
    first, last = log[:3_000], log[3_000:]
    first.write_parquet(folder / "first.parquet")
    last.write_parquet(folder / "last.parquet")
    model = folder / "logged.json"
    found = run("fit", folder / "first.parquet", "--spec", folder / "log.toml", "-o", model)
    assert found.exit_code == 0, found.stderr
    assert "the calibrated one looks better than it is" in " ".join(found.stdout.split())
    found = run("certify", model, folder / "last.parquet")
    assert found.exit_code == 0, found.stdout + found.stderr
    assert "outcomes of chosen items only" in found.stdout
    assert "oracle that knows the outcomes" in found.stdout
    decided = ("decide", model, folder / "today.parquet", "-o", folder / "again.parquet")
    assert run(*decided).exit_code == 0


def test_a_column_that_is_there_is_not_replaced(folder):
    table = pl.read_parquet(folder / "today.parquet").with_columns(propensity=1.0)
    table.write_parquet(folder / "today.parquet")
    found, _ = explore(folder)
    assert found.exit_code == 2
    assert "already has a column 'propensity'" in found.stderr


def test_the_column_of_decisions_is_not_that_of_the_propensities(folder):
    found, _ = explore(folder, "--column", "propensity")
    assert found.exit_code == 2
    assert "--explore adds a column 'propensity': choose another name" in found.stderr


def test_the_new_users_path_ends_in_an_explanation(folder):
    log = logged(explore(folder)[1])
    log.drop("propensity").write_parquet(folder / "log.parquet")
    fit = ("fit", folder / "log.parquet", "--spec", folder / "full.toml", "-o", folder / "m.json")
    found = run(*fit)
    assert found.exit_code == 2
    assert "Does the log know only the outcome of what was chosen? Then do not drop" in found.stderr
    log.drop_nulls("clicked").write_parquet(folder / "log.parquet")
    assert "no instance offers a choice" in run(*fit).stderr
    found = run("certify", folder / "model.json", folder / "log.parquet")
    assert found.exit_code == 2
    assert "no instance offers a choice" in found.stderr
    state = ("--state", folder / "w.json")
    found = run("watch", folder / "model.json", folder / "log.parquet", *state)
    assert found.exit_code == 2
    assert "no instance offers a choice" in found.stderr
    assert not (folder / "w.json").exists()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("propensity = 1.5", "'propensity' must be a column, or a number above 0 and up to 1."),
        ("propensity = 0", "'propensity' must be a column, or a number above 0 and up to 1."),
        ('observed = "shown"', "'observed' is given without 'propensity'."),
        ("propensity_estimated = true", "'propensity_estimated' is given without 'propensity'."),
        ('propensity = "p"', "[data] propensity: there is no column 'p'."),
        ('propensity = "clicked"', "'propensity' and 'outcome' name the same column."),
    ],
)
def test_a_spec_with_faults_is_refused(folder, more, words):
    (folder / "log.toml").write_text(SPEC.format(more=more))
    spec = ("--spec", folder / "log.toml")
    found = run("fit", folder / "full.parquet", *spec, "-o", folder / "m.json")
    assert found.exit_code == 2
    assert words in found.stderr


def test_explored_decisions_certify_and_watch_a_model_that_was_fitted_on_all_outcomes(folder):
    _, decisions = explore(folder)
    log, model = folder / "log.parquet", folder / "model.json"
    clicked = offers(2_000, 1)["clicked"]
    decisions.with_columns(clicked=pl.when("chosen").then(clicked)).write_parquet(log)
    found = run("certify", model, log, "--json")
    assert json.loads(found.stdout)["feedback"] == "logged", found.stderr
    found = run("watch", model, log, "--state", folder / "watch.json", "-o", folder / "w.html")
    assert found.exit_code in (0, 3), found.stderr
    assert "minus at most 0.3" in found.stdout
    assert "estimated from a log" in found.stdout
    assert "estimated from a log" in (folder / "w.html").read_text()
    found = run("watch", model, log, "--state", folder / "watch.json")
    assert "already counted" in found.stderr


def test_a_model_of_another_log_finds_the_propensities_of_what_was_explored(folder):
    shown = np.random.default_rng(3).integers(3, size=2_000)
    is_shown = pl.Series((shown[:, None] == np.arange(3)).ravel())
    old = offers(2_000, 2).with_columns(clicked=pl.when(is_shown).then("clicked"), shown=1 / 3)
    old.with_columns(seen=is_shown).write_parquet(folder / "old.parquet")
    more = 'propensity = "shown"\nobserved = "seen"'  # columns that decide --explore does not write
    (folder / "old.toml").write_text(SPEC.format(more=more))
    model = folder / "old.json"
    found = run("fit", folder / "old.parquet", "--spec", folder / "old.toml", "-o", model)
    assert found.exit_code == 0, found.stderr
    new = logged(explore(folder)[1])
    new.write_parquet(folder / "new.parquet")
    (folder / "new").mkdir()
    new.write_parquet(folder / "new" / "0.parquet")
    for table in ("new.parquet", "new"):
        found = run("certify", model, folder / table, "--json")
        assert json.loads(found.stdout)["feedback"] == "logged", found.stderr
    found = run("watch", model, folder / "new.parquet", "--state", folder / "watch.json")
    assert "estimated from a log" in found.stdout, found.stderr


@pytest.mark.parametrize("nested", [False, True])
def test_a_log_in_many_files_is_certified_as_one_table(folder, nested):
    """The first file shows all outcomes, so that the nulls are found in the second."""
    log = logged(explore(folder)[1])
    full = offers(200, 3).with_columns(propensity=1.0).select(log.columns)
    if nested:
        log, full = (
            one.group_by("visit", maintain_order=True).agg(pl.all()) for one in (log, full)
        )
    (folder / "log").mkdir()
    cuts = {"0": full, "1": log[: log.height // 2], "2": log[log.height // 2 :]}
    for name, part in cuts.items():
        part.write_parquet(folder / "log" / f"{name}.parquet")
    pl.concat(cuts.values()).write_parquet(folder / "log.parquet")
    one, many = (
        run("certify", folder / "model.json", folder / name, "-o", folder / f"{name}.json")
        for name in ("log.parquet", "log")
    )
    assert many.exit_code == one.exit_code, many.stderr
    text = (folder / "log.json").read_text()
    assert text == (folder / "log.parquet.json").read_text()
    assert json.loads(text)["feedback"] == "logged"


ZEROS = "the outcome is 0 in all 4,000 rows in which '{}' is false"


def filled_with_zeros(folder, name="chosen"):
    """What was decided, with zeros where nothing is known."""
    table = folder / "decisions.parquet"
    found = run("decide", folder / "model.json", folder / "today.parquet", "-o", table)
    assert found.exit_code == 0, found.stderr
    clicked = pl.when("chosen").then(offers(2_000, 1)["clicked"]).otherwise(0.0)
    return pl.read_parquet(table).with_columns(clicked=clicked).rename({"chosen": name})


def in_many_forms(folder, table):
    """As a file, as a folder of files, and with lists of items."""
    table.write_csv(folder / "one.csv")
    (folder / "many").mkdir()
    (folder / "nested").mkdir()
    for day, part in enumerate((table[:3_000], table[3_000:]), start=1):
        part.write_parquet(folder / "many" / f"{day}.parquet")
        lists = part.group_by("visit", maintain_order=True).all()
        lists.write_parquet(folder / "nested" / f"{day}.parquet")
    return [folder / name for name in ("one.csv", "many", "nested")]


def test_zeros_beside_our_own_decisions_are_an_error(folder):
    model, state = folder / "model.json", folder / "w.json"
    table = filled_with_zeros(folder)
    for path in in_many_forms(folder, table):
        found = run("certify", model, path, "-o", folder / "c.json")
        assert (found.exit_code, found.stdout) == (2, "")
        assert ZEROS.format("chosen") in found.stderr
        assert "leave them empty instead of 0, and give the propensity" in found.stderr
        found = run("watch", model, path, "--state", state)
        assert (found.exit_code, found.stdout) == (2, "")
        assert "rows in which 'chosen' is false, but not where it is true" in found.stderr
        assert not state.exists()
        assert not (folder / "c.json").exists()
    known = table.with_columns(clicked=offers(2_000, 1)["clicked"])
    known.write_parquet(folder / "known.parquet")
    found = run("certify", model, folder / "known.parquet")
    assert (found.exit_code, found.stderr) == (0, "")
    chosen = pl.Series([True, False, False] * 10)
    few = table[:30].with_columns(clicked=pl.Series([1.0] + [0.0] * 29), chosen=chosen)
    few.write_parquet(folder / "few.parquet")  # rare outcomes: it can be chance
    found = run("watch", model, folder / "few.parquet", "--state", state)
    assert found.exit_code == 3, found.stderr
    assert "in all 20 rows in which 'chosen' is false. If it is only known" in found.stderr


def test_zeros_beside_another_flag_are_a_warning(folder):
    model = folder / "model.json"
    table = filled_with_zeros(folder, "shown")
    warned = f"Warning: {ZEROS.format('shown')}. If it is only known where that is true"
    for path in in_many_forms(folder, table):
        found = run("certify", model, path)
        assert found.exit_code == 0, found.stderr
        assert found.stderr.count(warned) == 1
        found = run("watch", model, path, "--state", folder / f"{path.stem}.json")
        assert found.exit_code in (0, 1, 3), found.stderr
        assert found.stderr.count(warned) == 1
        spec = ("--spec", folder / "full.toml", "-o", folder / "m.json")
        found = run("fit", path, *spec)
        assert found.exit_code == 0, found.stderr
        assert found.stderr.count(warned) == 1
    numbers = table.with_columns(pl.col("shown").cast(int), other=pl.int_range(table.height))
    numbers.write_parquet(folder / "numbers.parquet")
    assert warned in run("certify", model, folder / "numbers.parquet").stderr
