"""The command line: the newcomer's path, exit codes, pipes, and a sentence for each fault."""

import dataclasses
import json
import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

import outrule
from outrule.cli import app
from outrule.cli.work import files as cli_files
from outrule.data.table_files import read_table, write_table
from outrule.evaluation import cases, panels
from sealing import reseal

GOLDEN = Path(__file__).parent / "golden"

SPEC = """
epsilon = 0.05

[problem]
kind = "best action"

[data]
instance = "trip"
item = "driver"
prediction = "score"
outcome = "completed"

[[rules]]
name = "no long pickups"
weight = "CASE WHEN pickup_km > 3 THEN 0.5 * score ELSE score END"

[[rules]]
name = "the closest driver"
weight = "1 / (1 + pickup_km)"
"""


def trips(seed, n=2000):
    """Five drivers per trip; the score does not know that long pickups are often cancelled."""
    generator = np.random.default_rng(seed)
    km = generator.gamma(2.0, 1.5, 5 * n).round(2)
    quality = generator.random(5 * n)
    chance = quality * np.where(km > 3, 0.3, 0.9)
    score = np.clip(quality + generator.normal(0, 0.05, 5 * n), 0, 1)
    return pl.DataFrame(
        {
            "trip": np.repeat(np.arange(n) + 10_000 * seed, 5),
            "driver": np.tile(["ann", "bob", "cem", "dag", "eve"], n),
            "pickup_km": km,
            "score": score,
            "completed": (generator.random(5 * n) < chance).astype(int),
        }
    )[generator.permutation(5 * n)]


def run(*words, given=None):
    """The command in this process."""
    return CliRunner().invoke(app, [str(word) for word in words], input=given)


def run_outside(*words, given=None):
    """The command in a separate process."""
    command = [sys.executable, "-m", "outrule", *map(str, words)]
    return subprocess.run(command, input=given, capture_output=True)


def refused(result, *words):
    """Exit code 2, and one sentence that says all of these."""
    assert result.exit_code == 2, (result.stdout, result.stderr)
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    for some in words:
        assert str(some) in result.stderr
    return True


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables of the past, of later and of today (without outcomes), a spec and a model."""
    folder = tmp_path_factory.mktemp("trips")
    write_table(trips(1), folder / "past.csv")
    write_table(trips(2), folder / "later.csv")
    write_table(trips(3, 50).drop("completed"), folder / "today.csv")
    (folder / "spec.toml").write_text(SPEC)
    fitted = run(
        "fit", folder / "past.csv", "--spec", folder / "spec.toml", "-o", folder / "model.json"
    )
    assert fitted.exit_code == 0, fitted.stderr
    return folder


def test_the_path_of_a_newcomer(folder, tmp_path):
    spec, model, page = folder / "spec.toml", tmp_path / "model.json", tmp_path / "report.html"
    commands = [
        ("fit", folder / "past.csv", "--spec", spec, "-o", model),
        ("certify", model, folder / "later.csv", "-o", tmp_path / "certificate.json"),
        ("predict", model, folder / "today.csv", "-o", tmp_path / "today.parquet"),
        ("decide", model, folder / "today.csv", "-o", tmp_path / "decisions.csv"),
        ("report", model, folder / "later.csv", "-o", page),
    ]
    for command in commands:
        result = run(*command)
        assert result.exit_code == 0, result.stderr
        assert result.stderr == ""
        assert result.stdout
    certificate = outrule.Certificate.from_json((tmp_path / "certificate.json").read_text())
    assert certificate.verdict == "pass"
    assert certificate.improvement.lower > 0.05
    decisions = read_table(tmp_path / "decisions.csv")
    assert (decisions.group_by("trip").agg(pl.col("chosen").sum())["chosen"] == 1).all()
    assert "no long pickups" in page.read_text()


def test_fit_prints_what_was_gained_in_training(folder, tmp_path):
    model = tmp_path / "model.json"
    command = ("fit", folder / "past.csv", "--spec", folder / "spec.toml", "-o", model)
    people = run(*command)
    assert "2 rules, 2,000 instances, 10,000 rows" in people.stdout
    assert "no long pickups" in people.stdout
    assert f"outrule certify {model}" in people.stdout.replace("\n", "")
    machine = json.loads(run(*command, "--json").stdout)
    calibrator = outrule.load(model)
    assert list(machine) == [
        "model",
        "instances",
        "rows",
        "rules",
        "rounds",
        "patches",
        "status",
        "epsilon",
        "tolerance",
        "reached",
        "best_rule",
        "values",
        "warnings",
    ]
    assert (machine["instances"], machine["rows"], machine["rules"]) == (2000, 10_000, 2)
    assert machine["rounds"] == len(calibrator.history_)
    assert machine["patches"] == len(calibrator.patches_)
    assert (machine["status"], machine["warnings"]) == ("converged", [])
    assert machine["reached"] == calibrator.model_.reached
    assert machine["reached"] in people.stdout
    assert machine["best_rule"] == "no long pickups"
    values = machine["values"]
    assert values["plain"] + 0.05 < values["best_rule"] <= values["calibrated"] + 0.05
    assert values["best_rule"] == pytest.approx(calibrator.rule_values_.max())
    for value in values.values():
        assert f"{value:.4f}" in people.stdout


def test_epsilon_of_the_command_goes_before_that_of_the_spec(folder, tmp_path):
    command = ("fit", folder / "past.csv", "--spec", folder / "spec.toml", "--json")
    result = run(*command, "-o", tmp_path / "m.json", "--epsilon", 0.5)
    assert json.loads(result.stdout)["epsilon"] == 0.5
    assert outrule.load(tmp_path / "m.json").epsilon == 0.5
    result = run(*command, "-o", tmp_path / "n.json", "--epsilon", -1)
    assert refused(result, "Error: --epsilon must be a number greater than 0. Got -1.0 instead.")
    result = run(*command, "-o", tmp_path / "n.json", "--epsilon", 1.5)
    assert refused(result, "Error: --epsilon must be a number in [1e-09, 1], in the units of the")
    assert not (tmp_path / "n.json").exists()


def test_an_epsilon_of_the_spec_that_is_too_large_is_one_of_the_file(folder, tmp_path):
    (tmp_path / "spec.toml").write_text(SPEC.replace("epsilon = 0.05", "epsilon = 5"))
    command = ("fit", folder / "past.csv", "--spec", tmp_path / "spec.toml", "-o")
    result = run(*command, tmp_path / "m.json")
    assert refused(result, "spec.toml: 'epsilon' must be a number in [1e-09, 1], in the units of")
    assert run(*command, tmp_path / "m.json", "--epsilon", 0.5).exit_code == 0


def test_refits_say_how_stable_the_decisions_are(folder, tmp_path):
    (tmp_path / "spec.toml").write_text(SPEC.replace("epsilon = 0.05", ""))
    command = ("fit", folder / "past.csv", "--spec", tmp_path / "spec.toml", "--refits", 2, "-o")
    machine = json.loads(run(*command, tmp_path / "m.json", "--json").stdout)
    assert "at least 1 standard error of the noisiest test" in machine["reached"]
    calibrator, data = (
        outrule.load(tmp_path / "m.json"),
        outrule.read_spec(tmp_path / "spec.toml").instances(pl.read_csv(folder / "past.csv")),
    )
    expected = outrule.stability(calibrator, data, n_refits=2)
    assert machine["stability"] == dataclasses.asdict(expected)
    assert str(expected) in run(*command, tmp_path / "m.json").stdout


NO_START = '[fit]\nstart = "none"\nrivals = []\n'


def test_rounds_that_run_out_are_a_sentence_and_not_a_refusal(folder, tmp_path):
    (tmp_path / "spec.toml").write_text(SPEC + NO_START + "max_rounds = 1\n")
    command = ("fit", folder / "past.csv", "--spec", tmp_path / "spec.toml", "-o")
    result = run(*command, tmp_path / "m.json", "--epsilon", 0.001, "--json")
    assert result.exit_code == 0
    machine = json.loads(result.stdout)
    assert machine["status"] == "max_rounds"
    rounds, loss = machine["warnings"]
    assert result.stderr == f"Warning: {rounds}\nWarning: {loss}\n"
    assert rounds.startswith("the loop stopped with status 'max_rounds' after 1 round")


def test_a_model_that_loses_to_the_plain_predictions_warns(folder, tmp_path):
    """Without rivals, a spec of poor rules lets the model fall below them."""
    poor = SPEC[: SPEC.index("[[rules]]")] + '[[rules]]\nname = "ann"\nalways = "ann"\n'
    rule = '[[rules]]\nname = "plain"\nweight = "score"\n'
    for spec, warns in ((poor, True), (poor + rule, False)):
        (tmp_path / "spec.toml").write_text(spec + NO_START)
        result = run(
            "fit", folder / "past.csv", "--spec", tmp_path / "spec.toml", "-o", tmp_path / "m.json"
        )
        assert result.exit_code == 0, result.stderr
        assert ("before it is certified" in result.stderr) is warns


def test_a_model_on_standard_output_keeps_words_away_from_it(folder):
    command = ("fit", folder / "past.csv", "--spec", folder / "spec.toml", "-o", "-")
    result = run(*command)
    assert result.stdout == (folder / "model.json").read_text()
    assert "2,000 instances" in result.stderr
    assert refused(run(*command, "--json"), "--json and '-o -'")


def test_predict_adds_one_column_and_changes_nothing_else(folder, tmp_path):
    today = read_table(folder / "today.csv")
    result = run("predict", folder / "model.json", folder / "today.csv", "-o", tmp_path / "t.arrow")
    assert result.stdout == f"wrote {tmp_path / 't.arrow'}: 250 rows, column 'calibrated' added\n"
    written = read_table(tmp_path / "t.arrow")
    assert_frame_equal(written.drop("calibrated"), today)
    calibrator = outrule.load(folder / "model.json")
    names = {"instance": "trip", "prediction": "score", "item": "driver"}
    instances = outrule.Instances.from_table(today, **names)
    assert written["calibrated"].to_list() == calibrator.predict(instances).to_list()


def test_decide_marks_what_the_optimiser_chooses(folder, tmp_path):
    command = ("decide", folder / "model.json", folder / "today.csv", "-o")
    result = run(*command, tmp_path / "all.parquet")
    assert result.stdout.endswith("all.parquet: 50 instances, 50 of 250 items chosen\n")
    written = read_table(tmp_path / "all.parquet")
    assert written["chosen"].dtype == pl.Boolean
    assert_frame_equal(written.drop("chosen"), read_table(folder / "today.csv"))
    run(*command, tmp_path / "only.parquet", "--only", "--column", "go")
    only = read_table(tmp_path / "only.parquet")
    assert_frame_equal(only, written.filter(pl.col("chosen")).rename({"chosen": "go"}))


def test_outcomes_are_not_needed_and_not_looked_at(folder, tmp_path):
    later = read_table(folder / "later.csv")
    for name, frame in (
        ("without", later.drop("completed")),
        ("nonsense", later.with_columns(completed=pl.lit("unknown"))),
    ):
        write_table(frame, tmp_path / f"{name}.csv")
        result = run(
            "predict", folder / "model.json", tmp_path / f"{name}.csv", "-o", tmp_path / "out.csv"
        )
        assert result.exit_code == 0, result.stderr
        assert_frame_equal(read_table(tmp_path / "out.csv").drop("calibrated"), frame)


def test_a_column_is_only_replaced_when_asked(folder, tmp_path):
    write_table(trips(3, 50).with_columns(calibrated=0.0), tmp_path / "t.csv")
    command = ("predict", folder / "model.json", tmp_path / "t.csv", "-o", tmp_path / "out.csv")
    words = f"{tmp_path / 't.csv'}: the table already has a column 'calibrated'"
    assert refused(run(*command), words, "--column", "--overwrite")
    assert refused(run(*command, "--column", ""), "--column is empty")
    assert not (tmp_path / "out.csv").exists()
    assert run(*command, "--overwrite").exit_code == 0
    written = read_table(tmp_path / "out.csv")
    assert written.columns == read_table(tmp_path / "t.csv").columns
    assert written["calibrated"].max() > 0


def test_items_that_look_like_numbers_are_the_items_of_training(tmp_path):
    codes = {"ann": "1", "bob": "2", "cem": "3", "dag": "4", "eve": "5"}
    past = trips(1).with_columns(pl.col("driver").replace_strict(codes))
    today = trips(3, 50).with_columns(pl.col("driver").replace_strict(codes))
    write_table(past, tmp_path / "past.parquet")  # text here
    write_table(today, tmp_path / "today.csv")  # numbers there
    model = tmp_path / "model.json"
    spec = tmp_path / "spec.toml"
    spec.write_text(SPEC + "[multipliers]\nlimit = 5\n")
    assert run("fit", tmp_path / "past.parquet", "--spec", spec, "-o", model).exit_code == 0
    result = run("predict", model, tmp_path / "today.csv", "-o", tmp_path / "out.csv")
    assert result.exit_code == 0, result.stderr
    run("predict", model, tmp_path / "today.csv", "-o", tmp_path / "out.parquet")
    assert_frame_equal(read_table(tmp_path / "out.csv"), read_table(tmp_path / "out.parquet"))
    write_table(past.with_columns(pl.col("driver").cast(pl.Int64)), tmp_path / "past.parquet")
    assert run("fit", tmp_path / "past.parquet", "--spec", spec, "-o", model).exit_code == 0
    write_table(today.with_columns(driver="d" + pl.col("driver")), tmp_path / "today.csv")
    result = run("predict", model, tmp_path / "today.csv", "-o", tmp_path / "no.csv")
    assert refused(result, "item column 'driver' holds String, but held numbers")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda frame: frame.drop("score"), "the prediction column 'score' is missing"),
        (lambda frame: frame.drop("pickup_km"), "pickup_km"),
        (
            lambda frame: frame.with_columns(score=pl.lit("high")),
            "'score' holds text, 'high'. It must hold numbers, such as 0.7",
        ),
        (lambda frame: frame.with_columns(pickup_km=pl.lit("far")), "no long pickups"),
        (
            lambda frame: frame.with_columns(score=2 * pl.col("score")),
            "outside [0, 1]. The model was fitted for this range: correct the value, or set",
        ),
        (lambda frame: frame.head(0), "no rows"),
        (lambda frame: frame.with_columns(driver=pl.lit("ann")), "offered twice"),
        (lambda frame: frame.with_columns(driver=pl.lit(1.5)), "'driver' holds Float64, but held"),
    ],
)
def test_a_table_that_does_not_fit_the_model_is_refused(folder, tmp_path, change, words):
    write_table(change(trips(3, 50)), tmp_path / "t.parquet")
    for command in ("predict", "decide", "certify"):
        output = tmp_path / "out.csv"
        result = run(command, folder / "model.json", tmp_path / "t.parquet", "-o", output)
        assert refused(result, words, tmp_path / "t.parquet")
        assert not output.exists()


@pytest.mark.parametrize("command", ["fit", "check"])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda frame: frame.head(0), "the table has no rows"),
        (lambda frame: frame.drop("score"), "[data] prediction: there is no column 'score'"),
        (lambda frame: frame.with_columns(score=pl.lit("high")), "'score' holds text, 'high'"),
        (lambda frame: frame.with_columns(score=pl.lit(2)), "Set value_range = [low, high] in"),
        (lambda frame: frame.with_columns(driver=pl.lit("ann")), "offered twice"),
    ],
)
def test_a_table_that_does_not_fit_the_spec_is_refused(folder, tmp_path, command, change, words):
    spec, table = folder / "spec.toml", tmp_path / "t.parquet"
    write_table(change(trips(3, 50)), table)
    given = (table, "--spec", spec, "-o", tmp_path / "m") if command == "fit" else (spec, table)
    assert refused(run(command, *given), words, table)


def test_certify_ends_with_a_code_for_each_verdict(folder, tmp_path):
    certificate = tmp_path / "c.json"
    command = ("certify", folder / "model.json", folder / "later.csv", "-o", certificate)
    result = run(*command)
    assert result.exit_code == 0
    assert result.stdout.startswith("Deploy? Yes\npass: with 95 % confidence, the plain optimiser")
    assert re.search(r"gap \S0\.0", result.stdout)
    for words in ("isotonic regression", "oracle", "95 % interval", "best rule in training"):
        assert words in result.stdout
    machine = run(*command, "--json", "--confidence", 0.9)
    assert outrule.Certificate.from_json(machine.stdout).confidence == 0.9
    assert machine.stdout.strip() == certificate.read_text().strip()
    write_table(trips(4, 30), tmp_path / "few.csv")
    few = run("certify", folder / "model.json", tmp_path / "few.csv", "-o", certificate)
    assert few.exit_code == 3
    assert few.stdout.startswith("Deploy? Not yet\ninconclusive: there is too little data")
    assert "more instances would decide it" in few.stdout
    assert outrule.Certificate.from_json(certificate.read_text()).verdict == "inconclusive"
    turned = trips(5).with_columns(
        completed=(pl.col("pickup_km") == pl.col("pickup_km").min().over("trip")).cast(pl.Int64)
    )
    write_table(turned, tmp_path / "turned.csv")
    result = run("certify", folder / "model.json", tmp_path / "turned.csv", "-o", certificate)
    assert result.exit_code == 1
    assert result.stdout.startswith("Deploy? No\nfail: with 95 % confidence, the rule 'the closest")
    assert outrule.Certificate.from_json(certificate.read_text()).verdict == "fail"


def test_a_certificate_is_continued_with_another_table(folder, tmp_path):
    model, tables, looks = folder / "model.json", [], []
    for number, n in enumerate((40, 50, 900)):
        tables.append(tmp_path / f"{number}.csv")
        write_table(trips(6 + number, n), tables[-1])
        looks.append(tmp_path / f"{number}.json")
        more = ("--continue", looks[-2]) if number else ()
        result = run("certify", model, *tables, *more, "-o", looks[-1])
        assert result.exit_code == (0 if n == 900 else 3), result.stderr
    assert "on 990 instances, 900 of them new since the last look" in result.stdout
    found = outrule.Certificate.from_json(looks[-1].read_text())
    assert [look.n_instances for look in found.earlier] == [40, 90]
    outrule.verify(found, outrule.load(model), open_files(str(model), *map(str, tables)))
    assert refused(run("certify", model, *tables), "several tables need --continue")
    for words, given in (
        (f"Error: the first 90 instances are not those of {looks[1]} (or", tables[:2]),
        (f"are not those of {looks[1]} (or", [tables[1], tables[0], tables[2]]),
        ("is in", [tables[0], tables[1], tables[1]]),
    ):
        assert refused(run("certify", model, *given, "--continue", looks[1]), words)
    assert refused(run("certify", model, *tables, "--continue", model), "model.json: this is not")
    assert refused(run("certify", model, *tables, "--continue", tmp_path / "no"), "No such file")
    result = run("certify", model, *tables, "--continue", looks[1], "-o", looks[1])
    assert refused(result, "is an input of this command")
    write_table(trips(9, 5).drop("pickup_km"), tmp_path / "other.csv")
    result = run("certify", model, *tables[:2], tmp_path / "other.csv", "--continue", looks[1])
    assert refused(result, "other.csv must have the columns of", "1.csv, with the same types")


def open_files(model, *tables):
    return cli_files.open_files(model, *tables, outcome=True).instances()


def test_certify_and_report_judge_inside_segments(folder, tmp_path):
    model, table = folder / "model.json", read_table(str(folder / "later.csv"))
    towns = np.where(table["trip"].to_numpy() % 3 == 0, "Rome", "Oslo")
    later = tmp_path / "later.csv"
    write_table(table.with_columns(town=towns, day=pl.lit(1)), str(later))
    result = run("certify", model, later, "--segments", "town", "--segments", "day+town", "--json")
    found = json.loads(result.stdout)
    assert found["segmented"]["by"] == [["town"], ["day", "town"]]
    assert [segment["value"] for segment in found["segments"]] == [
        ["Oslo"],
        ["Rome"],
        ["1", "Oslo"],
        ["1", "Rome"],
    ]
    text = run("certify", model, later, "--segments", "town", "--min-share", "0.4").stdout
    assert " in town = Oslo: " in text
    assert "1 value of town (33 % of the weight) is too few to be judged" in text
    page = run("report", model, later, "--segments", "town", "-o", tmp_path / "report.html")
    assert page.exit_code == 0
    refused(run("certify", model, later, "--segments", "pickup_km"), "'pickup_km' changes within")
    refused(run("certify", model, later, "--segments", "city"), f"{later}: column 'city' is missin")
    refused(run("certify", model, later, "--min-share", "0.1"), "Error: --min-share needs --segme")
    bad = ("certify", model, later, "--segments", "town")
    refused(run(*bad, "--segments", "town"), "--segments names a column twice")
    refused(run(*bad, "--min-share", "2"), "--min-share must be a number in (0, 1]")


def test_certify_can_speak_without_writing(folder):
    result = run("certify", folder / "model.json", folder / "later.csv")
    assert (result.exit_code, result.stderr) == (0, "")
    piped = run("certify", folder / "model.json", folder / "later.csv", "-o", "-")
    assert outrule.Certificate.from_json(piped.stdout).verdict == "pass"
    assert piped.stderr == result.stdout


def test_certify_refuses_what_fit_has_seen_and_what_has_no_outcome(folder):
    model = folder / "model.json"
    assert refused(run("certify", model, folder / "past.csv"), "fit has seen")
    assert refused(run("certify", model, folder / "today.csv"), "outcome column 'completed'")
    result = run("certify", model, folder / "later.csv", "--confidence", 1.5)
    assert refused(result, "Error: --confidence must be a number in [1e-09, 1). Got 1.5 instead.")


def test_report_writes_a_page_or_prints_its_content(folder, tmp_path):
    model, later, page = folder / "model.json", folder / "later.csv", tmp_path / "report.html"
    result = run("report", model, later, "-o", page)
    assert result.exit_code == 0, result.stderr
    certified = run("certify", model, later).stdout
    assert result.stdout == f"{certified}wrote {page}\n"
    assert page.read_text().lstrip().lower().startswith("<!doctype html")
    summary = json.loads(run("report", model, later, "--json").stdout)
    assert isinstance(summary, dict)
    assert run("report", model, later, "-o", "-").stdout.strip() == page.read_text().strip()
    assert refused(run("report", model, later), "use -o REPORT.html or --json")
    surer = json.loads(run("report", model, later, "--confidence", 0.99, "--json").stdout)
    assert surer["verdict"]["confidence"] == 0.99
    assert surer["verdict"]["gap_lower"] < summary["verdict"]["gap_lower"]


def test_the_report_says_what_the_terminal_says(folder, tmp_path):
    spec, model, page = tmp_path / "s.toml", tmp_path / "m.json", tmp_path / "page.html"
    named = '[value]\nname = "sales"\nunit = "euro"\nobservation = "trip"\n'
    spec.write_text(SPEC.replace("[[rules]]", f"{named}\n[[rules]]", 1))
    fitted = run("fit", folder / "past.csv", "--spec", spec, "-o", model)
    assert "sales, euro in training" in fitted.stdout
    said = run("report", model, folder / "later.csv", "-o", page).stdout
    lines = said.partition("┏")[0].splitlines()
    html = unescape(page.read_text()).replace("\N{MINUS SIGN}", "-")
    shown = re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", html.split("<main>")[1]))
    question, sentence, *others = lines
    against = [line.strip().removeprefix("pass against ") for line in others[:3]]
    for words in (question, *against[0].split(": "), *against[1].split(": "), others[-1]):
        assert words in shown
    assert sentence.removeprefix("pass: w") in shown
    assert "euro per trip (95 % interval" in others[3]
    for part in others[3].partition(": ")[2].split(", +"):
        for words in part.removesuffix(")").split(" ("):
            figure, per = re.fullmatch(r"\+?([\d.,]+(?: %)?) (.*)", words).groups()
            assert figure in shown
            assert per in shown
    assert "m.json on later.csv" in shown
    assert str(tmp_path) not in html


def test_an_output_is_never_one_of_the_inputs(folder, tmp_path):
    (tmp_path / "link.csv").symlink_to(folder / "later.csv")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    model, later, spec = folder / "model.json", folder / "later.csv", folder / "spec.toml"
    for command in (
        ("predict", model, later, "-o", later),
        ("decide", model, later, "-o", tmp_path / "link.csv"),
        ("fit", folder / "past.csv", "--spec", spec, "-o", spec),
        ("fit", folder / "past.csv", "--spec", spec, "-o", folder / "past.csv"),
        ("certify", model, later, "-o", model),
        ("report", model, later, "-o", later),
    ):
        assert refused(run(*command), "is an input of this command")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_places_that_cannot_be_written_are_refused_before_the_work(folder, tmp_path):
    model, today = folder / "model.json", folder / "today.csv"
    (tmp_path / "link.csv").symlink_to(tmp_path / "nowhere" / "t.csv")
    for output, words in (
        (tmp_path, "is a folder"),
        (tmp_path / "nowhere" / "t.csv", "does not exist: create it first"),
        (tmp_path / "link.csv", f"the folder {tmp_path / 'nowhere'} does not exist"),
        (tmp_path / "t.xlsx", "unsupported file extension '.xlsx'; use .parquet, .csv, .tsv"),
        ("", "a file name is empty"),
    ):
        assert refused(run("predict", model, today, "-o", output), words)


def test_an_empty_name_is_not_the_current_folder(folder, tmp_path):
    model, spec, out = folder / "model.json", folder / "spec.toml", tmp_path / "out"
    words = "a file name is empty"
    assert refused(run("decide", model, "", "-o", out), words)
    assert refused(run("fit", "", "--spec", spec, "-o", out), words)
    assert refused(run("certify", model, "", "-o", out), words)
    assert refused(run("report", model, "", "-o", out), words)


def test_errors_name_the_options_of_the_command(folder, tmp_path):
    model, today, output = folder / "model.json", folder / "today.csv", tmp_path / "out.csv"
    decide = ("decide", model, today, "-o", output, "--explore")
    assert refused(run(*decide, "2"), "--explore must be a number in (0, 1]. Got 2.0")
    for command in (decide, ("certify", model, today, "--confidence")):
        result = run(*command, "0,9")
        assert result.exit_code == 2
        assert f"Invalid value for '{command[-1]}': '0,9' is not a number" in result.stderr
    assert refused(run(*decide, "0.1", "--seed", "-1"), "--seed must be a whole number of at least")
    for option in (("--seed", "7"), ("--explore-over", "rules")):
        assert refused(run(*decide[:-1], *option), "are for --explore SHARE: add it.")
    watch = ("watch", model, "--state", tmp_path / "watch.json", "--batch-key", "monday")
    assert refused(run(*watch), "are for a table of new outcomes: add it.")


def test_what_cannot_be_read_is_refused(folder, tmp_path):
    model, today, output = folder / "model.json", folder / "today.csv", tmp_path / "out.csv"
    cut = tmp_path / "cut.json"
    cut.write_bytes(model.read_bytes()[:-100])
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 and no more")
    for command, words in (
        (("predict", tmp_path / "no.json", today), "no.json: No such file or directory"),
        (("predict", tmp_path, today), "Is a directory"),
        (("predict", cut, today), "is not a model file of outrule, or it is damaged"),
        (("predict", today, today), "is not a model file of outrule"),
        (("predict", model, tmp_path / "no.csv"), "no.csv cannot be read: No such file"),
        (("predict", model, tmp_path / "cut.parquet"), "damaged or cut short"),
        (("fit", folder / "past.csv", "--spec", tmp_path / "no.toml"), "no.toml"),
        (("fit", tmp_path / "no.csv", "--spec", folder / "spec.toml"), "no.csv cannot be read"),
    ):
        assert refused(run(*command, "-o", output), words)
    assert not output.exists()


def test_a_rule_that_cannot_be_decided_is_refused_and_nothing_is_written(folder, tmp_path):
    for rule, words in (
        ('choose = "pickup_km > 1"', "'bad' chose"),
        ('weight = "no_such_column + 1"', "no_such_column"),
    ):
        (tmp_path / "spec.toml").write_text(SPEC + f'[[rules]]\nname = "bad"\n{rule}\n')
        command = ("fit", folder / "past.csv", "--spec", tmp_path / "spec.toml", "-o")
        assert refused(run(*command, tmp_path / "m.json"), words)
    assert [path.name for path in tmp_path.iterdir()] == ["spec.toml"]


def test_items_that_a_model_file_cannot_hold_are_refused_before_the_work(tmp_path):
    frame = trips(1, 100).with_columns(badge=pl.col("driver").cast(pl.Binary))
    write_table(frame, tmp_path / "t.parquet")
    (tmp_path / "spec.toml").write_text(SPEC.replace('"driver"', '"badge"'))
    result = run(
        "fit", tmp_path / "t.parquet", "--spec", tmp_path / "spec.toml", "-o", tmp_path / "m.json"
    )
    assert refused(result, "cannot be written to a model file")


def test_models_with_functions_or_without_columns_are_for_python(folder, tmp_path):
    frame = trips(1, 100)
    names = {"instance": "trip", "prediction": "score", "outcome": "completed"}
    instances = outrule.Instances.from_table(frame, **names)
    rule = outrule.Reweight("by hand", lambda view: view["score"])
    model = tmp_path / "model.json"
    outrule.DecisionCalibrator(outrule.BestAction(), [rule], 0.5).fit(instances).save(model)
    command = ("predict", model, folder / "today.csv", "-o", tmp_path / "out.csv")
    assert refused(run(*command), "needs the Python function of 'by hand'", "as an expression")
    command = ("predict", GOLDEN / "model.json", *command[2:])
    assert refused(run(*command), "was fitted on arrays, which have no column names")


def test_errors_of_a_spec_name_its_keys_and_no_python_arguments(folder, tmp_path):
    (tmp_path / "spec.toml").write_text(SPEC.replace('"best action"', '"top k"\nk = 0'))
    command = ("fit", folder / "past.csv", "--spec", tmp_path / "spec.toml", "-o", "-")
    assert refused(
        run(*command), "spec.toml, [problem]: 'k' must be ", "at least 1. Got 0 instead."
    )


@pytest.mark.parametrize("command", ["fit", "predict", "certify", "report"])
def test_a_disk_that_fills_up_leaves_no_file(folder, tmp_path, monkeypatch, command):
    def fail(*_):
        raise OSError(28, "No space left on device")

    words = {
        "fit": ("fit", folder / "past.csv", "--spec", folder / "spec.toml"),
        "predict": ("predict", folder / "model.json", folder / "today.csv"),
        "certify": ("certify", folder / "model.json", folder / "later.csv"),
        "report": ("report", folder / "model.json", folder / "later.csv"),
    }[command]
    monkeypatch.setattr(os, "fsync", fail)
    output = tmp_path / "out.csv"
    assert refused(run(*words, "-o", output), f"{output} cannot be written: No space left")
    assert list(tmp_path.iterdir()) == []


def test_a_fault_of_our_own_is_no_verdict(folder, monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError("our fault")

    monkeypatch.setattr(outrule.proof.certificate, "certify", fail)
    result = run("certify", folder / "model.json", folder / "later.csv")
    assert result.exit_code == 70
    assert "ZeroDivisionError: our fault" in result.stderr
    for error, code, words in (
        (MemoryError(), 2, "Error: there is not enough memory for this.\n"),
        (KeyboardInterrupt(), 130, ""),
        (BrokenPipeError(32, "Broken pipe"), 141, ""),
    ):
        monkeypatch.setattr(
            outrule.proof.certificate, "certify", lambda *_, e=error, **__: throw(e)
        )
        result = run("certify", folder / "model.json", folder / "later.csv")
        assert (result.exit_code, result.stderr) == (code, words)


def throw(error):
    raise error


def test_names_from_a_file_cannot_steer_the_terminal(folder, tmp_path):
    content = (folder / "model.json").read_text().replace("no long pickups", "\\u001b[2Jno [b]pick")
    (tmp_path / "m.json").write_text(reseal(content))
    result = run("certify", tmp_path / "m.json", folder / "later.csv")
    assert result.exit_code == 0, result.stderr
    assert "\x1b" not in result.stdout
    assert "\\x1b[2Jno [b]pick" in result.stdout


def test_files_are_signed_and_checked_with_a_key(folder, tmp_path):
    model, key, other = tmp_path / "model.json", tmp_path / "key", tmp_path / "other"
    for path, secret in ((key, b"k" * 32), (other, b"o" * 32)):
        path.write_bytes(secret)
        path.chmod(0o600)
    fit = ("fit", folder / "past.csv", "--spec", folder / "spec.toml", "-o", model)
    assert run(*fit, "--key", key).exit_code == 0
    outrule.load(model, key=b"k" * 32)
    later, today = folder / "later.csv", folder / "today.csv"
    certificate = tmp_path / "certificate.json"
    commands = [
        ("certify", model, later, "-o", certificate),
        ("predict", model, today, "-o", tmp_path / "out.csv"),
        ("decide", model, today, "-o", tmp_path / "out.csv"),
        ("report", model, later, "-o", tmp_path / "report.html"),
    ]
    for command in commands:
        result = run(*command, "--key", other)
        assert result.exit_code == 2
        assert result.stderr.startswith(f"Error: {model} was not signed with this key")
        unsigned = run(command[0], folder / "model.json", *command[2:], "--key", key)
        assert unsigned.exit_code == 2
        assert "model.json is not signed: make it again with the key" in unsigned.stderr
        assert not Path(command[-1]).exists()
        for options in (("--key", key), ()):
            assert run(*command, *options).exit_code == 0
            Path(command[-1]).unlink()
    assert run(*commands[0], "--key", key).exit_code == 0
    outrule.Certificate.from_json(certificate.read_text(), b"k" * 32)
    key.chmod(0o644)
    result = run(*commands[0], "--key", key)
    assert (result.exit_code, result.stderr) == (
        2,
        f"Error: {key} can be read by every user, so it is no secret: chmod 600 it.\n",
    )
    assert "is an input of this command" in run(*fit[:-1], key, "--key", key).stderr
    assert run(*fit, "--key", tmp_path / "none").exit_code == 2


def test_links_in_a_circle_are_said(folder, tmp_path):
    (tmp_path / "one.csv").symlink_to(tmp_path / "other.csv")
    (tmp_path / "other.csv").symlink_to(tmp_path / "one.csv")
    for output in ("one.csv", "other.csv"):
        path = tmp_path / output
        result = run("predict", folder / "model.json", folder / "today.csv", "-o", path)
        words = f"Error: {path}: Too many levels of symbolic links.\n"
        assert (result.exit_code, result.stderr) == (2, words)


# In separate processes.


def test_tables_flow_through_pipes(folder):
    today = (folder / "today.csv").read_bytes()
    calibrated = run("predict", folder / "model.json", "-", "-o", "-", given=today)
    assert calibrated.exit_code == 0, calibrated.stderr
    assert calibrated.stdout.startswith("trip,driver,pickup_km,score,calibrated\n")
    assert calibrated.stderr == "250 rows, column 'calibrated' added\n"
    given = calibrated.stdout_bytes
    decided = run_outside("decide", folder / "model.json", "-", "-o", "-", given=given)
    assert decided.returncode == 0, decided.stderr
    assert decided.stdout.count(b"true\n") == 50


def test_exit_codes_reach_the_shell(folder, tmp_path):
    write_table(trips(4, 30), tmp_path / "few.csv")
    result = run_outside("certify", folder / "model.json", tmp_path / "few.csv")
    assert (result.returncode, result.stderr) == (3, b"")
    assert run_outside("certify").returncode == 2
    assert run("nonsense").exit_code == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_standard_output_is_said_once(folder):
    commands = (
        ("certify", folder / "model.json", folder / "later.csv"),
        ("predict", folder / "model.json", folder / "today.csv", "-o", "-"),
    )
    with Path("/dev/full").open("wb") as full:
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", "outrule", *map(str, command)],
                stdout=full,
                stderr=subprocess.PIPE,
            )
            for command in commands
        ]
        for process in processes:
            _, words = process.communicate()
            assert process.returncode == 2
            assert words.startswith(b"Error: ")
            assert b"No space left on device" in words
            assert words.count(b"\n") == 1
    for output in ("/dev/full", "/dev/null"):
        result = run("predict", folder / "model.json", folder / "today.csv", "-o", output)
        assert result.exit_code == (2 if output == "/dev/full" else 0)
        assert Path(output).is_char_device()


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
def test_a_pipe_that_closes_early_is_no_traceback(folder):
    command = [sys.executable, "-m", "outrule", "predict", str(folder / "model.json")]
    command += [str(folder / "later.csv"), "-o", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.read(10)
        process.stdout.close()
        words = process.stderr.read()
    assert words == b""
    assert process.returncode == 141


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["demo", "chess"]])
def test_help_version_and_a_wrong_demo_need_nothing_heavy(words):
    heavy = "'numpy', 'polars', 'scipy', 'sklearn', 'numba', 'matplotlib'"
    code = f"""
import sys, typer, outrule.cli
try:
    outrule.cli.app({words})
except (SystemExit, typer.Exit):
    sys.exit(not {{{heavy}}}.isdisjoint(sys.modules))
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_version_is_printed():
    assert run("--version").stdout == f"outrule {outrule.__version__}\n"
    assert run_outside("--version").stdout.decode() == f"outrule {outrule.__version__}\n"


@pytest.mark.parametrize(
    "command",
    ["fit", "predict", "decide", "certify", "report", "watch", "example", "demo", "reproduce"],
)
def test_the_help_of_every_command_has_an_example(command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert run(command, "-h").stdout == result.stdout
    assert f"\n  outrule {command} " in result.stdout
    assert command in run("--help").stdout


def test_the_spec_in_the_help_of_fit_can_be_read(tmp_path):
    lines = run("fit", "--help").stdout.split("spec.toml (")[1].splitlines()[1:7]
    (tmp_path / "spec.toml").write_text("\n".join(line.strip() for line in lines))
    assert outrule.read_spec(tmp_path / "spec.toml").columns.instance == "batch_id"


def test_the_example_is_one_that_the_other_commands_can_use(tmp_path):
    result = run("example", tmp_path / "trips")
    assert result.exit_code == 0, result.stderr
    past, later, spec = (Path(line.removeprefix("wrote ")) for line in result.stdout.splitlines())
    model = tmp_path / "my model.json"
    fitted = run("fit", past, "--spec", spec, "-o", model)
    assert f". Next: outrule certify '{model}' LATER_TABLE" in fitted.stdout
    assert run("certify", model, later).exit_code == 0
    (tmp_path / "file").touch()
    assert refused(run("example", tmp_path / "file"), "file: File exists")


@pytest.mark.parametrize("command", [["example"], ["demo", "-o"], ["reproduce", "-o"]])
def test_no_command_makes_more_than_one_folder(command, tmp_path):
    words = f"the folder {tmp_path / 'a'} does not exist: create it first."
    assert refused(run(*command, tmp_path / "a" / "b"), words)
    assert not (tmp_path / "a").exists()


def test_the_demo_prints_a_table_or_a_certificate():
    people = run("demo", "two-arms")
    assert people.exit_code == 0, people.stderr
    for words in (
        "two arms",
        "predicted vs realised: ",
        "the paper's algorithm",
        "Deploy? Yes\npass: with 95 % confidence",
    ):
        assert words in people.stdout
    machine = run("demo", "two-arms", "--json")
    assert outrule.Certificate.from_json(machine.stdout).verdict == "pass"
    assert refused(run("demo", "chess"), "no demo 'chess'; choose one of flights, forms, ")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--epsilon", "many"), "'many' is not a number such as 0.0625 or 1/16"),
        (("--epsilon", "1/0"), "'1/0' is not a number"),
        (("--epsilon", "2"), "epsilon"),
        (("--epsilon", "1e400"), "Error: --epsilon must be a number in "),
        (("--problem", "chess"), "chess"),
        (("--regime", "lucky"), "lucky"),
        (("--rounds", "0"), "Error: --rounds must be a whole number of at least 1. Got 0"),
        (("--redraw",), "out"),
    ],
)
def test_reproduce_refuses_settings_that_cannot_be(tmp_path, options, words):
    result = run("reproduce", "--quick", "-o", tmp_path / "out", *options)
    assert refused(result, words)
    assert not (tmp_path / "out").exists()


@pytest.fixture
def any_predictor(monkeypatch):
    """One that is hardly trained and not kept for other tests; and no figures."""
    monkeypatch.setattr("outrule.worlds.predictors.N_STEPS", 10)
    monkeypatch.setattr(cases, "_trained", cases._trained.__wrapped__)
    monkeypatch.setattr(panels, "save", lambda *_: None)  # figures take longer than the rest


@pytest.mark.usefixtures("any_predictor")
def test_reproduce_can_run_what_the_paper_has_and_nothing_else(tmp_path):
    options = ("--rounds", "4", "--items", "4", "--epsilon", "1/4", "--batch-size", "64")
    result = run("reproduce", "--quick", "--paper", "-o", tmp_path, *options)
    assert result.exit_code == 0, result.stderr
    runs = pl.read_parquet(tmp_path / "runs.parquet")
    assert set(runs["problem"]) == {"best-action", "matching"}
    assert set(runs["regime"]) == {"brief"}
    assert set(runs["check"]) == {"fresh batches", "commit to the best rule"}
    assert set(runs["step"].drop_nulls()) == {"fixed"}
