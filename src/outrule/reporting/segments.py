"""The section about segments: one line for each, the worst first, and every rule in every one."""

from __future__ import annotations

from typing import Any

from outrule.proof.advice import PHRASES
from outrule.proof.answer import Answer
from outrule.proof.statement import Certificate
from outrule.reporting.charts import MINUS, Scale
from outrule.reporting.held_out import name_of_test
from outrule.reporting.markup import Facts, figures, legend, section, text
from outrule.reporting.tables import Column, picture, table
from outrule.words import begun, count, figure, plural

MOST_RIVALS = 30  # of the heat map: those that are nearest to being better somewhere


def segments_of(certificate: Certificate, answer: Answer) -> dict[str, Any]:
    """The part of a summary about segments; nothing where none were asked for."""
    if not certificate.segments:
        return {}
    short = {PHRASES[name]: name for name in ("plain", "isotonic")}
    rows = [
        {
            "name": segment.name,
            **{name: value for name, value in vars(segment).items() if name != "columns"},
            "columns": list(segment.columns),
            "value": None if segment.value is None else list(segment.value),
            "differences": list(segment.differences),
            "best_rival": short.get(segment.best_rival, answer.name(segment.best_rival)),
            "more": segment.more,
        }
        for segment in sorted(certificate.segments, key=lambda one: one.gap_lower)
    ]
    names = [answer.name(rule.name) for rule in certificate.rules]
    rivals = [*names, *short.values()]
    return {"segments": {"rows": rows, "rivals": rivals, "note": answer.segments_note}}


def segments(summary: Facts) -> str:
    """The forest of the segments, and the heat map of rivals by segments."""
    found, write, margin = summary["segments"], figures(summary), summary["verdict"]["margin"]
    rows, unit = found["rows"], summary["verdict"]["unit"]
    rules = [row["name"] for row in summary["rules"]]
    best = {row["best_rival"]: name_of_test(row["best_rival"], rules) for row in rows}
    ends = [end for row in rows for end in (row["gap"], row["gap_lower"])]
    scale = Scale.over([0.0, -margin, *ends])

    def draw(row: Facts) -> str:
        band = scale.line(scale.low, -margin, "band")
        line = scale.line(row["gap_lower"], row["gap"])
        drawn = line + scale.judged(row["gap"], row["verdict"])
        return band + (f'<g class="fail">{drawn}</g>' if row["verdict"] == "fail" else drawn)

    columns = [
        Column("Segment", lambda row: text(row["name"]), "text"),
        picture(scale, draw, "difference to its best rival", zero=0.0, margin=-margin),
        Column("Difference", lambda row: write.signed(row["gap"])),
        Column("At least", lambda row: write.down(row["gap_lower"], "+"), order="ascending"),
        Column("Best rival there", lambda row: text(best[row["best_rival"]]), "text"),
        Column(text(begun(plural(unit))), lambda row: f"{row['n_observations']:,}"),
        Column("More needed", lambda row: "—" if row["more"] is None else f"{row['more']:,}"),
        Column("Verdict", lambda row: text(row["verdict"]), "word"),
    ]
    signs = {
        "dot": "at least as good as the segment's best rival, minus the margin",
        "hollow dot": "too little data to decide",
        "square": "a rival is better there",
        "dashed": f"margin, {MINUS}{figure(margin)}; grey is below it",
    }
    return section(
        "segments",
        "Inside every segment",
        _lead(rows),
        legend(signs),
        table("segments", "Every segment, the smallest lower bound first", columns, rows),
        _heat(found, [name_of_test(name, rules) for name in found["rivals"]], write, margin),
        note=f"Segments: {found['note']} A line reaches from the lower bound to the difference.",
    )


def _lead(rows: list[Facts]) -> str:
    passed = sum(row["verdict"] == "pass" for row in rows)
    words = f"{passed} of {count(len(rows), 'segment')} {'passes' if passed == 1 else 'pass'}"
    failed = [row["name"] for row in rows if row["verdict"] == "fail"]
    if failed:
        words += f", {len(failed)} {'fails' if len(failed) == 1 else 'fail'}: {', '.join(failed)}"
    return f"{words}."


def _heat(found: Facts, names: list[str], write: Any, margin: float) -> str:
    """A table of rivals by segments, the stronger coloured the better the rival.

    What is far inside the margin is hardly coloured.
    """
    rows = found["rows"]
    worst = [min(row["differences"][i] for row in rows) for i in range(len(names))]
    shown = sorted(range(len(names)), key=worst.__getitem__)[:MOST_RIVALS]
    deepest = max(-min(worst), margin, 1e-300)

    def cell(row: Facts, number: float) -> str:
        share = 100 * min(max(-number / deepest, 0.0), 1.0)
        of = text(row["name"])  # shown beside it on a phone
        return f'<td data-of="{of}" style="--share:{share:.0f}%">{write.signed(number)}</td>'

    head = "".join(f'<th scope="col">{text(row["name"])}</th>' for row in rows)
    body = "".join(
        f'<tr><th scope="row">{text(names[i])}</th>'
        + "".join(cell(row, row["differences"][i]) for row in rows)
        + "</tr>\n"
        for i in shown
    )
    some = f" ({len(shown)} of {len(names)} rivals)" if len(shown) < len(names) else ""
    title = f"Difference to every rival in every segment{some}; coloured where the rival is better"
    return (
        f'<div class="wide" role="region" tabindex="0" aria-label="{text(title)}">\n'
        f'<table class="heat">\n<caption>{text(title)}</caption>\n'
        f'<thead><tr><th scope="col">Rival</th>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n'
        "</table>\n</div>"
    )
