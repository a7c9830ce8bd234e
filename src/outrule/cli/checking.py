"""`outrule check` and `outrule verify`: is a spec sound, and does a certificate tell the truth?"""

from __future__ import annotations

from typing import Annotated

import typer

import outrule
from outrule.cli.options import KEY, MODEL, check_output
from outrule.cli.talking import printable, say, waiting
from outrule.words import count

UNTRUE = 1


def check(
    spec: Annotated[str, typer.Argument(help="TOML file: problem, columns, rules.")],
    table: Annotated[
        str | None, typer.Argument(help='A table to check against it; "-" reads standard input.')
    ] = None,
) -> None:
    """Check a spec, and whether a table fits it.

    Prints what the spec says. With a table it also checks columns, types and values, and lets every
    rule decide every instance. Nothing is fitted and nothing is written. `outrule doctor` examines
    a table more thoroughly.

    \b
    outrule check spec.toml
    outrule check spec.toml past.parquet

    \b
    exit code 0: valid
    exit code 2: not valid; the message says what is wrong, where first, and what to do
    """
    check_output(None, (spec, table))
    with waiting("checking"):
        from outrule.cli.work import checking as work  # loads Polars and Numba

        file = outrule.read_spec(spec)
        lines = [f"{spec}: valid", *work.described(file)]
        if table is not None:
            lines.append(work.check_rows(file, table))
    say(printable("\n".join(lines)))


def verify(
    certificate: Annotated[str, typer.Argument(help="A certificate of `outrule certify`.")],
    model: MODEL,
    table: Annotated[
        list[str],
        typer.Argument(metavar="TABLE...", help='What was certified; "-" reads standard input.'),
    ],
    key: KEY = None,
) -> None:
    """Recompute every number of a certificate.

    It uses independent code, which shares nothing with the loop, its sums or the confidence bounds.
    Give the tables that were certified; for a continued certificate all of them, in their order.

    \b
    outrule verify certificate.json model.json later.parquet

    \b
    exit code 0: the certificate agrees with the model and the data
    exit code 1: it does not; the message names the first entry that differs
    exit code 2: bad input
    """
    check_output(None, (certificate, model, *table, key))
    with waiting("verifying"):
        from outrule.cli.work import checking as work  # loads Polars and Numba

        found, fault = work.difference(certificate, model, table, key)
    if fault is not None:
        say(f"{certificate} is not true: {printable(fault)}", err=True)
        raise typer.Exit(UNTRUE)
    say(
        f"{certificate} is true: {found.verdict} on {count(found.n_observations, found.unit)}, "
        "every number recomputed from the model and the data"
    )
