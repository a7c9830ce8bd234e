"""`outrule doctor`: what is wrong with a table, or worth knowing, before anything is fitted."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

import outrule
from outrule.cli.options import SPEC, check_output, finish
from outrule.cli.talking import REFUSED, printable, waiting
from outrule.files import STANDARD
from outrule.words import count


def doctor(
    table: Annotated[str, typer.Argument(help='One row per item; "-" reads standard input.')],
    spec: SPEC,
    output: Annotated[
        str | None,
        typer.Option("--json", metavar="FILE", help='Findings as JSON; "-" prints nothing else.'),
    ] = None,
) -> None:
    """Examine a table before a fit.

    Looks at the schema, missing outcomes (a log of chosen items?), items that are offered twice,
    ties, columns that look like clusters, propensities, times, leaks of the outcome, constant
    columns, rare items, copies, and rules that never differ from the plain decision or from each
    other; and says which margin this amount of data can prove. Each finding says how severe it is,
    where it occurs first, and what to do.

    \b
    outrule doctor past.parquet --spec spec.toml
    outrule doctor past.parquet --spec spec.toml --json findings.json

    \b
    exit code 0: no errors; there may be warnings and notes
    exit code 2: at least one error, or bad input
    """
    check_output(output, (table, spec), option="--json")
    with waiting("examining"):
        from outrule.cli.work import doctoring as work  # loads Polars and Numba
        from outrule.diagnosis.findings import Severity, tally

        read, instances, found, provable = work.examine(spec, table)
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
