"""What parts of a fit cost, for ``outrule plan``: benchmarks/scale.py --write-costs writes it."""

COSTS = {
    "read": 2.8e-07,  # seconds per row: read, and check values and names
    "start": 5.8e-06,  # per row of the sample
    "build": 5.7e-07,  # per row, besides decisions
    "decide": 1.5e-09,  # per row and rule
    "round": 8.3e-09,  # per row
    "predict": 3.8e-07,  # per row: read, predict and write
    "memory": 3.5e08,  # bytes, however few the data
    "memory_row": 2.9e02,  # per row of the sample
}
