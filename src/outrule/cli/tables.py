"""Tables for people: a certificate enters, what the decisions were worth leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from outrule.cli.talking import printable

if TYPE_CHECKING:
    from outrule.proof.certificate import Certificate
    from outrule.proof.confidence import Estimate


def baselines(certificate: Certificate, from_isotonic: Estimate | None = None) -> Table:
    """The calibrated optimiser beside all that it competes with."""
    table = Table("decisions by")
    table.add_column("value on held-out data", justify="right")
    table.add_column(f"{100 * certificate.confidence:g} % interval", justify="right")
    best = printable(certificate.best_rule_name)
    rows = [
        ("plain optimiser on the predictions", certificate.plain),
        (f"best rule on training data ({best})", certificate.best_rule),
        ("plain optimiser, isotonic regression", certificate.isotonic),
        ("plain optimiser, outrule", certificate.calibrated),
        ("plain optimiser, outrule from isotonic", from_isotonic),
        ("oracle that knows the outcomes", certificate.oracle),
    ]
    for words, estimate in rows:
        if estimate is not None:
            interval = f"{estimate.lower:.4f} to {estimate.upper:.4f}"
            table.add_row(words, f"{estimate.mean:.4f}", interval)
    return table
