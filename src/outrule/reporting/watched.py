"""The page of a watch: status first, then gap, evidence and predicted vs realised over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from outrule.reporting.answer import first_screen
from outrule.reporting.charts import MINUS, RAISED, Scale, Tick, chart, level, path
from outrule.reporting.markup import legend, section, terms, text, tile
from outrule.reporting.page import whole_page
from outrule.reporting.tables import Column, table
from outrule.watching.state import Row
from outrule.watching.status import WatchStatus
from outrule.watching.watch import Watch
from outrule.words import Figures, count

LOOKS = {"kept": "pass", "undecided": "inconclusive", "lost": "fail"}  # of a verdict of the report
SMOOTHED = 25  # a line is the mean over this share of the batches shown
LINKS = {
    "gap": "Gap",
    "evidence": "Evidence",
    "realised": "Predicted vs realised",
    "rivals": "Rivals",
    "reading": "How to read this page",
}
READING = {
    "Kept, undecided, lost": "Kept: the batches so far show with 95 % confidence that what is "
    "watched holds, and there is no alarm. Lost: the evidence against it has reached the level of "
    "the alarm; it stays lost until it is acknowledged. Undecided: neither.",
    "Evidence": "An e-detector: bets against what is watched, started anew with every batch and "
    "added up. While nothing is wrong it reaches the level of the alarm at most once per run "
    "length on average. A long healthy period does not make it slower.",
    "Since": "The batch from which the evidence is largest: an estimate of when the change began.",
    "Gap": "Value of the decisions minus that of a rival on the same instances. Each dot is one "
    "batch, against the rival with the most evidence before it.",
    "Estimated from a log": "Outcomes are known only for what was chosen, with propensities. Then "
    "gap and realised value are estimates (doubly robust) for what the model decides, and the "
    "bets are on estimates that are bounded on the side on which they could lose.",
    "Predicted vs realised": "What the decisions were predicted to be worth, and what they were.",
}


def watch_report(watch: Watch) -> str:
    """One self-contained HTML page of a ``outrule.Watch``; the same watch gives the same page.

    It shows the last 2,000 batches.

    Examples
    --------
    >>> import outrule
    >>> calibrator = outrule.DecisionCalibrator(outrule.BestAction(), [outrule.Fixed(1)])
    >>> calibrator = calibrator.fit(*outrule.worlds.two_arms(1_000, seed=0))
    >>> watch = outrule.Watch(calibrator)
    >>> _ = watch.update(*outrule.worlds.two_arms(1_000, seed=1))
    >>> watch_report(watch).splitlines()[:2]
    ['<!doctype html>', '<html lang="en">']
    """
    status, rows = watch.status, watch.state.history
    low, high = watch.model.value_range
    write = Figures.for_width((high - low) / 100, MINUS)
    sections = {
        "gap": _gap(watch, status, write) if watch.state.compares and rows else "",
        "evidence": _evidence(status, rows) if rows else "",
        "realised": _realised(status, rows, write) if rows else "",
        "rivals": _rivals(watch, write) if watch.state.compares and watch.state.n else "",
        "reading": section("reading", "How to read this page", "", terms(READING, "reading")),
    }
    links = {name: LINKS[name] for name, words in sections.items() if words}
    data = {**asdict(status), "sentence": status.sentence, "history": [r._asdict() for r in rows]}
    parts = [_head(watch, status, write), *filter(None, sections.values())]
    return whole_page(status.status.capitalize(), "watch", watch.state.library, links, parts, data)


def _head(watch: Watch, status: WatchStatus, write: Figures) -> str:
    """The status, large, with the numbers it is based on."""
    tiles: dict[str, Any] = {}
    if status.gap is not None:
        logged = ", estimated from a log" if status.feedback == "logged" else ""
        tiles["Gap so far"] = tile(write.signed(status.gap), f"to {status.rival}{logged}")
    if status.realised is not None and status.predicted is not None:
        predicted = f"predicted {write.plain(status.predicted)}"
        tiles["Realised so far"] = tile(write.plain(status.realised), predicted)
    tiles["Evidence"] = tile(_short(status.evidence), f"alarm at {status.level:,.0f}")
    last = "" if status.batch is None else f"up to batch {status.batch}"
    tiles["Counted"] = tile(count(watch.state.n_batches, "batch"), last)
    word, shown = status.status, terms(tiles, "tiles")
    return first_screen(LOOKS[word], word.capitalize(), status.sentence, shown)


def _gap(watch: Watch, status: WatchStatus, write: Figures) -> str:
    rows, margin = watch.state.history, watch.state.margin
    gaps = [row.gap or 0.0 for row in rows]
    up, across = Scale.over([0.0, -margin, *gaps]), _across(rows)
    smooth, window = _smoothed(rows, gaps), _window(rows)
    ours = f"mean of {window:,} batches" if window > 1 else "by batch"
    signs = {"ours line": ours, "dashed": f"margin, {write.signed(-margin)}", **_event_signs(rows)}
    drawn = [
        level("zero", up.share(0.0)),
        level("dashed", up.share(-margin)),
        path("specks", _points(across, up, gaps), dotted=True),
        path("curve", _points(across, up, smooth)),
        *_events(rows, across),
    ]
    title = "Gap by batch"
    words = f"{title}: {write.signed(smooth[-1])} recently; the margin is {write.signed(-margin)}."
    return section(
        "gap",
        "Gap to the closest rival",
        f"Since batch {status.first}, the smallest difference is to “{status.rival}”: "
        f"{write.signed(status.gap)}."
        if status.gap is not None
        else "",
        legend(signs),
        chart(title, words, ("batch", "gap"), (across, up), drawn, below=_keys(rows, across)),
    )


def _evidence(status: WatchStatus, rows: Sequence[Row]) -> str:
    series = {"Against “predicted is realised”": [row.against_predicted for row in rows]}
    if rows[-1].against_rivals is not None:
        series = {"Against “no rival is better”": [r.against_rivals or 0.0 for r in rows], **series}
    figures = [_logarithmic(title, found, status.level, rows) for title, found in series.items()]
    return section(
        "evidence",
        "Evidence",
        f"The alarm is raised at {status.level:,.0f}, which happens by mistake at most once in "
        f"{status.run_length:,} batches on average.",
        legend({"ours line": "evidence", "dashed": "alarm", **_event_signs(rows)}),
        f'<div class="pair">{"".join(figures)}</div>',
    )


def _logarithmic(title: str, found: Sequence[float], alarm: float, rows: Sequence[Row]) -> str:
    logs = [math.log10(max(one, 1.0)) for one in found]
    up, across = Scale(0.0, 1.06 * max(math.log10(alarm), *logs)), _across(rows)
    step = math.ceil(up.high / 5)
    ticks = [Tick(_power(n), up.share(n), minor=False) for n in range(0, int(up.high) + 1, step)]
    drawn = [
        level("dashed", up.share(math.log10(alarm))),
        path("curve", _points(across, up, logs)),
        *_events(rows, across),
    ]
    words = f"{title}: {_short(found[-1])} now; alarm at {alarm:,.0f}."
    below = _keys(rows, across, 3)
    axes = ("batch", "evidence")
    return chart(title, words, axes, (across, up), drawn, below=below, beside=ticks)


def _realised(status: WatchStatus, rows: Sequence[Row], write: Figures) -> str:
    predicted, realised = (
        _smoothed(rows, [getattr(row, name) for row in rows]) for name in ("predicted", "realised")
    )
    up, across = Scale.over([*predicted, *realised], 0.12), _across(rows)
    drawn = [
        path("other", _points(across, up, predicted)),
        path("curve", _points(across, up, realised)),
        *_events(rows, across),
    ]
    title = "Value of the decisions by batch"
    words = (
        f"{title}: predicted {write.plain(predicted[-1])}, realised {write.plain(realised[-1])}."
    )
    lead = ""
    if status.predicted is not None and status.realised is not None:
        short = status.predicted - status.realised
        lead = (
            f"Since batch {status.first}, decisions were worth {write.plain(abs(short))} "
            f"{'less' if short >= 0 else 'more'} than predicted; "
            f"{write.plain(status.margin)} is tolerated."
        )
    return section(
        "realised",
        "Predicted vs realised",
        lead,
        legend({"line": "predicted", "ours line": "realised", **_event_signs(rows)}),
        chart(title, words, ("batch", "value"), (across, up), drawn, below=_keys(rows, across)),
    )


def _rivals(watch: Watch, write: Figures) -> str:
    state = watch.state
    evidence = state.detectors().evidence()
    found = [
        {"name": name, "gap": claim.sum / state.weight, "evidence": float(against)}
        for name, claim, against in zip(watch.rivals, state.claims, evidence, strict=False)
    ]
    columns = [
        Column("Rival", lambda row: text(row["name"]), "text"),
        Column("Gap so far", lambda row: write.signed(row["gap"]), order="ascending"),
        Column("Evidence", lambda row: _short(row["evidence"])),
    ]
    return section(
        "rivals",
        "Every rival",
        "",
        table("rivals", "Every rival", columns, sorted(found, key=lambda r: r["gap"]), "rivals"),
        note="The alarm is raised by the mean of the evidence over all rivals.",
    )


def _across(rows: Sequence[Row]) -> Scale:
    return Scale(0.0, max(len(rows) - 1, 1))


def _points(across: Scale, up: Scale, found: Sequence[float]) -> list[tuple[float, float]]:
    return [(across.share(i), up.share(y)) for i, y in enumerate(found)]


def _window(rows: Sequence[Row]) -> int:
    return max(1, len(rows) // SMOOTHED)


def _smoothed(rows: Sequence[Row], found: Sequence[float]) -> list[float]:
    """The mean over the last batches up to each, by weight."""
    window = _window(rows)
    means = []
    for last in range(1, len(rows) + 1):
        some = range(max(0, last - window), last)
        total = sum(rows[i].weight for i in some)
        means.append(sum(rows[i].weight * found[i] for i in some) / total)
    return means


def _events(rows: Sequence[Row], across: Scale) -> list[str]:
    """Vertical lines where an alarm began, and where one was acknowledged."""
    drawn = []
    for i, row in enumerate(rows):
        before = i > 0 and rows[i - 1].status == "lost" and not rows[i - 1].acknowledged
        if row.status == "lost" and not before:
            drawn.append(path("alarm", [(across.share(i), 0.0), (across.share(i), 1.0)]))
        if row.acknowledged:
            drawn.append(path("zero", [(across.share(i), 0.0), (across.share(i), 1.0)]))
    return drawn


def _event_signs(rows: Sequence[Row]) -> dict[str, str]:
    signs = {"alarm line": "alarm raised"} if any(row.status == "lost" for row in rows) else {}
    acknowledged = {"soft line": "acknowledged"} if any(row.acknowledged for row in rows) else {}
    return signs | acknowledged


def _keys(rows: Sequence[Row], across: Scale, most: int = 5) -> list[Tick]:
    """Keys of batches as labels, evenly spaced."""
    step = max(1, math.ceil(len(rows) / most))
    return [
        Tick(text(str(rows[i].batch)[:16].replace("T", " ")), across.share(i), minor=number % 2 > 0)
        for number, i in enumerate(range(0, len(rows), step))
    ]


def _power(exponent: int) -> str:
    return f"{10**exponent:,}" if exponent < 4 else f"10{str(exponent).translate(RAISED)}"


def _short(number: float) -> str:
    return (
        f"{number:,.3g}" if number < 1e3 else f"{number:,.0f}" if number < 1e6 else f"{number:.1e}"
    )
