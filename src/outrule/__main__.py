"""The command from the shell, which says in a sentence why it cannot start."""

import sys
from contextlib import suppress

CANNOT_START = 70


def main() -> None:
    """Run the command line; Python's own code for errors, 1, would be a verdict of ``certify``."""
    try:
        from outrule.cli import run  # here, for it loads typer
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        remedy = " Install it again." if isinstance(error, ImportError) else ""
        with suppress(OSError):
            print(f"Error: outrule cannot be loaded ({reason}).{remedy}", file=sys.stderr)
        sys.exit(CANNOT_START)
    run()


if __name__ == "__main__":
    main()
