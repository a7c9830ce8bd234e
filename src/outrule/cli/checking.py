"""`outrule check` and `outrule verify`: is a spec sound, and does a certificate tell the truth?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

import outrule
from outrule.cli.files import (
    KEY,
    MODEL,
    check_output,
    identifiers,
    open_files,
    open_key,
    places_in,
)
from outrule.cli.judging import TABLES, open_certificate
from outrule.cli.talking import printable, say, waiting
from outrule.words import count

if TYPE_CHECKING:
    from outrule import Certificate, Instances, Spec
    from outrule.model.model import Model

UNTRUE = 1
SPEC = Annotated[str, typer.Argument(help="TOML file: problem, columns, rules.")]


def check(
    spec: SPEC,
    table: Annotated[
        str | None, typer.Argument(help='A table for it; "-" reads standard input.')
    ] = None,
) -> None:
    """Check a spec, and whether a table fits it.

    Prints what the spec describes. With a table it also checks columns, types and values, and lets
    every rule decide every instance. Nothing is fitted and nothing is written. `outrule doctor`
    looks for more in a table.

    \b
    outrule check spec.toml
    outrule check spec.toml past.parquet

    \b
    exit code 0: sound
    exit code 2: not; the message says what is wrong, where first, and what to do
    """
    check_output(None, (spec, table))
    with waiting("checking"):
        file = outrule.read_spec(spec)
        lines = [f"{spec}: sound", *_described(file)]
        if table is not None:
            lines += _check_table(file, table)
    say(printable("\n".join(lines)))


def _described(spec: Spec) -> list[str]:
    """What a spec says, one line per section."""
    from outrule.model.value import Value
    from outrule.rules.descriptions import describe

    columns = ", ".join(f"{role} {name!r}" for role, name in spec.columns.roles.items())
    low, high = spec.value_range
    lines = [
        f"problem: {spec.problem!r}",
        f"columns: {columns}; values from {low:g} to {high:g}",
        f"epsilon: {'as far as the data support' if spec.epsilon is None else f'{spec.epsilon:g}'}",
        *(f"rule {rule.name!r}: {describe(rule)}" for rule in spec.rules),
    ]
    if spec.multipliers is not None:
        lines.append(f"multipliers: {spec.multipliers!r}")
    for name, value in spec.fit.items():
        if isinstance(value, Value):
            said = ((word, text) for word, text in vars(value).items() if text is not None)
            lines += [f"value: {word} = {text!r}" for word, text in said]
        else:
            lines.append(f"fit: {name} = {value!r}")
    return lines


def _check_table(spec: Spec, table: str) -> list[str]:
    from outrule.data.table_files import open_table
    from outrule.model.codec import check_item_names
    from outrule.model.fitting import check_training
    from outrule.rules.decisions import decide_all

    read = open_table(table, identifiers(spec.columns))
    with places_in(read):
        instances = spec.instances(read.frame)
        check_item_names(instances.item_names or ())
        settings = spec.settings(instances)
        check_training(settings, instances)
        layout = settings.problem.lay(instances)
        decide_all(settings.rules, instances, settings.problem, layout)
    return [
        f"{read.name}: fits; {count(len(instances), 'instance')}, "
        f"{count(len(instances.prediction), 'row')}, decided by "
        f"{count(len(settings.rules), 'rule')}, decisions of up to {count(layout.k, 'item')}"
    ]


def verify(
    certificate: Annotated[str, typer.Argument(help="A certificate of `outrule certify`.")],
    model: MODEL,
    table: TABLES,
    key: KEY = None,
) -> None:
    """Recompute every number of a certificate.

    Goes through independent code: nothing of the loop, of its sums or of the confidence bounds is
    used again. Give the tables that were certified, for a continued certificate all of them in
    their order.

    \b
    outrule verify certificate.json model.json later.parquet

    \b
    exit code 0: the model and the data say what the certificate says
    exit code 1: they do not; the message names the first entry that differs
    exit code 2: bad input
    """
    check_output(None, (certificate, model, *table, key))
    secret = open_key(key)
    with waiting("verifying"):
        found = open_certificate(certificate, secret)
        opened = open_files(model, *table, outcome=True, key=secret)
        with places_in(opened.table):
            instances = opened.instances()
        fault = _difference(found, opened.model, instances)
    if fault is not None:
        say(f"{certificate} is not true: {printable(fault)}", err=True)
        raise typer.Exit(UNTRUE)
    say(
        f"{certificate} is true: {found.verdict} on {count(found.n_observations, found.unit)}, "
        "every number recomputed from the model and the data"
    )


def _difference(certificate: Certificate, model: Model, instances: Instances) -> str | None:
    """What the certificate says and the model and the data do not."""
    from outrule.model.codec import fingerprint

    if certificate.model != fingerprint(model, certificate.library):
        return "it was made for another model."
    if certificate.data != instances.fingerprint:
        return "it was made on other data."
    try:
        outrule.verify(certificate, model, instances)
    except outrule.CertificateError as error:
        return str(error)
    return None
