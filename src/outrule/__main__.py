"""``python -m outrule``: the command line."""

from outrule.cli import run

run()
