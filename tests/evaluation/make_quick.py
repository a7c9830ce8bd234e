"""Writes quick.json, the numbers of ``outrule reproduce --quick`` that test_reproduce.py expects.

python tests/evaluation/make_quick.py FOLDER
"""

import json
import sys
from pathlib import Path

from test_reproduce import GOLDEN, digest

from outrule.evaluation.results import read_results

if __name__ == "__main__":
    rows = digest(read_results(Path(sys.argv[1])))  # of the whole quick grid, or more
    tables = [
        f' "{name}": [\n' + ",\n".join(f"  {json.dumps(row)}" for row in table) + "\n ]"
        for name, table in rows.items()
    ]
    GOLDEN.write_text("{\n" + ",\n".join(tables) + "\n}\n", encoding="utf-8")
