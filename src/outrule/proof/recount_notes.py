"""The notes of a certificate, recomputed for the verification in plain Python."""

from __future__ import annotations

import struct
from collections import Counter, defaultdict
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np

from outrule.data.instances import Instances
from outrule.data.sketch import Sketch
from outrule.errors import DataError
from outrule.model.model import Model
from outrule.proof.contrast import OutcomeEnds
from outrule.proof.novelty import (
    Counts,
    Groups,
    Spread,
    as_text,
    facts_of,
    is_group,
    notes_of,
    refuse,
)
from outrule.proof.recount_bets import hashed
from outrule.types import Floats


def recount_notes(
    model: Model, instances: Instances, difference: Floats, unit: str
) -> tuple[str, ...]:
    """What a certificate must say of its data; DataError where it could not be made."""
    if instances.fingerprint in model.fingerprints:
        raise DataError("fit has seen these instances, so they prove nothing.")
    OutcomeEnds().including(instances.require_observed("verify")).check(model.problem)
    groups = _groups(instances, difference.tolist())
    if model.seen is None:
        return notes_of(None, groups, unit)
    hashes = _hashes(instances)
    found: list[Counts] = []
    for sketch, mine in zip(model.seen, hashes, strict=True):
        known = set() if sketch is None else set(sketch.hashes.tolist())
        compared = [one for one in mine if sketch is not None and one <= sketch.limit]
        found.append((len(compared), sum(one in known for one in compared)) if compared else None)
    owners = _count_owners(hashes[1], instances)
    copies = sum(owners[content] > 1 for content in hashes[1])
    facts = facts_of(
        model.seen, found, copies, len(instances), _spread(model.seen.contents, owners)
    )
    refuse(facts)
    return notes_of(facts, groups, unit)


def _text(name: Any) -> int:
    digest = blake2b(str(name).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _hashes(instances: Instances) -> list[list[int]]:
    """Of predictions, contents, names and named contents, one per instance; arrays lack names."""
    totals = [[0] * len(instances) for _ in range(2)]
    names, items = instances.names_of_items, instances.item
    keys = {code: _text(name) for code, name in enumerate(names)} if type(names) is tuple else {}
    codes = [0] * len(instances.prediction) if items is None else items.tolist()
    columns = (instances.prediction.tolist(), instances.require_observed("verify").tolist())
    for i, item, *numbers in zip(instances.instance.tolist(), codes, *columns, strict=True):
        key = keys.get(item, item)
        for total, number in zip(totals, numbers, strict=True):
            key = hashed(key) ^ int.from_bytes(struct.pack("<d", number + 0.0), "little")
            total[i] = (total[i] + hashed(key)) % 2**64
    found = [[hashed(number) for number in total] for total in totals]
    labels = getattr(instances.origin, "labels", None)
    if labels is None:
        return [*found, [], []]
    words = [_text(label) for label in labels.to_list()]
    return [*found, words, [hashed(a ^ b) for a, b in zip(words, found[1], strict=True)]]


def _count_owners(contents: list[int], instances: Instances) -> dict[int, int]:
    """How many observations have a content."""
    cluster = instances.cluster
    units = list(range(len(contents))) if cluster is None else cluster.tolist()
    owners = defaultdict(set)
    for content, unit in zip(contents, units, strict=True):
        owners[content].add(unit)
    return {content: len(units) for content, units in owners.items()}


def _spread(sketch: Sketch, owners: dict[int, int]) -> Spread:
    trained = dict(zip(sketch.hashes.tolist(), sketch.counts.tolist(), strict=True))
    here = {content: n for content, n in owners.items() if content <= sketch.limit}
    sizes = Counter(here.get(one, 0) + trained.get(one, 0) for one in {*here, *trained})
    several = sorted(size for size in sizes if size > 1)
    n = sum(owners.values())
    return Spread(
        np.array(several, dtype=np.int64),
        np.array([sizes[size] for size in several], dtype=np.int64),
        n / (n + sketch.n),
        sum(one in trained for one in here),
        sum(n > 1 and trained.get(one, 0) < 2 for one, n in here.items()),
    )


def _groups(instances: Instances, difference: list[float]) -> Groups:
    found = []
    for name, values in _columns(instances).items() if instances.cluster is None else ():
        sums: dict[str, float] = defaultdict(float)
        for value, number in zip(values, difference, strict=True):
            sums[value] += number
        sizes, n = Counter(values), len(values)
        explained = sum(sums[value] ** 2 / size for value, size in sizes.items())
        between, squares = explained - sum(difference) ** 2 / n, sum(x**2 for x in difference)
        parts = (between, squares - explained, squares)
        if 1 < len(sizes) < n and is_group(name, len(sizes), n, *parts):
            found.append((name, len(sizes)))
    return tuple(found)


def _columns(instances: Instances) -> dict[str, list[str]]:
    """The other columns that have one value per instance, as text."""
    origin: Any = instances.origin
    frame = getattr(origin, "frame", None)
    if frame is None:
        columns = getattr(origin, "columns", {})
        return {
            name: [as_text(value) for value in column.tolist()]
            for name, column in columns.items()
            if column.ndim == 1 and column.dtype != bool
        }
    roles = set(vars(origin.names).values())
    starts, found = instances.offsets.tolist(), {}
    for name in frame.columns:
        kind = frame[name].dtype
        if name in roles or kind.is_nested() or str(kind) in ("Object", "Boolean"):
            continue
        values = [(as_text(value), value is None) for value in frame[name].to_list()]
        if all(len(set(values[first:last])) == 1 for first, last in pairwise(starts)):
            found[name] = [values[first][0] for first in starts[:-1]]
    return found
