"""Solvers and small fits against slow twins: the input is a seed."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import brute_force
import numpy as np
import slow_matching
from sklearn.exceptions import ConvergenceWarning

import outrule
import reference
import test_algorithm_one as loops
from fuzz.mutations import Generator, one_of
from letter import algorithm_one

ROWS = 20  # instances that one input solves


class SeedKind:
    """The input is the seed of a generator, in digits."""

    suffix = ".seed"

    def make_seeds(self, folder: Path) -> None:
        (folder / f"0{self.suffix}").write_text("0")

    def make(self, data: bytes, generator: Generator) -> bytes:
        return str(int(generator.integers(2**62))).encode()

    def use(self, path: Path, base: str) -> None:
        self.compare(np.random.default_rng(int(path.read_text())))

    def compare(self, generator: Generator) -> None:
        raise NotImplementedError


class SolverKind(SeedKind):
    """Random problems and weights; the value must be that of the best of all feasible sets."""

    def compare(self, generator: Generator) -> None:
        if generator.random() < 0.1:
            prove_matching(generator)
            return
        problem, test, m = draw_problem(generator)
        weights = draw_weights(generator, m)
        mask = generator.random(weights.shape) < generator.choice([0.5, 1.0])
        if problem.exactly_one:
            mask[~mask.any(axis=1), -1] = True
        found = problem.solve(weights, mask)
        alone = np.vstack([problem.solve(weights[i : i + 1], mask[i : i + 1]) for i in range(3)])
        assert (found[:3] == alone).all(), "an instance is decided differently in a batch"
        sets = brute_force.feasible_sets(m, test)
        rows = {tuple(row) for row in sets.tolist()} | {(False,) * m}
        assert all(tuple(row) in rows for row in found.tolist()), "infeasible"
        assert not (found & ~mask).any(), "not on offer"
        if not problem.exactly_one:
            assert not (found & (weights <= 0)).any(), "worth nothing"
        scale = np.abs(weights).max(axis=1, initial=1e-300)
        best = brute_force.best_values(weights / scale[:, None], sets, mask)
        if not problem.exactly_one:
            best = np.maximum(best, 0)
        values = np.where(found, weights / scale[:, None], 0).sum(axis=1)
        exact = 1e-6 if isinstance(problem, outrule.LinearProblem) else 1e-9
        assert (values >= problem.ratio * best - exact).all(), "not the best"


def draw_weights(generator: Generator, m: int) -> np.ndarray[Any, Any]:
    kind, shape = int(generator.integers(6)), (ROWS, m)
    if kind == 0:
        return generator.integers(-1, 3, shape).astype(float)
    if kind == 1:
        return generator.random(shape)
    if kind == 2:
        return generator.normal(0.2, 1, shape) * 10.0 ** generator.integers(-300, 300)
    if kind == 3:
        return np.ldexp(generator.random(shape) - 0.2, generator.integers(-60, 60, shape))
    if kind == 4:
        big = float(np.finfo(float).max)
        return generator.choice([0.0, -0.0, 5e-324, 1e-310, 1.0, big, -big, big / 2], shape)
    return np.rint(4 * generator.random(shape)) / 4


def draw_problem(generator: Generator) -> tuple[Any, Any, int]:
    m = int(generator.integers(1, 8))
    kind = int(generator.integers(10))
    edges = draw_edges(generator, m)
    if kind == 0:
        return outrule.BestAction(), brute_force.exactly_one, m
    if kind == 1:
        k = int(
            generator.integers(1, 2**20) if generator.random() < 0.2 else generator.integers(1, 5)
        )
        return outrule.TopK(k), brute_force.at_most(k), m
    if kind == 2:
        groups = generator.integers(0, 3, m).tolist()
        capacity = {g: int(generator.integers(0, 4)) for g in groups}
        problem = outrule.PartitionMatroid(groups, capacity)
        return problem, brute_force.within_groups(groups, capacity), m
    if kind == 3:
        return outrule.GraphicMatroid(edges), brute_force.forest(edges), m
    if kind == 4:
        sets, capacity = draw_laminar(generator, m)
        problem = outrule.LaminarMatroid(m, sets, capacity)
        return problem, brute_force.within_sets(sets, capacity), m
    if kind == 5:
        sets = [generator.permutation(m)[: int(generator.integers(1, m + 1))] for _ in range(3)]
        sets = [sorted(s.tolist()) for s in sets]
        return outrule.TransversalMatroid(m, sets), brute_force.transversal(sets), m
    if kind == 6:
        vectors = generator.integers(-2, 3, (m, int(generator.integers(1, 4)))).tolist()
        return outrule.LinearMatroid(vectors), brute_force.independent_vectors(vectors), m
    if kind == 7:
        rows = int(generator.integers(1, 4))
        columns = int(generator.integers(1, 4))
        problem = outrule.Assignment(rows, columns)
        return problem, brute_force.assignment(columns), rows * columns
    if kind == 8:
        make = one_of(generator, (outrule.Matching, outrule.GreedyMatching))
        return make(edges), brute_force.matching(edges), m
    if generator.random() < 0.9:  # HiGHS is slow
        return outrule.Matching(edges), brute_force.matching(edges), m
    A = generator.integers(0, 4, (2, m)).astype(float)
    b = generator.integers(0, 6, 2).astype(float)
    return outrule.LinearProblem(A, b), brute_force.constraints(A.tolist(), b.tolist()), m


def draw_edges(generator: Generator, m: int) -> list[tuple[int, int]]:
    """Edges that may be parallel, on nodes with gaps between their numbers."""
    n, gap = int(generator.integers(2, 7)), int(generator.choice([1, 10**6]))
    ends = [generator.permutation(n)[:2] * gap for _ in range(m)]
    return [(int(a), int(b)) for a, b in ends]


def draw_laminar(generator: Generator, m: int) -> tuple[list[list[int]], list[int]]:
    """Intervals that are halved at random places: nested or disjoint."""
    order, sets = generator.permutation(m).tolist(), []
    parts = [(0, m)]
    while parts:
        low, high = parts.pop()
        if generator.random() < 0.8:
            sets.append(order[low:high])
        if high - low > 1:
            middle = int(generator.integers(low + 1, high))
            parts += [(low, middle), (middle, high)]
    sets = sets or [order]
    return sets, generator.integers(0, 4, len(sets)).tolist()


def prove_matching(generator: Generator) -> None:
    """A graph beyond brute force: the duals prove that the matching is the heaviest."""
    n = int(generator.integers(2, 40))
    share = float(generator.choice([0.1, 0.5, 1.0]))
    u, v = (ends.astype(np.int32) for ends in np.triu_indices(n, 1))
    kept = generator.random(len(u)) < share
    kept[int(generator.integers(len(u)))] = True
    u, v = u[kept], v[kept]
    weights = (
        generator.random(len(u))
        if generator.random() < 0.5
        else generator.integers(1, 5, len(u)).astype(float)
    )
    duals = slow_matching.blossom_with_duals(weights, u, v, n)
    assert slow_matching.verify_duals(duals), "not proved"
    problem = outrule.Matching(list(zip(u.tolist(), v.tolist(), strict=True)))
    found = problem.solve(weights[None])[0]
    total = sum(duals.doubled[a, b] for a, b in enumerate(duals.mate.tolist()) if 0 <= a < b)
    largest = float(weights.max())
    unit = duals.doubled.max() / largest
    assert abs(weights[found].sum() - total / unit) <= 1e-6 * max(1.0, total / unit)


class FitKind(SeedKind):
    """Algorithm 1 on small worlds: the patches of an independent implementation, and its replay."""

    def compare(self, generator: Generator) -> None:
        problem, optimiser, m, k = one_of(generator, WORLDS)
        size = int(generator.integers(2, 30))
        n = size * int(generator.integers(1, 12)) + int(generator.integers(size))
        epsilon = float(generator.choice([0.03, 0.1, 0.3]))
        predictions, outcomes = loops.draw(n, m, int(generator.integers(2**31)))
        rules = outrule.multipliers(m, limit=5, seed=int(generator.integers(100)))
        check = outrule.FreshBatches(size, alert=1)
        calibrator = algorithm_one(
            *(problem, rules, epsilon),
            check=check,
            step=outrule.FixedStep(),
            max_rounds=max(1, n // size),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            calibrator.fit(predictions, outcomes)
        deciders = [decider(rule.vector.tolist(), optimiser) for rule in rules]
        settings: dict[str, Any] = {"tolerance": epsilon / 2, "k": k, "size": size}
        patches = reference.weighted_mc(
            predictions.tolist(), outcomes.tolist(), deciders, optimiser, **settings
        )
        assert [(test, np.sign(step)) for test, step in calibrator.patches_] == patches
        step = epsilon / 4 / k
        new, _ = loops.draw(5, m, 1)
        expected = [
            reference.replay(row, patches, [decide(row) for decide in deciders], optimiser, step)
            for row in new.tolist()
        ]
        np.testing.assert_allclose(calibrator.predict(new), expected, rtol=0, atol=1e-12)


WORLDS = [world for name, world in loops.WORLDS.items() if name != "matching of 6"]


def decider(vector: list[float], optimiser: Any) -> Any:
    return partial(_decide, vector, optimiser)


def _decide(vector: list[float], optimiser: Any, row: Any) -> Any:
    return optimiser([v * p for v, p in zip(vector, row, strict=True)])


SOLVER_KINDS: dict[str, Any] = {"solver": SolverKind, "fit": FitKind}
