"""The report: a summary enters, one HTML page that needs nothing else leaves."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Mapping
from importlib.resources import files
from string import Template
from typing import Any

from outrule.reporting import bias, cards, evidence, training
from outrule.reporting.markup import text
from outrule.reporting.summary import check_summary

LINKS = {
    "values": "Values",
    "forest": "Rules",
    "violations": "Violations",
    "promises": "Promises",
    "rounds": "Rounds",
    "ledger": "Patches",
    "cards": "Data and model",
    "reading": "How to read it",
}
# What could end the script element, or a line of old JavaScript, is written as an escape.
HARMLESS = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def report(summary: Mapping[str, Any]) -> str:
    """One self-contained HTML page of what :func:`outrule.summarise` found.

    It loads nothing: style, script, pictures and the summary itself (as JSON, with at most 500
    rounds) are inside. Without scripts it still shows everything. The same summary gives the same
    text.

    Parameters
    ----------
    summary : the dict that ``summarise`` returned, or that JSON gave back

    Examples
    --------
    >>> import outrule
    >>> calibrator = outrule.DecisionCalibrator(outrule.BestAction(), [outrule.Fixed(1)])
    >>> calibrator = calibrator.fit(*outrule.worlds.two_arms(1_000, seed=0))
    >>> held_out = outrule.Instances.from_arrays(*outrule.worlds.two_arms(1_000, seed=1))
    >>> from outrule.reporting.summary import summarise
    >>> report(summarise(calibrator, held_out)).splitlines()[:2]
    ['<!doctype html>', '<html lang="en">']
    """
    summary = check_summary(summary, "report")
    script = _part("page.js")
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return Template(_part("page.html")).substitute(
        title=text(f"{evidence.VERDICTS[summary['verdict']['verdict']]} · outrule report"),
        library=text(summary["library"]),
        style=_part("page.css"),
        hash=f"'sha256-{digest}'",
        links="\n".join(f'<a href="#{name}">{words}</a>' for name, words in LINKS.items()),
        body="\n".join(_sections(summary)),
        data=_embedded(summary),
        script=script,
    )


def _sections(summary: Mapping[str, Any]) -> list[str]:
    return [
        evidence.verdict(summary),
        evidence.values(summary),
        evidence.forest(summary),
        bias.violations(summary),
        bias.promises(summary),
        training.rounds(summary),
        training.ledger(summary),
        cards.cards(summary),
        cards.reading(summary),
    ]


def _embedded(summary: Mapping[str, Any]) -> str:
    """The summary as JSON that can stand inside a script element."""
    shown = {**summary, "rounds": training.thinned(summary["rounds"])}
    compact = json.dumps(shown, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return compact.translate(HARMLESS)


def _part(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
