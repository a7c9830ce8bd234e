"""How far the work has come: said to a listener, shown on a terminal, and never in a pipe."""

import os
import subprocess
import sys
from functools import cache

import pytest

import outrule
from outrule import progress
from outrule.cli.talking import how_far

WORLD = outrule.worlds.Quadratic(4, seed=0)


trained = cache(outrule.worlds.brief_predictor)


def draw(seed):
    return outrule.worlds.draw(WORLD, trained(WORLD), 400, seed=seed)


def told(work):
    """What a listener hears: by noun, the numbers and the totals."""
    heard = {}
    with progress.heard_by(lambda *said: heard.setdefault(said[0], []).append(said[1:])):
        result = work()
    return heard, result


def test_a_fit_tells_of_its_start_and_its_rounds_and_a_certificate_of_its_rules():
    calibrator = outrule.DecisionCalibrator(outrule.BestAction(), outrule.multipliers(4, limit=20))
    heard, _ = told(lambda: calibrator.fit(*draw(1)))
    parts = heard["part of the start"]
    assert sorted(done for done, _, _ in parts) == list(range(1, 13))  # with trees and without
    assert {total for _, total, _ in parts} == {12}
    rounds = heard["round"]
    assert [done for done, _, _ in rounds] == list(range(1, len(calibrator.history_) + 1))
    assert {total for _, total, _ in rounds} == {None}  # the worst case says nothing
    heard, _ = told(lambda: outrule.certify(calibrator, *draw(2)))
    assert [(done, total) for done, total, _ in heard["rule"]] == [(i, 20) for i in range(1, 21)]
    assert all(seconds >= 0 for _, _, seconds in heard["rule"])


@pytest.mark.filterwarnings("ignore:the loop stopped")
@pytest.mark.parametrize(
    ("settings", "total"), [({"check": outrule.FreshBatches(100)}, 5), ({"max_rounds": 3}, 3)]
)
def test_rounds_that_are_limited_have_a_total(settings, total):
    rules = outrule.multipliers(4, limit=20)
    plain = {"start": None, "rivals": (), "epsilon": 1e-4, **settings}
    calibrator = outrule.DecisionCalibrator(outrule.BestAction(), rules, **plain)
    heard, _ = told(lambda: calibrator.fit(*draw(1)))
    assert {one[1] for one in heard["round"]} == {total}


def test_what_is_compiled_is_told_once(tmp_path):
    code = """
from outrule import progress, kernels
import numpy as np
heard = []
with progress.heard_by(lambda *said: heard.append(said[:2])):
    for _ in range(2):
        kernels.picking.longest(np.zeros(3, dtype=np.int64))
print(heard)
"""
    words = "compiling, once on this machine: kernel"
    for expected in ([(words, 1)], []):  # the second process finds it on disk
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == str(expected)


def test_nobody_listens_after_the_work():
    heard, _ = told(lambda: None)
    progress.counter("round")()
    assert heard == {}


def test_words_have_the_time_left():
    assert how_far("round", 7, None, 3.0) == "round 7"
    assert how_far("part of the start", 3, 12, 90.0) == "part of the start 3 of 12, about 4:30 left"
    assert how_far("rule", 1024, 1024, 5.0) == "rule 1,024 of 1,024, about 0:00 left"


@pytest.mark.skipif(os.name != "posix", reason="a terminal of its own")
def test_a_terminal_shows_a_spinner_and_a_pipe_does_not():
    import pty

    code = (
        "import time; from outrule import progress; from outrule.cli.talking import waiting\n"
        "with waiting('calibrating'):\n"
        "    done = progress.counter('round', 9)\n"
        "    for _ in range(3): done(); time.sleep(0.15)\n"
    )
    command = [sys.executable, "-c", code]
    ours, theirs = pty.openpty()
    surroundings = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    child = subprocess.Popen(command, stderr=theirs, env=surroundings)
    os.close(theirs)
    shown = b""
    while True:
        try:
            some = os.read(ours, 4096)
        except OSError:  # the child has closed its end
            break
        if not some:
            break
        shown += some
    os.close(ours)
    assert child.wait() == 0
    assert b"calibrating: round 3 of 9, about 0:0" in shown
    piped = subprocess.run(command, capture_output=True, check=True)
    assert (piped.stdout, piped.stderr) == (b"", b"")
