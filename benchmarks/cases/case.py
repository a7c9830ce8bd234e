"""What a case is: for every base model and split seed, calibration and test instances and rules."""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import outrule
from outrule.demos.coupons import split as split

BASE, CALIBRATION, TEST = range(3)

# The arguments of Instances.from_arrays; "columns.price" is the column "price".
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Data:
    """One split of one case, as a method sees it; ``test`` has outcomes only for the scoring."""

    problem: outrule.Problem
    rules: tuple[outrule.Rule, ...]
    calibration: outrule.Instances
    test: outrule.Instances


@dataclass(frozen=True)
class Case:
    """A decision problem with practitioners' rules and two base models, the crude one first.

    ``draw(model, seed, cache)`` returns the arrays of the calibration part and of the test part.
    ``items`` are the column of a table that names the items, and their names: rules use them.
    """

    name: str
    models: tuple[str, ...]
    problem: outrule.Problem
    rules: tuple[outrule.Rule, ...]
    draw: Callable[[str, int, Path], tuple[Arrays, Arrays]]
    items: tuple[str, Sequence[Any]] | None = None

    def load(self, model: str, seed: int, cache: Path, limit: int | None = None) -> Data:
        """The split of this seed, from the cache if it is there.

        With ``limit``, every so many-th instance of each part, so that at most ``limit`` are left.
        """
        parts = [
            _instances(arrays if limit is None else _thin(arrays, limit), self.items)
            for arrays in self._arrays(model, seed, cache)
        ]
        return Data(self.problem, self.rules, *parts)

    def _arrays(self, model: str, seed: int, cache: Path) -> tuple[Arrays, Arrays]:
        # Another version of the case, of the split or of scikit-learn makes other predictions.
        written = inspect.getfile(getattr(self.draw, "func", self.draw))  # also where it is partial
        code = b"".join(Path(file).read_bytes() for file in (written, __file__))
        stem = f"{self.name}-{model}-{seed}".replace(" ", "-")
        path = cache / f"{stem}-{sklearn.__version__}-{zlib.crc32(code):08x}.npz"
        if not path.exists():
            with threadpool_limits(1):  # the same bits on every machine, and no busy waiting
                calibration, test = self.draw(model, seed, cache)
            cache.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_suffix(".part.npz")
            named = {f"calibration.{name}": array for name, array in calibration.items()}
            named |= {f"test.{name}": array for name, array in test.items()}
            np.savez_compressed(unfinished, **named)
            unfinished.replace(path)
        with np.load(path) as file:
            return _under("calibration.", file), _under("test.", file)


def take(arrays: Arrays, chosen: Any) -> Arrays:
    """Some of the instances."""
    return {name: array[chosen] for name, array in arrays.items()}


def _under(prefix: str, named: Mapping[str, NDArray[Any]]) -> Arrays:
    return {name.removeprefix(prefix): named[name] for name in named if name.startswith(prefix)}


def _thin(arrays: Arrays, limit: int) -> Arrays:
    every = -(-len(arrays["predictions"]) // limit)
    return take(arrays, slice(None, None, every))


def _instances(arrays: Arrays, items: tuple[str, Sequence[Any]] | None) -> outrule.Instances:
    given = {name: array for name, array in arrays.items() if not name.startswith("columns.")}
    columns = _under("columns.", arrays)
    if items is not None:
        name, names = items
        columns[name] = np.broadcast_to(np.array(names), arrays["predictions"].shape)
    return outrule.Instances.from_arrays(**given, columns=columns)
