"""Everything a change must pass: lint, format, layers, types, tests. Run it from the root."""

from __future__ import annotations

import subprocess
import sys

LAYERS = "from importlinter.cli import lint_imports_command; lint_imports_command()"
COMMANDS = (
    ("-m", "ruff", "check", "."),
    ("-m", "ruff", "format", "--check", "."),
    ("-c", LAYERS, "--no-logo"),
    ("-m", "mypy"),
    ("-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal", "--durations=15"),
)

if __name__ == "__main__":
    for command in COMMANDS:
        print("$ python", *command, flush=True)
        result = subprocess.run([sys.executable, *command], check=False)
        if result.returncode:
            sys.exit(result.returncode)
