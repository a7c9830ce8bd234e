"""Files that are whole or not there: what is written becomes visible at once, at the end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4


@contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """Give a draft to write; it takes the target's place when all went well, else it is removed."""
    draft = target.with_name(f".{uuid4().hex}{target.suffix}")
    try:
        yield draft
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def write_text(target: Path, text: str) -> None:
    """Write a text file, whole."""
    with whole_file(target) as draft:
        draft.write_text(text, encoding="utf-8")
