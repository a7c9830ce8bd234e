"""The rows of the default method in docs/evaluation, computed again after that method has changed.

    pip install -e '.[plots]'
    python benchmarks/renew_default.py && outrule reproduce --redraw -o docs/evaluation

All other rows of the evaluation are those of Algorithm 1, which no change of the default touches.
A row is a function of its unit alone, so it is the one that a whole `outrule reproduce` would find.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import polars as pl

from outrule.evaluation.cases import EQUAL, HeldOut, make_case
from outrule.evaluation.grid import Unit
from outrule.evaluation.results import TABLES, read_results, write_results
from outrule.evaluation.units import default_row

FOLDER = Path(__file__).parents[1] / "docs" / "evaluation"
KEYS = ("problem", "n_items", "regime", "seed")


def main() -> None:
    results = read_results(FOLDER)
    grid, runs = results.grid, []
    for key, rows in results.runs.group_by(*KEYS, maintain_order=True):
        unit = Unit(*key)
        case = make_case(unit, grid.n_rules)
        size = min(grid.equal_batches)
        instances = case.instances(size * grid.rounds, EQUAL, size)
        row = asdict(unit) | default_row(instances, case, HeldOut(case, grid.n_test))
        schema = TABLES["runs"]
        new = pl.DataFrame({name: [row.get(name)] for name in schema}, schema=schema)
        place = rows["check"].to_list().index("default method")
        print(f"{unit.name}: {rows['value'][place]:.4f} -> {new['value'][0]:.4f}", flush=True)
        runs += [rows[:place], new, rows[place + 1 :]]
    write_results(replace(results, runs=pl.concat(runs)), FOLDER)


if __name__ == "__main__":
    main()
