"""The command line with too little memory, and when Polars panics: a sentence, and no verdict."""

import os
import subprocess
import sys

import polars as pl
import pytest

from outrule import DataError
from outrule.cli import COMMANDS, talking
from outrule.proof import certificate
from test_cli import any_predictor, folder, run, throw  # noqa: F401 - two are fixtures

pytestmark = pytest.mark.skipif(os.name != "posix", reason="limits of POSIX")

CHILD = """
import resource, sys
import numpy as np, polars as pl
import outrule.proof.certificate
from outrule.cli import run
{change}
sys.argv = ["outrule", *sys.argv[1:]]
run()
"""
PANIC = """
def certify(*_, **__):
    return pl.Series([2**31 - 1]).cast(pl.Date).to_list()
outrule.proof.certificate.certify = certify
"""
LARGE = """
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
outrule.proof.certificate.certify = lambda *_, **__: np.ones(1 << 31)
"""


def child(change, *words):
    """A command in a process that was changed before, without what the tests set."""
    command = [sys.executable, "-c", CHILD.format(change=change), *map(str, words)]
    surroundings = {k: v for k, v in os.environ.items() if k != "RUST_BACKTRACE"}
    return subprocess.run(command, capture_output=True, text=True, env=surroundings, check=False)


def test_a_panic_of_polars_is_a_sentence_and_no_verdict(folder):  # noqa: F811
    done = child(PANIC, "certify", folder / "model.json", folder / "later.csv")
    assert done.returncode == 2
    assert done.stdout == ""
    *rust, ours = done.stderr.splitlines()
    words = "Error: Polars stopped (out-of-range date). This is a bug: please report it."
    assert ours == words
    assert "stack backtrace:" not in rust
    assert "Traceback" not in done.stderr


WORDS = {
    "check": "spec.toml",
    "doctor": "past.csv --spec spec.toml",
    "fit": "past.csv --spec spec.toml -o model.json",
    "certify": "model.json later.csv",
    "verify": "certificate.json model.json later.csv",
    "report": "model.json later.csv -o report.html",
    "predict": "model.json later.csv -o out.csv",
    "decide": "model.json later.csv -o out.csv",
    "watch": "model.json later.csv --state watch.json",
    "plan": "--instances 9 --items 2 --rules 1",
    "example": "trips",
    "demo": "",
    "reproduce": "",
}
ENDS = {
    pl.exceptions.PanicException("no\nlines"): (2, "Error: Polars stopped (no). This is a bug: p"),
    SystemExit(1): (70, "Traceback"),
    SystemExit(3): (70, "Traceback"),
    GeneratorExit(): (70, "Traceback"),
    EOFError(): (70, "Traceback"),
    KeyboardInterrupt(): (130, ""),
}


@pytest.mark.parametrize("name", [command.__name__ for command in COMMANDS])
def test_whatever_ends_a_command_is_no_verdict(name, monkeypatch):
    for error, (code, words) in ENDS.items():
        monkeypatch.setattr(talking, "_check_address_space", lambda error=error: throw(error))
        done = run(name, *WORDS[name].split())
        assert done.exit_code == code
        assert done.stdout == ""
        assert done.stderr.startswith(words)
        assert code != 2 or done.stderr.count("\n") == 1


def test_an_array_that_does_not_fit_is_a_sentence(folder):  # noqa: F811
    done = child(LARGE, "certify", folder / "model.json", folder / "later.csv")
    words = "there is not enough memory for this: the shell allows 8,192 MB (ulimit -v)."
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"Error: {words}\n")


def test_a_command_does_not_start_with_an_address_space_that_is_too_small():
    limited = f"ulimit -v {1100 << 10} && exec {sys.executable} -m outrule"
    for command, code, words in (
        ("fit --help", 0, ""),
        (
            "fit nothing.csv --spec nothing.toml -o model.json",
            2,
            "Error: there is not enough memory for this: the shell allows 1,100 MB (ulimit -v), "
            f"and at least {talking.LEAST:,} MB are needed.\n",
        ),
    ):
        shell = ["bash", "-c", f"{limited} {command}"]
        done = subprocess.run(shell, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (code, words)


def panicked():
    try:
        raise pl.exceptions.PanicException("could not spawn threads")
    except pl.exceptions.PanicException:
        raise DataError("later.csv is damaged.") from None


FAULTS = {
    "a name that a half-loaded library lacks": lambda: throw(NameError("PyLazyFrame")),
    "a panic": lambda: throw(pl.exceptions.PanicException("could not spawn threads")),
    "a library": lambda: throw(OSError("Could not find shared object 'libllvmlite.so'")),
    "a file that seems to be damaged": panicked,
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_libraries_make_of_too_little_memory_is_called_by_its_name(
    name,
    folder,  # noqa: F811
    monkeypatch,
):
    monkeypatch.setattr(certificate, "certify", lambda *_, **__: FAULTS[name]())
    words = ("certify", folder / "model.json", folder / "later.csv")
    plenty = run(*words)
    assert "not enough memory" not in plenty.stderr
    assert plenty.exit_code in (2, 70)
    monkeypatch.setattr(talking, "is_exhausted", lambda: True)
    done = run(*words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "Error: there is not enough memory for this.\n"


def test_other_errors_stay_what_they_are_where_memory_is_short(folder, monkeypatch):  # noqa: F811
    monkeypatch.setattr(talking, "is_exhausted", lambda: True)
    done = run("certify", folder / "model.json", folder / "no.csv")
    assert done.exit_code == 2
    assert "no.csv" in done.stderr
