"""Continuing a certificate: the data that it covered come first, then what is new."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from outrule.data.instances import Instances
from outrule.errors import DataError
from outrule.model.codec import fingerprint
from outrule.model.model import Model
from outrule.proof.statement import Certificate, Look


def first_part(instances: Instances, n: int) -> Instances:
    """The first n instances, as if the others had never been there."""
    part = instances.slice(0, n)
    if part.cluster is not None:
        part = replace(part, cluster=np.unique(part.cluster, return_inverse=True)[1])
    if part.codes is None or part.item_names is None:
        return part
    used, codes = np.unique(part.codes, return_inverse=True)
    names = tuple(part.item_names[code] for code in used.tolist())
    return replace(part, codes=codes.astype(np.int32), item_names=names)


def continued(
    previous: Certificate,
    model: Model,
    instances: Instances,
    confidence: float,
    max_weight: float | None,
) -> tuple[Look, ...]:
    """The looks before this one, the last being ``previous``; DataError if it cannot go on."""
    n = previous.n_instances

    def sizes() -> tuple[int, int] | None:
        if len(instances) <= n or first_part(instances, n).fingerprint != previous.data:
            return None
        return largest_decision(model, instances.slice(0, n)), largest_decision(model, instances)

    return looks_before(previous, model, confidence, max_weight, sizes)


def looks_before(
    previous: Certificate,
    model: Model,
    confidence: float,
    max_weight: float | None,
    sizes: Callable[[], tuple[int, int] | None],
) -> tuple[Look, ...]:
    """The same for data of any kind.

    ``sizes`` are of the largest decisions then and now; None if the data do not go on from those
    before.
    """
    n = previous.n_instances
    if fingerprint(model, previous.library) != previous.model:
        raise DataError("the earlier certificate is for another model: certify this one afresh.")
    if confidence != previous.confidence:
        raise DataError(
            f"the earlier certificate has confidence {previous.confidence:g}, not {confidence:g}. "
            "Give the same confidence."
        )
    if previous.max_weight not in (None, max_weight):
        raise DataError(
            f"the earlier certificate has max_weight {previous.max_weight:g}. It cannot change."
        )
    found = sizes()
    if found is None:
        raise DataError(
            f"the first {n:,} instances are not those of the earlier certificate (or columns have "
            "changed type), or there are no new ones. Give the earlier data, unchanged and in the "
            "same order, and then the new data."
        )
    if found[1] > found[0]:
        raise DataError(
            "the new data allow larger decisions than any before, which the earlier certificate "
            "did not allow for: certify the new data by themselves."
        )
    return (*previous.earlier, Look(n, previous.n_observations, previous.data))


def largest_decision(model: Model, instances: Instances) -> int:
    """The size of the largest decision that a certificate allows for."""
    return max(model.k, model.problem.lay(instances).k)
