"""`outrule doctor`: what is wrong with a table, or worth knowing, before anything is fitted."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

import outrule
from outrule.cli.files import check_output, finish, identifiers, name_places
from outrule.cli.talking import REFUSED, in_our_words, printable, waiting
from outrule.errors import DataError
from outrule.files import STANDARD
from outrule.words import count

if TYPE_CHECKING:
    from outrule import Instances, Spec
    from outrule.data.table_files import TableFile
    from outrule.diagnosis.findings import Finding
    from outrule.diagnosis.proving import Provable
    from outrule.types import Integers


def doctor(
    table: Annotated[str, typer.Argument(help='One row per item; "-" reads standard input.')],
    spec: Annotated[str, typer.Option(metavar="FILE", help="TOML file: problem, columns, rules.")],
    output: Annotated[
        str | None,
        typer.Option("--json", metavar="FILE", help='Findings as JSON; "-" prints only them.'),
    ] = None,
) -> None:
    """Examine a table before a fit.

    Looks at the schema, missing outcomes (a log of chosen items?), items that are offered twice,
    ties, columns that look like clusters, propensities, times, leaks of the outcome, constant
    columns, rare items, copies, and rules that never differ from the plain decision or from each
    other; and says which margin this amount of data can prove. Each finding has a severity, where
    it is first, and what to do.

    \b
    outrule doctor past.parquet --spec spec.toml
    outrule doctor past.parquet --spec spec.toml --json findings.json

    \b
    exit code 0: no errors; there may be warnings and notes
    exit code 2: at least one error, or bad input
    """
    check_output(output, (table, spec), option="--json")
    with waiting("examining"):
        from outrule.data.table_files import open_table
        from outrule.diagnosis.findings import Severity, tally

        file = outrule.read_spec(spec)
        read = open_table(table, identifiers(file.columns))
        instances, found, provable = _examine(file, read)
    found = sorted(found, key=lambda one: list(Severity).index(one.severity))
    size = count(read.frame.height, "row")
    if instances is not None:
        size = f"{count(len(instances), 'instance')} examined, {size}"
    lines = [f"{read.name}: {size}", *map(str, found), tally(found)]
    summary = {
        "table": read.name,
        "spec": spec,
        "rows": read.frame.height,
        "instances": None if instances is None else len(instances),
        "findings": [asdict(one) for one in found],
        "provable": None if provable is None else asdict(provable),
        "library": outrule.__version__,
    }
    shown = "" if output == STANDARD else printable("\n".join(lines))
    finish(json.dumps(summary, indent=1), output, shown, as_json=False)
    if any(one.severity is Severity.ERROR for one in found):
        raise typer.Exit(REFUSED)


def _examine(
    spec: Spec, read: TableFile
) -> tuple[Instances | None, list[Finding], Provable | None]:
    from outrule.diagnosis.columns import examine_columns
    from outrule.diagnosis.decisions import Decided, examine_decisions
    from outrule.diagnosis.findings import Finding, Severity
    from outrule.diagnosis.proving import examine_proof
    from outrule.model.codec import check_item_names
    from outrule.model.fitting import check_training
    from outrule.problems.offers import few_choices

    instances, rows, found = _open(spec, read)
    if instances is None:
        return None, found, None
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
            own.append(Finding(Severity.WARNING, "choices", what, remedy))
        decided, faults = Decided.of(settings, instances)
        own += [*faults, *examine_decisions(decided, len(spec.rules))]
        provable, more = examine_proof(decided, spec.epsilon)
        own += more
    except (DataError, outrule.ArgumentError) as error:
        own.append(_error("fit", error))
    return instances, found + [_in_file(one, read, rows) for one in own], provable


def _open(spec: Spec, read: TableFile) -> tuple[Instances | None, Any, list[Finding]]:
    """The instances without errors, their rows, and what is wrong with the others.

    Every kind of error is found: after each, its instances are left out. Where outcomes are
    missing, the rest is examined without any.
    """
    import numpy as np

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
            kept = ~names.is_in(names.gather(bad).drop_nulls().implode()).fill_null(True)
            mask = kept.to_numpy() & ~np.isin(np.arange(len(rows)), bad)
            rows = rows[mask & names.is_not_null().to_numpy()]
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
    from outrule.diagnosis.findings import error_of

    return error_of(topic, DataError(in_our_words(str(error)), getattr(error, "faults", None)))


def _in_file(finding: Finding, read: TableFile, rows: Integers) -> Finding:
    """The finding with the lines of the file in place of rows of the table."""
    return replace(
        finding,
        what=name_places(read, finding.what, rows),
        remedy=name_places(read, finding.remedy, rows),
        where=None if finding.where is None else name_places(read, finding.where, rows),
    )
