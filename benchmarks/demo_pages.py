"""The figures of docs/demos.md: what the demos print, and their pictures.

    pip install -e '.[bench,plots]'
    python benchmarks/demo_pages.py [--demos NAME ...]

Runs `outrule demo NAME`, puts the main lines of its output into the page, and draws
docs/demos/NAME.svg. The tables over ten splits are those of demos.py --docs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.dates
import numpy as np
import polars as pl
from certificates import write_table
from matplotlib import pyplot as plt

import outrule
from outrule.demos import real

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "demos.md"
PLAIN = {"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}


def printed(name: str, folder: Path) -> list[str]:
    """The values, predicted vs realised and the verdict, as the command prints them."""
    command = [sys.executable, "-m", "outrule", "demo", name, "-o", str(folder)]
    run = subprocess.run(
        command, capture_output=True, text=True, check=True, env=os.environ | PLAIN
    )
    return main_lines(run.stdout)


def main_lines(text: str) -> list[str]:
    """The part of a demo's output that the page shows."""
    kept, inside = [], False
    for line in text.splitlines():
        inside = (inside or line.startswith("Deploy?")) and not line.startswith("compared with")
        if inside or line.startswith(("┏", "┃", "┡", "│", "└", "predicted vs", "Watched after")):
            kept.append(line)
    return kept


def as_markdown(lines: list[str]) -> list[str]:
    """The table as one of Markdown; the sentences as an output, whose lines wrap on the site."""
    boxed = [line for line in lines if line[0] in "┏┃┡│└"]
    rows = [line.strip("┃│").split(line[0]) for line in boxed if line[0] in "┃│"]
    table = ["| " + " | ".join(cell.strip() for cell in row) + " |" for row in rows]
    table.insert(1, "|---" * len(rows[0]) + "|")
    return [*table, "", "```output", *lines[len(boxed) :], "```"]


def draw(name: str, folder: Path) -> None:
    """Ours minus each rule, and predicted vs realised; for the bank, the watch."""
    calibrator = outrule.load(folder / real.MODEL)
    spec = outrule.read_spec(folder / real.SPEC)
    later = pl.read_parquet(folder / real.LATER)
    held_out = spec.instances(later)
    text = (folder / real.CERTIFICATE).read_text()
    summary = outrule.summarise(calibrator, held_out, outrule.Certificate.from_json(text))
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
    outrule.plots.forest(summary, left)
    if (folder / real.STATE).exists():
        _draw_watch(
            outrule.Watch.from_json((folder / real.STATE).read_text(), calibrator), later, right
        )
    else:
        outrule.plots.predicted_vs_realised(summary, right)
    figure.savefig(DOCS / "demos" / f"{name}.svg", metadata={"Date": None})
    plt.close(figure)


def _draw_watch(watch: Any, later: pl.DataFrame, ax: Any) -> None:
    """The share of calls that won a deposit, month by month, and the day of the alarm."""
    calls = later.filter(pl.col("action") == "call").with_columns(pl.col("date").dt.truncate("1mo"))
    months = calls.group_by("date").agg(pl.col("worth").mean()).sort("date")
    ax.plot(months["date"].to_numpy(), months["worth"].to_numpy(), "o-", color=outrule.plots.OTHER)
    ax.axhline(0.12, color=outrule.plots.SOFT, linestyle=":", label="cost of a call")
    (part,) = (part for part in watch.status.parts if part.watched == "rivals")
    alarm = np.datetime64(str(part.alarm))
    ax.axvline(alarm, color=outrule.plots.OURS, label=f"alarm of the watch, {part.alarm}")
    ax.xaxis.set_major_formatter(
        matplotlib.dates.ConciseDateFormatter(ax.xaxis.get_major_locator())
    )
    ax.set_ylabel("calls that win a deposit")
    ax.set_ylim(0, None)
    ax.legend(loc="lower right")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--demos", nargs="+", choices=list(real.DEMOS), default=list(real.DEMOS))
    options = parser.parse_args()
    matplotlib.use("agg")
    matplotlib.rcParams["svg.hashsalt"] = "outrule"  # the same bytes each time
    for name in options.demos:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place, name)
            lines = printed(name, folder)
            draw(name, folder)
        write_table(PAGE, f"outrule demo {name}", as_markdown(lines))


if __name__ == "__main__":
    main()
