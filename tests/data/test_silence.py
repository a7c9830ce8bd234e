"""Standard error is held back while Polars works, and always given back."""

import hashlib
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from outrule.data import silence
from outrule.data.silence import quiet_panics


def test_what_is_printed_before_an_error_is_not_shown(capfd):
    with quiet_panics():
        os.write(2, b"a warning\n")
    with suppress(ZeroDivisionError), quiet_panics():
        os.write(2, b"a panic\n")
        raise ZeroDivisionError
    os.write(2, b"behind it\n")
    assert capfd.readouterr().err == "a warning\nbehind it\n"


@pytest.mark.parametrize("fails", [True, False])
def test_threads_that_overlap_give_standard_error_back(fails, capfd):
    inside, first_left = threading.Barrier(2, timeout=60), threading.Event()

    def first():
        with suppress(ZeroDivisionError), quiet_panics():
            inside.wait()
            os.write(2, b"a panic\n")
            if fails:
                raise ZeroDivisionError

    def second():
        with quiet_panics():
            inside.wait()
            assert first_left.wait(60)
            os.write(2, b"a warning\n")

    before = os.fstat(2).st_ino
    one, other = threading.Thread(target=first), threading.Thread(target=second)
    one.start()
    other.start()
    one.join()
    first_left.set()
    other.join()
    assert os.fstat(2).st_ino == before
    os.write(2, b"behind it\n")
    panic = "" if fails else "a panic\n"
    assert capfd.readouterr().err == f"{panic}a warning\nbehind it\n"


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are not listed")
def test_what_a_thread_of_polars_prints_after_the_error_of_another_is_not_shown(capfd):
    begun = threading.Event()

    def panic_late():
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text("async-executor-7")
        begun.set()
        end = time.thread_time() + 0.1
        while time.thread_time() < end:
            hashlib.sha256(bytes(1 << 20))  # without Python's lock
        os.write(2, b"a late panic\n")

    late = threading.Thread(target=panic_late)
    with suppress(ZeroDivisionError), quiet_panics():
        late.start()
        begun.wait()
        raise ZeroDivisionError
    late.join()
    assert capfd.readouterr().err == ""


def test_a_thread_of_polars_that_works_for_others_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(silence, "any_thread", lambda *_: True)
    monkeypatch.setattr(silence, "PATIENCE", 0.05)
    with pytest.raises(ZeroDivisionError), quiet_panics():
        raise ZeroDivisionError


def test_a_closed_standard_error_stays_closed():
    kept = os.dup(2)
    try:
        os.close(2)
        with quiet_panics():
            pass
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(2)
    finally:
        os.dup2(kept, 2)
        os.close(kept)
