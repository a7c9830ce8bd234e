"""The one representation of the data: a flat list of items, with the offsets of the instances."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outrule.data.arrays import read_arrays
from outrule.data.checks import (
    check_counts,
    check_inside,
    check_offers,
    check_range,
    check_repeats,
    check_weight,
)
from outrule.data.fingerprints import Fingerprint
from outrule.data.origin import (
    ArrayOrigin,
    ColumnNames,
    NoOrigin,
    Origin,
    Rows,
    TableOrigin,
    fault,
    place,
)
from outrule.data.propensities import check_propensity
from outrule.data.view import View
from outrule.errors import DataError, check_number, refuse_argument
from outrule.types import Booleans, Floats, Integers, Picks, computed_once

ARRAYS = ("prediction", "outcome", "start", "codes", "weight", "cluster", "propensity")
PER_INSTANCE = ("weight", "cluster")  # the others have one entry per item


@dataclass(frozen=True, eq=False)
class Instances:
    """Decision instances: the items each one offers, with predictions and perhaps outcomes.

    Made by ``from_arrays`` or ``from_table``. Item ``j`` of instance ``i`` is at
    ``offsets[i] + j`` in every flat array.

    Attributes
    ----------
    prediction, outcome, start : arrays of shape (n_items_in_all,); the last two may be None
    offsets : array of shape (n + 1,)
    item_names : tuple or None
        What the codes of a table's item column stand for.
    weight : array of shape (n,) or None
    cluster : array of shape (n,) or None
        Codes; instances of one cluster are one observation.
    origin : what came in, with every other column a rule may look at
    propensity : array of shape (n_items_in_all,) or None
        Where a log shows the outcomes of some items only: the probability that it shows this one.
        The outcome is NaN where it is not known.
    propensity_estimated : bool
    value_range : (low, high)
        What predictions and outcomes can be.
    """

    prediction: Floats
    offsets: Integers
    origin: Origin
    outcome: Floats | None = None
    start: Floats | None = None
    codes: NDArray[np.int32] | None = None  # of a table's items
    item_names: tuple[Any, ...] | None = None
    weight: Floats | None = None
    cluster: Integers | None = None
    propensity: Floats | None = None
    propensity_estimated: bool = False
    value_range: tuple[float, float] = (0.0, 1.0)

    @classmethod
    def from_arrays(
        cls,
        predictions: ArrayLike,
        outcomes: ArrayLike | None = None,
        *,
        available: ArrayLike | None = None,
        start: ArrayLike | None = None,
        weight: ArrayLike | None = None,
        cluster: ArrayLike | None = None,
        columns: Mapping[str, ArrayLike] | None = None,
        propensity: ArrayLike | None = None,
        propensity_estimated: bool = False,
        value_range: tuple[float, float] = (0.0, 1.0),
    ) -> Instances:
        """Instances that offer (up to) the same m items.

        Arrays are not copied where they have the right type: do not write into them afterwards.

        Parameters
        ----------
        predictions : array-like of shape (n, m)
        outcomes : array-like of shape (n, m), optional
        start : array-like of shape (n, m), optional
            The output of another calibrator, to start the loop from.
        available : boolean array-like of shape (n, m), optional
            False where an item is not on offer; whatever the other arrays hold there is ignored.
        weight, cluster : array-like of shape (n,), optional
        columns : mapping from name to array-like of shape (n,) or (n, m), optional
            What rules may look at besides the predictions.
        propensity : array-like of shape (n, m), or a number; optional
            The probability that the outcome of this item is observed, given the instance; with it,
            outcomes may be NaN where they are not known. NaN is allowed there too, 0 means that
            the log could never show it.
        propensity_estimated : bool
            Whether propensities were estimated by a model, not recorded when choices were drawn.

        Examples
        --------
        >>> data = Instances.from_arrays([[0.2, 0.7], [0.5, 0.1]])
        >>> len(data), data.prediction, data.offsets
        (2, array([0.2, 0.7, 0.5, 0.1]), array([0, 2, 4]))
        """
        value_range = check_range(value_range)
        fields = read_arrays(
            predictions,
            outcomes,
            available=available,
            start=start,
            weight=weight,
            cluster=cluster,
            columns=columns,
            propensity=propensity,
        )
        instances = cls(
            **fields, propensity_estimated=propensity_estimated, value_range=value_range
        )
        instances.check_values()
        return instances

    @classmethod
    def from_table(
        cls,
        frame: Any,
        *,
        instance: str,
        prediction: str,
        outcome: str | None = None,
        item: str | None = None,
        start: str | None = None,
        weight: str | None = None,
        cluster: str | None = None,
        propensity: str | float | None = None,
        observed: str | None = None,
        propensity_estimated: bool = False,
        value_range: tuple[float, float] = (0.0, 1.0),
    ) -> Instances:
        """Instances from a table with one row per item; arguments name its columns.

        A table with one row per instance may hold its items in lists, as tables of Spark, BigQuery
        and Snowflake do: where the predictions are lists, all lists of a row have one entry per
        item, and other columns have one value per instance. ``predict`` and ``decide`` then return
        lists too, one per row.

        Names are compared as strings, so that ``instance=0`` finds the column 0 of a pandas frame.

        Parameters
        ----------
        frame : table of pandas, Polars or anything that exports Arrow (PyArrow, DuckDB, Ibis, ...)
            Rows of one instance need not be adjacent. Columns that are not named here are kept for
            the rules; the outcome is hidden from them. What Polars has no type for (pandas'
            periods, intervals and complex numbers, or several types in one column) the rules see
            as Python objects; such a column cannot be the instance, the item or the cluster.
        instance : the instance a row belongs to
        item : what the item is, across instances (needed by multipliers, ``Fixed`` and per-item
            isotonic regression)
        weight, cluster : constant within an instance
        propensity : the probability that the outcome of this row is observed, given the instance
            A column, or a number for all rows. With it, outcomes may be null where they are not
            known; no rule sees the column. See ``from_arrays``.
        observed : whether the outcome is known; it must agree with the nulls
        propensity_estimated : bool, as for ``from_arrays``

        Examples
        --------
        >>> import polars as pl
        >>> frame = pl.DataFrame({"trip": ["a", "b", "a"], "score": [0.2, 0.5, 0.7]})
        >>> data = Instances.from_table(frame, instance="trip", prediction="score")
        >>> data.prediction, data.offsets
        (array([0.2, 0.7, 0.5]), array([0, 2, 3]))
        """
        from outrule.data.tables import read_frame  # loads Polars, which arrays do not need

        value_range = check_range(value_range)
        if propensity is not None and not isinstance(propensity, str):
            propensity = check_number(propensity, "propensity", "Instances.from_table", 0, 1)
        logged = (propensity, observed, propensity_estimated)
        names = ColumnNames(instance, prediction, outcome, item, start, weight, cluster, *logged)
        instances = cls(**read_frame(frame, names), value_range=value_range)
        instances.check_values()
        return instances

    @classmethod
    def from_weights(cls, weights: ArrayLike, available: ArrayLike | None = None) -> Instances:
        """Instances that carry any numbers for the optimiser, and may be empty; not checked."""
        return cls(**read_arrays(weights, available=available, name="weights"))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def width(self) -> int | None:
        """m, where every instance offers the same m items in the same order, else None."""
        if isinstance(self.origin, ArrayOrigin) and self.origin.available is None:
            return self.origin.shape[1]
        return None

    @computed_once
    def item(self) -> NDArray[np.int32] | None:
        """Which item each is: the column of an array, or a code of ``item_names``."""
        if isinstance(self.origin, ArrayOrigin):
            return self.origin.flat_column("item").astype(np.int32)
        return self.codes

    @property
    def names_of_items(self) -> Sequence[Any] | None:
        """What the codes stand for: ``range(m)`` for arrays, None for a table without items."""
        if isinstance(self.origin, ArrayOrigin):
            return range(self.origin.shape[1])
        return self.item_names

    @computed_once
    def instance(self) -> Integers:
        """The instance of every item, shape (n_items_in_all,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    @computed_once
    def fingerprint(self) -> str:
        """SHA-256 of everything that numbers depend on."""
        found = Fingerprint((self.value_range, self.item_names, self.propensity_estimated))
        found.add(self.fields())
        if isinstance(self.origin, ArrayOrigin) and self.origin.available is not None:
            found.add([("available", self.origin.available)])
        found.add((f"column {name!r}", column) for name, column in self.origin.all_columns())
        return found.hexdigest()

    def fields(self) -> list[tuple[str, NDArray[Any] | None]]:
        """The arrays of items and instances, by name."""
        arrays = ((name, getattr(self, name)) for name in ARRAYS)
        return [("sizes", np.diff(self.offsets)), *arrays]

    def check_values(self, *, is_part: bool = False) -> None:
        """Raise DataError for data that no problem can work with, saying where it is first.

        A part of the data may have weights that are all zero.
        """
        check_offers(self)
        for name in ("prediction", "outcome", "start"):
            values = getattr(self, name)
            if values is not None:
                if name == "outcome" and self.propensity is not None:
                    values = np.where(np.isnan(values), self.value_range[0], values)
                check_inside(self, values, name, self.value_range)
        if self.propensity is not None:
            if self.outcome is None:
                expected = "left out where there are no outcomes"
                raise refuse_argument("given", "propensity", "Instances", expected)
            check_propensity(self, self.propensity)
        elif self.propensity_estimated:
            expected = "False where there is no propensity"
            raise refuse_argument(True, "propensity_estimated", "Instances", expected)
        if self.weight is not None:
            check_weight(self, self.weight)
            if not is_part:
                check_counts(self.weight)
        if self.codes is not None:
            check_repeats(self, self.codes)

    def check_finite(self) -> None:
        """Raise DataError where a weight for the optimiser is NaN or infinite."""
        check_inside(self, self.prediction, "weight", (-np.inf, np.inf))

    def require_outcome(self, owner: str) -> Floats:
        """The outcomes of all items; an error where they are not known."""
        if self.outcome is None:
            raise refuse_argument(None, "outcomes", owner, "given")
        if self.propensity is not None:
            raise DataError(
                f"{owner} needs the outcomes of all items, but these instances have only those "
                "that were observed: outrule.certify can estimate from them."
            )
        return self.outcome

    def require_observed(self, owner: str) -> Floats:
        """The outcomes, NaN where a log does not show them; an error where there are none."""
        return self.require_outcome(owner) if self.outcome is None else self.outcome

    @computed_once
    def observed(self) -> Booleans:
        """Which items have an outcome."""
        assert self.outcome is not None
        return ~np.isnan(self.outcome)

    @computed_once
    def upweight(self) -> Floats | None:
        """How many items one with an outcome stands for, observed / propensity; None: all 1."""
        if self.propensity is None:
            return None
        return np.divide(
            1.0, self.propensity, out=np.zeros(len(self.propensity)), where=self.observed
        )

    def filled(self, base: Floats, most: float = math.inf) -> Instances:
        """Unbiased estimates in place of outcomes: ``base + upweight (outcome - base)``, flat.

        ``base`` is what a model predicts that has not seen these outcomes; the nearer it is, the
        less noisy they are (doubly robust). They can be outside of the value range. No upweight is
        larger than ``most``: with a limit, they are less noisy, and biased towards the base.
        Instances that have all outcomes are returned as they are.
        """
        if self.upweight is None or self.outcome is None:
            return self
        residual = np.where(self.observed, self.outcome - base, 0.0)
        outcome = base + np.minimum(self.upweight, most) * residual
        return replace(self, outcome=outcome, propensity=None, propensity_estimated=False)

    def total_weight(self) -> float:
        """The sum of the weights, the same for any order of instances."""
        return float(len(self)) if self.weight is None else math.fsum(self.weight.tolist())

    @property
    def observation(self) -> Integers:
        """The number of the observation that an instance belongs to: its cluster, or itself."""
        if self.cluster is None:
            return np.arange(len(self))
        return np.unique(self.cluster, return_inverse=True)[1]

    def normalised_weight(self, n: int | None = None, total: float | None = None) -> Floats:
        """Instance weights with mean one, shape (n,).

        ``n`` and ``total`` are the number and the weight of all instances, if these are a part.
        """
        if self.weight is None:
            return np.ones(len(self))
        if n is not None and total is not None:
            return self.weight * (n / total)
        if not self.weight.any():
            raise DataError(
                f"all {len(self)} instances of a batch, a fold or a validation part have weight "
                "zero: drop such instances, or make the parts larger."
            )
        return self.weight * (len(self) / self.total_weight())

    def where(self, instance: int, position: int | None = None) -> str:
        """A place in the caller's words, for messages."""
        flat = int(self.offsets[instance]) + (position or 0)
        return self.origin.where(instance, position, flat)

    def where_flat(self, flat: int) -> str:
        """The same from a flat position."""
        return place(self.origin, self.offsets, flat)

    def fault(self, what: str | Callable[[int], str], rest: str, flat: Integers) -> DataError:
        """The error for items at flat positions; it knows all their rows."""
        return fault(what, rest, flat, self.origin, self.offsets)

    def faults(self, bad: Integers, words: str) -> dict[int, str]:
        """What is wrong with some instances, by the first row of each; nothing for arrays."""
        rows = self.origin.given_rows if isinstance(self.origin, TableOrigin) else ()
        return {int(rows[self.offsets[i]]): words for i in bad} if len(rows) else {}

    def name_items(self, flat: Integers) -> str:
        """Some items of one instance in the caller's words."""
        if not len(flat):
            return "no item"
        names = self.names_of_items
        if self.item is None or names is None:
            rows = self.origin.given_rows[flat]  # type: ignore[union-attr] # a table
            return f"rows {np.unique(rows).tolist()}"
        return f"items {[names[code] for code in self.item[flat].tolist()]}"

    def take(self, chosen: Integers) -> Instances:
        """Some of the instances, in the given order."""
        offsets, flat = take_items(self.offsets, chosen)
        return self._part(chosen, flat, offsets)

    def slice(self, start: int, stop: int) -> Instances:
        """The instances from ``start`` to ``stop``; cheap."""
        if start == 0 and stop == len(self):
            return self
        flat = slice(int(self.offsets[start]), int(self.offsets[stop]))
        offsets = self.offsets[start : stop + 1] - self.offsets[start]
        return self._part(slice(start, stop), flat, offsets)

    def _part(self, chosen: Rows, flat: Rows, offsets: Integers) -> Instances:
        """Some of the instances, whose items are at these flat positions."""
        parts: dict[str, Any] = {
            name: getattr(self, name)[chosen if name in PER_INSTANCE else flat]
            for name in ARRAYS
            if getattr(self, name) is not None
        }
        return replace(self, offsets=offsets, origin=self.origin.take(chosen, flat), **parts)

    def without_origin(self) -> Instances:
        """The numbers of a table's instances alone, which are small enough to be sent."""
        origin: Any = NoOrigin()
        return replace(self, origin=origin)

    def view(self) -> View:
        """What a rule may see."""
        return View(self.origin, self.prediction, self.offsets)

    def mark(self, picks: Picks) -> Booleans:
        """Decisions as a flat boolean column, True where an item is chosen."""
        from outrule.kernels import tally  # loads Numba

        marks = np.zeros(len(self.prediction), dtype=np.bool_)
        tally.mark_picks(picks, self.offsets, marks)
        return marks


def take_items(offsets: Integers, chosen: Integers) -> tuple[Integers, Integers]:
    """The offsets of some of the instances, and the flat positions of their items."""
    sizes = np.diff(offsets)[chosen]
    ends = np.concatenate(([0], np.cumsum(sizes)))
    return ends, np.arange(ends[-1]) + np.repeat(offsets[chosen] - ends[:-1], sizes)


def rows_by(number: NDArray[Any], n: int) -> list[Integers]:
    """Where each of the numbers 0, ..., n - 1 is, ascending."""
    order = np.argsort(number, kind="stable")
    return np.split(order, np.cumsum(np.bincount(number, minlength=n))[:-1])


def as_instances(
    data: ArrayLike | Instances,
    outcomes: ArrayLike | None = None,
    *,
    available: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    value_range: tuple[float, float] = (0.0, 1.0),
) -> Instances:
    """Arrays become Instances; Instances must already have everything that belongs to them."""
    if is_partitioned(data):
        raise DataError(
            "Partitions work only with fit and certify. Elsewhere, read one file at a time with "
            "Instances.from_table, or use the command line: outrule predict, decide and watch "
            "accept folders."
        )
    if not isinstance(data, Instances):
        return Instances.from_arrays(
            data, outcomes, available=available, weight=sample_weight, value_range=value_range
        )
    extra = {"outcomes": outcomes, "available": available, "sample_weight": sample_weight}
    for name, value in extra.items():
        if value is not None:
            raise DataError(f"{name} was given next to Instances, which must already contain it.")
    return data


def is_partitioned(data: Any) -> bool:
    """Whether data are Partitions, without loading Polars to ask."""
    found = sys.modules.get("outrule.data.partitions")
    return found is not None and isinstance(data, found.Partitions)
