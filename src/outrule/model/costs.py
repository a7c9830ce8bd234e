"""Measured by ``python benchmarks/scale.py --write-costs``, which writes this file."""

COSTS = {
    "read": 1e-06,  # seconds per row: read, and check values and names
    "start": 3.6e-05,  # per row of the sample
    "build": 2.5e-06,  # per row, besides decisions
    "decide": 8.8e-09,  # per row and rule
    "round": 2.9e-08,  # per row
    "predict": 1.6e-06,  # per row: read, predict and write
    "memory": 3.5e08,  # bytes, however few the data
    "memory_row": 3.7e02,  # per row of the sample
}
