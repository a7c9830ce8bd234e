"""The tables of the demos: from the raw data to what the package carries.

    pip install -e '.[bench]'
    python benchmarks/demo_data.py [--demos NAME ...] [--cache FOLDER]

Trains each demo's model, writes past.parquet and later.parquet beside its spec in
src/outrule/demos/data, and the digests of all tables to SHA256SUMS there. Another version of
scikit-learn or Polars may give other digits or bytes.

``SPLITS`` has the same tables for other splits, for demos.py, all at random: flights by day, with
the same old model, the others with a model of their own each. ``VARIANTS`` has flights in two other
ways: cut by time, and with an older model.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
from cases import bank, escalate, flights, forms, sources
from cases.case import BASE, CALIBRATION, TEST, split
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from outrule.demos.coupons import Tables, trip_tables, visit_tables
from outrule.demos.real import DEMOS, LATER, PAST

HERE = Path(__file__).parent
SHIPPED = HERE.parent / "src/outrule/demos/data"
CACHE = HERE / ".cache"
FEBRUARY, APRIL = 2, 4
FIRST_CUT, STEP, SPAN = datetime.date(2013, 7, 1), 12, 75  # days


def flight_tables(seed: int | None, _cache: Path, model_until: int = APRIL) -> Tables:
    """Half of the days after the months of the model, drawn at random, and the other half."""
    frame = _flights(model_until)
    days = frame["date"].unique().sort()
    drawn = np.random.default_rng(seed or 0).permutation(len(days))[: len(days) // 2]
    past = pl.col("date").is_in(days.gather(np.sort(drawn)).implode())
    return frame.filter(past), frame.filter(~past)


def flight_cuts(seed: int | None, _cache: Path) -> Tables:
    """Cut at a date: all since May before it, and 75 days after it."""
    frame, date = _flights(APRIL), pl.col("date")
    cut = FIRST_CUT + datetime.timedelta(days=STEP * (seed or 0))
    end = cut + datetime.timedelta(days=SPAN)
    return frame.filter(date < cut), frame.filter((date >= cut) & (date < end))


def form_tables(seed: int | None, cache: Path) -> Tables:
    seed = seed or 0
    features, label = sources.keel_table("penbased", cache)
    part = split(np.arange(len(label)), seed)
    classifier = forms.logistic().fit(features[part == BASE], label[part == BASE])
    score = classifier.predict_proba(features)
    past, later = (
        _form_table(images, score, features, label)
        for images in forms.fill_forms(label, part, seed)
    )
    return past, later


def pixel_tables(seed: int | None, cache: Path) -> Tables:
    features, label = sources.keel_table("satimage", cache)
    part = split(np.arange(len(label)), seed or 0)
    trees = HistGradientBoostingClassifier(random_state=0)
    trees.fit(features[part == BASE], label[part == BASE])
    score = escalate.PROBLEM.with_reject(_significant(trees.predict_proba(features)))
    right = escalate.PROBLEM.with_reject(np.eye(len(escalate.LABELS) - 1)[label])
    past, later = (
        _pixel_table(np.flatnonzero(part == one), score, right, features)
        for one in (CALIBRATION, TEST)
    )
    return past, later


def call_tables(seed: int | None, cache: Path) -> Tables:
    """By time for the demo; else random days."""
    calls = bank.calls(cache)
    date = calls["date"]
    if seed is None:
        part = np.digitize(
            date.to_physical().to_numpy(),
            [(datetime.date(2008, month, 1) - datetime.date(1970, 1, 1)).days for month in (7, 12)],
        )
    else:
        part = split(date.to_physical().to_numpy(), seed)
    rows = bank.long(calls, bank.scores(calls, part == BASE))
    twice = np.repeat(part, 2)
    return rows.filter(twice == CALIBRATION), rows.filter(twice == TEST)


Split = Callable[[int | None, Path], Tables]
SPLITS: dict[str, Split] = {
    "flights": flight_tables,
    "forms": form_tables,
    "escalate": pixel_tables,
    "bank": call_tables,
    "coupons": lambda seed, _: trip_tables(seed or 0),
    "five-coupons": lambda seed, _: visit_tables(seed or 0),
}
BY_TIME = "flights, cut by time"
VARIANTS: dict[str, Split] = {  # the demo, and what is different
    BY_TIME: flight_cuts,
    "flights, model of January and February": partial(flight_tables, model_until=FEBRUARY),
}


def _flights(model_until: int) -> pl.DataFrame:
    """Bookings after a month, scored by the model of all days until then."""
    offers = flights.carrier_offers()
    base = (offers["month"] <= model_until).to_numpy()
    there, overall = flights.histories(offers, base)
    frame = pl.DataFrame(
        {
            "booking": offers["context"].to_numpy().astype(np.int32),
            "date": np.datetime64("2013-01-01") + (offers["day"].to_numpy() - 1),
            "month": offers["month"].to_numpy().astype(np.int8),
            "weekday": offers["weekday"].to_numpy().astype(np.int8),
            "part_of_day": np.array(["morning", "afternoon", "evening"])[offers["block"]],
            "destination": flights.destinations()[offers["place"]],
            "carrier": np.array(flights.CARRIERS)[offers["code"]],
            "flights": offers["flights"].to_numpy().astype(np.int16),
            "history": there.round(4),
            "carrier_history": overall.round(4),
            "score": flights.additive_scores(offers, base).round(4),
            "on_time": offers["on_time"].to_numpy().round(4),
        }
    )
    return frame.filter(pl.col("month") > model_until)


def _form_table(
    images: NDArray[np.int64],
    score: NDArray[np.float64],
    features: NDArray[np.float64],
    label: NDArray[np.int64],
) -> pl.DataFrame:
    n, size = images.shape
    square = _significant(score[images])
    points = np.repeat(features[images].reshape(n * size, -1), size, axis=0)
    return pl.DataFrame(
        {
            "form": np.repeat(np.arange(n, dtype=np.int32), size**2),
            "image": np.tile(np.repeat(np.arange(size, dtype=np.int8), size), n),
            "digit": np.tile(np.arange(size, dtype=np.int8), n * size),
            "score": square.ravel(),
            "digit_total": _significant(forms.digit_totals(square)).ravel(),
            "right": (label[images][:, :, None] == np.arange(size)).ravel(),
            **{
                f"{'xy'[i % 2]}{i // 2}": column.astype(np.int8)
                for i, column in enumerate(points.T)
            },
        }
    )


def _pixel_table(
    pixels: NDArray[np.int64],
    score: NDArray[np.float64],
    right: NDArray[np.float64],
    features: NDArray[np.float64],
) -> pl.DataFrame:
    size = len(escalate.LABELS)
    bands = np.repeat(features[pixels], size, axis=0).astype(np.int16)
    return pl.DataFrame(
        {
            "pixel": np.repeat(pixels.astype(np.int32), size),
            "label": np.tile(np.array(escalate.LABELS), len(pixels)),
            "score": score[pixels].ravel(),
            "right": right[pixels].ravel(),
            **{f"band{i % 4}_at{i // 4}": bands[:, i] for i in range(bands.shape[1])},
        }
    )


def _significant(values: NDArray[np.float64], digits: int = 4) -> NDArray[np.float64]:
    """Rounded to so many digits, whatever the size: small probabilities matter to some rules."""
    scale = 10.0 ** (np.floor(np.log10(np.maximum(values, 1e-12))) + 1 - digits)
    return np.rint(values / scale) * scale


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    shipped = [name for name, demo in DEMOS.items() if demo.make is None]
    parser.add_argument("--demos", nargs="+", choices=shipped, default=shipped)
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder of downloaded wheels")
    options = parser.parse_args()
    for name in options.demos:
        with threadpool_limits(1):  # the same bits on every machine
            tables = SPLITS[name](None, options.cache)
        for file, frame in zip((PAST, LATER), tables, strict=True):
            path = SHIPPED / name / file
            frame.write_parquet(path, compression="zstd", compression_level=22)
            print(
                f"{path.relative_to(HERE.parent)}: {frame.height:,} rows, {path.stat().st_size:,} B"
            )
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(SHIPPED).as_posix()}\n"
        for path in sorted(SHIPPED.glob("*/*.parquet"))
    ]
    (SHIPPED / "SHA256SUMS").write_text("".join(lines))


if __name__ == "__main__":
    main()
