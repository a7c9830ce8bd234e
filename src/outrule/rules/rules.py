"""The rules that people decide by today: multipliers, new weights, direct choices, fixed items."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outrule.data.instances import Instances
from outrule.data.view import View
from outrule.errors import ArgumentError, DataError, check_integer, refuse_argument
from outrule.problems.contract import Layout, Problem, check_size
from outrule.types import Booleans, Floats, Picks
from outrule.words import count

LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the paper's multipliers
LIMIT = 1024
OWN_TEST = "optimiser"  # the name of the optimiser's own test


class Rule(ABC):
    """A way to decide from the original predictions and any other columns, instance by instance."""

    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise refuse_argument(self.name, "name", type(self).__name__, "a non-empty str")

    @abstractmethod
    def decide(self, instances: Instances, problem: Problem, layout: Layout) -> Picks:
        """The rule's decision for every instance."""

    def item_names(self, instances: Instances) -> Sequence[Any]:
        """The names of the items, for rules that know items by name."""
        names = instances.names_of_items
        if names is None:
            raise DataError(f"rule {self.name!r} needs items: name the column of the 'item'.")
        return names

    def check_training(self, instances: Instances) -> None:  # noqa: B027 - few rules need it
        """Raise if the rule can only be a mistake on these training data."""


@dataclass(frozen=True, eq=False)
class Multiplier(Rule):
    """Multiply the prediction of every item by that item's number, then optimise (section 5).

    Parameters
    ----------
    vector : array-like of shape (m,), or mapping from a table's items to numbers
    name : str, optional

    Examples
    --------
    >>> Multiplier([1.0, 0.5], name="halve the second")
    Multiplier([1.0, 0.5], name='halve the second')
    """

    vector: Any
    name: str = ""

    def __post_init__(self) -> None:
        items = list(self.vector) if isinstance(self.vector, Mapping) else None
        try:
            entries = self.vector if items is None else list(self.vector.values())
            values = np.array(entries, np.float64)
            good = values.ndim == 1 and len(values) > 0 and bool(np.isfinite(values).all())
        except (TypeError, ValueError, OverflowError):
            good = False
        if not good:
            expected = "a non-empty vector (or a mapping) of finite numbers"
            raise refuse_argument(self.vector, "vector", "Multiplier", expected)
        values.flags.writeable = False
        vector: Any = values if items is None else dict(zip(items, values.tolist(), strict=True))
        object.__setattr__(self, "vector", vector)
        if self.name == "":
            content = values.tolist() if items is None else sorted(map(repr, vector.items()))
            digest = hashlib.sha256(repr(content).encode()).hexdigest()
            object.__setattr__(self, "name", f"multiplier {digest[:8]}")
        super().__post_init__()

    def __repr__(self) -> str:
        vector = self.vector if isinstance(self.vector, dict) else self.vector.tolist()
        return f"Multiplier({vector}, name={self.name!r})"

    def decide(self, instances: Instances, problem: Problem, layout: Layout) -> Picks:
        scale = self.per_item(instances)
        if layout.width is not None:
            return problem.pick(instances.prediction, layout, scale)
        with np.errstate(over="ignore"):  # solvers count infinity as the largest float
            weights = instances.prediction * scale[instances.item]
        return problem.pick(weights, layout)

    def per_item(self, instances: Instances) -> Floats:
        """The multiplier of every item code, shape (n_codes,)."""
        names = self.item_names(instances)
        if isinstance(names, range) and not isinstance(self.vector, dict):
            if len(names) != (n := len(self.vector)):
                words = f"has {count(n, 'multiplier')}, but the predictions have {len(names)} items"
                raise DataError(f"rule {self.name!r} {words}.")
            return self.vector  # type: ignore[no-any-return] # an array
        known = self._known()
        return np.asarray([known.get(name, 1.0) for name in names], dtype=np.float64)

    def check_training(self, instances: Instances) -> None:
        """Later data may offer new items, which are multiplied by one; in training it is a typo."""
        names = self.item_names(instances)
        if not isinstance(names, range) or isinstance(self.vector, dict):
            for name in names:
                if name not in self._known():
                    raise DataError(f"rule {self.name!r} has no multiplier for item {name!r}.")

    def _known(self) -> dict[Any, float]:
        return self.vector if isinstance(self.vector, dict) else dict(enumerate(self.vector))


@dataclass(frozen=True)
class _Written(Rule):
    """A rule that is a SQL expression or a function of the caller's."""

    chooses: ClassVar[bool] = False
    name: str
    function: Callable[[View], ArrayLike] | str

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.function, str):
            try:
                _sql().read(self.function)
            except ArgumentError as error:
                raise ArgumentError(f"rule {self.name!r}: {error}") from None
        elif not callable(self.function):
            expected = "a SQL expression or a function of one View"
            raise refuse_argument(self.function, "function", type(self).__name__, expected)

    def check_training(self, instances: Instances) -> None:
        if isinstance(self.function, str):
            _sql().check_types(self.function, self.name, instances, chooses=self.chooses)

    def _values(self, instances: Instances) -> NDArray[Any]:
        """The weights or choices, one per item on offer."""
        if isinstance(self.function, str):
            found = _sql().values(self.function, self.name, instances, chooses=self.chooses)
            return np.asarray(found)
        try:
            answer: Any = self.function(instances.view())
        except Exception as error:
            error.add_note(f"raised inside rule {self.name!r}")
            raise
        noun, kinds = ("booleans", "b") if self.chooses else ("weights", "bfiu")
        flat, words = None, "rows of several lengths"
        with suppress(ValueError):
            answer = np.asarray(answer)
            words = f"{answer.dtype} of shape {answer.shape}"
            flat = instances.origin.gather(answer) if answer.dtype.kind in kinds else None
        if flat is None:
            shape = instances.view().predictions.shape
            raise DataError(
                f"rule {self.name!r} returned {words}. "
                f"It must return {noun} of shape {shape}, like the predictions it was given."
            )
        outside = instances.origin.outside(answer) if self.chooses else None
        if outside is not None:
            raise DataError(
                f"rule {self.name!r} chose item {outside[1]} of {instances.where(outside[0])}, "
                "which is not on offer. A rule must return a feasible set for every instance."
            )
        return np.ascontiguousarray(flat, dtype=bool if self.chooses else np.float64)


@dataclass(frozen=True)
class Reweight(_Written):
    """Give items new weights, then optimise.

    Parameters
    ----------
    name : str
    function : str or function
        A SQL expression over the columns, one row per item: those of the table, or for arrays
        ``item`` and the columns they carry; ``prediction`` is the prediction. Or
        ``function(view) -> weights`` in the shape of ``view.predictions``; for arrays also (1, m)
        or (n, 1). The ``View`` has the columns too, ``view["pickup_km"]``. It is called on
        blocks of instances, so it must decide every instance from that instance alone.

    Examples
    --------
    >>> rule = Reweight("no long pickups", "CASE WHEN km > 3 THEN 0 ELSE prediction END")
    >>> rule = Reweight("no long pickups", lambda view: view.predictions * (view["km"] <= 3))
    """

    def decide(self, instances: Instances, problem: Problem, layout: Layout) -> Picks:
        flat = self._values(instances)
        bad = np.flatnonzero(~np.isfinite(flat))
        if len(bad):
            words = f"rule {self.name!r} gave the weight"
            rest = ". Weights must be finite."
            raise instances.fault(lambda i: f"{words} {flat[i]}", rest, bad)
        return problem.pick_on_threads(flat, layout)


@dataclass(frozen=True)
class Choose(_Written):
    """Take a decision directly; it is checked for feasibility.

    Parameters
    ----------
    name : str
    function : str or function
        As for ``Reweight``, but true where an item is chosen.

    Examples
    --------
    >>> rule = Choose("always the second", "item = 1")
    >>> rule = Choose("always the second", lambda view: view["item"] == 1)
    """

    chooses = True

    def decide(self, instances: Instances, problem: Problem, layout: Layout) -> Picks:
        marks = self._values(instances)
        _check_feasible(self, problem.feasible(marks, layout), marks, instances, problem)
        return to_picks(marks, layout)


@dataclass(frozen=True)
class Fixed(Rule):
    """Always choose this one item; decide as the plain optimiser where it is not on offer.

    Parameters
    ----------
    item : the column of an array, or a name in a table's item column
    """

    item: Any
    name: str = ""

    def __post_init__(self) -> None:
        if self.name == "":
            object.__setattr__(self, "name", f"always {self.item}")
        super().__post_init__()

    def decide(self, instances: Instances, problem: Problem, layout: Layout) -> Picks:
        marks = self._marks(instances)
        offered = np.add.reduceat(marks, layout.offsets[:-1], dtype=np.int64) == 1
        picks = problem.pick_on_threads(instances.prediction, layout)
        feasible = problem.feasible(marks, layout) | ~offered
        _check_feasible(self, feasible, marks, instances, problem)
        picks[offered] = to_picks(marks, layout)[offered]
        return picks

    def check_training(self, instances: Instances) -> None:
        if not self._marks(instances).any():
            raise DataError(
                f"no instance offers item {self.item!r} of rule {self.name!r}: is it spelt right?"
            )

    def _marks(self, instances: Instances) -> Booleans:
        names = self.item_names(instances)
        if isinstance(names, range):
            is_number = not isinstance(self.item, bool | np.bool_)  # though True equals 1
            if not (is_number and self.item in names):
                raise DataError(
                    f"rule {self.name!r} names item {self.item!r}, but the items are numbered "
                    f"from 0 to {len(names) - 1}."
                )
        code = names.index(self.item) if self.item in names else -1
        return np.asarray(instances.item == code)


def multipliers(
    n_items: int,
    levels: Sequence[float] = LEVELS,
    limit: int = LIMIT,
    seed: int = 0,
) -> tuple[Multiplier, ...]:
    """The paper's rules (section 5): all vectors of multipliers on a grid, or a sample of them.

    The whole grid ``levels ** n_items`` if it has at most ``limit`` points, else ``limit`` points
    drawn uniformly. Without the all-zero vector, and without two that are multiples of each other,
    since those decide the same.

    Examples
    --------
    >>> [rule.vector.tolist() for rule in multipliers(2, levels=(0, 1))]
    [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    """
    owner = "multipliers"
    check_size(n_items, "n_items", owner)
    n_items = int(n_items)
    limit = check_integer(limit, "limit", owner)
    check_integer(seed, "seed", owner, 0)
    try:
        grid = np.asarray(levels, dtype=np.float64)
    except (TypeError, ValueError):
        grid = np.empty(0)
    good = grid.ndim == 1 and np.isfinite(grid).all() and (grid >= 0).all() and (grid > 0).any()
    if not good or len(np.unique(grid)) != len(grid):
        raise refuse_argument(levels, "levels", owner, "distinct finite numbers from 0, not only 0")
    kept: dict[bytes, Floats] = {}
    if n_items * np.log(len(grid)) <= np.log(limit) + 1e-9:
        _keep_new(np.array(list(product(grid, repeat=n_items))), kept)
    else:
        generator = np.random.default_rng(seed)
        for _ in range(100):  # a grid may have fewer directions than the limit
            _keep_new(grid[generator.integers(len(grid), size=(limit, n_items))], kept)
            if len(kept) >= limit:
                break
    vectors = list(kept.values())[:limit]
    return tuple(Multiplier(vector, f"multiplier {i}") for i, vector in enumerate(vectors))


def _keep_new(vectors: Floats, kept: dict[bytes, Floats]) -> None:
    """Add the first vector of every new direction; 2**-40 is far below the spacing of any grid."""
    vectors = vectors[vectors.max(axis=1) > 0]
    directions = np.rint(vectors / vectors.max(axis=1, keepdims=True) * 2.0**40)
    for key, vector in zip(directions, vectors, strict=True):
        kept.setdefault(key.tobytes(), vector)


def check_rules(rules: Any, owner: str) -> tuple[Rule, ...]:
    """The rules as a tuple; an error unless they are a sequence of rules with distinct names."""
    if isinstance(rules, Rule) or not isinstance(rules, Sequence) or not len(rules):
        raise refuse_argument(rules, "rules", owner, "a non-empty sequence of rules")
    names: set[str] = set()
    for rule in rules:
        if not isinstance(rule, Rule):
            raise refuse_argument(rule, "rules", owner, "a sequence of rules")
        if rule.name == OWN_TEST:
            raise ArgumentError(
                f"A rule of {owner} has the name {OWN_TEST!r}, which the history and the "
                "certificate use for the optimiser's own test. Give it another name."
            )
        if rule.name in names:
            raise ArgumentError(
                f"Two rules of {owner} have the name {rule.name!r}. Names must be distinct: the "
                "history and the certificate refer to rules by name."
            )
        names.add(rule.name)
    return tuple(rules)


def to_picks(marks: Booleans, layout: Layout) -> Picks:
    """Flat marks of feasible sets as positions."""
    picks = layout.new_picks()
    flat = np.flatnonzero(marks)
    owner = np.searchsorted(layout.offsets, flat, side="right") - 1
    rank = np.arange(len(flat)) - np.searchsorted(owner, owner)
    picks[owner, rank] = flat - layout.offsets[owner]
    return picks


def _check_feasible(
    rule: Rule, feasible: Booleans, marks: Booleans, instances: Instances, problem: Problem
) -> None:
    bad = np.flatnonzero(~feasible)
    if len(bad):
        start, stop = instances.offsets[bad[0]], instances.offsets[bad[0] + 1]
        chosen = start + np.flatnonzero(marks[start:stop])
        words = f"not feasible for {type(problem).__name__}"
        rest = "A rule must return a feasible set for every instance."
        if problem.exactly_one:
            rest = (
                "A rule that chooses must choose exactly one item of every instance. "
                "To keep items from being chosen, give them a lower weight instead."
            )
        raise DataError(
            f"rule {rule.name!r} chose {instances.name_items(chosen)} of "
            f"{instances.where(int(bad[0]))}, which is {words}. {rest}",
            instances.faults(bad, f"the choice of rule {rule.name!r} is {words}"),
        )


def _sql() -> Any:
    from outrule.rules import sql  # imports Polars

    return sql
