"""A sketch of the instances that a model has seen: hashes by which they are recognised later."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outrule.data.instances import Instances
from outrule.data.origin import TableOrigin
from outrule.types import Integers

CAPACITY = 2048
ALL = 2**64 - 1

Hashes = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Sketch:
    """The smallest hashes of some instances, ascending, and how many instances have each.

    Which are kept depends on nothing but the hashes, so that sketches of parts can be merged, and
    the hashes of other instances up to ``limit`` are a fair sample to compare with.
    """

    hashes: Hashes
    counts: Integers
    n: int  # of all instances

    @classmethod
    def of(cls, hashes: Hashes) -> Sketch:
        found, counts = np.unique(hashes, return_counts=True)
        return cls(found[:CAPACITY], counts[:CAPACITY], len(hashes))

    def merged(self, other: Sketch) -> Sketch:
        """The sketch of the instances of both."""
        hashes, place = np.unique(np.concatenate((self.hashes, other.hashes)), return_inverse=True)
        counts = np.zeros(len(hashes), dtype=np.int64)
        np.add.at(counts, place, np.concatenate((self.counts, other.counts)))
        limit = np.uint64(min(self.limit, other.limit))  # beyond it one of both knows nothing
        kept = min(CAPACITY, int((hashes <= limit).sum()))
        return Sketch(hashes[:kept], counts[:kept], self.n + other.n)

    @property
    def limit(self) -> int:
        """The largest hash that would have been kept."""
        return int(self.hashes[-1]) if len(self.hashes) == CAPACITY else ALL


class Seen(NamedTuple):
    """What a model remembers of the instances that it has seen.

    The whole content of an instance is its items with predictions and outcomes. Where predictions
    or names come again with other outcomes, the same content may come again as well.
    """

    predictions: Sketch
    contents: Sketch
    names: Sketch | None  # of a table's instances
    named_contents: Sketch | None

    @classmethod
    def of(cls, instances: Instances) -> Seen:
        found: Any = (None if one is None else Sketch.of(one) for one in hash_all(instances))
        return cls(*found)

    def merged(self, other: Seen) -> Seen:
        pairs = zip(self, other, strict=True)
        both: Any = (None if a is None or b is None else a.merged(b) for a, b in pairs)
        return Seen(*both)


def hash_all(instances: Instances) -> tuple[Hashes, Hashes, Hashes | None, Hashes | None]:
    """Hashes of every instance for the sketches of ``Seen``; arrays have no names.

    Items may come in any order, and instances under any number.
    """
    outcome = instances.require_observed("a sketch")
    key = np.zeros(len(outcome), dtype=np.uint64)
    if instances.item_names is not None and instances.codes is not None:
        words = np.array([hash_text(name) for name in instances.item_names], dtype=np.uint64)
        key = words[instances.codes]
    elif instances.item is not None:
        key = instances.item.astype(np.uint64)
    found = []
    for values in (instances.prediction, outcome):
        key = mix(key) ^ (values + 0.0).view(np.uint64)  # -0.0 is 0.0
        found.append(mix(np.add.reduceat(mix(key), instances.offsets[:-1])))
    if not isinstance(instances.origin, TableOrigin):
        return found[0], found[1], None, None
    labels = [hash_text(name) for name in instances.origin.labels.to_list()]
    names = np.array(labels, dtype=np.uint64)
    return found[0], found[1], names, mix(names ^ found[1])


def hash_text(name: Any) -> int:
    """A number of 64 bits for a name, whether it came as a number or as a string."""
    text = str(name).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def mix(values: Hashes) -> Hashes:
    """The splitmix64 hash."""
    z = (values + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
