"""What the paper says, and what it does not have, judged in every regime from the tables alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from outrule.evaluation.comparisons import COMPARISONS
from outrule.evaluation.paper_claims import CLAIMS
from outrule.evaluation.results import Results


class Verdict(StrEnum):
    """Whether a claim holds in the regimes that were run."""

    CONFIRMED = "confirmed"
    NOT_CONFIRMED = "not confirmed"
    DEPENDS = "depends on the regime"
    MEASURED = "measured"  # the paper claims nothing
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, and what was measured, by regime: in a few words, and in full."""

    statement: str
    source: str
    numbers: dict[str, str]
    measured: dict[str, str]
    verdict: Verdict
    figure: str = ""  # the name of the figure that shows it, without the regime


def judge(results: Results) -> list[Claim]:
    """Judge every claim, and make every comparison."""
    claims, regimes = [], results.by_regime()
    for statement, source, figure, ask in (*CLAIMS, *COMPARISONS):
        answers = {name: ask(regime) for name, regime in regimes.items()}
        numbers = {name: one.number if one else "not run" for name, one in answers.items()}
        measured = {name: one.sentence if one else "Not run." for name, one in answers.items()}
        verdict = _verdict([one.holds for one in answers.values() if one])
        claims.append(Claim(statement, source, numbers, measured, verdict, figure))
    return claims


def _verdict(holds: list[bool | None]) -> Verdict:
    if not holds:
        return Verdict.NOT_RUN
    if None in holds:
        return Verdict.MEASURED
    if len(set(holds)) > 1:
        return Verdict.DEPENDS
    return Verdict.CONFIRMED if holds[0] else Verdict.NOT_CONFIRMED


def to_markdown(claims: Sequence[Claim]) -> str:
    """The claims as a table of a few words each, and below what was measured in full."""
    regimes = list(dict.fromkeys(name for claim in claims for name in claim.measured))
    head = ["claim", "source", "verdict", *regimes]
    rows = [
        [one.statement, one.source, one.verdict, *(one.numbers.get(name, "") for name in regimes)]
        for one in claims
    ]
    lines = [head, ["---"] * len(head), *rows]
    table = "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)
    full = [
        f"\n**{_cell(one.statement)}**\n\n"
        + "".join(f"- {name}: {_cell(words)}\n" for name, words in one.measured.items())
        for one in claims
    ]
    return table + "".join(full)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
