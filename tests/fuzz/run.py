"""Try mutated files of every kind, and solvers and fits against their slow twins.

    python tests/fuzz/run.py --minutes 10
    python tests/fuzz/run.py --count 10000 --kind model --kind parquet

An input fails if it ends in an error that is not one of ours, a crash, more than 5 seconds, more
than 2 GB, or output on standard error. What failed is in FOLDER/KIND/findings, with the reason
beside it; mend the cause, and put the input into tests/fuzz/corpus/KIND.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
TESTS = HERE.parent
sys.path.append(str(TESTS))  # where this is run as a script

from processes import is_asleep, processor_time  # noqa: E402

FILES = ("model", "certificate", "watch", "spec", "sql", "csv", "parquet", "arrow")
KINDS = (*FILES, "solver", "fit")
BATCH = 1000  # inputs of a process
PAUSE = 5.0  # seconds between two looks at a process
BUSY = 600.0  # seconds of processor time for one input: the first ones compile
ASLEEP = 120.0  # seconds for one input in which no thread wants the processor
PATHS = (TESTS, TESTS / "model", TESTS / "problems", TESTS / "kernels", TESTS.parent / "src")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--kind", action="append", choices=KINDS, help="all, if not given")
    parser.add_argument("--count", type=int, help="inputs of each kind")
    parser.add_argument("--minutes", type=float, help="for all kinds together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="for findings; a temporary one by default")
    options = parser.parse_args()
    kinds = options.kind or list(KINDS)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="fuzz-"))
    failed = 0
    for kind in kinds:
        seconds = None if options.minutes is None else 60 * options.minutes / len(kinds)
        most = options.count or (1 << 60 if seconds else 1000)
        totals = campaign(kind, folder / kind, options.seed, most, seconds)
        failed += totals["failed"]
        print(f"{kind}: {json.dumps(totals)}", flush=True)
    if failed:
        print(f"{failed} inputs failed: see {folder}")
    return 1 if failed else 0


def campaign(
    kind: str, folder: Path, seed: int, most: int, seconds: float | None
) -> dict[str, int]:
    """Try the corpus and then ``most`` inputs, or as many as the time allows."""
    prepare(kind, folder)
    totals = {"tried": 0, "refused": 0, "failed": 0, "crashed": 0}
    number = -len(list((folder / "corpus").iterdir()))
    end = None if seconds is None else time.monotonic() + seconds
    while number < most and (end is None or time.monotonic() < end):
        last = min(number + BATCH, most)
        counts, reached = batch(kind, folder, seed, number, last)
        for name, value in counts.items():
            totals[name] += value
        number = reached
    return totals


def prepare(kind: str, folder: Path) -> None:
    """The folders of a kind, and the inputs of the past that failed; a batch makes the seeds."""
    for name in ("seeds", "findings", "corpus"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for path in (HERE / "corpus" / kind).glob("*"):
        (folder / "corpus" / path.name).write_bytes(path.read_bytes())


def surroundings() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(map(str, PATHS))}


class Watched:
    """A process that tries inputs, and since when it has tried the same one."""

    def __init__(self, process: int, progress: Path) -> None:
        self.process, self.progress = process, progress
        self.seen, self.since, self.asleep = "", 0.0, 0.0

    def hangs(self) -> str:
        """How, if it does; to be asked every few seconds."""
        before, self.seen = self.seen, self.progress.read_text()
        spent = processor_time(self.process)
        if self.seen != before:
            self.since, self.asleep = spent, 0.0
        self.asleep = self.asleep + PAUSE if is_asleep(self.process) else 0.0
        if self.asleep >= ASLEEP:
            return f"waited at one input for {self.asleep:g} s"
        return f"tried one input for {BUSY:g} s" if spent - self.since > BUSY else ""


def batch(kind: str, folder: Path, seed: int, first: int, last: int) -> tuple[dict[str, int], int]:
    """The counts of one process, and the number to go on with; if it dies, that is a finding."""
    command = [
        sys.executable,
        "-m",
        "fuzz.batch",
        kind,
        str(folder),
        *map(str, (seed, first, last)),
    ]
    (folder / "progress").write_text(f"{first} start")
    with (folder / "stderr").open("wb") as printed:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=printed, env=surroundings()
        )
        out, how = None, ""
        watched = Watched(process.pid, folder / "progress")
        while out is None:
            try:
                out, _ = process.communicate(timeout=PAUSE)
                how = how or f"ended with code {process.returncode}"
            except subprocess.TimeoutExpired:
                if how := watched.hangs():
                    process.kill()
    if process.returncode == 0:
        return json.loads(out), last
    number, base = (folder / "progress").read_text().split(" ", 1)
    current = next(iter(folder.glob("current.*")), None)
    if base == "start" or current is None:
        raise RuntimeError(f"the fuzzer of {kind} {how}: see {folder / 'stderr'}")
    target = folder / "findings" / f"{base}@crash-{seed}-{number}{current.suffix}"
    target.write_bytes(current.read_bytes())
    words = (folder / "stderr").read_bytes()[-5000:]
    target.with_suffix(".txt").write_bytes(f"the process {how}\n".encode() + words)
    tried = int(number) - first + 1
    return {"tried": tried, "failed": 1, "crashed": 1}, int(number) + 1


if __name__ == "__main__":
    sys.exit(main())
