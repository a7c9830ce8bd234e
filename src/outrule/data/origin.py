"""Where instances came from, array or table: names places, shows columns, gives columns back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outrule.errors import DataError
from outrule.types import Booleans, Integers

Rows = Integers | slice  # numbers, or from the first to before the last


def place(origin: Origin, offsets: Integers, flat: int) -> str:
    """Where a flat position is, in the caller's words."""
    instance = int(np.searchsorted(offsets, flat, side="right")) - 1
    return origin.where(instance, flat - int(offsets[instance]), flat)


def fault(
    what: str | Callable[[int], str],
    rest: str,
    flat: Integers,
    origin: Origin,
    offsets: Integers,
) -> DataError:
    """The error for items at flat positions: what is wrong, where first, the rest; has all rows."""
    say = what if callable(what) else lambda _: what
    rows = origin.given_rows[flat].tolist() if isinstance(origin, TableOrigin) else []
    faults = {row: say(i) for row, i in zip(rows, flat.tolist(), strict=False)}
    first = int(flat[np.argmin(rows)] if rows else flat[0])  # items need not be in row order
    return DataError(f"{say(first)} at {place(origin, offsets, first)}{rest}", faults)


def semicolons(known: Sequence[str]) -> str | None:
    """What to say where a table seems to be one column because of its separator."""
    if len(known) != 1 or ";" not in known[0]:
        return None
    return (
        f"the only column is {known[0]!r}. Is the table separated by semicolons? Save it with "
        "commas between fields and points in numbers."
    )


def missing(name: str, known: list[str]) -> DataError:
    """The error for a column that is not there."""
    if (hint := semicolons(known)) is not None:
        return DataError(f"column {name!r} is missing: {hint}")
    words = ", ".join(repr(column) for column in known) or "none"
    return DataError(f"column {name!r} is missing. The columns are: {words}.")


@dataclass(frozen=True, eq=False)
class ArrayOrigin:
    """Arrays of shape (n, m), perhaps with items that are not on offer.

    Both kinds of origins have the same methods. *Flat* arrays have one entry per item on offer.
    """

    shape: tuple[int, int]
    available: Booleans | None = None
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    numbers: Integers | None = None  # the caller's number of every instance; None: 0, 1, ...
    names = None  # of columns, which only tables have

    def restore(self, flat: NDArray[Any], fill: Any) -> Any:
        """A flat column as the caller wants it back; ``fill`` where an item is not on offer."""
        if self.available is None:
            return flat.reshape(self.shape)
        full = np.empty(self.shape, dtype=flat.dtype)
        full[...] = fill
        full[self.available] = flat
        return full

    def spread(self, flat: NDArray[Any]) -> NDArray[Any]:
        """A flat float column in the shape that rules see."""
        return np.asarray(self.restore(flat, np.nan))

    def gather(self, answer: NDArray[Any]) -> NDArray[Any]:
        """The flat column of what a rule sees or answered; ValueError if it has another shape."""
        if answer.ndim != 2:  # one number per instance would pass for one per item where n is m
            raise ValueError(f"an answer of {answer.ndim} dimensions")
        full = np.broadcast_to(answer, self.shape)
        return full.ravel() if self.available is None else full[self.available]

    def outside(self, answer: NDArray[Any]) -> tuple[int, int] | None:
        """The first (instance, item) that a rule chose although it is not on offer."""
        if self.available is None:
            return None
        wrong = np.broadcast_to(answer, self.shape) & ~self.available
        first = int(np.argmax(wrong))
        return divmod(first, self.shape[1]) if wrong.any() else None

    def flatten(self, column: Any) -> NDArray[Any]:
        """The inverse of ``restore``; raises DataError if the shape is another."""
        array = np.asarray(column)
        if array.shape != self.shape:
            raise DataError(
                f"got an array of shape {array.shape}. It must have shape {self.shape}."
            )
        return self.gather(array)

    def column(self, name: str) -> NDArray[Any]:
        """A column in the shape that rules see; raises DataError if there is none."""
        if name in self.columns:
            column = self.columns[name]
            return column if column.ndim == 2 else column[:, None]
        if name == "item":
            return np.arange(self.shape[1])[None, :]
        raise missing(name, [*self.columns, "item"])

    def flat_column(self, name: str) -> NDArray[Any]:
        """A column with one entry per item on offer; raises DataError if there is none."""
        return self.gather(self.column(name))

    def all_columns(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Every column that rules may look at, with its name."""
        yield from self.columns.items()

    def take(self, chosen: Rows, flat: Rows) -> ArrayOrigin:
        """The origin of some of the instances, whose items are at these flat positions."""
        if self.numbers is not None:
            numbers = self.numbers[chosen]
        else:
            numbers = np.arange(chosen.start, chosen.stop) if isinstance(chosen, slice) else chosen
        return ArrayOrigin(
            (len(numbers), self.shape[1]),
            None if self.available is None else self.available[chosen],
            {name: column[chosen] for name, column in self.columns.items()},
            numbers,
        )

    def where(self, instance: int, position: int | None, flat: int) -> str:
        """A place in the caller's words."""
        name = f"instance {instance if self.numbers is None else self.numbers[instance]}"
        if position is None:
            return name
        if self.available is not None:
            position = int(np.flatnonzero(self.available[instance])[position])
        return f"{name}, item {position}"


CHOSEN = "chosen"  # the column that `outrule decide` adds


@dataclass(frozen=True)
class ColumnNames:
    """The names of a table's columns."""

    instance: str
    prediction: str
    outcome: str | None = None
    item: str | None = None
    start: str | None = None
    weight: str | None = None
    cluster: str | None = None
    propensity: str | float | None = None  # a number: the same for all items
    observed: str | None = None
    propensity_estimated: bool = False

    @property
    def roles(self) -> dict[str, str]:
        """The columns by what they are for, without those that are not named."""
        roles = {role: name for role, name in vars(self).items() if role != "propensity_estimated"}
        return {role: name for role, name in roles.items() if name and isinstance(name, str)}

    @property
    def hidden(self) -> list[str]:
        """What is only known after the decision, so that no rule may see it."""
        roles = self.roles
        return [roles[role] for role in ("outcome", "propensity", "observed") if role in roles]

    def before_decision(self) -> ColumnNames:
        """The names without those of what is only known afterwards."""
        return replace(
            self, outcome=None, propensity=None, observed=None, propensity_estimated=False
        )


@dataclass(frozen=True, eq=False)
class TableOrigin:
    """A table with one row per item, or with lists of items in one row per instance."""

    frame: Any  # Polars, rows in flat order, without the outcome
    rows: Integers  # the row of every flat item, in a table with one row per item
    labels: Any  # the name of every instance, a Polars series
    names: ColumnNames
    library: str
    index: Any = None  # of a pandas frame, whole
    owners: Integers | None = None  # of a nested table: the caller's row of every row

    @property
    def given_rows(self) -> Integers:
        """The caller's row of every flat item."""
        return self.rows if self.owners is None else self.owners[self.rows]

    def restore(self, flat: NDArray[Any], fill: Any) -> Any:
        order = np.argsort(self.rows, kind="stable")
        column, rows = flat[order], self.given_rows[order]
        import polars as pl  # which arrays do not need

        from outrule.data.nesting import nest

        series = pl.Series(column) if self.owners is None else nest(pl.Series(column), rows)
        if self.library == "pandas":
            import pandas as pd

            if self.owners is None:
                return pd.Series(column, index=self.index.take(rows))
            entries = [one.to_numpy() for one in series]
            return pd.Series(entries, index=self.index.take(np.unique(rows)), dtype=object)
        return series.to_arrow() if self.library == "pyarrow" else series

    def spread(self, flat: NDArray[Any]) -> NDArray[Any]:
        return flat

    def gather(self, answer: NDArray[Any]) -> NDArray[Any]:
        if answer.shape != self.rows.shape:
            raise ValueError(f"an answer of shape {answer.shape}")
        return answer

    def outside(self, answer: NDArray[Any]) -> None:
        """Every item of a table is on offer."""

    def flatten(self, column: Any) -> NDArray[Any]:
        array = np.asarray(column)
        if self.owners is not None and array.dtype == object:
            array = np.concatenate(array)  # of lists
        if array.shape != self.rows.shape:
            raise DataError(
                f"got a column of shape {array.shape}. It must have shape {self.rows.shape}."
            )
        return array[np.argsort(np.argsort(self.rows, kind="stable"), kind="stable")]

    def column(self, name: str) -> NDArray[Any]:
        if name not in self.frame.columns:
            raise missing(name, self.frame.columns)
        column = self.frame[name]
        if str(column.dtype) in ("Int128", "UInt128"):  # which NumPy does not have
            return np.array(column.to_list(), dtype=object)
        return np.asarray(column.to_numpy())

    flat_column = column

    def all_columns(self) -> Iterator[tuple[str, NDArray[Any]]]:
        yield from ((name, self.column(name)) for name in self.frame.columns)

    def take(self, chosen: Rows, flat: Rows) -> TableOrigin:
        return replace(
            self, frame=self.frame[flat], rows=self.rows[flat], labels=self.labels[chosen]
        )

    def where(self, instance: int, position: int | None, flat: int) -> str:
        name = f"instance {self.labels[instance]!r}"
        return (
            name if position is None else f"{name}, row {int(self.given_rows[flat])} of the table"
        )


Origin = ArrayOrigin | TableOrigin


class NoOrigin:
    """The origin of instances of which only the numbers are kept: no names, and no columns."""

    def take(self, chosen: Rows, flat: Rows) -> NoOrigin:
        return self
