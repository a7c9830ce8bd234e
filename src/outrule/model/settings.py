"""The settings of a fit, complete and checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from outrule.calibration.check import Check, LineSearch, Reuse, Step
from outrule.calibration.cross_fit import CrossFit
from outrule.calibration.isotonic import Isotonic
from outrule.calibration.rivals import ISOTONIC, RIVALS
from outrule.data.segments import Segments, as_segments
from outrule.errors import ArgumentError, check_integer, check_number, refuse_argument
from outrule.model.value import Value
from outrule.problems.contract import Problem
from outrule.rules.rules import Rule, check_rules

OWNER = "DecisionCalibrator"
LEAST_SHARE = 1e-9  # of the value range; below it the rounding of sums decides


@dataclass(frozen=True)
class Settings:
    """The parameters of ``outrule.DecisionCalibrator``."""

    problem: Problem
    rules: tuple[Rule, ...]
    epsilon: float | None = None
    check: Check = field(default_factory=Reuse)
    step: Step = field(default_factory=LineSearch)
    start: Isotonic | CrossFit | None = field(default_factory=CrossFit)
    max_rounds: int | None = None
    random_state: int | None = None
    rivals: tuple[str, ...] = RIVALS
    value: Value = field(default_factory=Value)
    segments: Segments | None = None

    @property
    def generator(self) -> np.random.Generator:
        """Seeded always, so that runs without a seed can be repeated too."""
        return np.random.default_rng(self.random_state or 0)

    def __post_init__(self) -> None:
        for name, kind, expected in (
            ("problem", Problem, "a problem, such as BestAction()"),
            ("check", Check, "FreshBatches(...), PrivateReuse(...) or Reuse(...)"),
            ("step", Step, "FixedStep() or LineSearch()"),
            ("start", Isotonic | CrossFit | None, "CrossFit(), Isotonic() or None"),
            ("value", Value, 'Value(...), such as Value("purchases", "euro")'),
        ):
            if not isinstance(getattr(self, name), kind):
                raise refuse_argument(getattr(self, name), name, OWNER, expected)
        plain: dict[str, Any] = {
            "rules": check_rules(self.rules, OWNER),
            "rivals": _check_rivals(self.rivals),
            "segments": as_segments(self.segments),
        }
        if self.epsilon is not None:
            plain["epsilon"] = check_number(self.epsilon, "epsilon", OWNER, 0)
        elif not self.check.exact:
            name = type(self.check).__name__
            expected = f"given with {name}: a tolerance read from the data is not private"
            raise refuse_argument(None, "epsilon", OWNER, expected)
        for rule in plain["rules"]:
            if rule.name in plain["rivals"]:
                raise ArgumentError(
                    f"A rule of {OWNER} is named {rule.name!r}, like one of its rivals. "
                    f"Rename the rule, or leave {rule.name!r} out of rivals."
                )
        for name, least in (("max_rounds", 1), ("random_state", 0)):
            value = getattr(self, name)
            if value is not None:
                plain[name] = check_integer(value, name, OWNER, least)
        for name, value in plain.items():
            object.__setattr__(self, name, value)
        if not self.check.exact:
            self._check_private()

    def _check_private(self) -> None:
        """A CHECK looks at its data through noise, and nothing else may look at them."""
        seen, isotonic = "has seen the data without noise", ISOTONIC in self.rivals
        owner = type(self.check).__name__
        for name, good, what, why in (
            ("max_rounds", self.max_rounds, "given", "its noise depends on it"),
            ("start", self.start is None, "None", f"any other {seen}"),
            ("rivals", not isotonic, "('plain',) or ()", f"isotonic regression {seen}"),
            ("segments", self.segments is None, "None", "its noise is for tests of the whole"),
        ):
            if not good:
                expected = f"{what} for {owner}: {why}"
                raise refuse_argument(getattr(self, name), name, OWNER, expected)


def epsilon_fault(epsilon: float | None, k: int, value_range: tuple[float, float]) -> str | None:
    """What epsilon must be where values have this range; None if it is, or is not given."""
    low, high = value_range
    least, most = LEAST_SHARE * (high - low), k * (high - low)
    if epsilon is None or least <= epsilon <= most:
        return None
    items = "item" if k == 1 else "items"
    return (
        f"a float in [{least:g}, {most:g}], in the units of the value: decisions of up to {k} "
        f"{items} with values from {low:g} to {high:g} differ by at most {most:g}"
    )


def _check_rivals(names: Any) -> tuple[str, ...]:
    good = isinstance(names, tuple | list) and all(name in RIVALS for name in names)
    if not good or len(set(names)) != len(names):
        raise refuse_argument(names, "rivals", OWNER, f"some of {RIVALS}, or ()")
    return tuple(names)
