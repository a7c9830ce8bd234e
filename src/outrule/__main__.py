"""``python -m outrule``: the command line."""

from outrule.cli import app

app(prog_name="outrule")
