"""Fits on a Dask cluster and with checkpoints whose processes are killed: same bits, and the cost.

    python benchmarks/kills.py                # 20 kills of a worker, 20 of the driver
    python benchmarks/kills.py --kills 2      # a trial

Two local workers with one thread each, 8 files. A worker is killed (SIGKILL) at a random moment of
a fit, the driver once its checkpoint holds a random number of looks; then it is started again, half
of the time on the cluster and half of the time on threads. Every model is compared byte by byte
with that of one undisturbed process. The overhead is the time of a round on 8 files that are so
small that there is next to nothing to calculate, minus that of the same round on threads.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from scale import ITEMS, write_files

import outrule
from outrule.calibration.partitioned import LocalPieces
from outrule.model.codec import to_text
from outrule.model.distributed import ClusterPieces, connect

FILES, SMALL = 8, 100  # instances of a small file
COLUMNS = {"instance": "visit", "item": "item", "prediction": "score", "outcome": "bought"}
HERE = Path(__file__)


def fit(folder: Path, client: Any = None, checkpoint: Path | None = None) -> str:
    rules = [
        outrule.Multiplier(dict(enumerate(rule.vector.tolist())), rule.name)
        for rule in outrule.multipliers(ITEMS, limit=20, seed=0)
    ]
    # Without the cross-fitted start, so that nearly all of the time is that of the loop.
    calibrator = outrule.DecisionCalibrator(outrule.BestAction(), rules, 0.01, start=None)
    data = outrule.Partitions(folder, **COLUMNS)
    return to_text(calibrator.fit(data, client=client, checkpoint=checkpoint).model_)


def time_rounds(engine: type, folder: Path, client: Any) -> list[float]:
    """Seconds of every round but the first."""
    advance, seconds = engine.advance, list[float]()

    def timed(self: Any, logs: Any) -> Any:
        begin = time.perf_counter()
        found = advance(self, logs)
        seconds.append(time.perf_counter() - begin)
        return found

    engine.advance = timed
    try:
        fit(folder, client)
    finally:
        engine.advance = advance
    return seconds[1:]


def wait_for_workers(cluster: Any, client: Any) -> None:
    """On a busy machine Dask may give up to start a worker again; then another one is started."""
    try:
        client.wait_for_workers(2, timeout=60)
    except TimeoutError:
        print("a worker did not come back: starting another one", flush=True)
        cluster.scale(len(cluster.workers) + 1)
        client.wait_for_workers(2, timeout=120)


def kill_workers(
    cluster: Any, client: Any, folder: Path, expected: str, kills: int, draw: random.Random
) -> dict[str, int]:
    """A worker is killed during every fit; how many were, and how many models are the same."""
    begin = time.perf_counter()
    fit(folder, client)
    duration = time.perf_counter() - begin
    print(f"a fit takes {duration:.1f} s", flush=True)
    killed, same = 0, 0
    while killed < kills:
        wait_for_workers(cluster, client)
        victim = draw.choice(sorted(client.run(os.getpid).values()))
        over, struck = threading.Event(), list[bool]()

        def strike(wait: float, victim: int, over: threading.Event, struck: list[bool]) -> None:
            if not over.wait(wait):
                with suppress(ProcessLookupError):  # it had died before
                    os.kill(victim, signal.SIGKILL)
                    struck.append(True)

        given = (draw.uniform(0.02, 0.95) * duration, victim, over, struck)
        killer = threading.Thread(target=strike, args=given)
        killer.start()
        found = fit(folder, client)
        over.set()
        killer.join()
        killed += bool(struck)
        same += bool(struck) and found == expected
        if struck:
            print(f"worker killed after {given[0]:.2f} s: {found == expected}", flush=True)
    return {"killed": killed, "same": same}


def kill_drivers(
    address: str, folder: Path, expected: str, looks: int, kills: int, draw: random.Random
) -> dict[str, int]:
    """The driver is killed during every fit, and started again."""
    killed, same = 0, 0
    while killed < kills:
        place = Path(tempfile.mkdtemp(dir=folder.parent))
        command = [sys.executable, str(HERE), "--driver", str(folder), "--place", str(place)]
        on_cluster = killed % 2 == 0
        command += ["--scheduler", address] if on_cluster else []
        wanted = draw.randrange(1, looks)
        driver = subprocess.Popen(command)
        while driver.poll() is None and count_looks(place) < wanted:
            time.sleep(0.001)
        driver.kill()
        if driver.wait() != -signal.SIGKILL:
            continue
        killed += 1
        left = count_looks(place)
        subprocess.run(command, check=True)
        found = (place / "model.json").read_text()
        same += found == expected
        words = "on the cluster" if on_cluster else "on threads"
        print(f"driver {words} killed after {left} looks: {found == expected}", flush=True)
    return {"killed": killed, "same": same}


def count_looks(place: Path) -> int:
    path = place / "checkpoint"
    return max(0, path.read_bytes().count(b"\n") - 1) if path.exists() else 0


def drive(folder: Path, place: Path, scheduler: str | None) -> None:
    client = None if scheduler is None else connect(scheduler)
    text = fit(folder, client, place / "checkpoint")
    (place / "model.json").write_text(text)


def measure(place: Path, instances: int, kills: int, seed: int) -> dict[str, Any]:
    from distributed import Client, LocalCluster

    draw = random.Random(seed)
    write_files(place / "small", FILES * SMALL, SMALL)
    write_files(place / "data", instances, instances // FILES)
    expected = fit(place / "data")
    with (
        LocalCluster(2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        undisturbed = fit(place / "data", client) == expected
        print(f"undisturbed: {undisturbed}", flush=True)
        fit(place / "small", client)
        here = time_rounds(LocalPieces, place / "small", None)
        there = time_rounds(ClusterPieces, place / "small", client)
        workers = kill_workers(cluster, client, place / "data", expected, kills, draw)
        wait_for_workers(cluster, client)
        looks = len(json.loads(expected)["history"])
        address = cluster.scheduler_address
        drivers = kill_drivers(address, place / "data", expected, looks, kills, draw)
    overhead = statistics.median(there) - statistics.median(here)
    tenths = statistics.quantiles(there, n=10)
    return {
        "files": FILES,
        "instances": instances,
        "looks": looks,
        "undisturbed_same": undisturbed,
        "workers": workers,
        "drivers": drivers,
        "rounds_timed": len(there),
        "overhead_ms": overhead * 1e3,
        "round_ms_90_percent": (tenths[8] - statistics.median(here)) * 1e3,
        "load": os.getloadavg()[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--instances", type=int, default=8_000)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--output", type=Path, default=HERE.parent / "results" / "kills.json")
    parser.add_argument("--driver", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--place", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--scheduler", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.driver is not None:
        drive(given.driver, given.place, given.scheduler)
        return
    with tempfile.TemporaryDirectory(prefix="outrule-kills-") as place:
        found = measure(Path(place), given.instances, given.kills, given.seed)
    print(json.dumps(found, indent=1))
    given.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
