"""The HTML report. Not called ``report``, because ``outrule.report`` is the function below."""

import datetime
from collections.abc import Mapping
from typing import Any

from outrule.errors import refuse_argument
from outrule.proof.statement import Certificate
from outrule.reporting import cards, held_out, segments, training
from outrule.reporting.answer import answer
from outrule.reporting.page import whole_page
from outrule.reporting.summary import check_summary, of_certificate

# The sections after the answer: their ids, their links in the header, what writes them, and the
# part of the summary that they need.
SECTIONS = {
    "values": ("Values", held_out.values, "values"),
    "forest": ("Rivals", held_out.forest, "rules"),
    "segments": ("Segments", segments.segments, "segments"),
    "realised": ("Predicted vs realised", held_out.realised, "promises"),
    "violations": ("Violations", held_out.violations, "violations"),
    "rounds": ("Rounds", training.rounds, "rounds"),
    "ledger": ("Patches", training.ledger, "ledger"),
    "cards": ("Data and model", cards.cards, "data"),
    "reading": ("How to read this page", cards.reading, "answer"),
}
APPENDIX = "violations"  # the first section of it


def report(
    summary: Mapping[str, Any] | Certificate,
    *,
    model: str = "",
    table: str = "",
    date: datetime.date | None = None,
) -> str:
    """One self-contained HTML page that answers "Deploy?", and shows what supports the answer.

    It loads nothing: style, script, pictures and the summary itself (as JSON, with at most 500
    rounds) are inside, and it shows everything without scripts too. The same arguments give the
    same page.

    Parameters
    ----------
    summary : what ``outrule.summarise`` returned, also after a round trip through JSON
        Or a Certificate, for a page without the rules' definitions, the training and the data.
    model, table : str
        What to call the model and the data: the names of their files, say.
    date : datetime.date; default today

    Examples
    --------
    >>> import outrule
    >>> calibrator = outrule.DecisionCalibrator(outrule.BestAction(), [outrule.Fixed(1)])
    >>> calibrator = calibrator.fit(*outrule.worlds.two_arms(1_000, seed=0))
    >>> held_out = outrule.Instances.from_arrays(*outrule.worlds.two_arms(1_000, seed=1))
    >>> report(outrule.summarise(calibrator, held_out)).splitlines()[:2]
    ['<!doctype html>', '<html lang="en">']
    """
    if isinstance(summary, Certificate):
        summary = of_certificate(summary)
    summary = check_summary(summary, "report")
    about = _about(model, table, date or datetime.date.today())
    shown = dict(summary)
    if "rounds" in summary:
        shown["rounds"] = training.thinned(summary["rounds"])
    links, sections = {}, [answer(summary, about)]
    for name, (link, write, part) in SECTIONS.items():
        if name == APPENDIX:
            sections.append('<h2 class="appendix">Appendix</h2>')
        if part in summary:
            links[name] = link
            sections.append(write(summary))
    title = " · ".join([summary["answer"]["question"], *about[:1]])
    return whole_page(title, "report", summary["library"], links, sections, shown)


def _about(model: Any, table: Any, date: Any) -> list[str]:
    """What was judged, and when."""
    for name, value, kind, expected in (
        ("model", model, str, "a str"),
        ("table", table, str, "a str"),
        ("date", date, datetime.date, "a datetime.date or None"),
    ):
        if not isinstance(value, kind):
            raise refuse_argument(value, name, "report", expected)
    judged = f"{model} on {table}" if model and table else model or table
    return [*([judged] if judged else []), f"{date:%Y-%m-%d}"]
