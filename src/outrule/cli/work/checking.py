"""What a spec says, whether a table fits it, and what is untrue of a certificate."""

from __future__ import annotations

from dataclasses import is_dataclass

from outrule.cli.work.files import open_files, open_key, open_rows, places_in
from outrule.cli.work.judging import open_certificate
from outrule.errors import DataError
from outrule.model.codec import check_item_names, fingerprint
from outrule.model.fitting import check_training
from outrule.model.spec import Spec
from outrule.model.value import Value
from outrule.proof.statement import Certificate, CertificateError
from outrule.proof.verification import verify
from outrule.rules.decisions import decide_all
from outrule.rules.descriptions import as_in_spec, describe
from outrule.words import count


def described(spec: Spec) -> list[str]:
    """What a spec says, one line per section."""
    columns = ", ".join(f"{role} {name!r}" for role, name in spec.columns.roles.items())
    propensity = spec.columns.propensity
    if propensity is not None and not isinstance(propensity, str):
        columns += f", propensity {propensity:g} for all items"
    low, high = spec.value_range
    epsilon = "as near as the data support" if spec.epsilon is None else f"{spec.epsilon:g}"
    lines = [
        f"problem: {as_in_spec(spec.problem)}",
        f"columns: {columns}; values from {low:g} to {high:g}",
        f"epsilon: {epsilon}",
        *(f"rule {rule.name!r}: {describe(rule)}" for rule in spec.rules),
    ]
    if spec.multipliers is not None:
        lines.append(as_in_spec(spec.multipliers).replace(",", ":", 1))
    for name, value in spec.fit.items():
        if isinstance(value, Value):
            given = ((word, text) for word, text in vars(value).items() if text is not None)
            lines += [f"value: {word} = {text!r}" for word, text in given]
        else:
            said = as_in_spec(value) if is_dataclass(value) else value
            lines.append(f"fit: {name} = {said}")
    return lines


def check_rows(spec: Spec, table: str) -> str:
    """Let every rule decide every instance of a table, and say how many they are."""
    read = open_rows(table, spec.columns)
    with places_in(read):
        instances = spec.instances(read.frame)
        check_item_names(instances.item_names or ())
        settings = spec.settings(instances)
        check_training(settings, instances)
        layout = settings.problem.lay(instances)
        decide_all(settings.rules, instances, settings.problem, layout)
    return (
        f"{read.name}: fits; {count(len(instances), 'instance')}, "
        f"{count(len(instances.prediction), 'row')}, decided by "
        f"{count(len(settings.rules), 'rule')}, decisions of up to {count(layout.k, 'item')}"
    )


def difference(
    certificate: str, model: str, tables: list[str], key: str | None
) -> tuple[Certificate, str | None]:
    """A certificate, and what it says and the model and the data do not."""
    secret = open_key(key)
    found = open_certificate(certificate, secret)
    opened = open_files(model, *tables, outcome=True, key=secret)
    with places_in(opened.table):
        instances = opened.instances()
    if found.model != fingerprint(opened.model, found.library):
        raise DataError(f"{certificate} was made for another model than {model}: pass that model.")
    if found.data != instances.fingerprint:
        raise DataError(
            f"{certificate} was made on other data than {opened.table.name}: pass the same tables, "
            "in the same order."
        )
    try:
        with places_in(opened.table):
            verify(found, opened.model, instances)
    except CertificateError as error:
        return found, str(error)
    return found, None
