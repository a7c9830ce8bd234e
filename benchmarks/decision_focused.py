"""Decision-focused training (SPO+ of PyEPO) on the coupons, beside what demos.py compares.

    pip install torch pyepo     # in an environment of its own, with outrule and '.[bench]'
    python benchmarks/decision_focused.py [--splits 10] [--docs docs/comparison.md]

A network is trained on the calibration part with the columns that the boosted trees see: once for
the squared error (*network*), once for the SPO+ loss of the decision (*SPO+*), which needs the
outcomes of all items, as outrule does. Both have two hidden layers, the same for every brand, and
the number of epochs is that with the largest value on a fifth of the households, set aside.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import methods
import numpy as np
import pyepo
import torch
from cases import Data
from certificates import write_table
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
    splits = [demos.one_split("coupons", seed, CACHE) for seed in range(options.splits)]
    table = list(demos.values_table({"coupons": splits}))
    print(*table, sep="\n")
    if options.docs:
        write_table(options.docs, "benchmarks/decision_focused.py", table)


if __name__ == "__main__":
    main()
