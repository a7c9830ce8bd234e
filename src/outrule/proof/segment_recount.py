"""Segments of a certificate, recomputed for the verification: counts, bounds, marks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from outrule.data.instances import Instances
from outrule.data.segments import Value, values_of
from outrule.model.model import Model
from outrule.proof.recount import Recount
from outrule.proof.statement import Certificate
from outrule.types import Booleans, Floats
from outrule.words import count


@dataclass(frozen=True, eq=False)
class Group:
    """Some instances; ``value`` is None for all whose values are too small, pooled."""

    columns: tuple[str, ...]
    value: Value | None
    inside: Booleans
    pooled: int = 0


def groups_of(instances: Instances, certificate: Certificate) -> tuple[list[Group], str | None]:
    """The segments, and what is said of pools."""
    by = certificate.segmented
    if by is None:
        return [], None
    first = certificate.earlier[0].n_instances if certificate.earlier else len(instances)
    weight = np.ones(len(instances)) if instances.weight is None else instances.weight
    total = math.fsum(weight[:first].tolist())

    def is_large(inside: Booleans) -> bool:
        part = weight[:first][inside[:first]]
        share, n = math.fsum(part.tolist()) / total, int((part > 0).sum())
        return share >= by.min_share and n >= by.min_instances

    large, small = list[Group](), list[Group]()
    for columns in by.by:
        number, values = values_of(instances, columns)
        places: dict[Value, Booleans] = {v: number == i for i, v in enumerate(values)}
        named = [v for v, inside in places.items() if is_large(inside)]
        named.sort(key=lambda value: [(text is None, text or "") for text in value])
        if not named:
            raise ValueError(f"segmented: no value of {' x '.join(columns)} is large enough")
        large += [Group(columns, value, places[value]) for value in named]
        rest = [v for v, p in places.items() if v not in named and (weight[p] > 0).any()]
        if rest:
            inside = ~np.any([places[value] for value in named], axis=0)
            pool = Group(columns, None, inside, len(rest))
            (large if is_large(inside) else small).append(pool)
    return large, _note(large, small, weight, certificate)


def _note(
    large: list[Group], small: list[Group], weight: Floats, certificate: Certificate
) -> str | None:
    by, words = certificate.segmented, []
    assert by is not None
    total = math.fsum(weight.tolist())
    for pool in [*(group for group in large if group.value is None), *small]:
        columns = " x ".join(pool.columns)
        end = f"pooled as 'other {columns}'" if pool in large else "too few to be judged"
        share = math.fsum(weight[pool.inside].tolist()) / total
        verb = "are" if pool.pooled > 1 else "is"
        number = count(pool.pooled, "value")
        words.append(f"{number} of {columns} ({100 * share:.2g} % of the weight) {verb} {end}")
    if not words:
        return None
    limit = f"{100 * by.min_share:g} % and {count(by.min_instances, 'instance')}"
    return f"segments below {limit}: {'; '.join(words)}."


class SegmentRecount:
    """What is said of every segment, computed again."""

    def __init__(
        self,
        model: Model,
        instances: Instances,
        after: Floats,
        groups: Sequence[Group],
        certificate: Certificate,
        shares: int,
    ):
        claims = [*certificate.segments, *[None] * len(groups)]
        self.groups, self.claims = groups, claims[: len(groups)]
        weight = np.ones(len(instances)) if instances.weight is None else instances.weight
        self.weight = weight
        self.counts = [
            Recount(
                model,
                replace(instances, weight=np.where(group.inside, weight, 0.0)),
                after,
                certificate,
                shares,
            )
            for group in groups
        ]

    def rows(
        self, ours: Booleans, theirs: Sequence[Booleans], tolerated: Sequence[float]
    ) -> list[list[dict[str, Any]]]:
        """All that is said of every rival, segment by segment."""
        return [
            data.inside(
                ours, theirs, tolerated, claim.gap_lower if claim else None, len(self.groups)
            )
            for data, claim in zip(self.counts, self.claims, strict=True)
        ]

    def results(
        self, rows: list[list[dict[str, Any]]], names: list[str], *, declared: bool
    ) -> list[dict[str, Any]]:
        """The segments of the certificate."""
        marked = self._marked([min(row["backing"] for row in rivals) for rivals in rows])
        total, results = math.fsum(self.weight.tolist()), []
        for group, data, claim, rivals, mark in zip(
            self.groups, self.counts, self.claims, rows, marked, strict=True
        ):
            verdict = data.verdict(rivals) if declared else "inconclusive"
            needed = None
            means = [{"lower": row["mean"]} for row in rivals]
            if declared and verdict == "inconclusive":
                needed = last_or_first([row for row in rivals if row["open"]])
            results.append(
                {
                    "columns": list(group.columns),
                    "value": None if group.value is None else list(group.value),
                    "pooled": group.pooled,
                    "share": math.fsum(self.weight[group.inside].tolist()) / total,
                    "n_instances": int(group.inside.sum()),
                    "n_observations": data.n,
                    "gap": min(row["mean"] for row in rivals),
                    "gap_lower": min(row["lower"] for row in rivals),
                    "best_rival": data.closest(means, names, claim.best_rival if claim else ""),
                    "verdict": verdict,
                    "together": mark and verdict == "pass",
                    "needed": near_claim(needed, claim.needed if claim else None),
                    "differences": [row["mean"] for row in rivals],
                }
            )
        return results

    def _marked(self, backing: list[float]) -> list[bool]:
        """Holm's procedure; backing is the capital as a share of what the first step takes."""
        n = len(backing)
        found = [False] * n
        for step, number in enumerate(np.argsort(-np.array(backing), kind="stable").tolist()):
            if backing[number] < (n - step) / n * (1 - 1e-12):
                break
            found[number] = True
        return found


def last_or_first(undecided: list[dict[str, Any]]) -> int | None:
    """The smallest count that fails; else the largest that passes, if all have one."""
    failing = [rival["needed"] for rival in undecided if rival["lags"] and rival["needed"]]
    if failing:
        return int(min(failing))
    counts = [rival["needed"] for rival in undecided]
    return int(max(counts)) if counts and None not in counts else None


def near_claim(needed: int | None, claimed: int | None) -> int | None:
    """The claimed count where the two are nearly equal: a large one hangs on the last bits."""
    if needed and claimed:
        slack = 1e-6 + 1e-9 * math.sqrt(needed)
        return claimed if math.isclose(needed, claimed, rel_tol=slack) else needed
    return needed
