"""The spec: a table enters, instances leave; instances enter, a calibrator for them leaves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from outrule.calibration.check import Check, Step
from outrule.calibration.isotonic import Isotonic
from outrule.data.instances import Instances
from outrule.data.origin import Schema
from outrule.errors import DataError
from outrule.model.spec.sections import nearest
from outrule.problems.contract import Problem
from outrule.problems.matchings import Assignment, Graph
from outrule.problems.matroids import PartitionMatroid
from outrule.rules.rules import Multiplier, Rule, multipliers
from outrule.rules.sql import column_faults, columns_of, read

if TYPE_CHECKING:
    from outrule.estimators.calibrator import DecisionCalibrator

MOST_MULTIPLIERS = 1 << 24  # numbers in all, rules times items


@dataclass(frozen=True)
class Multipliers:
    """The settings of :func:`outrule.multipliers`, over whatever items the data will have."""

    levels: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    limit: int = 1024
    seed: int = 0

    def over(self, items: Sequence[Any]) -> tuple[Rule, ...]:
        """The rules, by the names of the items."""
        rules = multipliers(len(items), self.levels, self.limit, self.seed)
        pairs = (zip(items, rule.vector.tolist(), strict=True) for rule in rules)
        return tuple(
            Multiplier(dict(pair), rule.name) for rule, pair in zip(rules, pairs, strict=True)
        )


@dataclass(frozen=True)
class Spec:
    """What to decide, from which columns, and the rules to compete with; see :func:`read_spec`.

    Attributes
    ----------
    path : where it came from, for messages
    problem, epsilon, check, step, start, max_rounds, random_state : as for DecisionCalibrator
    columns : Schema; which column of a table is what
    value_range : (low, high)
    rules : tuple of Rule; expressions are text
    multipliers : Multipliers or None
    """

    path: str
    problem: Problem
    epsilon: float
    columns: Schema
    value_range: tuple[float, float]
    rules: tuple[Rule, ...]
    multipliers: Multipliers | None = None
    check: Check | None = None
    step: Step | None = None
    start: Isotonic | None = None
    max_rounds: int | None = None
    random_state: int | None = None

    def instances(self, frame: Any, *, outcome: bool = True) -> Instances:
        """The table as Instances; columns that are missing are refused, all of them at once.

        Parameters
        ----------
        frame : pandas, Polars or Arrow table
        outcome : bool
            False where the outcome is not known, or shall not be.
        """
        names = self.columns if outcome else replace(self.columns, outcome=None)
        known = _names(frame)
        if known is not None:
            roles = [(f"[data] {role}", name) for role, name in asdict(names).items() if name]
            visible = [name for name in known if name != self.columns.outcome]
            self._refuse_missing(roles, known, [*visible, "prediction"])
        return Instances.from_table(frame, **asdict(names), value_range=self.value_range)

    def calibrator(self, instances: Instances, **changes: Any) -> DecisionCalibrator:
        """A calibrator for these instances, not fitted yet; refuses what could not be fitted.

        Parameters
        ----------
        instances : Instances
            Their items are what the multipliers multiply, if there are any.
        changes : parameters of DecisionCalibrator that shall differ from the file
        """
        from outrule.estimators.calibrator import DecisionCalibrator

        visible = columns_of(instances)
        self._refuse_missing([], visible, visible)
        self._refuse_unfit(instances)
        settings = {
            "problem": self.problem,
            "rules": self.rules + self._multipliers(instances),
            "epsilon": self.epsilon,
            "check": self.check,
            "step": self.step,
            "start": self.start,
            "max_rounds": self.max_rounds,
            "random_state": self.random_state,
        }
        calibrator = DecisionCalibrator(**{**settings, **changes})
        calibrator.check_parameters()
        return calibrator

    def _multipliers(self, instances: Instances) -> tuple[Rule, ...]:
        if self.multipliers is None:
            return ()
        where, names = f"{self.path}, [multipliers]", instances.names_of_items
        if names is None:
            raise DataError(f"{where}: the instances have no items, so [data] needs an item.")
        if self.multipliers.limit * len(names) > MOST_MULTIPLIERS:
            raise DataError(
                f"{where}: {self.multipliers.limit:,} rules over {len(names):,} items are too "
                "many to hold. Lower the limit."
            )
        return self.multipliers.over(names)

    def _refuse_missing(
        self, roles: Iterable[tuple[str, str]], known: Sequence[str], visible: Sequence[str]
    ) -> None:
        """Refuse columns that are not there; rules and problem see only the visible ones."""
        faults = [
            f"{self.path}, {where}: there is no column {name!r}.{nearest(name, columns)}"
            for where, name, columns in (
                *((where, name, known) for where, name in roles),
                *(("[problem]", name, visible) for name in problem_columns(self.problem)),
            )
            if name not in columns
        ]
        for number, rule in enumerate(self.rules, start=1):
            text = getattr(rule, "function", None)
            if isinstance(text, str):
                words = column_faults(read(text), visible, self.columns.outcome)
                where = f"{self.path}, rule {number} ({rule.name!r})"
                faults += [f"{where}: {word}" for word in words]
        if faults:
            columns = ", ".join(repr(name) for name in known)
            gap = "\n" if len(faults) > 1 else " "
            raise DataError("\n".join(faults) + f"{gap}The columns are: {columns}.")

    def _refuse_unfit(self, instances: Instances) -> None:
        """Refuse data on which rules cannot work, all of the rules at once."""
        faults = []
        for number, rule in enumerate(self.rules, start=1):
            try:
                rule.check_training(instances)
            except DataError as error:
                words = str(error).removeprefix(f"rule {rule.name!r}: ")
                faults.append(f"{self.path}, rule {number} ({rule.name!r}): {words}")
        if faults:
            raise DataError("\n".join(faults))


def problem_columns(problem: Problem) -> list[str]:
    """The columns of a table that a problem reads."""
    named: tuple[Any, ...] = ()
    if isinstance(problem, PartitionMatroid):
        named = (problem.groups,)
    elif isinstance(problem, Graph):
        named = problem.columns or ()
    elif isinstance(problem, Assignment):
        named = (problem.rows, problem.columns)
    return [name for name in named if isinstance(name, str)]


def _names(frame: Any) -> list[str] | None:
    """The columns of a table, without reading it; None where only reading it will tell."""
    if hasattr(frame, "collect_schema"):  # Polars, lazy or not
        return list(frame.collect_schema().names())
    names = getattr(frame, "column_names", getattr(frame, "columns", None))
    return None if names is None else [str(name) for name in names]
