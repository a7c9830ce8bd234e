"""All speed figures in one run: ours and the peers', as Markdown and JSON.

    pip install -e '.[bench]'
    python benchmarks/run.py [--quick] [-o benchmarks/results]

Every ratio is between times of this run on this machine; ours uses all cores, a peer what it can.
`--quick` takes fewer rows (about two minutes), the whole run about fifteen on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import naive
import numpy as np

import outrule


def seconds(work: Callable[..., Any], *args: Any, repeats: int = 3) -> float:
    """The shortest time of a few runs; the first run, which compiles, is not counted."""
    work(*args)
    return min(once(work, *args)[0] for _ in range(repeats))


def once(work: Callable[..., Any], *args: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work(*args)
    return time.perf_counter() - start, result


def matchings(quick: bool) -> Iterable[dict[str, Any]]:
    """Complete graphs, uniform weights, against rustworkx (reused graph) and networkx."""
    import networkx

    sizes = {10: 200_000, 20: 20_000, 50: 2_000, 100: 500}
    for n_nodes, n in sizes.items():
        n = n // 10 if quick else n
        problem = outrule.Matching.complete(n_nodes)
        peer = naive.RustworkxMatching(n_nodes)
        m = len(peer.edges)
        weights = np.random.default_rng(n_nodes).random((n, m))
        ours = seconds(problem.solve, weights, repeats=10) / n
        few = weights[: max(20, min(n, int(3 / (2e-8 * n_nodes**3.2))))]
        whole = n_nodes == 10 and not quick
        rows = weights if whole else few
        theirs, marks = once(peer, rows)
        theirs /= len(rows)
        same = np.isclose(
            (rows * problem.solve(rows)).sum(axis=1), (rows * marks).sum(axis=1), rtol=1e-9
        )
        graph = networkx.Graph()
        graph.add_weighted_edges_from(
            (i, j, float(w)) for (i, j), w in zip(peer.edges, weights[0], strict=True)
        )
        slow, _ = once(networkx.max_weight_matching, graph)
        yield {
            "work": f"K{n_nodes} matching, {n:,} rows",
            "peer": f"rustworkx, {len(rows):,} rows (equal value on {same.mean():.0%})",
            "ours": ours,
            "theirs": theirs,
            "unit": "s per row",
        }
        yield {
            "work": f"K{n_nodes} matching, {n:,} rows",
            "peer": "networkx, 1 row",
            "ours": ours,
            "theirs": slow,
            "unit": "s per row",
        }


def assignments(quick: bool) -> Iterable[dict[str, Any]]:
    """Square assignments, uniform weights, against scipy and lapx."""
    import lap
    from scipy.optimize import linear_sum_assignment

    def scipy_loop(matrices: np.ndarray) -> list[Any]:
        return [linear_sum_assignment(matrix, maximize=True) for matrix in matrices]

    def lapx_batch(matrices: np.ndarray) -> Any:
        return lap.lapjvr_batch(-matrices, n_threads=os.cpu_count())

    for side, n in {5: 200_000, 10: 200_000, 20: 50_000, 50: 5_000, 100: 1_000}.items():
        n = n // 10 if quick else n
        problem = outrule.Assignment(side, side)
        weights = np.random.default_rng(side).random((n, side * side))
        matrices = weights.reshape(n, side, side)
        ours = seconds(problem.solve, weights) / n
        theirs, _ = once(scipy_loop, matrices)
        batch = seconds(lapx_batch, matrices)
        for peer, taken in (("scipy", theirs), ("lapx lapjvr_batch, all cores", batch)):
            yield {
                "work": f"{side}x{side} assignment, {n:,} rows",
                "peer": peer,
                "ours": ours,
                "theirs": taken / n,
                "unit": "s per row",
            }


def forests(quick: bool) -> Iterable[dict[str, Any]]:
    """Heaviest spanning trees of complete graphs, uniform weights, against scipy and rustworkx."""
    import rustworkx
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import minimum_spanning_tree

    for n_nodes, n in {10: 200_000, 50: 5_000}.items():
        n = n // 10 if quick else n
        problem = outrule.GraphicMatroid.complete(n_nodes)
        u, v = np.triu_indices(n_nodes, 1)
        weights = np.random.default_rng(n_nodes).random((n, len(u)))
        ours, few = seconds(problem.solve, weights) / n, weights[: max(100, n // 100)]
        graph = rustworkx.PyGraph()
        graph.add_nodes_from(range(n_nodes))
        graph.add_edges_from(list(zip(u.tolist(), v.tolist(), range(len(u)), strict=True)))

        def scipy_value(row: np.ndarray, u: Any = u, v: Any = v, size: int = n_nodes) -> float:
            return -minimum_spanning_tree(coo_array((-row, (u, v)), shape=(size, size))).sum()

        def rustworkx_value(row: np.ndarray, graph: Any = graph) -> float:
            cost = (-row).tolist()
            edges = rustworkx.minimum_spanning_edges(graph, weight_fn=cost.__getitem__)
            return sum(row[number] for _, _, number in edges)

        value = (few * problem.solve(few)).sum(axis=1)
        for name, peer in (("scipy", scipy_value), ("rustworkx", rustworkx_value)):
            taken, found = once(lambda peer=peer, few=few: [peer(row) for row in few])
            same = np.isclose(value, found, rtol=1e-9).mean()
            yield {
                "work": f"K{n_nodes} heaviest tree, {n:,} rows",
                "peer": f"{name}, {len(few):,} rows (equal value on {same:.0%})",
                "ours": ours,
                "theirs": taken / len(few),
                "unit": "s per row",
            }


def decisions(quick: bool) -> Iterable[dict[str, Any]]:
    """Decisions of multiplier rules, against NumPy's product and argmax."""
    from outrule.rules.decisions import decide_all

    n_rules, n, m = (128 if quick else 1024), 10_000, 256
    rules = outrule.multipliers(m, limit=n_rules)
    scales = np.array([rule.vector for rule in rules])
    weights = np.random.default_rng(0).random((n, m))
    instances, problem = outrule.Instances.from_arrays(weights), outrule.BestAction()
    layout = problem.lay(instances)
    ours = seconds(decide_all, rules, instances, problem, layout)
    theirs, _ = once(lambda: [(weights * scale).argmax(axis=1) for scale in scales])
    yield {
        "work": f"decisions of {n_rules:,} multipliers, {n:,} instances, m = {m}",
        "peer": "NumPy, one temporary per rule",
        "ours": ours,
        "theirs": theirs,
        "unit": "s",
    }


def brief(n_items: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    world = outrule.worlds.Quadratic(n_items, seed=0)
    return outrule.worlds.draw(world, outrule.worlds.brief_predictor(world), n, seed=1)


def whole_fits(quick: bool) -> Iterable[dict[str, Any]]:
    """fit to the same tolerance, against the straightforward version of the same loop."""
    cases = [
        (
            "matching K10, 5,000 instances, 256 rules, epsilon 1/8",
            outrule.Matching.complete(10),
            naive.RustworkxMatching(10),
            45,
            500 if quick else 5_000,
            256,
            1 / 8,
        ),
        (
            "best action m = 16, 100,000 instances, 1,024 rules, epsilon 1/64",
            outrule.BestAction(),
            naive.best_action,
            16,
            5_000 if quick else 100_000,
            1024,
            1 / 64,
        ),
    ]
    for words, problem, solve, m, n, n_rules, epsilon in cases:
        predictions, outcomes = brief(m, n)
        rules = outrule.multipliers(m, limit=n_rules)
        calibrator = outrule.DecisionCalibrator(problem, rules, epsilon, start=None, rivals=())
        ours = seconds(calibrator.fit, predictions, outcomes, repeats=2)
        vectors = np.array([rule.vector for rule in rules])
        theirs, (expected, n_patches) = once(
            naive.fit, solve, vectors, predictions, outcomes, epsilon
        )
        same = np.abs(calibrator.predict(predictions) - expected).max()
        assert n_patches == len(calibrator.patches_), "another list of patches"
        yield {
            "work": f"fit, {words}" + (f" (quick: {n:,} instances)" if quick else ""),
            "peer": f"NumPy{' + rustworkx' if m == 45 else ''}, {n_patches} patches, "
            f"predictions differ by {same:.0e}",
            "ours": ours,
            "theirs": theirs,
            "unit": "s",
        }


def exponent(sizes: list[int], times: list[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def growth(quick: bool) -> Iterable[dict[str, Any]]:
    """How time grows: least-squares slope of log time against log size."""
    shrink = 4 if quick else 1

    def curve(name: str, sizes: list[int], work: Callable[[int], Callable[[], Any]]) -> Any:
        times = [seconds(work(size), repeats=7) for size in sizes]
        return {
            "against": name,
            "sizes": sizes,
            "seconds": times,
            "exponent": exponent(sizes, times),
        }

    predictions, outcomes = brief(16, 160_000 // shrink)
    rules = outrule.multipliers(16, limit=1024)

    def fit(n: int, n_rules: int, rounds: int) -> Callable[[], Any]:
        calibrator = outrule.DecisionCalibrator(
            outrule.BestAction(), rules[:n_rules], 1e-4, max_rounds=rounds, start=None, rivals=()
        )

        def run() -> None:
            import warnings

            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it is cut off at a number of rounds
                calibrator.fit(predictions[:n], outcomes[:n])

        return run

    top = 160_000 // shrink
    yield curve(
        "instances (fit, 256 rules, 50 rounds)",
        [top // 8, top // 4, top // 2, top],
        lambda n: fit(n, 256, 50),
    )
    yield curve(
        "rules (fit, 40,000 instances, 50 rounds)",
        [128, 256, 512, 1024],
        lambda r: fit(40_000 // shrink, r, 50),
    )
    yield curve(
        "rounds (fit, 40,000 instances, 256 rules)",
        [50, 100, 200, 400],
        lambda t: fit(40_000 // shrink, 256, t),
    )
    generator = np.random.default_rng(0)

    def solve(problem: Any, n: int, m: int) -> Callable[[], Any]:
        weights = generator.random((n, m))
        return lambda: problem.solve(weights)

    yield curve(
        "items (best action, 20,000 instances)",
        [64, 128, 256, 512],
        lambda m: solve(outrule.BestAction(), 20_000 // shrink, m),
    )
    yield curve(
        "nodes (matching, 100 instances)",
        [32, 64, 128, 256],
        lambda v: solve(outrule.Matching.complete(v), 100 // shrink, v * (v - 1) // 2),
    )


def roofline(quick: bool) -> Iterable[dict[str, Any]]:
    """Bytes per second of the hot kernels, against a copy on the same number of threads."""
    from outrule import threads
    from outrule.kernels import best as one_item, overlap

    n_rules, n = 256, 100_000 if quick else 400_000
    generator = np.random.default_rng(0)
    picks = generator.integers(0, 16, (n_rules, 1, n)).astype(np.uint8)
    target = np.empty_like(picks)
    blocks = threads.spans(32, n_rules)

    def copy(block: int) -> None:
        rows = slice(*blocks[block])
        target[rows] = picks[rows]

    shared = np.zeros(n_rules, dtype=np.int64)

    def count(block: int) -> None:
        rows = slice(*blocks[block])
        overlap.overlap_single(picks[rows], picks[0], shared[rows])

    copied = seconds(threads.run, copy, len(blocks))
    counted = seconds(threads.run, count, len(blocks))
    yield {"kernel": "copy (bytes read and written)", "per second": 2 * picks.nbytes / copied / 1e9}
    yield {
        "kernel": "overlap of all rules (bytes read)",
        "per second": picks.nbytes / counted / 1e9,
    }
    weights, scales = generator.random((2_000, 256)), generator.random((256, 256))
    best = np.empty((256, 2_000), dtype=np.uint16)
    taken = seconds(one_item.best_dense_rules, weights, scales, best)
    yield {
        "kernel": "argmax of multipliers, one thread (10^9 products)",
        "per second": weights.size * 256 / taken / 1e9,
    }
    row = generator.random(4_096)
    fused = _fused_loop()
    taken = seconds(fused, row, 20_000)
    yield {
        "kernel": "fused multiply-add, one thread (10^9 operations)",
        "per second": 4_096 * 20_000 / taken / 1e9,
    }


def _fused_loop() -> Callable[[np.ndarray, int], float]:
    from numba import njit

    @njit(nogil=True, fastmath=True)
    def loop(row: np.ndarray, times: int) -> float:
        total = np.zeros_like(row)
        for _ in range(times):
            for j in range(len(row)):
                total[j] = total[j] * 0.5 + row[j]
        return float(total[0])

    return loop  # type: ignore[no-any-return]


FIRST_CALL = """
import time, numpy as np
start = time.perf_counter()
import numba, scipy.optimize, sklearn.base
imported = time.perf_counter()
import outrule
p = np.random.default_rng(0).random((2_000, 16)); y = np.random.default_rng(1).random((2_000, 16))
rules = outrule.multipliers(16, limit=64)
c = outrule.DecisionCalibrator(outrule.BestAction(), rules, 0.1, start=None, rivals=())
c.fit(p, y).predict(p); c.decide(p)
print(time.perf_counter() - imported, imported - start)
"""


def first_calls() -> dict[str, float]:
    """fit, predict and decide of a best action on an empty cache, and in a second process."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", FIRST_CALL]
        environment = os.environ | {"NUMBA_CACHE_DIR": folder}
        runs = [
            subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
            for _ in range(2)
        ]
    (first, _), (second, imports) = ([float(word) for word in run.stdout.split()] for run in runs)
    return {
        "first process (compiles), seconds": first,
        "second process (cached), seconds": second,
        "importing numba, scipy.optimize and sklearn.base, seconds": imports,
        **predictions("the paper's algorithm", start=None, rivals=()),
        **predictions("the default settings"),
    }


def predictions(words: str, **settings: Any) -> dict[str, float]:
    """A fit of 20,000 instances, 16 items and 256 rules, and predictions by it."""
    calibrator = outrule.DecisionCalibrator(
        outrule.BestAction(), outrule.multipliers(16, limit=256), 1 / 32, **settings
    )
    fit = seconds(calibrator.fit, *brief(16, 20_000), repeats=1)
    one, many = (np.random.default_rng(0).random((n, 16)) for n in (1, 1_000_000))
    return {
        f"fit 20,000 x 16 with 256 rules, {words}, seconds": fit,
        f"predict one instance, {words}, milliseconds": 1000
        * seconds(calibrator.predict, one, repeats=50),
        f"predict a million instances, {words}, seconds": seconds(calibrator.predict, many),
    }


def markdown(results: dict[str, Any]) -> str:
    lines = [f"Measured on {results['machine']}.", ""]
    lines += ["| work | peer | ours | peer's | ratio |", "|---|---|---|---|---|"]
    for row in results["against peers"]:
        ratio = row["theirs"] / row["ours"]
        lines.append(
            f"| {row['work']} | {row['peer']} | {row['ours']:.3g} {row['unit']} "
            f"| {row['theirs']:.3g} | {ratio:.3g} |"
        )
    lines += ["", "| time against | sizes | seconds | exponent |", "|---|---|---|---|"]
    for row in results["growth"]:
        times = ", ".join(f"{taken:.3g}" for taken in row["seconds"])
        sizes = ", ".join(f"{size:,}" for size in row["sizes"])
        lines.append(f"| {row['against']} | {sizes} | {times} | {row['exponent']:.2f} |")
    lines += ["", "| kernel | 10^9 per second |", "|---|---|"]
    lines += [f"| {row['kernel']} | {row['per second']:.3g} |" for row in results["roofline"]]
    lines += ["", "| first calls, best action | |", "|---|---|"]
    lines += [f"| {name} | {value:.3g} |" for name, value in results["first calls"].items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmarks/results"))
    options = parser.parse_args()
    rows = []
    for part in (matchings, assignments, forests, decisions, whole_fits):
        for row in part(options.quick):
            rows.append(row)
            print(f"{row['theirs'] / row['ours']:8.3g}x  {row['work']}; {row['peer']}", flush=True)
    results = {
        "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}, "
        f"NumPy {np.__version__}, {platform.machine()}",
        "against peers": rows,
        "growth": list(growth(options.quick)),
        "roofline": list(roofline(options.quick)),
        "first calls": first_calls(),
    }
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "speed.json").write_text(json.dumps(results, indent=1) + "\n")
    (options.output / "speed.md").write_text(markdown(results))
    print(markdown(results))


if __name__ == "__main__":
    main()
