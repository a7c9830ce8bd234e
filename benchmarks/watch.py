"""Watching: false alarms, delays beside two simpler tests, what a year costs, kill -9.

    python benchmarks/watch.py [--years 300] [--explored-years 300] [--kills 50] [--rows 10000]

Choose one of two actions, 0/1 outcomes, 100 instances a day. Two contexts of the same chance; the
model and each of two rules decide differently in one of them, so that the difference is 0 on half
of the instances. In training both rules are worse by 0.1. After deployment what the rules choose
changes: the true gap to both is then a number that we set. The margin is 0.02, the run length 20
years of days. Every stream is a year of days through `outrule.Watch`, with its four rivals.

weekly: a 95 % t-test of the last seven days, every day, alarm if a rule is better by more than the
margin. running: the same of all days since deployment. Both without any correction for looking
every day, for two rules. *Alarms* is the share of years with one. The delay is the median number of
days from the drop to the alarm, among years without an alarm before it.

explored: the same years, but 30 % of the decisions are random, and only the outcomes of what was
chosen are known, with their propensities.

Then a year of days with 10,000 rows each as one table through `outrule watch --batch-column`, and
the same small watch, killed at random moments: its state must end with the same bytes as without.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.special import stdtrit

import outrule

MARGIN, DAYS, SIZE, CHANGE = 0.02, 365, 100, 120
SHARE = 0.3  # of random decisions
PREDICTIONS = np.array([[0.6, 0.4], [0.4, 0.6]])  # by context
CASES = {  # the gap before the day of the change, and after it
    "exactly the margin": (-MARGIN, -MARGIN),
    "healthy": (0.01, 0.01),
    "drop to 0.03 below the margin": (0.01, -MARGIN - 0.03),
    "drop to 0.06 below the margin": (0.01, -MARGIN - 0.06),
}


def draw(n: int, gap: float, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Predictions and outcomes; both rules are worse than the optimiser by ``gap``."""
    predictions = PREDICTIONS[generator.integers(0, 2, n)]
    chance = np.where(predictions > 0.5, 0.6, 0.6 - 2 * gap)
    return predictions, (generator.random((n, 2)) < chance).astype(float)


def fitted() -> outrule.DecisionCalibrator:
    rules = [outrule.Fixed(0), outrule.Fixed(1)]
    calibrator = outrule.DecisionCalibrator(outrule.BestAction(), rules, MARGIN, start=None)
    return calibrator.fit(*draw(20_000, 0.1, np.random.default_rng(0)))


def year(case: str, seed: int) -> tuple[int | None, int | None, int | None]:
    """The days of the first alarms of a year: watch, weekly, running."""
    generator, watch = np.random.default_rng((seed, 1)), outrule.Watch(fitted_model)
    found: list[int | None] = [None, None, None]
    differences = np.empty((2, 0))
    for day in range(DAYS):
        gap = CASES[case][day >= CHANGE]
        predictions, outcomes = draw(SIZE, gap, generator)
        ours = np.where(predictions[:, 0] > 0.5, outcomes[:, 0], outcomes[:, 1])
        differences = np.concatenate([differences, ours - outcomes.T], axis=1)
        if found[0] is None:
            status = watch.update(predictions, outcomes, batch=day + 1)
            found[0] = day if status.status == "lost" else None
        for number, window in ((1, 7 * SIZE), (2, differences.shape[1])):
            if found[number] is None and below(differences[:, -window:]):
                found[number] = day
    return found[0], found[1], found[2]


def explored_year(case: str, seed: int) -> tuple[int | None]:
    """The day of the first alarm of a watch that sees the outcomes of explored decisions."""
    generator, watch = np.random.default_rng((seed, 2)), outrule.Watch(fitted_model)
    for day in range(DAYS):
        predictions, outcomes = draw(SIZE, CASES[case][day >= CHANGE], generator)
        best = np.argmax(predictions, axis=1)
        done = np.where(generator.random(SIZE) < SHARE, generator.integers(0, 2, SIZE), best)
        items = np.arange(2)
        batch = outrule.Instances.from_arrays(
            predictions,
            np.where(items == done[:, None], outcomes, np.nan),
            propensity=(1 - SHARE) * (items == best[:, None]) + SHARE / 2,
        )
        if watch.update(batch, batch=day + 1).status == "lost":
            return (day,)
    return (None,)


def below(d: np.ndarray) -> bool:
    """Whether a one-sided t-test finds a mean below minus the margin."""
    n = d.shape[1]
    error = d.std(axis=1, ddof=1) / np.sqrt(n)
    return bool((d.mean(axis=1) + MARGIN < stdtrit(n - 1, 0.05) * error).any())


def start_worker() -> None:
    global fitted_model
    fitted_model = fitted()


def streams(n_years: int, simulate: Callable[..., Any], tests: tuple[str, ...]) -> None:
    print(f"| {n_years} years each | test | alarms | before the drop | found | median delay |")
    print("|---|---|---|---|---|---|")
    with ProcessPoolExecutor(2, initializer=start_worker) as pool:
        for case, (before, after) in CASES.items():
            found = list(pool.map(simulate, [case] * n_years, range(n_years), chunksize=5))
            for test, days in zip(tests, zip(*found, strict=True), strict=True):
                row(case, test, days, drops=before != after)


def row(case: str, test: str, days: tuple[int | None, ...], *, drops: bool) -> None:
    alarms = np.mean([day is not None for day in days])
    words = f"| {case} | {test} | {alarms:.3f} |"
    if not drops:
        print(f"{words} | | |", flush=True)
        return
    early = np.mean([day is not None and day < CHANGE for day in days])
    after = [day for day in days if day is None or day >= CHANGE]
    late = np.mean([day is not None for day in after]) if after else np.nan
    delays = sorted(np.inf if day is None else day - CHANGE for day in after)
    delay = delays[len(delays) // 2] if delays else np.inf
    shown = f"{delay:.0f} days" if np.isfinite(delay) else "-"
    print(f"{words} {early:.3f} | {late:.3f} | {shown} |", flush=True)


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "outrule", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False)


def table(folder: Path, n_rows: int, days: int) -> None:
    """A spec, a model, and a table of some days."""
    generator = np.random.default_rng(3)
    for name, n, first in (("past", 20_000, 0), ("days", days * n_rows // 2, 20_000)):
        predictions, outcomes = draw(n, 0.1 if name == "past" else 0.01, generator)
        trip = first + np.arange(n)
        pl.DataFrame(
            {
                "trip": np.repeat(trip, 2),
                "day": np.repeat(np.arange(n) * days // n, 2),
                "driver": np.tile(["a", "b"], n),
                "score": predictions.ravel(),
                "done": outcomes.ravel(),
            }
        ).write_parquet(folder / f"{name}.parquet")
    (folder / "spec.toml").write_text(
        'epsilon = 0.02\nproblem = {kind = "best action"}\n'
        'data = {instance = "trip", prediction = "score", outcome = "done", item = "driver"}\n'
        '[[rules]]\nname = "first"\nalways = "a"\n[[rules]]\nname = "second"\nalways = "b"\n'
    )
    fit = run(folder, "fit", "past.parquet", "--spec", "spec.toml", "-o", "model.json")
    assert fit.returncode == 0, fit.stderr


def one_year(n_rows: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table(folder, n_rows, DAYS)
        start = time.perf_counter()
        words = ("watch", "model.json", "days.parquet", "--state", "watch.json")
        done = run(folder, *words, "--batch-column", "day", "-o", "watch.html")
        seconds = time.perf_counter() - start
        assert done.returncode in (0, 3), done.stderr
        size = (folder / "watch.json").stat().st_size
    print(f"{DAYS} days of {n_rows:,} rows: {seconds:.1f} s; state of {size / 1e3:.0f} kB")


def counted(state: Path, day: int) -> bool:
    return state.exists() and json.loads(state.read_text())["history"][-1][0] == day


def kills(times: int) -> None:
    """Kill a watch at random moments; run it again until it has counted everything."""
    with tempfile.TemporaryDirectory() as name:
        folder, chance = Path(name), random.Random(0)
        table(folder, 200, 20)
        frame = pl.read_parquet(folder / "days.parquet")
        for day in range(20):
            frame.filter(pl.col("day") == day).write_parquet(folder / f"{day}.parquet")

        def command(day: int, state: str) -> list[str]:
            words = ["watch", "model.json", f"{day}.parquet", "--state", state]
            return [sys.executable, "-m", "outrule", *words, "--batch-key", str(day)]

        durations = []
        for day in range(20):
            start = time.perf_counter()
            subprocess.run(command(day, "whole.json"), cwd=folder, capture_output=True, check=False)
            durations.append(time.perf_counter() - start)
        killed = {"before": 0, "after": 0}  # the batch was counted
        for day in range(20):
            wanted = times * (day + 1) // 20
            while sum(killed.values()) < wanted:
                process = subprocess.Popen(
                    command(day, "killed.json"),
                    cwd=folder,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
                time.sleep(chance.uniform(0.3, 1.1) * min(durations))
                alive = process.poll() is None
                process.kill()
                process.wait()
                if alive:
                    killed["after" if counted(folder / "killed.json", day) else "before"] += 1
            last = command(day, "killed.json")
            done = subprocess.run(last, cwd=folder, capture_output=True, check=False)
            assert done.returncode in (0, 1, 3)
        same = (folder / "killed.json").read_bytes() == (folder / "whole.json").read_bytes()
    words = f"{killed['before']} times before a batch was counted, {killed['after']} times after"
    print(f"killed {words}: the state is {'the same' if same else 'ANOTHER'}")
    assert same


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="False alarms, delays, cost and kills of a watch.")
    parser.add_argument("--years", type=int, default=300)
    parser.add_argument("--explored-years", type=int, default=300)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--rows", type=int, default=10_000)
    given = parser.parse_args()
    if given.years:
        streams(given.years, year, ("watch", "weekly", "running"))
    if given.explored_years:
        streams(given.explored_years, explored_year, ("explored",))
    if given.rows:
        one_year(given.rows)
    if given.kills:
        kills(given.kills)
