"""Decision-focused training (SPO+ of PyEPO) on the coupons, beside what demos.py compares.

    python3 -m venv .spo && .spo/bin/pip install -q torch==2.13.0 pyepo==2.2.7 -e '.[bench]'
    .spo/bin/python benchmarks/decision_focused.py --splits 10 --docs docs/comparison.md

An environment of its own, because PyTorch is large. Every split is saved in
results/decision_focused.json when it is done, so that a run that was stopped goes on from there.

A network is trained on the calibration part with the columns that the boosted trees see: once for
the squared error (*network*), once for the SPO+ loss of the decision (*SPO+*), which needs the
outcomes of all items, as outrule does. Both have two hidden layers, the same for every brand, and
the number of epochs is that with the largest value on a fifth of the households, set aside.
"""

from __future__ import annotations

import argparse
import json
from importlib import metadata
from pathlib import Path
from typing import Any

import methods
import numpy as np
import pyepo
import torch
from cases import Data
from certificates import write_table
from compare import HERE, machine, versions
from demo_data import CACHE
from numpy.typing import NDArray
from pyepo import EPO
from pyepo.model.opt import optModel

import demos

Floats = NDArray[np.float64]
EPOCHS, BATCH, WIDTH = 60, 256, 64


class OneItem(optModel):
    """Choose the item with the largest weight."""

    modelSense = EPO.MAXIMIZE  # noqa: N815 - PyEPO's name

    def __init__(self, n_items: int) -> None:
        self.n_items = n_items
        super().__init__()

    def _getModel(self) -> tuple[None, list[int]]:  # noqa: N802 - PyEPO's name
        return None, list(range(self.n_items))

    def setObj(self, c: Floats) -> None:  # noqa: N802 - PyEPO's name
        self.weights = np.asarray(c)

    def solve(self) -> tuple[Floats, float]:
        best = int(self.weights.argmax())
        return np.eye(self.n_items)[best], float(self.weights[best])


def trained(data: Data, *, for_decisions: bool) -> Floats:
    """What a network predicts for the test part."""
    torch.manual_seed(0)
    past, new, codes = methods.columns_of(data)
    past, new = _encoded(past, new, codes)
    n_items = int(np.diff(data.calibration.offsets)[0])  # the same for all: five brands
    x = torch.tensor(past, dtype=torch.float32).reshape(-1, n_items, past.shape[1])
    y = torch.tensor(data.calibration.outcome, dtype=torch.float32).reshape(-1, n_items)
    fit, validate = _split(data)
    weight = torch.tensor(data.calibration.weight, dtype=torch.float32)
    layers = [torch.nn.Linear(past.shape[1], WIDTH), torch.nn.ReLU()]
    layers += [torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, 1)]
    network = torch.nn.Sequential(*layers)
    optimiser = torch.optim.Adam(network.parameters(), lr=2e-3, weight_decay=1e-4)
    spo = pyepo.func.SPOPlus(OneItem(n_items), processes=1, reduction="none")
    best, state = -1.0, network.state_dict()
    for _ in range(EPOCHS):
        for batch in torch.tensor(fit)[torch.randperm(len(fit))].split(BATCH):
            scores, truth = network(x[batch]).squeeze(-1), y[batch]
            if for_decisions:
                chosen = torch.nn.functional.one_hot(truth.argmax(1), n_items).float()
                loss = spo(scores, truth, chosen, truth.max(1, keepdim=True).values)
            else:
                loss = ((scores - truth) ** 2).mean(1)
            optimiser.zero_grad()
            (loss * weight[batch]).mean().backward()
            optimiser.step()
        with torch.no_grad():
            picked = network(x[validate]).squeeze(-1).argmax(1, keepdim=True)
            value = float((y[validate].gather(1, picked)[:, 0] * weight[validate]).sum())
        if value > best:
            best = value
            state = {name: part.clone() for name, part in network.state_dict().items()}
    network.load_state_dict(state)
    with torch.no_grad():
        return network(torch.tensor(new, dtype=torch.float32)).double().numpy()[:, 0]


def _encoded(past: Floats, new: Floats, codes: list[int]) -> tuple[Floats, Floats]:
    """Codes become indicators, and everything else has mean 0 and deviation 1."""
    numbers = [column for column in range(past.shape[1]) if column not in codes]
    centre, spread = past[:, numbers].mean(0), past[:, numbers].std(0) + 1e-9
    parts = []
    for part in (past, new):
        flags = [part[:, [code]] == np.arange(past[:, code].max() + 1) for code in codes]
        parts.append(np.column_stack([(part[:, numbers] - centre) / spread, *flags]))
    return parts[0], parts[1]


def _split(data: Data) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Four fifths of the households to train on, and the rest to stop at."""
    cluster = data.calibration.cluster
    aside = np.random.default_rng(0).random(cluster.max() + 1) < 0.2
    return np.flatnonzero(~aside[cluster]), np.flatnonzero(aside[cluster])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--docs", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=HERE / "results")
    options = parser.parse_args()
    torch.set_num_threads(1)
    demos.METHODS = {
        "plain": methods.plain,
        "best rule": methods.best_rule,
        "boosted": methods.boosted,
        "network": lambda data: trained(data, for_decisions=False),
        "SPO+": lambda data: trained(data, for_decisions=True),
        demos.OURS: methods.METHODS[demos.OURS],
    }
    splits = run_splits(options.splits, options.output / "decision_focused.json")
    table = [*demos.values_table({"coupons": splits}), "", *demos.summary({"coupons": splits})]
    print(*table, sep="\n")
    if options.docs:
        write_table(options.docs, "benchmarks/decision_focused.py", table)


def run_splits(n: int, path: Path) -> list[dict[str, Any]]:
    """The first n splits: those of an earlier run with the same versions, and the others now."""
    made_with = f"{versions()}, PyEPO {metadata.version('pyepo')}, torch {torch.__version__}"
    known = json.loads(path.read_text()) if path.exists() else {}
    splits = known["splits"] if known.get("versions") == made_with else []
    for seed in range(len(splits), n):
        splits.append(demos.one_split("coupons", seed, CACHE))
        path.parent.mkdir(parents=True, exist_ok=True)
        found = {"machine": machine(), "versions": made_with, "splits": splits}
        path.write_text(json.dumps(found, indent=1) + "\n")
        print(*list(demos.values_table({f"split {seed}": splits[-1:]}))[2:], flush=True)
    return splits[:n]


if __name__ == "__main__":
    main()
