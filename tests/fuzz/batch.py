"""A process that tries some inputs of one kind; what it is trying is always in a file.

    python -m fuzz.batch KIND FOLDER SEED FIRST LAST

FOLDER has the folders seeds, corpus and findings of the kind. A process that dies leaves its input
in FOLDER/current and its number in FOLDER/progress: run.py saves it and goes on behind it.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np

SECONDS = 5.0  # of processor time
SLOW = "the time was"
MEMORY = 2 << 30  # bytes, beyond those of the process itself
ROOM = 24 << 30  # bytes of address space, so that no input takes the machine


def new_kind(name: str) -> Any:
    """The kind of that name; solvers load what files do not need."""
    from fuzz.file_kinds import FILE_KINDS

    if name in FILE_KINDS:
        return FILE_KINDS[name]()
    from fuzz.solver_kinds import SOLVER_KINDS

    return SOLVER_KINDS[name]()


def main(name: str, folder: Path, seed: int, first: int, last: int) -> None:
    """Try the corpus (numbers below 0) and the inputs first to last - 1."""
    warnings.simplefilter("error")
    os.environ["OUTRULE_MEMORY"] = "2"
    kind = new_kind(name)
    if not any((folder / "seeds").iterdir()):
        kind.make_seeds(folder / "seeds")
    seeds = sorted((folder / "seeds").iterdir())
    corpus = sorted(path for path in (folder / "corpus").iterdir())
    resource.setrlimit(resource.RLIMIT_AS, (ROOM, ROOM))
    counts = {"tried": 0, "refused": 0, "failed": 0}
    for number in range(first, last):
        if number < 0:
            if -number > len(corpus):
                continue
            source = corpus[-number - 1]
            base, data = source.stem.partition("@")[0], source.read_bytes()
        else:
            generator = np.random.default_rng([seed, number])
            source = seeds[int(generator.integers(len(seeds)))]
            base, data = source.stem, kind.make(source.read_bytes(), generator)
        path = folder / f"current{kind.suffix}"
        path.write_bytes(data)
        (folder / "progress").write_text(f"{number} {base}")
        words = attempt(kind, path, base, counts)
        if words.startswith(SLOW):  # the first use of a kernel compiles it
            words = attempt(kind, path, base, counts)
        counts["tried"] += 1
        if words:
            counts["failed"] += 1
            save(folder, path, base, words)
    print(json.dumps(counts))


def attempt(kind: Any, path: Path, base: str, counts: dict[str, int]) -> str:
    """What went wrong, if anything; an error of ours is right."""
    from fuzz.file_kinds import REFUSALS

    start, before, printed = time.process_time(), peak(), os.fstat(2).st_size
    try:
        kind.use(path, base)
    except REFUSALS as error:
        counts["refused"] += 1
        if len(str(error)) > 12_000 or "Traceback" in str(error):
            return f"the message has {len(str(error))} characters"
    except BaseException:
        return traceback.format_exc()
    if (seconds := time.process_time() - start) > SECONDS:
        return f"{SLOW} {seconds:.1f} s"
    if (size := peak() - before) > MEMORY:
        return f"it took {size / 1e9:.1f} GB"
    if os.fstat(2).st_size > printed:
        return "something was printed on standard error"
    return ""


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def save(folder: Path, path: Path, base: str, words: str) -> None:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    target = folder / "findings" / f"{base}@{digest}{path.suffix}"
    shutil.copyfile(path, target)
    target.with_suffix(".txt").write_text(words)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:6]))
