"""Rules, what people decide by today: instances enter, decisions leave."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outrule.data.instances import Instances
from outrule.data.view import View
from outrule.errors import ArgumentError, DataError, check_number, refuse_argument
from outrule.problems.contract import Layout, Problem
from outrule.types import Booleans, Floats, Picks


class Rule(ABC):
    """A way to decide from the original predictions and any other columns, instance by instance."""

    name: str

    @abstractmethod
    def decide(self, instances: Instances, problem: Problem, layout: Layout) -> Picks:
        """The rule's decision for every instance."""

    def check_training(self, instances: Instances) -> None:  # noqa: B027 - few rules need it
        """Refuse training data on which the rule can only be a mistake."""


@dataclass(frozen=True, eq=False)
class Multiplier(Rule):
    """Multiply every item's prediction by a number of its own, then optimise (paper, section 5).

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
        is_mapping = isinstance(self.vector, Mapping)
        try:
            values = np.array(list(self.vector.values()) if is_mapping else self.vector, np.float64)
            good = values.ndim == 1 and len(values) > 0 and bool(np.isfinite(values).all())
        except (TypeError, ValueError, OverflowError):
            good = False
        if not good:
            expected = "a non-empty vector (or a mapping) of finite numbers"
            raise refuse_argument(self.vector, "vector", "Multiplier", expected)
        values.flags.writeable = False
        if is_mapping:
            object.__setattr__(self, "vector", dict(zip(self.vector, values.tolist(), strict=True)))
        else:
            object.__setattr__(self, "vector", values)
        if self.name == "":
            key = repr(
                sorted(map(repr, self.vector.items())) if is_mapping else self.vector.tolist()
            )
            name = f"multiplier {hashlib.sha256(key.encode()).hexdigest()[:8]}"
            object.__setattr__(self, "name", name)
        _check_name(self)

    def __repr__(self) -> str:
        vector = self.vector if isinstance(self.vector, dict) else self.vector.tolist()
        return f"Multiplier({vector}, name={self.name!r})"

    def decide(self, instances: Instances, problem: Problem, layout: Layout) -> Picks:
        scale = self.per_item(instances)
        if layout.width is not None:
            return problem.pick(instances.prediction, layout, scale)
        return problem.pick(instances.prediction * scale[instances.item], layout)

    def per_item(self, instances: Instances) -> Floats:
        """The multiplier of every item code, shape (n_codes,)."""
        names = instances.names_of_items
        if names is None:
            raise DataError(
                f"rule {self.name!r} multiplies items: name the item column with item=."
            )
        if isinstance(names, range) and not isinstance(self.vector, dict):
            if len(names) != len(self.vector):
                raise DataError(
                    f"rule {self.name!r} has {len(self.vector)} multipliers, "
                    f"but the predictions have {len(names)} items."
                )
            return self.vector  # type: ignore[no-any-return] # made an array above
        known = self.vector if isinstance(self.vector, dict) else dict(enumerate(self.vector))
        for name in names:
            if name not in known:
                raise DataError(f"rule {self.name!r} has no multiplier for item {name!r}.")
        return np.asarray([known[name] for name in names], dtype=np.float64)


@dataclass(frozen=True)
class Reweight(Rule):
    """Give items new weights, then optimise.

    Parameters
    ----------
    name : str
    function : str or function
        A SQL expression over the columns, one row per item: a table's own, or for arrays ``item``
        and the columns they carry; ``prediction`` is the prediction. Or
        ``function(view) -> weights`` in the shape of ``view.predictions``; for arrays also (1, m)
        or (n, 1). The :class:`View` has the columns too, ``view["pickup_km"]``. It is called on
        blocks of instances, so it must decide every instance on its own.

    Examples
    --------
    >>> rule = Reweight("no long pickups", "CASE WHEN km > 3 THEN 0 ELSE prediction END")
    >>> rule = Reweight("no long pickups", lambda view: view.predictions * (view["km"] <= 3))
    """

    name: str
    function: Callable[[View], ArrayLike] | str

    def __post_init__(self) -> None:
        _check_name(self)
        _check_function(self)

    def check_training(self, instances: Instances) -> None:
        if isinstance(self.function, str):
            from outrule.rules import sql as expressions

            expressions.check_types(self.function, self.name, instances)

    def decide(self, instances: Instances, problem: Problem, layout: Layout) -> Picks:
        if isinstance(self.function, str):
            from outrule.rules import sql as expressions

            flat = expressions.weights(self.function, self.name, instances)
        else:
            _, weights = _answer(self, instances, "bfiu", "weights")
            flat = np.ascontiguousarray(weights, dtype=np.float64)
        bad = np.flatnonzero(~np.isfinite(flat))
        if len(bad):
            raise DataError(
                f"rule {self.name!r} gave the weight {flat[bad[0]]} at "
                f"{instances.where_flat(int(bad[0]))}. Weights must be finite."
            )
        return problem.pick_on_threads(flat, layout)


@dataclass(frozen=True)
class Choose(Rule):
    """Take a decision directly; it is checked for feasibility.

    Parameters
    ----------
    name : str
    function : str or function
        A SQL expression as for :class:`Reweight`, true where chosen; or
        ``function(view) -> booleans`` in the shape of ``view.predictions``, True where chosen; for
        arrays also (1, m) or (n, 1).

    Examples
    --------
    >>> rule = Choose("always the second", "item = 1")
    >>> rule = Choose("always the second", lambda view: view["item"] == 1)
    """

    name: str
    function: Callable[[View], ArrayLike] | str

    def __post_init__(self) -> None:
        _check_name(self)
        _check_function(self)

    def check_training(self, instances: Instances) -> None:
        if isinstance(self.function, str):
            from outrule.rules import sql as expressions

            expressions.check_types(self.function, self.name, instances, chooses=True)

    def decide(self, instances: Instances, problem: Problem, layout: Layout) -> Picks:
        marks = self._marks(instances)
        bad = np.flatnonzero(~problem.feasible(marks, layout))
        if len(bad):
            raise infeasible(self.name, marks, int(bad[0]), instances, problem)
        return to_picks(marks, layout)

    def _marks(self, instances: Instances) -> Booleans:
        if isinstance(self.function, str):
            from outrule.rules import sql as expressions

            return expressions.choice(self.function, self.name, instances)
        answer, flat = _answer(self, instances, "b", "booleans")
        outside = instances.origin.outside(answer)
        if outside is not None:
            raise DataError(
                f"rule {self.name!r} chose item {outside[1]} of {instances.where(outside[0])}, "
                "which is not on offer. A rule must return a feasible set for every instance."
            )
        return np.ascontiguousarray(flat)


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
        _check_name(self)

    def decide(self, instances: Instances, problem: Problem, layout: Layout) -> Picks:
        marks = self._marks(instances)
        offered = np.add.reduceat(marks, layout.offsets[:-1], dtype=np.int64) == 1
        picks = problem.pick_on_threads(instances.prediction, layout)
        bad = np.flatnonzero(offered & ~problem.feasible(marks, layout))
        if len(bad):
            raise infeasible(self.name, marks, int(bad[0]), instances, problem)
        picks[offered] = to_picks(marks, layout)[offered]
        return picks

    def check_training(self, instances: Instances) -> None:
        if not self._marks(instances).any():
            raise DataError(
                f"no instance offers item {self.item!r} of rule {self.name!r}: is it spelt right?"
            )

    def _marks(self, instances: Instances) -> Booleans:
        names = instances.names_of_items
        if names is None:
            raise DataError(f"rule {self.name!r} names an item: name the item column with item=.")
        if isinstance(names, range):
            is_number = not isinstance(self.item, bool | np.bool_)  # though True equals 1
            if not (is_number and self.item in names):
                raise DataError(f"rule {self.name!r} names item {self.item!r} of {len(names)}.")
        code = names.index(self.item) if self.item in names else -1
        return np.asarray(instances.item == code)


def multipliers(
    n_items: int,
    levels: Sequence[float] = (0.0, 0.25, 0.5, 0.75, 1.0),
    limit: int = 1024,
    seed: int = 0,
) -> tuple[Multiplier, ...]:
    """The paper's rules (section 5): all vectors of multipliers on a grid, or a sample of them.

    The whole grid ``levels ** n_items`` if it has at most ``limit`` points, else ``limit`` points
    drawn uniformly. Without the all-zero vector, and without two that are multiples of each other,
    since those decide alike.

    Examples
    --------
    >>> [rule.vector.tolist() for rule in multipliers(2, levels=(0, 1))]
    [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    """
    owner = "multipliers"
    n_items = int(check_number(n_items, "n_items", owner, 1, low_open=False, integer=True))
    limit = int(check_number(limit, "limit", owner, 1, low_open=False, integer=True))
    check_number(seed, "seed", owner, 0, low_open=False, integer=True)
    try:
        grid = np.asarray(levels, dtype=np.float64)
    except (TypeError, ValueError):
        grid = np.empty(0)
    good = grid.ndim == 1 and np.isfinite(grid).all() and (grid >= 0).all() and (grid > 0).any()
    if not good or len(np.unique(grid)) != len(grid):
        raise refuse_argument(levels, "levels", owner, "distinct finite numbers from 0, not only 0")
    if n_items * np.log(len(grid)) <= np.log(limit) + 1e-9:
        kept = _distinct(np.array(list(product(grid, repeat=n_items))), {})
    else:
        kept = _sample(grid, n_items, limit, np.random.default_rng(seed))
    return tuple(Multiplier(vector, f"multiplier {i}") for i, vector in enumerate(kept.values()))


def _sample(
    grid: Floats, n_items: int, limit: int, generator: np.random.Generator
) -> dict[bytes, Floats]:
    """Draw until there are enough directions, or a hundred times as many draws found no more."""
    kept: dict[bytes, Floats] = {}
    for _ in range(100):
        vectors = grid[generator.integers(len(grid), size=(limit, n_items))]
        kept = _distinct(vectors, kept)
        if len(kept) >= limit:
            break
    return dict(list(kept.items())[:limit])


def _distinct(vectors: Floats, kept: dict[bytes, Floats]) -> dict[bytes, Floats]:
    """Add the first vector of every new direction; 2**-40 is far below the spacing of any grid."""
    largest = vectors.max(axis=1, keepdims=True)
    vectors = vectors[largest[:, 0] > 0]
    directions = np.rint(vectors / largest[largest[:, 0] > 0] * 2.0**40)
    for key, vector in zip(directions, vectors, strict=True):
        kept.setdefault(key.tobytes(), vector)
    return kept


def check_rules(rules: Any, owner: str) -> tuple[Rule, ...]:
    """Refuse what is not a sequence of rules with distinct names."""
    if isinstance(rules, Rule) or not isinstance(rules, Sequence) or not len(rules):
        raise refuse_argument(rules, "rules", owner, "a non-empty sequence of rules")
    names: set[str] = set()
    for rule in rules:
        if not isinstance(rule, Rule):
            raise refuse_argument(rule, "rules", owner, "a sequence of rules")
        if rule.name in names:
            raise ArgumentError(
                f"Two rules of {owner} have the name {rule.name!r}. Names must be distinct: the "
                "history and the certificate speak of rules by name."
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


def infeasible(
    rule: str, marks: Booleans, instance: int, instances: Instances, problem: Problem
) -> DataError:
    """The error for a decision that is not one."""
    start, stop = instances.offsets[instance], instances.offsets[instance + 1]
    chosen = start + np.flatnonzero(marks[start:stop])
    return DataError(
        f"rule {rule!r} chose {instances.name_items(chosen)} of {instances.where(instance)}, "
        f"which is not feasible for {type(problem).__name__}. "
        "A rule must return a feasible set for every instance."
    )


def _check_name(rule: Rule) -> None:
    if not isinstance(rule.name, str) or not rule.name:
        raise refuse_argument(rule.name, "name", type(rule).__name__, "a non-empty str")


def _check_function(rule: Reweight | Choose) -> None:
    if isinstance(rule.function, str):
        from outrule.rules import sql as expressions

        try:
            expressions.read(rule.function)
        except ArgumentError as error:
            raise ArgumentError(f"rule {rule.name!r}: {error}") from None
    elif not callable(rule.function):
        owner, expected = type(rule).__name__, "a SQL expression or a function of one View"
        raise refuse_argument(rule.function, "function", owner, expected)


def _answer(
    rule: Reweight | Choose, instances: Instances, kinds: str, expected: str
) -> tuple[NDArray[Any], NDArray[Any]]:
    """What the rule answered, as an array and flat; refused where it has another shape or type."""
    try:
        answer: Any = rule.function(instances.view())  # type: ignore[operator] # no text here
    except Exception as error:
        error.add_note(f"raised inside rule {rule.name!r}")
        raise
    words = "rows of several lengths"
    try:
        array = np.asarray(answer)
        words = f"{array.dtype} of shape {array.shape}"
        if array.dtype.kind in kinds:
            return array, instances.origin.gather(array)
    except ValueError:
        pass
    shape = instances.view().predictions.shape
    raise DataError(
        f"rule {rule.name!r} returned {words}. "
        f"It must return {expected} of shape {shape}, like the predictions it was given."
    )
