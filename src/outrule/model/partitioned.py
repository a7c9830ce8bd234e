"""Fits a model on partitioned data: the method of fitting.py, with the loop over pieces on disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from os import PathLike
from pathlib import Path
from typing import Any

from outrule.calibration.audit import Whole, bits_for
from outrule.calibration.check import Check, Reuse
from outrule.calibration.checkpoints import Checkpoint
from outrule.calibration.isotonic import Isotonic
from outrule.calibration.loop import boost
from outrule.calibration.partitioned import Engine, LocalPieces, PartitionedData
from outrule.calibration.pieces import Piece
from outrule.data.fingerprints import Fingerprint
from outrule.data.instances import Instances
from outrule.data.partitions import Partitions
from outrule.data.segments import Segments
from outrule.data.sketch import Seen
from outrule.errors import refuse_argument
from outrule.model.codec import fingerprint
from outrule.model.distributed import ClusterPieces, check_cluster
from outrule.model.fitting import blank_model, check_training, choose_kappa, plan_of, prepare
from outrule.model.log_bases import fit_base
from outrule.model.model import Model
from outrule.model.recipes import PER_INSTANCE, PER_ROW, Common, Extent, Recipe, recipes_of
from outrule.model.settings import OWNER, Settings
from outrule.model.surveying import Survey, survey

TIGHT = 1.2  # times the estimate, for the files of a problem's own structure


def check_supported(check: Check | None, segments: Segments | None) -> None:
    """Raise, before any work, for what cannot be done in pieces."""
    if check is not None and (not isinstance(check, Reuse) or check.validation is not None):
        expected = "Reuse() without validation, for data in many files"
        raise refuse_argument(check, "check", OWNER, expected)
    if segments is not None:
        expected = "None for data in many files: fit on one table, or on each segment by itself"
        raise refuse_argument(segments, "segments", OWNER, expected)


def fit_partitions(
    settings: Settings,
    data: Partitions,
    *,
    client: Any = None,
    checkpoint: str | PathLike[str] | None = None,
) -> tuple[Model, Survey]:
    """Look at the data, and run the loop on them; on the workers of a Dask client, if given."""
    check_supported(settings.check, settings.segments)
    if client is not None:
        check_cluster(client, settings.rules)
    found = survey(data, settings.problem)
    return fit_surveyed(settings, found, client=client, checkpoint=checkpoint), found


def fit_surveyed(
    settings: Settings,
    found: Survey,
    *,
    client: Any = None,
    checkpoint: str | PathLike[str] | None = None,
) -> Model:
    """Run the loop on data that were looked at."""
    check_supported(settings.check, settings.segments)
    check_training(settings, found.checked, found.k)
    generator, sample = settings.generator, found.sample
    blank = blank_model(settings, sample, None, found.k)
    ready = prepare(blank, sample, generator)
    if isinstance(settings.start, Isotonic):
        frozen = settings.problem.lay(sample).per_item.get("frozen")
        ready = replace(ready, start=settings.start.cross_fit(sample, generator, frozen))
    ready = replace(ready, part=None)  # large, and not needed any more
    blank = replace(
        blank,
        members=ready.members,
        kappa=choose_kappa(sample, ready.start),
        log_base=fit_base(sample, ready.start),
    )
    recipes = list(recipes_of(found, ready, settings.rivals))
    common, memory = Common(blank, ready.tests, found.n, found.total_weight), _Memory(found)
    with _pieces(found, common, recipes, memory, client) as (engine, whole):
        blank = replace(blank, fingerprints=(memory.fingerprint,), seen=memory.seen)
        source = PartitionedData(
            engine,
            whole,
            found.k,
            found.data.value_range,
            found.n_counted,
            found.cluster_weight(),
            None if checkpoint is None else Checkpoint(Path(checkpoint), _identity(blank)),
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
    )


def _identity(blank: Model) -> str:
    """What a checkpoint must be of: the data, and all that is fixed before the first round."""
    return fingerprint(blank if blank.settings.epsilon else replace(blank, tolerance=0.0))


class _Memory:
    """By what a model recognises the instances that it was fitted on."""

    def __init__(self, found: Survey):
        self.found, sample = found, found.sample
        about = (found.data.value_range, found.item_names, sample.propensity_estimated)
        self.digest, self.parts = Fingerprint(about), list[Seen]()

    def add(self, instances: Instances) -> None:
        """The instances of the next file."""
        columns = self.found.columns(instances)
        self.digest.add(instances.fields())
        self.digest.add((f"column {name!r}", column) for name, column in columns)
        self.parts.append(Seen.of(instances))

    @property
    def fingerprint(self) -> str:
        return self.digest.hexdigest()

    @property
    def seen(self) -> Seen:
        return reduce(Seen.merged, self.parts)


@contextmanager
def _pieces(
    found: Survey, common: Common, recipes: Sequence[Recipe], memory: _Memory, client: Any
) -> Iterator[tuple[Engine, Whole]]:
    """The pieces of all files, here or on workers, until the loop is over."""
    if client is not None:
        with ClusterPieces.opened(client, common, recipes) as engine:
            built = engine.build()
            for recipe in recipes:  # meanwhile this process reads too, for the fingerprint
                memory.add(recipe.reader.read())
            yield engine, _whole(found, built())
        return
    pieces, extents = list[Piece](), list[Extent]()
    needed = found.n_rows * PER_ROW + found.n * (PER_INSTANCE + len(common.tests) * found.k)
    with found.data.room(TIGHT * needed) as folder:
        for number, recipe in enumerate(recipes):
            instances = recipe.reader.read()
            memory.add(instances)
            some, extent = recipe.make(common, instances, folder / str(number))
            pieces += some
            extents.append(extent)
        yield LocalPieces(pieces), _whole(found, extents)


def _whole(found: Survey, extents: Sequence[Extent]) -> Whole:
    largest: float = found.n * found.most_items
    if any(extent.outside for extent in extents):
        largest = sum(extent.farthest for extent in extents)
    return Whole(found.n, found.total_weight, bits_for(largest))
