"""Threads: order, limits, errors, and processes that fork."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import joblib
import numpy as np
import pytest

import outrule
from outrule import threads

MAIN = threading.main_thread().name


@pytest.fixture(autouse=True)
def four_cores(monkeypatch):
    """As if there were four cores, so that threads are used on any machine."""
    monkeypatch.setattr(threads, "n_cores", lambda: 4)
    pool = threads._pool
    pool.cache_clear()
    yield
    pool.cache_clear()


def here(_):
    return threading.current_thread().name


@pytest.mark.parametrize("n_jobs", [None, 1, 2, 8, -1, -2])
@pytest.mark.parametrize("n_chunks", [0, 1, 2, 7, 100])
def test_results_come_in_order_whoever_is_first(n_jobs, n_chunks):
    def work(chunk):
        if chunk % 3 == 0:
            time.sleep(0.001)
        return chunk * chunk

    with threads.using(n_jobs):
        assert threads.run(work, n_chunks) == [chunk * chunk for chunk in range(n_chunks)]


def test_every_chunk_is_worked_on_once():
    done = []
    threads.run(done.append, 1000)
    assert sorted(done) == list(range(1000))


def test_work_is_shared_by_threads_and_one_thread_is_the_callers():
    barrier = threading.Barrier(4, timeout=20)

    def meet(chunk):
        barrier.wait()  # four threads must be there at once
        return here(chunk)

    assert len(set(threads.run(meet, 4))) == 4
    with threads.using(1):
        assert set(threads.run(here, 10)) == {MAIN}
    assert threads.run(here, 1) == [MAIN]


def test_a_limit_is_a_limit():
    at_once, most, lock = 0, 0, threading.Lock()

    def work(_):
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.002)
        with lock:
            at_once -= 1

    with threads.using(2):
        threads.run(work, 30)
    assert most == 2


def test_what_runs_inside_of_a_thread_runs_alone_there():
    def outer(_):
        return here(None), threads.n_threads(), set(threads.run(here, 5))

    for name, n_threads, inside in threads.run(outer, 8):
        assert name != MAIN
        assert n_threads == 1
        assert inside == {name}
    assert threads.n_threads() == 4


@pytest.mark.parametrize("n_jobs", [1, 2, None])
def test_errors_leave_and_later_work_runs(n_jobs):
    def work(chunk):
        if chunk == 5:
            raise KeyError("the fifth")
        return chunk

    with threads.using(n_jobs):
        with pytest.raises(KeyError, match="the fifth"):
            threads.run(work, 9)
        assert threads.run(lambda chunk: chunk, 9) == list(range(9))


def test_an_error_of_a_thread_outside_of_the_work_is_no_result(monkeypatch):
    class Full:
        """Instead of a context variable, for which there is no memory."""

        def get(self):
            return False

        def set(self, value):
            raise MemoryError

    monkeypatch.setattr(threads, "_width", Full())
    with pytest.raises(MemoryError):
        threads.run(lambda chunk: chunk, 9)


def test_a_thread_that_cannot_be_started_is_an_error_and_stops_the_others(monkeypatch):
    done, start = [], threading.Thread.start

    def work(chunk):
        time.sleep(0.005)
        done.append(chunk)

    def refuse(thread):
        if thread.name.endswith("_1"):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="start new thread"):
        threads.run(work, 1000)
    n_done = len(done)
    assert n_done < 100
    time.sleep(0.05)
    assert len(done) == n_done
    assert threads.run(lambda chunk: chunk, 1) == [0]


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_stops_all_threads():
    done = []

    def work(chunk):
        time.sleep(0.005)
        done.append(chunk)
        if chunk == 20:
            os.kill(os.getpid(), signal.SIGINT)

    # A shell starts commands in the background with the signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            threads.run(work, 10_000)
    finally:
        signal.signal(signal.SIGINT, before)
    n_done = len(done)
    assert n_done < 1000
    time.sleep(0.05)
    assert len(done) == n_done


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_is_heard_although_polars_lets_waits_go_on_and_ends_long_chunks():
    def work(chunk):
        if chunk == 0:
            time.sleep(0.5)  # until the caller waits
            os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1_000):  # 10 seconds
            time.sleep(0.01)
            threads.check_stop()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.siginterrupt(signal.SIGINT, False)  # as it is after an import of Polars
    start = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            threads.run(work, 2)
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - start < 5


def test_the_number_of_threads_is_as_scikit_learn_counts_them():
    counts = {None: 4, -1: 4, -2: 3, -4: 1, -9: 1, 1: 1, 8: 8}
    for n_jobs, expected in counts.items():
        with threads.using(n_jobs):
            assert threads.n_threads() == expected


def test_using_restores_what_was_there_even_after_an_error():
    with threads.using(3):
        with threads.using(1):
            assert threads.n_threads() == 1
        assert threads.n_threads() == 3
        with pytest.raises(RuntimeError), threads.using(2):
            raise RuntimeError
        assert threads.n_threads() == 3
    assert threads.n_threads() == 4


def test_a_limit_holds_in_its_own_thread_only():
    with threads.using(1):
        found = []
        other = threading.Thread(target=lambda: found.append(threads.n_threads()))
        other.start()
        other.join()
    assert found == [4]


def test_threads_of_the_caller_may_run_at_the_same_time():
    results = {}

    def go(number):
        with threads.using(2):
            results[number] = threads.run(lambda chunk: chunk + number, 200)

    callers = [threading.Thread(target=go, args=(number,)) for number in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert results == {n: list(range(n, n + 200)) for n in range(6)}


@pytest.mark.parametrize("length", [0, 1, 4, 5, 6, 10])
def test_spans_cover_everything_once(length):
    cut = threads.spans(5, length)
    assert [i for first, last in cut for i in range(first, last)] == list(range(length))
    assert all(0 < last - first <= 5 for first, last in cut)


# --- the calibrator's n_jobs ---------------------------------------------------------------------


def calibrator(n_jobs):
    rules = outrule.multipliers(3, limit=5)
    return outrule.DecisionCalibrator(outrule.TopK(1), rules, 0.1, n_jobs=n_jobs)


@pytest.mark.parametrize("n_jobs", [0, True, False, 1.0, 2.5, "all", [1]])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_other_numbers_of_jobs_are_refused(n_jobs, method):
    predictions = np.random.default_rng(0).random((20, 3))
    message = (
        r"The 'n_jobs' argument of DecisionCalibrator must be None, a positive int, or -1 for all "
        rf"cores. Got {n_jobs!r} instead."
    )
    with pytest.raises(outrule.ArgumentError) as caught:
        getattr(calibrator(n_jobs), method)(predictions, predictions)
    assert str(caught.value) == message


@pytest.mark.parametrize("n_jobs", [None, 1, 3, -1, -2, -50])
def test_a_number_of_jobs_holds_inside_and_not_outside(n_jobs, monkeypatch):
    generator = np.random.default_rng(0)
    predictions, outcomes = generator.random((2, 50, 3))
    seen = []
    plain = outrule.TopK.pick

    def spy(self, weights, layout, scale=None):
        seen.append(threads.n_threads() if here(0) == MAIN else None)
        return plain(self, weights, layout, scale)

    monkeypatch.setattr(outrule.TopK, "pick", spy)
    with threads.using(n_jobs):
        expected = threads.n_threads()
    model = calibrator(n_jobs).fit(predictions, outcomes)
    model.partial_fit(predictions, outcomes)
    model.predict(predictions)
    model.decide(predictions)
    model.score(predictions, outcomes)
    assert set(seen) - {None} == {expected}
    assert threads.n_threads() == 4


def test_one_job_starts_no_thread(monkeypatch):
    def refuse():
        raise AssertionError("the pool was asked for")

    monkeypatch.setattr(threads, "_pool", refuse)
    generator = np.random.default_rng(0)
    predictions, outcomes = generator.random((2, 20_000, 3))
    model = calibrator(1).set_params(start=outrule.Isotonic())
    model.fit(predictions[:10_000], outcomes[:10_000])
    model.decide(predictions)
    model.score(predictions, outcomes)
    outrule.certify(model, predictions[10_000:], outcomes[10_000:])
    with pytest.raises(AssertionError, match="the pool"):
        calibrator(2).fit(predictions, outcomes)


# --- forks ---------------------------------------------------------------------------------------

FORK = """
import os, sys, threading
import numpy as np
import outrule
from outrule import threads

threads.n_cores = lambda: 3
generator = np.random.default_rng(0)
predictions, outcomes = generator.random((2, 9000, 4))
rules = outrule.multipliers(4, limit=40)
model = outrule.DecisionCalibrator(outrule.TopK(2), rules, 0.05, start=None)
patches = model.fit(predictions, outcomes).patches_
assert patches
assert threading.active_count() > 1, "the parent has threads"
child = os.fork()
if child == 0:
    assert threads.run(lambda chunk: chunk, 50) == list(range(50))
    again = model.fit(predictions, outcomes).patches_
    os._exit(0 if again == patches and threading.active_count() > 1 else 3)
_, status = os.waitpid(child, 0)
assert model.fit(predictions, outcomes).patches_ == patches  # the parent's go on

# The pool has as many threads as there are chunks, and all of them fit.
def fit(n_jobs):
    model = outrule.DecisionCalibrator(outrule.TopK(2), rules, 0.05, start=None, n_jobs=n_jobs)
    return model.fit(predictions, outcomes).patches_

assert threads.run(lambda chunk: fit([None, 2, 8][chunk]), 3) == [fit(1)] * 3 == [patches] * 3
sys.exit(os.waitstatus_to_exitcode(status))
"""


# A thread computes a property of one object for as long as the child lives, which needs that of
# another object.
FORK_DURING_A_PROPERTY = """
import os, sys, threading
from outrule.types import computed_once

begun, done = threading.Event(), threading.Event()

class Thing:
    def __init__(self, wait):
        self.wait = wait

    @computed_once
    def value(self):
        if self.wait:
            begun.set()
            done.wait()
        return 7

thread = threading.Thread(target=lambda: Thing(True).value)
thread.start()
begun.wait()
child = os.fork()
if child == 0:
    os._exit(Thing(False).value)
_, status = os.waitpid(child, 0)
done.set()
thread.join()
sys.exit(os.waitstatus_to_exitcode(status) - 7)
"""

NO_POLARS = """
import sys
import numpy as np, outrule

predictions, outcomes = np.random.default_rng(0).random((2, 60, 4))
rules = [outrule.Fixed(0), outrule.Reweight("double", lambda view: 2 * view.predictions)]
model = outrule.DecisionCalibrator(outrule.BestAction(), rules, 0.5).fit(predictions, outcomes)
model.predict(predictions), model.decide(predictions), model.score(predictions, outcomes)
outrule.certify(model, outcomes, predictions)
sys.exit("polars" in sys.modules)
"""


# Where Polars has threads, a child process of a fork would wait for them forever.
FORK_WITH_TABLES = """
import os, signal, sys
import numpy as np, polars as pl
import outrule

predictions, outcomes = np.random.default_rng(0).random((2, 500, 2))
model = outrule.DecisionCalibrator(outrule.BestAction(), [outrule.Fixed(0)], 0.5, start=None)
table = pl.DataFrame({"trip": [0, 0, 1, 1], "score": [0.1, 0.2, 0.3, 0.4]})

def use_arrays():
    model.fit(predictions, outcomes).decide(predictions)

def use_a_table():
    outrule.Instances.from_table(table, instance="trip", prediction="score")

def use_a_rule():
    instances = outrule.Instances.from_arrays(predictions)
    outrule.Reweight("double", "2 * prediction").check_training(instances)

def try_in_child(*tasks, below=False):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        if below:
            os._exit(try_in_child(*tasks))
        refused = 0
        for task in tasks:
            try:
                task()
            except RuntimeError as error:
                assert "forked after Polars had started its threads" in str(error)
                refused += 1
        os._exit(refused)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

assert try_in_child(use_arrays, use_a_table, use_a_rule) == 0
table.sort("score")
assert try_in_child(use_arrays, use_a_table, use_a_rule) == 2
assert try_in_child(use_a_table, below=True) == 1
use_a_table()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the system lists no threads by name")
def test_a_fork_after_polars_was_used_is_an_error_and_no_endless_wait():
    test_a_process_of_its_own_ends(FORK_WITH_TABLES)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("code", [FORK, FORK_DURING_A_PROPERTY, NO_POLARS])
def test_a_process_of_its_own_ends(code):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_no_property_has_a_lock():
    for path in Path(outrule.__file__).parent.rglob("*.py"):
        assert "import cached_property" not in path.read_text()


# --- other people's threads and processes ---------------------------------------------------------


def fit_and_decide(seed, start=outrule.CrossFit()):  # noqa: B008 - it is frozen
    predictions, outcomes = np.random.default_rng(seed).random((2, 600, 3))
    model = calibrator(None).set_params(start=start).fit(predictions, outcomes)
    return model.patches_, model.predict(predictions).tobytes()


# Every new process loads the kernels that it uses, and trees have many.
@pytest.mark.parametrize(
    ("backend", "start"), [("loky", outrule.Isotonic()), ("threading", outrule.CrossFit())]
)
def test_joblib_gives_the_same_bits(backend, start):
    fit = joblib.delayed(fit_and_decide)
    found = joblib.Parallel(2, backend=backend)(fit(seed, start) for seed in range(3))
    assert found == [fit_and_decide(seed, start) for seed in range(3)]


def test_an_executor_of_threads_gives_the_same_bits():
    with ThreadPoolExecutor(3) as executor:
        found = list(executor.map(fit_and_decide, range(3)))
    assert found == [fit_and_decide(seed) for seed in range(3)]
