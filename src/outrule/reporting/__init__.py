"""The HTML report. Not called ``report``, because ``outrule.report`` is the function below."""

from collections.abc import Mapping
from typing import Any

from outrule.reporting import cards, held_out, training
from outrule.reporting.page import whole_page
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
    return whole_page(
        summary["verdict"]["verdict"],
        "report",
        summary["library"],
        {name: link for name, (link, _) in SECTIONS.items()},
        [held_out.verdict(summary), *(write(summary) for _, write in SECTIONS.values())],
        shown,
    )
