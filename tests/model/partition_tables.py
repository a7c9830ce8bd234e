"""Tables of many kinds, cut into Parquet files."""

import numpy as np
import polars as pl

import outrule


def offers(seed=1, n=420, items=5):
    """Offers with columns of many types; rows are shuffled inside blocks of twenty visits."""
    generator = np.random.default_rng(seed)
    rows = n * items
    km = generator.gamma(2.0, 1.5, rows).round(2)
    quality = generator.random(rows)
    chance = quality * np.where(km > 3, 0.3, 0.9)
    visit = np.repeat(np.arange(n), items)
    frame = pl.DataFrame(
        {
            "visit": [f"v{number}" for number in visit],
            "item": np.tile(np.array(["ann", "bob", "cem", "dag", "eve"])[:items], n),
            "km": km,
            "score": np.clip(quality + generator.normal(0, 0.05, rows), 0, 1),
            "outcome": (generator.random(rows) < chance).astype(int),
            "row": np.tile(np.arange(items) % 3, n),
            "column": np.tile(np.arange(items) // 3, n),
            "weight": np.repeat(generator.integers(0, 4, n) / 7, items),
            "day": np.repeat(generator.integers(0, 40, n), items),
            "rank": pl.Series([None if v == n - 1 else v % 9 for v in visit], dtype=pl.Int32),
            "when": pl.Series(visit * 3600).cast(pl.Datetime("ms")),
            "city": pl.Series(np.array(["x", "y"])[visit % 2]).cast(pl.Categorical),
        }
    )
    kept = (visit % 7 > 0) | (frame["item"] != "dag").to_numpy()  # some offer fewer
    frame = frame.filter(pl.Series(kept))
    return frame[np.argsort(visit[kept] // 20 + generator.random(frame.height))]


def logged(frame, seed=3):
    """The same where one offer of a visit was shown, at random."""
    generator = np.random.default_rng(seed)
    keyed = frame.with_columns(draw=pl.Series(generator.random(frame.height)))
    shown = keyed.select(pl.col("draw") == pl.col("draw").max().over("visit"))["draw"]
    size = frame.select(pl.len().over("visit"))["len"]
    outcome = pl.Series(np.where(shown, frame["outcome"].cast(float), np.nan)).fill_nan(None)
    return frame.with_columns(outcome.alias("outcome"), (1 / size).alias("propensity"))


def cut(frame, folder, n_files):
    """Whole visits in every file, one file without any rows, which comes first."""
    folder.mkdir(parents=True)
    frame[:0].write_parquet(folder / "a-empty.parquet")
    names = frame["visit"].unique(maintain_order=True).to_list()
    number = {name: i * n_files // len(names) for i, name in enumerate(names)}
    of_row = np.array([number[name] for name in frame["visit"].to_list()])
    for i in range(n_files):
        frame.filter(pl.Series(of_row == i)).write_parquet(folder / f"b{i:02}.parquet")
    return folder


def stacked(folder):
    """All files one below the other."""
    return pl.concat([pl.read_parquet(path) for path in sorted(folder.glob("*.parquet"))])


RULES = [
    outrule.Reweight("no long ways", "CASE WHEN km > 3 THEN 0.5 * score ELSE score END"),
    outrule.Reweight("the nearest", "1 / (1 + km)"),
    outrule.Fixed("bob", "always bob"),
    outrule.Fixed("bob", "bob again"),
]
COLUMNS = {"instance": "visit", "item": "item", "prediction": "score", "outcome": "outcome"}
