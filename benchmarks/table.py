"""A million instances of ten items and 20 rules as text, from a Parquet file to a model file.

python benchmarks/table.py [INSTANCES]
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

import outrule
from outrule.calibration.audit import prepare
from outrule.data.table_files import read_table

N_ITEMS = 10
SPEC = """
epsilon = 0.005
[problem]
kind = "best action"
[data]
instance = "trip"
prediction = "score"
outcome = "completed"
""" + "".join(
    f"""
[[rules]]
name = "rule {i}"
weight = "CASE WHEN km > {1 + i / 4} AND rain THEN {0.95 - 0.04 * i:.2f} * score ELSE score END"
"""
    for i in range(20)
)


def write(path: Path, n: int) -> None:
    generator = np.random.default_rng(0)
    rows = n * N_ITEMS
    km, score = generator.gamma(2.0, 1.2, rows).astype(np.float32), generator.random(rows)
    rain = np.repeat(generator.random(n) < 0.3, N_ITEMS)
    truth = np.clip(score - 0.08 * km * rain, 0, 1)
    frame = {
        "trip": np.repeat(np.arange(n), N_ITEMS),
        "score": score,
        "km": km,
        "rain": rain,
        "completed": generator.random(rows) < truth,
    }
    pl.DataFrame(frame).write_parquet(path)


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        table, spec_path = Path(folder, "trips.parquet"), Path(folder, "spec.toml")
        spec_path.write_text(SPEC)
        spec = outrule.read_spec(spec_path)
        write(table, 1000)  # compiles
        few = spec.instances(read_table(table))
        outrule.DecisionCalibrator.from_spec(spec, few).fit(few)
        write(table, n)
        clock = [time.perf_counter()]
        instances = spec.instances(read_table(table))
        clock.append(time.perf_counter())
        calibrator = outrule.DecisionCalibrator.from_spec(spec, instances)
        prepare(instances, calibrator.problem, calibrator.rules)
        clock.append(time.perf_counter())
        calibrator.fit(instances)
        clock.append(time.perf_counter())
        calibrator.save(Path(folder, "model.json"))
    reading, rules, fit = np.diff(clock)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{n:,} instances x {N_ITEMS} items, 20 rules; {len(calibrator.patches_)} patches")
    print(f"reading {reading:.1f} s, rules {rules:.1f} s, fit without them {fit - rules:.1f} s")
    print(f"peak memory {peak:.2f} GiB")


if __name__ == "__main__":
    main()
