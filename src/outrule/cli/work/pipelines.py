"""What `outrule certify` writes for pipelines: JUnit XML, and a summary in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from outrule.proof.answer import Answer
from outrule.words import harmless

MARKUP = re.compile(r"([\\`*_\[\]|~#]|:(?=//)|(?<=www)\.)")


def junit(answer: Answer, model: str) -> str:
    """One test case for the rules, for plain and for isotonic; an open verdict is skipped.

    Names of cases are the same in every run; the rule in question is in the message.
    """
    found = answer.certificate
    verdicts = list(found.verdicts.values())
    numbers = {
        "tests": len(verdicts),
        "failures": verdicts.count("fail"),
        "errors": 0,
        "skipped": verdicts.count("inconclusive"),
    }
    counts = {name: str(number) for name, number in numbers.items()}
    suites = Element("testsuites", counts)
    suite = SubElement(suites, "testsuite", {"name": "outrule certify", **counts})
    for (kind, verdict), line in zip(found.verdicts.items(), answer.against, strict=True):
        given = {"classname": f"outrule.{harmless(model)}", "name": f"at least as good as {kind}"}
        case = SubElement(suite, "testcase", given)
        words = harmless(f"{line.verdict} against {line.rival}: {line.words}")
        if verdict == "fail":
            SubElement(case, "failure", {"message": words, "type": verdict})
        elif verdict == "inconclusive":
            SubElement(case, "skipped", {"message": words})
        SubElement(case, "system-out").text = words
    SubElement(suite, "system-out").text = harmless(answer.text, "\n")
    indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(suites, encoding="unicode") + "\n"


def markdown(answer: Answer, values: Iterable[tuple[str, str, str]], title: str) -> str:
    """The first screen of the report, and the values, as Markdown that names cannot break."""
    found = answer.certificate
    against = [(line.rival, line.verdict, line.words) for line in answer.against]
    rest = (answer.worth_sentence, answer.margin, answer.feedback, answer.warning, *found.notes)
    sections = [
        f"## {_plain(title)}: {_plain(answer.question)}",
        f"**{found.verdict}**: {_plain(answer.sentence)}",
        _table(("against", "verdict", "difference"), against),
        _table(("decisions by", "held-out value", f"{answer.confidence} interval"), values),
        "\n".join(f"- {_plain(words)}" for words in rest if words),
        _plain(answer.next_step),
    ]
    return "\n\n".join(sections) + "\n"


def _table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [titles, ("---",) * len(titles)]
    cells = [[_plain(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in [*lines, *cells])


def _plain(text: str) -> str:
    """Text that Markdown shows as it is, without links or HTML."""
    safe = harmless(text).replace("&", "&amp;").replace("<", "&lt;")
    return MARKUP.sub(r"\\\1", safe)
