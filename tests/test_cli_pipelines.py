"""Files for pipelines: JUnit XML and Markdown of every verdict, whatever rules are called."""

import re
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest

import outrule
from outrule.cli.work.pipelines import junit, markdown
from outrule.data.table_files import write_table
from outrule.proof.answer import Answer
from test_cli import SPEC, folder, refused, run, trips  # noqa: F401 - a fixture

ROOT = Path(__file__).parents[1]
HOSTILE = 'a<b> & "c" ]]> | `d` *e* _f_ [g](http://h) \x1b[31m \u202e </failure>'


def cases(path):
    (suite,) = ElementTree.parse(path).getroot()
    assert suite.tag == "testsuite"
    return suite, suite.findall("testcase")


def test_a_verdict_is_three_test_cases_and_a_page(folder, tmp_path):  # noqa: F811
    xml, page = tmp_path / "j.xml", tmp_path / "s.md"
    files = ("--junit", xml, "--summary", page)
    result = run("certify", folder / "model.json", folder / "later.csv", *files)
    assert result.exit_code == 0, result.stderr
    suite, found = cases(xml)
    assert suite.get("name") == "outrule certify"
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == list("3000")
    names = [case.get("name") for case in found]
    assert names == [f"at least as good as {kind}" for kind in ("rules", "plain", "isotonic")]
    assert {case.get("classname") for case in found} == {"outrule.model"}
    assert [child.tag for case in found for child in case] == ["system-out"] * 3
    assert suite.find("system-out").text in result.stdout
    text = page.read_text()
    assert text.startswith("## model.json: Deploy? Yes\n\n**pass**: With 95 % confidence, ")
    assert "| best of 2 rules (no long pickups) | pass | " in text
    assert "| plain optimiser, outrule | 0." in text
    assert "\nNext: deploy" in text


@pytest.mark.parametrize(("kind", "code", "tag"), [("few", 3, "skipped"), ("turned", 1, "failure")])
def test_what_is_not_passed_has_its_sentence(folder, tmp_path, kind, code, tag):  # noqa: F811
    nearest = pl.col("pickup_km") == pl.col("pickup_km").min().over("trip")
    tables = {"few": trips(4, 30), "turned": trips(5).with_columns(completed=nearest.cast(int))}
    write_table(tables[kind], tmp_path / "t.csv")
    xml = tmp_path / "j.xml"
    result = run("certify", folder / "model.json", tmp_path / "t.csv", "--junit", xml)
    assert result.exit_code == code
    suite, found = cases(xml)
    (marked,) = found[0].findall(tag)
    assert marked.get("message") in result.stdout
    number = sum(case.find(tag) is not None for case in found)
    assert suite.get("skipped" if tag == "skipped" else "failures") == str(number)


def test_names_cannot_break_the_files():
    rules = [outrule.Fixed(0, HOSTILE), outrule.Fixed(1)]
    calibrator = outrule.DecisionCalibrator(outrule.BestAction(), rules, epsilon=0.05)
    calibrator.fit(*outrule.worlds.two_arms(1_000, seed=0, epsilon=0.3))
    found = outrule.certify(calibrator, *outrule.worlds.two_arms(200, seed=1, epsilon=0.3))
    answer = Answer(found, {rule.name: HOSTILE for rule in rules})
    (suite,) = ElementTree.fromstring(junit(answer, HOSTILE).encode())
    case = suite.find("testcase")
    shown = HOSTILE.replace("\x1b", "\\x1b").replace("\u202e", "\\u202e")
    assert case.get("classname") == f"outrule.{shown}"
    assert shown in case.find("system-out").text
    text = markdown(answer, [(HOSTILE, "1", "2")], HOSTILE)
    assert not re.search(r"<|(?<!\\)[`|*_\[](?!\*|\s|-| )\w", text.replace("**", ""))
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {4}
    assert "\x1b" not in text


def test_the_files_of_a_pipeline_are_files_and_different(folder, tmp_path):  # noqa: F811
    command = ("certify", folder / "model.json", folder / "later.csv")
    same = tmp_path / "x"
    assert refused(run(*command, "--junit", "-"), "--junit must be a file")
    assert refused(run(*command, "--summary", folder / "model.json"), "another name for --summary")
    assert refused(run(*command, "--junit", same, "--summary", same), "must be different files")
    assert refused(run(*command, "--junit", tmp_path / "no" / "x"), "does not exist")
    assert list(tmp_path.iterdir()) == []
    same.write_text("old")
    assert refused(run("certify", same, folder / "later.csv", "--junit", tmp_path / "y"))
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_the_action_uses_options_that_exist():
    text = (ROOT / "action.yml").read_text()
    (command,) = re.findall(r"outrule certify .*", text)
    options = set(re.findall(r"--[a-z-]+", text[text.index(command) :]))
    shown = run("certify", "--help").stdout
    assert options == {"--summary", "--junit", "--confidence", "--max-weight", "--output"}
    assert all(option in shown for option in options)
