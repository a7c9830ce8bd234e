"""All speed figures in one run: ours and the peers', as Markdown and JSON.

    pip install -e '.[bench]'
    python benchmarks/run.py [--quick] [--runs 5] [--only PART,...] [--docs docs/measured.md]

Ours and the peer run in turns on this machine, so that both meet the same neighbours; a ratio is
the median and the range over the turns. All cores are compared with all cores by the clock (a peer
uses what it can), one thread with one thread in CPU seconds, which a busy machine changes less.
`--quick` takes fewer rows (about five minutes), the whole run about an hour on two cores. With
`--only growth`, `kernels`, `first_calls` or `predictions` that section is measured again and the
others are kept; single parts of the comparisons are only printed.
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
from functools import partial
from pathlib import Path
from typing import Any

import naive
import numba
import numpy as np
from certificates import write_table

import outrule
from outrule import threads

Work = Callable[[], Any]
Turns = Callable[..., dict[str, Any]]  # in_turns, with the number of turns given


def seconds(work: Callable[..., Any], *args: Any, repeats: int = 3) -> float:
    """The shortest time of a few runs; the first run, which compiles, is not counted."""
    work(*args)
    return min(once(work, *args)[0] for _ in range(repeats))


def once(work: Callable[..., Any], *args: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work(*args)
    return time.perf_counter() - start, result


def clocks(work: Callable[..., Any], *args: Any) -> tuple[float, float]:
    """Seconds that pass, and seconds that processors spend on it: less by what others take."""
    start, used = time.perf_counter(), time.process_time()
    work(*args)
    return time.perf_counter() - start, time.process_time() - used


def by_turns(turn: int, ours: Work, theirs: Work) -> tuple[tuple[float, float], ...]:
    """The clocks of ours and theirs; who comes second finds more cores awake, so they swap."""
    if turn % 2:
        slow = clocks(theirs)
        return clocks(ours), slow
    return clocks(ours), clocks(theirs)


def in_turns(
    turns: int,
    work: str,
    peer: str,
    ours: Callable[[int | None], Any],
    theirs: Work,
    *,
    alone: Work | None = None,
    rows: int = 1,
    their_rows: int | None = None,
) -> dict[str, Any]:
    """Time ours and the peer's in turns: on all cores by the clock, on one thread in CPU seconds.

    ``ours`` takes a number of threads, None for all cores. ``alone`` is the peer on one thread,
    where ``theirs`` uses more. Seconds are per row where there are several.
    """
    per_turn = np.array([rows, their_rows or rows])
    ours(None)  # compiles
    every, one = [], []
    for turn in range(turns):
        fast, slow = by_turns(turn, partial(ours, None), theirs)
        every.append((fast[0], slow[0]) / per_turn)
        fast, slow = by_turns(turn, partial(ours, 1), alone) if alone else (clocks(ours, 1), slow)
        one.append((fast[1], slow[1]) / per_turn)
    unit = "s per row" if rows > 1 else "s"
    return {
        "work": work,
        "peer": peer,
        "unit": unit,
        "turns": turns,
        "all cores": compared(every),
        "one thread": compared(one),
    }


def compared(times: list[np.ndarray]) -> dict[str, float]:
    """Medians of ours and theirs, and the median and range of their ratios."""
    ours, theirs = np.array(times).T
    ratio = theirs / ours
    return {
        "ours": float(np.median(ours)),
        "theirs": float(np.median(theirs)),
        "ratio": float(np.median(ratio)),
        "lowest": float(ratio.min()),
        "highest": float(ratio.max()),
    }


def said(row: dict[str, float]) -> str:
    return f"{row['ratio']:.3g} ({row['lowest']:.3g} to {row['highest']:.3g})"


def solving(problem: Any, weights: np.ndarray) -> Callable[[int | None], Any]:
    def solve(jobs: int | None) -> Any:
        with threads.using(jobs):
            return problem.solve(weights)

    return solve


def matchings(quick: bool, turns: Turns) -> Iterable[dict[str, Any]]:
    """Complete graphs, uniform weights, against rustworkx (reused graph) and networkx."""
    import networkx

    sizes = {10: 200_000, 20: 20_000, 50: 2_000, 100: 500}
    for n_nodes, n in sizes.items():
        n = n // 10 if quick else n
        problem = outrule.Matching.complete(n_nodes)
        peer = naive.RustworkxMatching(n_nodes)
        weights = np.random.default_rng(n_nodes).random((n, len(peer.edges)))
        few = weights[: max(20, min(n, int(3 / (2e-8 * n_nodes**3.2))))]
        marks = peer(few)
        same = np.isclose(
            (few * problem.solve(few)).sum(axis=1), (few * marks).sum(axis=1), rtol=1e-9
        )
        graph = networkx.Graph()
        graph.add_weighted_edges_from(
            (i, j, float(w)) for (i, j), w in zip(peer.edges, weights[0], strict=True)
        )
        words, ours = f"K{n_nodes} matching, {n:,} rows", solving(problem, weights)
        name = f"rustworkx, {len(few):,} rows (equal value on {same.mean():.0%})"
        yield turns(words, name, ours, partial(peer, few), rows=n, their_rows=len(few))
        slow = partial(networkx.max_weight_matching, graph)
        yield turns(words, "networkx, 1 row", ours, slow, rows=n, their_rows=1)


def assignments(quick: bool, turns: Turns) -> Iterable[dict[str, Any]]:
    """Square assignments, uniform weights, against scipy and lapx.

    lapx minimises: its costs are negated beforehand, and it need not return the values.
    """
    import lap
    from scipy.optimize import linear_sum_assignment

    def scipy_loop(matrices: np.ndarray) -> list[Any]:
        return [linear_sum_assignment(matrix, maximize=True) for matrix in matrices]

    for side, n in {5: 500_000, 10: 200_000, 20: 100_000, 50: 20_000, 100: 5_000}.items():
        n = n // 10 if quick else n
        weights = np.random.default_rng(side).random((n, side * side))
        matrices = weights.reshape(n, side, side)
        few, costs = matrices[: max(100, n // 10)], -matrices
        words = f"{side}x{side} assignment, {n:,} rows"
        ours = solving(outrule.Assignment(side, side), weights)

        lapx = partial(lap.lapjvr_batch, costs, return_cost=False)
        every, alone = partial(lapx, n_threads=os.cpu_count()), partial(lapx, n_threads=1)
        slow, name = partial(scipy_loop, few), f"scipy, {len(few):,} rows"
        yield turns(words, name, ours, slow, rows=n, their_rows=len(few))
        yield turns(words, "lapx lapjvr_batch, threaded", ours, every, alone=alone, rows=n)


def each(solve: Callable[[np.ndarray], float], rows: np.ndarray) -> list[float]:
    return [solve(row) for row in rows]


def forests(quick: bool, turns: Turns) -> Iterable[dict[str, Any]]:
    """Heaviest spanning trees of complete graphs, uniform weights, against scipy and rustworkx."""
    import rustworkx
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import minimum_spanning_tree

    for n_nodes, n in {10: 200_000, 50: 5_000}.items():
        n = n // 10 if quick else n
        problem = outrule.GraphicMatroid.complete(n_nodes)
        u, v = np.triu_indices(n_nodes, 1)
        weights = np.random.default_rng(n_nodes).random((n, len(u)))
        few = weights[: max(100, n // 100)]
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
            slow = partial(each, peer, few)
            same = np.isclose(value, slow(), rtol=1e-9).mean()
            yield turns(
                f"K{n_nodes} heaviest tree, {n:,} rows",
                f"{name}, {len(few):,} rows (equal value on {same:.0%})",
                solving(problem, weights),
                slow,
                rows=n,
                their_rows=len(few),
            )


def decisions(quick: bool, turns: Turns) -> Iterable[dict[str, Any]]:
    """Decisions of multiplier rules, against NumPy's product and argmax."""
    from outrule.rules.decisions import decide_all

    n_rules, n, m = (128 if quick else 1024), 10_000, 256
    rules = outrule.multipliers(m, limit=n_rules)
    scales = np.array([rule.vector for rule in rules])
    weights = np.random.default_rng(0).random((n, m))
    instances, problem = outrule.Instances.from_arrays(weights), outrule.BestAction()
    layout = problem.lay(instances)

    def ours(jobs: int | None) -> None:
        with threads.using(jobs):
            decide_all(rules, instances, problem, layout)

    yield turns(
        f"decisions of {n_rules:,} multipliers, {n:,} instances, m = {m}",
        "NumPy, one temporary per rule",
        ours,
        lambda: [(weights * scale).argmax(axis=1) for scale in scales],
    )


def brief(n_items: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    world = outrule.worlds.Quadratic(n_items, seed=0)
    return outrule.worlds.draw(world, outrule.worlds.brief_predictor(world), n, seed=1)


def whole_fits(quick: bool, turns: Turns) -> Iterable[dict[str, Any]]:
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
        vectors = np.array([rule.vector for rule in rules])

        ours = partial(paper_fit, problem, rules, epsilon, predictions, outcomes)
        theirs = partial(naive.fit, solve, vectors, predictions, outcomes, epsilon)
        calibrator, (expected, n_patches) = ours(None), theirs()
        same = np.abs(calibrator.predict(predictions) - expected).max()
        assert n_patches == len(calibrator.patches_), "another list of patches"
        yield turns(
            f"fit, {words}" + (f" (quick: {n:,} instances)" if quick else ""),
            f"NumPy{' + rustworkx' if m == 45 else ''}, {n_patches} patches, "
            f"predictions differ by {same:.0e}",
            ours,
            theirs,
        )


def paper_fit(
    problem: Any,
    rules: Any,
    epsilon: float,
    predictions: np.ndarray,
    outcomes: np.ndarray,
    jobs: int | None,
) -> Any:
    calibrator = outrule.DecisionCalibrator(
        problem, rules, epsilon, start=None, rivals=(), n_jobs=jobs
    )
    return calibrator.fit(predictions, outcomes)


def exponent(sizes: list[int], times: list[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def growth(quick: bool) -> Iterable[dict[str, Any]]:
    """How time grows: least-squares slope of log time against log size."""
    shrink = 4 if quick else 1

    def curve(
        name: str, sizes: list[int], work: Callable[[int], Callable[[], Any]], repeats: int = 7
    ) -> Any:
        times = [seconds(work(size), repeats=repeats) for size in sizes]
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
        "instances (fit, 100 rules, the default settings)",
        [n // shrink for n in (25_000, 50_000, 100_000, 200_000, 400_000)],
        default_fit,
        repeats=1,
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


def default_fit(n: int) -> Callable[[], Any]:
    """A whole fit with default settings: best action among 16 items, 100 rules."""
    calibrator = outrule.DecisionCalibrator(
        outrule.BestAction(), outrule.multipliers(16, limit=100)
    )
    return partial(calibrator.fit, *brief(16, n))


def roofline(quick: bool) -> Iterable[dict[str, Any]]:
    """Bytes per second of the hot kernels, against a copy on the same number of threads."""
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


KINDS: dict[str, dict[str, Any]] = {
    "the paper's algorithm": {"start": None, "rivals": ()},
    "the default settings": {},
}
FIRST_CALL = """
import time, numpy as np
start = time.perf_counter()
import numba, scipy.optimize, sklearn.base
imported = time.perf_counter()
import outrule
p = np.random.default_rng(0).random((2_000, 16)); y = np.random.default_rng(1).random((2_000, 16))
rules = outrule.multipliers(16, limit=64)
settings = {SETTINGS}
c = outrule.DecisionCalibrator(outrule.BestAction(), rules, 0.1, **settings)
c.fit(p, y).predict(p); c.decide(p)
print(time.perf_counter() - imported, imported - start)
"""


def first_calls() -> dict[str, float]:
    """fit, predict and decide of a best action on an empty cache, and in a second process."""
    found: dict[str, float] = {}
    for words, settings in KINDS.items():
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-c", FIRST_CALL.replace("{SETTINGS}", repr(settings))]
            (first, _), (second, imports) = (timed(command, folder) for _ in range(2))
        with tempfile.TemporaryDirectory() as folder:
            alone, _ = timed(command, folder, OUTRULE_COMPILERS="0")
        found[f"first process (compiles), {words}, seconds"] = first
        found[f"the same on one core, {words}, seconds"] = alone
        found[f"second process (cached), {words}, seconds"] = second
    found["importing numba, scipy.optimize and sklearn.base, seconds"] = imports
    return found


def timed(command: list[str], folder: str, **changes: str) -> tuple[float, float]:
    """What a process prints that keeps its kernels in this folder."""
    environment = os.environ | {"NUMBA_CACHE_DIR": folder} | changes
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    first, second = map(float, done.stdout.split())
    return first, second


def predictions() -> dict[str, float]:
    """A fit of 20,000 instances, 16 items and 256 rules, and predictions by it."""
    found: dict[str, float] = {}
    one, many = (np.random.default_rng(0).random((n, 16)) for n in (1, 1_000_000))
    for words, settings in KINDS.items():
        calibrator = outrule.DecisionCalibrator(
            outrule.BestAction(), outrule.multipliers(16, limit=256), 1 / 32, **settings
        )
        found |= {
            f"fit 20,000 x 16 with 256 rules, {words}, seconds": seconds(
                calibrator.fit, *brief(16, 20_000), repeats=1
            ),
            f"predict one instance, {words}, milliseconds": 1000
            * seconds(calibrator.predict, one, repeats=50),
            f"predict a million instances, {words}, seconds": seconds(calibrator.predict, many),
        }
    return found


def markdown(name: str, section: dict[str, Any]) -> list[str]:
    return [f"Measured on {section['machine']}.", "", *TABLES[name](section["rows"])]


def peers_table(rows: list[dict[str, Any]]) -> Iterable[str]:
    yield "| work | peer | ours | peer's | ratio, all cores | ratio, one thread |"
    yield "|---|---|---|---|---|---|"
    for row in rows:
        every, one = row["all cores"], row["one thread"]
        yield (
            f"| {row['work']} | {row['peer']} | {every['ours']:.3g} {row['unit']} "
            f"| {every['theirs']:.3g} | {said(every)} | {said(one)} |"
        )


def growth_table(rows: list[dict[str, Any]]) -> Iterable[str]:
    yield from ("| time against | sizes | seconds | exponent |", "|---|---|---|---|")
    for row in rows:
        times = ", ".join(f"{taken:.3g}" for taken in row["seconds"])
        sizes = ", ".join(f"{size:,}" for size in row["sizes"])
        yield f"| {row['against']} | {sizes} | {times} | {row['exponent']:.2f} |"


def kernels_table(rows: list[dict[str, Any]]) -> Iterable[str]:
    yield from ("| kernel | 10^9 per second |", "|---|---|")
    for row in rows:
        yield f"| {row['kernel']} | {row['per second']:.3g} |"


def calls_table(rows: dict[str, float]) -> Iterable[str]:
    yield from ("| best action | |", "|---|---|")
    for name, value in rows.items():
        yield f"| {name} | {value:.3g} |"


TABLES: dict[str, Callable[[Any], Iterable[str]]] = {
    "against peers": peers_table,
    "growth": growth_table,
    "kernels": kernels_table,
    "first calls": calls_table,
    "predictions": calls_table,
}


def machine() -> str:
    """Processor, versions, and how busy it is now."""
    info = Path("/proc/cpuinfo")
    names = info.read_text().splitlines() if info.exists() else []
    model = next((line.partition(": ")[2] for line in names if "model name" in line), "")
    return (
        f"{os.cpu_count()} cores ({model or platform.processor() or platform.machine()}), "
        f"Python {platform.python_version()}, NumPy {np.__version__}, Numba {numba.__version__}, "
        f"load {os.getloadavg()[0]:.1f} at the start"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--runs", type=int, default=5, help="turns of ours and the peer's")
    parser.add_argument("--only", help="parts, such as assignments, growth or first_calls")
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--docs", type=Path, help="the page whose tables are these")
    options = parser.parse_args()
    peers = (matchings, assignments, forests, decisions, whole_fits)
    sections: dict[str, Work] = {
        "growth": lambda: list(growth(options.quick)),
        "kernels": lambda: list(roofline(options.quick)),
        "first calls": first_calls,
        "predictions": predictions,
    }
    known = [part.__name__ for part in peers] + [name.replace(" ", "_") for name in sections]
    asked = options.only.split(",") if options.only else known
    if unknown := set(asked) - set(known):
        parser.error(f"no such part: {', '.join(unknown)}. There are: {', '.join(known)}.")
    path, where, rows = options.output / "speed.json", machine(), []
    results = json.loads(path.read_text()) if options.only and path.exists() else {}
    print(where, flush=True)
    for part in (part for part in peers if part.__name__ in asked):
        for row in part(options.quick, partial(in_turns, options.runs)):
            rows.append(row)
            ratios = f"{said(row['all cores'])}; one thread {said(row['one thread'])}"
            print(f"{ratios}: {row['work']}; {row['peer']}", flush=True)
    if not options.only:
        results["against peers"] = {"machine": where, "rows": rows}
    for name, measure in sections.items():
        if name.replace(" ", "_") in asked:
            results[name] = {"machine": machine(), "rows": measure()}
            print(*TABLES[name](results[name]["rows"]), sep="\n", flush=True)
    options.output.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n")
    pages = {name: markdown(name, section) for name, section in results.items()}
    path.with_suffix(".md").write_text("\n\n".join(map("\n".join, pages.values())) + "\n")
    for name, lines in pages.items() if options.docs else ():
        write_table(options.docs, f"benchmarks/run.py {name}", lines)


if __name__ == "__main__":
    main()
