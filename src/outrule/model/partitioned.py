"""Fits a model on partitioned data: the method of fitting.py, with the loop over pieces on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from os import PathLike
from pathlib import Path
from typing import Any

from outrule.calibration.audit import Whole, bits_for
from outrule.calibration.check import Check, Reuse
from outrule.calibration.checkpoints import Checkpoint
from outrule.calibration.partitioned import (
    CellGroup,
    Engine,
    LocalPieces,
    PartitionedCells,
    PartitionedData,
)
from outrule.calibration.pieces import Piece
from outrule.data.instances import Instances
from outrule.data.partitions import Partitions
from outrule.data.sketch import Seen
from outrule.errors import refuse_argument
from outrule.model.codec import fingerprint
from outrule.model.cutting import Area, CutFiles, cut_files
from outrule.model.distributed import ClusterPieces, boost_on, check_cluster
from outrule.model.fitting import (
    blank_model,
    check_training,
    from_isotonic,
    prepare,
    run_loop,
    start_from,
)
from outrule.model.model import Model
from outrule.model.recipes import PER_INSTANCE, PER_ROW, Common, Extent, Extents, Recipe, recipes_of
from outrule.model.settings import OWNER, Settings
from outrule.model.surveying import Survey, survey

TIGHT = 1.2  # times the estimate, for the files of a problem's own structure


def check_supported(check: Check | None) -> None:
    """Raise, before any work, for what cannot be done in pieces."""
    if check is not None and (not isinstance(check, Reuse) or check.validation is not None):
        expected = "Reuse() without validation, for data in many files"
        raise refuse_argument(check, "check", OWNER, expected)


def fit_partitions(
    settings: Settings,
    data: Partitions,
    *,
    client: Any = None,
    checkpoint: str | PathLike[str] | None = None,
) -> tuple[Model, Survey]:
    """Look at the data, and run the loop on them; on the workers of a Dask client, if given."""
    check_supported(settings.check)
    if client is not None:
        check_cluster(client, settings.problem, settings.rules)
    found = survey(data, settings.problem, segments=settings.segments)
    return fit_surveyed(settings, found, client=client, checkpoint=checkpoint), found


def fit_surveyed(
    settings: Settings,
    found: Survey,
    *,
    client: Any = None,
    checkpoint: str | PathLike[str] | None = None,
) -> Model:
    """Run the loop on data that were looked at, with a check that is supported."""
    check_training(settings, found.checked, found.k)
    generator, sample = settings.generator, found.sample
    blank = blank_model(settings, sample, None, found.k)
    cut = None if settings.segments is None else cut_files(found, settings.segments)
    on_workers = None if client is None else boost_on(client)
    ready = prepare(blank, sample, generator, on_workers)
    ready = replace(ready, part=None)  # large, and not needed any more
    ready = from_isotonic(ready, settings, sample, generator)
    blank = start_from(blank, ready, sample)
    recipes = list(recipes_of(found, ready, settings.rivals, cut))
    every, areas = Area(found.n, found.total_weight), None if cut is None else cut.areas
    common, digest, parts = Common(blank, ready.tests, every, areas), found.digest(), list[Seen]()

    def remember(instances: Instances) -> None:
        """By what the model recognises the instances that it was fitted on, file by file."""
        found.add_to(digest, instances)
        parts.append(Seen.of(instances))

    with _pieces(found, common, recipes, remember, client) as (engine, extents):
        seen = reduce(Seen.merged, parts)
        blank = replace(blank, fingerprints=(digest.hexdigest(),), seen=seen)
        # A checkpoint must be of these data, and of all that is fixed before the first round.
        fixed = blank if blank.settings.epsilon else replace(blank, tolerance=0.0)
        kept = None if checkpoint is None else Checkpoint(Path(checkpoint), fingerprint(fixed))
        source = _source(found, engine, common, extents, cut, kept)
        return run_loop(blank, source, ready.tests, generator)


def _source(
    found: Survey,
    engine: Engine,
    common: Common,
    extents: Sequence[Extents],
    cut: CutFiles | None,
    checkpoint: Checkpoint | None,
) -> PartitionedData:
    """The data of the loop, whose pieces are made."""
    every, areas = _whole(common.every, None, extents), common.areas
    wholes = [every] if areas is None else [_whole(a, c, extents) for c, a in enumerate(areas)]
    weight = found.cluster_weight(found.n / found.total_weight)
    group = CellGroup(range(len(wholes)), found.n_counted, weight)
    about = (engine, every, wholes, found.k, found.data.value_range, group, checkpoint)
    if cut is None:
        return PartitionedData(*about)
    return PartitionedCells(cut.blocks, cut.groups(), *about)


def _whole(area: Area, cell: int | None, extents: Sequence[Extents]) -> Whole:
    """What pieces must know of all the data that they are a part of, or of their cell."""
    extent = reduce(Extent.plus, (one[cell] for one in extents if cell in one))
    return Whole(*area, bits_for(extent.farthest if extent.outside else area.n * extent.most_items))


@contextmanager
def _pieces(
    found: Survey,
    common: Common,
    recipes: Sequence[Recipe],
    remember: Callable[[Instances], None],
    client: Any,
) -> Iterator[tuple[Engine, Sequence[Extents]]]:
    """The pieces of all files, here or on workers, until the loop is over."""
    if client is not None:
        with ClusterPieces.opened(client, common, recipes) as engine:
            built = engine.build()
            for recipe in recipes:  # meanwhile this process reads too, for the fingerprint
                remember(recipe.reader.read())
            yield engine, built()
        return
    pieces, extents = list[Piece](), list[Extents]()
    needed = found.n_rows * PER_ROW + found.n * (PER_INSTANCE + len(common.tests) * found.k)
    with found.data.room(TIGHT * needed) as folder:
        for number, recipe in enumerate(recipes):
            instances = recipe.reader.read()
            remember(instances)
            some, extent = recipe.make(common, instances, folder / str(number))
            pieces += some
            extents.append(extent)
        yield LocalPieces(pieces), extents
