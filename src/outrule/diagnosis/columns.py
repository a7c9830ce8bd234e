"""Findings about columns: constants, leaks of the outcome, times, rare items, copies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from outrule.calibration.cross_fit import CrossFit
from outrule.data.filled import Flags, other_columns
from outrule.data.instances import Instances
from outrule.data.sketch import hash_all
from outrule.diagnosis.findings import Finding, Severity, error, note, warning
from outrule.model.settings import Settings
from outrule.types import Booleans, Floats
from outrule.words import count, listed

IMPLAUSIBLE = 0.98  # correlation with the outcome
RARE = CrossFit().least  # rows: a curve has no point of fewer
MANY_COPIES = 0.01
NAMED = 5  # columns or items that a finding names
ISO_TIME = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?Z?)?$"  # in order as strings, too
TIME_WORDS = ("date", "day", "hour", "month", "time", "timestamp", "week", "year")


def examine_columns(instances: Instances, settings: Settings) -> Iterator[Finding]:
    """All findings of this module. Cost: a few passes over every column."""
    yield from _constants(instances, settings)
    yield from _wide_range(instances)
    yield from _leaks(instances)
    yield from _filled(instances)
    yield from _copies(instances)
    yield from _same_rows(instances)
    yield from _rare_items(instances)
    yield from _times(instances, settings)


def _observed(instances: Instances) -> tuple[Floats, Booleans] | None:
    """The outcomes that are known, and which they are; None where none is."""
    if instances.outcome is None or not instances.observed.any():
        return None
    return instances.outcome[instances.observed], instances.observed


def _constants(instances: Instances, settings: Settings) -> Iterator[Finding]:
    one_choice = settings.problem.exactly_one
    if np.ptp(instances.prediction) == 0:
        yield warning(
            "constants",
            f"every prediction is {instances.prediction[0]:g}",
            "The plain optimiser has nothing to go on: is it the right column?",
        )
    known = _observed(instances)
    if known is not None and np.ptp(known[0]) == 0:
        yield Finding(
            Severity.ERROR if one_choice else Severity.WARNING,
            "constants",
            f"every outcome is {known[0][0]:g}",
            "Decisions of the same size are all worth the same: is it the right column?",
        )
    names = [name for name, column in other_columns(instances) if column.n_unique() == 1]
    if names:
        yield note(
            "constants",
            f"{count(len(names), 'column')} with one value only: {_some(names)}",
            "A rule that depends on one alone decides the same everywhere.",
        )


def _wide_range(instances: Instances) -> Iterator[Finding]:
    """A range of which the table uses less than half; bounds are as wide as it is."""
    known = _observed(instances)
    if known is None:
        return
    low, high = instances.value_range
    least = min(float(instances.prediction.min()), float(known[0].min()))
    most = max(float(instances.prediction.max()), float(known[0].max()))
    if most - least < (high - low) / 2:
        yield note(
            "range",
            f"predictions and outcomes run from {least:g} to {most:g}, less than half of "
            f"value_range = [{low:g}, {high:g}]",
            "The wider the range, the wider the bounds: if values outside a narrower one are "
            "impossible, declare that one.",
        )


def _leaks(instances: Instances) -> Iterator[Finding]:
    known = _observed(instances)
    if known is None or np.ptp(known[0]) == 0:
        return
    outcome, observed = known
    prediction = instances.prediction[observed]
    if (prediction == outcome).all():
        yield error(
            "leakage",
            "every prediction equals its outcome",
            "A prediction is made before the decision: name the column of the model's score.",
        )
    elif (found := _correlation(prediction, outcome)) > IMPLAUSIBLE:
        yield warning(
            "leakage",
            f"predictions and outcomes have a correlation of {found:.3f}",
            "Was the model trained on these rows, or does it see the outcome? Use predictions "
            "for rows that it has not seen.",
        )
    for name, column in other_columns(instances):
        if not (column.dtype.is_numeric() or column.dtype == pl.Boolean) or column.null_count():
            continue
        found = abs(_correlation(column.cast(pl.Float64).to_numpy()[observed], outcome))
        if found > IMPLAUSIBLE:
            yield warning(
                "leakage",
                f"column {name!r} and the outcome have a correlation of {found:.3f}",
                "Rules may look at it: if it is only known after the decision, drop it.",
            )


def _correlation(one: Floats, other: Floats) -> float:
    """0 where one of them is constant, or not finite."""
    with np.errstate(all="ignore"):
        a, b = one - one.mean(), other - other.mean()
        found = float((a * b).sum() / np.sqrt((a**2).sum() * (b**2).sum()))
    return found if np.isfinite(found) else 0.0


def _filled(instances: Instances) -> Iterator[Finding]:
    """Outcomes that were not observed and were written as zero."""
    known = _observed(instances)
    if known is None or np.ptp(known[0]) == 0:
        return
    if instances.propensity is not None:
        if known[1].all():
            yield warning(
                "feedback",
                "every outcome is known, although the spec has a propensity",
                "An outcome that was not observed must be null, not 0: see docs/logs.md. If all "
                "are known, leave the propensity out.",
            )
        return
    for flag in Flags.of(instances).filled():
        yield warning("feedback", flag.what, flag.remedy)


def _same_rows(instances: Instances) -> Iterator[Finding]:
    """Rows of an instance that are alike in all columns, where no item says what they offer."""
    frame: pl.DataFrame = instances.origin.frame  # type: ignore[union-attr] # of a table
    odd = any(kind == pl.Object or kind.is_nested() for kind in frame.dtypes)
    if instances.item is not None or odd:
        return
    again = ~frame.select(pl.struct(pl.all()).is_first_distinct()).to_series().to_numpy()
    if again.any():
        copies = "row is a copy" if again.sum() == 1 else "rows are copies"
        yield warning(
            "copies",
            f"{again.sum():,} {copies} of another row of the same instance",
            "If they are one item, drop all but one: it could be chosen twice.",
            instances.where_flat(int(again.argmax())),
        )


def _copies(instances: Instances) -> Iterator[Finding]:
    if instances.outcome is None or instances.propensity is not None:
        return
    contents = hash_all(instances)[1]
    _, first, counts = np.unique(contents, return_index=True, return_counts=True)
    n = int(counts[counts > 1].sum())
    if n > MANY_COPIES * len(instances):
        yield warning(
            "copies",
            f"{n:,} of {len(instances):,} instances have the predictions and outcomes of another",
            "If they are copies, drop them, or name the column that they share as cluster. In data "
            "with few different values it is normal.",
            instances.where(int(first[counts > 1].min())),
        )


def _rare_items(instances: Instances) -> Iterator[Finding]:
    names = instances.item_names
    if names is None or instances.codes is None:
        yield note(
            "items",
            "no column is named as item, so nothing can be corrected for a single item",
            "If the same items recur, name the column that identifies them; for pairs, one that "
            "names both, such as 'ann / monday'.",
        )
        return
    counts = np.bincount(instances.codes, minlength=len(names))
    rare = np.flatnonzero(counts < RARE)
    if not len(rare):
        return
    single = int((counts == 1).sum())
    like_rows = 2 * single > len(names)
    yield Finding(
        Severity.WARNING if like_rows else Severity.NOTE,
        "items",
        f"{len(rare):,} of {count(len(names), 'item')} are in fewer than {RARE} rows"
        + (f", and {single:,} in one only" if single else "")
        + f": {_some([names[code] for code in rare.tolist()])}",
        "Rules and curves by item have little to go on there: name a coarser column as item, such "
        "as a kind or a group, or leave the item out.",
    )


def _times(instances: Instances, settings: Settings) -> Iterator[Finding]:
    for name, column in other_columns(instances):
        if column.null_count() or not _is_time(name, column):
            continue
        first = column.gather(instances.offsets[:-1])
        if not (column == first.gather(instances.instance)).all() or first.n_unique() == 1:
            continue
        span = f"column {name!r} runs from {first.min()!s} to {first.max()!s}"
        remedy = "Fit on the earlier instances and certify on the later ones, as in production."
        if first.is_sorted():
            yield note("time", f"{span}, in order", remedy)
            continue
        fresh = settings.check.fresh
        back = int((first.slice(1) < first.slice(0, len(first) - 1)).arg_max() or 0) + 1
        yield Finding(
            Severity.WARNING if fresh else Severity.NOTE,
            "time",
            f"{span}, not in order",
            f"Sort by it: fresh batches take the instances as they come. {remedy}"
            if fresh
            else remedy,
            instances.where(back),
        )


def _is_time(name: str, column: pl.Series) -> bool:
    """Whether a column without nulls is a time by its type, its name, or its ISO strings (CSV)."""
    if column.dtype == pl.String:
        dates = column.str.slice(0, 10).str.to_date("%Y-%m-%d", strict=False)
        return bool(column.str.contains(ISO_TIME).all()) and not dates.null_count()
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]
    named = column.dtype.is_numeric() and any(word in TIME_WORDS for word in words)
    return column.dtype.is_temporal() or named


def _some(names: Sequence[object]) -> str:
    shown = [repr(name) for name in names[:NAMED]]
    more = len(names) - len(shown)
    return listed([*shown, f"{more:,} more"] if more else shown)
