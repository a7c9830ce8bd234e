"""`outrule demo` and `outrule example`: synthetic data to look at, and to try the commands on."""

from pathlib import Path
from typing import Annotated

import typer

from outrule.cli.judging import values_table
from outrule.cli.talking import say, waiting
from outrule.words import count


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
    name: Annotated[str, typer.Argument(help="best-action, matching or two-arms.")] = "best-action",
    as_json: Annotated[bool, typer.Option("--json", help="Print the certificate as JSON.")] = False,
) -> None:
    """Calibrate and certify on synthetic data.

    \b
    outrule demo matching
    """
    from outrule.demos import world as demos
    from outrule.proof.answer import Answer
    from outrule.rules.descriptions import full_name

    if name not in demos.DEMOS:
        raise typer.BadParameter(f"there is no demo {name!r}; choose {', '.join(demos.DEMOS)}.")
    with waiting(f"calibrating {name}"):
        result = demos.run(name)
    certificate, calibrator = result.certificate, result.calibrator
    names = {rule.name: full_name(rule) for rule in result.demo.rules}
    answer = Answer(certificate, names)
    if as_json:
        say(certificate.to_json())
        return
    before, after = certificate.promise_before, certificate.promise_after
    say(
        f"{result.demo.title}\n{values_table(answer, result.paper.calibrated)}\n"
        f"predicted vs realised: {before.predicted:.4f} vs {before.realised:.4f} before "
        f"calibration, {after.predicted:.4f} vs {after.realised:.4f} after\n"
        f"{count(sum(len(one.patches) for one in calibrator.model_.members), 'curve')} before the "
        f"loop, {count(len(calibrator.patches_), 'patch')} in it, "
        f"{calibrator.status_.value}\n{calibrator.model_.reached}\n"
        f"{answer.text}"
    )
