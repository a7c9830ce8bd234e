"""What a demo says of its calibrator and its certificate."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

from outrule.cli.work.judging import answer_of, values_table
from outrule.demos import real
from outrule.estimators.calibrator import DecisionCalibrator
from outrule.proof.confidence import Estimate
from outrule.proof.statement import Certificate
from outrule.words import count


def shown(
    calibrator: DecisionCalibrator, certificate: Certificate, paper: Estimate | None = None
) -> str:
    """The values, predicted vs realised, how far the fit came, and the verdict."""
    answer, members = answer_of(calibrator.model_, certificate), calibrator.model_.members
    before, after = certificate.promise_before, certificate.promise_after
    n_trees = sum(len(one.trees.values) for one in members if one.trees is not None)
    n_curves = sum(len(one.patches) for one in members)
    return (
        f"{values_table(answer, paper)}\n"
        f"predicted vs realised: {before.predicted:.4f} vs {before.realised:.4f} before "
        f"calibration, {after.predicted:.4f} vs {after.realised:.4f} after\n"
        f"{count(n_trees, 'tree')} and {count(n_curves, 'curve')} before the loop, "
        f"{count(len(calibrator.patches_), 'patch')} in it, "
        f"{calibrator.status_.value}\n{calibrator.model_.reached}\n"
        f"{answer.text}"
    )


def told(outcome: real.Outcome, folder: Path) -> str:
    """The story of a demo on real data, what it found, and how to go on."""
    demo, lines = outcome.demo, [outcome.story, f"Data: {outcome.demo.source}.", ""]
    lines.append(shown(outcome.calibrator, outcome.certificate))
    if outcome.watched is not None:
        lines += ["", f"Watched after that, day by day: {outcome.watched}"]
    names = (real.PAST, real.LATER, real.SPEC, real.MODEL, real.CERTIFICATE, real.REPORT)
    past, later, spec, model, certificate, page = (quote(str(folder / name)) for name in names)
    most = ""
    if demo.max_weight is not None:
        size, why = demo.max_weight
        most = f" --max-weight {size:g}"
        lines += ["", f"Largest weight of a cluster: {size:g} ({why})."]
    lines += [
        "",
        f"Open {folder / real.REPORT}. The same, step by step:",
        f"  outrule fit {past} --spec {spec} -o {model}",
        f"  outrule certify {model} {later}{most} -o {certificate}",
        f"  outrule report {model} {later}{most} -o {page}",
    ]
    if demo.batches is not None:
        state = f"{quote(str(folder / 'new-watch.json'))} --batch-column {demo.batches}"
        lines.append(f"  outrule watch {model} {later}{most} --state {state}")
    return "\n".join(lines)
