"""The tables and the spec that `outrule example` writes, to try the command line on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from scipy.special import expit

from outrule.data.table_files import write_table
from outrule.errors import DataError
from outrule.files import write_text

SPEC = """\
# Which of the drivers that could take a trip should be offered it?
[problem]
kind = "best action"

[data]
instance = "trip"
prediction = "score"
outcome = "completed"

[value]
name = "completed trips"
observation = "trip"

# What the company runs today. A weight replaces the score; a choice replaces the optimiser.
[[rules]]
name = "no long pickups"
weight = "CASE WHEN pickup_km > 3 THEN 0.5 * score ELSE score END"

[[rules]]
name = "good ratings first"
weight = "score * rating / 5"

[[rules]]
name = "no long pickups in the rain"
weight = "CASE WHEN rain AND pickup_km > 2 THEN 0.3 * score ELSE score END"

[[rules]]
name = "new drivers last"
weight = "CASE WHEN new THEN 0.6 * score ELSE score END"

[[rules]]
name = "always the nearest"
choose = "nearest = 1"
"""


def write_example(folder: Path, n_trips: int = 5_000, seed: int = 0) -> list[Path]:
    """Write ``trips.csv`` (to fit on), ``new_trips.csv`` (to certify on) and ``spec.toml``.

    A model scores drivers for trips; it overrates long pickups, above all in the rain, and
    drivers who are new.
    """
    paths = [folder / name for name in ("trips.csv", "new_trips.csv", "spec.toml")]
    if paths[2].exists() and paths[2].read_bytes() != SPEC.encode():
        raise DataError(f"{paths[2]} exists and is not the example's: choose another folder.")
    folder.mkdir(exist_ok=True)
    for number, path in enumerate(paths[:2]):
        write_table(trips(n_trips, (seed, number), first_day=1 + 28 * number), path)
    write_text(paths[2], SPEC)
    return paths


def trips(n: int, seed: tuple[int, ...], first_day: int = 1) -> pl.DataFrame:
    """One row per driver who could take a trip, two to six of them, over 28 days."""
    generator = np.random.default_rng(seed)
    offers = generator.integers(2, 7, n)
    trip, rows = np.repeat(np.arange(n), offers), int(offers.sum())
    rain, new = generator.random(n) < 0.3, generator.random(rows) < 0.25
    km, rating = generator.gamma(2.0, 1.2, rows), 5 - generator.gamma(2.0, 0.2, rows)
    skill = generator.normal(0, 0.6, rows) + 2 * (rating - 4.6)
    truth = expit(1.8 + skill - (0.45 + 0.5 * rain[trip]) * km - new)
    score = expit(1.8 + 1.3 * skill - 0.1 * km + generator.normal(0, 0.3, rows))
    frame = pl.DataFrame(
        {
            "trip": trip,
            "day": (first_day + np.sort(generator.integers(0, 28, n)))[trip],
            "driver": generator.integers(100, 1000, rows),
            "score": score.round(4),
            "pickup_km": km.round(2),
            "rating": rating.clip(1, 5).round(1),
            "new": new,
            "rain": rain[trip],
            "completed": (generator.random(rows) < truth).astype(np.int64),
        }
    )
    nearest = pl.col("pickup_km").rank("ordinal").over("trip").alias("nearest")
    return frame.with_columns(nearest)
