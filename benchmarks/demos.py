"""Every demo over ten splits: held-out value of ours and of its rivals, predicted vs realised.

    pip install -e '.[bench]'
    python benchmarks/demos.py [--splits 10] [--demos NAME ...] [--docs docs/demos.md]

The splits are those of demo_data.py, at random (by day, by household, by group), each with a base
model of its own; flights keep their old one. *Boosted* is fitted again on the calibration part with
all columns of the table: the prediction, what rules look at, and raw features where there are any.
The figures are means over the splits. Standard errors are cluster-robust, those of one split (their
mean): splits overlap, so that the spread over them would be too small. Variants of a demo (flights
cut by time, and with an older model) have tables of their own. Writes demos.json and demos.md; with
--docs also the tables of that page. Demos that --demos does not name keep the figures that
demos.json has. MCGrad is run where it is installed, best with OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import methods
import numpy as np
from cases import Data
from certificates import write_table
from compare import HERE, decide, machine, mean_and_error, versions
from demo_data import BY_TIME, CACHE, SPAN, SPLITS, VARIANTS
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

import outrule
from outrule.demos.real import DEMOS, spec_of, watch_batches

OURS = methods.OURS
METHODS = {
    "plain": methods.plain,
    "best rule": methods.best_rule,
    "isotonic": methods.isotonic,
    "Platt": methods.platt,
    **({methods.MCGRAD: methods.mcgrad} if importlib.util.find_spec("mcgrad") else {}),
    "boosted": methods.boosted,
    OURS: methods.METHODS[OURS],
}
DAYS = {"bank": "date"}  # observations of a benchmark are days, where the spec has none
LEVEL = 1.96
Floats = NDArray[np.float64]


class Scored(NamedTuple):
    """What each instance was worth, and what was predicted for it."""

    realised: Floats
    predicted: Floats
    seconds: float


class Sample(NamedTuple):
    """Weights and clusters of the instances that are scored."""

    weight: Floats
    cluster: NDArray[np.int64]

    @classmethod
    def of(cls, name: str, test: outrule.Instances) -> Sample:
        weight = np.ones(len(test)) if test.weight is None else test.weight
        cluster = np.arange(len(test)) if test.cluster is None else test.cluster
        if name in DAYS:
            days = test.origin.frame[DAYS[name]].to_physical().to_numpy()[test.offsets[:-1]]
            cluster = np.unique(days, return_inverse=True)[1]
        return cls(weight, cluster)

    def mean(self, values: Floats) -> tuple[float, float]:
        """The mean and its cluster-robust standard error."""
        total = self.weight.sum()
        mean = values @ self.weight / total
        sums = np.bincount(self.cluster, self.weight * (values - mean))
        n = len(np.unique(self.cluster))
        return float(mean), float(np.sqrt(n / (n - 1) * (sums @ sums)) / total)


def score(method: methods.Method, data: Data) -> Scored:
    """Calibrate, decide on the test part, and look at the outcomes."""
    predictions, chosen, seconds = decide(method, data)
    test = data.test
    where = test.instance[chosen]
    sums = [np.bincount(where, of[chosen], len(test)) for of in (test.outcome, predictions)]
    return Scored(sums[0], sums[1], seconds)


def one_split(name: str, seed: int | None, cache: Path) -> dict[str, Any]:
    """The means and errors of every method on one split; the demo's own without a seed."""
    spec, make = spec_of(name.split(",")[0]), (SPLITS | VARIANTS)[name]
    with threadpool_limits(1):  # no busy waiting; the same bits on every machine
        past, later = (spec.instances(table) for table in make(seed, cache))
        data = Data(spec.problem, spec.settings(past).rules, past, later)
        sample = Sample.of(name, later)
        found = {label: score(method, data) for label, method in METHODS.items()}
    ours = found[OURS]
    return {
        label: {
            "value": sample.mean(one.realised),
            "minus ours": sample.mean(one.realised - ours.realised),
            "predicted": sample.mean(one.predicted)[0],
            "excess": sample.mean(one.predicted - one.realised),
            "seconds": one.seconds,
        }
        for label, one in found.items()
    }


def alarms(cache: Path, n_splits: int) -> list[bool]:
    """Whether `outrule watch` raises an alarm on the days after each cut by time."""
    spec, most = spec_of("flights"), DEMOS["flights"].max_weight
    assert most is not None
    found = []
    for seed in range(n_splits):
        past, later = VARIANTS[BY_TIME](seed, cache)
        data = spec.instances(past)
        calibrator = outrule.DecisionCalibrator.from_spec(spec, data).fit(data)
        watch = watch_batches(calibrator, spec, later, "date", most[0])
        found.append(watch.status.status == "lost")
    return found


def mean(splits: Sequence[dict[str, Any]], label: str, field: str) -> tuple[float, float]:
    """Of the figures and of their errors, over the splits."""
    pairs = np.array([split[label][field] for split in splits])
    return float(pairs[:, 0].mean()), float(pairs[:, 1].mean())


def scored(rows: dict[str, Any]) -> list[str]:
    """The methods that were run on all of these splits."""
    every = [split for splits in rows.values() for split in splits]
    return [label for label in every[0] if all(label in split for split in every)]


def values_table(rows: dict[str, Any]) -> Iterator[str]:
    titles = ["demo", *scored(rows)]
    yield f"| {' | '.join(titles)} |"
    yield "|---" * len(titles) + "|"
    for name, splits in rows.items():
        values = {label: mean(splits, label, "value") for label in titles[1:]}
        best = max(value for value, _ in values.values())
        cells = []
        for label, (value, error) in values.items():
            shown = f"**{value:.4f}**" if value == best else f"{value:.4f}"
            gap, paired = mean(splits, label, "minus ours")
            more = f"± {error:.4f}" if label == OURS else f"({gap:+.4f} ± {paired:.4f})"
            cells.append(f"{shown} {more}")
        yield f"| {' | '.join([name, *cells])} |"


def promises_table(rows: dict[str, Any]) -> Iterator[str]:
    yield (
        "| demo | plain: predicted | realised | outrule: predicted | realised | predicted minus "
        "realised | splits with predicted in the 95 % interval of realised | above plain |"
    )
    yield "|---" * 8 + "|"
    for name, splits in rows.items():
        cells = [name]
        for label in ("plain", OURS):
            predicted = np.mean([split[label]["predicted"] for split in splits])
            cells += [f"{predicted:.4f}", f"{mean(splits, label, 'value')[0]:.4f}"]
        excess, error = mean(splits, OURS, "excess")
        inside = sum(_inside(split[OURS]) for split in splits)
        above = sum(split["plain"]["minus ours"][0] < 0 for split in splits)
        cells += [f"{excess:+.4f} ± {error:.4f}", f"{inside} of {len(splits)}"]
        yield f"| {' | '.join([*cells, f'{above} of {len(splits)}'])} |"


def _inside(one: dict[str, Any]) -> bool:
    value, error = one["value"]
    return bool(abs(one["predicted"] - value) <= LEVEL * error)


def summary(rows: dict[str, Any]) -> Iterator[str]:
    """Where ours is significantly below a rival, and where it is not above plain."""
    below, by_spread = [], []
    for name, splits in rows.items():
        for label in (label for label in scored(rows) if label != OURS):
            gap, error = mean(splits, label, "minus ours")
            _, spread = mean_and_error([split[label]["minus ours"][0] for split in splits])
            for found, one in ((below, error), (by_spread, spread)):
                if gap > LEVEL * one:
                    found.append(f"{label} in {name} ({-gap:+.4f} ± {one:.4f})")
    not_above = [
        name for name, splits in rows.items() if mean(splits, "plain", "minus ours")[0] >= 0
    ]
    yield f"- outrule is significantly below: {'; '.join(below) or 'no rival in any demo'}."
    yield (
        "- By the standard error over the splits, which overlap, so that it is too small: "
        f"{'; '.join(by_spread) or 'no rival in any demo'}."
    )
    but = f" but {', '.join(not_above)}" if not_above else ""
    yield f"- outrule is above plain in the mean in all demos{but}."


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument(
        "--demos", nargs="*", choices=list(SPLITS), default=list(SPLITS), metavar="NAME"
    )
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder of downloaded wheels")
    parser.add_argument("--docs", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=HERE / "results")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)  # a loop cut short is scored as it is
    path = options.output / "demos.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    known = {"splits": {}, "shipped": {}, "watched": []} | known
    variants = [name for name in VARIANTS if name.split(",")[0] in options.demos]
    for name in [*options.demos, *variants]:
        splits = [one_split(name, seed, options.cache) for seed in range(options.splits)]
        known["splits"][name] = splits
        if name in SPLITS:
            known["shipped"][name] = [one_split(name, None, options.cache)]
        print(*list(values_table({name: splits}))[2:], flush=True)
        path.write_text(json.dumps(known, indent=1) + "\n")
    if BY_TIME in variants:
        known["watched"] = alarms(options.cache, options.splits)
    rows, shipped, varied = (
        {name: known[kind][name] for name in names if name in known[kind]}
        for kind, names in (("splits", SPLITS), ("shipped", SPLITS), ("splits", VARIANTS))
    )
    tables = {
        "splits": list(values_table(rows)),
        "promises": list(promises_table(rows)),
        "shipped": list(values_table(shipped)),
        "summary": list(summary(rows)),
        "variants": list(values_table(varied)),
        "promises of variants": list(promises_table(varied)),
        "watched": [
            f"- `outrule watch`, day by day after each cut by time, raises an alarm within {SPAN} "
            f"days after {sum(known['watched'])} of {len(known['watched'])} cuts."
        ],
    }
    head = f"Measured on {machine()}; {versions()}."
    page = "\n\n".join([head, *("\n".join(lines) for lines in tables.values())])
    print(page)
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "demos.md").write_text(page + "\n")
    results = {"machine": machine(), "versions": versions(), "splits": rows | varied}
    results |= {"shipped": shipped, "watched": known["watched"]}
    path.write_text(json.dumps(results, indent=1) + "\n")
    if options.docs is not None:
        for name, lines in tables.items():
            write_table(options.docs, f"benchmarks/demos.py {name}", lines)


if __name__ == "__main__":
    main()
