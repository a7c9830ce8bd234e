"""Predictions or decisions for a table, or for every file of a folder."""

from __future__ import annotations

from typing import Any

import polars as pl
from numpy.typing import NDArray

from outrule.cli.options import Unseen
from outrule.cli.work.files import (
    PROPENSITY,
    Opened,
    check_table,
    open_files,
    open_key,
    places_in,
    warn_of_unseen,
)
from outrule.cli.work.folders import Done, Fill, Filled, FolderJob, fill_folder
from outrule.cli.work.screening import Answers, answer, check_errors, write_errors
from outrule.data.instances import Instances
from outrule.data.nesting import is_nested
from outrule.data.table_files import SEPARATORS, output_kind, write_table
from outrule.errors import DataError
from outrule.files import is_folder, local_path
from outrule.model.exploring import Exploration, explore
from outrule.model.model import Model
from outrule.model.value import Value


def predict_all(job: FolderJob, unseen: Unseen) -> Done:
    """Add the predictions."""
    column = job.columns[0]

    def fill(opened: Opened) -> Filled:
        fitted = opened.model
        found = answer(opened, fitted.predict, lambda some: some.prediction, job.on_error, unseen)
        return Filled(found.add_to(_as_it_was(opened, job.output), column), found)

    return _fill_all(job, fill)


def decide_all(job: FolderJob, unseen: Unseen) -> tuple[Done, str | None]:
    """Add the decisions; also what exploring is expected to cost per instance, if it does."""
    column, how, costs = job.columns[0], job.how, list[tuple[int, float]]()
    value = Value()

    def fill(opened: Opened) -> Filled:
        nonlocal value
        value = opened.model.settings.value
        model, problem = opened.model, opened.model.problem
        explorer = None
        if "explore" in how:
            explorer = Explorer(model, how["explore"], how["seed"], how["explore_over"])
        found = answer(
            opened,
            explorer.decide if explorer else lambda some: some.mark(model.pick(some)),
            lambda some: some.mark(problem.pick_on_threads(some.prediction, problem.lay(some))),
            job.on_error,
            unseen,
        )
        filled = found.add_to(_as_it_was(opened, job.output), column)
        if explorer is not None:
            filled = explorer.propensities(found).add_to(filled, PROPENSITY)
            costs.extend(explorer.costs)
        return _decided(filled, found, column, how["only"])

    done = _fill_all(job, fill)
    if not costs:
        return done, None
    cost = sum(n * one for n, one in costs) / max(sum(n for n, _ in costs), 1)
    return done, value.amount(f"{cost:.4g}")


class Explorer:
    """Makes random decisions in known proportions, and remembers their propensities."""

    def __init__(self, model: Model, share: float, seed: int, over: str):
        self.model, self.share, self.seed, self.over = model, share, seed, over
        self.found: dict[int, tuple[Instances, Exploration]] = {}  # by the id of the instances

    def decide(self, instances: Instances) -> NDArray[Any]:
        explored = explore(self.model, instances, self.share, self.seed, self.over)
        self.found[id(instances)] = (instances, explored)
        return explored.chosen  # type: ignore[no-any-return] # flat marks

    def propensities(self, answers: Answers) -> Answers:
        """What to add to the answered rows; instances that were not explored were certain."""
        columns = []
        for instances, marks in zip(answers.instances, answers.columns, strict=True):
            if id(instances) in self.found:
                flat = self.found[id(instances)][1].propensity
                columns.append(instances.origin.restore(flat, None))
            else:
                columns.append(marks.cast(float))
        return Answers(answers.rows, columns, answers.instances)

    @property
    def costs(self) -> list[tuple[int, float]]:
        """Numbers of explored instances, and what exploring is expected to cost on each."""
        return [(len(instances), one.cost) for instances, one in self.found.values()]


def _decided(filled: pl.DataFrame, found: Answers, column: str, only: bool) -> Filled:
    """The table to write, and how many rows it chose, or items of its lists."""
    marks = filled[column].alias("")
    if not is_nested(marks):
        chosen = filled.filter(marks)
        return Filled(chosen if only else filled, found, filled.height, chosen.height)
    if only:
        raise DataError("--only is for tables with one row per item: this one has lists of items.")
    flat = marks.explode()
    return Filled(filled, found, len(flat), int(flat.sum()))


def _fill_all(job: FolderJob, fill: Fill) -> Done:
    """Fill a folder, or one table, and write it."""
    job = job._replace(source=local_path(job.source), output=local_path(job.output))
    if is_folder(job.source):
        return fill_folder(job, fill)
    inputs = (job.model, job.source)
    errors = check_errors(job.errors, job.output, job.on_error, inputs)
    check_table(job.output, (*inputs, job.key))
    job.check_column()
    opened = open_files(*inputs, outcome=False, key=open_key(job.key))
    with places_in(opened.table):
        job.check_free(opened.table.frame.columns)
    filled = fill(opened)
    warn_of_unseen(opened.model, *filled.found.instances)
    if errors is not None:
        write_errors(filled.found, opened, errors)
    write_table(filled.frame, job.output)
    return filled.done


def _as_it_was(opened: Opened, output: str) -> pl.DataFrame:
    """The table; from text to text, with the fields that it had."""
    text = opened.table.text
    return text if text is not None and output_kind(output) in SEPARATORS else opened.table.frame
