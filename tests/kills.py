"""Commands in trouble: killed at random moments, on a full disk, with little memory, two at once.

Not part of the tests, since each moment takes seconds:

    python tests/kills.py [--moments 100] [--command fit] [--seed 0]

For each command, it runs thrice to the end, and then it is killed as often as asked (SIGKILL, and
for every nine of these a SIGINT): after a random part of the usual time, and every fourth time as
soon as a draft of the output appears. It runs in a copy of this process that has imported all
libraries already, so that the moments are those of its work. After a kill the output must be whole
or absent, and after the next run that ends the folder holds the same files as after the first, byte
for byte. Then each command runs with a full disk (a small tmpfs, where root may mount one), in a
folder that is read-only, with little memory, and twice at once on one output: each is the right
answer, or one sentence and no file. Prints counts; the exit code is 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import os
import pkgutil
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from processes import is_asleep, processor_time

OUTRULE = [sys.executable, "-m", "outrule"]
REPRODUCE = ["--quick", "--paper", "--problem", "best-action", "--rounds", "64", "--items", "4"]
PATIENCE = 120  # seconds for which all threads sleep
LONGEST = 600  # seconds of processor time
CHANGING = (".html", "results.json", ".parquet")  # of `reproduce`: they say how long it took


def commands(data: Path, target: Path) -> dict[str, list[str]]:
    """The commands, each with its output in a folder of its own."""
    model, later = str(data / "model.json"), str(data / "trips" / "new_trips.csv")
    past, spec = str(data / "trips" / "trips.csv"), str(data / "trips" / "spec.toml")
    return {
        "fit": ["fit", past, "--spec", spec, "-o", str(target / "model.json")],
        "predict": ["predict", model, later, "-o", str(target / "out.csv")],
        "decide": ["decide", model, later, "-o", str(target / "out.parquet")],
        "certify": ["certify", model, later, "-o", str(target / "certificate.json")],
        "reproduce": ["reproduce", *REPRODUCE, "-o", str(target)],
    }


def start(words: list[str], **options: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["nice", *OUTRULE, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        **options,  # type: ignore[call-overload]
    )


class Fork:
    """A command in a copy of this process; what it says on standard error goes to a file."""

    def __init__(self, words: list[str], said: Path) -> None:
        self.said = said
        self.code: int | None = None
        self.process = os.fork()
        if not self.process:
            self._run(words)

    def _run(self, words: list[str]) -> None:
        from outrule.cli import run  # loaded before

        code = 70
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(os.open(self.said, flags), 2)
            signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may ignore it
            sys.argv = ["outrule", *words]
            run()
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 0
        except KeyboardInterrupt:  # before `run` could hear of it
            code = 130
        finally:
            os._exit(code)

    def poll(self) -> int | None:
        """The exit code, if it has ended."""
        if self.code is None:
            process, status = os.waitpid(self.process, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if process else None
        return self.code

    def wait(self) -> int:
        if self.code is None:
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
        return self.code

    def kill(self, how: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.process, how)


def load_everything() -> None:
    """Import what commands import when they need it, but use nothing: Polars must not be forked."""
    import outrule

    for module in pkgutil.walk_packages(outrule.__path__, "outrule."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def content(folder: Path) -> dict[str, str]:
    """What a folder holds: of files that say a time, only that they are there."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and not name.startswith("parts"):
            loose = "reproduce" in str(folder) and name.endswith((*CHANGING, ".md", ".svg", ".png"))
            found[name] = "" if loose else hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def kill_at_random(name: str, data: Path, root: Path, moments: int, dice: random.Random) -> Counter:
    """Kill a command ``moments`` times with SIGKILL, and let it end after each."""
    counts: Counter = Counter()
    target = root / name
    target.mkdir()
    words, said = commands(data, target)[name], root / f"{name}.said"
    lengths = []
    for _ in range(3):
        begun = time.monotonic()
        Fork(words, said).wait()
        lengths.append(time.monotonic() - begun)
    expected = content(target)
    number = 0
    while counts["killed"] < moments:
        number += 1
        for path in sorted(target.rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        process = Fork(words, said)
        if number % 4 == 3:
            wait_for_draft(process, target)
        else:
            time.sleep(dice.random() * sorted(lengths)[1])
        process.kill(signal.SIGINT if number % 10 == 9 else signal.SIGKILL)
        code = process.wait()
        counts["killed"] += code == -signal.SIGKILL
        counts["interrupted"] += code == 130
        counts["ended before"] += code in (0, 1, 3)
        counts["OTHER CODES"] += code not in (-signal.SIGKILL, 130, 0, 1, 3)
        counts["TRACEBACKS"] += said.exists() and "Traceback" in said.read_text()
        left = content(target)
        partial = {file for file, digest in left.items() if expected.get(file) not in (digest, "")}
        drafts = {file for file in partial if Path(file).name.startswith(".")}
        counts["drafts left by a kill"] += len(drafts)
        counts["PARTIAL OUTPUT"] += len(partial - drafts)
        Fork(words, said).wait()
        after = content(target)
        counts["DRAFTS AFTER THE NEXT RUN"] += len(set(after) - set(expected))
        counts["ANOTHER RESULT"] += {k: after.get(k) for k in expected} != expected
        if number % 10 == 0:
            print(f"  {name} after {number} moments: {dict(counts)}", file=sys.stderr, flush=True)
    return counts


def wait_for_draft(process: Fork, target: Path) -> None:
    """Wait until a process has begun to write, or has ended."""
    while process.poll() is None:
        if any(path.name.startswith(".") for path in target.iterdir()):
            return
        time.sleep(0.0005)


def judged(name: str, process: subprocess.Popen[bytes], target: Path, expected: set[str]) -> str:
    """The right answer, a sentence and no file, or what went wrong."""
    said, asleep = None, 0
    while said is None:
        try:
            said = process.communicate(timeout=1)[1].decode()
        except subprocess.TimeoutExpired:
            asleep = asleep + 1 if is_asleep(process.pid) else 0
            if asleep >= PATIENCE or processor_time(process.pid) > LONGEST:
                process.kill()
                process.communicate()
                return "hung in a library"
    good = (0, 1, 3) if name == "certify" else (0,)
    left = {path.name for path in target.iterdir()} - {"filler", "parts"}
    if process.returncode in good:
        return "right answer" if expected <= left else "NO OUTPUT"
    outcome = "BAD"
    if process.returncode == 2 and said.startswith("Error: ") and said.count("\n") == 1:
        outcome = "a sentence"
    elif process.returncode not in (0, 1, 3) and "Traceback" not in said:
        outcome = "ended by a library that had no memory"
    return outcome if not left & expected else f"{outcome}, AND A FILE"


def troubles(name: str, data: Path, root: Path) -> dict[str, str]:
    """What a command does in places and times that are not made for it."""
    found = {}
    expected = {Path(commands(data, root)[name][-1]).name} if name != "reproduce" else {"claims.md"}
    full = root / f"full-{name}"
    full.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(full)]
    if os.getuid() == 0 and subprocess.run(mount, capture_output=True).returncode == 0:
        (full / "filler").write_bytes(bytes(60_000))
        found["full disk"] = judged(name, start(commands(data, full)[name]), full, expected)
        subprocess.run(["umount", str(full)], check=True)
    read_only = root / f"read-only-{name}"
    read_only.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k,ro", "tmpfs", str(read_only)]
    if os.getuid() == 0 and subprocess.run(mount, capture_output=True).returncode == 0:
        words = commands(data, read_only)[name]
        found["read-only folder"] = judged(name, start(words), read_only, expected)
        subprocess.run(["umount", str(read_only)], check=True)
    for megabytes in (1_000, 1_500, 2_500):
        small = root / f"small-{megabytes}-{name}"
        small.mkdir()
        limit = (megabytes << 20,) * 2
        process = start(
            commands(data, small)[name],
            preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_AS, limit),
        )
        found[f"{megabytes:,} MB of memory"] = judged(name, process, small, expected)
    both = root / f"both-{name}"
    both.mkdir()
    pair = [start(commands(data, both)[name]) for _ in range(2)]
    found["two at once"] = " / ".join(judged(name, process, both, expected) for process in pair)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moments", type=int, default=100)
    parser.add_argument("--command", action="append")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    bad = False
    load_everything()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        data = root / "data"
        data.mkdir()
        start(["example", str(data / "trips")]).communicate()
        start(commands(data, data)["fit"]).communicate()
        for name in asked.command or commands(data, root):
            counts = kill_at_random(name, data, root, asked.moments, random.Random(asked.seed))
            print(name, dict(counts), flush=True)
            for trouble, outcome in troubles(name, data, root).items():
                print(f"  {trouble}: {outcome}", flush=True)
                bad |= outcome != outcome.lower()
            bad |= any(number and words.isupper() for words, number in counts.items())
    sys.exit(bad)


if __name__ == "__main__":
    main()
