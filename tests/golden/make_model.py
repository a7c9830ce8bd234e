"""Makes model.json and predictions.json.

    python tests/golden/make_model.py

Run it again only before the first release: files that users have keep their format.
"""

import json
from pathlib import Path

import numpy as np

import outrule

HERE = Path(__file__).parent


def instances(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Predictions and outcomes of the six edges of a complete graph, on a grid of 1/64."""
    generator = np.random.default_rng(seed)
    outcomes = generator.integers(0, 65, (n, 6))
    noisy = outcomes + generator.integers(-20, 33, (n, 6))
    return np.clip(noisy, 0, 64) / 64, outcomes / 64


def main() -> None:
    rules = (
        outrule.Fixed(0),
        outrule.Multiplier([1.0, 0.5, 0.5, 0.5, 0.5, 1.0], name="the first pairing"),
        outrule.Multiplier([0.25, 1.0, 1.0, 1.0, 1.0, 0.75], name="the other two"),
    )
    calibrator = outrule.DecisionCalibrator(outrule.Matching.complete(4), rules, epsilon=0.02)
    calibrator.fit(*instances(200, seed=0))
    calibrator.save(HERE / "model.json")
    predictions = calibrator.predict(instances(20, seed=1)[0])
    text = json.dumps(predictions.tolist(), indent=1)
    (HERE / "predictions.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
