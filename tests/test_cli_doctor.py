"""`outrule check`, `outrule doctor` and `outrule verify`: each finding, and each exit code."""

import json
import re

import numpy as np
import polars as pl
import pytest

import outrule
from outrule.data.table_files import write_table
from outrule.diagnosis import proving
from outrule.proof.confidence import Observations, Range
from outrule.words import round_up
from sealing import reseal
from test_cli import SPEC, folder, refused, run, trips  # noqa: F401 - a fixture

LONG = "CASE WHEN pickup_km > 3 THEN 0.5 * score ELSE score END"


def examined(tmp_path, frame, spec=SPEC, code=0, name="t.parquet"):
    """The findings of a table as (severity, topic) and words."""
    write_table(frame, tmp_path / name)
    (tmp_path / "s.toml").write_text(spec)
    command = ("doctor", tmp_path / name, "--spec", tmp_path / "s.toml", "--json", "-")
    result = run(*command)
    assert result.exit_code == code, (result.stdout, result.stderr)
    return json.loads(result.stdout)


def one(found, topic, severity):
    (only,) = [row for row in found["findings"] if row["topic"] == topic]
    assert only["severity"] == severity
    return only


def topics(found):
    return [row["topic"] for row in found["findings"]]


def test_a_sound_table_has_only_a_note_of_what_it_can_prove(tmp_path):
    found = examined(tmp_path, trips(1))
    assert topics(found) == ["proof"]
    assert (found["instances"], found["rows"]) == (2000, 10_000)
    assert found["provable"]["best_rule"] == "no long pickups"
    assert 0 < found["provable"]["margin"] < found["provable"]["margin_of_half"]


def test_the_terminal_says_what_the_file_says(tmp_path):
    frame = trips(1, 300).with_columns(pl.col("score").round(1), unit=pl.lit("km"))
    found = examined(tmp_path, frame)
    result = run("doctor", tmp_path / "t.parquet", "--spec", tmp_path / "s.toml")
    assert result.stderr == ""
    for row in found["findings"]:
        assert f"{row['severity']}, {row['topic']}: {row['what']}" in result.stdout
        assert row["remedy"] in result.stdout
    severities = [row["severity"] for row in found["findings"]]
    assert severities == sorted(severities, key=["error", "warning", "note"].index)
    assert result.stdout.splitlines()[-1].startswith("no errors, ")


@pytest.mark.parametrize(
    ("change", "topic", "severity", "words"),
    [
        ({"score": pl.col("score").round(1)}, "ties", "warning", "largest predictions"),
        ({"score": pl.lit(0.5)}, "constants", "warning", "every prediction is 0.5"),
        ({"unit": pl.lit("km")}, "constants", "note", "1 column with one value only: 'unit'"),
        (
            {"score": pl.col("completed") * 0.98 + pl.col("score") * 0.01},
            "leakage",
            "warning",
            "predictions and outcomes have a correlation of 1.000",
        ),
        (
            {"fare": 10 * pl.col("completed") + 0.1 * pl.col("score")},
            "leakage",
            "warning",
            "column 'fare' and the outcome have a correlation of 1.000",
        ),
        ({"^fare$": -pl.col("completed")}, "leakage", "warning", "column '^fare$' and the outcome"),
        ({"day": pl.col("trip") % 30}, "clusters", "warning", "Column 'day' has 30 different"),
        ({"when": pl.col("trip") % 30}, "time", None, None),
        (
            {"at": pl.lit("2026-01-01").str.to_date() + pl.duration(days=pl.col("trip") % 30)},
            "time",
            "note",
            "column 'at' runs from 2026-01-01 to 2026-01-30, not in order",
        ),
    ],
)
def test_a_column_that_is_strange_is_named(tmp_path, change, topic, severity, words):
    found = examined(tmp_path, trips(1, 600).with_columns(**change))
    if severity is None:
        assert topic not in topics(found)
    else:
        assert words in one(found, topic, severity)["what"]


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("%Y-%m-%d", "column 'at' runs from 2026-01-01 to 2026-01-30, not in order"),
        ("%Y-%m-%dT%H:%M:%SZ", "from 2026-01-01T00:00:00Z to 2026-01-30T00:00:00Z, not in order"),
        ("%Y-%m-%d %H:%M", "from 2026-01-01 00:00 to 2026-01-30 00:00, not in order"),
        ("%d.%m.%Y", None),
        ("2026-13-%d", None),
    ],
)
def test_times_in_csv_are_recognised_where_strings_have_their_order(tmp_path, pattern, words):
    at = pl.lit("2026-01-01").str.to_date() + pl.duration(days=pl.col("trip") % 30)
    frame = trips(1, 600).with_columns(at=at.cast(pl.Datetime).dt.strftime(pattern))
    found = examined(tmp_path, frame, name="t.csv")
    if words is None:
        assert "time" not in topics(found)
    else:
        assert words in one(found, "time", "note")["what"]


def test_a_prediction_that_is_the_outcome_is_an_error(tmp_path):
    frame = trips(1, 100).with_columns(score=pl.col("completed").cast(float))
    found = examined(tmp_path, frame, code=2)
    assert one(found, "leakage", "error")["what"] == "every prediction equals its outcome"


def test_a_range_that_is_wider_than_the_values_is_a_note(tmp_path):
    wide = SPEC.replace("[data]", "[data]\nvalue_range = [-2, 3]")
    found = examined(tmp_path, trips(1, 600), wide)
    words = "predictions and outcomes run from 0 to 1, less than half of value_range = [-2, 3]"
    assert one(found, "range", "note")["what"] == words
    tight = SPEC.replace("[data]", "[data]\nvalue_range = [0, 2]")
    assert "range" not in topics(examined(tmp_path, trips(1, 600), tight))


def test_outcomes_that_are_all_the_same_are_an_error(tmp_path):
    found = examined(tmp_path, trips(1, 100).with_columns(completed=pl.lit(0)), code=2)
    assert found["findings"][0]["what"] == "every outcome is 0"


def test_every_kind_of_error_is_found_and_places_are_lines_of_the_file(tmp_path):
    frame = trips(1, 100).sort("trip", "driver")
    score = frame["score"].to_list()
    score[3], score[11] = None, 7.0  # trips 0 and 2
    frame = frame.with_columns(score=pl.Series(score))
    frame = pl.concat([frame, frame[[25]]])  # a driver of trip 5 twice
    found = examined(tmp_path, frame, code=2, name="t.csv")
    words = [row["what"] for row in found["findings"] if row["severity"] == "error"]
    assert len(words) == 3
    for said, what, line in zip(
        words,
        ("prediction is null", "prediction is 7", "'ann' is offered twice"),
        (5, 13, 502),
        strict=True,
    ):
        assert what in said
        assert f"line {line} of {tmp_path / 't.csv'}" in said
    assert [row["rows"] for row in found["findings"]][:3] == [1, 1, 1]
    assert found["instances"] == 97


def test_columns_that_are_missing_are_all_named(tmp_path):
    frame = trips(1, 20).drop("score", "pickup_km")
    found = examined(tmp_path, frame, code=2)
    (only,) = found["findings"]
    assert "there is no column 'score'" in only["what"] + only["remedy"]
    assert "unknown column 'pickup_km'" in only["what"] + only["remedy"]
    assert (found["instances"], found["provable"]) == (None, None)


def test_outcomes_of_chosen_items_alone_point_to_the_page_about_logs(tmp_path):
    chosen = pl.col("score") == pl.col("score").max().over("trip")
    frame = trips(1, 200)
    logged = frame.with_columns(completed=pl.when(chosen).then("completed"))
    found = examined(tmp_path, logged, code=2)
    missing = one(found, "values", "error")
    assert "outcome is null" in missing["what"]
    assert "docs/logs.md" in missing["remedy"]
    assert missing["rows"] == 800
    assert found["instances"] == 200  # the rest is examined without outcomes
    assert found["provable"] is None
    zeros = frame.with_columns(
        completed=pl.when(chosen).then("completed").otherwise(0), shown=chosen
    )
    found = examined(tmp_path, zeros)
    assert "in all 800 rows in which 'shown' is false" in one(found, "feedback", "warning")["what"]


def logged(n, seed=0, never=()):
    """A uniform log of five drivers; some can never be shown."""
    frame = trips(seed + 1, n).sort("trip", "driver")
    possible = ~frame["driver"].is_in(never).to_numpy().reshape(n, 5)
    q = possible / possible.sum(axis=1, keepdims=True)
    generator = np.random.default_rng(seed)
    shown = (generator.random((n, 1)) < q.cumsum(axis=1)).argmax(axis=1)
    seen = pl.Series((np.arange(5) == shown[:, None]).ravel())
    return frame.with_columns(completed=pl.when(seen).then("completed"), q=pl.Series(q.ravel()))


LOGGED = SPEC.replace('outcome = "completed"', 'outcome = "completed"\npropensity = "q"')


def test_a_log_is_told_what_it_is_worth_and_what_it_could_never_show(tmp_path):
    found = examined(tmp_path, logged(600), LOGGED)
    support, known = (row["what"] for row in found["findings"] if row["topic"] == "support")
    assert "worth about 1" in support  # a fifth of 600
    assert "of 600 instances with all outcomes" in support
    assert found["provable"]["margin"] > 0.1
    words = re.fullmatch(
        r"with all of their outcomes, 600 instances like these could prove a margin of (\S+) or "
        r"less instead of (\S+)",
        known,
    )
    assert float(words[2]) == round_up(found["provable"]["margin"])
    full = examined(tmp_path, trips(1, 600).sort("trip", "driver"))["provable"]["margin"]
    assert full < float(words[1]) < float(words[2])
    found = examined(tmp_path, logged(600, never=["eve"]), LOGGED)
    never = [row["what"] for row in found["findings"] if "could never show" in row["what"]]
    assert len(never) == 2
    assert all("(most often 'eve') by which rule" in words for words in never)
    unnamed = LOGGED.replace('item = "driver"\n', "")
    assert unnamed != LOGGED
    found = examined(tmp_path, logged(600, never=["eve"]), unnamed)
    never = [row["what"] for row in found["findings"] if "could never show" in row["what"]]
    assert all("items per instance by which rule" in words for words in never)
    assert never
    full = trips(1, 100).with_columns(q=pl.lit(0.2))
    found = examined(tmp_path, full, LOGGED, code=2)
    assert (
        "every outcome is known, although the spec has" in one(found, "feedback", "warning")["what"]
    )
    assert "the choices contradict the propensities" in one(found, "fit", "error")["what"]


def test_findings_speak_of_keys_and_not_of_python(tmp_path):
    private = '[fit]\ncheck = "private reuse"\nmax_rounds = 5\nstart = "none"\nrivals = []\n'
    found = examined(tmp_path, trips(1, 100), SPEC + private, code=2)
    assert "argument of" not in one(found, "fit", "error")["what"]
    found = examined(tmp_path, trips(1, 100).with_columns(score=7.0), code=2)
    assert one(found, "values", "error")["remedy"] == (
        "Set value_range = [low, high] in [data] of the spec."
    )
    truth = trips(1, 100).with_columns(
        completed=pl.when(pl.col("driver") == "ann").then(pl.col("completed") == 1)
    )
    assert examined(tmp_path, truth, code=2)["instances"] == 100


def test_rules_that_decide_nothing_of_their_own_are_named(tmp_path):
    same = SPEC + f'\n[[rules]]\nname = "again"\nweight = "2 * ({LONG})"\n'
    same += (
        '\n[[rules]]\nname = "typo"\nweight = "CASE WHEN pickup_km > 3000 THEN 0 ELSE score END"\n'
    )
    found = examined(tmp_path, trips(1, 300), same)
    words = [row["what"] for row in found["findings"] if row["topic"] == "rules"]
    assert words == [
        "rules 'no long pickups' and 'again' decide the same in all 300 instances",
        "rule 'typo' never differs from the plain optimiser on the predictions",
    ]
    many = SPEC + "[multipliers]\nlimit = 40\n"
    found = examined(tmp_path, trips(1, 300), many)
    assert "40 multipliers make " in one(found, "rules", "note")["what"]


def test_a_rule_that_cannot_be_read_is_shown_as_fit_shows_it(tmp_path):
    write_table(trips(1, 50).with_columns(pickup_km=pl.lit("far")), tmp_path / "t.csv")
    (tmp_path / "spec.toml").write_text(SPEC)
    result = run("doctor", tmp_path / "t.csv", "--spec", tmp_path / "spec.toml")
    assert re.search(r"\n +\^\n", result.stdout), result.stdout


def test_a_rule_that_cannot_decide_does_not_hide_the_others(tmp_path):
    frame = trips(1, 100)
    km = frame["pickup_km"].to_list()
    km[7] = None
    bad = SPEC + '\n[[rules]]\nname = "ann"\nalways = "ann"\n'
    found = examined(tmp_path, frame.with_columns(pickup_km=pl.Series(km)), bad, code=2)
    words = [row["what"] for row in found["findings"] if row["severity"] == "error"]
    assert len(words) == 1  # in the other, null is not above 3
    assert "'the closest driver': the weight is NULL" in words[0]
    assert "row 8 of" in words[0]
    assert found["provable"] is not None


def test_items_that_are_rare_and_instances_that_are_copies_are_counted(tmp_path):
    frame = trips(1, 200).with_columns(
        driver=pl.when(pl.col("driver") == "eve")
        .then("new " + pl.col("trip").cast(str))
        .otherwise("driver")
    )
    rare = one(examined(tmp_path, frame), "items", "warning")
    assert "200 of 204 items are in fewer than 25 rows, and 200 in one only" in rare["what"]
    frame = trips(1, 200).sort("trip")
    twice = pl.concat([frame, frame.head(5 * 30).with_columns(trip=pl.col("trip") + 500_000)])
    copies = one(examined(tmp_path, twice), "copies", "warning")
    assert copies["what"].startswith("60 of 230 instances have the predictions and outcomes of")
    assert copies["where"] == "instance 10000"


def test_a_table_without_items_is_told_so_and_rows_that_are_alike_are_found(tmp_path):
    spec = SPEC.replace('item = "driver"\n', "")
    assert spec != SPEC
    frame = trips(1, 200).drop("driver").sort("trip")
    assert one(examined(tmp_path, frame, spec), "items", "note")["what"].startswith("no column is")
    copies = one(examined(tmp_path, pl.concat([frame, frame[7:9]]), spec), "copies", "warning")
    assert copies["what"] == "2 rows are copies of another row of the same instance"
    assert copies["where"].startswith("instance 10001")


@pytest.mark.parametrize("more", ["", "propensity = 0.2"])
def test_tables_without_rows_or_outcomes_are_errors(tmp_path, more):
    spec = SPEC.replace("[data]", f"[data]\n{more}")
    found = examined(tmp_path, trips(1, 5).head(0), spec, code=2)
    assert "the table has no rows" in one(found, "values", "error")["what"]
    frame = trips(1, 20).with_columns(completed=pl.lit(None, dtype=pl.Float64))
    found = examined(tmp_path, frame, spec, code=2)
    words = "outcome is null" if not more else "no outcome is observed"
    assert any(words in row["what"] for row in found["findings"])
    everything = trips(1, 20).with_columns(score=pl.lit(None, dtype=pl.Float64))
    found = examined(tmp_path, everything, spec, code=2)
    assert (found["instances"], one(found, "values", "error")["rows"]) == (None, 100)


def test_a_table_of_chosen_rows_alone_is_an_error(tmp_path):
    frame = trips(1, 100).filter(pl.col("score") == pl.col("score").max().over("trip"))
    found = examined(tmp_path, frame, code=2)
    assert "no instance offers a choice" in one(found, "fit", "error")["what"]


def test_an_epsilon_that_cannot_be_proven_is_a_warning(tmp_path):
    found = examined(tmp_path, trips(1, 100), SPEC.replace("0.05", "0.01"))
    words = [row["what"] for row in found["findings"] if row["severity"] == "warning"]
    assert any("epsilon = 0.01 is less than" in said for said in words)


@pytest.mark.parametrize("n", [200, 2000])
def test_the_provable_margin_is_about_what_a_certificate_has(n):
    """For two decisions of the same value, whose bound is then the margin below zero."""
    generator = np.random.default_rng(n)
    widths = []
    for _ in range(20):
        difference = generator.choice([-1.0, 0.0, 1.0], size=n, p=[0.15, 0.7, 0.15])
        data = outrule.Instances.from_arrays(np.zeros((n, 1)))
        bets = Observations.from_instances(data).bets(difference, Range(-1.0, 1.0))
        widths.append(bets.mean - bets.lower(0.05))
    # The formula does not know that a bet may be won early: it never promises too much.
    assert 1 < proving.provable_margin(bets, n) / np.mean(widths) < 1.4
    assert proving.provable_margin(bets, 4 * n) == pytest.approx(
        proving.provable_margin(bets, n) / 2, rel=0.1
    )
    assert proving.provable_margin(bets, 1) == 1.0  # nothing but the range


def test_a_few_clusters_that_hardly_vary_prove_a_margin():
    """The stakes are limited there, and not the noise."""
    data = outrule.Instances.from_arrays(np.zeros((28, 1)))
    difference = np.random.default_rng(0).normal(0, 1e-3, 28)
    bets = Observations.from_instances(data).bets(difference, Range(-1.0, 1.0))
    width = bets.mean - bets.lower(0.05)
    assert width < proving.provable_margin(bets, 28) < 1.4 * width
    margins = [proving.provable_margin(bets, n) for n in range(5, 400)]
    assert margins == sorted(margins, reverse=True)


def test_clusters_are_what_is_counted(tmp_path):
    frame = trips(1, 600).with_columns(day=pl.col("trip") % 20)
    found = examined(tmp_path, frame, SPEC.replace("[data]", '[data]\ncluster = "day"'))
    assert (found["provable"]["observations"], found["provable"]["unit"]) == (20, "cluster")
    assert "clusters" not in topics(found)
    (proof,) = [row for row in found["findings"] if "held out, they" in row["what"]]
    assert proof["what"].startswith("if 20 days like these are held out")
    assert proof["what"].endswith(
        ". This assumes that the calibrated decisions differ from those of the closest rival as "
        "much as rule 'the closest driver' differs from plain, and that no day is larger than the "
        "largest here"
    )
    assert proof["remedy"] == "To halve the margin, collect up to four times as many days."
    few = frame.with_columns(day=pl.col("trip") % 10)
    found = examined(tmp_path, few, SPEC.replace("[data]", '[data]\ncluster = "day"'))
    assert any("but half of them cannot prove any." in row["what"] for row in found["findings"])


def test_an_observation_with_most_of_the_weight_is_named(tmp_path):
    spec = SPEC.replace("[data]", '[data]\nweight = "kg"')

    def weighed(n, heavy):
        weight = pl.when(pl.col("trip") == pl.col("trip").min() + 7).then(heavy).otherwise(1)
        return trips(1, n).with_columns(kg=weight)

    found = one(examined(tmp_path, weighed(600, 59_900), spec), "weights", "warning")
    assert found["what"] == (
        "one instance has at least 99 % of all weight, so that 600 instances tell as much as 1 "
        "instance of equal weight"
    )
    assert found["where"] == "instance 10007"
    assert found["remedy"].endswith("or else limit it, or let every instance count the same.")
    assert "weights" not in topics(examined(tmp_path, weighed(600, 30), spec))
    sizes = weighed(600, 1).with_columns(day=pl.col("trip").clip(pl.col("trip").max() - 299))
    spec = SPEC.replace("[data]", '[data]\ncluster = "day"')
    assert (
        "one day has at least 50 %"
        in one(examined(tmp_path, sizes, spec), "weights", "warning")["what"]
    )
    few = sizes.with_columns(day=pl.col("trip") % 5)
    assert "weights" not in topics(examined(tmp_path, few, spec))


def test_a_margin_as_wide_as_the_range_proves_nothing(tmp_path):
    frame = trips(1, 600).with_columns(day=pl.col("trip") % 3)
    found = examined(tmp_path, frame, SPEC.replace("[data]", '[data]\ncluster = "day"'))
    assert found["provable"]["margin"] == 1
    (proof,) = [row for row in found["findings"] if row["topic"] == "proof"]
    assert (proof["severity"], proof["what"], proof["remedy"]) == (
        "warning",
        "3 days like these cannot prove any margin: it would be no smaller than the whole range of "
        "a decision's value, 1",
        "The certificate would be inconclusive: collect more days.",
    )


def test_a_log_never_proves_a_margin_beyond_the_range(tmp_path):
    """Its estimates can be far outside the range of the outcomes."""
    frame = trips(1, 200).with_columns(
        completed=pl.when(pl.int_range(pl.len()) % 50 == 0).then("completed")
    )
    found = examined(tmp_path, frame, SPEC.replace("[data]", "[data]\npropensity = 0.02"))
    assert found["provable"]["margin"] > 1
    words = [row["what"] for row in found["findings"]]
    assert any("200 instances like these cannot prove any margin" in said for said in words)
    assert not any("that can be proven" in said or "epsilon =" in said for said in words)
    (price,) = [said for said in words if said.startswith("with all of their outcomes")]
    assert "or less" in price
    assert "instead of" not in price


def test_the_doctor_refuses_bad_files(folder, tmp_path):  # noqa: F811
    spec = folder / "spec.toml"
    assert refused(run("doctor", tmp_path / "no.csv", "--spec", spec), "cannot be read")
    assert refused(run("doctor", folder / "past.csv", "--spec", tmp_path / "no"), "does not exist")
    command = ("doctor", folder / "past.csv", "--spec", spec, "--json")
    assert refused(run(*command, folder / "past.csv"), "choose another name for --json")
    (tmp_path / "empty.csv").write_text("")
    assert refused(run("doctor", tmp_path / "empty.csv", "--spec", spec), "is empty")
    assert refused(
        run("doctor", folder, "--spec", spec), "is a folder: this command needs one table"
    )


def test_a_spec_is_described_and_a_table_that_fits_it(folder, tmp_path):  # noqa: F811
    spec = folder / "spec.toml"
    alone = run("check", spec)
    assert (alone.exit_code, alone.stderr) == (0, "")
    for words in ("valid", "problem: best action\n", "prediction 'score'", "epsilon: 0.05", LONG):
        assert words in alone.stdout
    both = run("check", spec, folder / "past.csv")
    assert both.stdout.startswith(alone.stdout)
    (tmp_path / "log.toml").write_text(SPEC.replace("[data]", "[data]\npropensity = 0.7"))
    assert ", propensity 0.7 for all items;" in run("check", tmp_path / "log.toml").stdout
    assert "fits; 2,000 instances, 10,000 rows, decided by 2 rules" in both.stdout
    (tmp_path / "s.toml").write_text(SPEC + "[multipliers]\nlimit = 5\n[fit]\nmax_rounds = 7\n")
    result = run("check", tmp_path / "s.toml", folder / "past.csv")
    assert "multipliers: limit = 5\n" in result.stdout
    assert "fit: max_rounds = 7" in result.stdout
    assert "decided by 7 rules" in result.stdout


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda frame: frame.drop("score"), "there is no column 'score'"),
        (lambda frame: frame.with_columns(pickup_km=pl.lit("far")), "rule 1 ('no long pickups')"),
        (lambda frame: frame.with_columns(completed=pl.lit(2)), "outside [0, 1]"),
        (lambda frame: frame.with_columns(driver=pl.lit("ann")), "offered twice"),
        (
            lambda frame: frame.with_columns(
                pickup_km=pl.when(pl.col("trip") != 10_003).then("pickup_km")
            ),
            "'the closest driver': the weight is NULL",
        ),
    ],
)
def test_check_refuses_a_table_that_does_not_fit(tmp_path, change, words):
    write_table(change(trips(1, 20)), tmp_path / "t.parquet")
    (tmp_path / "s.toml").write_text(SPEC)
    assert refused(run("check", tmp_path / "s.toml", tmp_path / "t.parquet"), words)


def test_check_refuses_a_spec_that_is_wrong(tmp_path):
    (tmp_path / "s.toml").write_text(SPEC.replace("always", "").replace("weight", "wieght", 1))
    assert refused(run("check", tmp_path / "s.toml"), "'wieght' is unknown. Did you mean 'weight'?")


@pytest.fixture(scope="module")
def certified(folder, tmp_path_factory):  # noqa: F811
    path = tmp_path_factory.mktemp("certified") / "c.json"
    assert run("certify", folder / "model.json", folder / "later.csv", "-o", path).exit_code == 0
    return path


def test_a_true_certificate_is_verified_and_a_changed_one_is_not(folder, certified, tmp_path):  # noqa: F811
    model, later = folder / "model.json", folder / "later.csv"
    result = run("verify", certified, model, later)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "is true: pass on 2,000 instances" in result.stdout
    content = json.loads(certified.read_text())
    content["gap_lower"] += 0.01
    (tmp_path / "c.json").write_text(reseal(content))
    result = run("verify", tmp_path / "c.json", model, later)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "c.json is not true: gap_lower: the certificate says" in result.stderr
    other = run("verify", certified, model, folder / "past.csv")
    assert other.exit_code == 2
    words = f"{certified} was made on other data than {folder / 'past.csv'}: pass the same tables"
    assert words in other.stderr
    command = ("fit", folder / "past.csv", "--spec", folder / "spec.toml", "--epsilon", 0.04)
    assert run(*command, "-o", tmp_path / "m.json").exit_code == 0
    other = run("verify", certified, tmp_path / "m.json", later)
    assert f"{certified} was made for another model than {tmp_path / 'm.json'}" in other.stderr


def test_verify_honours_keys_and_refuses_what_is_no_certificate(folder, certified, tmp_path):  # noqa: F811
    model, later, key = folder / "model.json", folder / "later.csv", tmp_path / "k"
    key.write_bytes(b"k" * 32)
    key.chmod(0o600)
    assert refused(run("verify", certified, model, later, "--key", key), "c.json", "sign")
    signed, sealed = tmp_path / "m.json", tmp_path / "c.json"
    keyed = ("--key", key)
    run("fit", folder / "past.csv", "--spec", folder / "spec.toml", "-o", signed, *keyed)
    assert run("certify", signed, later, "-o", sealed, *keyed).exit_code == 0
    assert run("verify", sealed, signed, later, *keyed).exit_code == 0
    assert run("verify", sealed, signed, later).exit_code == 0
    assert refused(run("verify", model, model, later), "model.json: this is not")
    assert refused(run("verify", tmp_path / "no", model, later), "No such file")


def test_a_continued_certificate_is_verified_on_all_its_tables(folder, tmp_path):  # noqa: F811
    model, tables = folder / "model.json", [tmp_path / "a.csv", tmp_path / "b.csv"]
    for seed, path in enumerate(tables):
        write_table(trips(6 + seed, 40), path)
    first, second = tmp_path / "1.json", tmp_path / "2.json"
    run("certify", model, tables[0], "-o", first)
    run("certify", model, *tables, "--continue", first, "-o", second)
    assert run("verify", second, model, *tables).exit_code == 0
    assert run("verify", second, model, tables[0]).exit_code == 2


def test_the_help_of_every_command_has_a_short_option():
    from outrule.cli import COMMANDS

    for command in COMMANDS:
        result = run(command.__name__, "-h")
        assert result.exit_code == 0
        assert result.stdout == run(command.__name__, "--help").stdout
        assert result.stdout.startswith(f"Usage: root {command.__name__} ")
