"""``python -m outrule``: the command line."""

from outrule.command_line import app

app(prog_name="outrule")
