"""Reads spec files: problem, columns, rules and settings in TOML."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from os import PathLike
from typing import Annotated, Any

from pydantic import Field

from outrule.calibration.check import FixedStep, FreshBatches, LineSearch, PrivateReuse, Reuse
from outrule.calibration.cross_fit import CrossFit
from outrule.calibration.isotonic import Isotonic
from outrule.calibration.rivals import RIVALS
from outrule.data.checks import check_range
from outrule.data.origin import ColumnNames
from outrule.data.segments import Segments
from outrule.errors import DataError
from outrule.model.sections import (
    Item,
    Nodes,
    Number,
    Section,
    String,
    Whole,
    among,
    found_in,
    load_toml,
    one_of,
    read_section,
    short,
)
from outrule.model.spec import Multipliers, Spec
from outrule.model.value import Value
from outrule.problems.contract import Problem
from outrule.problems.matchings import Assignment, GreedyMatching, Matching
from outrule.problems.matroids import GraphicMatroid, PartitionMatroid, TopK
from outrule.problems.one_item import BestAction, Classification, Rejection
from outrule.rules.rules import LEVELS, LIMIT, Choose, Fixed, Reweight, Rule, multipliers
from outrule.rules.sql import column_faults, read

MOST_RULES = 1 << 16
VERBS = ("weight", "choose", "always")
CHECKS: Mapping[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "reuse": (Reuse, ("alert", "validation", "patience")),
    "private reuse": (PrivateReuse, ("privacy", "delta", "alert")),
    "fresh batches": (FreshBatches, ("size", "alert")),
}
STARTS: Mapping[str, Any] = {
    "none": None,
    "isotonic": Isotonic(),
    "cross fit": CrossFit(),
    "curves": CrossFit(max_trees=0, max_patches=100),
}
STEPS = {"line search": LineSearch, "fixed": FixedStep}


class _RejectionSection(Section):
    cost: Number
    reject: Item


class _TopKSection(Section):
    k: Whole


class _PartitionSection(Section):
    groups: String
    capacity: Annotated[
        int | Annotated[dict[str, int], Field(min_length=1)],
        Field(description="a whole number, or one for each group"),
    ] = 1


class _GraphSection(Section):
    nodes: Nodes


class _AssignmentSection(Section):
    rows: String
    columns: String


def _partition(section: Any) -> Problem:
    """TOML's keys are strings, where a group may be a number: it gets both."""
    capacity = section.capacity
    if isinstance(capacity, dict):
        number = re.compile("-?[0-9]{1,18}")
        capacity |= {int(name): n for name, n in capacity.items() if number.fullmatch(name)}
    return PartitionMatroid(section.groups, capacity)


PROBLEMS: Mapping[str, tuple[type[Section], Callable[[Any], Problem]]] = {
    "best action": (Section, lambda _: BestAction()),
    "classification": (Section, lambda _: Classification()),
    "rejection": (_RejectionSection, lambda s: Rejection(s.cost, s.reject)),
    "top k": (_TopKSection, lambda s: TopK(s.k)),
    "partition": (_PartitionSection, _partition),
    "matching": (_GraphSection, lambda s: Matching.between(*s.nodes)),
    "greedy matching": (_GraphSection, lambda s: GreedyMatching.between(*s.nodes)),
    "graphic": (_GraphSection, lambda s: GraphicMatroid.between(*s.nodes)),
    "assignment": (_AssignmentSection, lambda s: Assignment(s.rows, s.columns)),
}


class _KindSection(Section, extra="ignore"):
    kind: Annotated[str, one_of(PROBLEMS)] = Field(description=among(PROBLEMS))


class _DataSection(Section):
    instance: String
    prediction: String
    outcome: String
    item: String | None = Field(None, description="a string")
    start: String | None = Field(None, description="a string")
    weight: String | None = Field(None, description="a string")
    cluster: String | None = Field(None, description="a string")
    propensity: String | Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="a column, or a number above 0 and up to 1"
    )
    observed: String | None = Field(None, description="a string")
    propensity_estimated: bool = Field(False, description="true or false")
    value_range: Annotated[
        list[float],
        Field(min_length=2, max_length=2, description="a list [low, high] of two numbers"),
    ] = Field(default_factory=lambda: [0.0, 1.0])


class _RuleSection(Section):
    name: String
    weight: String | None = Field(None, description="a string")
    choose: String | None = Field(None, description="a string")
    always: Item | None = Field(None, description="an item: a string or a number")


class _MultipliersSection(Section):
    levels: list[float] = Field(list(LEVELS), description="a list of numbers")
    limit: int = Field(
        LIMIT, ge=1, le=MOST_RULES, description=f"a whole number from 1 to {MOST_RULES:,}"
    )
    seed: Whole = 0


class _FitSection(Section):
    check: Annotated[str, one_of(CHECKS)] = Field("reuse", description=among(CHECKS))
    alert: Number | None = Field(None, description="a number")
    validation: Number | None = Field(None, description="a number")
    patience: Whole | None = Field(None, description="a whole number")
    privacy: Number | None = Field(None, description="a number")
    delta: Number | None = Field(None, description="a number")
    size: Whole | None = Field(None, description="a whole number")
    step: Annotated[str, one_of(STEPS)] = Field("line search", description=among(STEPS))
    start: Annotated[str | None, one_of(STARTS)] = Field(None, description=among(STARTS))
    max_rounds: int | None = Field(None, ge=1, lt=2**63, description="a whole number, at least 1")
    random_state: int | None = Field(None, ge=0, lt=2**63, description="a whole number, at least 0")
    rivals: list[Annotated[str, one_of(RIVALS)]] | None = Field(
        None, max_length=len(RIVALS), description=f"a list of some of {', '.join(RIVALS)}"
    )
    segments: list[String | list[String]] | None = Field(
        None, min_length=1, description="a list of columns, and of lists of columns"
    )
    min_share: Number | None = Field(None, description="a number")
    min_instances: Whole | None = Field(None, description="a whole number")


class _ValueSection(Section):
    name: String = Value.name
    unit: String | None = Field(None, description="a string")
    observation: String | None = Field(None, description="a string")


class _SpecFile(Section):
    epsilon: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="a number greater than 0"
    )
    problem: Any = Field(description="a section")
    data: Any = Field(description="a section")
    rules: list[Any] = Field(
        default_factory=list,
        max_length=MOST_RULES,
        description=f"at most {MOST_RULES:,} sections, each under its own [[rules]]",
    )
    multipliers: Any = None
    fit: Any = Field(default_factory=dict)
    value: Any = Field(default_factory=dict)


def read_spec(path: str | PathLike[str]) -> Spec:
    """Read a spec file.

    Every fault is a DataError that names the file, the section or the rule, and for an expression
    the line and column in it. Whether the columns exist is only known with the data: see
    ``Spec.instances``.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "spec.toml"
    >>> _ = path.write_text('''
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
    where = str(path)
    file = read_section(where, _SpecFile, load_toml(path))
    columns, value_range = _data(where, file.data)
    spec = Spec(
        path=where,
        problem=_problem(where, file.problem, columns),
        epsilon=file.epsilon,
        columns=columns,
        value_range=value_range,
        rules=_rules(where, file.rules, columns),
        multipliers=_multipliers(where, file.multipliers, columns),
        fit=_fit(where, file.fit, columns) | _value(where, file.value),
    )
    if not spec.rules and spec.multipliers is None:
        raise DataError(f"{path}: there are no rules. Give [[rules]] or [multipliers].")
    return spec


def _data(path: str, content: Any) -> tuple[ColumnNames, tuple[float, float]]:
    where = f"{path}, [data]"
    section = read_section(where, _DataSection, content).model_dump()
    value_range = section.pop("value_range")
    for role, name in section.items():
        if role != "outcome" and name == section["outcome"]:
            raise DataError(f"{where}: {role!r} and 'outcome' name the same column.")
    for role in ("observed", "propensity_estimated"):
        if section[role] and section["propensity"] is None:
            raise DataError(f"{where}: {role!r} is given without 'propensity'.")
    with found_in(where):
        return ColumnNames(**section), check_range(value_range)


def _problem(path: str, content: Any, columns: ColumnNames) -> Problem:
    where = f"{path}, [problem]"
    kind, make = PROBLEMS[read_section(where, _KindSection, content).kind]
    entries = {key: value for key, value in content.items() if key != "kind"}
    with found_in(where):
        problem = make(read_section(where, kind, entries))
    if columns.outcome in problem.column_names:
        raise DataError(f"{where}: the outcome {columns.outcome!r} may not be used here.")
    if isinstance(problem, Rejection) and columns.item is None:
        raise DataError(f"{where}: 'reject' names an item, so [data] needs an item.")
    return problem


def _rules(path: str, content: list[Any], columns: ColumnNames) -> tuple[Rule, ...]:
    numbers: dict[str, int] = {}
    rules = []
    for number, entry in enumerate(content, start=1):
        rule = _rule(f"{path}, rule {number}", entry, columns)
        if rule.name in numbers:
            raise DataError(
                f"{path}, rule {number}: rule {numbers[rule.name]} has the name {rule.name!r} as "
                "well. Names must be distinct."
            )
        numbers[rule.name] = number
        rules.append(rule)
    return tuple(rules)


def _rule(where: str, content: Any, columns: ColumnNames) -> Rule:
    name = content.get("name") if isinstance(content, Mapping) else None
    where = f"{where} ({short(name)})" if name else where
    section = read_section(where, _RuleSection, content)
    given = [verb for verb in VERBS if getattr(section, verb) is not None]
    if len(given) != 1:
        words = " and ".join(map(repr, given)) or "none of them"
        raise DataError(
            f"{where}: exactly one of 'weight', 'choose' and 'always' must be given. Got {words}."
        )
    if section.always is not None:
        if columns.item is None:
            raise DataError(f"{where}: 'always' names an item, so [data] needs an item.")
        return Fixed(section.always, section.name)
    text = section.weight or section.choose or ""
    with found_in(where):
        expression = read(text)
    seen = [use.name for use in expression.uses]
    for fault in column_faults(expression, seen, columns.outcome):
        raise DataError(f"{where}: {fault}")
    return Reweight(section.name, text) if section.weight else Choose(section.name, text)


def _multipliers(path: str, content: Any, columns: ColumnNames) -> Multipliers | None:
    if content is None:
        return None
    where = f"{path}, [multipliers]"
    section = read_section(where, _MultipliersSection, content)
    if columns.item is None:
        raise DataError(f"{where}: items are multiplied, so [data] needs an item.")
    with found_in(where):
        multipliers(1, section.levels, 1, section.seed)
    return Multipliers(tuple(section.levels), section.limit, section.seed)


def _fit(path: str, content: Any, columns: ColumnNames) -> dict[str, Any]:
    where = f"{path}, [fit]"
    section = read_section(where, _FitSection, content)
    if section.start == "isotonic" and columns.start:
        raise DataError(f"{where}: 'start' is given in [data] as well. Choose one.")
    parameters: dict[str, Any] = {
        "step": STEPS[section.step]() if "step" in content else None,
        "max_rounds": section.max_rounds,
        "random_state": section.random_state,
        "rivals": None if section.rivals is None else tuple(section.rivals),
        "check": _check(where, section),
        "segments": _segments(where, section),
    }
    given = {name: value for name, value in parameters.items() if value is not None}
    return given | ({"start": STARTS[section.start]} if section.start else {})


def _segments(where: str, section: _FitSection) -> Segments | None:
    sizes = {name: getattr(section, name) for name in ("min_share", "min_instances")}
    given = {name: value for name, value in sizes.items() if value is not None}
    if section.segments is None:
        for name in given:
            raise DataError(f"{where}: {name!r} is for segments, and there are none.")
        return None
    by: Any = tuple(one if isinstance(one, str) else tuple(one) for one in section.segments)
    with found_in(where):
        return Segments(by, **given)


def _value(path: str, content: Any) -> dict[str, Value]:
    """What the value is called, if the file says it."""
    where = f"{path}, [value]"
    section = read_section(where, _ValueSection, content)
    with found_in(where):
        return {"value": Value(**section.model_dump())} if content else {}


def _check(where: str, section: _FitSection) -> Any:
    """How violations are found; parameters without a check are those of the default."""
    make, keys = CHECKS[section.check]
    every = {key for _, keys in CHECKS.values() for key in keys}
    given = {key: getattr(section, key) for key in sorted(every & section.model_fields_set)}
    for key in given:
        if key not in keys:
            raise DataError(
                f"{where}: {key!r} is not for check = {section.check!r}, which has "
                f"{', '.join(keys)}."
            )
    if section.check == "fresh batches" and section.size is None:
        raise DataError(f"{where}: 'size' is missing. It must be a whole number.")
    if not given and "check" not in section.model_fields_set:
        return None
    with found_in(where):
        return make(**given)
