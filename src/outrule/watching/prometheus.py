"""The status of a watch in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Mapping

from outrule.watching.state import State
from outrule.watching.status import ORDER, WatchStatus

PREFIX = "outrule_watch_"


def metrics_text(status: WatchStatus, state: State) -> str:
    """Gauges and counters, for the textfile collector of the node exporter.

    Examples
    --------
    >>> line("gap", {"rival": 'the "old" rule'}, 0.25)
    'outrule_watch_gap{rival="the \\\\"old\\\\" rule"} 0.25'
    """
    model = {"model": state.model[:12]}
    status_rows = [({**model, "status": word}, float(word == status.status)) for word in ORDER]
    evidence = [({**model, "watched": part.watched}, part.evidence) for part in status.parts]
    families = {
        "status": ("gauge", "1 for the current status, 0 for the others.", status_rows),
        "batches_total": ("counter", "Batches counted.", [(model, float(status.n_batches))]),
        "observations_total": (
            "counter",
            "Observations counted.",
            [(model, float(state.n_observations))],
        ),
        "evidence": ("gauge", "Evidence against what is watched.", evidence),
        "alarm_level": ("gauge", "Evidence that raises an alarm.", [(model, status.level)]),
        "margin": ("gauge", "Margin, in the units of the value.", [(model, status.margin)]),
        "gap": (
            "gauge",
            "Mean difference to the closest rival since the start or the last acknowledgement.",
            [] if status.gap is None else [({**model, "rival": str(status.rival)}, status.gap)],
        ),
        "predicted": ("gauge", "Mean predicted value of decisions.", _one(model, status.predicted)),
        "realised": ("gauge", "Mean realised value of decisions.", _one(model, status.realised)),
    }
    lines = []
    for name, (kind, words, rows) in families.items():
        if rows:
            lines += [f"# HELP {PREFIX}{name} {words}", f"# TYPE {PREFIX}{name} {kind}"]
            lines += [line(name, labels, number) for labels, number in rows]
    return "\n".join(lines) + "\n"


def line(name: str, labels: Mapping[str, str], number: float) -> str:
    """One sample."""
    escapes = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
    shown = ",".join(f'{key}="{value.translate(escapes)}"' for key, value in labels.items())
    return f"{PREFIX}{name}{{{shown}}} {number!r}"


def _one(labels: dict[str, str], number: float | None) -> list[tuple[dict[str, str], float]]:
    return [] if number is None else [(labels, number)]
