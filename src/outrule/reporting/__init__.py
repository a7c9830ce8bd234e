"""The HTML report. Not called ``report``, because ``outrule.report`` is the function below."""

import hashlib
import json
from base64 import b64encode
from collections.abc import Mapping
from importlib.resources import files
from string import Template
from typing import Any

from outrule.reporting import cards, held_out, training
from outrule.reporting.markup import text
from outrule.reporting.summary import check_summary

# The sections after the verdict: their ids, their links in the header, and what writes them.
SECTIONS = {
    "values": ("Values", held_out.values),
    "forest": ("Rules", held_out.forest),
    "violations": ("Violations", held_out.violations),
    "realised": ("Predicted vs realised", held_out.realised),
    "rounds": ("Rounds", training.rounds),
    "ledger": ("Patches", training.ledger),
    "cards": ("Data and model", cards.cards),
    "reading": ("How to read this page", cards.reading),
}
# Characters that could end a script element, or a line of old JavaScript, are escaped.
ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def report(summary: Mapping[str, Any]) -> str:
    """One self-contained HTML page of what :func:`outrule.summarise` found.

    It loads nothing: style, script, pictures and the summary itself (as JSON, with at most 500
    rounds) are inside, and it shows everything without scripts too. The same summary gives the
    same page.

    Parameters
    ----------
    summary : the dict that ``summarise`` returned, also after a round trip through JSON

    Examples
    --------
    >>> import outrule
    >>> calibrator = outrule.DecisionCalibrator(outrule.BestAction(), [outrule.Fixed(1)])
    >>> calibrator = calibrator.fit(*outrule.worlds.two_arms(1_000, seed=0))
    >>> held_out = outrule.Instances.from_arrays(*outrule.worlds.two_arms(1_000, seed=1))
    >>> report(outrule.summarise(calibrator, held_out)).splitlines()[:2]
    ['<!doctype html>', '<html lang="en">']
    """
    summary = check_summary(summary, "report")
    shown = {**summary, "rounds": training.thinned(summary["rounds"])}
    data = json.dumps(shown, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    script = _part("page.js")
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    sections = [held_out.verdict(summary), *(write(summary) for _, write in SECTIONS.values())]
    return Template(_part("page.html")).substitute(
        title=text(f"{summary['verdict']['verdict'].capitalize()} · outrule report"),
        library=text(summary["library"]),
        style=_part("page.css"),
        hash=f"'sha256-{digest}'",
        links="\n".join(f'<a href="#{name}">{link}</a>' for name, (link, _) in SECTIONS.items()),
        body="\n".join(sections),
        data=data.translate(ESCAPES),
        script=script,
    )


def _part(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
