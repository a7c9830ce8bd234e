"""Measured by ``python benchmarks/scale.py --write-costs``, which writes this file."""

COSTS = {
    "read": 3e-07,  # seconds per row: read, and check values and names
    "start": 4.6e-06,  # per row of the sample
    "build": 5.8e-07,  # per row, besides decisions
    "decide": 1.6e-09,  # per row and rule
    "round": 8.8e-09,  # per row
    "predict": 3.6e-07,  # per row: read, predict and write
    "memory": 3.5e08,  # bytes, however few the data
    "memory_row": 2.7e02,  # per row of the sample
}
