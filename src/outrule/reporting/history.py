"""The history of a fit as plain values: its rounds, and what the patches of each test did."""

from __future__ import annotations

import math
from typing import Any

from outrule.calibration.audit import OPTIMISER
from outrule.calibration.loop import Round
from outrule.errors import DataError
from outrule.model.model import Model


def round_of(number: int, row: Round) -> dict[str, Any]:
    """A row of the history; DataError if a damaged file brought it in."""
    values = row._asdict()
    numbers = [value for name, value in values.items() if name != "test"]
    good = all(type(value) in (int, float) and math.isfinite(value) for value in numbers)
    if not good or not isinstance(row.test, str | None):
        raise DataError(f"the model's history is damaged at row {number}. Fit it again.")
    return values


def ledger_of(model: Model, rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """What the patches of each test did, and took off the squared error."""
    entries: dict[tuple[int, int], dict[str, Any]] = {}
    found = model.segmentation
    places = [] if found is None else [f" in {segment.name}" for segment in found.segments]
    for patch, fall in zip(model.patches, _falls(len(model.patches), rounds), strict=True):
        own = patch.test == OPTIMISER
        name = "optimiser" if own else model.tests[patch.test].name
        where = places[patch.segment] if patch.segment >= 0 else ""
        row = entries.setdefault(
            (patch.test, patch.segment),
            {
                "test": name + where,
                "kind": "optimiser" if own else "rule",
                "n_patches": 0,
                "sum_of_steps": 0.0,
                "sum_of_lengths": 0.0,
                "fall": None,
                "n_unmeasured": 0,
            },
        )
        row["n_patches"] += 1
        row["sum_of_steps"] += patch.step
        row["sum_of_lengths"] += abs(patch.step)
        if fall is None:
            row["n_unmeasured"] += 1
        else:
            row["fall"] = fall + (row["fall"] or 0.0)
    tests = sorted(entries.values(), key=lambda row: -(row["fall"] or 0.0))
    noisy = model.settings.check.fresh or len(model.fingerprints) > 1
    return {
        "tests": tests,
        "n_patches": len(model.patches),
        "n_tests": (len(model.tests) + 1) * (1 + len(places)),
        "fall": sum(row["fall"] or 0.0 for row in tests),
        "noisy": noisy,
        "note": _note(noisy, sum(row["n_unmeasured"] for row in tests)),
    }


def _falls(n_patches: int, rounds: list[dict[str, Any]]) -> list[float | None]:
    """For every patch the squared error of its round minus that of the next; None without one."""
    errors = [row["squared_error"] for row in rounds]
    falls: list[float | None] = [
        errors[number] - errors[number + 1] if number + 1 < len(errors) else None
        for number, row in enumerate(rounds)
        if row["test"] is not None
    ]
    falls += [None] * n_patches
    return falls[:n_patches]  # rounds whose patches were taken back are at the end


def _note(noisy: bool, n_unmeasured: int) -> str:
    words = (
        "What a patch was worth is the fall of the squared error on the training data from its "
        "round to the next. It says what the patch did after those before it; in another order "
        "the same patches would share the fall differently."
    )
    if noisy:
        words += (
            " Here every round looked at other data, so that the fall also includes the difference "
            "between two batches: single figures are noisy, and can be negative."
        )
    if n_unmeasured:
        words += " The last round's patch has no later round to be measured by."
    return words
