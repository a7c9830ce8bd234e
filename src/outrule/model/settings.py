"""The settings of a fit, complete and checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from outrule.calibration.check import Check, LineSearch, PrivateReuse, Reuse, Step
from outrule.calibration.cross_fit import CrossFit
from outrule.calibration.isotonic import Isotonic
from outrule.calibration.rivals import ISOTONIC, RIVALS
from outrule.errors import ArgumentError, check_number, refuse_argument
from outrule.problems.contract import Problem
from outrule.rules.rules import Rule, check_rules

OWNER = "DecisionCalibrator"
LEAST_EPSILON = 1e-9  # below it the rounding of sums decides


@dataclass(frozen=True)
class Settings:
    """The parameters of :class:`outrule.DecisionCalibrator`."""

    problem: Problem
    rules: tuple[Rule, ...]
    epsilon: float = 0.05
    check: Check = field(default_factory=Reuse)
    step: Step = field(default_factory=LineSearch)
    start: Isotonic | CrossFit | None = field(default_factory=CrossFit)
    max_rounds: int | None = None
    random_state: int | None = None
    rivals: tuple[str, ...] = RIVALS

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
        ):
            if not isinstance(getattr(self, name), kind):
                raise refuse_argument(getattr(self, name), name, OWNER, expected)
        check_number(self.epsilon, "epsilon", OWNER, 0, 1)
        if self.epsilon < LEAST_EPSILON:
            raise refuse_argument(self.epsilon, "epsilon", OWNER, f"at least {LEAST_EPSILON:g}")
        plain: dict[str, Any] = {
            "rules": check_rules(self.rules, OWNER),
            "epsilon": float(self.epsilon),
            "rivals": _check_rivals(self.rivals),
        }
        for rule in plain["rules"]:
            if rule.name in plain["rivals"]:
                raise ArgumentError(
                    f"A rule of {OWNER} has the name {rule.name!r}, as one of its rivals has. "
                    f"Rename the rule, or leave {rule.name!r} out of rivals."
                )
        for name, least in (("max_rounds", 1), ("random_state", 0)):
            value = getattr(self, name)
            if value is not None:
                plain[name] = int(
                    check_number(value, name, OWNER, least, low_open=False, integer=True)
                )
        for name, value in plain.items():
            object.__setattr__(self, name, value)
        if isinstance(self.check, PrivateReuse):
            self._check_private()

    def _check_private(self) -> None:
        """PrivateReuse looks at its data through noise, and nothing else may look at them."""
        seen = "has seen the data without noise"
        for name, good, expected in (
            ("max_rounds", self.max_rounds, "given for PrivateReuse: its noise depends on it"),
            ("start", self.start is None, f"None for PrivateReuse: any other {seen}"),
            (
                "rivals",
                ISOTONIC not in self.rivals,
                f"('plain',) or () for PrivateReuse: isotonic regression {seen}",
            ),
        ):
            if not good:
                raise refuse_argument(getattr(self, name), name, OWNER, expected)


def _check_rivals(names: Any) -> tuple[str, ...]:
    good = isinstance(names, tuple | list) and all(name in RIVALS for name in names)
    if not good or len(set(names)) != len(names):
        raise refuse_argument(names, "rivals", OWNER, f"some of {RIVALS}, or ()")
    return tuple(names)
