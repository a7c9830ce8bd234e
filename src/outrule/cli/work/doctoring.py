"""Findings about a table, with the lines of its file."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from outrule.cli.talking import in_our_words
from outrule.cli.work.files import name_places, open_rows
from outrule.data.instances import Instances
from outrule.data.table_files import TableFile
from outrule.diagnosis.columns import examine_columns
from outrule.diagnosis.decisions import RuleDecisions, examine_decisions
from outrule.diagnosis.findings import Finding, Severity, error_of, warning
from outrule.diagnosis.proving import Provable, examine_proof
from outrule.errors import ArgumentError, DataError
from outrule.model.codec import check_item_names
from outrule.model.fitting import check_training
from outrule.model.spec import Spec
from outrule.model.spec_file import read_spec
from outrule.problems.offers import few_choices
from outrule.types import Integers


class Examined(NamedTuple):
    """A table, its instances without errors, the findings, and which margin the data can prove."""

    table: TableFile
    instances: Instances | None
    findings: list[Finding]
    provable: Provable | None


def examine(spec: str, table: str) -> Examined:
    """Look at a table as a spec says; the most severe findings come first."""
    file = read_spec(spec)
    read = open_rows(table, file.columns)
    instances, rows, found = _open(file, read)
    provable = None
    if instances is not None:
        provable, own = _examine(file, instances)
        found += [_in_file(one, read, rows) for one in own]
    found.sort(key=lambda one: list(Severity).index(one.severity))
    return Examined(read, instances, found, provable)


def _examine(spec: Spec, instances: Instances) -> tuple[Provable | None, list[Finding]]:
    own: list[Finding] = []
    provable = None
    try:
        settings = spec.settings(instances)
        check_item_names(instances.item_names or ())
        own += examine_columns(instances, settings)
        if instances.outcome is not None:
            check_training(settings, instances)
        if (words := few_choices(settings.problem, instances)) is not None:
            what, _, remedy = words.partition(". ")
            own.append(warning("choices", what, remedy))
        decided, faults = RuleDecisions.of(settings, instances)
        own += [*faults, *examine_decisions(decided, len(spec.rules))]
        provable, more = examine_proof(decided, spec.epsilon)
        own += more
    except (DataError, ArgumentError) as error:
        own.append(_error("fit", error))
    return provable, own


def _open(spec: Spec, read: TableFile) -> tuple[Instances | None, Any, list[Finding]]:
    """The instances without errors, their rows, and what is wrong with the others.

    Every kind of error is found: after each, its instances are left out. Where outcomes are
    missing, the rest is examined without any.
    """
    found: list[Finding] = []
    rows, outcome = np.arange(read.frame.height), True
    while True:
        frame = read.frame if len(rows) == read.frame.height else read.frame[rows]
        try:
            return spec.instances(frame, outcome=outcome), rows, found
        except DataError as error:
            found.append(_in_file(_error("values", error), read, rows))
            if not error.faults:
                return None, rows, found
            bad = np.array(sorted(error.faults))
            if outcome and _unknown(frame, spec.columns.outcome, bad):
                outcome = False
                continue
            names = frame[spec.columns.instance].alias("")
            left_out = names.is_in(names.gather(bad).drop_nulls().implode()).fill_null(True)
            rows = rows[~left_out.to_numpy()]
            if not len(rows):
                return None, rows, found


def _unknown(frame: Any, outcome: str | None, rows: Integers) -> bool:
    """Whether it is the outcome that is missing in these rows."""
    if outcome is None:
        return False
    column = frame[outcome].alias("").gather(rows)
    missing = column.is_null() | column.is_nan() if column.dtype.is_float() else column.is_null()
    return bool(missing.all())


def _error(topic: str, error: ValueError) -> Finding:
    """An error of the package as a finding, in the words of the command line."""
    return error_of(topic, DataError(in_our_words(str(error)), getattr(error, "faults", None)))


def _in_file(finding: Finding, read: TableFile, rows: Integers) -> Finding:
    """The finding with the lines of the file in place of rows of the table."""
    return replace(
        finding,
        what=name_places(read, finding.what, rows),
        remedy=name_places(read, finding.remedy, rows),
        where=None if finding.where is None else name_places(read, finding.where, rows),
    )
