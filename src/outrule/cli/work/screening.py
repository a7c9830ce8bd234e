"""Instances that a model cannot decide: stop, use their original predictions, or leave them out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from outrule.cli.options import OnError, Unseen
from outrule.cli.talking import say
from outrule.cli.work.files import Opened, check_table, places_in
from outrule.data.instances import Instances
from outrule.data.table_files import write_table
from outrule.errors import DataError
from outrule.files import STANDARD
from outrule.types import Integers
from outrule.words import count

Work = Callable[[Instances], NDArray[Any]]
GO_ON = "To continue despite such instances, use --on-error original or --on-error skip."
FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass
class Answers:
    """What was answered for which rows of the table, and what was wrong with others."""

    rows: list[Integers] = field(default_factory=list)
    columns: list[pl.Series] = field(default_factory=list)
    instances: list[Instances] = field(default_factory=list)
    faults: dict[int, str] = field(default_factory=dict)  # by row; one row of each instance or more

    def add_to(self, frame: pl.DataFrame, name: str) -> pl.DataFrame:
        """The rows that have an answer, in their order, with the answers as a column."""
        rows = np.concatenate(self.rows)
        order = np.argsort(rows)
        column = pl.concat(self.columns).gather(order).alias(name)
        whole = len(rows) == frame.height
        return (frame if whole else frame[rows[order]]).with_columns(column)


def check_errors(errors: str | None, output: str, on_error: OnError, inputs: Any) -> str | None:
    """Where the list of errors goes, if there can be one."""
    if on_error is OnError.STOP:
        if errors is not None:
            raise DataError("--errors needs --on-error original or skip.")
        return None
    if errors is None and output == STANDARD:
        raise DataError("say with --errors FILE where to list the rows with errors.")
    errors = errors or f"{output}.errors.csv"
    if errors == output:
        raise DataError("--errors and -o name the same file.")
    check_table(errors, (*inputs, output), "--errors")
    return errors


def answer(opened: Opened, work: Work, plain: Work, on_error: OnError, unseen: Unseen) -> Answers:
    """Answers by ``work``, and by ``plain`` for what it cannot answer, where that is asked for."""
    found, rows = Answers(), np.arange(opened.frame.height)
    _try(found, opened, rows, work, on_error is OnError.STOP, unseen)
    if on_error is OnError.ORIGINAL and found.faults:
        rest = np.setdiff1d(rows, np.concatenate([rows[:0], *found.rows]))
        reasons = dict(found.faults)
        _try(found, opened, rest, plain, False, unseen, original=True)
        found.faults |= reasons  # the first that was found
    if not found.rows:
        row = min(found.faults)
        place = opened.table.where(row)
        raise DataError(f"every instance has an error; {place}: {found.faults[row]}.")
    return found


def _try(
    found: Answers,
    opened: Opened,
    rows: Integers,
    work: Work,
    stop: bool,
    unseen: Unseen,
    original: bool = False,
) -> None:
    """Answer all rows but those of instances with errors, which are noted."""
    while True:
        try:
            with places_in(opened.table, rows):
                instances = opened.instances(rows, unseen=unseen, original=original)
                column = instances.origin.restore(work(instances), None)
        except DataError as error:
            if stop and error.faults:
                raise DataError(f"{error} {GO_ON}") from None
            if stop or not error.faults:
                raise
            bad, group = rows[list(error.faults)], opened.groups()
            found.faults |= dict(zip(bad.tolist(), error.faults.values(), strict=True))
            rows = rows[~np.isin(group[rows], group[bad])]
            if not len(rows):
                return
        else:
            found.rows.append(rows)
            found.columns.append(column)
            found.instances.append(instances)
            return


def write_errors(found: Answers, opened: Opened, path: str) -> None:
    """Write the rows with errors, and say how many instances they are."""
    rows = np.array(sorted(found.faults), dtype=np.int64)
    answered = np.isin(rows, np.concatenate(found.rows))
    names = opened.frame[opened.names.instance].cast(pl.String, strict=False)[rows]
    place = "row" if opened.table.text is None else "line"
    listed = {
        place: [opened.table.number(row) for row in rows.tolist()],
        "instance": [_cell(name) for name in names],
        "error": [_cell(found.faults[row]) for row in rows.tolist()],
        "handling": ["original predictions" if one else "left out" for one in answered],
    }
    write_table(pl.DataFrame(listed), path)
    group = opened.groups()
    decided, skipped = (len(set(group[rows[which]].tolist())) for which in (answered, ~answered))
    words = f"{count(decided + skipped, 'instance')} with errors"
    if len(rows):
        words += f": {decided:,} answered by the original predictions, {skipped:,} left out"
    say(f"{words}; see {path}", err=True)


def _cell(text: str | None) -> str | None:
    """Text that no spreadsheet takes for a formula."""
    return f"'{text}" if text is not None and text.startswith(FORMULA) else text
