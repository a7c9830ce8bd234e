"""A finding: how bad it is, what it is, where it is first, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from outrule.errors import DataError
from outrule.words import count


class Severity(StrEnum):
    """An error would stop ``fit`` or make it worthless; a warning can make a result wrong."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Finding:
    """One finding about a table; ``rows`` is how many rows it concerns, where that is known."""

    severity: Severity
    topic: str
    what: str
    remedy: str
    where: str | None = None
    rows: int | None = None

    def __str__(self) -> str:
        place = "" if self.where is None else f" (first: {self.where})"
        end = "" if place == "" and self.what.endswith(("?", "^")) else "."
        return f"{self.severity}, {self.topic}: {self.what}{place}{end} {self.remedy}".rstrip()


error, warning, note = (partial(Finding, one) for one in Severity)


def error_of(topic: str, fault: DataError) -> Finding:
    """The finding that an error of ``fit`` is; its first sentence says what and where."""
    what, _, remedy = str(fault).partition(". ")
    rows = len(fault.faults) or None
    return error(topic, what.removesuffix("."), remedy, rows=rows)


def tally(findings: Iterable[Finding]) -> str:
    """How many there are of each severity: no errors, 1 warning, 2 notes."""
    severities = [finding.severity for finding in findings]
    return ", ".join(count(severities.count(one), one.value) for one in Severity)
