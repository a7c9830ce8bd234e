"""The verdict inside every segment of the held-out data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from outrule.data.instances import Instances
from outrule.data.segments import Segmentation, Segments, as_segments, cut
from outrule.errors import DataError
from outrule.model.model import Model
from outrule.proof.confidence import Observations
from outrule.proof.continuation import first_part
from outrule.proof.judging import NEARLY, Judge, Versus
from outrule.proof.statement import Certificate, Look, SegmentResult, Verdict


def asked_segments(given: Any, model: Model, previous: Certificate | None) -> Segments | None:
    """The segments to judge: those given, those of the earlier certificate, or the model's."""
    if previous is None:
        return model.settings.segments if given is None else as_segments(given)
    made = previous.segmented
    before = None if made is None else Segments(made.by, made.min_share, made.min_instances)
    if given is not None and as_segments(given) != before:
        raise DataError(
            "the earlier certificate was made for other segments, or for none. They cannot change: "
            "leave them out here, or certify afresh."
        )
    return before


def cut_held_out(
    instances: Instances, by: Segments | None, earlier: Sequence[Look]
) -> Segmentation | None:
    """The segments of the held-out data; a continued certificate keeps those of its first look."""
    if by is None:
        return None
    like = cut(first_part(instances, earlier[0].n_instances), by) if earlier else None
    return cut(instances, by, like)


def segment_judges(
    found: Segmentation | None,
    instances: Instances,
    whole: Judge,
    max_weight: float | None,
    earlier: Sequence[Look],
) -> list[Judge]:
    """One judge for every segment; Holm's first step is at delta divided by their number."""
    if found is None:
        return []
    judges = []
    for segment, inside in zip(found.segments, found.inside(instances), strict=True):
        rows = np.flatnonzero(inside)
        looks = [int(np.searchsorted(rows, look.n_instances)) for look in earlier]
        observed = Observations.from_instances(instances.take(rows), max_weight, looks)
        judge = replace(
            whole, observations=observed, rows=rows, segment=segment, n_segments=len(found)
        )
        judges.append(judge)
    return judges


def segment_results(
    judges: Sequence[Judge],
    judged: Sequence[Sequence[Versus]],
    names: Sequence[str],
    *,
    declared: bool,
) -> tuple[tuple[SegmentResult, ...], list[Verdict]]:
    """What is stated of every segment, and the verdicts as if the largest weight were declared."""
    verdicts = [one.verdict(rows) for one, rows in zip(judges, judged, strict=True)]
    backing = [min(row.backing for row in rows) for rows in judged]
    marked = holm(backing, judges[0].delta) if judges else []
    results = []
    for one, rows, verdict, mark in zip(judges, judged, verdicts, marked, strict=True):
        assert one.segment is not None
        means = [row.result.difference.mean for row in rows]
        stated: Verdict = verdict if declared else "inconclusive"
        result = SegmentResult(
            columns=one.segment.columns,
            value=one.segment.value,
            pooled=one.segment.pooled,
            share=one.segment.share,
            n_instances=len(one.observations.group),
            n_observations=one.observations.n,
            gap=min(means),
            gap_lower=min(row.result.lower for row in rows),
            best_rival=names[int(np.argmin(means))],
            verdict=stated,
            together=mark and stated == "pass",
            needed=needed(rows, stated) if declared else None,
            differences=tuple(means),
        )
        results.append(result)
    return tuple(results), verdicts


def holm(e_values: Sequence[float], delta: float) -> list[bool]:
    """Which claims hold all at once, given their e-values: p is 1 / e (Holm 1979)."""
    marked, left = [False] * len(e_values), len(e_values)
    for number in sorted(range(len(e_values)), key=lambda i: -e_values[i]):
        if e_values[number] * delta / left < NEARLY:
            break
        marked[number], left = True, left - 1
    return marked


def needed(rivals: Sequence[Versus], verdict: Verdict) -> int | None:
    """Observations that would decide: the first that fails, or the last that passes."""
    if verdict != "inconclusive":
        return None
    undecided = [row for row in rivals if row.verdict == "inconclusive"]
    failing = [row.needed for row in undecided if row.lags and row.needed is not None]
    if failing:
        return min(failing)
    counts = [row.needed for row in undecided if row.needed is not None]
    return max(counts) if counts and len(counts) == len(undecided) else None
