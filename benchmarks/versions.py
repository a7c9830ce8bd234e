"""Is this checkout faster or slower than another version of outrule?

    python benchmarks/versions.py COMMIT

Both versions do the same work in turns, each in a process of its own that has done it once before.
Prints seconds of the other version and of this checkout, and the median and range of their ratios
on the clock of the wall, and the ratio in CPU seconds. Works back to versions whose default is the
paper's algorithm; all fits here are its.
"""

import argparse
import inspect
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]


def works() -> dict[str, Callable[[], Callable[[], Any]]]:
    """Each prepares its data, and returns the work that is timed."""
    import outrule

    found: dict[str, Callable[[], Callable[[], Any]]] = {}

    def solve(problem: Any, n: int, m: int) -> Callable[[], Any]:
        weights = np.random.default_rng(0).random((n, m))
        return lambda: problem.solve(weights)

    for side, n in {5: 1_000_000, 10: 300_000, 20: 100_000, 50: 20_000, 100: 4_000}.items():
        case = (outrule.Assignment(side, side), n, side * side)
        found[f"{side}x{side} assignment"] = partial(solve, *case)
    for nodes, n in {10: 2_000_000, 20: 40_000, 50: 4_000, 100: 600}.items():
        case = (outrule.Matching.complete(nodes), n, nodes * (nodes - 1) // 2)
        found[f"K{nodes} matching"] = partial(solve, *case)
    tree = outrule.GraphicMatroid.complete(10)
    found["K10 heaviest tree"] = partial(solve, tree, 500_000, 45)

    def calibrator(problem: Any, m: int, n_rules: int, epsilon: float, **more: Any) -> Any:
        known = inspect.signature(outrule.DecisionCalibrator).parameters
        paper = {"start": None} | ({"rivals": ()} if "rivals" in known else {})
        rules = outrule.multipliers(m, limit=n_rules)
        return outrule.DecisionCalibrator(problem, rules, epsilon, **paper, **more)

    def draw(m: int, n: int) -> tuple[np.ndarray, np.ndarray]:
        world = outrule.worlds.Quadratic(m, seed=0)
        return outrule.worlds.draw(world, outrule.worlds.brief_predictor(world), n, seed=1)

    def fit(problem: Any, m: int, n: int, *rest: Any, **more: Any) -> Callable[[], Any]:
        model, data = calibrator(problem, m, *rest, **more), draw(m, n)
        return lambda: model.fit(*data)

    def predict(n: int, times: int) -> Callable[[], Any]:
        model = calibrator(outrule.BestAction(), 16, 256, 1 / 32).fit(*draw(16, 20_000))
        rows = np.random.default_rng(0).random((n, 16))
        return lambda: [model.predict(rows) for _ in range(times)]

    action, matching, top = outrule.BestAction(), outrule.Matching.complete(10), outrule.TopK(5)
    fits = {
        "best action, 100,000 x 16, 1,024 rules": (action, 16, 100_000, 1_024, 1 / 64),
        "best action, 20,000 x 16, 256 rules": (action, 16, 20_000, 256, 1 / 32),
        "matching K10, 5,000 x 45, 256 rules": (matching, 45, 5_000, 256, 1 / 8),
        "top 5 of 30, 20,000 x 30, 256 rules": (top, 30, 20_000, 256, 1 / 32),
    }
    for words, settings in fits.items():
        found[f"fit, {words}"] = partial(fit, *settings)
    small = fits["best action, 20,000 x 16, 256 rules"]
    found["fit, the same with a fixed step"] = partial(fit, *small, step=outrule.FixedStep())
    found["predict one instance, 1,000 times"] = partial(predict, 1, 1_000)
    found["predict a million instances"] = partial(predict, 1_000_000, 1)
    return found


def worker() -> None:
    """Prepare and do the works named on standard input, a line each; print both clocks."""
    warnings.simplefilter("ignore")
    known, work = works(), None
    print(json.dumps(list(known)), flush=True)
    for line in sys.stdin:
        if name := line.strip():
            work = known[name]()
            work()
            print("ready", flush=True)
        elif work is not None:
            wall, cpu = time.perf_counter(), time.process_time()
            work()
            print(time.perf_counter() - wall, time.process_time() - cpu, flush=True)


class Version:
    """A process with one version of the package."""

    def __init__(self, source: Path, cache: Path) -> None:
        more = {"PYTHONPATH": str(source), "NUMBA_CACHE_DIR": str(cache)}
        command = [sys.executable, __file__, "--worker"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process: Any = subprocess.Popen(command, env=os.environ | more, **pipes)
        self.names = json.loads(self.process.stdout.readline())

    def ask(self, line: str) -> str:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return str(self.process.stdout.readline())

    def seconds(self) -> tuple[float, ...]:
        return tuple(map(float, self.ask("").split()))


def compared(versions: list[Version], turns: int) -> Iterator[tuple[str, np.ndarray]]:
    """Seconds by turn, version and clock, of each work that both can do."""
    for name in versions[1].names:
        if name not in versions[0].names:
            continue
        for version in versions:
            version.ask(name)
        times = np.empty((turns, 2, 2))
        for turn in range(turns):
            for which in (0, 1) if turn % 2 else (1, 0):
                times[turn, which] = versions[which].seconds()
        yield name, times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("commit", nargs="?", default="HEAD~1")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker()
        return
    with tempfile.TemporaryDirectory() as folder:
        command = ["git", "-C", str(ROOT), "archive", options.commit, "src"]
        tree = subprocess.run(command, check=True, capture_output=True).stdout
        with tarfile.open(fileobj=io.BytesIO(tree)) as archive:
            archive.extractall(folder, filter="data")
        sources = (Path(folder) / "src", ROOT / "src")
        versions = [Version(source, Path(folder) / str(k)) for k, source in enumerate(sources)]
        print("| work | before, s | now, s | now / before (range) | CPU |\n|---|---|---|---|---|")
        for name, times in compared(versions, options.turns):
            ratio = times[:, 1] / times[:, 0]
            wall, cpu = np.median(ratio, axis=0)
            before, now = np.median(times[:, :, 0], axis=0)
            span = f"{ratio[:, 0].min():.2f} to {ratio[:, 0].max():.2f}"
            print(
                f"| {name} | {before:.3g} | {now:.3g} | {wall:.2f} ({span}) | {cpu:.2f} |",
                flush=True,
            )
        for version in versions:
            version.process.stdin.close()


if __name__ == "__main__":
    main()
