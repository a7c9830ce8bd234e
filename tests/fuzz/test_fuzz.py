"""A short run of every fuzzer, with the inputs that failed in the past; the long one is run.py."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz import run

KINDS = dict.fromkeys(run.KINDS, 20) | {"fit": 6}
# Several kinds in one process, which starts and loads kernels once.
TRY = """
import json, sys
from fuzz import batch
for kind, first, last in json.loads(sys.argv[2]):
    batch.main(kind, batch.Path(sys.argv[1]) / kind, 0, first, last)
"""


def reasons(folder):
    return [path.read_text() for path in folder.rglob("findings/*.txt")]


@pytest.mark.parametrize("kinds", [run.FILES[::-1], ("solver", "fit")], ids=["files", "solvers"])
def test_no_input_fails(kinds, tmp_path):
    spans = []
    for kind in kinds:
        run.prepare(kind, tmp_path / kind)
        past = len(list((tmp_path / kind / "corpus").iterdir()))
        spans.append((kind, -past, KINDS[kind]))
    command = [sys.executable, "-c", TRY, str(tmp_path), json.dumps(spans)]
    with (tmp_path / "stderr").open("wb") as printed:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=printed,
            env=run.surroundings(),
            timeout=600,
            check=False,
        )
    assert (done.returncode, (tmp_path / "stderr").read_text()) == (0, "")
    assert reasons(tmp_path) == []
    for (_, first, last), line in zip(spans, done.stdout.splitlines(), strict=True):
        assert json.loads(line)["tried"] == last - first


def test_a_campaign_tries_the_inputs_of_the_past_and_new_ones(tmp_path):
    totals = run.campaign("spec", tmp_path, seed=1, most=5, seconds=None)
    assert reasons(tmp_path) == []
    assert totals["tried"] == 5 + len(list((run.HERE / "corpus" / "spec").iterdir()))


# Without the kinds of files, and what they import.
BREAK = """
import os, sys, time, types
sys.modules["fuzz.file_kinds"] = types.SimpleNamespace(REFUSALS=())
from fuzz import batch
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass
class Broken:
    suffix = ".input"
    def make(self, data, generator):
        return b"%d" % generator.integers(1000)
    def use(self, path, base):
        {what}
batch.new_kind = lambda name: Broken()
batch.SECONDS = 0.05
batch.main(sys.argv[1], batch.Path(sys.argv[2]), *map(int, sys.argv[3:6]))
"""
FAULTS = {
    "os.abort()": "ended with code -6",
    "1 / 0": "ZeroDivisionError",
    "os.write(2, b'panic')": "something was printed",
    "burn(0.1)": "the time was",
    "sys.exit(3)": "SystemExit",
    "time.sleep(600)": "waited at one input",
    "while True: pass": "tried one input",
}


@pytest.mark.parametrize("what", FAULTS)
def test_every_kind_of_failure_is_noticed_and_its_input_kept(what, tmp_path, monkeypatch):
    for name in ("seeds", "findings", "corpus"):
        (tmp_path / name).mkdir()
    (tmp_path / "seeds" / "one.input").write_text("1")
    start = subprocess.Popen

    def broken(command, **options):
        code = BREAK.format(what=what)
        return start([sys.executable, "-c", code, *command[3:]], **options)

    monkeypatch.setattr(run.subprocess, "Popen", broken)
    for name, seconds in (("PAUSE", 0.25), ("ASLEEP", 1.0), ("BUSY", 3.0)):
        monkeypatch.setattr(run, name, seconds)
    counts, reached = run.batch("broken", tmp_path, 0, 0, 2)
    assert counts["failed"] >= 1
    assert reached in (1, 2)
    for path in (tmp_path / "findings").glob("one@*.input"):
        assert path.read_text().isdigit()
        assert FAULTS[what] in path.with_suffix(".txt").read_text()
    assert len(list((tmp_path / "findings").iterdir())) == 2 * counts["failed"]


def test_the_corpus_is_small():
    files = [path for path in (Path(__file__).parent / "corpus").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 500_000
