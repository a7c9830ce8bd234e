"""Draw the pictures of the docs: python benchmarks/pictures.py [FOLDER]."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np

from outrule import worlds
from outrule.proof.confidence import observations_needed

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
MARGINS = (0.05, 0.02, 0.01, 0.005)
SHARES = (0.02, 0.1, 0.3, 1.0)
DELTA = 0.05
STYLE = {
    "svg.hashsalt": "outrule",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def needed(margin: float, share: float) -> int:
    """Instances that prove the margin where two decisions differ in this share of the instances.

    Outcomes are 0 or 1, and where decisions differ so do their outcomes in half of the cases, in
    either direction: the worst case for decisions of the same value. In units of the range of a
    difference, from -1 to 1.
    """
    found = observations_needed(margin / 2, share / 2 / 4, 0.5, DELTA)
    assert found is not None
    return found


def table() -> str:
    """The table of docs/choosing.md."""
    lines = ["| margin | " + " | ".join(f"{100 * share:g} %" for share in SHARES) + " |"]
    lines.append("|---" * (len(SHARES) + 1) + "|")
    for margin in MARGINS:
        cells = (f"{float(f'{needed(margin, share):.2g}'):,.0f}" for share in SHARES)
        lines.append(f"| {margin:g} | {' | '.join(cells)} |")
    return "\n".join(lines)


def draw_margins(axes: Any) -> None:
    margins = np.geomspace(0.002, 0.1, 60)
    for share in SHARES:
        counts = [needed(margin, share) for margin in margins]
        axes.plot(counts, margins, label=f"{100 * share:g} %")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_yticks([0.002, 0.005, 0.01, 0.02, 0.05, 0.1])
    axes.get_yaxis().set_major_formatter(matplotlib.ticker.FormatStrFormatter("%g"))
    axes.get_yaxis().set_minor_formatter(matplotlib.ticker.NullFormatter())
    axes.set_xlabel("held-out instances (or clusters)")
    axes.set_ylabel("margin that they prove")
    axes.legend(title="decisions that differ", frameon=False)
    axes.grid(alpha=0.3)


def draw_two_arms(axes: Any) -> None:
    """What is predicted for the argmax and for the rule, and what they are worth."""
    predictions, outcomes = worlds.two_arms(100_000, seed=0, epsilon=0.1)
    plain, rows = predictions.argmax(axis=1), np.arange(len(predictions))
    pairs = [
        (predictions[rows, plain].mean(), outcomes[rows, plain].mean()),
        (predictions[:, 1].mean(), outcomes[:, 1].mean()),
    ]
    names = ["plain optimiser:\nthe larger prediction", 'rule:\n"always the second arm"']
    place = np.arange(2)
    for shift, (label, values, colour) in enumerate(
        (
            ("predicted", [pair[0] for pair in pairs], "#b8c4d6"),
            ("realised", [pair[1] for pair in pairs], "#1f5fa8"),
        )
    ):
        bars = axes.bar(place + 0.36 * shift, values, 0.34, label=label, color=colour)
        axes.bar_label(bars, fmt="%.3f")
    axes.set_xticks(place + 0.18, names)
    axes.set_ylabel("value per instance")
    axes.set_ylim(0, 0.135)
    axes.legend(frameon=False, loc="upper center", ncols=2)


def draw(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    matplotlib.use("svg")
    for name, picture, title in (
        ("margins", draw_margins, "Which margin so many held-out instances prove, 95 % confidence"),
        ("two-arms", draw_two_arms, "An unbiased predictor can lose to a simple rule"),
    ):
        with plt.rc_context(STYLE):
            figure, axes = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
            axes.set_title(title, fontsize=11)
            picture(axes)
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Title": title})
            plt.close(figure)


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
    print(table())
