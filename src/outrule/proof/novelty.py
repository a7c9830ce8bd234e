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
BY_CHANCE = 1e-4  # at the largest chance that the sketch allows, so in truth it is far less
IN_MANY = 1e-9  # of many batches none should be refused by chance
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
    ``luck`` the probability that so many come by chance.
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
Counts = tuple[int, int, int, int] | None
"""How many instances are compared with a sketch, and are in it; and the same of different ones."""


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
    facts = _compare_all(model.seen, hash_them(), cluster)
    refuse(facts)
    return facts


def check_batch(model: Model, instances: Instances) -> None:
    """Raise where most instances are copies, of training or of each other, and not by chance."""
    if model.seen is not None:
        facts = _compare_all(model.seen, hash_all(instances), instances.cluster)
        refuse(facts, 0.5, IN_MANY, "Watch needs later ones.")


def _compare_all(seen: Seen, hashes: Sequence[Hashes | None], cluster: Integers | None) -> Facts:
    found = [_compare(*pair) for pair in zip(seen, hashes, strict=True)]
    assert hashes[1] is not None
    return facts_of(seen, found, _count_copies(hashes[1], cluster), len(hashes[1]))


def _compare(sketch: Sketch | None, hashes: Hashes | None) -> Counts:
    if sketch is None or hashes is None:
        return None
    sample = hashes[hashes <= np.uint64(sketch.limit)]
    found, different = np.isin(sample, sketch.hashes), np.unique(sample, return_index=True)[1]
    counts = len(sample), int(found.sum()), len(different), int(found[different].sum())
    return counts if len(sample) else None


def facts_of(seen: Seen, found: Sequence[Counts], n_copies: int, n: int) -> Facts:
    """The shares among n instances, from what was counted."""
    predictions, contents = (
        None if counts is None else share_seen(counts, sketch, n_copies, n)
        for counts, sketch in zip(found[:2], seen[:2], strict=True)
    )
    pairs, of = pairs_in(seen.contents)
    names = None if found[2] is None else Share(found[2][1] / found[2][0])
    named = None
    if names is not None and found[3] is not None:  # names may start anew
        n_named, same, *_ = found[3]
        chance = names.found * min(1.0, pairs / of)
        error = 4 * math.sqrt(chance * (1 - chance) / n_named)
        named = Share(same / n_named, chance, error, 3 / of)
        luck = luck_of(n_named, same, named.likely + names.found * unsampled(seen.contents) ** 2)
        named = named._replace(luck=luck)
    return Facts(predictions, contents, names, named, share_copied(seen, n_copies, n))


def share_seen(compared: tuple[int, int, int, int], sketch: Sketch, n_copies: int, n: int) -> Share:
    """The share that was seen; by chance, it is the share of those seen that have a twin."""
    n_compared, found, n_different, again = compared
    counts, total = sketch.counts, int(sketch.counts.sum())
    twins = int(counts[counts > 1].sum())
    pooled = (found + twins) / (n_compared + total)
    crowd = float((counts**2).sum()) / total  # twins come together, so they tell less
    error = 4 * math.sqrt(pooled * (1 - pooled) * crowd * (1 / n_compared + 1 / total))
    # A common content may come often, so different ones are tested. What has few copies among
    # training instances, and among these, has few in both.
    high = 2 * at_most((twins + n_copies) / 2) / (total + n * min(1.0, n / sketch.n))
    luck = luck_of(n_different, again, high)
    return Share(found / n_compared, twins / total, error, 3 / total, luck)


def luck_of(n: int, found: int, chance: float) -> float:
    """The probability that chance finds at least so many of n."""
    from scipy.special import bdtrc  # slow to import, needed only here

    return float(bdtrc(found - 1, n, min(1.0, chance)))


def at_most(pairs: float) -> float:
    """How many pairs can have been expected where so many were found: by four standard errors."""
    return pairs + 4 * math.sqrt(pairs) + 4


def share_copied(seen: Seen, n_copies: int, n: int) -> Share:
    """The share of n instances that are copies of others among them."""
    pairs, of = pairs_in(seen.contents)
    # By chance at most: the number of others, times the chance that two are the same.
    chance, high = (min(1.0, (n - 1) * p / of) for p in (pairs, at_most(pairs)))
    # Bernstein's inequality: copies come in pairs at least, so that few instances tell little.
    error = high - chance + 4 * math.sqrt((high + SMALL) / n) + 11 / n + unsampled(seen.contents)
    return Share(n_copies / n, chance, error, 3 * (n - 1) / of)


def pairs_in(sketch: Sketch) -> tuple[float, float]:
    """How many pairs of training instances are the same, and how many pairs there are."""
    part = (sketch.limit + 1) / (ALL + 1)
    pairs = int((sketch.counts * (sketch.counts - 1)).sum()) / 2
    return pairs, max(1.0, part * sketch.n * (sketch.n - 1) / 2)


def unsampled(sketch: Sketch) -> float:
    """The share of training instances that can be copies of common ones outside the sketch."""
    kept, part = len(sketch.hashes), (sketch.limit + 1) / (ALL + 1)
    different = kept / part
    error = 4 * different / math.sqrt(kept) if part < 1 else 0.0
    copies = sketch.n - int(sketch.counts.sum()) - (different - kept)
    return max(0.0, copies + error) / sketch.n


def _count_copies(contents: Hashes, cluster: Integers | None) -> int:
    """How many instances have the content of another observation."""
    unit = np.arange(len(contents)) if cluster is None else cluster
    pairs = mix(contents) ^ mix(unit.astype(np.uint64))
    one_per_unit = contents[np.unique(pairs, return_index=True)[1]]
    found, counts = np.unique(one_per_unit, return_counts=True)
    return int(np.isin(contents, found[counts > 1]).sum())


def refuse(
    facts: Facts, least: float = 0.0, luck: float = BY_CHANCE, remedy: str = HELD_OUT
) -> None:
    """Raise where more than ``least`` are not new, or not separate, and it is not by chance."""
    for what, share, part in _kinds(facts):
        more = share.found - share.chance
        surely = share.found > least and more > SMALL and share.luck < luck
        # Where predictions or names come again with other outcomes too, it is no leak.
        if surely and more + share.error >= 0.9 * (part.found - part.chance):
            raise DataError(
                f"fit has seen {_percent(share.found)} of these instances (the same {what}; by "
                f"chance it would be {_percent(share.chance)}). {remedy}"
            )
    found, chance, error, *_ = facts.copies
    if found > max(least, chance + SMALL + error):
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
