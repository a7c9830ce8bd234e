"""Reading a spec file: its sections enter, a Spec leaves, or an error that says what and where."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any

from outrule.calibration.check import (
    Check,
    FixedStep,
    FreshBatches,
    LineSearch,
    PrivateReuse,
    Reuse,
    Step,
)
from outrule.calibration.isotonic import Isotonic
from outrule.data.arrays import check_range
from outrule.data.origin import Schema
from outrule.errors import DataError
from outrule.model.spec.sections import Section, found_in, is_a, load, short
from outrule.model.spec.settings import Multipliers, Spec, problem_columns
from outrule.problems.contract import Problem
from outrule.problems.matchings import Assignment, GreedyMatching, Matching
from outrule.problems.matroids import GraphicMatroid, PartitionMatroid, TopK
from outrule.problems.one_item import BestAction, Classification, Rejection
from outrule.rules.rules import Choose, Fixed, Reweight, Rule, multipliers
from outrule.rules.sql import column_faults, read

LEAST_EPSILON = 1e-9  # as for DecisionCalibrator
MOST_RULES = 1 << 16
TOP = ("epsilon", "problem", "data", "rules", "multipliers", "fit")
ROLES = ("instance", "prediction", "outcome", "item", "start", "weight", "cluster")
VERBS = ("weight", "choose", "always")


def _capacity(section: Section) -> Any:
    """One number, or one for each group; TOML's names are text, where a group may be a number."""
    expected = "a whole number, or one for each group"
    capacity: Any = section.entry("capacity", int | dict, expected, 1)
    if isinstance(capacity, dict):
        if not capacity or not all(is_a(n, int) for n in capacity.values()):
            raise section.refuse("capacity", expected)
        number = re.compile("-?[0-9]{1,18}")
        capacity |= {int(name): n for name, n in capacity.items() if number.fullmatch(name)}
    return capacity


def _nodes(section: Section) -> tuple[str, str]:
    return section.pair("nodes", str, "a list of two columns")


PROBLEMS: Mapping[str, tuple[tuple[str, ...], Callable[[Section], Problem]]] = {
    "best action": ((), lambda _: BestAction()),
    "classification": ((), lambda _: Classification()),
    "rejection": (("cost", "reject"), lambda s: Rejection(s.number("cost"), s.item("reject"))),
    "top k": (("k",), lambda s: TopK(s.whole("k"))),
    "partition": (
        ("groups", "capacity"),
        lambda s: PartitionMatroid(s.text("groups"), _capacity(s)),
    ),
    "matching": (("nodes",), lambda s: Matching.between(*_nodes(s))),
    "greedy matching": (("nodes",), lambda s: GreedyMatching.between(*_nodes(s))),
    "graphic": (("nodes",), lambda s: GraphicMatroid.between(*_nodes(s))),
    "assignment": (("rows", "columns"), lambda s: Assignment(s.text("rows"), s.text("columns"))),
}
CHECKS: Mapping[str, tuple[Callable[..., Check], tuple[str, ...]]] = {
    "reuse": (Reuse, ("alert", "validation", "patience")),
    "private reuse": (PrivateReuse, ("privacy", "delta", "alert")),
    "fresh batches": (FreshBatches, ("size", "alert")),
}
STEPS: Mapping[str, Callable[[], Step]] = {"line search": LineSearch, "fixed": FixedStep}
STARTS = {"isotonic": Isotonic}


def read_spec(path: str | PathLike[str]) -> Spec:
    """Read a spec file.

    Every fault is a DataError that names the file, the section or the rule, and for an expression
    the line and column in it. Whether the columns are there is known with the data only: see
    :meth:`Spec.instances`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "spec.toml"
    >>> _ = path.write_text('''
    ... epsilon = 0.05
    ... [problem]
    ... kind = "best action"
    ... [data]
    ... instance = "trip"
    ... prediction = "score"
    ... outcome = "completed"
    ... [[rules]]
    ... name = "no long pickups"
    ... weight = "CASE WHEN pickup_km > 3 THEN 0.5 * score ELSE score END"
    ... ''')
    >>> read_spec(path).problem
    BestAction()
    """
    top = Section(str(path), load(path), TOP)
    epsilon = top.number("epsilon", 0.05)
    if not LEAST_EPSILON <= epsilon <= 1:
        raise top.refuse("epsilon", f"a number from {LEAST_EPSILON:g} to 1")
    columns, value_range = _data(top)
    spec = Spec(
        path=str(path),
        problem=_problem(top, columns),
        epsilon=float(epsilon),
        columns=columns,
        value_range=value_range,
        rules=_rules(top, columns),
        multipliers=_multipliers(top, columns),
        **_fit(top, columns),
    )
    if not spec.rules and spec.multipliers is None:
        raise DataError(f"{path}: there are no rules. Give [[rules]] or [multipliers].")
    return spec


def _data(top: Section) -> tuple[Schema, tuple[float, float]]:
    """``[data]``"""
    section = top.section("data", (*ROLES, "value_range"))
    required = {role: section.text(role) for role in ROLES[:3]}
    columns = Schema(**required, **{role: section.text(role, None) for role in ROLES[3:]})
    for role in ROLES:
        if role != "outcome" and getattr(columns, role) == columns.outcome:
            raise DataError(f"{section.where}: {role!r} and 'outcome' name the same column.")
    expected = "a list [low, high] of two numbers"
    with found_in(section.where):
        return columns, check_range(section.pair("value_range", int | float, expected, (0.0, 1.0)))


def _problem(top: Section, columns: Schema) -> Problem:
    """``[problem]``"""
    every = sorted({key for keys, _ in PROBLEMS.values() for key in keys})
    section = top.section("problem", ("kind", *every))
    keys, make = PROBLEMS[section.among("kind", PROBLEMS)]
    section = top.section("problem", ("kind", *keys))
    with found_in(section.where):
        problem = make(section)
    if columns.outcome in problem_columns(problem):
        raise DataError(f"{section.where}: the outcome {columns.outcome!r} may not be used here.")
    if isinstance(problem, Rejection) and columns.item is None:
        raise DataError(f"{section.where}: 'reject' names an item, so [data] needs an item.")
    return problem


def _rules(top: Section, columns: Schema) -> tuple[Rule, ...]:
    """``[[rules]]``"""
    content = top.content.get("rules", [])
    if not isinstance(content, list):
        raise DataError(f"{top.where}: write each rule under a [[rules]] of its own.")
    if len(content) > MOST_RULES:
        raise DataError(f"{top.where}: there are more than {MOST_RULES:,} rules.")
    numbers: dict[str, int] = {}
    rules = []
    for number, entry in enumerate(content, start=1):
        rules.append(_rule(f"{top.where}, rule {number}", entry, columns))
        name = rules[-1].name
        if name in numbers:
            raise DataError(
                f"{top.where}, rule {number}: rule {numbers[name]} has the name {name!r} as well. "
                "Names must be distinct."
            )
        numbers[name] = number
    return tuple(rules)


def _rule(where: str, content: Any, columns: Schema) -> Rule:
    """One of the rules."""
    name = content.get("name") if isinstance(content, Mapping) else None
    section = Section(f"{where} ({short(name)})" if name else where, content, ("name", *VERBS))
    name = section.text("name")
    given = [verb for verb in VERBS if verb in section.content]
    if len(given) != 1:
        words = " and ".join(map(repr, given)) or "nothing"
        raise DataError(f"{section.where}: exactly one of {VERBS} must be given. Got {words}.")
    if given == ["always"]:
        if columns.item is None:
            raise DataError(f"{section.where}: 'always' names an item, so [data] needs an item.")
        return Fixed(section.item("always"), name)
    text = section.text(given[0])
    with found_in(section.where):
        expression = read(text)
    seen = [use.name for use in expression.uses]
    for words in column_faults(expression, seen, columns.outcome):
        raise DataError(f"{section.where}: {words}")
    return Reweight(name, text) if given == ["weight"] else Choose(name, text)


def _multipliers(top: Section, columns: Schema) -> Multipliers | None:
    """``[multipliers]``"""
    if "multipliers" not in top.content:
        return None
    section = top.section("multipliers", ("levels", "limit", "seed"))
    if columns.item is None:
        raise DataError(f"{section.where}: items are multiplied, so [data] needs an item.")
    default = Multipliers()
    levels = section.several("levels", int | float, "a list of numbers", default.levels)
    limit, seed = section.whole("limit", default.limit), section.whole("seed", default.seed)
    if not 1 <= limit <= MOST_RULES:
        raise section.refuse("limit", f"a whole number from 1 to {MOST_RULES:,}")
    with found_in(section.where):
        multipliers(1, levels, 1, seed)
    return Multipliers(tuple(float(level) for level in levels), limit, seed)


def _fit(top: Section, columns: Schema) -> dict[str, Any]:
    """``[fit]``"""
    parameters = sorted({key for _, keys in CHECKS.values() for key in keys})
    others = ("step", "start", "max_rounds", "random_state")
    section = top.section("fit", ("check", *parameters, *others), {})
    step, start = section.among("step", STEPS, None), section.among("start", STARTS, None)
    if start and columns.start:
        raise DataError(f"{section.where}: 'start' is given in [data] as well. Choose one.")
    max_rounds, seed = section.whole("max_rounds", None), section.whole("random_state", None)
    if max_rounds is not None and max_rounds < 1:
        raise section.refuse("max_rounds", "at least 1")
    if seed is not None and seed < 0:
        raise section.refuse("random_state", "at least 0")
    return {
        "check": _check(section, parameters),
        "step": STEPS[step]() if step else None,
        "start": STARTS[start]() if start else None,
        "max_rounds": max_rounds,
        "random_state": seed,
    }


def _check(section: Section, parameters: list[str]) -> Check | None:
    """How violations are looked for; parameters without a name are those of the default."""
    given = [key for key in parameters if key in section.content]
    if not given and "check" not in section.content:
        return None
    name = section.among("check", CHECKS, "reuse")
    make, keys = CHECKS[name]
    for key in given:
        if key not in keys:
            known = ", ".join(keys)
            raise DataError(
                f"{section.where}: {key!r} is not for check = {name!r}, which has {known}."
            )
    if name == "fresh batches":
        section.whole("size")
    with found_in(section.where):
        return make(**{key: section.number(key) for key in given})
