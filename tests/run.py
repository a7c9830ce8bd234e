"""Everything a change must pass: lint, format, types, tests. Run it from the repository's root."""

from __future__ import annotations

import subprocess
import sys

COMMANDS = (
    ("ruff", "check", "."),
    ("ruff", "format", "--check", "."),
    ("mypy",),
    ("pytest", "-q", "--durations=10"),
)

if __name__ == "__main__":
    for command in COMMANDS:
        print("$", *command, flush=True)
        result = subprocess.run([sys.executable, "-m", *command], check=False)
        if result.returncode:
            sys.exit(result.returncode)
