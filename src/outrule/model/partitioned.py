"""Fits a model on partitioned data: the method of fitting.py, with the loop over pieces on disk."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import NamedTuple

import numpy as np

from outrule import threads
from outrule.calibration.audit import Whole, bits_for, farthest_sum, is_outside
from outrule.calibration.check import Check, Reuse
from outrule.calibration.isotonic import Isotonic
from outrule.calibration.loop import boost
from outrule.calibration.partitioned import LocalPieces, PartitionedData
from outrule.calibration.pieces import Piece, Store
from outrule.calibration.rivals import ISOTONIC
from outrule.data.fingerprints import Fingerprint
from outrule.data.instances import Instances
from outrule.data.partitions import Partitions
from outrule.data.segments import Segments
from outrule.data.sketch import Seen
from outrule.errors import DataError, refuse_argument
from outrule.model.fitting import Ready, blank_model, check_training, choose_kappa, plan_of, prepare
from outrule.model.model import Model
from outrule.model.settings import OWNER, Settings
from outrule.model.surveying import Survey, survey
from outrule.rules.decisions import decide_all, distinct
from outrule.types import Floats, Integers

PIECE_BYTES = 1 << 26  # of a piece, one of which every thread has in memory
LEAST_PIECE = 1024  # instances
PER_ROW, PER_INSTANCE = 24, 40  # bytes on disk, besides the decisions of the rules
TIGHT = 1.2  # times the estimate, for the files of a problem's own structure


def check_supported(check: Check | None, segments: Segments | None) -> None:
    """Raise, before any work, for what cannot be done in pieces."""
    if check is not None and (not isinstance(check, Reuse) or check.validation is not None):
        expected = "Reuse() without validation, for data in many files"
        raise refuse_argument(check, "check", OWNER, expected)
    if segments is not None:
        expected = "None for data in many files: fit on one table, or on each segment by itself"
        raise refuse_argument(segments, "segments", OWNER, expected)


def fit_partitions(settings: Settings, data: Partitions) -> tuple[Model, Survey]:
    """Look at the data, and run the loop on them."""
    check_supported(settings.check, settings.segments)
    found = survey(data, settings.problem)
    return fit_surveyed(settings, found), found


def fit_surveyed(settings: Settings, found: Survey) -> Model:
    """Run the loop on data that were looked at."""
    check_supported(settings.check, settings.segments)
    check_training(settings, found.checked, found.k)
    generator, sample = settings.generator, found.sample
    blank = blank_model(settings, sample, None, found.k)
    ready = prepare(blank, sample, generator)
    if isinstance(settings.start, Isotonic):
        frozen = settings.problem.lay(sample).per_item.get("frozen")
        ready = replace(ready, start=settings.start.cross_fit(sample, generator, frozen))
    blank = replace(blank, members=ready.members)
    with _scratch(found, len(ready.tests)) as folder:
        built = _build(found, blank, ready, folder)
        source = PartitionedData(
            LocalPieces(built.pieces),
            built.whole,
            found.k,
            found.data.value_range,
            found.n_counted,
            found.cluster_weight(),
        )
        if settings.epsilon is None:
            blank = replace(blank, tolerance=source.supported_tolerance())
        boosted = boost(source, ready.tests, plan_of(blank), generator)
    return replace(
        blank,
        patches=tuple(boosted.patches),
        history=tuple(boosted.history),
        status=boosted.status,
        rule_values=source.values()[: len(settings.rules)],
        weight_seen=source.weight,
        kappa=choose_kappa(sample, ready.start),
        fingerprints=(built.fingerprint,),
        seen=built.seen,
    )


@dataclass(frozen=True, eq=False)
class Recipe:
    """What makes the pieces of a file, besides its instances."""

    blank: Model
    ready: Ready
    sampled: Integers  # the instances that are in the sample
    span: tuple[int, int]  # and where their items are in it

    def starts(self, instances: Instances) -> tuple[Floats, Floats | None]:
        """Where the loop starts, and what the isotonic rival looks at.

        For instances of the sample they were cross-fitted; others were not seen by any of it.
        """
        model, ready, some = self.blank, self.ready, slice(*self.span)
        rival = ready.instances.start if ISOTONIC in model.settings.rivals else None
        if len(self.sampled) == len(instances):
            return ready.start[some], None if rival is None else rival[some]
        inside = np.zeros(len(instances), dtype=np.bool_)
        inside[self.sampled] = True
        flat, rest = inside[instances.instance], instances.take(np.flatnonzero(~inside))
        start = np.empty(len(flat))
        start[flat], start[~flat] = ready.start[some], model.start_of(rest)
        if rival is None:
            return start, None
        isotonic = np.empty(len(flat))
        frozen = model.problem.lay(rest).per_item.get("frozen")
        isotonic[flat], isotonic[~flat] = rival[some], model.isotonic.apply(rest, frozen)
        return start, isotonic

    def pieces(self, instances: Instances, folder: Path) -> Iterator[tuple[Piece, Instances]]:
        """The pieces of a file, and their instances with all outcomes known or estimated."""
        start, rival = self.starts(instances)
        carrier = instances if rival is None else replace(instances, start=rival)
        filled, problem, tests = carrier.filled(start), self.blank.problem, self.ready.tests
        size = piece_size(len(instances.prediction) / len(instances), len(tests), self.blank.k)
        for number, (first, last) in enumerate(threads.spans(size, len(instances))):
            some = carrier.slice(first, last)
            layout = problem.lay(some)
            decisions = distinct(decide_all(tests, some, problem, layout))
            known = filled.slice(first, last)
            begin = start[instances.offsets[first] : instances.offsets[last]]
            store = Store(folder / str(number))
            yield Piece.of(store, known, layout, *decisions, begin, problem), known


def piece_size(items: float, n_tests: int, k: int) -> int:
    """How many instances a piece has."""
    per_instance = items * PER_ROW + PER_INSTANCE + n_tests * k
    return max(LEAST_PIECE, int(PIECE_BYTES / per_instance))


class _Built(NamedTuple):
    pieces: list[Piece]
    whole: Whole
    fingerprint: str
    seen: Seen


def _build(found: Survey, blank: Model, ready: Ready, folder: Path) -> _Built:
    """The pieces of all files, and what they tell about the whole."""
    n, total, sample = found.n, found.total_weight, found.sample
    about = (found.data.value_range, found.item_names, sample.propensity_estimated)
    fingerprint, seen = Fingerprint(about), list[Seen]()
    pieces, farthest, outside, first = list[Piece](), 0.0, False, 0
    for number in range(len(found.counts)):
        instances = found.read(number)
        fingerprint.add(instances.fields())
        fingerprint.add((f"column {name!r}", one) for name, one in found.columns(instances))
        seen.append(Seen.of(instances))
        sampled = found.sampled(number)
        last = first + len(sampled)
        span = int(sample.offsets[first]), int(sample.offsets[last])
        first = last
        recipe = Recipe(blank, ready, sampled, span)
        for piece, known in recipe.pieces(instances, folder / str(number)):
            pieces.append(piece)
            assert known.outcome is not None
            farthest += farthest_sum(known, known.outcome, n, total)
            outside = outside or is_outside(known.outcome, known.value_range)
    largest = farthest if outside else n * found.most_items
    whole = Whole(n, total, bits_for(largest))
    return _Built(pieces, whole, fingerprint.hexdigest(), reduce(Seen.merged, seen))


@contextmanager
def _scratch(found: Survey, n_tests: int) -> Iterator[Path]:
    """A folder for the pieces, which is removed at the end; an error if they cannot fit in it."""
    needed = found.n_rows * PER_ROW + found.n * (PER_INSTANCE + n_tests * found.k)
    place = found.data.scratch or Path(tempfile.gettempdir())
    if not place.is_dir():
        raise DataError(f"the scratch folder {place} does not exist: create it first.")
    free = shutil.disk_usage(place).free
    if TIGHT * needed > free:
        raise DataError(
            f"the loop needs about {TIGHT * needed / 1e9:,.1f} GB on disk, and {place} has "
            f"{free / 1e9:,.1f} GB free: name another folder as scratch, or use fewer rules."
        )
    with tempfile.TemporaryDirectory(prefix="outrule-", dir=place) as folder:
        yield Path(folder)
