"""Print the section of CHANGELOG.md for a version; fail if it is not that of the package."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def notes(changelog: str, version: str) -> str:
    """What is below the heading of the version, up to the next version."""
    found = re.search(
        rf"^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## \[|\Z)", changelog, re.M | re.S
    )
    if found is None or not found[1].strip():
        sys.exit(f"CHANGELOG.md has no notes for {version}: rename the section [Unreleased].")
    return found[1].strip()


def version_of_package() -> str:
    text = (ROOT / "src/outrule/__init__.py").read_text(encoding="utf-8")
    return re.findall(r'^__version__ = "(.+)"$', text, re.M)[0]


if __name__ == "__main__":
    if sys.argv[1] != version_of_package():
        sys.exit(f"the tag says {sys.argv[1]} and the package {version_of_package()}.")
    print(notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), sys.argv[1]))
