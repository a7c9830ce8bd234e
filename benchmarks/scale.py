"""How time, memory and disk of a fit on Parquet files grow with the number of instances.

    python benchmarks/scale.py --write-costs --docs docs/scale.md    # 1 and 10 million instances
    python benchmarks/scale.py --instances 20000 100000 --sample 20000       # a trial

Every run is a process of its own. Its memory is capped by RLIMIT_AS, the address space: whatever is
mapped counts too, so that a run cannot pass because the system lends it the page cache; allocators
are told to give back the addresses of what they free. The files are written first, 100,000
instances each, and neither that nor the start of Python is timed. --folder needs room for the
files, 160 bytes per instance, and for scratch files, 400.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ITEMS, RULES, PER_FILE, GIB = 10, 100, 100_000, 1 << 30
EPSILON = 0.003  # fixed: what data support falls with their number, and takes more rounds
BASE = 3.5e8  # bytes of a process that has loaded all libraries and fitted a hundred instances
HERE = Path(__file__).parent
# Allocators keep addresses of memory that they have freed, which RLIMIT_AS would count.
RETURNING = {
    "_RJEM_MALLOC_CONF": "retain:false,dirty_decay_ms:0,muzzy_decay_ms:0",  # of Polars
    "MALLOC_ARENA_MAX": "2",
}
COSTS_FILE = HERE.parent / "src" / "outrule" / "model" / "costs.py"


def write_files(folder: Path, n: int, per_file: int = PER_FILE) -> None:
    """Offers whose scores are too high where a column is large; 100 rules are multipliers."""
    import numpy as np
    import polars as pl

    folder.mkdir(parents=True)
    for number, first in enumerate(range(0, n, per_file)):
        size = min(per_file, n - first)
        generator = np.random.default_rng((7, number))
        quality, km = generator.random((2, size * ITEMS))
        lift = np.tile(0.5 + np.arange(ITEMS) / (2 * ITEMS), size)
        chance = quality * lift * np.where(km > 0.6, 0.5, 1.0)
        pl.DataFrame(
            {
                "visit": np.repeat(np.arange(first, first + size), ITEMS),
                "item": np.tile(np.arange(ITEMS), size),
                "km": km,
                "score": quality,
                "bought": (generator.random(size * ITEMS) < chance).astype(np.uint8),
            }
        ).write_parquet(folder / f"part-{number:05}.parquet")


def fit(folder: Path, scratch: Path, jobs: int | None, sample: int) -> dict[str, float]:
    """Fit on the files; seconds by phase."""
    import outrule
    from outrule import threads
    from outrule.model import partitioned
    from outrule.model.surveying import survey

    columns = {"instance": "visit", "item": "item", "prediction": "score", "outcome": "bought"}
    data = outrule.Partitions(folder, **columns, sample=sample, scratch=scratch)
    rules = [
        outrule.Multiplier(dict(enumerate(rule.vector.tolist())), rule.name)
        for rule in outrule.multipliers(ITEMS, limit=RULES, seed=0)
    ]
    calibrator = outrule.DecisionCalibrator(outrule.BestAction(), rules, EPSILON, n_jobs=jobs)
    settings, marks = calibrator.settings(), [time.perf_counter()]
    pieces = partitioned._pieces

    @contextmanager
    def timed(*args: Any) -> Iterator[Any]:
        marks.append(time.perf_counter())
        with pieces(*args) as opened:
            marks.append(time.perf_counter())
            yield opened

    partitioned._pieces = timed
    with threads.using(jobs):
        found = survey(data, settings.problem)
        marks.append(time.perf_counter())
        model = partitioned.fit_surveyed(settings, found)
    end = time.perf_counter()
    begin, surveyed, started, built = marks
    decide, predict = small_costs(model, found, scratch)
    return {
        "survey": surveyed - begin,
        "start": started - surveyed,
        "build": built - started,
        "loop": end - built,
        "seconds": end - begin,
        "rounds": len(model.history),
        "patches": len(model.patches),
        "values": round(float(model.rule_values.max()), 6),
        "decide_per_row_and_rule": decide,
        "predict_per_row": predict,
    }


def small_costs(model: Any, found: Any, scratch: Path) -> tuple[float, float]:
    """Seconds per row and rule to decide, and per row to read, predict and write; of one file."""
    import polars as pl

    from outrule.rules.decisions import decide_all

    begin = time.perf_counter()
    instances = found.readers[0].read()
    pl.DataFrame({"calibrated": model.predict(instances)}).write_parquet(scratch / "one.parquet")
    rows, middle = len(instances.prediction), time.perf_counter()
    decide_all(model.rules, instances, model.problem, model.problem.lay(instances))
    return (time.perf_counter() - middle) / rows / len(model.rules), (middle - begin) / rows


def watch_disk(scratch: Path, largest: list[int], stop: threading.Event) -> None:
    while not stop.wait(1.0):
        used = 0
        for path in scratch.rglob("*"):
            try:
                used += path.stat().st_blocks * 512
            except OSError:
                continue
        largest[0] = max(largest[0], used)


def run(folder: Path, n: int, cap: float, jobs: int | None, sample: int) -> dict[str, float]:
    """One run in a process of its own, with its memory capped."""
    command = [sys.executable, __file__, "--worker", str(folder), "--cap", str(cap)]
    command += ["--sample", str(sample)]
    command += [] if jobs is None else ["--jobs", str(jobs)]
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        largest, stop = [0], threading.Event()
        watcher = threading.Thread(target=watch_disk, args=(Path(scratch), largest, stop))
        watcher.start()
        try:
            done = subprocess.run(
                [*command, "--scratch", scratch],
                check=True,
                capture_output=True,
                text=True,
                env=os.environ | RETURNING,
            )
        except subprocess.CalledProcessError as error:
            sys.exit(f"the run on {n:,} instances failed:\n{error.stderr[-2000:]}")
        finally:
            stop.set()
            watcher.join()
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    size = sum(path.stat().st_size for path in folder.glob("*.parquet"))
    return {"instances": n, **found, "disk_gb": largest[0] / 1e9, "parquet_gb": size / 1e9}


def work(folder: Path, scratch: Path, cap: float, jobs: int | None, sample: int) -> None:
    limit = int(cap * GIB)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    found = fit(folder, scratch, jobs, sample)
    found["peak_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    status = Path("/proc/self/status").read_text().splitlines()
    mapped = next(int(line.split()[1]) for line in status if line.startswith("VmPeak"))
    found["address_gib"] = mapped / (1 << 20)
    print(json.dumps(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instances", type=int, nargs="*", default=[1_000_000, 10_000_000])
    parser.add_argument("--cap", type=float, default=6.0, help="GiB of address space")
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--sample", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where there is room")
    parser.add_argument("--output", type=Path, default=HERE / "results" / "scale.json")
    parser.add_argument("--docs", type=Path, help="page for the table")
    parser.add_argument("--write-costs", action="store_true", help="those of `outrule plan`")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--scratch", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker is not None:
        work(given.worker, given.scratch, given.cap, given.jobs, given.sample)
        return
    place = Path(tempfile.mkdtemp(prefix="outrule-scale-", dir=given.folder))
    runs = []
    try:
        for n in given.instances:
            # In a process of its own, which leaves no threads and no memory behind.
            writer = multiprocessing.Process(target=write_files, args=(place / str(n), n))
            writer.start()
            writer.join()
            runs.append(run(place / str(n), n, given.cap, given.jobs, given.sample))
            print(json.dumps(runs[-1], indent=1))
            shutil.rmtree(place / str(n))
    finally:
        shutil.rmtree(place)
    per_instance = [one["seconds"] / one["instances"] for one in runs]
    ratio = per_instance[-1] / per_instance[0]
    lines = table_of(runs)
    print("\n".join(lines))
    print(f"time per instance, last against first: {ratio:.2f}")
    machine = {"cores": os.cpu_count(), "python": platform.python_version()}
    shape = {"items": ITEMS, "rules": RULES, "epsilon": EPSILON, "sample": given.sample}
    shape |= {"cap_gib": given.cap, "cap": "RLIMIT_AS"}
    result = {"machine": machine, **shape, "ratio_per_instance": ratio, "runs": runs}
    given.output.write_text(json.dumps(result, indent=1) + "\n")
    if given.write_costs:
        write_costs(runs, given.sample)
    if given.docs is not None:
        write_table(given.docs, lines)


def table_of(runs: list[dict[str, float]]) -> list[str]:
    """The runs as a table: seconds by phase, memory and disk."""
    names = ("instances", "read", "start", "decide", "loop", "rounds", "all", "per instance")
    sizes = ("memory", "addresses", "scratch", "Parquet")
    lines = [" | ".join(["", *names, *sizes, ""]).strip(), "|---" * 12 + "|"]
    for one in runs:
        phases = [f"{one[name]:,.0f} s" for name in ("survey", "start", "build", "loop")]
        whole = f"{one['seconds']:,.0f} s", f"{one['seconds'] / one['instances'] * 1e6:.0f} µs"
        spans = (f"{one['peak_gb']:.1f} GB", f"{one['address_gib']:.1f} GiB")
        disk = (f"{one[name]:.2f} GB" for name in ("disk_gb", "parquet_gb"))
        cells = (f"{one['instances']:,}", *phases, str(one["rounds"]), *whole, *spans, *disk)
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def write_table(page: Path, lines: list[str]) -> None:
    """Put the table between its markers."""
    first, last = "<!-- table: benchmarks/scale.py -->", "<!-- end of table -->"
    head, _, rest = page.read_text(encoding="utf-8").partition(first)
    _, _, tail = rest.partition(last)
    page.write_text("\n".join([head + first, *lines, last]) + tail, encoding="utf-8")


def write_costs(runs: list[dict[str, float]], sample: int) -> None:
    """The module from which `outrule plan` calculates; times are those of the largest run."""
    small, large = min(runs, key=size_of), max(runs, key=size_of)
    rows = large["instances"] * ITEMS
    sampled = min(large["instances"], sample) * ITEMS
    decide = large["decide_per_row_and_rule"]
    costs = {
        "read": (large["survey"] / rows, "seconds per row: read, and check values and names"),
        "start": (large["start"] / sampled, "per row of the sample"),
        "build": (max(large["build"] / rows - RULES * decide, 0.0), "per row, besides decisions"),
        "decide": (decide, "per row and rule"),
        "round": (large["loop"] / large["rounds"] / rows, "per row"),
        "predict": (large["predict_per_row"], "per row: read, predict and write"),
        "memory": (BASE, "bytes, however few the data"),
        "memory_row": (
            (small["peak_gb"] * 1e9 - BASE) / (min(small["instances"], sample) * ITEMS),
            "per row of the sample",
        ),
    }
    shown = {
        name: (f"{value:.2g}".replace("e+", "e"), words) for name, (value, words) in costs.items()
    }
    lines = [f'    "{name}": {value},  # {words}\n' for name, (value, words) in shown.items()]
    head = (
        '"""What parts of a fit cost, for ``outrule plan``: '
        'benchmarks/scale.py --write-costs writes it."""'
    )
    COSTS_FILE.write_text(f"{head}\n\nCOSTS = {{\n{''.join(lines)}}}\n")


def size_of(run: dict[str, float]) -> float:
    return run["instances"]


if __name__ == "__main__":
    main()
