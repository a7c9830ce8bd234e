"""Whether held-out instances are new to a model and each an observation, and what to say if not."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from outrule.data.instances import Instances
from outrule.data.origin import ArrayOrigin, TableOrigin
from outrule.data.sketch import ALL, Hashes, Seen, Sketch, hash_all, mix
from outrule.errors import DataError
from outrule.model.model import Model
from outrule.types import Floats, Integers

SMALL = 0.01  # a share that does no harm
BY_CHANCE = 1e-9  # of many batches none should be refused by chance
SURELY = 1e-3  # the probability below which chance is excluded in a certificate
AGAIN = 0.9  # where more predictions or names come again with other outcomes, it is no leak
MUCH = 0.2  # a share above that of chance that no error of its estimate explains
TILTS = np.linspace(0.0, 20.0, 201)  # at which Chernoff's bound is computed
HELD_OUT = (
    "A certificate needs held-out ones: drop those that were trained on, or split the data before "
    "fit."
)
FORGETFUL = (
    "The model file is of an older version, which does not remember the training instances one by "
    "one: make sure that these are others."
)
GROUP_WORDS = (
    *("account", "client", "customer", "date", "day", "driver", "household", "id", "patient"),
    *("person", "session", "shop", "store", "user", "visitor", "week"),
)
MANY_GROUPS = 20  # fewer are rather a property of the instances than a group of them
MUCH_ALIKE = 2.0  # the variance between groups, in units of what independent instances have


class Share(NamedTuple):
    """A share of the instances, what it would be by chance, and how far chance can be off.

    ``unseen`` is a chance so small that nothing of it would have been seen in training, and
    ``luck`` is the probability that so much is found by chance, where that can be tested.
    """

    found: float
    chance: float = 0.0
    error: float = 0.0
    unseen: float = 0.0
    luck: float = 0.0

    @property
    def likely(self) -> float:
        """A share that can be chance."""
        return min(1.0, 2 * self.chance + self.unseen)

    @property
    def noteworthy(self) -> bool:
        return self.found > self.likely

    @property
    def rare(self) -> bool:
        """Whether there are any, though hardly any would come by chance."""
        return self.found > 0 and self.chance <= SMALL


class Facts(NamedTuple):
    """How many held-out instances are not new, or not separate; None where none is compared."""

    predictions: Share | None
    contents: Share | None
    names: Share | None
    named_contents: Share | None
    copies: Share


Groups = tuple[tuple[str, int], ...]
"""Columns that may be clusters, with the number of their values."""
Counts = tuple[int, int] | None
"""How many instances are compared with a sketch, and are in it."""


class Spread(NamedTuple):
    """How contents of several instances are spread over training and held-out data.

    Were both drawn from one world, each instance of a content would be a held-out one with the
    probability ``part``, however common the content is.
    """

    sizes: Integers  # by how many instances, of both together, have a content
    numbers: Integers  # of contents, for every size
    part: float
    shared: int  # contents that occur in both
    copied: int  # contents of several held-out instances, and of at most one in training

    def luck_of_shared(self) -> float:
        """The probability that so many are shared."""
        return self._luck(1 - self.part**self.sizes - (1 - self.part) ** self.sizes, self.shared)

    def luck_of_copied(self) -> float:
        """The probability that so many are copied."""
        all_here = self.part**self.sizes
        but_one = self.sizes * self.part ** (self.sizes - 1) * (1 - self.part)
        return self._luck(all_here + np.where(self.sizes > 2, but_one, 0.0), self.copied)

    def _luck(self, chance: Any, found: int) -> float:
        """Chernoff's bound on the probability of at least so many."""
        grown = np.log1p(np.clip(chance, 0, 1) * np.expm1(TILTS)[:, None])
        return float(np.exp((grown @ self.numbers - TILTS * found).min()))


def check_new(model: Model, instances: Instances) -> Facts | None:
    """Compare with what fit has seen; an error where the instances cannot prove anything.

    None if the model does not remember its instances.
    """
    return compare_with(
        model, instances.fingerprint, lambda: hash_all(instances), instances.cluster
    )


def compare_with(
    model: Model,
    fingerprint: str,
    hash_them: Callable[[], Sequence[Hashes | None]],
    cluster: Integers | None,
) -> Facts | None:
    """The same from the fingerprint and the hashes of instances: see ``hash_all``."""
    if fingerprint in model.fingerprints:
        raise DataError(f"these are the instances that fit has seen. {HELD_OUT}")
    if model.seen is None:
        return None
    hashes = hash_them()
    found = [_compare(*pair) for pair in zip(model.seen, hashes, strict=True)]
    assert hashes[1] is not None
    copies = _count_copies(hashes[1], cluster)
    spread = _spread(model.seen.contents, hashes[1], cluster)
    facts = facts_of(model.seen, found, copies, len(hashes[1]), spread)
    refuse(facts)
    return facts


def _compare(sketch: Sketch | None, hashes: Hashes | None) -> Counts:
    if sketch is None or hashes is None:
        return None
    sample = hashes[hashes <= np.uint64(sketch.limit)]
    return (len(sample), int(np.isin(sample, sketch.hashes).sum())) if len(sample) else None


def facts_of(seen: Seen, found: Sequence[Counts], n_copies: int, n: int, spread: Spread) -> Facts:
    """The shares among n instances, from what was counted."""
    predictions = None if found[0] is None else share_seen(*found[0], seen.predictions)
    contents = None
    if found[1] is not None:
        luck = min(spread.luck_of_shared(), spread.luck_of_copied())
        contents = share_seen(*found[1], seen.contents)._replace(luck=luck)
    pairs, of = pairs_in(seen.contents)
    names = None if found[2] is None else Share(found[2][1] / found[2][0])
    named = None
    if names is not None and found[3] is not None:  # names may start anew
        chance = names.found * min(1.0, pairs / of)
        error = 4 * math.sqrt(chance * (1 - chance) / found[3][0])
        named = Share(found[3][1] / found[3][0], chance, error, 3 / of)
    copies = share_copied(seen, n_copies, n)._replace(luck=spread.luck_of_copied())
    return Facts(predictions, contents, names, named, copies)


def share_seen(n: int, found: int, sketch: Sketch) -> Share:
    """The share that was seen; by chance, it is the share of those seen that have a twin."""
    counts, total = sketch.counts, int(sketch.counts.sum())
    twins = int(counts[counts > 1].sum())
    pooled = (found + twins) / (n + total)
    crowd = float((counts**2).sum()) / total  # twins come together, so they tell less
    error = 4 * math.sqrt(pooled * (1 - pooled) * crowd * (1 / n + 1 / total))
    return Share(found / n, twins / total, min(error, MUCH), 3 / total)


def share_copied(seen: Seen, n_copies: int, n: int) -> Share:
    """The share of n instances that are copies of others among them."""
    pairs, of = pairs_in(seen.contents)
    # By chance at most: the number of others, times the chance that two are the same.
    chance, high = (min(1.0, (n - 1) * p / of) for p in (pairs, pairs + 4 * math.sqrt(pairs) + 4))
    # Bernstein's inequality: copies come in pairs at least, so that few instances tell little.
    error = high - chance + 4 * math.sqrt((high + SMALL) / n) + 11 / n
    return Share(n_copies / n, chance, error, 3 * (n - 1) / of)


def pairs_in(sketch: Sketch) -> tuple[float, float]:
    """How many pairs of training instances are the same, and how many pairs there are."""
    part = (sketch.limit + 1) / (ALL + 1)
    pairs = int((sketch.counts * (sketch.counts - 1)).sum()) / 2
    return pairs, max(1.0, part * sketch.n * (sketch.n - 1) / 2)


def _count_copies(contents: Hashes, cluster: Integers | None) -> int:
    """How many instances have the content of another observation."""
    found, counts = np.unique(_one_per_unit(contents, cluster), return_counts=True)
    return int(np.isin(contents, found[counts > 1]).sum())


def _one_per_unit(contents: Hashes, cluster: Integers | None) -> Hashes:
    """Without those that come again in their own cluster."""
    if cluster is None:
        return contents
    pairs = mix(contents) ^ mix(cluster.astype(np.uint64))
    return contents[np.unique(pairs, return_index=True)[1]]


def _spread(sketch: Sketch, contents: Hashes, cluster: Integers | None) -> Spread:
    """How contents, as far as the sketch would know them, are spread over training and these."""
    contents = _one_per_unit(contents, cluster)
    sample = contents[contents <= np.uint64(sketch.limit)]
    found, place = np.unique(np.concatenate((sketch.hashes, sample)), return_inverse=True)
    here = np.bincount(place[len(sketch.hashes) :], minlength=len(found))
    there = np.zeros(len(found), dtype=np.int64)
    there[place[: len(sketch.hashes)]] = sketch.counts
    together = here + there
    sizes, numbers = np.unique(together[together > 1], return_counts=True)
    part = len(contents) / (len(contents) + sketch.n)
    shared, copied = (here > 0) & (there > 0), (here > 1) & (there < 2)
    return Spread(sizes, numbers, part, int(shared.sum()), int(copied.sum()))


def refuse(facts: Facts) -> None:
    """Raise where more instances are not new, or not separate, than chance explains."""
    for what, share, part in _kinds(facts):
        more = share.found - share.chance
        surely = more > SMALL + share.error and share.luck < SURELY
        if surely and more + share.error >= AGAIN * (part.found - part.chance):
            raise DataError(
                f"fit has seen {_percent(share.found)} of these instances (the same {what}; by "
                f"chance it would be {_percent(share.chance)}). {HELD_OUT}"
            )
    refuse_copies(facts.copies)


def check_batch(model: Model, instances: Instances) -> None:
    """Raise where most instances are copies, of training or of each other, and not by chance."""
    if model.seen is None:
        return
    from scipy.special import bdtrc  # slow to import, needed only here

    predictions, contents, *_ = hash_all(instances)
    # Different ones, for a common one may come often.
    sampled, found = _compare(model.seen.contents, np.unique(contents)) or (0, 0)
    of, known = _compare(model.seen.predictions, np.unique(predictions)) or (1, 0)
    if 2 * found > sampled and found / sampled >= AGAIN * known / of:
        share = share_seen(sampled, found, model.seen.contents)
        if bdtrc(found - 1, sampled, share.likely) < BY_CHANCE:
            raise DataError(
                f"fit has seen {_percent(share.found)} of these instances (the same predictions "
                f"and outcomes; by chance it would be {_percent(share.chance)}). Watch needs later "
                "ones."
            )
    n_copies = _count_copies(contents, instances.cluster)
    if 2 * n_copies > len(contents):
        refuse_copies(share_copied(model.seen, n_copies, len(contents)))


def refuse_copies(copies: Share) -> None:
    """Raise where there are more copies than chance explains."""
    found, chance, error, _, luck = copies
    if found > chance + SMALL + error and luck < SURELY:
        raise DataError(
            f"{_percent(found)} of these instances are copies of others (the same predictions and "
            f"outcomes; by chance it would be {_percent(chance)}), and would count as separate "
            "observations. Drop the copies, or name the column that they share as cluster."
        )


def notes_of(facts: Facts | None, groups: Groups, unit: str) -> tuple[str, ...]:
    """What to mind of instances that are not refused."""
    notes = [] if facts is not None else [FORGETFUL]
    for what, share, _ in () if facts is None else _kinds(facts):
        found = f"{_percent(share.found)} of these instances (the same {what}"
        if share.noteworthy:
            chance = f"by chance it would be {_percent(share.chance)}"
            notes.append(f"Fit has seen {found}; {chance}).")
        elif share.rare:
            chance = f"up to {_percent(share.likely)} can be chance"
            notes.append(f"Fit may have seen {found}; {chance}).")
    if facts is not None and facts.copies.noteworthy:
        copies = f"{_percent(facts.copies.found)} of these instances are copies of others"
        notes.append(f"{copies}; each counts as a separate {unit}.")
    notes.extend(group_note(name, number) for name, number in groups)
    return tuple(notes)


def group_note(name: str, number: int) -> str:
    """What to mind of a column that looks like a cluster."""
    return (
        f"Column {name!r} has {number:,} different values, which instances share. If instances "
        "with the same value depend on each other, the bounds are too narrow: name it as cluster."
    )


def _kinds(facts: Facts) -> Iterator[tuple[str, Share, Share]]:
    """What is the same, the share of instances that have it, and that of its part."""
    for what, share, part in (
        ("predictions and outcomes", facts.contents, facts.predictions),
        ("name, predictions and outcomes", facts.named_contents, facts.names),
    ):
        if share is not None:
            yield what, share, part or Share(0.0)


def find_groups(instances: Instances, difference: Floats) -> Groups:
    """Columns by which instances may depend on each other, though none is named as cluster.

    ``difference`` is that of two decisions, per instance.
    """
    found = []
    for name, codes in _columns(instances) if instances.cluster is None else ():
        sizes = np.bincount(codes)
        if not 1 < len(sizes) < len(codes):
            continue
        sums = np.bincount(codes, weights=difference)
        explained, squares = float((sums**2 / sizes).sum()), float((difference**2).sum())
        between = explained - float(difference.sum()) ** 2 / len(codes)
        if is_group(name, len(sizes), len(codes), between, squares - explained, squares):
            found.append((name, len(sizes)))
    return tuple(found)


def is_group(name: str, groups: int, n: int, between: float, within: float, squares: float) -> bool:
    """By its name, or because differences are alike in a group: an analysis of their variance.

    Few values need both: a part of the day is no group of instances, and a day of the week seldom.
    """
    named, many = named_like_a_group(name), groups >= MANY_GROUPS
    if named and many:
        return True
    if not (named or many) or between <= 1e-9 * squares:  # all are equal but for rounding
        return False
    ratio = between / (groups - 1) / (max(within, 1e-9 * squares) / (n - groups))
    return ratio > MUCH_ALIKE * (1 + 4 * math.sqrt(2 / (groups - 1)))


def named_like_a_group(name: str) -> bool:
    """Whether a word of the name, as in day or customer_id, says that instances belong together."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return any(word.lower() in GROUP_WORDS for word in words)


def _columns(instances: Instances) -> Iterator[tuple[str, Integers]]:
    """The other columns that have one value per instance, as codes; a flag is no group."""
    origin = instances.origin
    if isinstance(origin, ArrayOrigin):
        for name, column in origin.columns.items():
            if column.ndim == 1 and column.dtype != bool:
                yield name, _codes(column.tolist())
    elif isinstance(origin, TableOrigin):
        roles = set(vars(origin.names).values())
        for name, values in constant_columns(instances, roles):
            if str(values.dtype) != "Boolean":
                yield name, _codes(values.to_list())


def constant_columns(
    instances: Instances, without: Container[Any] = ()
) -> Iterator[tuple[str, Any]]:
    """The columns of a table that have one value per instance, and a series of these values."""
    origin: Any = instances.origin
    for name in origin.frame.columns:
        column = origin.frame[name].alias("")  # a name like ^x$ would be taken for a pattern
        if name in without or str(column.dtype) == "Object" or column.dtype.is_nested():
            continue
        values = column.gather(instances.offsets[:-1])
        if column.eq_missing(values.gather(instances.instance)).all():
            yield name, values


def _codes(values: list[Any]) -> Integers:
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(as_text(value), len(numbers)) for value in values])


def as_text(value: Any) -> str:
    """The same for what is equal: -0.0 is 0.0."""
    return str(value + 0.0 if isinstance(value, float) else value)


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if 0 < share < 0.995 else f"{100 * share:.0f} %"
