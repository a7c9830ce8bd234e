"""A calibrator that is Algorithm 1 to the letter, where numbers are compared with it."""

from __future__ import annotations

from typing import Any

import outrule


def algorithm_one(*args: Any, **settings: Any) -> outrule.DecisionCalibrator:
    """From the predictions, without rivals, unless asked otherwise."""
    return outrule.DecisionCalibrator(*args, **({"start": None, "rivals": ()} | settings))
