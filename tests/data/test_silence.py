"""Standard error is held back while Polars works, and always given back."""

import os
import threading
from contextlib import suppress

import pytest

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
