"""`outrule fit`: calibrate on a table, as a spec says, and write a model file."""

from __future__ import annotations

import json
from dataclasses import asdict
from shlex import quote
from typing import Annotated

import typer

import outrule
from outrule.cli.options import SCRATCH, SPEC, check_for_folder, check_output, finish, number
from outrule.cli.talking import printable, say, waiting
from outrule.errors import DataError
from outrule.files import STANDARD, is_folder


def fit(
    table: Annotated[
        str,
        typer.Argument(
            help='One row per item, or a folder of Parquet files; "-" reads standard input.'
        ),
    ],
    spec: SPEC,
    output: Annotated[str, typer.Option("--output", "-o", metavar="MODEL", help="File to write.")],
    epsilon: Annotated[
        float | None,
        typer.Option(
            parser=number, help="Overrides that of the spec; in the units of the outcome."
        ),
    ] = None,
    refits: Annotated[
        int,
        typer.Option(min=0, help="Refit this many times, and report how many decisions change."),
    ] = 0,
    sample: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="For a folder: fit the start on at most this many instances.",
            show_default="1,000,000",
        ),
    ] = None,
    scratch: SCRATCH = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="For a folder: progress of the loop, to continue after a kill."
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="For a folder: Dask cluster to fit on."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON.")] = False,
    key: Annotated[
        str | None, typer.Option(metavar="FILE", help="Sign the model with this secret key.")
    ] = None,
) -> None:
    """Calibrate predictions against rules.

    The table has one row per item, with its prediction and its outcome; the spec names the columns
    and the rules. Fitting changes the predictions until the plain optimiser on them is at least as
    good as the best rule on this table, minus at most epsilon; without an epsilon, as nearly as the
    data can tell. Certify it on later data before you rely on it.

    \b
    outrule fit past.parquet --spec spec.toml -o model.json

    \b
    spec.toml (`outrule example` writes a longer one, with a table):
      problem = {kind = "assignment", rows = "rider", columns = "driver"}
      data = {instance = "batch_id", prediction = "score", outcome = "completed"}
      [[rules]]
      name = "no long pickups"
      weight = "CASE WHEN pickup_km > 3 THEN 0.5 * score ELSE score END"

    A folder (or a quoted pattern) of Parquet files need not fit into memory: what the loop needs is
    kept on disk, in the scratch folder.

    \b
    outrule fit 2025/ --spec spec.toml -o model.json --scratch /mnt/disk

    \b
    --json prints one object with the keys model, instances, rows, rules, rounds,
    patches, status, epsilon, tolerance, reached (a sentence), best_rule, values
    (plain, best_rule and calibrated: means per instance of this table) and warnings; with
    --refits also stability (share_changed, value_spread, n_refits), with segments also those;
    for a large folder also sample, the number of instances that the values are means of; for
    a log of chosen items also note, on how far to trust the values.
    """
    check_output(output, (table, spec, key), as_json=as_json)
    with waiting("calibrating"):
        from outrule.cli.work import files, fitting as work  # loads Polars and Numba
        from outrule.model.codec import to_text

        secret = files.open_key(key)
        where = {"scratch": scratch, "checkpoint": checkpoint, "scheduler": scheduler}
        if is_folder(table):
            if refits:
                raise DataError("--refits is not supported for a folder: use a part of the data.")
            most = 1_000_000 if sample is None else sample
            model, instances, sizes = work.fit_folder(table, spec, epsilon, most, **where)
        else:
            check_for_folder(sample=sample, **where)
            model, instances = work.fit_table(table, spec, epsilon)
            sizes = {}
        summary = {"model": output, **work.summarise(model, instances), **sizes}
        shown = work.shown(model, summary, err=output == STANDARD)
        if refits:
            stability = outrule.stability(model, instances, n_refits=refits)
            summary["stability"] = asdict(stability)
            shown += f"\n{stability}"
    for words in summary["warnings"]:
        say(f"Warning: {printable(words)}", err=True)
    shown = json.dumps(summary, indent=1) if as_json else shown
    then = f". Next: outrule certify {quote(output)} LATER_TABLE -o certificate.json"
    finish(to_text(model, secret), output, shown, as_json=as_json, then=then)
