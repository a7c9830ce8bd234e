"""Tidy results: finished units enter; three tables leave, from which all else is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from outrule.evaluation.settings import Settings

Schema = dict[str, type[pl.DataType]]

UNIT: Schema = {"problem": pl.String, "n_items": pl.Int64, "regime": pl.String, "seed": pl.Int64}
UNITS: Schema = {
    **UNIT,
    "n_rules": pl.Int64,
    "k": pl.Int64,
    "plain": pl.Float64,  # mean value on held-out instances: optimiser on the predictions
    "best_rule": pl.Float64,  # the rule that is best on them
    "oracle": pl.Float64,  # optimiser on the outcomes
    "squared_error": pl.Float64,  # of the predictions, per entry
    "n_solved": pl.Int64,  # instances that the optimiser decided, all runs together
    "seconds": pl.Float64,
}
RUNS: Schema = {
    **UNIT,
    "check": pl.String,  # fresh batches, reuse, private reuse, commit to the best rule
    "step": pl.String,  # fixed, line search; null for commit
    "epsilon": pl.Float64,  # twice the tolerance; null for commit
    "batch_size": pl.Int64,  # null where all samples are seen in every round
    "n_samples": pl.Int64,  # training instances in all
    "n_patches": pl.Int64,
    "n_own": pl.Int64,  # of them, of the optimiser's own test
    "last_patch": pl.Int64,  # the round, from 1, that found the last one; 0 if there is none
    "status": pl.String,  # why it ended; refused: it never began
    "value": pl.Float64,
    "gap": pl.Float64,  # to the best rule
    "gap_error": pl.Float64,  # its standard error over held-out instances
    "improvement": pl.Float64,  # over the optimiser on the predictions
    "squared_error": pl.Float64,
    "largest_violation": pl.Float64,
}
TRACE: Schema = {
    **UNIT,
    "step": pl.String,
    "epsilon": pl.Float64,
    "batch_size": pl.Int64,
    "round": pl.Int64,  # rounds done
    "squared_error": pl.Float64,
    "value": pl.Float64,
}


@dataclass(frozen=True, eq=False)
class Results:
    """What a run of the evaluation found."""

    settings: Settings
    provenance: Mapping[str, Any]  # versions, machine and wall time
    units: pl.DataFrame
    runs: pl.DataFrame
    trace: pl.DataFrame


def gather(
    settings: Settings, provenance: Mapping[str, Any], finished: Sequence[Mapping[str, Any]]
) -> Results:
    """Stack the tables of all units; each unit holds columns by name."""
    tables = [
        pl.concat([pl.DataFrame(unit[name], schema=schema) for unit in finished])
        for name, schema in (("units", UNITS), ("runs", RUNS), ("trace", TRACE))
    ]
    return Results(settings, provenance, *tables)


def as_plain(settings: Settings) -> dict[str, Any]:
    """Settings as JSON has them."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(settings).items()
    }
