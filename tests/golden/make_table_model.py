"""Makes table_model.json and table_predictions.json.

    python tests/golden/make_table_model.py

Run it again only before the first release: files that users have keep their format.
"""

import json
from pathlib import Path

import numpy as np
import polars as pl

import outrule

HERE = Path(__file__).parent
NAMES = {"instance": "batch", "item": "pair", "prediction": "score"}


def table(n: int, seed: int) -> pl.DataFrame:
    """Batches of two riders and three drivers; scores and outcomes on a grid of 1/64."""
    generator = np.random.default_rng(seed)
    completed = generator.integers(0, 65, 6 * n)
    km = generator.integers(0, 25, 6 * n) / 4
    score = completed + generator.integers(-10, 20, 6 * n) + np.where(km > 3, 20, 0)
    return pl.DataFrame(
        {
            "batch": np.repeat([f"batch {i}" for i in range(n)], 6),
            "pair": np.tile([f"{rider}{driver}" for rider in "ab" for driver in "xyz"], n),
            "rider": np.tile(["a", "a", "a", "b", "b", "b"], n),
            "driver": np.tile(["x", "y", "z"], 2 * n),
            "pickup_km": km,
            "score": np.clip(score, 0, 64) / 64,
            "completed": completed / 64,
        }
    )


def main() -> None:
    rules = (
        outrule.Reweight(
            "no long pickups", "CASE WHEN pickup_km > 3 THEN 0.5 * score ELSE score END"
        ),
        outrule.Choose("always the first", "pair = 'ax' OR pair = 'by'"),
        outrule.Multiplier(
            {"ax": 1.0, "ay": 0.5, "az": 0.5, "bx": 0.5, "by": 1.0, "bz": 0.5}, name="by pair"
        ),
        outrule.Fixed("az"),
    )
    data = outrule.Instances.from_table(table(200, seed=0), outcome="completed", **NAMES)
    calibrator = outrule.DecisionCalibrator(
        outrule.Assignment("rider", "driver"),
        rules,
        epsilon=0.02,
        start=outrule.Isotonic(per_item=False),
        random_state=0,
    )
    calibrator.fit(data).save(HERE / "table_model.json")
    new = outrule.Instances.from_table(table(20, seed=1).drop("completed"), **NAMES)
    text = json.dumps(calibrator.predict(new).to_list(), indent=1)
    (HERE / "table_predictions.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
