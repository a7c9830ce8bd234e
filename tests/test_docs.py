"""The commands in the docs, run as a newcomer would run them, one after the other."""

import re
import secrets
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import outrule
from outrule.cli import app
from outrule.demos.example import SPEC, trips

DOCS = Path(__file__).parents[1] / "docs"
PAGES = [DOCS.parent / "README.md", *sorted(DOCS.glob("*.md"))]


def blocks(page, language=""):
    text = (DOCS / page).read_text(encoding="utf-8")
    found = re.findall(r"^```(\w*)\n(.*?)^```", text, re.S | re.M)
    return [block for kind, block in found if kind == language]


def cells(text):
    """The rows of a table, however it is drawn, and the lines around it."""
    rows = [re.split(r"[│┃|]", line) for line in text.splitlines()]
    return {tuple(cell.strip() for cell in row if cell.strip()) for row in rows}


def commands(page):
    """What a reader would type, without comments."""
    lines = [line for block in blocks(page, "console") for line in block.splitlines()]
    return [re.sub(r" +# .*", "", line[2:]) for line in lines if line.startswith("$ ")]


def test_the_path_from_a_table_to_a_certified_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = commands("quickstart.md")
    assert len(lines) == 1 + 2 + 6
    readme = commands("../README.md")
    assert len(readme) == 7
    for line in [*lines, *(line for line in readme if line not in lines)]:
        words = line.split()
        assert words[0] == "outrule"
        done = CliRunner().invoke(app, words[1:])
        # A month is too short to show so small a margin, and the watch says so.
        expected = 3 if words[1] == "watch" else 0
        assert done.exit_code == expected, (line, done.output)
    names = {path.name for path in tmp_path.iterdir() if not path.name.startswith(".")}
    assert names == {
        "trips",
        "model.json",
        "certificate.json",
        "report.html",
        "calibrated.csv",
        "decisions.csv",
        "watch.json",
    }


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A folder with the files that the pages speak of."""
    monkeypatch.chdir(tmp_path)
    Path("spec.toml").write_text(SPEC)
    past, later, today = (trips(600, (0, seed)) for seed in (0, 1, 2))
    past.write_parquet("past.parquet")
    later.write_parquet("later.parquet")
    today.drop("completed").write_parquet("today.parquet")
    today.drop("completed").write_csv("today.csv")
    for folder, table in (
        ("2025", past),
        ("november", later.drop("completed")),
        ("december", later),
    ):
        Path(folder).mkdir()
        table.write_parquet(f"{folder}/a.parquet")
    key = Path("team.key")
    key.write_bytes(secrets.token_bytes(32))
    key.chmod(0o600)
    return tmp_path


def test_the_commands_of_every_other_page_run(workplace):
    lines = commands("deployment.md") + commands("files.md") + commands("logs.md")
    lines += [line for block in blocks("scale.md") for line in block.splitlines()]
    assert len(lines) >= 17
    for line in lines:
        words = shlex.split(line.replace("/mnt/disk", str(workplace)))
        # One makes a key, as the fixture does; one needs a cluster, and tests of folders have one.
        if words[0] != "outrule" or "--scheduler" in words:
            assert words[0] in ("outrule", "head")
            continue
        done = CliRunner().invoke(app, words[1:])
        allowed = (0, 1, 3) if words[1] in ("certify", "doctor", "watch") else (0,)
        assert done.exit_code in allowed, (line, done.output)


def test_every_block_of_code_is_one_that_runs():
    """Doctests are run by pytest, commands by this file; nothing else looks like code."""
    for page in PAGES:
        for block in blocks(page, "python"):
            fragment = page.name == "scale.md" and ("Partitions(" in block or "client=" in block)
            assert ">>> " in block or fragment, (page.name, block)
        if page.name != "scale.md":
            assert not any("outrule " in block for block in blocks(page)), page.name
        for block in blocks(page, "toml"):
            tomllib.loads(block)


def test_the_fragment_of_a_folder_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = Path("visits")
    folder.mkdir()
    predictions, outcomes = outrule.worlds.two_arms(500, seed=0, epsilon=0.3)
    columns = {"score": predictions.ravel(), "bought": outcomes.ravel()}
    names = {"visit": [n // 2 for n in range(1000)], "offer": ["a", "b"] * 500}
    pl.DataFrame(names | columns).write_parquet(folder / "a.parquet")
    (block,) = (block for block in blocks("scale.md", "python") if "Partitions(" in block)
    calibrator = outrule.DecisionCalibrator(outrule.BestAction(), [outrule.Fixed("b")])
    exec(block.replace("2025/", "visits/"), {"outrule": outrule, "calibrator": calibrator})
    assert calibrator.patches_ is not None


def test_the_path_of_a_watch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = commands("watching.md")
    assert len(lines) == 3
    for line in lines:
        done = CliRunner().invoke(app, line.split()[1:])
        # 30 days are too few to show so small a margin, and the watch says so.
        expected = 3 if "outrule watch" in line else 0
        assert done.exit_code == expected, (line, done.output)
    assert done.stdout.startswith("undecided: ")
    names = {path.name for path in tmp_path.iterdir() if not path.name.startswith(".")}
    assert names == {"trips", "model.json", "watch.json", "watch.html", "outrule.prom"}


def test_the_first_demo(tmp_path):
    (line,) = commands("demos.md")
    run = [sys.executable, "-m", *line.split()]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = (DOCS / "demos.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"table: outrule demo flights -->(.*?)<!-- end", page, re.S)
    shown = cells(re.sub(r"^(```.*|\|---.*)$", "", block, flags=re.M))
    assert len(shown) > 10
    assert shown <= cells(done.stdout)
    first = [shown for shown in blocks("../README.md") if shown.startswith("Deploy?")]
    assert len(first) == 2  # the coupons' is in demos.md as well
    for line in {*first[0].splitlines(), *first[1].splitlines()} - {"..."}:
        assert line in done.stdout.splitlines() or line in page.splitlines()
    assert (tmp_path / "outrule-flights" / "report.html").exists()


def test_the_plan_in_the_docs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (line,) = commands("scale.md")
    done = CliRunner().invoke(app, line.split()[1:])
    assert done.exit_code == 0, done.output


def test_the_spec_in_the_docs_is_a_part_of_the_example():
    (shown,) = re.findall(r"```toml\n(.*?)```", (DOCS / "quickstart.md").read_text("utf-8"), re.S)
    for line in shown.splitlines():
        assert line in SPEC.splitlines()
