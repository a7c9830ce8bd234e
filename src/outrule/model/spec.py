"""The content of a spec file, and how it meets a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from outrule.data.instances import Instances
from outrule.data.origin import ColumnNames, semicolons
from outrule.data.partitions import Partitions, naming
from outrule.data.table_files import parquet_schema
from outrule.errors import DataError
from outrule.model.sections import nearest
from outrule.model.settings import Settings, epsilon_fault
from outrule.problems.contract import Problem
from outrule.rules.rules import LEVELS, LIMIT, Multiplier, Rule, multipliers
from outrule.rules.sql import column_faults, columns_of, read

MOST_MULTIPLIERS = 1 << 24  # numbers in all, rules times items


@dataclass(frozen=True)
class Multipliers:
    """The settings of ``outrule.multipliers``, over whatever items the data will have."""

    levels: tuple[float, ...] = LEVELS
    limit: int = LIMIT
    seed: int = 0


@dataclass(frozen=True)
class Spec:
    """What to decide, from which columns, and the rules to compete with; see ``read_spec``.

    Attributes
    ----------
    path : where it came from, for messages
    problem, epsilon : as for DecisionCalibrator
    columns : which column of a table is what
    value_range : (low, high)
    rules : tuple of Rule; expressions are strings
    multipliers : Multipliers or None
    fit : the other parameters of DecisionCalibrator that the file gives
    """

    path: str
    problem: Problem
    epsilon: float | None
    columns: ColumnNames
    value_range: tuple[float, float]
    rules: tuple[Rule, ...]
    multipliers: Multipliers | None = None
    fit: Mapping[str, Any] = field(default_factory=dict)

    def instances(self, frame: Any, *, outcome: bool = True) -> Instances:
        """The table as Instances; all columns that are missing are reported at once.

        Parameters
        ----------
        frame : as for ``Instances.from_table``
        outcome : bool
            False where the outcome is not known, or must not be; weights and clusters are not
            needed then either.
        """
        names = self.columns
        if not outcome:  # nor is what only counts where there are outcomes
            names = replace(names.before_decision(), weight=None, cluster=None)
        known = _names(frame)
        if known is not None:
            self._check_known(names, known)
        return Instances.from_table(frame, **asdict(names), value_range=self.value_range)

    def partitions(self, source: Any, **options: Any) -> Partitions:
        """The table in many files that does not fit into memory: see ``Partitions``.

        Parameters
        ----------
        source : a folder, a pattern or paths
        options : ``sample`` and ``scratch``
        """
        names = asdict(self.columns)
        data = Partitions(source, value_range=self.value_range, **names, **options)
        with naming(data.files[0]):
            self._check_known(self.columns, list(parquet_schema(data.files[0].path)))
        return data

    def _check_known(self, names: ColumnNames, known: Sequence[str]) -> None:
        roles = [(f"[data] {role}", name) for role, name in names.roles.items()]
        visible = [name for name in known if name not in self.columns.hidden]
        segments = self.fit.get("segments")
        roles += [("[fit] segments", name) for name in segments.columns] if segments else []
        self._check_columns(roles, known, [*visible, "prediction"])

    def settings(self, instances: Instances, **changes: Any) -> Settings:
        """The settings of a fit on these instances; typos are reported before any work starts.

        Parameters
        ----------
        instances : Instances
            Their items are what the multipliers multiply, if there are any.
        changes : settings that differ from the file
        """
        visible = columns_of(instances)
        self._check_columns([], visible, visible)
        self._check_rules(instances)
        rules = self.rules + self._multipliers(instances)
        k = self.problem.lay(instances).k
        fault = epsilon_fault(self.epsilon, k, instances.value_range)
        if fault is not None and "epsilon" not in changes:
            expected = fault.replace("a float", "a number")
            raise DataError(
                f"{self.path}: 'epsilon' must be {expected}. Got {self.epsilon:g} instead."
            )
        parameters = {"problem": self.problem, "rules": rules, "epsilon": self.epsilon}
        return Settings(**{**parameters, **self.fit, **changes})

    def _multipliers(self, instances: Instances) -> tuple[Rule, ...]:
        given = self.multipliers
        if given is None:
            return ()
        where, names = f"{self.path}, [multipliers]", instances.names_of_items
        if names is None:
            raise DataError(f"{where}: the instances have no items, so [data] needs an item.")
        if given.limit * len(names) > MOST_MULTIPLIERS:
            raise DataError(
                f"{where}: {given.limit:,} rules over {len(names):,} items are too "
                "many to hold. Lower the limit."
            )
        return tuple(
            Multiplier(dict(zip(names, rule.vector.tolist(), strict=True)), rule.name)
            for rule in multipliers(len(names), given.levels, given.limit, given.seed)
        )

    def _check_columns(
        self, roles: Iterable[tuple[str, str]], known: Sequence[str], visible: Sequence[str]
    ) -> None:
        """Every column must exist; rules and problem see only the visible ones."""
        wanted = [(where, name, known) for where, name in roles]
        wanted += [("[problem]", name, visible) for name in self.problem.column_names]
        faults = [
            f"{self.path}, {where}: there is no column {name!r}.{nearest(name, columns)}"
            for where, name, columns in wanted
            if name not in columns
        ]
        for number, rule in enumerate(self.rules, start=1):
            text = getattr(rule, "function", None)
            if isinstance(text, str):
                words = column_faults(read(text), visible, self.columns.outcome)
                faults += [f"{self._place(number, rule)}: {word}" for word in words]
        if faults:
            hint = semicolons(known)
            if hint is not None and all(name not in known for _, name, _ in wanted):
                raise DataError(f"the table has none of the columns of {self.path}: {hint}")
            columns = ", ".join(repr(name) for name in known)
            gap = "\n" if len(faults) > 1 else " "
            raise DataError("\n".join(faults) + f"{gap}The columns are: {columns}.")

    def _check_rules(self, instances: Instances) -> None:
        """All rules that cannot work on these data are reported at once."""
        faults = []
        for number, rule in enumerate(self.rules, start=1):
            try:
                rule.check_training(instances)
            except DataError as error:
                words = str(error).removeprefix(f"rule {rule.name!r}: ")
                faults.append(f"{self._place(number, rule)}: {words}")
        if faults:
            raise DataError("\n".join(faults))

    def _place(self, number: int, rule: Rule) -> str:
        return f"{self.path}, rule {number} ({rule.name!r})"


def _names(frame: Any) -> list[str] | None:
    """The columns of a table, without reading it; None where only reading it will tell."""
    if hasattr(frame, "collect_schema"):  # Polars, lazy or not
        return list(frame.collect_schema().names())
    names = getattr(frame, "column_names", getattr(frame, "columns", None))
    return None if names is None else [str(name) for name in names]
