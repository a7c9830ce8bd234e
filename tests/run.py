"""Everything a change must pass: lint, format, layers, types, tests. Run it from the root."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

HOSTILE = "tests/kernels/test_hostile_bits.py"
LAYERS = "from importlinter.cli import lint_imports_command; lint_imports_command()"
COMMANDS = (
    ("-m", "ruff", "check", "."),
    ("-m", "ruff", "format", "--check", "."),
    ("-c", LAYERS, "--no-logo"),
    ("-m", "mypy"),
    ("-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal", "--durations=15"),
    ("-m", "pytest", "-q", "-n", "auto", "-W", "ignore:Cannot cache", HOSTILE),
)
# The last command runs compiled code with checks of every index, which is compiled for it alone.
CHECKED = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_OPT": "0"}

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as cache:
        for command in COMMANDS:
            checked = CHECKED | {"NUMBA_CACHE_DIR": cache} if command is COMMANDS[-1] else {}
            print("$", *(f"{name}={value}" for name, value in checked.items()), "python", *command)
            sys.stdout.flush()
            surroundings = os.environ | checked
            result = subprocess.run([sys.executable, *command], env=surroundings, check=False)
            if result.returncode:
                sys.exit(result.returncode)
