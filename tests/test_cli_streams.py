"""The command line and its surroundings: closed streams, full devices, loops, hostile names."""

import os
import signal
import subprocess
import sys

import pytest

from outrule.cli.talking import drawn
from outrule.reporting.markup import text
from outrule.words import harmless
from test_cli import any_predictor, folder, refused, run  # noqa: F401 - two are fixtures

OUTRULE = f"{sys.executable} -m outrule"
pytestmark = pytest.mark.skipif(os.name != "posix", reason="streams of POSIX")


def shell(command, **options):
    return subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=False, **options
    )


def one_sentence(words):
    assert words.startswith("Error: ")
    assert words.count("\n") == 1
    assert "Traceback" not in words
    return True


def test_a_reader_that_has_seen_enough_hears_nothing(folder):  # noqa: F811
    command = f"{OUTRULE} predict {folder}/model.json {folder}/later.csv -o - 2>{folder}/said"
    done = shell(f"{command} | head -n 1; exit ${{PIPESTATUS[0]}}")
    assert done.returncode == 141
    assert done.stdout == "trip,driver,pickup_km,score,completed,calibrated\n"
    assert (folder / "said").read_text() == ""


def test_closed_streams_are_a_sentence_or_no_problem(folder, tmp_path):  # noqa: F811
    files = f"{folder}/model.json {folder}/today.csv"
    for command, code, words in (
        (f"predict {files} -o - >&-", 2, "standard output is closed"),
        (f"predict {folder}/model.json - -o - <&-", 2, "standard input is closed"),
        (f"predict {files} -o {tmp_path}/a.csv >&-", 0, ""),
        (f"predict {files} -o {tmp_path}/b.csv >&- 2>&- <&-", 0, ""),
        ("--help >&-", 0, ""),
    ):
        done = shell(f"{OUTRULE} {command}")
        assert done.returncode == code, (command, done.stderr)
        assert words in done.stderr
        assert done.stderr == "" if code == 0 else one_sentence(done.stderr)
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()


def test_an_interruption_is_answered_at_once(folder):  # noqa: F811
    # A shell may have ignored interruptions, and then they are ignored here too.
    ignored = signal.signal(signal.SIGINT, signal.default_int_handler)
    command = [*OUTRULE.split(), "predict", folder / "model.json", "-", "-o", folder / "never.csv"]
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:
        process.stdin.write(b" " * 2**20)  # returns when the command reads
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b"Stopping, which can take a few seconds.\n"
    signal.signal(signal.SIGINT, ignored)
    assert process.returncode == 130


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")  # noqa: PTH110
def test_help_on_a_full_device_is_a_sentence():
    for command in ("--help", "fit --help", "--version"):
        done = shell(f"{OUTRULE} {command} >/dev/full")
        assert done.returncode == 2
        assert one_sentence(done.stderr)
        assert "No space left on device" in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")  # noqa: PTH110
def test_words_that_nobody_can_hear_are_no_verdict(folder):  # noqa: F811
    later = f"{folder}/model.json {folder}/later.csv"
    for command, code in (
        ("certify no.json no.csv 2>/dev/full", 2),
        ("certify --no-such-option 2>/dev/full", 2),
        ("certify --help > >(true)", 141),
        (f"certify {later} > >(true)", 141),
        (f"certify {later} >/dev/full 2>/dev/full", 2),
    ):
        done = shell(f"{OUTRULE} {command.replace('>(true)', '>(exec true)')}")
        assert done.returncode == code, (command, done.stderr)
        assert "Traceback" not in done.stderr


def test_a_package_that_cannot_be_loaded_is_no_verdict(tmp_path):
    (tmp_path / "typer.py").write_text("import no_such_module")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = shell(f"{OUTRULE} certify model.json later.csv", env=os.environ | {"PYTHONPATH": path})
    assert done.returncode == 70
    assert one_sentence(done.stderr)
    assert "cannot be loaded (No module named 'no_such_module'). Install" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="file names of any bytes")
def test_names_that_are_not_utf_8(folder, tmp_path):  # noqa: F811
    model, today, odd = folder / "model.json", folder / "today.csv", tmp_path / "t\udc80"
    output = odd.with_suffix(".parquet")
    assert run("predict", model, today, "-o", output).exit_code == 0
    words = "the name of this file is not UTF-8: rename it"
    assert refused(run("predict", model, output, "-o", tmp_path / "u.csv"), words)
    assert refused(run("predict", model, tmp_path, "-o", folder / "all"), words)
    named = run("predict", model, today, "-o", tmp_path / "u.csv", "--column", "\udc80")
    assert refused(named, "--column is not UTF-8")
    assert run("example", odd).exit_code == 0


def test_a_loop_of_links_is_a_sentence(folder, tmp_path):  # noqa: F811
    (tmp_path / "a.csv").symlink_to(tmp_path / "b.csv")
    (tmp_path / "b.csv").symlink_to(tmp_path / "a.csv")
    model, today, loop = folder / "model.json", folder / "today.csv", tmp_path / "a.csv"
    assert refused(
        run("predict", model, today, "-o", loop), "a.csv: Too many levels of symbolic links"
    )
    assert refused(run("predict", model, loop, "-o", tmp_path / "c.csv"), "cannot be read")
    assert refused(run("predict", loop, today, "-o", tmp_path / "c.csv"), "a.csv")
    assert refused(run("example", loop), "a.csv")
    assert refused(run("reproduce", "--quick", "-o", loop), "a.csv")


def test_hostile_names_are_shown_harmlessly():
    name = "\x1b[2J\u202eevil\u2066 [red]x[/red] <b>\x07\x00\x9b"
    shown = harmless(name)
    assert shown == "\\x1b[2J\\u202eevil\\u2066 [red]x[/red] <b>\\x07\\x00\\x9b"
    assert shown in drawn(("decisions by", "value"), [(name, "1")])
    assert text(name) == shown.replace("<b>", "&lt;b&gt;")
    assert text("a\n\tb") == "a\n\tb"  # of an expression


@pytest.mark.usefixtures("any_predictor")
def test_a_damaged_folder_of_progress_is_a_sentence(tmp_path):
    options = ("--rounds", "4", "--items", "4", "--epsilon", "1/4", "--batch-size", "64")
    command = ("reproduce", "--quick", "--paper", "--problem", "best-action", *options)
    whole = run(*command, "-o", tmp_path)
    assert whole.exit_code == 0, whole.stderr
    part = next(path for path in (tmp_path / "parts").iterdir() if path.suffix == ".json")
    content = part.read_text()
    for damage in (
        content.replace('"tables": {', '"tables": {"none": [], "x": {', 1) + "}",
        content.replace('"units"', '"unit"'),
        content.replace('"seconds": [', '"seconds": ["a", '),
        content.replace('"tables": ', '"tables": 1, "other": '),
    ):
        part.write_text(damage)
        result = run(*command, "-o", tmp_path)
        assert result.exit_code in (0, 2), result.stderr
        assert result.exit_code == 0 or refused(result, "damaged", "parts")
    part.unlink()
    progress = part.with_name(part.name.replace(".json", ".progress.json"))
    made = content[: content.index('"tables"')]
    for damage in ('"progress": {}}', '"progress": [1]}', '"progress": {"round": "x"}}'):
        progress.write_text(made + damage)
        assert refused(run(*command, "-o", tmp_path), "damaged", "parts")
