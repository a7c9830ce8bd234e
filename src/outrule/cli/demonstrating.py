"""`outrule demo` and `outrule example`: synthetic worlds to look at, and to try commands on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from outrule.cli.talking import drawn, refusals, say, waiting

if TYPE_CHECKING:
    from outrule.demos.world import DemoResult


def example(
    folder: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("example"),
) -> None:
    """Write tables of trips and a spec, to try the other commands on.

    \b
    outrule example trips
    """
    with refusals():
        from outrule.demos.example import write_example

        for path in write_example(folder):
            say(str(path))


def demo(
    name: Annotated[str, typer.Argument(help="best-action, matching or two-arms.")] = "best-action",
    as_json: Annotated[bool, typer.Option("--json", help="Print the certificate as JSON.")] = False,
) -> None:
    """Calibrate and certify a synthetic world.

    \b
    outrule demo matching
    """
    with refusals():
        from outrule.demos import world as demos

        if name not in demos.DEMOS:
            raise typer.BadParameter(f"{name!r} is none of {', '.join(demos.DEMOS)}.")
        with waiting(f"calibrating {name}"):
            result = demos.run(name)
        if as_json:
            say(json.dumps(json.loads(result.certificate.to_json()), indent=1))
        else:
            _show(result)


def _show(result: DemoResult) -> None:
    from outrule.cli.tables import baselines

    certificate, calibrator = result.certificate, result.calibrator
    table = baselines(certificate, result.from_isotonic.calibrated)
    table.title, table.title_justify = result.demo.title, "left"
    before, after = certificate.promise_before, certificate.promise_after
    say(
        drawn(
            table,
            f"promised and kept: {before.predicted:.4f} and {before.realised:.4f} before, "
            f"{after.predicted:.4f} and {after.realised:.4f} after",
            f"{len(calibrator.patches_)} patches, {calibrator.status_.value}",
            f"certificate: {certificate}",
        )
    )
