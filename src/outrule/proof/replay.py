"""Predictions and decisions of a model, computed again for the verification in plain NumPy.

Decisions are boolean masks, and a patch is one line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from outrule.calibration.trees import Trees
from outrule.data.instances import Instances
from outrule.data.segments import values_of
from outrule.model.model import Model
from outrule.problems.contract import Layout
from outrule.proof.statement import CertificateError
from outrule.rules.rules import Rule
from outrule.types import Booleans, Floats


@dataclass(frozen=True, eq=False)
class Decisions:
    """Calibrated predictions, and as marks what everyone decides."""

    after: Floats
    rules: list[Booleans]
    plain: Booleans
    calibrated: Booleans
    isotonic: Booleans
    oracle: Booleans | None = None  # unknown where not all outcomes are


def decide_again(model: Model, instances: Instances) -> Decisions:
    """Replay the patches, and let everyone decide."""
    layout = model.problem.lay(instances)
    tests = [_decisions(model, test, instances, layout) for test in model.tests]
    after = _replayed(model, instances, tests, layout)
    smoothed = model.isotonic.apply(instances, layout.per_item.get("frozen"))
    every = [instances.prediction, after, smoothed]
    if instances.propensity is None and instances.outcome is not None:
        every.append(instances.outcome)
    optima = [_optimum(model, instances, weights, layout) for weights in every]
    return Decisions(after, tests[: len(model.rules)], *optima)


def _decisions(model: Model, rule: Rule, instances: Instances, layout: Layout) -> Booleans:
    marks = instances.mark(rule.decide(instances, model.problem, layout))
    if not model.problem.feasible(marks, layout).all():
        raise CertificateError(f"rule {rule.name!r} makes an infeasible decision.")
    return marks


def _optimum(model: Model, instances: Instances, weights: Floats, layout: Layout) -> Booleans:
    return instances.mark(model.problem.pick(weights, layout))


def _replayed(model: Model, instances: Instances, tests: list[Booleans], layout: Layout) -> Floats:
    """All patches, one line of NumPy each."""
    low, high = instances.value_range
    frozen = layout.per_item.get("frozen")

    def project(p: Floats) -> Floats:
        return np.clip(p, low, high) if frozen is None else _on_simplex(p, instances, frozen)

    def moved(p: Floats, test: int) -> Booleans:
        marks = _optimum(model, instances, p, layout) if test == -1 else tests[test]
        return marks if frozen is None else marks & ~frozen

    movable = np.ones(len(instances.prediction), bool) if frozen is None else ~frozen
    starts = []
    for member in model.members:
        p = instances.prediction if instances.start is None else instances.start
        if member.start is not None:
            p = member.start.apply(replace(instances, prediction=p), frozen)
        if member.trees is not None:
            moved_by = _answers(member.trees, instances, tests)
            p = np.where(movable, np.clip(p + moved_by, low, high), p)
        p = project(p)
        for test, x, y in member.patches:
            p = project(np.where(moved(p, test), _along(p, x, y), p))
        starts.append(p)
    p = project(np.mean(starts, axis=0) if starts else model.start_of(instances))
    inside = _inside(model, instances)
    for patch in model.patches:
        marks = moved(p, patch.test)
        marks = marks if patch.segment < 0 else marks & inside[patch.segment]
        p = project(p + patch.step * marks)
    return p


def _along(p: Floats, x: Sequence[float], y: Sequence[float]) -> Floats:
    """The curve at p: the sum of what each of its pieces adds, in units in which none is tiny.

    ``np.interp`` may round differently. Then what ties here, as on a level, would not tie there.
    """
    level, unit = np.full(len(p), y[0] + 0.0), 2.0**100
    with np.errstate(all="ignore"):
        ends = np.array(x) * unit
        for left, width, rise in zip(ends, np.diff(ends), np.diff(y), strict=False):
            if np.isfinite(rise / width):
                level += rise / width * np.clip(p * unit - left, 0.0, width)
    return np.asarray(np.minimum(level, y[-1]))


def _answers(trees: Trees, instances: Instances, tests: list[Booleans]) -> Floats:
    """What the trees add to every item: its way down each of them, one question at a time."""
    rows = [instances.prediction >= edge for edge in trees.edges]
    names = list(instances.names_of_items or [])
    for name in trees.items:
        code = names.index(name) if name in names else -1
        rows.append(np.zeros(len(instances.prediction), dtype=bool))
        if instances.item is not None and code >= 0:
            rows[-1] = instances.item == code
    rows += [tests[test] for test in trees.tests]
    answers = np.array([*rows, np.zeros(len(instances.prediction), dtype=bool)])  # -1 is the last
    total = np.zeros(len(instances.prediction))
    for questions, values in zip(trees.questions, trees.values, strict=True):
        leaf = np.zeros(len(total), dtype=np.int64)
        for question in questions:
            leaf = 2 * leaf + answers[question]
        total += values[leaf]
    return total


def _inside(model: Model, instances: Instances) -> list[Booleans]:
    """The items of every segment of the model: of its value, or of no other."""
    if model.segmentation is None:
        return []
    marks = []
    for columns, value, *_ in model.segmentation.segments:
        number, values = values_of(instances, columns)
        named = {s.value for s in model.segmentation.segments if s.columns == columns}
        good = [one == value if value is not None else one not in named for one in values]
        marks.append(np.array(good)[number][instances.instance])
    return marks


def _on_simplex(p: Floats, instances: Instances, frozen: Booleans) -> Floats:
    """The nearest point of the simplex, by bisection on the shift that makes the sum one."""
    of = instances.instance
    p = np.where(frozen, np.nan, p)
    shift_high = np.fmax.reduceat(p, instances.offsets[:-1])
    shift_low = shift_high - 1.0
    for _ in range(100):
        shift = (shift_low + shift_high) / 2
        total = np.bincount(of, weights=np.nan_to_num(np.maximum(p - shift[of], 0.0)))
        shift_low = np.where(total > 1, shift, shift_low)
        shift_high = np.where(total > 1, shift_high, shift)
    moved = np.clip(p - ((shift_low + shift_high) / 2)[of], 0.0, 1.0)
    return np.where(frozen, instances.prediction, moved)
