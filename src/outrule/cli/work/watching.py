"""A watch is continued or begun, and counts batches."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from outrule.cli.work.batches import Batch
from outrule.errors import DataError
from outrule.model.documents import read_file
from outrule.model.model import Model
from outrule.watching.state import NOUN
from outrule.watching.watch import CountedError, Watch
from outrule.words import count

RUN_LENGTH = 7300


def open_watch(
    model: Model,
    state: str,
    run_length: int | None,
    margin: float | None,
    max_weight: float | None,
    *,
    begin: bool,
) -> Watch:
    """Continue a watch, or begin one; what was set at its beginning cannot change."""
    path = Path(state)
    if not path.exists():
        if not begin:
            raise DataError(f"{state} does not exist: the first batch creates it.")
        length = RUN_LENGTH if run_length is None else run_length
        return Watch(model, length, margin, max_weight)
    watcher = Watch.from_json(read_file(path, NOUN), model, name=state)
    given = {"run_length": run_length, "margin": margin, "max_weight": max_weight}
    for name, value in given.items():
        kept = getattr(watcher.state, name)
        if value is not None and value != kept:
            raise DataError(
                f"--{name.replace('_', '-')} was {kept} when {state} began, and is {value} now. It "
                "cannot change: leave it out, or begin a new state file."
            )
    return watcher


def count_batches(watcher: Watch, batches: Iterable[Batch]) -> list[str]:
    """Count what is new; say what is not."""
    known, total = [], 0
    for key, instances, outcome in batches:
        total += 1
        try:
            watcher.update(instances, outcome, batch=key)
        except CountedError as error:
            known.append(str(error))
    if len(known) > 1:
        return [f"{len(known):,} of {count(total, 'batch')} are already counted."]
    return known
