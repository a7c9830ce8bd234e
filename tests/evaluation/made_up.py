"""Made-up results of the evaluation: plausible tables, without running anything."""

from math import log2, sin
from typing import Any

from outrule.evaluation.grid import Grid, Unit
from outrule.evaluation.results import Results, gather

GRID: dict[str, Any] = {
    "problems": ("best-action", "matching"),
    "items": (4, 16),
    "seeds": (0, 1),
    "epsilons": (1 / 4, 1 / 16, 1 / 64),
    "batch_sizes": (16, 64, 256),
    "rounds": 64,
    "n_rules": 64,
    "n_test": 1000,
    "other_batches": (64, 256),
    "other_epsilons": (1 / 4, 1 / 16),
    "equal_batches": (16, 64),
    "equal_epsilons": (1 / 4, 1 / 16),
}
PROVENANCE = {
    "versions": {"outrule": "0.1.0", "numpy": "2.3.0"},
    "python": "3.12.1",
    "machine": "Linux x86_64",
    "cores": 2,
    "threads": 2,
    "seconds": 12.5,
}
SIZE = {"matching": 5, "partition": 5, "graphic": 5}  # items in a decision; one elsewhere
METHODS = (("reuse", "fixed"), ("reuse", "line search"), ("private reuse", "fixed"))
TRACE = 8  # rounds between two points


def results(**changes: Any) -> Results:
    """Results of the grid above, with changes; all problems have the same seeds."""
    chosen = {**GRID, **changes}
    grid = Grid(**{"other_seeds": chosen["seeds"], **chosen})
    finished = [_unit(grid, unit) for unit in grid.units()]
    return gather(grid, PROVENANCE, finished)


def _unit(grid: Grid, unit: Unit) -> dict[str, Any]:
    world = _world(grid, unit)
    fixed = [
        _run(grid, unit, world, "fresh batches", "fixed", epsilon, size)
        for size in grid.batch_sizes
        for epsilon in grid.epsilons
    ]
    line = [
        _run(grid, unit, world, "fresh batches", step, epsilon, size)
        for size in grid.batch_sizes
        if size in grid.other_batches
        for step in ("line search", "alpha / 2", *(["footnote"] if world["k"] > 1 else []))
        for epsilon in grid.other_epsilons
        if epsilon in grid.epsilons
    ]
    equal = [
        _run(grid, unit, world, check, step, epsilon, size)
        for check, step in METHODS
        for size in grid.equal_batches
        for epsilon in grid.equal_epsilons
    ]
    if grid.equal_batches:
        size = min(grid.equal_batches)
        equal.append(_run(grid, unit, world, "default method", None, None, size))
    commit = [
        _run(grid, unit, world, "commit to the best rule", None, None, size)
        for size in grid.batch_sizes
    ]
    trace = [point for run in fixed + line for point in _trace(grid, world, run)]
    tables = {"units": [world], "runs": [*fixed, *line, *equal, *commit], "trace": trace}
    return {name: _columns(rows) for name, rows in tables.items()}


def _columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


def _key(unit: Unit) -> dict[str, Any]:
    return {
        "problem": unit.problem,
        "n_items": unit.n_items,
        "regime": unit.regime,
        "seed": unit.seed,
    }


def _world(grid: Grid, unit: Unit) -> dict[str, Any]:
    k, m = SIZE.get(unit.problem, 1), unit.n_items
    brief = unit.regime == "brief"
    plain = k * (0.55 + 0.02 * log2(m) + 0.004 * sin(unit.seed + m))
    return {
        **_key(unit),
        "n_rules": grid.n_rules,
        "k": k,
        "plain": plain,
        "half_plain": plain + 0.001,
        "best_rule": plain + k * (0.04 if brief else 0.002) + 0.003 * unit.seed,
        "oracle": k * 0.9,
        "squared_error": (0.03 if brief else 0.02) + 0.001 * log2(m) + 0.0005 * unit.seed,
        "n_solved": 1_000_000 * k,
        "seconds": 0.25 * m,
    }


def _run(
    grid: Grid,
    unit: Unit,
    world: dict[str, Any],
    check: str,
    step: str | None,
    epsilon: float | None,
    size: int,
) -> dict[str, Any]:
    """Better with larger batches, best at a middling epsilon; private reuse refuses a small one."""
    k, m, samples = world["k"], unit.n_items, size * grid.rounds
    refused = check == "private reuse" and epsilon == min(grid.equal_epsilons)
    bonus = {"reuse": 0.01, "private reuse": -0.02}.get(check, 0.0)
    if epsilon is None:
        value, n_patches = world["best_rule"] - 1 / samples**0.5, 0
    else:
        distance = abs(log2(epsilon) + 4)  # the best epsilon is 1/16
        quality = 0.04 + 0.01 * log2(size) - 0.015 * distance + bonus + 0.002 * sin(unit.seed + m)
        value, n_patches = world["plain"] + k * quality, int(grid.rounds * (1 - epsilon))
    fresh, reused = check == "fresh batches", check.endswith("reuse")
    measured = {
        "value": value,
        "gap": value - world["best_rule"],
        "gap_error": 0.1 * k**0.5 / grid.n_test**0.5,
        "improvement": value - world["plain"],
        "squared_error": world["squared_error"] * (1 if epsilon is None else 0.5 + epsilon),
        "largest_violation": 0.01 if epsilon is None else epsilon / 3,
    }
    return {
        **_key(unit),
        "check": check,
        "step": step,
        "epsilon": epsilon,
        "batch_size": size if fresh else None,
        "n_samples": samples,
        "n_patches": 0 if refused else n_patches // (2 if step == "line search" else 1),
        "n_own": 0 if refused else n_patches // 4,
        "last_patch": 0 if refused else n_patches,
        "status": "refused" if refused else "converged" if reused else "all rounds",
        **(dict.fromkeys(measured) if refused else measured),
        **_apart(fresh and size == max(grid.batch_sizes), value, n_patches // 4),
    }


def _apart(known: bool, value: float, n_own: int) -> dict[str, Any]:
    """With the patches of rules alone, and with those of the optimiser."""
    apart = {
        "value_rules": value + 0.05,
        "value_own": value - 0.05,
        "n_own_down": n_own,
        "n_level": 2.5,
    }
    return apart if known else dict.fromkeys(apart)


def _trace(grid: Grid, world: dict[str, Any], run: dict[str, Any]) -> list[dict[str, Any]]:
    """A straight way from the predictions to the end of the run."""
    points = []
    for number in range(TRACE, grid.rounds + 1, TRACE):
        part = number / grid.rounds
        points.append(
            {
                **{name: run[name] for name in ("problem", "n_items", "regime", "seed")},
                **{name: run[name] for name in ("step", "epsilon", "batch_size")},
                "round": number,
                "n_patches": int(part * run["n_patches"]),
                "n_own": int(part * run["n_own"]),
                "squared_error": (1 - part) * world["squared_error"] + part * run["squared_error"],
                "value": (value := (1 - part) * world["plain"] + part * run["value"]),
                "half_value": value + 0.001,
            }
        )
    return points
