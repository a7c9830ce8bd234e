"""Everything a change must pass: lint, format, layers, types, tests. Run it from the root."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HOSTILE = "tests/kernels/test_hostile_bits.py"
LAYERS = "from importlinter.cli import lint_imports_command; lint_imports_command()"
QUICK = (
    ("-m", "ruff", "check", "."),
    ("-m", "ruff", "format", "--check", "."),
    ("-c", LAYERS, "--no-logo"),
)
TYPES = ("-m", "mypy")
TESTS = ("-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal", "--durations=15")
# Compiled code with checks of every index; what Numba can keep of it is kept apart.
CHECKED = ("-m", "pytest", "-q", "-n", "auto", "-W", "ignore:Cannot cache", HOSTILE)
CHECKS = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_OPT": "0"}
CACHE = Path(".pytest_cache", "checked-kernels").absolute()


def run(command: tuple[str, ...], **changes: str) -> None:
    """Run a command of this Python, and exit if it fails."""
    print("$", *(f"{name}={value}" for name, value in changes.items()), "python", *command)
    sys.stdout.flush()
    surroundings = os.environ | changes
    if code := subprocess.run([sys.executable, *command], env=surroundings, check=False).returncode:
        sys.exit(code)


if __name__ == "__main__":
    for quick in QUICK:
        run(quick)
    # The type checker has one thread: it runs beside the tests.
    types = subprocess.Popen([sys.executable, *TYPES], stdout=subprocess.PIPE, text=True)
    run(TESTS)
    run(CHECKED, NUMBA_CACHE_DIR=str(CACHE), **CHECKS)
    print("$ python", *TYPES)
    print(types.communicate()[0], end="")
    sys.exit(types.returncode)
